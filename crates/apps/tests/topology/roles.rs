//! What ports are that lead to no switch of ours, or not only there.

use super::*;

/// Three switches whose first ports a bridge of others joins.
fn around_a_bridge(workers: usize) -> Fabric<Topology> {
    let apps = (0..workers).map(|_| Topology::default());
    let mut fabric = Fabric::new(Version::V1_3, apps);
    for id in 1..=3u8 {
        fabric.add(id.into(), 2, usize::from(id) % workers);
    }
    fabric.bridge(&[place(1, 1), place(2, 1), place(3, 1)]);
    fabric
}

const AROUND: [SwitchPort; 3] = [place(1, 1), place(2, 1), place(3, 1)];

#[test]
fn ports_of_one_foreign_network_have_the_smallest_speak_for_all() {
    for workers in 1..=3 {
        let mut fabric = around_a_bridge(workers);
        for id in [3, 1, 2] {
            fabric.up(id);
            fabric.run(MS * 10);
        }
        fabric.run(MS * 250);
        // Before it is an edge, a port is known to be none.
        assert_eq!(roles(&fabric, AROUND), [PortRole::SharedSegment(place(1, 1)); 3]);
        fabric.run(S * 60);
        assert_eq!(roles(&fabric, AROUND), [PortRole::SharedSegment(place(1, 1)); 3]);
        assert_eq!(fabric.view(0).links().count(), 0);
        assert_eq!(fabric.gauge("topology_ports_shared"), 3);
        fabric.set_port(place(1, 1), false);
        fabric.run(MS);
        let second = PortRole::SharedSegment(place(2, 1));
        assert_eq!(roles(&fabric, AROUND), [PortRole::Pending, second, second]);
        fabric.down(2);
        fabric.run(S);
        assert_eq!(fabric.view(0).port_role(place(3, 1)), PortRole::Edge);
    }
}

#[test]
fn a_network_that_joins_edges_later_is_noticed() {
    let mut fabric = settled_pair();
    fabric.bridge(&[place(1, 4), place(2, 4)]);
    fabric.run(S * 6);
    assert_eq!(
        roles(&fabric, [place(1, 4), place(2, 4)]),
        [PortRole::SharedSegment(place(1, 4)); 2]
    );
    assert_eq!(links(&fabric), 2);
}

/// Something between three ports forwards what no bridge should.
#[test]
fn three_ports_with_lldp_between_all_of_them_are_no_link() {
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    for id in 1..=3 {
        fabric.add(id, 2, 0);
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        fabric.wire(AROUND[a], AROUND[b], Duration::ZERO);
    }
    for id in 1..=3 {
        fabric.up(id);
    }
    fabric.run(S * 10);
    assert_eq!(roles(&fabric, AROUND), [PortRole::SharedSegment(place(1, 1)); 3]);
    assert_eq!(links(&fabric), 0);
    fabric.down(3);
    fabric.run(S * 5);
    assert_eq!(links(&fabric), 2);
    assert_eq!(roles(&fabric, [place(1, 1), place(2, 1)]), [PortRole::Link; 2]);
}

#[test]
fn a_port_at_which_comes_in_what_left_is_kept_out() {
    let mut fabric = settled_pair();
    let looped = place(1, 3);
    fabric.wire_one_way(looped, looped, Duration::ZERO);
    fabric.run(S * 2);
    assert_eq!(fabric.view(0).port_role(looped), PortRole::Pending);
    assert_eq!(fabric.gauge("topology_ports_looped"), 1);
    let reports = fabric.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("comes in again"), "{reports:?}");
    fabric.run(S * 20);
    assert_eq!((links(&fabric), fabric.take_reports().len()), (2, 0));
    fabric.cut(looped);
    fabric.run(S * 20);
    assert_eq!(fabric.view(0).port_role(looped), PortRole::Edge);
}

/// Until anything of ours would have come in, as far away as switches are.
#[test]
fn a_port_settles_only_after_the_longest_way_there_and_back() {
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    fabric.add(1, 2, 0);
    fabric.add(2, 2, 0);
    fabric.set_delay(2, MS * 500);
    fabric.up(2);
    fabric.run(S * 2);
    fabric.up(1);
    fabric.run(MS * 900);
    assert_eq!(fabric.view(0).port_role(A), PortRole::Pending);
    fabric.run(MS * 600);
    assert_eq!(fabric.view(0).port_role(A), PortRole::Edge);
}

#[test]
fn a_port_that_is_down_is_nothing_until_it_is_up() {
    let mut fabric = pair(Version::V1_3);
    fabric.set_port(place(1, 2), false);
    fabric.up(1);
    fabric.run(S * 5);
    assert_eq!(fabric.view(0).port_role(place(1, 2)), PortRole::Pending);
    assert_eq!(fabric.gauge("topology_ports_down"), 1);
    let left = fabric.take_left();
    assert!(left.iter().all(|(at, _)| *at != place(1, 2)));
    fabric.set_port(place(1, 2), true);
    fabric.run(S);
    assert_eq!(fabric.view(0).port_role(place(1, 2)), PortRole::Edge);
}

/// A switch that names ever new ports is served like others, and costs no more than a large one.
#[test]
fn of_very_many_ports_the_last_are_not_looked_at() {
    const PORTS: usize = 4096;
    let mut fabric = Fabric::new(Version::V1_3, [Topology::default()]);
    fabric.add(1, 4100, 0);
    fabric.up(1);
    fabric.run(MS);
    let known = |fabric: &Fabric<Topology>| fabric.view(0).switch(A.switch).unwrap().ports.len();
    assert_eq!(known(&fabric), PORTS);
    for no in 5000..5100 {
        fabric.set_port(place(1, no), true);
    }
    fabric.run(MS);
    assert_eq!(known(&fabric), PORTS);
    let reports = fabric.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("port 5000") && reports[0].contains("4096"), "{reports:?}");
    fabric.run(S * 2);
    assert_eq!(fabric.view(0).port_role(A), PortRole::Edge);
}
