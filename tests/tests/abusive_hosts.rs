//! Hosts that say too much, on Open vSwitch: all of them to everybody, or one of them to nobody else's good.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, OpenFlow, OvsNetwork, PATIENCE, SOON, TestEnv, binary, both_versions,
    sleep_for, wait_until,
};

both_versions! {
    broadcasts_do_not_storm_in_a_ring_from_the_first_second() = broadcasts;
    a_host_that_fills_the_control_link_leaves_others_their_share() = hog;
    a_host_that_floods_what_shows_links_is_held() = lldp;
}

/// Where hosts listen.
const PORT: u16 = 5006;

fn controller(network: &OvsNetwork, row: &str, config: &str) -> Controller {
    let file = network.env().write("sluice.toml", config);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", row, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Says numbered things to everybody, a hundred a second, until `over`; how many.
fn shout(socket: &UdpSocket, rank: usize, over: &AtomicBool) -> u32 {
    let mut number = 0u32;
    while !over.load(Relaxed) {
        let said = [u32::try_from(rank).unwrap().to_be_bytes(), number.to_be_bytes()].concat();
        socket.send_to(&said, ("10.0.0.255", PORT)).unwrap();
        number += 1;
        sleep_for(Duration::from_millis(10));
    }
    number
}

/// How often each thing was heard that was said, until `over`.
fn listen(socket: &UdpSocket, over: &AtomicBool) -> HashMap<Vec<u8>, u32> {
    let mut heard = HashMap::new();
    let mut said = [0; 64];
    while !over.load(Relaxed) {
        if let Ok(len) = socket.recv(&mut said) {
            *heard.entry(said[..len].to_vec()).or_default() += 1;
        }
    }
    heard
}

fn broadcasts(version: OpenFlow) {
    const LINKS: [(&str, &str); 4] = [("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1")];
    let network = OvsNetwork::ring(TestEnv::new(), version, 4);
    let hosts = ["s1", "s2", "s3", "s4"].map(|switch| network.host(switch));
    let sockets = hosts.each_ref().map(|host| host.udp(PORT));
    let packets_on_link = || LINKS.iter().map(|(a, b)| network.packets_on_link(a, b)).sum::<u64>();
    let (quiet, silent) = (AtomicBool::new(false), AtomicBool::new(false));
    let before = packets_on_link();
    let (said, heard) = thread::scope(|scope| {
        let (quiet, silent) = (&quiet, &silent);
        let shouting: Vec<_> = sockets
            .iter()
            .enumerate()
            .map(|(rank, socket)| scope.spawn(move || shout(socket, rank, quiet)))
            .collect();
        let listening: Vec<_> = sockets
            .iter()
            .map(|socket| {
                socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                scope.spawn(move || listen(socket, silent))
            })
            .collect();
        // They speak before anybody is there to ask.
        sleep_for(Duration::from_millis(300));
        let controller = controller(&network, "topology,hosts,forwarding", "");
        network.connect(&controller);
        sleep_for(Duration::from_secs(3));
        quiet.store(true, Relaxed);
        let said: Vec<u32> = shouting.into_iter().map(|thread| thread.join().unwrap()).collect();
        sleep_for(Duration::from_millis(500));
        silent.store(true, Relaxed);
        let heard: Vec<_> = listening.into_iter().map(|thread| thread.join().unwrap()).collect();
        (said, heard)
    });
    let (mut others, mut copies, mut most) = (0, 0, 0);
    for (rank, heard) in heard.iter().enumerate() {
        let own = u32::try_from(rank).unwrap().to_be_bytes();
        for (_, &count) in heard.iter().filter(|(said, _)| !said.starts_with(&own)) {
            (others, copies, most) = (others + 1, copies + count, most.max(count));
        }
    }
    let said: u32 = said.iter().sum();
    let packets_on_link = packets_on_link() - before;
    let counts = format!(
        "{said} said: {others} heard, {copies} copies, {most} of one, {packets_on_link} on links"
    );
    // In the last second at least, all were heard by three.
    assert!(others > said / 4, "{counts}");
    assert!(copies <= others + others / 20 && most <= 4, "{counts}");
    assert!(packets_on_link < u64::from(said) / 2, "{counts}");
}

/// Limits that are soon reached.
const NARROW: &str = "[limiter]\npackets_per_s_max = 100\nburst_packets = 100\nblock_s = 5\n\
    [forwarding]\nmatch = \"five-tuple\"\n";

/// Three hosts at one switch: one of them means ill.
fn three(version: OpenFlow) -> (OvsNetwork, Controller, [Host; 3]) {
    let network = OvsNetwork::line(TestEnv::new(), version, 1);
    let controller = controller(&network, "limiter,topology,hosts,forwarding", NARROW);
    let hosts = [(); 3].map(|()| network.host("s1"));
    network.connect(&controller);
    for (a, b) in [(0, 2), (1, 2)] {
        wait_until(PATIENCE, "hosts to reach", || hosts[a].ping(&hosts[b], 1).lost() == 0);
    }
    (network, controller, hosts)
}

fn count(network: &OvsNetwork, name: &str) -> u64 {
    network.env().metric(name).unwrap_or_default()
}

fn hog(version: OpenFlow) {
    const ASKED: u32 = 100;
    let (network, _controller, [ill, good, server]) = three(version);
    let (to_server, over) = ((server.ipv4(), PORT), AtomicBool::new(false));
    let ears = server.udp(PORT);
    ears.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (sent, answered) = thread::scope(|scope| {
        let (over, to_server) = (&over, &to_server);
        let answering = scope.spawn(|| {
            let mut bytes = [0; 64];
            while !over.load(Relaxed) {
                if let Ok((len, from)) = ears.recv_from(&mut bytes) {
                    _ = ears.send_to(&bytes[..len], from);
                }
            }
        });
        // Each to another port: a conversation of its own, of which the first frame comes up.
        let flooding = scope.spawn(|| {
            let (socket, mut sent) = (ill.udp(0), 0u32);
            while !over.load(Relaxed) {
                for _ in 0..10 {
                    let port = 10_000 + u16::try_from(sent % 50_000).unwrap();
                    _ = socket.send_to(b"ill", (&*to_server.0, port));
                    sent += 1;
                }
                sleep_for(Duration::from_millis(2));
            }
            sent
        });
        sleep_for(Duration::from_millis(500));
        let asking: Vec<_> = (0..ASKED)
            .map(|_| {
                let socket = good.udp(0);
                socket.set_read_timeout(Some(SOON)).unwrap();
                socket.send_to(b"good", (&*to_server.0, PORT)).unwrap();
                sleep_for(Duration::from_millis(20));
                socket
            })
            .collect();
        sleep_for(Duration::from_millis(500));
        over.store(true, Relaxed);
        let answered = asking
            .iter()
            .filter(|socket| {
                socket.set_nonblocking(true).unwrap();
                socket.recv(&mut [0; 64]).is_ok()
            })
            .count();
        answering.join().unwrap();
        (flooding.join().unwrap(), answered)
    });
    let (holds, came_up) = (count(&network, "limiter_holds"), count(&network, "forwarding_paths"));
    let counts = format!("{sent} sent, {came_up} ways, {holds} holds, {answered} answered");
    assert!(holds > 0 && came_up < u64::from(sent) / 2, "{counts}");
    assert!(answered * 10 >= 8 * usize::try_from(ASKED).unwrap(), "{counts}");
}

fn lldp(version: OpenFlow) {
    const SENT: u32 = 2000;
    let (network, _controller, [ill, good, server]) = three(version);
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 0, 0, 0, 0, 0, 9, 0x88, 0xcc];
    frame.extend([2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 3, 7, b'1', b'2', 6, 2, 0, 120, 0, 0]);
    frame.resize(60, 0);
    ill.send_frames(&frame, SENT, 2000);
    let held: Vec<_> = network
        .flows("s1")
        .into_iter()
        .filter(|flow| flow.value("priority") == Some("65535"))
        .collect();
    assert_eq!(held.len(), 2, "{held:#?}");
    assert!(held.iter().all(|flow| flow.value("in_port") == Some(&ill.port().to_string())));
    wait_until(SOON, "the counts", || count(&network, "limiter_holds") > 0);
    let looked_at =
        count(&network, "topology_lldp_foreign") + count(&network, "topology_lldp_over_rate");
    assert!(looked_at > 0 && looked_at < u64::from(SENT) / 2, "{looked_at} came up");
    assert_eq!(good.ping(&server, 3).lost(), 0);
    // Who means ill is held in nothing else.
    assert_eq!(ill.ping(&server, 3).lost(), 0);
}
