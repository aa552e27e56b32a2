//! Streams of multicasts and broadcasts at a high rate, on Open vSwitch with the default configuration.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, becomes_true, binary,
    both_versions, wait_until,
};

both_versions! {
    a_stream_of_5000_frames_per_second_reaches_all_hosts_without_the_controller() = ring;
    multicasts_at_5000_frames_per_second_reach_all_hosts_of_a_switch_without_the_controller() = one_switch;
}

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// Frames per second.
const RATE: u32 = 5000;

/// Frames of the measured part of the stream.
const FRAMES: u32 = 10_000;

/// Packet-ins while the measured part of the stream is sent: probes of links and segments, and what hosts send besides.
const PACKET_INS_MAX: u64 = FRAMES as u64 / 20;

/// How soon after the last frame was sent all have arrived.
const ARRIVAL: Duration = Duration::from_secs(1);

/// A destination: MAC address and IP address.
type Destination = ([u8; 6], [u8; 4]);

const BROADCAST: Destination = ([0xff; 6], [10, 0, 0, 255]);

const MULTICAST: Destination = ([0x01, 0x00, 0x5e, 0x01, 0x01, 0x01], [239, 1, 1, 1]);

/// A UDP packet from a host to a group.
fn frame(from: &Host, (dst, group): Destination) -> Vec<u8> {
    let src = from.mac();
    let src = src.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let own: std::net::Ipv4Addr = from.ipv4().parse().unwrap();
    let start = [0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 8, 17, 0, 0];
    let udp = [0x13, 0x88, 0x13, 0x88, 0, 26, 0, 0];
    let header = dst.into_iter().chain(src).chain(start).chain(own.octets()).chain(group);
    header.chain(udp).chain([0; 18]).collect()
}

fn metric(network: &OvsNetwork, name: &str) -> u64 {
    let mut curl = network.env().command("curl");
    let output = curl.args(["-sf", &format!("http://{API}/metrics")]).output();
    let text = String::from_utf8(output.map(|output| output.stdout).unwrap_or_default()).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let sum = values.sum::<f64>() as u64;
    sum
}

/// Flow entries of 1.0 cannot match all groups, so that its switches forward only broadcasts to each other.
fn ring(version: OpenFlow) {
    let to = if version == OpenFlow::V10 { BROADCAST } else { MULTICAST };
    stream(&OvsNetwork::ring(TestEnv::shared(), version, 4), ["s1", "s2", "s3", "s4"], to);
}

fn one_switch(version: OpenFlow) {
    stream(&OvsNetwork::line(TestEnv::shared(), version, 1), ["s1"; 4], MULTICAST);
}

fn stream(network: &OvsNetwork, switches: [&str; 4], to: Destination) {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    let hosts = switches.map(|switch| network.host(switch));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    let [sender, others @ ..] = &hosts;
    let frame = frame(sender, to);
    wait_until(LONG_TIMEOUT, "a flow entry for the stream", || {
        sender.send_frames(&frame, RATE / 5, RATE);
        metric(network, "sluice_forwarding_group_streams ") == 1
    });
    let received = || others.each_ref().map(Host::frames_received);
    let counts = || {
        ["forwarding_floods_total ", "switch_packet_ins_received_total{"]
            .map(|name| metric(network, &format!("sluice_{name}")))
    };
    // A switch on a busy machine loses some frames before it forwards them.
    wait_until(LONG_TIMEOUT, "97 of 100 frames to arrive", || {
        let (received_before, [floods_before, packet_ins_before]) = (received(), counts());
        sender.send_frames(&frame, FRAMES, RATE);
        // Besides these, the hosts receive a few probes of the links.
        let (min, max) = (u64::from(FRAMES) * 97 / 100, u64::from(FRAMES) + 200);
        let delivered = || -> Vec<_> {
            received().iter().zip(received_before).map(|(now, before)| now - before).collect()
        };
        let arrive = becomes_true(ARRIVAL, || delivered().iter().all(|&n| n >= min));
        assert!(delivered().iter().all(|&n| n < max), "{:?}", delivered());
        let [floods, packet_ins] = counts();
        let (floods, packet_ins) = (floods - floods_before, packet_ins - packet_ins_before);
        assert!(floods < 20, "{floods} packets through the controller");
        assert!(packet_ins < PACKET_INS_MAX, "{packet_ins} packet-ins");
        arrive
    });
}
