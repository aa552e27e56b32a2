//! Ports that lead to one device, as configured.

use std::net::Ipv4Addr;

use sluice_apps::hosts::Hosts;
use sluice_apps::topology::{Config, StaticBundle};
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_testkit::claims::arp;

use super::*;

const FIRST: SwitchPort = switch_port(1, 3);
const SECOND: SwitchPort = switch_port(1, 2);
const OTHER: SwitchPort = switch_port(1, 4);

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn config(ports: &[u32]) -> Config {
    let bundle =
        StaticBundle::new(DatapathId(1), ports.iter().map(|&port| PortNo(port)).collect()).unwrap();
    Config { bundles: vec![bundle], ..Config::default() }
}

/// A switch with a bundle of its ports 3 and 2, of which the first is preferred.
fn network(version: Version) -> SimulatedNetwork<Topology> {
    let mut network = SimulatedNetwork::new(version, [Topology::new(&config(&[3, 2]))]);
    network.add_switch(1, 4, 0);
    network.connect(1);
    network
}

#[test]
fn one_port_of_a_bundle_is_used_and_no_two_are_edge_ports_meanwhile() {
    for version in Versions::SUPPORTED.iter() {
        let mut network = network(version);
        for _ in 0..20 {
            network.run_for(MS * 100);
            let view = network.view(0);
            let used = [FIRST, SECOND].map(|at| view.attachment_port(at));
            assert!(used == [None; 2] || used == [Some(FIRST); 2], "{version} {used:?}");
        }
        assert_eq!(roles(&network, [FIRST, SECOND]), [PortRole::Bundle(FIRST); 2], "{version}");
        assert_eq!(roles(&network, [OTHER]), [PortRole::Edge]);
        assert_eq!(network.view(0).arrival_ports(FIRST), [SECOND.port, FIRST.port]);
        assert_eq!(network.view(0).arrival_ports(OTHER), [OTHER.port]);
        assert_eq!(network.metric("topology_ports_edge"), 4);
    }
}

#[test]
fn another_port_of_the_bundle_is_used_at_once_when_the_first_goes_down_and_until_it_is_back() {
    for is_deleted in [false, true] {
        let mut network = network(Version::V1_3);
        network.run_for(S * 2);
        if is_deleted {
            network.delete_port(FIRST);
        } else {
            network.bring_port_down(FIRST);
        }
        network.run_for(MS);
        assert_eq!(roles(&network, [SECOND]), [PortRole::Bundle(SECOND)]);
        if !is_deleted {
            assert_eq!(roles(&network, [FIRST]), [PortRole::Bundle(SECOND)], "its hosts are there");
            assert!(network.view(0).port(FIRST).is_some_and(|port| !port.is_up));
        }
        network.bring_port_up(FIRST);
        network.run_for(MS);
        assert_eq!(roles(&network, [FIRST, SECOND]), [PortRole::Pending, PortRole::Bundle(SECOND)]);
        network.run_for(S * 2);
        assert_eq!(roles(&network, [FIRST, SECOND]), [PortRole::Bundle(FIRST); 2]);
    }
}

/// Its device sends there at once, as hosts that are known at the port in use. That is no reason to look for what connects the two.
#[test]
fn a_port_of_a_bundle_that_comes_back_settles_once() {
    let apps = (Topology::new(&config(&[3, 2])), Hosts::default());
    let mut network = SimulatedNetwork::new(Version::V1_3, [apps]);
    network.add_switch(1, 4, 0);
    network.connect(1);
    network.run_for(S * 2);
    let frame = arp(MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), true);
    network.inject_frame(FIRST, &frame);
    network.bring_port_down(SECOND);
    // Just before a tick, so that the settling time ends with the one after it.
    network.run_for(MS * 240);
    assert_eq!(network.view(0).hosts().count(), 1);
    network.bring_port_up(SECOND);
    network.run_for(MS * 50);
    network.inject_frame(SECOND, &frame);
    network.run_for(MS * 250);
    assert_eq!(network.view(0).port_role(SECOND), PortRole::Bundle(FIRST));
}

#[test]
fn a_port_of_a_bundle_that_leads_to_a_switch_is_a_link() {
    let mut network = network(Version::V1_3);
    network.add_switch(2, 4, 0);
    network.connect(2);
    network.add_link(FIRST, B, Duration::ZERO);
    network.run_for(S * 2);
    assert_eq!(roles(&network, [FIRST, SECOND]), [PortRole::Link, PortRole::Bundle(SECOND)]);
}

#[test]
fn bundles_can_be_configured_while_switches_are_connected() {
    let mut network = network(Version::V1_3);
    network.run_for(S * 2);
    network.app_mut(0).configure(&config(&[2, 4]));
    network.run_for(S);
    assert_eq!(roles(&network, [SECOND, OTHER]), [PortRole::Bundle(SECOND); 2]);
    assert_eq!(roles(&network, [FIRST]), [PortRole::Edge]);
    network.app_mut(0).configure(&Config::default());
    network.run_for(S);
    assert_eq!(roles(&network, [FIRST, SECOND, OTHER]), [PortRole::Edge; 3]);
}
