//! Many hosts are removed at once, and what a switch that takes nothing means for its hosts.

use std::time::Duration;

use sluice_apps::hosts::Config;
use sluice_openflow::{MacAddr, Version};
use sluice_sdk::view::SwitchPort;
use sluice_testkit::switch_port;

use crate::hosts::frames::{mac, plain, who_has};
use crate::hosts::test_network::TestNetwork;

/// The application examines no more hosts in one iteration. The change of the port is a fact as well.
const FACTS_PER_ITERATION_MAX: usize = 256 + 1;

const HOSTS: u64 = 10_000;

fn host(n: u64) -> MacAddr {
    MacAddr::from_u64(0x0200_0001_0000 + n)
}

/// Two workers; many hosts at one port, and one at another port of the same switch.
fn network_with_hosts(at: SwitchPort) -> TestNetwork {
    let cfg = Config { per_port_max: 0, ..Config::default() };
    let mut net = TestNetwork::new(Version::V1_3, 2, &cfg);
    net.receive(switch_port(1, 2), &plain(mac('z'), mac('y')));
    for n in 0..HOSTS {
        net.receive(at, &plain(host(n), mac('y')));
    }
    assert_eq!(net.workers[0].network.view().host_count() as u64, HOSTS + 1);
    net
}

#[test]
fn the_hosts_of_a_port_that_goes_down_are_removed_over_several_iterations() {
    let at = switch_port(1, 1);
    let mut net = network_with_hosts(at);
    net.now += Duration::from_millis(1);
    net.begin_port_down(at);
    let mut iterations = 0;
    while net.workers.iter().any(|worker| worker.network.wants_iteration()) {
        let facts = net.iterate();
        assert!(facts <= FACTS_PER_ITERATION_MAX, "{facts}");
        iterations += 1;
    }
    assert!(iterations >= 10, "{iterations}");
    for worker in &net.workers {
        assert_eq!(worker.network.view().host_count(), 1);
    }
    assert_eq!(net.location(mac('z')), Some(switch_port(1, 2)));
    assert_eq!(net.metric("hosts"), 1);
}

#[test]
fn a_host_that_is_seen_again_during_the_removal_stays_and_the_others_are_removed() {
    let at = switch_port(1, 1);
    let mut net = network_with_hosts(at);
    net.now += Duration::from_millis(1);
    net.begin_port_down(at);
    for _ in 0..5 {
        net.iterate();
    }
    net.now += Duration::from_millis(1);
    net.begin_port_up(at);
    let [first, last] = [host(0), host(HOSTS - 1)];
    assert_eq!((net.location(first), net.location(last)), (None, Some(at)));
    for again in [first, last] {
        net.receive(at, &plain(again, mac('y')));
    }
    assert_eq!(net.workers[0].network.view().host_count(), 3);
    assert_eq!((net.location(first), net.location(last)), (Some(at), Some(at)));
    // The port goes down once more while nothing is left to do.
    net.port_down(at);
    assert_eq!(net.workers[1].network.view().host_count(), 1);
}

#[test]
fn a_host_is_not_removed_because_its_switch_took_no_probes() {
    let cfg = Config { timeout: Duration::from_secs(60), probes: 3, ..Config::default() };
    let mut net = TestNetwork::new(Version::V1_3, 2, &cfg);
    net.receive(switch_port(2, 1), &who_has(mac('a'), "10.0.0.1", "10.0.0.9"));
    net.take_sent();
    net.has_room = false;
    net.wait_ms(100_000);
    assert!(net.take_sent().is_empty());
    assert_eq!(net.location(mac('a')), Some(switch_port(2, 1)));
    net.has_room = true;
    net.wait_ms(2_000);
    assert!(!net.take_sent().is_empty());
    net.wait_ms(10_000);
    assert_eq!(net.location(mac('a')), None);
}
