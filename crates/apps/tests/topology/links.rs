//! When links come and go, and how long they take.

use sluice_apps::topology::Config;
use sluice_openflow::MessageType;
use sluice_sdk::view::Link;

use super::*;

#[test]
fn a_wire_is_a_link_in_both_directions_at_once_and_all_else_an_edge() {
    for version in Versions::SPOKEN.iter() {
        let mut fabric = pair(version);
        fabric.up(1);
        fabric.run(MS * 100);
        fabric.up(2);
        fabric.run(MS);
        let view = fabric.view(0);
        assert_eq!(view.link_from(A).map(|link| link.to), Some(B), "{version}");
        assert_eq!(view.link_from(B).map(|link| link.to), Some(A), "{version}");
        assert_eq!(roles(&fabric, [A, B]), [PortRole::Link; 2], "{version}");
        assert_eq!(roles(&fabric, [place(1, 2), place(2, 1)]), [PortRole::Pending; 2]);
        fabric.run(MS * 750);
        assert_eq!(roles(&fabric, [place(1, 2), place(2, 1)]), [PortRole::Edge; 2], "{version}");
        assert_eq!((links(&fabric), fabric.gauge("topology_ports_edge")), (2, 6), "{version}");
        // Whatever other rules say, probes come up.
        assert_eq!(fabric.heard(MessageType::FLOW_MOD), 4);
    }
}

#[test]
fn a_port_that_goes_down_takes_its_links_along_at_once() {
    for (down, up) in [(A, B), (B, A)] {
        let mut fabric = settled_pair();
        fabric.set_port(down, false);
        fabric.run(MS);
        assert_eq!(links(&fabric), 0);
        assert!(fabric.view(0).port(down).is_some_and(|port| !port.is_up));
        assert_eq!(roles(&fabric, [down, up]), [PortRole::Pending, PortRole::Link]);
        // Nobody is there who could forward: the other end is looked at anew.
        fabric.run(S * 2);
        assert_eq!(roles(&fabric, [down, up]), [PortRole::Pending, PortRole::Edge]);
        fabric.set_port(down, true);
        fabric.run(MS);
        assert_eq!((links(&fabric), roles(&fabric, [A, B])), (2, [PortRole::Link; 2]));
    }
}

#[test]
fn a_port_that_is_taken_out_is_gone_with_its_links() {
    let mut fabric = settled_pair();
    fabric.remove_port(A);
    fabric.run(MS);
    assert_eq!((links(&fabric), fabric.view(0).port(A)), (0, None));
    fabric.set_port(A, true);
    fabric.run(MS);
    assert_eq!((links(&fabric), roles(&fabric, [A, B])), (2, [PortRole::Link; 2]));
}

#[test]
fn a_wire_that_is_cut_unseen_is_missed_after_three_probes_and_its_ends_stay_links() {
    let mut fabric = settled_pair();
    fabric.cut(A);
    fabric.run(S * 2);
    assert_eq!(links(&fabric), 2);
    fabric.run(S * 3);
    assert_eq!((links(&fabric), fabric.gauge("topology_links_lost")), (0, 2));
    fabric.run(S * 100);
    assert_eq!(roles(&fabric, [A, B]), [PortRole::Link; 2]);
    fabric.wire(A, B, Duration::ZERO);
    fabric.run(S);
    assert_eq!(links(&fabric), 2);
}

#[test]
fn a_wire_that_leads_elsewhere_is_followed_and_who_it_led_to_is_looked_at_anew() {
    let mut fabric = settled_pair();
    fabric.cut(A);
    fabric.wire(A, place(2, 3), Duration::ZERO);
    fabric.run(S * 6);
    assert_eq!(fabric.view(0).link_from(A).map(|link| link.to), Some(place(2, 3)));
    assert_eq!(
        roles(&fabric, [A, place(2, 3), B]),
        [PortRole::Link, PortRole::Link, PortRole::Edge]
    );
    assert_eq!(links(&fabric), 2);
}

#[test]
fn a_switch_that_is_gone_has_no_links_and_its_neighbour_waits_for_its_rules_to_end() {
    let mut fabric = settled_pair();
    fabric.down(2);
    assert_eq!(links(&fabric), 0);
    assert_eq!(
        (fabric.view(0).switch(B.switch), fabric.view(0).port_role(A)),
        (None, PortRole::Link)
    );
    fabric.run(S * 29);
    assert_eq!(fabric.view(0).port_role(A), PortRole::Link);
    fabric.run(S * 2);
    assert_eq!(fabric.view(0).port_role(A), PortRole::Edge);
    fabric.up(2);
    fabric.run(MS);
    assert_eq!((links(&fabric), roles(&fabric, [A, B])), (2, [PortRole::Link; 2]));
}

