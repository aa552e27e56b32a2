//! Unmanaged segments and cables between ports of Open vSwitch that led to hosts, and the default applications.

use std::time::Duration;

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, Stopwatch, TestEnv, binary,
    both_versions, wait_until,
};

both_versions! {
    no_frame_circulates_through_a_hub_with_two_cables() = hub_with_two_cables;
    hubs_that_are_connected_are_found_by_frames_that_return() = connected_hubs;
    a_cable_between_ports_that_led_to_hosts_is_reported_and_used("report", 8) = cable_between_edges;
    a_cable_between_ports_that_led_to_hosts_is_refused("refuse", 6) = cable_between_edges;
}

/// Frames on the links of the hub and between the switches while hosts ping each other 20 times: at most a few for each ping,
/// and probes. A frame that circulates causes tens of thousands in a second.
const FRAMES_MAX: u64 = 2_000;

/// A controller that runs the default applications with this configuration.
fn controller(network: &OvsNetwork, config: &str) -> Controller {
    let config = network.env().write("sluice.toml", config);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--config"]).arg(&config);
    Controller::with(command, network.env().dir())
}

/// The metric `sluice_topology_<name>` becomes `value`.
#[track_caller]
fn wait_for(network: &OvsNetwork, name: &str, value: u64) {
    wait_until(LONG_TIMEOUT, &format!("{name} to be {value}"), || {
        network.env().metric(&format!("topology_{name}")) == Some(value)
    });
}

fn hub_with_two_cables(version: OpenFlow) {
    let network = OvsNetwork::mesh(TestEnv::shared(), version, 3);
    let controller = controller(&network, "");
    network.hub("hub");
    network.link("hub", "s2");
    network.link("hub", "s3");
    let (behind, h1, h3) = (network.host("hub"), network.host("s1"), network.host("s3"));
    network.connect(&controller);
    wait_for(&network, "ports_shared_segment", 2);
    for host in [&h1, &h3] {
        wait_until(LONG_TIMEOUT, "the host behind the hub", || host.ping(&behind, 1).lost() == 0);
    }
    let links = [("hub", "s2"), ("hub", "s3"), ("s1", "s2"), ("s1", "s3"), ("s2", "s3")];
    let frames = || links.map(|(a, b)| network.packets_on_link(a, b)).iter().sum::<u64>();
    let before = frames();
    for host in [&h1, &h3] {
        assert_eq!(host.ping(&behind, 20).lost(), 0);
        assert_eq!(behind.ping(host, 20).lost(), 0);
    }
    let sent = frames() - before;
    assert!(sent < FRAMES_MAX, "{sent} frames for 80 pings");
    assert_eq!(network.env().metric("forwarding_segment_ports_blocked"), Some(1));
    controller.wait_for_log(&["unmanaged segment is connected to several ports"]);
}

/// No port goes down or comes up, and broadcast probes are so rare that they do not show it in time.
fn connected_hubs(version: OpenFlow) {
    let network = OvsNetwork::mesh(TestEnv::shared(), version, 3);
    let controller = controller(&network, "experimental.shared_interval_ms = 600000\n");
    for (hub, bridge) in [("west", "s2"), ("east", "s3")] {
        network.hub(hub);
        network.link(hub, bridge);
    }
    let [west, east] = ["west", "east"].map(|hub| network.host(hub));
    network.connect(&controller);
    wait_for(&network, "ports_edge", 2);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || west.ping(&east, 1).lost() == 0);
    network.link("west", "east");
    let unknown = network.vacant_place("s1");
    wait_until(SHORT_TIMEOUT, "two ports of one segment", || {
        // Nobody answers the ARP requests.
        west.ping(&unknown, 1);
        network.env().metric("topology_ports_shared_segment") == Some(2)
    });
    let ends = "dpid=0000000000000003 port=3 designated_dpid=0000000000000002 designated_port=3";
    controller.wait_for_log(&[ends]);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || west.ping(&east, 1).lost() == 0);
}

/// How long ports must have led to hosts for a link between them to be unexpected.
const SETTLED: Duration = Duration::from_secs(10);

/// A device like a media converter connects two ports that were up, and led nowhere.
fn cable_between_edges(version: OpenFlow, unexpected_links: &str, links: u64) {
    let network = OvsNetwork::mesh(TestEnv::shared(), version, 3);
    let config = format!("topology.unexpected_links = \"{unexpected_links}\"\n");
    let controller = controller(&network, &config);
    network.hub("cable");
    network.ofctl("del-flows", "cable", &[]);
    for bridge in ["s1", "s2"] {
        network.link("cable", bridge);
    }
    let hosts = ["s1", "s2", "s3"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    wait_for(&network, "links", 6);
    wait_for(&network, "ports_edge", 5);
    Stopwatch::start().wait_until(SETTLED + Duration::from_secs(1));
    for (from, to) in [(1, 2), (2, 1)] {
        network.ofctl("add-flow", "cable", &[&format!("in_port={from},actions=output:{to}")]);
    }
    wait_for(&network, "unexpected_links_total", 2);
    let reported = "link appears at a port that led to hosts";
    let reports = || controller.log().matches(reported).count();
    wait_until(SHORT_TIMEOUT, "a report of each end", || reports() >= 2);
    assert_eq!(reports(), 2, "{}", controller.log());
    if unexpected_links == "refuse" {
        wait_for(&network, "ports_shared_segment", 2);
    }
    wait_for(&network, "links", links);
    let cables = [("cable", "s1"), ("s1", "s2"), ("s2", "s3"), ("s1", "s3")];
    let frames = || cables.map(|(a, b)| network.packets_on_link(a, b)).iter().sum::<u64>();
    let before = frames();
    let [h1, h2, h3] = &hosts;
    for (from, to) in [(h1, h2), (h2, h3), (h3, h1)] {
        from.assert_reaches(to);
    }
    let sent = frames() - before;
    assert!(sent < FRAMES_MAX, "{sent} frames for 60 pings");
    wait_for(&network, "links", links);
}
