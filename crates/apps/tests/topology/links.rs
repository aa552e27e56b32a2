//! When links come and go, and how long they take.

use sluice_apps::topology::Config;
use sluice_openflow::MessageType;
use sluice_sdk::view::Link;

use super::*;

#[test]
fn a_wire_is_a_link_in_both_directions_at_once_and_all_else_an_edge() {
    for version in Versions::SPOKEN.iter() {
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
        // Whatever other rules say, probes come up.
        assert_eq!(network.messages_to_switches(MessageType::FLOW_MOD), 4);
    }
}

#[test]
fn a_port_that_goes_down_takes_its_links_along_at_once() {
    for (down, up) in [(A, B), (B, A)] {
        let mut network = settled_pair();
        network.bring_port_down(down);
        network.run_for(MS);
        assert_eq!(links(&network), 0);
        assert!(network.view(0).port(down).is_some_and(|port| !port.is_up));
        assert_eq!(roles(&network, [down, up]), [PortRole::Pending, PortRole::Link]);
        // Nobody is there who could forward: the other end is looked at anew.
        network.run_for(S * 2);
        assert_eq!(roles(&network, [down, up]), [PortRole::Pending, PortRole::Edge]);
        network.bring_port_up(down);
        network.run_for(MS);
        assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
    }
}

#[test]
fn a_port_that_is_taken_out_is_gone_with_its_links() {
    let mut network = settled_pair();
    network.delete_port(A);
    network.run_for(MS);
    assert_eq!((links(&network), network.view(0).port(A)), (0, None));
    network.bring_port_up(A);
    network.run_for(MS);
    assert_eq!((links(&network), roles(&network, [A, B])), (2, [PortRole::Link; 2]));
}

#[test]
fn a_wire_that_is_cut_unseen_is_missed_after_three_probes_and_its_ends_stay_links() {
    let mut network = settled_pair();
    network.remove_link(A);
    network.run_for(S * 2);
    assert_eq!(links(&network), 2);
    network.run_for(S * 3);
    assert_eq!((links(&network), network.metric("topology_links_lost")), (0, 2));
    network.run_for(S * 100);
    assert_eq!(roles(&network, [A, B]), [PortRole::Link; 2]);
    network.add_link(A, B, Duration::ZERO);
    network.run_for(S);
    assert_eq!(links(&network), 2);
}

#[test]
fn a_wire_that_leads_elsewhere_is_followed_and_who_it_led_to_is_looked_at_anew() {
    let mut network = settled_pair();
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
fn a_switch_that_is_gone_has_no_links_and_its_neighbour_waits_for_its_rules_to_end() {
    let mut network = settled_pair();
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

/// Whoever comes back first must not take the way to the other one for the port of a host.
#[test]
fn ports_of_switches_that_come_back_are_links_as_they_were_until_it_is_known_better() {
    let mut network = settled_pair();
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
    // Meanwhile both cables were pulled out.
    network.connect(2);
    network.run_for(S * 2);
    network.disconnect(1);
    network.disconnect(2);
    network.remove_link(A);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 40);
    assert_eq!((links(&network), roles(&network, [A, B])), (0, [PortRole::Edge; 2]));
}

#[test]
fn what_was_on_its_way_when_its_port_went_shows_no_link() {
    let mut network = settled_pair();
    network.set_control_delay(2, MS * 200);
    // A probe waits behind the delay while the port that it left goes down.
    network.run_for(MS * 1150);
    let before = network.metric("topology_probes_late");
    network.bring_port_down(A);
    for _ in 0..50 {
        network.run_for(MS * 100);
        network.bring_port_up(A);
        network.run_for(MS * 50);
        network.bring_port_down(A);
        network.run_for(MS);
        assert_eq!(links(&network), 0);
    }
    assert!(network.metric("topology_probes_late") > before);
    network.run_for(S);
    assert_eq!(links(&network), 0);
}

#[test]
fn a_link_with_one_direction_is_no_way() {
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
fn workers_find_links_between_their_switches_and_all_know_them() {
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

/// One worker sees that a probe came in before it hears that the port which it left is up.
#[test]
fn what_workers_hear_late_costs_no_link() {
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

/// Probes come later and later, as over a control link that fills.
#[test]
fn probes_that_wait_longer_each_time_lose_no_link() {
    let mut network = settled_pair();
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
fn a_process_that_slept_has_lost_no_link() {
    let mut network = settled_pair();
    network.pause_workers(S * 60);
    network.run_for(S * 10);
    assert_eq!((links(&network), network.metric("topology_links_lost")), (2, 0));
}

/// The way to either switch is taken off, though they are not as far away.
#[test]
fn the_delay_of_a_link_is_that_of_the_wire() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 4, 0);
    network.add_switch(2, 4, 0);
    network.set_control_delay(1, MS * 50);
    network.set_control_delay(2, MS * 10);
    network.add_link(A, B, MS * 20);
    network.connect(1);
    network.connect(2);
    network.run_for(S * 10);
    for (from, to) in [(A, B), (B, A)] {
        let link = network.view(0).link_to(to).copied();
        assert_eq!(link, Some(Link { from, to, delay: MS * 20 }));
    }
    let version = network.view(0).version();
    network.run_for(S * 100);
    assert_eq!(network.view(0).version(), version, "nothing new is told");
}

/// 16 spines with a link to each of 984 leaves: found at once, and probed evenly over as long as that takes.
#[test]
fn a_thousand_switches_are_found_and_probed_evenly() {
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
    // As many ports as that are not probed each second, but 3 000 of them.
    let interval = S * 31_488 / 3000;
    network.run_for(interval * 2);
    let (before, mut most) = (network.messages_to_switches(MessageType::PACKET_OUT), 0);
    for _ in 0..25 {
        let start = network.messages_to_switches(MessageType::PACKET_OUT);
        network.run_for(interval / 25);
        most = most.max(network.messages_to_switches(MessageType::PACKET_OUT) - start);
    }
    // All are links now: networks of others are not looked for there.
    let probes = network.messages_to_switches(MessageType::PACKET_OUT) - before;
    assert!(probes.abs_diff(ports) < ports / 20, "{probes} of {ports}");
    assert!(most < ports / 10, "{most} of {ports} in a quarter of a second");
    assert_eq!(links(&network) as u64, ports);
}
