//! Hosts that send too much, on Open vSwitch: broadcasts of all, new flows or LLDP of one.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    both_versions, sleep_for, wait_until,
};

both_versions! {
    broadcasts_in_a_ring_cause_no_storm_from_the_first_second() = broadcasts;
    a_host_that_sends_too_many_new_flows_leaves_others_their_share() = too_many_flows;
    a_host_that_floods_lldp_is_rate_limited() = too_much_lldp;
}

/// UDP port that hosts listen at.
const PORT: u16 = 5006;

fn controller(network: &OvsNetwork, apps: &str, config: &str) -> Controller {
    let file = network.env().write("sluice.toml", config);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", apps, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Sends a hundred numbered broadcasts a second until `is_over`; returns how many.
fn send_broadcasts(socket: &UdpSocket, sender: usize, is_over: &AtomicBool) -> u32 {
    let mut number = 0u32;
    while !is_over.load(Relaxed) {
        let message = [u32::try_from(sender).unwrap().to_be_bytes(), number.to_be_bytes()].concat();
        socket.send_to(&message, ("10.0.0.255", PORT)).unwrap();
        number += 1;
        sleep_for(Duration::from_millis(10));
    }
    number
}

/// Receives broadcasts until `is_over`; returns how many times each was received.
fn count_broadcasts(socket: &UdpSocket, is_over: &AtomicBool) -> BTreeMap<Vec<u8>, u32> {
    let mut received = BTreeMap::new();
    let mut message = [0; 64];
    while !is_over.load(Relaxed) {
        if let Ok(len) = socket.recv(&mut message) {
            *received.entry(message[..len].to_vec()).or_default() += 1;
        }
    }
    received
}

fn broadcasts(version: OpenFlow) {
    const LINKS: [(&str, &str); 4] = [("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1")];
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let hosts = ["s1", "s2", "s3", "s4"].map(|switch| network.host(switch));
    let sockets = hosts.each_ref().map(|host| host.udp(PORT));
    let packets_on_links = || LINKS.iter().map(|(a, b)| network.packets_on_link(a, b)).sum::<u64>();
    let (sending_is_over, receiving_is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let before = packets_on_links();
    let (sent, received) = thread::scope(|scope| {
        let (sending_is_over, receiving_is_over) = (&sending_is_over, &receiving_is_over);
        let senders: Vec<_> = sockets
            .iter()
            .enumerate()
            .map(|(sender, socket)| {
                scope.spawn(move || send_broadcasts(socket, sender, sending_is_over))
            })
            .collect();
        let receivers: Vec<_> = sockets
            .iter()
            .map(|socket| {
                socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                scope.spawn(move || count_broadcasts(socket, receiving_is_over))
            })
            .collect();
        // The hosts send before a controller is connected.
        sleep_for(Duration::from_millis(300));
        let controller = controller(&network, "topology,hosts,forwarding", "");
        network.connect(&controller);
        sleep_for(Duration::from_secs(3));
        sending_is_over.store(true, Relaxed);
        let sent: Vec<u32> = senders.into_iter().map(|thread| thread.join().unwrap()).collect();
        sleep_for(Duration::from_millis(500));
        receiving_is_over.store(true, Relaxed);
        let received: Vec<_> = receivers.into_iter().map(|thread| thread.join().unwrap()).collect();
        (sent, received)
    });
    let (mut others, mut copies, mut most) = (0, 0, 0);
    for (sender, received) in received.iter().enumerate() {
        let own = u32::try_from(sender).unwrap().to_be_bytes();
        for (_, &count) in received.iter().filter(|(message, _)| !message.starts_with(&own)) {
            (others, copies, most) = (others + 1, copies + count, most.max(count));
        }
    }
    let sent: u32 = sent.iter().sum();
    let on_links = packets_on_links() - before;
    let counts = format!(
        "{sent} sent: {others} received, {copies} copies, {most} of one, {on_links} on links"
    );
    // In the last second at least, every broadcast was received by three hosts.
    assert!(others > sent / 4, "{counts}");
    assert!(copies <= others + others / 20 && most <= 4, "{counts}");
    assert!(on_links < u64::from(sent) / 2, "{counts}");
}

/// Limits that are reached soon.
const LOW_LIMITS: &str = "[limiter]\npackets_per_s_max = 100\nburst_packets = 100\nblock_s = 5\n\
    [forwarding]\nmatch = \"five-tuple\"\n";

/// Three hosts at one switch; tests use them as abuser, client and server.
fn three_hosts(version: OpenFlow) -> (OvsNetwork, Controller, [Host; 3]) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let controller = controller(&network, "limiter,topology,hosts,forwarding", LOW_LIMITS);
    let hosts = [(); 3].map(|()| network.host("s1"));
    network.connect(&controller);
    for (a, b) in [(0, 2), (1, 2)] {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            hosts[a].ping(&hosts[b], 1).lost() == 0
        });
    }
    (network, controller, hosts)
}