/// Whoever comes back first must not take the way to the other one for the port of a host.
#[test]
fn ports_of_switches_that_come_back_are_links_as_they_were_until_it_is_known_better() {
    let mut fabric = settled_pair();
    fabric.down(2);
    fabric.down(1);
    fabric.run(S);
    fabric.up(1);
    fabric.run(S * 20);
    assert_eq!((links(&fabric), roles(&fabric, [A])), (0, [PortRole::Link]));
    fabric.up(2);
    fabric.run(S);
    assert_eq!((links(&fabric), roles(&fabric, [A, B])), (2, [PortRole::Link; 2]));
    fabric.down(2);
    fabric.down(1);
    fabric.up(1);
    fabric.run(S * 40);
    assert_eq!(roles(&fabric, [A]), [PortRole::Edge]);
    // Meanwhile both cables were pulled out.
    fabric.up(2);
    fabric.run(S * 2);
    fabric.down(1);
    fabric.down(2);
    fabric.cut(A);
    fabric.up(1);
    fabric.up(2);
    fabric.run(S * 40);
    assert_eq!((links(&fabric), roles(&fabric, [A, B])), (0, [PortRole::Edge; 2]));
}

#[test]
fn what_was_on_its_way_when_its_port_went_shows_no_link() {
    let mut fabric = settled_pair();
    fabric.set_delay(2, MS * 200);
    // A probe waits behind the delay while the port that it left goes down.
    fabric.run(MS * 1150);
    let before = fabric.gauge("topology_probes_late");
    fabric.set_port(A, false);
    for _ in 0..50 {
        fabric.run(MS * 100);
        fabric.set_port(A, true);
        fabric.run(MS * 50);
        fabric.set_port(A, false);
        fabric.run(MS);
        assert_eq!(links(&fabric), 0);
    }
    assert!(fabric.gauge("topology_probes_late") > before);
    fabric.run(S);
    assert_eq!(links(&fabric), 0);
}

#[test]
fn a_link_with_one_direction_is_no_way() {
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    fabric.add(1, 4, 0);
    fabric.add(2, 4, 0);
    fabric.wire_one_way(A, B, Duration::ZERO);
    fabric.up(2);
    fabric.up(1);
    fabric.run(S * 2);
    let view = fabric.view(0);
    assert_eq!((links(&fabric), view.links_of(A.switch).count()), (1, 0));
    assert_eq!(roles(&fabric, [A, B]), [PortRole::Link; 2]);
}

#[test]
fn two_ports_of_one_switch_can_be_linked() {
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    fabric.add(1, 4, 0);
    fabric.wire(A, place(1, 3), Duration::ZERO);
    fabric.up(1);
    fabric.run(S);
    assert_eq!((links(&fabric), roles(&fabric, [A, place(1, 3)])), (2, [PortRole::Link; 2]));
    fabric.set_port(A, false);
    fabric.run(MS);
    assert_eq!(links(&fabric), 0);
}

#[test]
fn workers_find_links_between_their_switches_and_all_know_them() {
    let mut fabric = Fabric::new(Version::V1_3, [(); 3].map(|()| Topology::default()));
    fabric.add(1, 4, 0);
    fabric.add(2, 4, 1);
    fabric.wire(A, B, Duration::ZERO);
    fabric.up(1);
    fabric.run(MS * 100);
    fabric.up(2);
    fabric.run(MS);
    for worker in 0..3 {
        let view = fabric.view(worker);
        assert_eq!((view.links().count(), view.switches_len()), (2, 2));
        assert_eq!([view.port_role(A), view.port_role(B)], [PortRole::Link; 2]);
    }
    fabric.run(S);
    fabric.set_port(A, false);
    fabric.run(MS);
    for worker in 0..3 {
        assert_eq!(fabric.view(worker).links().count(), 0);
    }
    fabric.set_port(A, true);
    fabric.run(MS);
    assert_eq!(links(&fabric), 2);
    fabric.down(2);
    fabric.run(MS);
    for worker in 0..3 {
        let view = fabric.view(worker);
        assert_eq!((view.links().count(), view.switches_len()), (0, 1));
    }
}

