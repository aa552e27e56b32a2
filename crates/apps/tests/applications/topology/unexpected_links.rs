//! Links that appear between ports which led to hosts: hosts relay probes, or a cable connects what was up before.

use sluice_apps::topology::{Config, UnexpectedLinks};
use sluice_openflow::EtherType;

use super::spoofing::capture_probe;
use super::*;

/// The ports of two hosts that relay probes.
const ENDS: [SwitchPort; 2] = [switch_port(1, 4), switch_port(2, 4)];

/// Two switches with one link whose ports have had their roles for long, with one or two workers.
fn settled_pair(unexpected_links: UnexpectedLinks, workers: usize) -> SimulatedNetwork<Topology> {
    let config = Config { unexpected_links, ..Config::default() };
    let apps = (0..workers).map(|_| Topology::new(&config));
    let mut network = SimulatedNetwork::new(Version::V1_3, apps);
    for id in [1, 2] {
        network.add_switch(id, 4, usize::try_from(id).unwrap_or_default() % workers);
        network.connect(id);
    }
    network.add_link(A, B, Duration::ZERO);
    network.run_for(S * 20);
    assert_eq!((links(&network), roles(&network, ENDS)), (2, [PortRole::Edge; 2]));
    network
}

fn relay(network: &mut SimulatedNetwork<Topology>) {
    network.add_link(ENDS[0], ENDS[1], Duration::ZERO);
}

/// Asserts that the log names both ports, and says what is done.
#[track_caller]
fn assert_is_reported(network: &mut SimulatedNetwork<Topology>, what: &str) {
    let reports = network.take_reports();
    let ends = [(2, 1), (1, 2)]
        .map(|(at, from)| format!(" dpid={at:016x} port=4 from_dpid={from:016x} from_port=4"));
    for end in &ends {
        let is_it = |line: &&String| line.ends_with(end) && line.contains(what);
        assert_eq!(reports.iter().filter(is_it).count(), 1, "{end}: {reports:?}");
    }
    assert_eq!(reports.len(), 2, "{reports:?}");
}

/// It took both ports out of service for 40 s, and nothing was logged.
#[test]
fn a_probe_that_is_injected_once_at_another_port_makes_no_link() {
    for workers in [1, 2] {
        let mut network = settled_pair(UnexpectedLinks::Report, workers);
        let captured = capture_probe(&mut network, ENDS[0], EtherType::LLDP);
        network.inject_frame(ENDS[1], &captured);
        network.run_for(MS * 20);
        let report = network.take_reports().concat();
        assert!(report.ends_with("port=4 from_dpid=0000000000000001 from_port=4"), "{report}");
        for _ in 0..10 {
            assert!(!roles(&network, ENDS).contains(&PortRole::Link));
            assert_eq!((network.view(0).port_role(ENDS[0]), links(&network)), (PortRole::Edge, 2));
            network.run_for(S);
        }
        assert_eq!(roles(&network, ENDS), [PortRole::Edge; 2]);
        assert_eq!(network.metric("topology_unexpected_links"), 1);
    }
}

#[test]
fn a_link_between_edge_ports_is_reported_and_used_if_it_stays() {
    for workers in [1, 2] {
        let mut network = settled_pair(UnexpectedLinks::Report, workers);
        relay(&mut network);
        network.run_for(S + MS * 500);
        assert_eq!(roles(&network, ENDS), [PortRole::SharedSegment(ENDS[0]); 2]);
        assert_is_reported(&mut network, "is used if it stays");
        network.run_for(MS * 1500);
        assert_eq!(links(&network), 2);
        network.run_for(S * 3);
        assert_eq!((links(&network), roles(&network, ENDS)), (4, [PortRole::Link; 2]));
        network.run_for(S * 60);
        assert_eq!((links(&network), network.take_reports()), (4, vec![]));
        assert_eq!(network.metric("topology_unexpected_links"), 2);
    }
}

#[test]
fn refused_links_between_edge_ports_are_unmanaged_segments() {
    for workers in [1, 2] {
        let mut network = settled_pair(UnexpectedLinks::Refuse, workers);
        relay(&mut network);
        network.run_for(S * 2);
        assert_is_reported(&mut network, "is taken for an unmanaged segment");
        for _ in 0..60 {
            network.run_for(S);
            assert_eq!(roles(&network, ENDS), [PortRole::SharedSegment(ENDS[0]); 2]);
            assert_eq!(links(&network), 2);
        }
        for end in ENDS {
            network.remove_link(end);
        }
        network.run_for(S * 20);
        assert_eq!((links(&network), roles(&network, ENDS)), (2, [PortRole::Edge; 2]));
    }
}

/// A host that takes its port down and up again before it relays probes is not believed: the other port was not down.
#[test]
fn a_port_that_has_just_come_up_needs_a_new_port_at_the_other_end() {
    let mut network = settled_pair(UnexpectedLinks::Refuse, 2);
    network.bring_port_down(ENDS[0]);
    network.run_for(S);
    network.bring_port_up(ENDS[0]);
    relay(&mut network);
    network.run_for(S * 10);
    assert_eq!(roles(&network, ENDS), [PortRole::SharedSegment(ENDS[0]); 2]);
    assert_eq!((links(&network), network.metric("topology_unexpected_links")), (2, 2));
}

#[test]
fn a_cable_that_brings_both_ports_up_is_a_link_at_once() {
    let mut network = settled_pair(UnexpectedLinks::Refuse, 2);
    for end in ENDS {
        network.bring_port_down(end);
    }
    network.run_for(S * 60);
    relay(&mut network);
    for end in ENDS {
        network.bring_port_up(end);
    }
    network.run_for(MS * 100);
    assert_eq!((links(&network), roles(&network, ENDS)), (4, [PortRole::Link; 2]));
    assert_eq!(network.take_reports(), Vec::<String>::new());
}

#[test]
fn a_switch_that_connects_late_has_its_links_at_once() {
    let mut network = SimulatedNetwork::new(
        Version::V1_3,
        [Topology::new(&Config { unexpected_links: UnexpectedLinks::Refuse, ..Config::default() })],
    );
    for id in [1, 2] {
        network.add_switch(id, 4, 0);
    }
    network.add_link(A, B, Duration::ZERO);
    network.connect(1);
    network.run_for(S * 60);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
    network.connect(2);
    network.run_for(MS * 100);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
    assert_eq!(network.take_reports(), Vec::<String>::new());
}

/// No port goes down, for example since a provider's network is between the switches.
#[test]
fn a_link_that_was_lost_and_returns_is_used_at_once() {
    for one_port_goes_down in [false, true] {
        let mut network = settled_pair(UnexpectedLinks::Refuse, 2);
        for end in [A, B] {
            network.remove_link(end);
        }
        if one_port_goes_down {
            network.bring_port_down(A);
        }
        network.run_for(S * 90);
        assert_eq!((links(&network), network.view(0).port_role(B)), (0, PortRole::Edge));
        network.add_link(A, B, Duration::ZERO);
        if one_port_goes_down {
            network.bring_port_up(A);
        }
        network.run_for(S + MS * 500);
        assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
        assert_eq!(network.take_reports(), Vec::<String>::new());
    }
}
