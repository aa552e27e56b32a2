//! Broadcasts along a spanning tree.

use sluice_emu::net::LinkState;
use sluice_emu::topology::Topology;

use super::*;

const RINGS: [&str; 5] = ["ring,4", "mesh,4", "torus,3,3", "leafspine,2,4,1", "linear,3"];

/// Where a link of the tree is in the topology.
#[expect(clippy::indexing_slicing, reason = "a test fails by panicking")]
fn link_of(story: &Story, tree: &SpanningTree) -> usize {
    let topology: &Topology = story.net.data_plane().topology();
    let [a, b] = tree.links[0].map(|end| (end.switch, end.port));
    let ends = |link: &sluice_emu::topology::TopologyLink| {
        [link.a, link.b].map(|at| (topology.switches[at.switch].datapath_id, at.port))
    };
    topology.links.iter().position(|link| [[a, b], [b, a]].contains(&ends(link))).unwrap()
}

#[test]
fn a_broadcast_comes_to_each_host_once_in_every_network_and_version() {
    for shape in RINGS {
        for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
            let mut story = Story::begun(shape, version, Flooding::Tree);
            story.standing();
            story.all_hear_all();
            assert_eq!(story.lost_pings(), []);
            let counts = story.counts();
            let along = [counts["forwarding_floods"], counts["forwarding_floods_along_tree"]];
            assert!(along[1] >= u64::from(story.traced), "{shape} in {version}: {along:?}");
        }
    }
}

/// The tree costs the control links of a network one message up and one down, however many switches there are.
#[test]
fn a_broadcast_costs_one_message_each_way() {
    let cost = |flooding| {
        let mut story = Story::begun("torus,3,3", Version::V1_3, flooding);
        let before = story.bytes();
        story.pass(Duration::from_secs(6));
        let still = story.bytes() - before;
        let before = story.bytes();
        for number in 0..60 {
            story.fault(NetworkChange::SendTracedFrame(0, number));
            story.pass(Duration::from_millis(100));
        }
        let both = story.bytes() - before;
        [both.saturating_sub(still) / 60, still / 6]
    };
    let costs = [cost(Flooding::Controller), cost(Flooding::Tree)];
    // A frame of 60 bytes comes up in 102, and goes down in 100 and 16 for each port but the first.
    assert!((850..1000).contains(&costs[0][0]), "{costs:?}");
    assert!((200..300).contains(&costs[1][0]), "{costs:?}");
    // Rules that are written anew, a second and switch.
    let anew = (costs[1][1] - costs[0][1]) / 9;
    assert!(anew < 200, "{costs:?}");
}

#[test]
fn a_tree_that_loses_a_link_gives_way_to_another_and_nobody_misses_a_frame_meanwhile() {
    for shape in ["ring,4", "mesh,4", "torus,3,3"] {
        let mut story = Story::begun(shape, Version::V1_3, Flooding::Tree);
        let first = story.standing();
        let link = link_of(&story, &story.tree().unwrap());
        story.fault(NetworkChange::CutLink(link));
        // The switches tell, the workers tell one another.
        story.pass(Duration::from_millis(20));
        story.all_hear_all();
        story.pass(Duration::from_secs(6));
        let second = story.standing();
        assert!(second > first);
        story.all_hear_all();
        story.fault(NetworkChange::RestoreLink(link));
        story.pass(Duration::from_secs(10));
        assert_eq!(story.standing(), second, "{shape}: nothing is torn down for a link more");
        story.all_hear_all();
    }
}

#[test]
fn a_switch_that_is_joined_later_is_taken_in() {
    let mut story = Story::begun("linear,3", Version::V1_3, Flooding::Tree);
    story.fault(NetworkChange::CutLink(1));
    story.pass(Duration::from_secs(6));
    let first = story.standing();
    assert_eq!(story.tree().unwrap().links.len(), 1);
    story.fault(NetworkChange::RestoreLink(1));
    story.pass(Duration::from_secs(10));
    assert!(story.standing() > first);
    assert_eq!(story.tree().unwrap().links.len(), 2);
    story.all_hear_all();
}