/// One worker sees that a probe came in before it hears that the port which it left is up.
#[test]
fn what_workers_hear_late_costs_no_link() {
    let rarely = Duration::from_secs(600);
    let cfg = Config { probe_interval: rarely, shared_interval: rarely, ..Config::default() };
    let mut fabric = Fabric::new(Version::V1_3, [(); 2].map(|()| Topology::new(&cfg)));
    fabric.set_hop(MS * 5);
    fabric.add(1, 4, 0);
    fabric.add(2, 4, 1);
    fabric.wire(A, B, Duration::ZERO);
    fabric.up(1);
    fabric.up(2);
    for n in 0..10 {
        fabric.run(S);
        for worker in 0..2 {
            let view = fabric.view(worker);
            assert_eq!(view.links().count(), 2, "{n}");
            assert_eq!([view.port_role(A), view.port_role(B)], [PortRole::Link; 2], "{n}");
        }
        for is_up in [false, true] {
            fabric.set_port(A, is_up);
            fabric.set_port(B, is_up);
            fabric.run(MS * n);
        }
    }
}

/// Probes come later and later, as over a control link that fills.
#[test]
fn probes_that_wait_longer_each_time_lose_no_link() {
    let mut fabric = settled_pair();
    for delay in [MS * 1500, MS * 4800] {
        fabric.set_delay(2, delay);
        fabric.run(S * 10);
        assert_eq!((links(&fabric), fabric.gauge("topology_links_lost")), (2, 0), "{delay:?}");
    }
    fabric.cut(A);
    fabric.run(S * 14);
    assert_eq!((links(&fabric), fabric.gauge("topology_links_lost")), (0, 2));
}

#[test]
fn a_process_that_slept_has_lost_no_link() {
    let mut fabric = settled_pair();
    fabric.freeze(S * 60);
    fabric.run(S * 10);
    assert_eq!((links(&fabric), fabric.gauge("topology_links_lost")), (2, 0));
}

/// The way to either switch is taken off, though they are not as far away.
#[test]
fn the_delay_of_a_link_is_that_of_the_wire() {
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    fabric.add(1, 4, 0);
    fabric.add(2, 4, 0);
    fabric.set_delay(1, MS * 50);
    fabric.set_delay(2, MS * 10);
    fabric.wire(A, B, MS * 20);
    fabric.up(1);
    fabric.up(2);
    fabric.run(S * 10);
    for (from, to) in [(A, B), (B, A)] {
        let link = fabric.view(0).link_to(to).copied();
        assert_eq!(link, Some(Link { from, to, delay: MS * 20 }));
    }
    let version = fabric.view(0).version();
    fabric.run(S * 100);
    assert_eq!(fabric.view(0).version(), version, "nothing new is told");
}

/// 16 spines with a link to each of 984 leaves: found at once, and probed evenly over as long as that takes.
#[test]
fn a_thousand_switches_are_found_and_probed_evenly() {
    let (spines, leaves) = (16u32, 984u32);
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    for spine in 1..=spines {
        fabric.add(spine.into(), leaves, 0);
    }
    for leaf in 1..=leaves {
        let id = u64::from(100 + leaf);
        fabric.add(id, spines, 0);
        for spine in 1..=spines {
            fabric.wire(place(spine.into(), leaf), place(id, spine), Duration::ZERO);
        }
    }
    (1..=u64::from(spines)).chain((1..=u64::from(leaves)).map(|leaf| 100 + leaf)).for_each(|id| {
        fabric.up(id);
    });
    fabric.run(S);
    let ports = 2 * u64::from(spines * leaves);
    assert_eq!(links(&fabric) as u64, ports);
    // As many ports as that are not probed each second, but 3 000 of them.
    let interval = S * 31_488 / 3000;
    fabric.run(interval * 2);
    let (before, mut most) = (fabric.heard(MessageType::PACKET_OUT), 0);
    for _ in 0..25 {
        let start = fabric.heard(MessageType::PACKET_OUT);
        fabric.run(interval / 25);
        most = most.max(fabric.heard(MessageType::PACKET_OUT) - start);
    }
    // All are links now: networks of others are not looked for there.
    let probes = fabric.heard(MessageType::PACKET_OUT) - before;
    assert!(probes.abs_diff(ports) < ports / 20, "{probes} of {ports}");
    assert!(most < ports / 10, "{most} of {ports} in a quarter of a second");
    assert_eq!(links(&fabric) as u64, ports);
}
