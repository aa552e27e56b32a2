//! Broadcasts along a spanning tree.

use sluice_emu::net::LinkState;
use sluice_emu::topology::Topology;

use super::*;

const TOPOLOGIES: [&str; 5] = ["ring,4", "mesh,4", "torus,3,3", "leafspine,2,4,1", "linear,3"];

/// Index in the topology of the first link of the tree.
#[expect(clippy::indexing_slicing, reason = "a test fails by panicking")]
fn first_tree_link(network: &ModelNetwork, tree: &SpanningTree) -> usize {
    let topology: &Topology = network.simulation.data_plane().topology();
    let [a, b] = tree.links[0].map(|end| (end.switch, end.port));
    let ends = |link: &sluice_emu::topology::TopologyLink| {
        [link.a, link.b].map(|at| (topology.switches[at.switch].datapath_id, at.port))
    };
    topology.links.iter().position(|link| [[a, b], [b, a]].contains(&ends(link))).unwrap()
}

#[test]
fn a_broadcast_reaches_each_host_once_in_all_topologies_and_versions() {
    for shape in TOPOLOGIES {
        for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
            let mut network = ModelNetwork::with_flooding(shape, version, Flooding::Tree);
            network.active_tree_generation();
            network.assert_broadcasts_reach_all();
            assert_eq!(network.lost_pings(), []);
            let metrics = network.metrics();
            let floods = [metrics["forwarding_floods"], metrics["forwarding_floods_along_tree"]];
            assert!(
                floods[1] >= u64::from(network.traced_frames),
                "{shape} in {version}: {floods:?}"
            );
        }
    }
}

/// With a spanning tree a broadcast costs one packet-in and one packet-out, however many switches there are.
#[test]
fn a_broadcast_costs_one_message_in_each_direction() {
    let cost = |flooding| {
        let mut network = ModelNetwork::with_flooding("torus,3,3", Version::V1_3, flooding);
        let before = network.control_bytes();
        network.run_for(Duration::from_secs(12));
        let idle_bytes = network.control_bytes() - before;
        let before = network.control_bytes();
        for number in 0..60 {
            network.apply(NetworkChange::SendTracedFrame(0, number));
            // So seldom that they are no stream, which would get a flow entry.
            network.run_for(Duration::from_millis(200));
        }
        let total = network.control_bytes() - before;
        [total.saturating_sub(idle_bytes) / 60, idle_bytes / 12]
    };
    let costs = [cost(Flooding::Controller), cost(Flooding::Tree)];
    // A frame of 60 bytes is 102 bytes as packet-in, and 100 as packet-out plus 16 for each port but the first.
    assert!((850..1000).contains(&costs[0][0]), "{costs:?}");
    assert!((200..300).contains(&costs[1][0]), "{costs:?}");
    // Flow entries of the tree that are refreshed, in bytes per second and switch.
    let refresh_rate = (costs[1][1] - costs[0][1]) / 9;
    assert!(refresh_rate < 200, "{costs:?}");
}

#[test]
fn a_tree_that_loses_a_link_is_replaced_without_losing_a_broadcast() {
    for shape in ["ring,4", "mesh,4", "torus,3,3"] {
        let mut network = ModelNetwork::with_flooding(shape, Version::V1_3, Flooding::Tree);
        let first = network.active_tree_generation();
        let link = first_tree_link(&network, &network.tree().unwrap());
        network.apply(NetworkChange::CutLink(link));
        // The switches report it, and the workers notify each other.
        network.run_for(Duration::from_millis(20));
        network.assert_broadcasts_reach_all();
        network.run_for(Duration::from_secs(6));
        let second = network.active_tree_generation();
        assert!(second > first);
        network.assert_broadcasts_reach_all();
        network.apply(NetworkChange::RestoreLink(link));
        network.run_for(Duration::from_secs(10));
        assert_eq!(
            network.active_tree_generation(),
            second,
            "{shape}: an additional link does not replace the tree"
        );
        network.assert_broadcasts_reach_all();
    }
}

#[test]
fn a_switch_that_is_linked_later_becomes_part_of_the_tree() {
    let mut network = ModelNetwork::with_flooding("linear,3", Version::V1_3, Flooding::Tree);
    network.apply(NetworkChange::CutLink(1));
    network.run_for(Duration::from_secs(6));
    let first = network.active_tree_generation();
    assert_eq!(network.tree().unwrap().links.len(), 1);
    network.apply(NetworkChange::RestoreLink(1));
    network.run_for(Duration::from_secs(10));
    assert!(network.active_tree_generation() > first);
    assert_eq!(network.tree().unwrap().links.len(), 2);
    network.assert_broadcasts_reach_all();
}

#[test]
fn a_host_that_moves_receives_broadcasts_and_the_tree_is_kept() {
    let mut network = ModelNetwork::with_flooding("ring,4", Version::V1_3, Flooding::Tree);
    let generation = network.active_tree_generation();
    let to = network.simulation.data_plane().free_port(2).unwrap();
    network.apply(NetworkChange::MoveHost(0, to));
    network.run_for(Duration::from_secs(5));
    network.assert_broadcasts_reach_all();
    assert_eq!(network.active_tree_generation(), generation);
}

#[test]
fn a_tree_is_removed_before_its_flow_entries_expire_if_a_control_link_stalls() {
    let mut network = ModelNetwork::with_flooding("ring,4", Version::V1_3, Flooding::Tree);
    let generation = network.active_tree_generation();
    network.apply(NetworkChange::PauseControlLink(1));
    network.run_for(Duration::from_secs(9));
    let tree = network.tree().unwrap();
    assert_eq!((tree.generation, tree.phase), (generation, TreePhase::Removing));
    network.apply(NetworkChange::ResumeControlLink(1));
    network.run_for(Duration::from_secs(10));
    assert!(network.active_tree_generation() > generation);
    network.assert_broadcasts_reach_all();
}

