//! The default applications on Open vSwitch: all pairs of hosts, failed links, lost control connections, a restarted
//! controller.

use sluice_system_tests::{
    BackgroundPing, Controller, Host, LONG_TIMEOUT, ListedFlow, OpenFlow, OvsNetwork, TestEnv,
    binary, both_versions, wait_until,
};

both_versions! {
    all_pairs_of_hosts_in_a_ring_reach_each_other_without_a_storm(super::ring, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_hosts_in_a_mesh_reach_each_other_without_a_storm(super::mesh, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_hosts_in_a_leaf_spine_network_reach_each_other_without_a_storm(super::leaf_spine, [1, 2, 3, 4]) = all_pairs;
    all_pairs_of_hosts_in_a_tree_reach_each_other_without_a_storm(super::tree, [4, 5, 6, 7]) = all_pairs;
    traffic_is_rerouted_around_a_failed_link_and_not_disturbed_when_it_returns() = failed_link;
    lost_control_connections_do_not_interrupt_traffic() = lost_control_connections;
    a_restart_of_the_controller_does_not_interrupt_traffic() = restart;
    after_a_restart_of_the_controller_nobody_takes_over_a_host() = claim_after_restart;
}

fn ring(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::ring(TestEnv::shared(), version, 4)
}

fn mesh(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::mesh(TestEnv::shared(), version, 4)
}

fn leaf_spine(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::leaf_spine(TestEnv::shared(), version, 2, 4)
}

fn tree(version: OpenFlow) -> OvsNetwork {
    OvsNetwork::tree(TestEnv::shared(), version)
}

const FILE: &str = "sluice.toml";

/// Ports stay pending for longer than by default, since the machine may be busy.
const LONG_PENDING: &str = "[experimental]\nsettle_ms = 500\n";

/// Silent switches are disconnected after two seconds.
const SHORT_ECHO: &str = "[session]\necho_interval_s = 1\necho_timeout_s = 1\n";

fn controller(network: &OvsNetwork) -> Controller {
    let file = network.env().write(FILE, LONG_PENDING);
    let mut command = network.env().command(&binary().to_string_lossy());
    let apps = "topology,hosts,forwarding";
    command.args(["run", "--threads", "2", "--app", apps, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// A controller and hosts at four switches, each of which reaches the next.
fn hosts_at(network: OvsNetwork, switches: [u16; 4]) -> (OvsNetwork, Controller, [Host; 4]) {
    let controller = controller(&network);
    let hosts = switches.map(|switch| network.host(&format!("s{switch}")));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    (network, controller, hosts)
}

fn all_pairs(version: OpenFlow, network: fn(OpenFlow) -> OvsNetwork, switches: [u16; 4]) {
    let (_network, _controller, hosts) = hosts_at(network(version), switches);
    hosts.iter().for_each(Host::enable_ipv6);
    let (frames, broadcasts) = (hosts[2].frames_received(), hosts[2].broadcasts_received());
    hosts[0].broadcast(20);
    wait_until(LONG_TIMEOUT, "the broadcasts to arrive", || {
        hosts[2].broadcasts_received() >= broadcasts + 20
    });
    // A storm would go on.
    assert_eq!(hosts[0].ping(&hosts[2], 10).lost(), 0);
    let received = hosts[2].frames_received() - frames;
    assert!(received < 200, "{received} frames received after 20 broadcasts");
    for a in &hosts {
        for b in hosts.iter().filter(|b| b.mac() != a.mac()) {
            assert_eq!(a.ping(b, 2).lost(), 0);
            wait_until(LONG_TIMEOUT, "the hosts to reach each other over IPv6", || {
                a.ping_ipv6(b, 1).lost() == 0
            });
        }
    }
    assert!(hosts[0].iperf(&hosts[2]) > 0.0);
}

fn failed_link(version: OpenFlow) {
    let (network, _controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    let traffic_with_links = |count| {
        wait_until(LONG_TIMEOUT, &format!("{count} links"), || {
            network.env().metric("topology_links") == Some(count)
        });
        pinging.wait_for_replies(100);
    };
    traffic_with_links(8);
    // One of the two links is on the path. Both switches see the first link fail, only s1 sees the second.
    network.cut_link("s1", "s2");
    traffic_with_links(6);
    network.restore_link("s1", "s2");
    traffic_with_links(8);
    network.remove_link_port("s1", "s4");
    traffic_with_links(6);
    network.add_link_port("s1", "s4");
    traffic_with_links(8);
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() < 60, "{loss:?}");
}

/// Enough probes for three rounds of the ring's ports: to its links and to four hosts.
const PROBES: u64 = 36;

const SWITCHES: [&str; 4] = ["s1", "s2", "s3", "s4"];

fn flow_entries(network: &OvsNetwork) -> Vec<Vec<ListedFlow>> {
    SWITCHES.map(|switch| network.flows(switch)).into()
}

/// Checks that all flow entries still exist.
#[track_caller]
fn assert_flows_kept(network: &OvsNetwork, before: &[Vec<ListedFlow>]) {
    for ((switch, before), after) in SWITCHES.iter().zip(before).zip(flow_entries(network)) {
        let removed: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).collect();
        assert!(removed.is_empty(), "{switch} has lost {removed:#?} and has {after:#?}");
    }
}

/// Checks that no reply was lost.
#[track_caller]
fn assert_no_loss(pinging: BackgroundPing) {
    let loss = pinging.stop();
    assert!(loss.sent > 100 && loss.lost() == 0, "{loss:?}");
}

fn lost_control_connections(version: OpenFlow) {
    let (network, mut controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    network.env().write(FILE, format!("{LONG_PENDING}{SHORT_ECHO}"));
    controller.reload();
    let disconnected =
        || controller.log().lines().filter(|line| line.contains("switch disconnected")).count();
    let before = flow_entries(&network);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    pinging.wait_for_replies(100);
    network.set_unreachable_controller("s1");
    wait_until(LONG_TIMEOUT, "s1 to be disconnected", || disconnected() == 1);
    network.wait_for_probes(PROBES);
    assert_flows_kept(&network, &before);
    network.set_controller("s1", &controller);
    controller.wait_for_sessions(5);
    network.cut_control_network();
    wait_until(LONG_TIMEOUT, "all to be disconnected", || disconnected() == 5);
    assert_flows_kept(&network, &before);
    network.restore_control_network();
    wait_until(LONG_TIMEOUT, "all to be connected again", || controller.sessions() >= 9);
    wait_until(LONG_TIMEOUT, "the other hosts to reach each other", || {
        hosts[1].ping(&hosts[3], 1).lost() == 0
    });
    assert_flows_kept(&network, &before);
    assert_no_loss(pinging);
}

/// The hosts have no IPv6, and all their packets are forwarded by flow entries, so the controller does not know their addresses.
fn claim_after_restart(version: OpenFlow) {
    let (network, mut controller, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    pinging.wait_for_replies(100);
    controller.kill();
    controller.restart();
    controller.wait_for_sessions(4);
    let is_metric = |name, count| network.env().metric(name) == Some(count);
    wait_until(LONG_TIMEOUT, "all links and two hosts to be known", || {
        is_metric("topology_links", 8) && network.env().metric("hosts") >= Some(2)
    });
    let claim =
        [&hex(&hosts[1].mac())[..], &hex(&hosts[0].mac()), &[0x88, 0xb5], &[0; 46]].concat();
    hosts[3].send_frames(&claim, 200, 100);
    pinging.wait_for_replies(100);
    assert_no_loss(pinging);
}

/// The bytes of an Ethernet address.
fn hex(mac: &str) -> Vec<u8> {
    mac.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

fn restart(version: OpenFlow) {
    let (network, first, hosts) = hosts_at(ring(version), [1, 2, 3, 4]);
    let before = flow_entries(&network);
    let pinging = hosts[0].start_fast_ping(&hosts[2]);
    pinging.wait_for_replies(100);
    drop(first);
    wait_until(LONG_TIMEOUT, "the switches to notice", || {
        SWITCHES.iter().all(|switch| network.disconnections(switch) > 0)
    });
    pinging.wait_for_replies(100);
    assert_flows_kept(&network, &before);
    let second = controller(&network);
    // The last switch connects later: until then the ports to it belong to no known link.
    for switch in ["s2", "s3", "s4"] {
        network.set_controller(switch, &second);
    }
    second.wait_for_sessions(3);
    let is_metric = |name, count| network.env().metric(name) == Some(count);
    wait_until(LONG_TIMEOUT, "the links between three switches to be known", || {
        is_metric("topology_links", 4) && is_metric("topology_ports_pending", 0)
    });
    network.set_controller("s1", &second);
    // Two hosts are silent: the controller learns their locations from the flow entries.
    wait_until(LONG_TIMEOUT, "all links and hosts to be known", || {
        is_metric("topology_links", 8) && is_metric("hosts", 4)
    });
    // Deletions are repeated after a second.
    network.wait_for_probes(PROBES);
    assert_flows_kept(&network, &before);
    assert_no_loss(pinging);
    wait_until(LONG_TIMEOUT, "the other hosts to reach each other", || {
        hosts[1].ping(&hosts[3], 1).lost() == 0
    });
}
