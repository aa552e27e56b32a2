//! Link discovery between Open vSwitch bridges.

use sluice_system_tests::{
    Controller, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, becomes_true, binary, both_versions,
    every_version, wait_until,
};

every_version! {
    links_of_a_ring_are_discovered_and_a_cut_is_noticed_at_once() = ring;
}

both_versions! {
    links_of_a_switch_that_reconnects_are_discovered_again() = reconnect;
    ports_to_an_unmanaged_bridge_are_a_shared_segment() = unmanaged_bridge;
}

/// Probes so rare that a lost link is noticed by them after 24 s, later than these tests wait; a probe that Open vSwitch loses
/// while it starts is repeated in time.
const RARE_PROBES: &str =
    "topology.probe_interval_ms = 8000\nexperimental.shared_interval_ms = 600000\n";

/// Unmanaged segments are probed every second, since they may lose a probe.
const SEGMENT_PROBES: &str =
    "topology.probe_interval_ms = 8000\nexperimental.shared_interval_ms = 1000\n";

/// A controller that runs `topology` with this configuration.
fn controller(network: &OvsNetwork, config: &str) -> Controller {
    let env = network.env();
    let config = env.write("sluice.toml", config);
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", "topology", "--config"]);
    command.arg(&config);
    Controller::with(command, env.dir())
}

fn metric(network: &OvsNetwork, name: &str) -> Option<u64> {
    network.env().metric(&format!("topology_{name}"))
}

/// Waits for this number of links and of edge ports, and checks that no probe was rejected.
#[track_caller]
fn wait_for_links(network: &OvsNetwork, links: u64, edges: u64) {
    let found = || (metric(network, "links"), metric(network, "ports_edge"));
    let is_found = becomes_true(SHORT_TIMEOUT, || found() == (Some(links), Some(edges)));
    assert!(is_found, "{:?} instead of {links} links and {edges} edge ports", found());
    for wrong in ["lldp_forged_total", "lldp_malformed_total", "lldp_foreign_total", "ports_looped"]
    {
        assert_eq!(metric(network, wrong), Some(0), "{wrong}");
    }
}

fn ring(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let controller = controller(&network, RARE_PROBES);
    let _hosts = ["s1", "s3"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    wait_for_links(&network, 8, 2);
    assert_eq!(metric(&network, "ports_link"), Some(8));
    network.cut_link("s1", "s2");
    wait_for_links(&network, 6, 2);
    network.restore_link("s1", "s2");
    wait_for_links(&network, 8, 2);
}

fn reconnect(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 3);
    let controller = controller(&network, RARE_PROBES);
    network.connect(&controller);
    wait_for_links(&network, 4, 0);
    network.clear_controller("s2");
    wait_for_links(&network, 0, 0);
    // These ports lead to a switch that may still be forwarding.
    assert_eq!(metric(&network, "ports_link"), Some(2));
    network.set_controller("s2", &controller);
    wait_for_links(&network, 4, 0);
}

fn unmanaged_bridge(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 3);
    let controller = controller(&network, SEGMENT_PROBES);
    // No controller manages it: it learns and floods by itself, and does not forward LLDP.
    network.make_standalone("s2");
    network.set_controller("s1", &controller);
    network.set_controller("s3", &controller);
    wait_for_links(&network, 0, 0);
    wait_until(SHORT_TIMEOUT, "two shared ports", || {
        metric(&network, "ports_shared_segment") == Some(2)
    });
}
