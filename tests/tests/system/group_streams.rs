//! Streams of multicasts and broadcasts at a high rate, on Open vSwitch with the default configuration.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    wait_until,
};

both_versions! {
    a_stream_of_5000_frames_per_second_reaches_all_hosts_without_the_controller() = stream;
}

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// Frames per second.
const RATE: u32 = 5000;

/// Frames of the measured part of the stream.
const FRAMES: u32 = 10_000;

/// A UDP packet from a host to a group.
fn frame(from: &Host, version: OpenFlow) -> Vec<u8> {
    // Flow entries of 1.0 cannot match all groups, so the switches forward broadcasts only.
    let (dst, group) = match version {
        OpenFlow::V10 => ([0xff; 6], [10, 0, 0, 255]),
        _ => ([0x01, 0x00, 0x5e, 0x01, 0x01, 0x01], [239, 1, 1, 1]),
    };
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

fn stream(version: OpenFlow) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    let hosts = [1, 2, 3, 4].map(|switch| network.host(&format!("s{switch}")));
    network.connect(&controller);
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
    let [sender, others @ ..] = &hosts;
    let frame = frame(sender, version);
    wait_until(LONG_TIMEOUT, "a flow entry for the stream", || {
        sender.send_frames(&frame, RATE / 5, RATE);
        metric(&network, "sluice_forwarding_group_streams ") == 1
    });
    let received = || others.each_ref().map(Host::frames_received);
    let before = (received(), metric(&network, "sluice_forwarding_floods_total "));
    sender.send_frames(&frame, FRAMES, RATE);
    let delivered = || -> Vec<_> {
        received().iter().zip(before.0).map(|(now, before)| now - before).collect()
    };
    wait_until(LONG_TIMEOUT, "the frames to arrive", || {
        delivered().iter().all(|&n| n >= FRAMES.into())
    });
    // Besides these, the hosts receive a few probes of the links.
    assert!(delivered().iter().all(|&n| n < u64::from(FRAMES) + 200), "{:?}", delivered());
    let floods = metric(&network, "sluice_forwarding_floods_total ") - before.1;
    assert!(floods < 20, "{floods} packets through the controller");
}
