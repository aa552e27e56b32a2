//! When links are found and lost.

use sluice_apps::topology::Config;
use sluice_openflow::MessageType;

use super::*;

#[test]
fn a_link_is_found_at_once_in_both_directions_and_other_ports_become_edge_ports() {
    for version in Versions::SUPPORTED.iter() {
        let mut network = pair(version);
        network.connect(1);
        network.run_for(MS * 100);
        network.connect(2);
        network.run_for(MS);
        let view = network.view(0);
        assert_eq!(view.link_from(A).map(|link| link.to), Some(B), "{version}");
        assert_eq!(view.link_from(B).map(|link| link.to), Some(A), "{version}");
        assert_eq!(roles(&network, [A, B]), [PortRole::Link; 2], "{version}");
        assert_eq!(roles(&network, [switch_port(1, 2), switch_port(2, 1)]), [PortRole::Pending; 2]);
        network.run_for(MS * 750);
        assert_eq!(
            roles(&network, [switch_port(1, 2), switch_port(2, 1)]),
            [PortRole::Edge; 2],
            "{version}"
        );
        assert_eq!((links(&network), network.metric("topology_ports_edge")), (2, 6), "{version}");
        // Two flow entries per switch send probes to the controller, whatever other entries match.
        assert_eq!(network.messages_to_switches(MessageType::FLOW_MOD), 4);
    }
}

/// As when two switches connect within a few milliseconds, and drop packet-ins until they know their controller.
#[test]
fn a_link_whose_first_probes_are_lost_in_both_directions_is_found_soon_however_rare_probes_are() {
    let config = Config { probe_interval: S * 600, ..Config::default() };
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::new(&config)]);
    for id in [1, 2] {
        network.add_switch(id, 4, 0);
        network.connect(id);
    }
    network.run_for(MS * 100);
    network.add_link(A, B, Duration::ZERO);
    network.run_for(MS * 500);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
}

#[test]
fn a_port_that_goes_down_loses_its_links_at_once() {
    for (down, up) in [(A, B), (B, A)] {
        let mut network = discovered_pair();
        network.bring_port_down(down);
        network.run_for(MS);
        assert_eq!(links(&network), 0);
        assert!(network.view(0).port(down).is_some_and(|port| !port.is_up));
        assert_eq!(roles(&network, [down, up]), [PortRole::Pending, PortRole::Link]);
        // The role of the port at the other end is discovered anew.
        network.run_for(S * 2);
        assert_eq!(roles(&network, [down, up]), [PortRole::Pending, PortRole::Edge]);
        network.bring_port_up(down);
        network.run_for(MS);
        assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
    }
}

#[test]
fn a_deleted_port_loses_its_links() {
    let mut network = discovered_pair();
    network.delete_port(A);
    network.run_for(MS);
    assert_eq!((links(&network), network.view(0).port(A)), (0, None));
    network.bring_port_up(A);
    network.run_for(MS);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
}

#[test]
fn a_link_that_fails_while_its_ports_stay_up_is_lost_after_three_probes_and_its_ports_half_a_minute_later()
 {
    let mut network = discovered_pair();
    network.remove_link(A);
    network.run_for(S * 2);
    assert_eq!(links(&network), 2);
    network.run_for(S * 3);
    assert_eq!((links(&network), network.metric("topology_links_lost")), (0, 2));
    network.run_for(S * 25);
    assert_eq!(roles(&network, [A, B]), [PortRole::Link; 2]);
    network.run_for(S * 10);
    assert_eq!(roles(&network, [A, B]), [PortRole::Edge; 2]);
    network.add_link(A, B, Duration::ZERO);
    network.run_for(S);
    assert_eq!(links(&network), 2);
}

#[test]
fn a_link_that_leads_to_another_port_is_replaced_and_its_old_port_becomes_an_edge_port() {
    let mut network = discovered_pair();
    network.remove_link(A);
    network.add_link(A, switch_port(2, 3), Duration::ZERO);
    network.run_for(S * 6);
    assert_eq!(network.view(0).link_from(A).map(|link| link.to), Some(switch_port(2, 3)));
    assert_eq!(
        roles(&network, [A, switch_port(2, 3), B]),
        [PortRole::Link, PortRole::Link, PortRole::Edge]
    );
    assert_eq!(links(&network), 2);
}

