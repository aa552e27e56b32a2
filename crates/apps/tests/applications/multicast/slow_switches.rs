//! Switches that are slow to confirm flow entries of the spanning tree, or do not list or confirm them at all.

use std::time::Duration;

use sluice_apps::forwarding::{Config, Flooding};

use crate::multicast::test_network::{ListFault, TestNetwork, at};
use crate::multicast::{GROUP, all_but, config, join_group, receivers};

fn tree_config() -> Config {
    Config { flooding: Flooding::Tree, ..config() }
}

/// Longer than the controller waits for any confirmation.
const NEVER: Duration = Duration::from_secs(100_000);

#[test]
fn a_switch_that_does_not_list_old_entries_does_not_prevent_a_tree() {
    for fault in [ListFault::Silence, ListFault::Error] {
        let mut net = TestNetwork::new(&tree_config(), 3, 2);
        net.list_fault = Some((2, fault));
        net.wait_s(20);
        assert_eq!(net.tree_links(), 2, "{fault:?}");
        let [line] = &net.log[..] else { panic!("{:?}", net.log) };
        assert!(line.contains("does not list") && line.contains("dpid=0000000000000002"), "{line}");
        assert_eq!(net.metric("forwarding_tree_timeouts"), 1);
    }
}

#[test]
fn a_switch_that_never_confirms_is_left_out_of_the_tree_after_two_minutes() {
    let mut net = TestNetwork::new(&tree_config(), 3, 2);
    net.slow = Some((3, NEVER));
    net.wait_s(110);
    assert_eq!(net.tree_links(), 0);
    assert_eq!(net.metric("forwarding_tree_unconfirmed"), 1);
    net.wait_s(20);
    assert_eq!(net.tree_links(), 1);
    let sender = at(1, 1);
    assert_eq!(receivers(&mut net, sender, GROUP), all_but(&net, sender));
    net.wait_s(600);
    assert_eq!(net.tree_links(), 1, "the tree is kept");
    assert_eq!(net.log.len(), 1, "{:?}", net.log);
}

/// A switch behind a thin control link: 400 entries every 3 s are too many for it.
#[test]
fn a_slow_switch_loses_its_entries_for_groups_and_the_tree_stays() {
    let mut net = TestNetwork::new(&tree_config(), 3, 2);
    net.wait_s(20);
    let generation = net.tree_generation();
    net.slow = Some((2, Duration::from_millis(8)));
    for third in 0..4 {
        for n in 0..50 {
            join_group(&mut net, at(3, 1), &format!("239.1.{third}.{n}"));
        }
        net.wait_s(1);
    }
    net.wait_s(120);
    assert_eq!(net.tree_generation(), generation, "{:?}", net.log);
    assert_eq!(net.tree_links(), 2);
    let groups = |net: &TestNetwork, switch| {
        net.table(switch).iter().filter(|entry| entry.priority == 6).count()
    };
    assert_eq!(groups(&net, 2), 0);
    assert_eq!(groups(&net, 3), 200, "others keep theirs");
    let of_switch_2 = (1..=4).map(|port| at(2, port));
    let expected: Vec<_> = of_switch_2.chain([at(3, 1)]).collect();
    assert_eq!(receivers(&mut net, at(1, 1), "239.1.2.3"), expected);
    assert_eq!(net.log.len(), 1, "{:?}", net.log);
    assert!(net.log[0].contains("too late; it gets none for single multicast groups"));
    assert_eq!(net.metric("forwarding_tree_timeouts"), 1);
}

#[test]
fn entries_for_groups_are_blamed_first_if_the_tree_is_lost_because_of_a_slow_switch() {
    let mut net = TestNetwork::new(&tree_config(), 3, 2);
    net.wait_s(20);
    net.slow = Some((2, Duration::from_millis(15)));
    for third in 0..4 {
        for n in 0..50 {
            join_group(&mut net, at(3, 1), &format!("239.1.{third}.{n}"));
        }
    }
    net.wait_s(20);
    assert_eq!(net.tree_links(), 2, "{:?}", net.log);
    assert_eq!(net.log.len(), 1, "{:?}", net.log);
}

#[test]
fn a_switch_that_confirms_too_late_is_left_out_for_longer_each_time() {
    let mut net = TestNetwork::new(&tree_config(), 3, 2);
    net.wait_s(20);
    assert_eq!(net.tree_links(), 2);
    // Three entries for each of its links are confirmed after 4.5 s.
    net.slow = Some((3, Duration::from_millis(2250)));
    net.wait_s(20);
    assert_eq!(net.tree_links(), 1, "{:?}", net.log);
    let mut removals = 0;
    for _ in 0..600 {
        let before = net.tree_generation();
        net.wait_s(1);
        removals += u64::from(net.tree_generation() != before);
    }
    // After 1, 2 and 4 minutes; each attempt needs a tree with it, and one without.
    assert!((4..=8).contains(&removals), "{removals}");
    net.slow = None;
    net.wait_s(1000);
    assert_eq!(net.tree_links(), 2);
}
