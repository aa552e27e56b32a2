//! Loops that cables and hubs close while a stream of broadcasts is forwarded by flow entries, on Open vSwitch with the default
//! configuration: how many frames circulate, and for how long.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use sluice_system_tests::{
    BackgroundTraffic, Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, Stopwatch, TestEnv,
    binary, both_versions, wait_until,
};

both_versions! {
    a_second_cable_of_a_hub_causes_no_storm() = second_cable;
    frames_between_connected_hubs_circulate_for_less_than_a_second() = connected_hubs;
    a_cable_between_two_access_ports_causes_no_storm() = cable_between_edges;
}

/// UDP port of the broadcasts.
const PORT: u16 = 5006;

/// A broadcast every 5 ms.
const SEND_INTERVAL: Duration = Duration::from_millis(5);

/// Frames are counted in intervals of this length.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// Intervals of a second: in the first one after a loop has been closed, frames may circulate.
const SECOND: u32 = 10;

/// Frames in the next second besides twice as many as before the loop: probes. One that circulates causes tens of thousands.
const OTHERS_MAX: u64 = 2_000;

/// Frames in the first two seconds where none circulates.
const FRAMES_MAX: u64 = 5_000;

/// The same where frames circulate until the loop is found.
const CIRCULATING_MAX: u64 = 100_000;

/// The default applications, with metrics.
fn controller(network: &OvsNetwork) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    Controller::with(command, network.env().dir())
}

/// Starts to send broadcasts, and waits until the switches forward them by flow entries.
fn start_stream(network: &OvsNetwork, sender: &Host) -> BackgroundTraffic {
    let socket = sender.udp(0);
    let sending = BackgroundTraffic::send(SEND_INTERVAL, move |number| {
        socket.send_to(&number.to_be_bytes(), ("10.0.0.255", PORT)).unwrap();
    });
    wait_until(LONG_TIMEOUT, "a flow entry for the stream", || {
        network.env().metric("forwarding_group_streams") == Some(1)
    });
    sending
}

/// Frames on all `links` in each of `count` intervals, from now on.
fn count_frames(network: &OvsNetwork, links: &[(&str, &str)], count: u32) -> Vec<u64> {
    let frames = || links.iter().map(|(a, b)| network.packets_on_link(a, b)).sum::<u64>();
    let (start, mut before) = (Stopwatch::start(), frames());
    (1..=count)
        .map(|n| {
            start.wait_until(COUNT_INTERVAL * n);
            let after = frames();
            after - std::mem::replace(&mut before, after)
        })
        .collect()
}

/// Lets `close` close a loop, and checks that frames circulate for a second at most, and how many in all.
#[track_caller]
fn assert_no_storm(
    network: &OvsNetwork,
    links: &[(&str, &str)],
    frames_max: u64,
    close: impl FnOnce(),
) {
    let before = count_frames(network, links, SECOND);
    close();
    let [first, next] = [(); 2].map(|()| count_frames(network, links, SECOND));
    let counts = format!("frames before, and in two seconds after: {before:?} {first:?} {next:?}");
    let [before, first, next] = [before, first, next].map(|frames| frames.iter().sum::<u64>());
    assert!(next <= 2 * before + OTHERS_MAX, "{counts}");
    assert!(first + next < frames_max, "{counts}");
}

/// A full mesh of three switches, with links that are counted.
const LINKS: [(&str, &str); 3] = [("s1", "s2"), ("s1", "s3"), ("s2", "s3")];

fn mesh(version: OpenFlow) -> (OvsNetwork, Controller) {
    let network = OvsNetwork::mesh(TestEnv::shared(), version, 3);
    let controller = controller(&network);
    (network, controller)
}

/// Waits until the hosts reach each other: also after the loop, which their unicast frames must not follow.
#[track_caller]
fn wait_until_reached(hosts: &[&Host]) {
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(next, 1).lost() == 0
        });
    }
}

/// What is logged about the ports of the segment: its hubs are at the third port of their switches.
const SEGMENT: [&str; 2] = [
    "unmanaged segment is connected to several ports",
    "dpid=0000000000000003 port=3 designated_dpid=0000000000000002 designated_port=3",
];

fn second_cable(version: OpenFlow) {
    let (network, controller) = mesh(version);
    network.hub("hub");
    network.link("hub", "s2");
    let (behind, h1) = (network.host("hub"), network.host("s1"));
    network.connect(&controller);
    wait_until_reached(&[&behind, &h1]);
    let _stream = start_stream(&network, &behind);
    let links = [&LINKS[..], &[("hub", "s2")]].concat();
    assert_no_storm(&network, &links, FRAMES_MAX, || network.link("hub", "s3"));
    controller.wait_for_log(&SEGMENT);
    wait_until_reached(&[&behind, &h1]);
}

fn connected_hubs(version: OpenFlow) {
    let (network, controller) = mesh(version);
    for (hub, bridge) in [("west", "s2"), ("east", "s3")] {
        network.hub(hub);
        network.link(hub, bridge);
    }
    let [west, east, h1] = ["west", "east", "s1"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    wait_until_reached(&[&west, &east, &h1]);
    let _stream = start_stream(&network, &west);
    let links = [&LINKS[..], &[("west", "s2"), ("east", "s3")]].concat();
    assert_no_storm(&network, &links, CIRCULATING_MAX, || network.link("west", "east"));
    controller.wait_for_log(&SEGMENT);
    wait_until_reached(&[&west, &east, &h1]);
}

/// The cable is a device whose ports have been up for long.
fn cable_between_edges(version: OpenFlow) {
    let (network, controller) = mesh(version);
    network.hub("cable");
    network.ofctl("del-flows", "cable", &[]);
    for bridge in ["s2", "s3"] {
        network.link("cable", bridge);
    }
    let hosts = ["s1", "s2", "s3"].map(|bridge| network.host(bridge));
    let [h1, h2, h3] = &hosts;
    network.connect(&controller);
    wait_until_reached(&[h1, h2, h3]);
    let _stream = start_stream(&network, h1);
    let links = [&LINKS[..], &[("cable", "s2"), ("cable", "s3")]].concat();
    assert_no_storm(&network, &links, CIRCULATING_MAX, || {
        for (from, to) in [(1, 2), (2, 1)] {
            network.ofctl("add-flow", "cable", &[&format!("in_port={from},actions=output:{to}")]);
        }
    });
    let ports = "dpid=0000000000000003 port=3 from_dpid=0000000000000002 from_port=3";
    controller.wait_for_log(&["link appears at a port that led to hosts", ports]);
    wait_until_reached(&[h1, h2, h3]);
}