#[test]
fn a_port_stays_a_link_port_for_30_s_after_its_peer_has_disconnected() {
    let mut network = discovered_pair();
    network.disconnect(2);
    assert_eq!(links(&network), 0);
    assert_eq!(
        (network.view(0).switch(B.switch), network.view(0).port_role(A)),
        (None, PortRole::Link)
    );
    network.run_for(S * 29);
    assert_eq!(network.view(0).port_role(A), PortRole::Link);
    network.run_for(S * 2);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
    network.connect(2);
    network.run_for(MS);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
}

/// The first switch to reconnect must not take its port to the other switch for an edge port.
#[test]
fn a_switch_that_reconnects_keeps_its_link_ports_until_probes_show_otherwise() {
    let mut network = discovered_pair();
    network.disconnect(2);
    network.disconnect(1);
    network.run_for(S);
    network.connect(1);
    network.run_for(S * 20);
    assert_eq!((links(&network), roles(&network, [A])), (0, [PortRole::Link]));
    network.connect(2);
    network.run_for(S);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
    network.disconnect(2);
    network.disconnect(1);
    network.connect(1);
    network.run_for(S * 40);
    assert_eq!(roles(&network, [A]), [PortRole::Edge]);
    // The link is removed while both switches are disconnected.
    network.connect(2);
    network.run_for(S * 2);
    network.disconnect(1);
    network.disconnect(2);
    network.remove_link(A);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 3);
    assert_eq!((links(&network), roles(&network, [A, B])), (0, [PortRole::Link; 2]));
    network.run_for(S * 4);
    assert_eq!((links(&network), roles(&network, [A, B])), (0, [PortRole::Edge; 2]));
}

/// The next network of an emulator.
#[test]
fn a_switch_that_reconnects_with_other_ports_has_none_of_its_links() {
    let mut network = discovered_pair();
    network.disconnect(2);
    network.disconnect(1);
    network.remove_link(A);
    network.add_switch(1, 5, 0);
    network.connect(1);
    network.run_for(S);
    assert_eq!((links(&network), roles(&network, [A])), (0, [PortRole::Edge]));
}

#[test]
fn probes_in_flight_when_their_port_goes_down_are_ignored() {
    let mut network = discovered_pair();
    network.set_control_delay(2, MS * 200);
    // A probe is in flight on the slow control link while the port that sent it goes down.
    network.run_for(MS * 1150);
    let before = network.metric("topology_probes_outdated");
    network.bring_port_down(A);
    for _ in 0..50 {
        network.run_for(MS * 100);
        network.bring_port_up(A);
        network.run_for(MS * 50);
        network.bring_port_down(A);
        network.run_for(MS);
        assert_eq!(links(&network), 0);
    }
    assert!(network.metric("topology_probes_outdated") > before);
    network.run_for(S);
    assert_eq!(links(&network), 0);
}

#[test]
fn a_link_in_one_direction_only_is_not_used_for_forwarding() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 4, 0);
    network.add_switch(2, 4, 0);
    network.add_one_way_link(A, B, Duration::ZERO);
    network.connect(2);
    network.connect(1);
    network.run_for(S * 2);
    let view = network.view(0);
    assert_eq!((links(&network), view.links_of(A.switch).count()), (1, 0));
    assert_eq!(roles(&network, [A, B]), [PortRole::Link; 2]);
}

#[test]
fn two_ports_of_one_switch_can_be_linked() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 4, 0);
    network.add_link(A, switch_port(1, 3), Duration::ZERO);
    network.connect(1);
    network.run_for(S);
    assert_eq!(
        (links(&network), roles(&network, [A, switch_port(1, 3)])),
        (2, [PortRole::Link; 2])
    );
    network.bring_port_down(A);
    network.run_for(MS);
    assert_eq!(links(&network), 0);
}

#[test]
fn links_between_switches_of_different_workers_are_known_to_all_workers() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [(); 3].map(|()| Topology::default()));
    network.add_switch(1, 4, 0);
    network.add_switch(2, 4, 1);
    network.add_link(A, B, Duration::ZERO);
    network.connect(1);
    network.run_for(MS * 100);
    network.connect(2);
    network.run_for(MS);
    for worker in 0..3 {
        let view = network.view(worker);
        assert_eq!((view.links().count(), view.switch_count()), (2, 2));
        assert_eq!([view.port_role(A), view.port_role(B)], [PortRole::Link; 2]);
    }
    network.run_for(S);
    network.bring_port_down(A);
    network.run_for(MS);
    for worker in 0..3 {
        assert_eq!(network.view(worker).links().count(), 0);
    }
    network.bring_port_up(A);
    network.run_for(MS);
    assert_eq!(links(&network), 2);
    network.disconnect(2);
    network.run_for(MS);
    for worker in 0..3 {
        let view = network.view(worker);
        assert_eq!((view.links().count(), view.switch_count()), (0, 1));
    }
}