#[test]
fn hosts_that_move_hear_all_and_the_tree_stays() {
    let mut story = Story::begun("ring,4", Version::V1_3, Flooding::Tree);
    let nth = story.standing();
    let to = story.net.data_plane().free_port(2).unwrap();
    story.fault(NetworkChange::MoveHost(0, to));
    story.pass(Duration::from_secs(5));
    story.all_hear_all();
    assert_eq!(story.standing(), nth);
}

#[test]
fn a_control_link_that_hangs_ends_the_tree_before_its_rules_end_and_another_comes_after() {
    let mut story = Story::begun("ring,4", Version::V1_3, Flooding::Tree);
    let nth = story.standing();
    story.fault(NetworkChange::PauseControlLink(1));
    story.pass(Duration::from_secs(9));
    let tree = story.tree().unwrap();
    assert_eq!((tree.generation, tree.phase), (nth, TreePhase::Removing));
    story.fault(NetworkChange::ResumeControlLink(1));
    story.pass(Duration::from_secs(10));
    assert!(story.standing() > nth);
    story.all_hear_all();
}

#[test]
fn after_a_restart_what_is_left_of_an_older_tree_goes_first() {
    let mut story = Story::begun("ring,4", Version::V1_3, Flooding::Tree);
    story.standing();
    let fresh = controller(&story.config);
    story.net.replace_controller(fresh).unwrap();
    story.pass(Duration::from_secs(4));
    assert_eq!(story.tree(), None);
    story.all_hear_all();
    story.pass(Duration::from_secs(12));
    story.standing();
    story.all_hear_all();
    // And one that wants no tree leaves what there is to its time.
    let forwarding = forwarding::Config::default();
    story.config = Config { forwarding, ..Config::default() };
    let fresh = controller(&story.config);
    story.net.replace_controller(fresh).unwrap();
    story.pass(Duration::from_secs(4));
    story.all_hear_all();
    assert_eq!(story.net.data_plane().link(0).unwrap().0, LinkState::Up);
}

#[test]
fn after_a_restart_nothing_goes_round_through_a_switch_that_is_not_back_yet() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut story = Story::begun("mesh,4", version, Flooding::Tree);
        story.standing();
        // The middle of the tree: it passes on frames for some seconds more.
        story.fault(NetworkChange::PauseControlLink(0));
        let fresh = controller(&story.config);
        story.net.replace_controller(fresh).unwrap();
        story.pass(Duration::from_secs(3));
        for number in 0..30 {
            story.fault(NetworkChange::SendTracedFrame(1 + number as usize % 3, number));
            story.pass(Duration::from_millis(300));
        }
        story.fault(NetworkChange::ResumeControlLink(0));
        story.pass(Duration::from_secs(10));
        for number in 0..30 {
            let traces = story.net.data_plane().traces();
            assert!(
                traces.deliveries(number).all(|(_, times)| times == 1),
                "{number} in {version}"
            );
            assert!(
                traces.deliveries(number).count() >= 2 && traces.link_crossings_max(number) <= 1
            );
        }
        story.standing();
    }
}

/// A switch that is told to have no rules of a tree and does not confirm it keeps the next tree waiting, and is named.
#[test]
fn a_switch_that_does_not_confirm_is_counted_until_it_does() {
    let mut story = Story::begun("mesh,4", Version::V1_3, Flooding::Tree);
    let first = story.standing();
    let link = link_of(&story, &story.tree().unwrap());
    story.fault(NetworkChange::PauseControlLink(0));
    story.fault(NetworkChange::CutLink(link));
    story.pass(Duration::from_secs(3));
    assert_eq!(story.counts()["forwarding_tree_unconfirmed"], 0);
    story.pass(Duration::from_secs(3));
    assert_eq!(story.counts()["forwarding_tree_unconfirmed"], 1);
    assert_ne!(story.tree().unwrap().phase, TreePhase::Active);
    story.fault(NetworkChange::ResumeControlLink(0));
    story.pass(Duration::from_secs(10));
    assert_eq!(story.counts()["forwarding_tree_unconfirmed"], 0);
    assert!(story.standing() > first);
    story.all_hear_all();
}
