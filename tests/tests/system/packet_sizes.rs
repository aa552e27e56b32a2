//! Jumbo frames on Open vSwitch, with the default applications.

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, both_versions, wait_until,
};

both_versions! {
    jumbo_frames_are_forwarded_from_the_first_packet_on() = jumbo_frames;
}

/// Bytes of data in each echo request.
const BYTES: u16 = 8900;

fn jumbo_frames(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = Controller::new(network.env(), "");
    let hosts = [network.host("s1"), network.host("s2")];
    let [h1, h2] = &hosts;
    network.enable_jumbo_frames(&hosts);
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || h1.ping(h2, 1).lost() == 0);
    assert_eq!(h1.ping_unfragmented(h2, 10, BYTES).lost(), 0, "by flow entries");
    // No ARP request is needed, so that the first packet is a jumbo frame; the controller forwards it and its answer.
    for (host, other) in [(h1, h2), (h2, h1)] {
        host.add_neighbour(other);
    }
    for bridge in ["s1", "s2"] {
        for host in &hosts {
            network.ofctl("del-flows", bridge, &[&format!("dl_dst={}", host.mac())]);
            assert!(network.flows_to(bridge, host).is_empty());
        }
    }
    assert_eq!(h1.ping_unfragmented(h2, 1, BYTES).lost(), 0, "the first packet");
    for (bridge, host) in [("s1", h1), ("s2", h2)] {
        network.assert_forwards_to(bridge, host);
    }
    assert!(h1.iperf(h2) > 0.0);
    assert!(h2.iperf(h1) > 0.0);
}
