//! Mininet's `pingall`: every host pings every other.

use sluice_system_tests::{Controller, OpenFlow, TestEnv, pingall};

/// The applications that run by default.
const DEFAULT: &str = "topology,hosts,forwarding";

#[test]
fn four_hosts_on_one_switch_reach_each_other_over_openflow_1_0() {
    assert_pingall(DEFAULT, OpenFlow::V10, "single,4", 4 * 3);
}

#[test]
fn nine_hosts_on_a_tree_of_switches_reach_each_other() {
    assert_pingall(DEFAULT, OpenFlow::V13, "tree,2,3", 9 * 8);
}

#[test]
fn nine_hosts_on_a_torus_of_switches_reach_each_other() {
    assert_pingall(DEFAULT, OpenFlow::V13, "torus,3,3", 9 * 8);
}

#[test]
fn eight_hosts_on_a_line_of_switches_reach_each_other_with_learning() {
    assert_pingall("learning", OpenFlow::V13, "linear,8", 8 * 7);
}

/// Checks that all `pings` of a `pingall` on `topology` are answered.
fn assert_pingall(apps: &str, version: OpenFlow, topology: &str, pings: u32) {
    let env = TestEnv::shared();
    let controller = Controller::new(&env, &format!("--app {apps}"));
    let result = pingall(&env, &controller, version, topology);
    assert_eq!(result, format!("*** Results: 0% dropped ({pings}/{pings} received)"));
}
