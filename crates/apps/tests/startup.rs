//! A network starts behind control links that are far away. What it takes is counted in round trips, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sluice_apps::{Chain, Config};
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkOptions, NetworkSimulation};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::view::PortRole;
use sluice_testkit::SimulatedController;

/// To the controller and back.
const TRIP: Duration = Duration::from_secs(1);

/// What is done by looking again and again is seen within this.
const STEP: Duration = Duration::from_millis(10);

/// How often the controller looks at each switch.
const LOOKED_EVERY: Duration = Duration::from_millis(250);

type Network = NetworkSimulation<SimulatedController<Chain>>;

fn network(shape: &str, version: Version, apps: &[&str]) -> Network {
    let half = LinkImpairments { delay: TRIP / 2, ..LinkImpairments::default() };
    let versions = Versions::of(&[version]);
    let options = NetworkOptions {
        switch: EmulatedSwitchConfig { versions, ..EmulatedSwitchConfig::default() },
        control_up: half,
        control_down: half,
        ..NetworkOptions::default()
    };
    let names: Vec<_> = apps.iter().map(|&name| name.to_owned()).collect();
    let controller = SimulatedController::new([Chain::new(&names, &Config::default()).unwrap()], 1);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    NetworkSimulation::new(Topology::from_text(shape).unwrap(), &options, start, controller)
        .unwrap()
}

/// When `is_so` first, looking again every step.
#[track_caller]
fn first(net: &mut Network, mut is_so: impl FnMut(&mut Network) -> bool) -> Duration {
    while !is_so(net) {
        assert!(net.elapsed() < TRIP * 20, "it never is");
        net.run_for(STEP).unwrap();
    }
    net.elapsed()
}

/// Whether `took` is so many round trips, and not a step more.
#[track_caller]
fn assert_trips(took: Duration, trips: f64, more: Duration, what: &str) {
    let due = TRIP.mul_f64(trips);
    assert!(took >= due && took <= due + more, "{what}: {took:?}, not {trips} round trips");
}

/// One trip for TCP, one for HELLO and the questions, with which the rule comes that sends frames up; the third is the
/// frame's own.
#[test]
fn the_first_frame_is_answered_after_three_round_trips_in_any_version() {
    for version in Versions::SPOKEN.iter() {
        let mut net = network("single,2", version, &["learning"]);
        let talk = |net: &mut Network| {
            let host = |n: usize| net.data_plane().host(n).unwrap().counters();
            let (sent_up, heard) =
                (net.data_plane().switch(0).unwrap().counters().packet_ins, host(1).frames_in);
            let (now, fabric) = net.data_plane_mut();
            fabric.announce(now, 0).unwrap();
            (sent_up, heard)
        };
        let asked = first(&mut net, |net| talk(net).0 > 0);
        assert_trips(asked, 2.0, 3 * STEP, &format!("{version}: asked"));
        let answered = first(&mut net, |net| talk(net).1 > 0);
        assert_trips(answered, 3.0, 3 * STEP, &format!("{version}: answered"));
    }
}

/// Links are known half a round trip after the ports; ports without one a round trip later.
#[test]
fn every_port_is_known_after_four_and_a_half_round_trips() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut net = network("leafspine,2,3,1", version, &["topology", "hosts", "forwarding"]);
        let count = |net: &Network, role: PortRole| {
            let networks: Vec<_> = net.controller().networks().collect();
            let view = networks.first().unwrap().view();
            let ports = view.switches().flat_map(|(_, switch)| switch.ports.values());
            ports.filter(|port| port.role == role).count()
        };
        let linked = first(&mut net, |net| count(net, PortRole::Link) == 12);
        assert_trips(linked, 3.5, 3 * STEP, &format!("{version}: links"));
        let settled = first(&mut net, |net| count(net, PortRole::Edge) == 3);
        assert_trips(settled, 4.5, LOOKED_EVERY + 3 * STEP, &format!("{version}: hosts' ports"));
        let pairs = [(0, 1), (1, 2), (2, 0)];
        let pings = net.ping(pairs, IpFamily::V4, 10 * TRIP).unwrap();
        assert!(pings.lost_pairs.is_empty(), "{version}: {pings:?}");
    }
}
