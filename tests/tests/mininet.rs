//! Mininet's own test of a network: every host pings every other.

use sluice_system_tests::{Controller, OpenFlow, Room, pingall};

#[test]
fn four_hosts_on_one_switch_reach_each_other_over_openflow_1_0() {
    nothing_is_dropped(OpenFlow::V10, "single,4", 4 * 3);
}

#[test]
fn four_hosts_on_one_switch_reach_each_other_over_openflow_1_3() {
    nothing_is_dropped(OpenFlow::V13, "single,4", 4 * 3);
}

#[test]
fn eight_hosts_on_a_line_of_switches_reach_each_other() {
    nothing_is_dropped(OpenFlow::V13, "linear,8", 8 * 7);
}

#[test]
fn nine_hosts_on_a_tree_of_switches_reach_each_other() {
    nothing_is_dropped(OpenFlow::V13, "tree,2,3", 9 * 8);
}

#[test]
fn nine_hosts_on_a_torus_reach_each_other_by_what_runs_by_default() {
    nothing_is_dropped_by("topology,hosts,forwarding", OpenFlow::V13, "torus,3,3", 9 * 8);
}

fn nothing_is_dropped(version: OpenFlow, topology: &str, pings: u32) {
    nothing_is_dropped_by("learning", version, topology, pings);
}

fn nothing_is_dropped_by(apps: &str, version: OpenFlow, topology: &str, pings: u32) {
    let room = Room::new();
    let controller = Controller::new(&room, &format!("--app {apps}"));
    let result = pingall(&room, &controller, version, topology);
    assert_eq!(result, format!("*** Results: 0% dropped ({pings}/{pings} received)"));
}
