//! Switches of Open vSwitch that lose their power and come back with empty flow tables, and the default applications.

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    both_versions, wait_until,
};

both_versions! {
    a_switch_without_power_is_bypassed_and_used_again_when_it_returns() = one_switch;
    hosts_behind_a_switch_without_power_are_reached_again_when_it_returns() = only_path;
    hosts_reach_each_other_again_after_all_switches_have_restarted() = all_switches;
}

/// The default applications, with metrics.
fn controller(network: &OvsNetwork) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    Controller::with(command, network.env().dir())
}

/// The metric `sluice_topology_links`, each direction of a link counts, becomes `count`.
#[track_caller]
fn wait_for_links(network: &OvsNetwork, count: u64) {
    wait_until(LONG_TIMEOUT, &format!("{count} links"), || {
        network.env().metric("topology_links") == Some(count)
    });
}

/// Waits until no ping is lost between any pair of hosts.
#[track_caller]
fn assert_all_reach(hosts: &[Host]) {
    let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (a, b)));
    for (a, b) in pairs.filter(|(a, b)| a.port() != b.port()) {
        wait_until(LONG_TIMEOUT, &format!("{} from {}", b.ipv4(), a.ipv4()), || {
            a.ping(b, 3).lost() == 0
        });
    }
}

/// All flow entries to a host, at its own switch, send to its port: none is left of before.
#[track_caller]
fn assert_not_stale(network: &OvsNetwork, hosts: &[(&str, &Host)]) {
    for (bridge, host) in hosts {
        network.assert_forwards_to(bridge, host);
    }
}

/// The switch is on one of two paths, and has a host itself.
fn one_switch(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let controller = controller(&network);
    let hosts = ["s1", "s2", "s3"].map(|bridge| network.host(bridge));
    let to_s2 = [("s1", network.link_port("s1", "s2")), ("s3", network.link_port("s3", "s2"))];
    network.connect(&controller);
    wait_for_links(&network, 8);
    assert_all_reach(&hosts);
    let [h1, h2, h3] = &hosts;
    let s2 = network.power_off("s2");
    wait_for_links(&network, 4);
    wait_until(SHORT_TIMEOUT, "the other path", || h1.ping(h3, 20).lost() == 0);
    for (bridge, port) in to_s2 {
        wait_until(SHORT_TIMEOUT, "the entries to s2 to be deleted", || {
            network.entries_to_port(bridge, port) == 0
        });
    }
    network.power_on(s2, &controller);
    controller.wait_for_sessions(5);
    wait_for_links(&network, 8);
    assert_all_reach(&hosts);
    assert_not_stale(&network, &[("s1", h1), ("s2", h2), ("s3", h3)]);
}

fn only_path(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 3);
    let controller = controller(&network);
    let hosts = ["s1", "s2", "s3"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    wait_for_links(&network, 4);
    assert_all_reach(&hosts);
    let [h1, h2, h3] = &hosts;
    for (count, _) in (4..).zip(0..2) {
        let s2 = network.power_off("s2");
        wait_for_links(&network, 0);
        network.power_on(s2, &controller);
        controller.wait_for_sessions(count);
        assert_all_reach(&hosts);
        assert_not_stale(&network, &[("s1", h1), ("s2", h2), ("s3", h3)]);
    }
}

/// `ovs-vswitchd` is killed, so that nothing is saved, and no port goes down.
fn all_switches(version: OpenFlow) {
    let mut network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let controller = controller(&network);
    let hosts = ["s1", "s2", "s3", "s4"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    wait_for_links(&network, 8);
    assert_all_reach(&hosts);
    network.restart_switches();
    controller.wait_for_sessions(8);
    wait_for_links(&network, 8);
    assert_all_reach(&hosts);
    let [h1, h2, h3, h4] = &hosts;
    assert_not_stale(&network, &[("s1", h1), ("s2", h2), ("s3", h3), ("s4", h4)]);
    // No port is taken for anything but a link or a port to hosts.
    for (name, count) in [("ports_link", 8), ("ports_edge", 4), ("ports_shared_segment", 0)] {
        wait_until(SHORT_TIMEOUT, name, || {
            network.env().metric(&format!("topology_{name}")) == Some(count)
        });
    }
}
