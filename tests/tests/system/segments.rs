//! Unmanaged segments with several cables to switches of Open vSwitch, and the default applications.

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions, wait_until,
};

both_versions! {
    no_frame_circulates_through_a_hub_with_two_cables() = hub_with_two_cables;
}

/// Frames on the links of the hub and between the switches while hosts ping each other 20 times: at most a few for each ping,
/// and probes. A frame that circulates causes tens of thousands in a second.
const FRAMES_MAX: u64 = 2_000;

fn hub_with_two_cables(version: OpenFlow) {
    let network = OvsNetwork::mesh(TestEnv::shared(), version, 3);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, network.env().dir());
    network.hub("hub");
    network.link("hub", "s2");
    network.link("hub", "s3");
    let (behind, h1, h3) = (network.host("hub"), network.host("s1"), network.host("s3"));
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "two ports of one segment", || {
        network.env().metric("topology_ports_shared_segment") == Some(2)
    });
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
    let log = controller.log();
    assert!(log.contains("unmanaged segment is connected to several ports"), "{log}");
}