/// A worker receives a probe before the fact that the sending port is up.
#[test]
fn delays_between_workers_lose_no_link() {
    let rarely = Duration::from_secs(600);
    let cfg = Config { probe_interval: rarely, shared_interval: rarely, ..Config::default() };
    let mut network = SimulatedNetwork::new(Version::V1_3, [(); 2].map(|()| Topology::new(&cfg)));
    network.set_worker_delay(MS * 5);
    network.add_switch(1, 4, 0);
    network.add_switch(2, 4, 1);
    network.add_link(A, B, Duration::ZERO);
    network.connect(1);
    network.connect(2);
    for n in 0..10 {
        network.run_for(S);
        for worker in 0..2 {
            let view = network.view(worker);
            assert_eq!(view.links().count(), 2, "{n}");
            assert_eq!([view.port_role(A), view.port_role(B)], [PortRole::Link; 2], "{n}");
        }
        network.bring_port_down(A);
        network.bring_port_down(B);
        network.run_for(MS * n);
        network.bring_port_up(A);
        network.bring_port_up(B);
        network.run_for(MS * n);
    }
}

/// As over a control link whose queue fills.
#[test]
fn growing_delays_of_a_control_link_lose_no_link() {
    let mut network = discovered_pair();
    for delay in [MS * 1500, MS * 4800] {
        network.set_control_delay(2, delay);
        network.run_for(S * 10);
        assert_eq!((links(&network), network.metric("topology_links_lost")), (2, 0), "{delay:?}");
    }
    network.remove_link(A);
    network.run_for(S * 14);
    assert_eq!((links(&network), network.metric("topology_links_lost")), (0, 2));
}

#[test]
fn a_suspended_process_loses_no_link() {
    let mut network = discovered_pair();
    network.pause_workers(S * 60);
    network.run_for(S * 10);
    assert_eq!((links(&network), network.metric("topology_links_lost")), (2, 0));
}

/// Every change of the view makes all workers compute their paths anew.
#[test]
fn a_control_link_whose_delay_varies_changes_nothing_in_the_view() {
    let mut network = discovered_pair();
    let version = network.view(0).version();
    for delay in [MS * 200, MS, MS * 50] {
        network.set_control_delay(2, delay);
        network.run_for(S * 30);
    }
    assert_eq!(network.view(0).version(), version);
}

/// 16 spines with a link to each of 984 leaves.
#[test]
fn links_of_a_thousand_switches_are_found_at_once_and_probed_evenly() {
    let (spines, leaves) = (16u32, 984u32);
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    for spine in 1..=spines {
        network.add_switch(spine.into(), leaves, 0);
    }
    for leaf in 1..=leaves {
        let id = u64::from(100 + leaf);
        network.add_switch(id, spines, 0);
        for spine in 1..=spines {
            network.add_link(
                switch_port(spine.into(), leaf),
                switch_port(id, spine),
                Duration::ZERO,
            );
        }
    }
    (1..=u64::from(spines)).chain((1..=u64::from(leaves)).map(|leaf| 100 + leaf)).for_each(|id| {
        network.connect(id);
    });
    network.run_for(S);
    let ports = 2 * u64::from(spines * leaves);
    assert_eq!(links(&network) as u64, ports);
    // The rate limit allows 3000 probes per second.
    let interval = S * 31_488 / 3000;
    network.run_for(interval * 2);
    let (before, mut most) = (network.messages_to_switches(MessageType::PACKET_OUT), 0);
    for _ in 0..25 {
        let start = network.messages_to_switches(MessageType::PACKET_OUT);
        network.run_for(interval / 25);
        most = most.max(network.messages_to_switches(MessageType::PACKET_OUT) - start);
    }
    // All ports are link ports now, to which no broadcast probes are sent.
    let probes = network.messages_to_switches(MessageType::PACKET_OUT) - before;
    assert!(probes.abs_diff(ports) < ports / 20, "{probes} of {ports}");
    assert!(most < ports / 10, "{most} of {ports} in a quarter of a second");
    assert_eq!(links(&network) as u64, ports);
}