#[test]
fn after_a_restart_flow_entries_of_the_old_tree_are_removed_first() {
    let mut network = ModelNetwork::with_flooding("ring,4", Version::V1_3, Flooding::Tree);
    network.active_tree_generation();
    let restarted = controller(&network.config, network.simulation.now());
    network.simulation.replace_controller(restarted).unwrap();
    network.run_for(Duration::from_secs(4));
    assert_eq!(network.tree(), None);
    network.assert_broadcasts_reach_all();
    network.run_for(Duration::from_secs(12));
    network.active_tree_generation();
    network.assert_broadcasts_reach_all();
    // A controller without a spanning tree lets the existing flow entries expire.
    let forwarding = forwarding::Config::default();
    network.config = Config { forwarding, ..Config::default() };
    let restarted = controller(&network.config, network.simulation.now());
    network.simulation.replace_controller(restarted).unwrap();
    network.run_for(Duration::from_secs(4));
    network.assert_broadcasts_reach_all();
    assert_eq!(network.simulation.data_plane().link(0).unwrap().0, LinkState::Up);
}

#[test]
fn after_a_restart_broadcasts_do_not_loop_through_a_switch_that_has_not_reconnected() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = ModelNetwork::with_flooding("mesh,4", version, Flooding::Tree);
        network.active_tree_generation();
        // The root of the tree, which forwards broadcasts for some seconds more.
        network.apply(NetworkChange::PauseControlLink(0));
        let restarted = controller(&network.config, network.simulation.now());
        network.simulation.replace_controller(restarted).unwrap();
        network.run_for(Duration::from_secs(3));
        for number in 0..30 {
            network.apply(NetworkChange::SendTracedFrame(1 + number as usize % 3, number));
            network.run_for(Duration::from_millis(300));
        }
        network.apply(NetworkChange::ResumeControlLink(0));
        network.run_for(Duration::from_secs(10));
        for number in 0..30 {
            let traces = network.simulation.data_plane().traces();
            assert!(
                traces.deliveries(number).all(|(_, times)| times == 1),
                "{number} in {version}"
            );
            assert!(
                traces.deliveries(number).count() >= 2 && traces.link_crossings_max(number) <= 1
            );
        }
        network.active_tree_generation();
    }
}

/// The next tree waits for each switch to confirm that it has deleted the flow entries of the previous one.
#[test]
fn a_switch_that_does_not_confirm_the_deletion_is_counted_until_it_does() {
    let mut network = ModelNetwork::with_flooding("mesh,4", Version::V1_3, Flooding::Tree);
    let first = network.active_tree_generation();
    let link = first_tree_link(&network, &network.tree().unwrap());
    network.apply(NetworkChange::PauseControlLink(0));
    network.apply(NetworkChange::CutLink(link));
    network.run_for(Duration::from_secs(3));
    assert_eq!(network.metrics()["forwarding_tree_unconfirmed"], 0);
    network.run_for(Duration::from_secs(3));
    assert_eq!(network.metrics()["forwarding_tree_unconfirmed"], 1);
    assert_ne!(network.tree().unwrap().phase, TreePhase::Active);
    network.apply(NetworkChange::ResumeControlLink(0));
    network.run_for(Duration::from_secs(10));
    assert_eq!(network.metrics()["forwarding_tree_unconfirmed"], 0);
    assert!(network.active_tree_generation() > first);
    network.assert_broadcasts_reach_all();
}

/// Cuts a link and restores it, so many times, every five seconds. Returns how many trees there were meanwhile.
fn flap(network: &mut ModelNetwork, link: usize, times: u32) -> u64 {
    let before = network.tree().unwrap().generation;
    for _ in 0..times {
        network.apply(NetworkChange::CutLink(link));
        network.run_for(Duration::from_millis(300));
        network.apply(NetworkChange::RestoreLink(link));
        network.run_for(Duration::from_millis(3700));
        network.assert_broadcasts_reach_all();
        network.run_for(Duration::from_millis(400));
    }
    network.tree().unwrap().generation - before
}

#[test]
fn a_link_that_fails_again_and_again_is_kept_out_of_the_tree_if_others_connect_its_switches() {
    for shape in ["ring,4", "mesh,4", "torus,3,3"] {
        let mut network = ModelNetwork::with_flooding(shape, Version::V1_3, Flooding::Tree);
        let link = first_tree_link(&network, &network.tree().unwrap());
        let trees = flap(&mut network, link, 10);
        assert!(trees <= 2, "{shape}: {trees} trees");
        network.active_tree_generation();
    }
}

/// The controller floods from one part of the network to the other meanwhile.
#[test]
fn the_only_link_between_two_parts_has_the_tree_replaced_less_often_the_more_often_it_fails() {
    let mut network = ModelNetwork::with_flooding("linear,4", Version::V1_3, Flooding::Tree);
    let trees = flap(&mut network, 1, 20);
    assert!((2..=13).contains(&trees), "{trees} trees");
    network.run_for(Duration::from_secs(1));
    network.active_tree_generation();
    assert_eq!(network.tree().unwrap().links.len(), 2, "the link is left out");
    network.assert_broadcasts_reach_all();
    network.run_for(Duration::from_secs(300));
    network.active_tree_generation();
    assert_eq!(network.tree().unwrap().links.len(), 3);
    network.assert_broadcasts_reach_all();
}
