//! IGMP and MLD snooping on Open vSwitch, with the groups that Linux joins.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, Stopwatch, TestEnv,
    becomes_true, binary, both_versions, wait_until,
};

both_versions! {
    members_get_all_packets_of_a_group_and_others_none_from_the_controller("controller") = snooping;
    members_get_all_packets_of_a_group_and_others_none_along_the_tree("tree") = snooping;
}

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// UDP port of the packets.
const PORT: u16 = 5006;

/// Packets of one round, and per second.
const PACKETS: u32 = 200;
const RATE: u32 = 100;

/// Frames that a host receives during a round besides these: probes of links, and queries.
const OTHERS_MAX: u64 = 60;

fn metric(network: &OvsNetwork, name: &str) -> u64 {
    let mut curl = network.env().command("curl");
    let output = curl.args(["-sf", &format!("http://{API}/metrics")]).output();
    let text = String::from_utf8(output.map(|output| output.stdout).unwrap_or_default()).unwrap();
    let name = format!("sluice_forwarding_{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
    line.trim_end_matches(".0").parse().unwrap()
}

/// Sends packets to a group at a steady rate.
fn send(from: &UdpSocket, group: IpAddr, count: u32) {
    let start = Stopwatch::start();
    for n in 0..count {
        start.wait_until(Duration::from_secs(1) / RATE * n);
        from.send_to(&n.to_be_bytes(), (group, PORT)).unwrap();
    }
}

/// How many packets have arrived at a member.
fn received(at: &UdpSocket) -> u32 {
    at.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut count = 0;
    while at.recv(&mut [0; 64]).is_ok() {
        count += 1;
    }
    count
}

fn snooping(version: OpenFlow, flood: &str) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 3);
    let env = network.env();
    let config = env.write(
        "sluice.toml",
        format!(
            "[forwarding]\nflood = \"{flood}\"\nmulticast_snooping = true\n\
             multicast_unregistered = \"router-ports\"\n"
        ),
    );
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--api", API, "--config"]).arg(config);
    let controller = Controller::with(command, env.dir());
    let hosts = ["s1", "s2", "s2", "s3"].map(|switch| network.host(switch));
    let [sender, member, neighbor, distant] = &hosts;
    hosts.iter().for_each(Host::enable_ipv6);
    sender.route_multicasts();
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    if flood == "tree" {
        wait_until(LONG_TIMEOUT, "a spanning tree", || metric(&network, "tree_active") == 1);
    }
    for (group, from) in [("239.1.2.3", sender.udp(0)), ("ff15::abcd:1", sender.udp_ipv6(0))] {
        let group = group.parse().unwrap();
        // Whether the hosts without members get packets to the group.
        let is_filtered = || {
            let before = [neighbor, distant].map(Host::frames_received);
            send(&from, group, PACKETS);
            let now = [neighbor, distant].map(Host::frames_received);
            now.iter().zip(before).all(|(now, before)| now - before < OTHERS_MAX)
        };
        let socket = member.join_group(group, PORT);
        wait_until(LONG_TIMEOUT, "the packets to be filtered", is_filtered);
        received(&socket);
        assert!(is_filtered());
        assert_eq!(received(&socket), PACKETS);
        // Another member at a port that had none.
        let other = distant.join_group(group, PORT);
        wait_until(SHORT_TIMEOUT, "the other member to get the packets", || {
            send(&from, group, 1);
            received(&other) > 0
        });
        received(&socket);
        send(&from, group, PACKETS);
        assert_eq!([&socket, &other].map(received), [PACKETS; 2]);
        drop((socket, other));
        let is_left = || {
            let before = member.frames_received();
            send(&from, group, PACKETS);
            member.frames_received() - before < OTHERS_MAX
        };
        assert!(becomes_true(LONG_TIMEOUT, is_left), "it has left the group");
    }
    assert_eq!(metric(&network, "multicast_malformed_total"), 0);
    assert_eq!(metric(&network, "flow_entries_refused_total"), 0);
}
