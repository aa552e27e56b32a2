//! Ways through real networks, with Open vSwitch: all pairs, cut links, cut control connections, a controller that is
//! started again.

use std::time::Duration;

use sluice_system_tests::{
    Controller, Flow, Host, Lab, OpenFlow, PATIENCE, Pinging, binary, both_versions, let_pass,
    wait_until,
};

both_versions! {
    all_pairs_of_a_ring_reach_and_nothing_storms(super::ring, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_a_mesh_reach_and_nothing_storms(super::mesh, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_leaves_reach_and_nothing_storms(super::leaf_spine, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_a_tree_reach_and_nothing_storms(super::tree, [4, 5, 6, 7]) = all_pairs;
    a_cut_link_is_gone_round_and_one_that_comes_back_disturbs_nobody() = cut;
    control_connections_that_are_cut_interrupt_nothing() = control;
    a_controller_that_is_started_again_interrupts_nothing() = restart;
}

fn ring(version: OpenFlow) -> Lab {
    Lab::ring(version, 4)
}

fn mesh(version: OpenFlow) -> Lab {
    Lab::mesh(version, 4)
}

fn leaf_spine(version: OpenFlow) -> Lab {
    Lab::leaf_spine(version, 2, 4)
}

fn tree(version: OpenFlow) -> Lab {
    Lab::tree(version)
}

const FILE: &str = "sluice.toml";

/// Ports are looked at for longer than usual: the machine may be busy.
const SETTLED: &str = "[experimental]\nsettle_ms = 500\n";

/// A switch that says nothing is given up soon.
const IMPATIENT: &str = "[session]\necho_interval_s = 1\necho_timeout_s = 1\n";

fn controller(lab: &Lab) -> Controller {
    let file = lab.room().write(FILE, SETTLED);
    let mut command = lab.room().command(&binary().to_string_lossy());
    let row = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--app", row, "--config"]).arg(file);
    Controller::with(command, lab.room().dir())
}

/// Hosts at four switches, who reach one another.
fn hosts_at(lab: Lab, switches: [u16; 4]) -> (Lab, Controller, [Host; 4]) {
    let controller = controller(&lab);
    let hosts = switches.map(|switch| lab.host(&format!("s{switch}")));
    lab.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(PATIENCE, "neighbours to reach", || host.ping(next, 1).lost() == 0);
    }
    (lab, controller, hosts)
}

fn all_pairs(version: OpenFlow, lab: fn(OpenFlow) -> Lab, switches: [u16; 4]) {
    let (_lab, _controller, hosts) = hosts_at(lab(version), switches);
    hosts.iter().for_each(Host::speak_ipv6);
    let heard = hosts[2].received();
    hosts[0].broadcast(20);
    let_pass(Duration::from_secs(1));
    let heard = hosts[2].received() - heard;
    assert!(heard < 200, "{heard} frames of 20");
    for a in &hosts {
        for b in hosts.iter().filter(|b| b.mac() != a.mac()) {
            assert_eq!(a.ping(b, 2).lost(), 0);
            wait_until(PATIENCE, "IPv6 to reach", || a.ping_ipv6(b, 1).lost() == 0);
        }
    }
    assert!(hosts[0].iperf(&hosts[2]) > 0.0);
}

fn cut(version: OpenFlow) {
    let (lab, _controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let pinging = hosts[0].keep_pinging_fast(&hosts[2]);
    let_pass(Duration::from_millis(500));
    // One of them is on the way. Both switches see the first one die, and one the second.
    lab.cut("s1", "s2");
    let_pass(Duration::from_secs(1));
    lab.mend("s1", "s2");
    let_pass(Duration::from_secs(3));
    lab.unplug("s1", "s4");
    let_pass(Duration::from_secs(1));
    lab.plug_in("s1", "s4");
    let_pass(Duration::from_secs(1));
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() < 60, "{loss:?}");
}

const SWITCHES: [&str; 4] = ["s1", "s2", "s3", "s4"];

fn rules(lab: &Lab) -> Vec<Vec<Flow>> {
    SWITCHES.map(|switch| lab.flows(switch)).into()
}

/// That all rules are still there.
#[track_caller]
fn must_keep(lab: &Lab, before: &[Vec<Flow>]) {
    for ((switch, before), after) in SWITCHES.iter().zip(before).zip(rules(lab)) {
        let gone: Vec<_> = before.iter().filter(|rule| !after.contains(rule)).collect();
        assert!(gone.is_empty(), "{switch} has lost {gone:#?} and has {after:#?}");
    }
}

/// That nothing was lost.
#[track_caller]
fn must_go_on(pinging: Pinging) {
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() == 0, "{loss:?}");
}

fn control(version: OpenFlow) {
    let (lab, mut controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    lab.room().write(FILE, &format!("{SETTLED}{IMPATIENT}"));
    controller.reload();
    let missed = || controller.log().lines().filter(|line| line.contains("switch down")).count();
    let before = rules(&lab);
    let pinging = hosts[0].keep_pinging_fast(&hosts[2]);
    lab.point_astray("s1");
    wait_until(PATIENCE, "s1 to be missed", || missed() == 1);
    let_pass(Duration::from_secs(1));
    must_keep(&lab, &before);
    lab.point("s1", &controller);
    controller.wait_for_sessions(5);
    lab.cut_control();
    wait_until(PATIENCE, "all to be missed", || missed() == 5);
    must_keep(&lab, &before);
    lab.mend_control();
    wait_until(PATIENCE, "all to be back", || controller.sessions() >= 9);
    wait_until(PATIENCE, "others to reach", || hosts[1].ping(&hosts[3], 1).lost() == 0);
    must_keep(&lab, &before);
    must_go_on(pinging);
}

fn restart(version: OpenFlow) {
    let (lab, first, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let before = rules(&lab);
    let pinging = hosts[0].keep_pinging_fast(&hosts[2]);
    let_pass(Duration::from_secs(1));
    drop(first);
    let_pass(Duration::from_secs(1));
    must_keep(&lab, &before);
    let second = controller(&lab);
    // Switches find it one after another: a port to the last of them leads nowhere until then.
    for switch in ["s2", "s3", "s4"] {
        lab.point(switch, &second);
    }
    second.wait_for_sessions(3);
    let_pass(Duration::from_secs(1));
    lab.point("s1", &second);
    // Two hosts say nothing: it is the rules that tell where they are.
    let found = |name, count| lab.room().metric(name) == Some(count);
    wait_until(PATIENCE, "all to be known", || found("topology_links", 8) && found("hosts", 4));
    // What is deleted is deleted a second time.
    let_pass(Duration::from_millis(1500));
    must_keep(&lab, &before);
    must_go_on(pinging);
    wait_until(PATIENCE, "others to reach", || hosts[1].ping(&hosts[3], 1).lost() == 0);
}
