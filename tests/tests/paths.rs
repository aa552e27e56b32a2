//! Ways through real networks, with Open vSwitch: all pairs, cut links, cut control connections, a controller that is
//! started again.

use std::time::Duration;

use sluice_system_tests::{
    BackgroundPing, Controller, Flow, Host, OpenFlow, OvsNetwork, PATIENCE, TestEnv, binary,
    both_versions, sleep_for, wait_until,
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

fn ring(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::ring(TestEnv::new(), version, 4)
}

fn mesh(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::mesh(TestEnv::new(), version, 4)
}

fn leaf_spine(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::leaf_spine(TestEnv::new(), version, 2, 4)
}

fn tree(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::tree(TestEnv::new(), version)
}

const FILE: &str = "sluice.toml";

/// Ports are looked at for longer than usual: the machine may be busy.
const SETTLED: &str = "[experimental]\nsettle_ms = 500\n";

/// A switch that says nothing is given up soon.
const IMPATIENT: &str = "[session]\necho_interval_s = 1\necho_timeout_s = 1\n";

fn controller(network: &OvsNetwork) -> Controller {
    let file = network.env().write(FILE, SETTLED);
    let mut command = network.env().command(&binary().to_string_lossy());
    let row = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--app", row, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Hosts at four switches, who reach one another.
fn hosts_at(network: OvsNetwork, switches: [u16; 4]) -> (OvsNetwork, Controller, [Host; 4]) {
    let controller = controller(&network);
    let hosts = switches.map(|switch| network.host(&format!("s{switch}")));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(PATIENCE, "neighbours to reach", || host.ping(next, 1).lost() == 0);
    }
    (network, controller, hosts)
}

fn all_pairs(version: OpenFlow, network: fn(OpenFlow) -> OvsNetwork, switches: [u16; 4]) {
    let (_lab, _controller, hosts) = hosts_at(network(version), switches);
    hosts.iter().for_each(Host::enable_ipv6);
    let heard = hosts[2].frames_received();
    hosts[0].broadcast(20);
    sleep_for(Duration::from_secs(1));
    let heard = hosts[2].frames_received() - heard;
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
    let (network, _controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    sleep_for(Duration::from_millis(500));
    // One of them is on the way. Both switches see the first one die, and one the second.
    network.cut_link("s1", "s2");
    sleep_for(Duration::from_secs(1));
    network.restore_link("s1", "s2");
    sleep_for(Duration::from_secs(3));
    network.remove_link_port("s1", "s4");
    sleep_for(Duration::from_secs(1));
    network.add_link_port("s1", "s4");
    sleep_for(Duration::from_secs(1));
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() < 60, "{loss:?}");
}

const SWITCHES: [&str; 4] = ["s1", "s2", "s3", "s4"];

fn rules(network: &OvsNetwork) -> Vec<Vec<Flow>> {
    SWITCHES.map(|switch| network.flows(switch)).into()
}

/// That all rules are still there.
#[track_caller]
fn assert_flows_kept(network: &OvsNetwork, before: &[Vec<Flow>]) {
    for ((switch, before), after) in SWITCHES.iter().zip(before).zip(rules(network)) {
        let gone: Vec<_> = before.iter().filter(|rule| !after.contains(rule)).collect();
        assert!(gone.is_empty(), "{switch} has lost {gone:#?} and has {after:#?}");
    }
}

/// That nothing was lost.
#[track_caller]
fn assert_no_loss(pinging: BackgroundPing) {
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() == 0, "{loss:?}");
}

fn control(version: OpenFlow) {
    let (network, mut controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    network.env().write(FILE, &format!("{SETTLED}{IMPATIENT}"));
    controller.reload();
    let missed = || controller.log().lines().filter(|line| line.contains("switch down")).count();
    let before = rules(&network);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    network.set_unreachable_controller("s1");
    wait_until(PATIENCE, "s1 to be missed", || missed() == 1);
    sleep_for(Duration::from_secs(1));
    assert_flows_kept(&network, &before);
    network.set_controller("s1", &controller);
    controller.wait_for_sessions(5);
    network.cut_control_network();
    wait_until(PATIENCE, "all to be missed", || missed() == 5);
    assert_flows_kept(&network, &before);
    network.restore_control_network();
    wait_until(PATIENCE, "all to be back", || controller.sessions() >= 9);
    wait_until(PATIENCE, "others to reach", || hosts[1].ping(&hosts[3], 1).lost() == 0);
    assert_flows_kept(&network, &before);
    assert_no_loss(pinging);
}

fn restart(version: OpenFlow) {
    let (network, first, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let before = rules(&network);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    sleep_for(Duration::from_secs(1));
    drop(first);
    sleep_for(Duration::from_secs(1));
    assert_flows_kept(&network, &before);
    let second = controller(&network);
    // Switches find it one after another: a port to the last of them leads nowhere until then.
    for switch in ["s2", "s3", "s4"] {
        network.set_controller(switch, &second);
    }
    second.wait_for_sessions(3);
    sleep_for(Duration::from_secs(1));
    network.set_controller("s1", &second);
    // Two hosts say nothing: it is the rules that tell where they are.
    let found = |name, count| network.env().metric(name) == Some(count);
    wait_until(PATIENCE, "all to be known", || found("topology_links", 8) && found("hosts", 4));
    // What is deleted is deleted a second time.
    sleep_for(Duration::from_millis(1500));
    assert_flows_kept(&network, &before);
    assert_no_loss(pinging);
    wait_until(PATIENCE, "others to reach", || hosts[1].ping(&hosts[3], 1).lost() == 0);
}
