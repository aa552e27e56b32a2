//! Start of a network with a distant controller, in virtual time: counts round trips.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sluice_apps::{Config, chain};
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkOptions, NetworkSimulation};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::Chain;
use sluice_sdk::view::PortRole;
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

/// Round-trip time to the controller.
const ROUND_TRIP: Duration = Duration::from_secs(1);

/// Interval at which a condition is checked.
const STEP: Duration = Duration::from_millis(10);

/// Interval between ticks of a switch in the controller.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

type ChainSimulation = NetworkSimulation<SimulatedEngine<Chain>>;

fn network(shape: &str, version: Version, apps: &[&str]) -> ChainSimulation {
    let one_way = LinkImpairments { delay: ROUND_TRIP / 2, ..LinkImpairments::default() };
    let versions = Versions::of(&[version]);
    let options = NetworkOptions {
        switch: EmulatedSwitchConfig { versions, ..EmulatedSwitchConfig::default() },
        control_up: one_way,
        control_down: one_way,
        ..NetworkOptions::default()
    };
    let names: Vec<_> = apps.iter().map(|&name| name.to_owned()).collect();
    let engine = SimulatedEngineOptions {
        workers: 1,
        conditions: Conditions::ideal(),
        ..SimulatedEngineOptions::default()
    };
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let controller =
        SimulatedEngine::new(&engine, start, |_| chain(&names, &Config::default()).unwrap());
    NetworkSimulation::new(Topology::from_text(shape).unwrap(), &options, start, controller)
        .unwrap()
}

/// The time at which `condition` becomes true.
#[track_caller]
fn time_until(
    net: &mut ChainSimulation,
    mut condition: impl FnMut(&mut ChainSimulation) -> bool,
) -> Duration {
    while !condition(net) {
        assert!(net.elapsed() < ROUND_TRIP * 20, "the condition never becomes true");
        net.run_for(STEP).unwrap();
    }
    net.elapsed()
}

/// Asserts that `took` is `trips` round trips, or longer by `tolerance` at most.
#[track_caller]
fn assert_round_trips(took: Duration, trips: f64, tolerance: Duration, what: &str) {
    let due = ROUND_TRIP.mul_f64(trips);
    assert!(
        took >= due && took <= due + tolerance,
        "{what}: took {took:?}, expected {trips} round trips"
    );
}

/// One round trip for TCP, one for HELLO and the requests, which include the table-miss entry, and one for the packet-in.
#[test]
fn the_first_packet_is_answered_after_three_round_trips_in_all_versions() {
    for version in Versions::SUPPORTED.iter() {
        let mut net = network("single,2", version, &["learning"]);
        let send_and_count = |net: &mut ChainSimulation| {
            let host = |n: usize| net.data_plane().host(n).unwrap().counters();
            let (packet_ins, received) =
                (net.data_plane().switch(0).unwrap().counters().packet_ins, host(1).frames_in);
            let (now, data_plane) = net.data_plane_mut();
            data_plane.announce(now, 0).unwrap();
            (packet_ins, received)
        };
        let sent = time_until(&mut net, |net| send_and_count(net).0 > 0);
        assert_round_trips(sent, 2.0, 3 * STEP, &format!("{version}: first packet-in"));
        let answered = time_until(&mut net, |net| send_and_count(net).1 > 0);
        assert_round_trips(answered, 3.0, 3 * STEP, &format!("{version}: first reply"));
    }
}

/// Links are discovered half a round trip after the ports, edge ports a round trip later.
#[test]
fn the_role_of_every_port_is_known_after_four_and_a_half_round_trips() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
        let mut net = network("leafspine,2,3,1", version, &["topology", "hosts", "forwarding"]);
        let count = |net: &ChainSimulation, role: PortRole| {
            let networks: Vec<_> = net.controller().networks().collect();
            let view = networks.first().unwrap().view();
            let ports = view.switches().flat_map(|(_, switch)| switch.ports.values());
            ports.filter(|port| port.role == role).count()
        };
        let linked = time_until(&mut net, |net| count(net, PortRole::Link) == 12);
        assert_round_trips(linked, 3.5, 3 * STEP, &format!("{version}: links"));
        let settled = time_until(&mut net, |net| count(net, PortRole::Edge) == 3);
        assert_round_trips(
            settled,
            4.5,
            TICK_INTERVAL + 3 * STEP,
            &format!("{version}: edge ports"),
        );
        let pairs = [(0, 1), (1, 2), (2, 0)];
        let pings = net.ping(pairs, IpFamily::V4, 10 * ROUND_TRIP).unwrap();
        assert!(pings.lost_pairs.is_empty(), "{version}: {pings:?}");
    }
}