fn count(network: &OvsNetwork, name: &str) -> u64 {
    network.env().metric(name).unwrap_or_default()
}

fn too_many_flows(version: OpenFlow) {
    const REQUESTS: u32 = 100;
    let (network, controller, [abuser, client, server]) = three_hosts(version);
    let (to_server, is_over) = ((server.ipv4(), PORT), AtomicBool::new(false));
    let socket_of_server = server.udp(PORT);
    socket_of_server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (sent, answered) = thread::scope(|scope| {
        let (is_over, to_server) = (&is_over, &to_server);
        let answering = scope.spawn(|| {
            let mut bytes = [0; 64];
            while !is_over.load(Relaxed) {
                if let Ok((len, from)) = socket_of_server.recv_from(&mut bytes) {
                    _ = socket_of_server.send_to(&bytes[..len], from);
                }
            }
        });
        // Each datagram has another destination port, so that it is a new flow and causes a packet-in.
        let flooding = scope.spawn(|| {
            let (socket, mut sent) = (abuser.udp(0), 0u32);
            while !is_over.load(Relaxed) {
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
        let asking: Vec<_> = (0..REQUESTS)
            .map(|_| {
                let socket = client.udp(0);
                socket.set_read_timeout(Some(SHORT_TIMEOUT)).unwrap();
                socket.send_to(b"good", (&*to_server.0, PORT)).unwrap();
                sleep_for(Duration::from_millis(20));
                socket
            })
            .collect();
        sleep_for(Duration::from_millis(500));
        is_over.store(true, Relaxed);
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
    let (blocks, paths) = (
        count(&network, "limiter_blocks_total"),
        count(&network, "forwarding_paths_installed_total"),
    );
    let counts = format!("{sent} sent, {paths} paths, {blocks} blocks, {answered} answered");
    assert!(blocks > 0 && paths < u64::from(sent) / 2, "{counts}");
    assert!(answered * 10 >= 8 * usize::try_from(REQUESTS).unwrap(), "{counts}");
    assert!(controller.logged(&["port sends too many packet-ins", "packets=\"table misses\""]));
}

fn too_much_lldp(version: OpenFlow) {
    const SENT: u32 = 2000;
    let (network, controller, [abuser, client, server]) = three_hosts(version);
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 0, 0, 0, 0, 0, 9, 0x88, 0xcc];
    frame.extend([2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 3, 7, b'1', b'2', 6, 2, 0, 120, 0, 0]);
    frame.resize(60, 0);
    abuser.send_frames(&frame, SENT, 2000);
    let blocking: Vec<_> = network
        .flows("s1")
        .into_iter()
        .filter(|flow| flow.value("priority") == Some("65535"))
        .collect();
    assert_eq!(blocking.len(), 2, "{blocking:#?}");
    assert!(blocking.iter().all(|flow| flow.value("in_port") == Some(&abuser.port().to_string())));
    wait_until(SHORT_TIMEOUT, "the counts", || count(&network, "limiter_blocks_total") > 0);
    let processed = count(&network, "topology_lldp_foreign_total")
        + count(&network, "topology_lldp_over_limit_total");
    assert!(processed > 0 && processed < u64::from(SENT) / 2, "{processed} of {SENT} processed");
    assert!(controller.logged(&["port sends too many packet-ins", "packets=\"LLDP\""]));
    assert_eq!(client.ping(&server, 3).lost(), 0);
    // The abuser's other traffic is not blocked.
    assert_eq!(abuser.ping(&server, 3).lost(), 0);
}
