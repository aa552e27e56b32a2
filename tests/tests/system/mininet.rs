//! Mininet's `pingall`: every host pings every other. So do those of `sluice emu`.

use sluice_system_tests::{Controller, OpenFlow, TestEnv, binary, output_of, pingall};

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

/// Their switches have the same datapath ids, and other ports and links.
#[test]
fn networks_one_after_another_on_one_controller_do_not_affect_each_other() {
    let env = TestEnv::shared();
    let controller = Controller::new(&env, "");
    // The ports of two switches of the tree have the numbers and addresses of before, so that a host may have moved silently, which
    // takes 100 ms to verify: its first ping may be lost.
    let networks = [
        ("leafspine,2,4,2", "--once"),
        ("ring,4", "--once"),
        ("tree,2,2", "--start"),
        ("leafspine,2,4,2", "--once"),
        ("ring,4", "--once"),
    ];
    for (shape, mode) in networks {
        let mut emu = env.command(&binary().to_string_lossy());
        emu.args(["emu", mode, "--plain", "--topo", shape, "-c", controller.address()]);
        // Fails if a ping is lost, or a host gets no reply.
        output_of(&mut emu);
    }
    let result = pingall(&env, &controller, OpenFlow::V13, "single,5");
    assert_eq!(result, "*** Results: 0% dropped (20/20 received)");
}

/// Checks that all `pings` of a `pingall` on `topology` are answered.
fn assert_pingall(apps: &str, version: OpenFlow, topology: &str, pings: u32) {
    let env = TestEnv::shared();
    let controller = Controller::new(&env, &format!("--app {apps}"));
    let result = pingall(&env, &controller, version, topology);
    assert_eq!(result, format!("*** Results: 0% dropped ({pings}/{pings} received)"));
}
