//! What ports are that lead to no switch of ours, or not only there.

use super::*;

/// Three switches whose first ports a bridge of others joins.
fn around_a_bridge(workers: usize) -> SimulatedNetwork<Topology> {
    let apps = (0..workers).map(|_| Topology::default());
    let mut network = SimulatedNetwork::new(Version::V1_3, apps);
    for id in 1..=3u8 {
        network.add_switch(id.into(), 2, usize::from(id) % workers);
    }
    network.add_unmanaged_segment(&[switch_port(1, 1), switch_port(2, 1), switch_port(3, 1)]);
    network
}

const AROUND: [SwitchPort; 3] = [switch_port(1, 1), switch_port(2, 1), switch_port(3, 1)];

#[test]
fn ports_of_one_foreign_network_have_the_smallest_speak_for_all() {
    for workers in 1..=3 {
        let mut network = around_a_bridge(workers);
        for id in [3, 1, 2] {
            network.connect(id);
            network.run_for(MS * 10);
        }
        network.run_for(MS * 250);
        // Before it is an edge, a port is known to be none.
        assert_eq!(roles(&network, AROUND), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
        network.run_for(S * 60);
        assert_eq!(roles(&network, AROUND), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
        assert_eq!(network.view(0).links().count(), 0);
        assert_eq!(network.metric("topology_ports_shared"), 3);
        network.bring_port_down(switch_port(1, 1));
        network.run_for(MS);
        let second = PortRole::SharedSegment(switch_port(2, 1));
        assert_eq!(roles(&network, AROUND), [PortRole::Pending, second, second]);
        network.disconnect(2);
        network.run_for(S);
        assert_eq!(network.view(0).port_role(switch_port(3, 1)), PortRole::Edge);
    }
}

#[test]
fn a_network_that_joins_edges_later_is_noticed() {
    let mut network = settled_pair();
    network.add_unmanaged_segment(&[switch_port(1, 4), switch_port(2, 4)]);
    network.run_for(S * 6);
    assert_eq!(
        roles(&network, [switch_port(1, 4), switch_port(2, 4)]),
        [PortRole::SharedSegment(switch_port(1, 4)); 2]
    );
    assert_eq!(links(&network), 2);
}

/// Something between three ports forwards what no bridge should.
#[test]
fn three_ports_with_lldp_between_all_of_them_are_no_link() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    for id in 1..=3 {
        network.add_switch(id, 2, 0);
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        network.add_link(AROUND[a], AROUND[b], Duration::ZERO);
    }
    for id in 1..=3 {
        network.connect(id);
    }
    network.run_for(S * 10);
    assert_eq!(roles(&network, AROUND), [PortRole::SharedSegment(switch_port(1, 1)); 3]);
    assert_eq!(links(&network), 0);
    network.disconnect(3);
    network.run_for(S * 5);
    assert_eq!(links(&network), 2);
    assert_eq!(roles(&network, [switch_port(1, 1), switch_port(2, 1)]), [PortRole::Link; 2]);
}

#[test]
fn a_port_at_which_comes_in_what_left_is_kept_out() {
    let mut network = settled_pair();
    let looped = switch_port(1, 3);
    network.add_one_way_link(looped, looped, Duration::ZERO);
    network.run_for(S * 2);
    assert_eq!(network.view(0).port_role(looped), PortRole::Pending);
    assert_eq!(network.metric("topology_ports_looped"), 1);
    let reports = network.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("comes in again"), "{reports:?}");
    network.run_for(S * 20);
    assert_eq!((links(&network), network.take_reports().len()), (2, 0));
    network.remove_link(looped);
    network.run_for(S * 20);
    assert_eq!(network.view(0).port_role(looped), PortRole::Edge);
}

/// Until anything of ours would have come in, as far away as switches are.
#[test]
fn a_port_settles_only_after_the_longest_way_there_and_back() {
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 2, 0);
    network.add_switch(2, 2, 0);
    network.set_control_delay(2, MS * 500);
    network.connect(2);
    network.run_for(S * 2);
    network.connect(1);
    network.run_for(MS * 900);
    assert_eq!(network.view(0).port_role(A), PortRole::Pending);
    network.run_for(MS * 600);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
}

#[test]
fn a_port_that_is_down_is_nothing_until_it_is_up() {
    let mut network = pair(Version::V1_3);
    network.bring_port_down(switch_port(1, 2));
    network.connect(1);
    network.run_for(S * 5);
    assert_eq!(network.view(0).port_role(switch_port(1, 2)), PortRole::Pending);
    assert_eq!(network.metric("topology_ports_down"), 1);
    let left = network.take_sent_frames();
    assert!(left.iter().all(|(at, _)| *at != switch_port(1, 2)));
    network.bring_port_up(switch_port(1, 2));
    network.run_for(S);
    assert_eq!(network.view(0).port_role(switch_port(1, 2)), PortRole::Edge);
}

/// A switch that names ever new ports is served like others, and costs no more than a large one.
#[test]
fn of_very_many_ports_the_last_are_not_looked_at() {
    const PORTS: usize = 4096;
    let mut network = SimulatedNetwork::new(Version::V1_3, [Topology::default()]);
    network.add_switch(1, 4100, 0);
    network.connect(1);
    network.run_for(MS);
    let known = |network: &SimulatedNetwork<Topology>| {
        network.view(0).switch(A.switch).unwrap().ports.len()
    };
    assert_eq!(known(&network), PORTS);
    for no in 5000..5100 {
        network.bring_port_up(switch_port(1, no));
    }
    network.run_for(MS);
    assert_eq!(known(&network), PORTS);
    let reports = network.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("port 5000") && reports[0].contains("4096"), "{reports:?}");
    network.run_for(S * 2);
    assert_eq!(network.view(0).port_role(A), PortRole::Edge);
}
