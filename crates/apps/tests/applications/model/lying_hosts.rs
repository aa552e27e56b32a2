//! Hosts that claim the addresses of others or make up hosts, in random networks: nobody's address is taken over, and nobody is
//! forgotten, on any worker.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sluice_apps::{Config, chain, hosts};
use sluice_base::Rng;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkOptions, NetworkSimulation, PingSummary};
use sluice_emu::topology::Topology;
use sluice_openflow::{MacAddr, Version};
use sluice_sdk::App;
use sluice_sdk::Chain;
use sluice_testkit::claims::{arp, claim, misplaced_host};
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

use super::{STARTUP_TIME, switch_config};

const RUNS: u64 = 12;

const SHAPES: [&str; 4] = ["ring,4", "mesh,4", "leafspine,2,4,1", "linear,3"];

/// Claims in one network, on average one in 5 ms.
const CLAIMS: u32 = 2_000;

/// Round-trip times of control connections are up to 200 ms, longer than a host at a near switch may take to answer.
const CONTROL_DELAY_MAX_MS: u32 = 100;

type Simulation = NetworkSimulation<SimulatedEngine<Chain>>;

/// Workers of a simulated controller.
const WORKERS_MAX: u32 = 4;

fn network(seed: u64, rng: &mut Rng, config: &Config) -> Simulation {
    let shape = SHAPES.get(rng.below(4) as usize).unwrap();
    let versions = [Version::V1_0, Version::V1_3, Version::V1_5];
    let version = *versions.get(rng.below(3) as usize).unwrap();
    let delay = Duration::from_millis(rng.below(CONTROL_DELAY_MAX_MS).into());
    let control = LinkImpairments { delay, ..LinkImpairments::default() };
    let options = NetworkOptions {
        seed,
        switch: switch_config(version),
        control_up: control,
        control_down: control,
        ..NetworkOptions::default()
    };
    let workers = 1 + rng.below(WORKERS_MAX) as usize;
    let engine = SimulatedEngineOptions {
        seed,
        workers,
        conditions: Conditions::ideal(),
        ..SimulatedEngineOptions::default()
    };
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let names = ["topology", "hosts", "forwarding"].map(str::to_owned);
    let controller = SimulatedEngine::new(&engine, start, |_| chain(&names, config).unwrap());
    let topology = Topology::from_text(shape).unwrap();
    NetworkSimulation::new(topology, &options, start, controller).unwrap()
}

/// Checks that all workers know each host at its port, as the owner of its address.
fn check_hosts(net: &Simulation, context: &str) {
    for view in net.controller().networks().map(sluice_sdk::Network::view) {
        let misplaced = misplaced_host(net.data_plane(), view);
        assert_eq!(misplaced, None, "{context}");
    }
}

#[test]
fn no_address_of_a_host_that_answers_is_taken_over() {
    for seed in 1..=RUNS {
        let mut rng = Rng::new(seed);
        let mut net = network(seed, &mut rng, &Config::default());
        let context = format!("seed {seed}");
        net.run_for(STARTUP_TIME).unwrap();
        let topology = net.data_plane().topology().clone();
        let pairs: Vec<_> = PingSummary::all_pairs(&topology).collect();
        for _ in 0..2 {
            net.ping(pairs.clone(), IpFamily::V4, Duration::from_secs(3)).unwrap();
        }
        check_hosts(&net, &context);
        let hosts = u32::try_from(topology.hosts.len()).unwrap();
        for _ in 0..CLAIMS {
            let [liar, victim] = [(); 2].map(|()| rng.below(hosts) as usize);
            if liar != victim {
                let [from, of] = [liar, victim].map(|n| topology.hosts.get(n).unwrap());
                net.send_frame(liar, claim(&mut rng, from, of)).unwrap();
            }
            net.run_for(Duration::from_millis(rng.below(10).into())).unwrap();
            check_hosts(&net, &context);
        }
        let lost = net.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs;
        assert!(lost.is_empty(), "{context}: {lost:?}");
        check_hosts(&net, &context);
        let mut conflicts = 0;
        for app in net.controller().apps() {
            app.metrics(&mut |metric| {
                conflicts += if metric.name == "hosts_conflicts" { metric.value } else { 0 };
            });
        }
        assert!(conflicts > u64::from(hosts), "{context}: {conflicts}");
    }
}

/// Hosts at one port, and in the table.
const LIMITS: (u32, u32) = (40, 64);

/// Frames from made-up hosts, some of which have addresses.
const MADE_UP: u32 = 3_000;

/// The controller probes hosts within this time at crowded and full ports, and hosts of the first flood have gone.
const QUIET_TIME: Duration = Duration::from_secs(30);

#[test]
fn made_up_hosts_displace_no_host_that_answers() {
    let (per_port_max, hosts_max) = LIMITS;
    let timeout = Duration::from_secs(20);
    let hosts = hosts::Config { per_port_max, hosts_max, timeout, ..hosts::Config::default() };
    let config = Config { hosts, ..Config::default() };
    for seed in 1..=RUNS {
        let mut rng = Rng::new(seed);
        let mut net = network(seed, &mut rng, &config);
        let context = format!("seed {seed}");
        net.run_for(STARTUP_TIME).unwrap();
        let topology = net.data_plane().topology().clone();
        let pairs: Vec<_> = PingSummary::all_pairs(&topology).collect();
        for _ in 0..2 {
            net.ping(pairs.clone(), IpFamily::V4, Duration::from_secs(3)).unwrap();
        }
        check_hosts(&net, &context);
        let senders = 1 + rng.below(2);
        for n in 0..MADE_UP {
            let mac = MacAddr::from_u64(0x0200_0100_0000 + u64::from(rng.below(1 << 20)));
            let ip = Ipv4Addr::from(0x0a01_0000 + rng.below(1 << 16));
            let mut frame = arp(mac, ip, true);
            if rng.below(2) == 0 {
                frame.truncate(12);
                frame.extend([0x88, 0xb5]);
            }
            frame.resize(60, 0);
            net.send_frame(rng.below(senders) as usize, frame).unwrap();
            net.run_for(Duration::from_millis(rng.below(4).into())).unwrap();
            if n % 16 == 0 {
                check_hosts(&net, &context);
                for network in net.controller().networks() {
                    // Each worker may learn a host before it hears of those that the others have learned.
                    let count = network.view().host_count();
                    assert!(
                        count < hosts_max as usize + WORKERS_MAX as usize,
                        "{context}: {count}"
                    );
                }
            }
        }
        let lost = net.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs;
        assert!(lost.is_empty(), "{context}: {lost:?}");
        net.run_for(QUIET_TIME).unwrap();
        check_hosts(&net, &context);
        let known = net.controller().networks().map(|network| network.view().host_count());
        assert_eq!(known.max(), Some(topology.hosts.len()), "{context}");
    }
}
