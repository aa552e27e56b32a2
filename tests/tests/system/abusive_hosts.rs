//! Hosts that send too much, on Open vSwitch: broadcasts of all, new flows or LLDP of one.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sluice_system_tests::{
    BackgroundTraffic, Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT,
    TestEnv, binary, both_versions, send_at_intervals, wait_until,
};

both_versions! {
    broadcasts_in_a_ring_cause_no_storm_from_the_first_second() = broadcasts;
    a_host_that_sends_too_many_new_flows_leaves_others_their_share() = too_many_flows;
    a_host_that_floods_lldp_is_rate_limited() = too_much_lldp;
    made_up_hosts_of_one_port_do_not_keep_others_from_being_learned() = made_up_hosts;
    a_port_that_has_just_come_up_is_limited_like_any_other() = flood_from_a_new_port;
    made_up_hosts_of_one_port_cost_little_memory() = memory_of_made_up_hosts;
}

/// UDP port that hosts listen at.
const PORT: u16 = 5006;

fn controller(network: &OvsNetwork, apps: &str, config: &str) -> Controller {
    let file = network.env().write("sluice.toml", config);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--app", apps, "--config"]).arg(file);
    Controller::with(command, network.env().dir())
}

/// Number of the broadcasts that each host sends after all others.
const LAST: u32 = u32::MAX;

/// The broadcasts that a host has received, by sender and number, and how many times each of them.
type Received = BTreeMap<(u32, u32), u32>;

fn send_broadcast(socket: &UdpSocket, sender: u32, number: u32) {
    let message = [sender.to_be_bytes(), number.to_be_bytes()].concat();
    socket.send_to(&message, ("10.0.0.255", PORT)).unwrap();
}

/// Counts the broadcasts that `socket` receives.
fn count_broadcasts(socket: &UdpSocket) -> (Arc<Mutex<Received>>, BackgroundTraffic) {
    let received = Arc::new(Mutex::new(Received::new()));
    let counts = Arc::clone(&received);
    let receiving = BackgroundTraffic::receive(socket.try_clone().unwrap(), move |message, _| {
        let number = |at| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        *counts.lock().unwrap().entry((number(0), number(4))).or_default() += 1;
    });
    (received, receiving)
}

/// Whether each host has received `count` or more of those broadcasts of each other host that `is_selected` selects.
fn all_have_received(
    hosts: &[Arc<Mutex<Received>>],
    count: usize,
    is_selected: fn(u32) -> bool,
) -> bool {
    (0u32..).zip(hosts).all(|(own, received)| {
        let received = received.lock().unwrap();
        let of =
            |sender| received.keys().filter(|key| key.0 == sender && is_selected(key.1)).count();
        (0..).take(hosts.len()).filter(|&sender| sender != own).all(|sender| of(sender) >= count)
    })
}

fn broadcasts(version: OpenFlow) {
    const LINKS: [(&str, &str); 4] = [("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1")];
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let hosts = ["s1", "s2", "s3", "s4"].map(|switch| network.host(switch));
    let sockets = hosts.each_ref().map(|host| host.udp(PORT));
    let packets_on_links = || LINKS.iter().map(|(a, b)| network.packets_on_link(a, b)).sum::<u64>();
    let before = packets_on_links();
    let (received, _counting): (Vec<_>, Vec<_>) = sockets.iter().map(count_broadcasts).unzip();
    let sent = Arc::new(AtomicU32::new(0));
    let senders: Vec<_> = (0..)
        .zip(&sockets)
        .map(|(sender, socket)| {
            let (socket, sent) = (socket.try_clone().unwrap(), Arc::clone(&sent));
            BackgroundTraffic::send(Duration::from_millis(10), move |number| {
                send_broadcast(&socket, sender, number);
                sent.fetch_add(1, Relaxed);
            })
        })
        .collect();
    // The hosts send before a controller is connected.
    wait_until(SHORT_TIMEOUT, "the first broadcasts", || sent.load(Relaxed) >= 100);
    let controller = controller(&network, "topology,hosts,forwarding", "");
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to receive broadcasts of all others", || {
        all_have_received(&received, 200, |_| true)
    });
    drop(senders);
    // One of these may be lost. Copies of the others would have arrived before.
    wait_until(LONG_TIMEOUT, "the last broadcasts", || {
        (0..).zip(&sockets).for_each(|(sender, socket)| send_broadcast(socket, sender, LAST));
        all_have_received(&received, 1, |number| number == LAST)
    });
    let (mut others, mut copies, mut most) = (0, 0, 0);
    for (own, received) in (0u32..).zip(&received) {
        let received = received.lock().unwrap();
        let of_others =
            received.iter().filter(|((sender, number), _)| *sender != own && *number != LAST);
        for (_, &count) in of_others {
            (others, copies, most) = (others + 1, copies + count, most.max(count));
        }
    }
    let sent = sent.load(Relaxed);
    let on_links = packets_on_links() - before;
    let counts = format!(
        "{sent} sent: {others} received, {copies} copies, {most} of one, {on_links} on links"
    );
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
    let (to_server, socket_of_server) = (server.ipv4(), server.udp(PORT));
    let answers_from = socket_of_server.try_clone().unwrap();
    let _answering = BackgroundTraffic::receive(socket_of_server, move |message, from| {
        _ = answers_from.send_to(message, from);
    });
    // Each datagram has another destination port, so that it is a new flow and causes a packet-in.
    let (socket, sent) = (abuser.udp(0), Arc::new(AtomicU32::new(0)));
    let (address, sent_by_abuser) = (to_server.clone(), Arc::clone(&sent));
    let flooding = BackgroundTraffic::send(Duration::from_millis(2), move |_| {
        for _ in 0..10 {
            let port =
                10_000 + u16::try_from(sent_by_abuser.fetch_add(1, Relaxed) % 50_000).unwrap();
            _ = socket.send_to(b"ill", (&*address, port));
        }
    });
    controller.wait_for_log(&["port sends too many packet-ins", "packets=\"table misses\""]);
    let mut unanswered = Vec::new();
    send_at_intervals(REQUESTS, Duration::from_millis(20), |_| {
        let socket = client.udp(0);
        socket.set_nonblocking(true).unwrap();
        socket.send_to(b"good", (&*to_server, PORT)).unwrap();
        unanswered.push(socket);
    });
    wait_until(SHORT_TIMEOUT, "four of five answers", || {
        unanswered.retain(|socket| socket.recv(&mut [0; 64]).is_err());
        unanswered.len() * 5 <= usize::try_from(REQUESTS).unwrap()
    });
    drop(flooding);
    // The metrics are new then.
    network.wait_for_probes(1);
    let (blocks, paths) = (
        count(&network, "limiter_blocks_total"),
        count(&network, "forwarding_paths_installed_total"),
    );
    let sent = sent.load(Relaxed);
    assert!(
        blocks > 0 && paths < u64::from(sent) / 2,
        "{sent} sent, {paths} paths, {blocks} blocks"
    );
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
    controller.wait_for_log(&["port sends too many packet-ins", "packets=\"LLDP\""]);
    let event = [" INFO ", "port blocked", "name=\"s1\"", "packets_per_s_max="];
    wait_until(SHORT_TIMEOUT, "the event", || controller.logged(&event));
    assert_eq!(client.ping(&server, 3).lost(), 0);
    // The abuser's other traffic is not blocked.
    assert_eq!(abuser.ping(&server, 3).lost(), 0);
}

/// No host has been learned at the port since it came up.
fn flood_from_a_new_port(version: OpenFlow) {
    const SENT: u32 = 4000;
    let (network, _controller, [abuser, client, server]) = three_hosts(version);
    let edge_ports = || network.env().metric("topology_ports_edge");
    wait_until(LONG_TIMEOUT, "three edge ports", || edge_ports() == Some(3));
    network.disable_port(&abuser);
    wait_until(LONG_TIMEOUT, "the port to be down", || edge_ports() == Some(2));
    network.enable_port(&abuser);
    wait_until(LONG_TIMEOUT, "the port to be an edge port again", || edge_ports() == Some(3));
    let metric = "switch_packet_ins_received_total{dpid=\"0000000000000001\"}";
    let packet_ins = || count(&network, metric);
    let before = packet_ins();
    // From a group address, so that no host is learned.
    let mut frame = vec![0x02, 0, 0, 0, 0, 9, 0x03, 0, 0, 0, 0, 8, 0x08, 0x00];
    frame.resize(60, 0);
    abuser.send_frames(&frame, SENT, 2000);
    network.wait_for_probes(2);
    let received = packet_ins() - before;
    assert!(received < u64::from(SENT) / 2, "{received} packet-ins of {SENT} frames");
    assert_eq!(client.ping(&server, 3).lost(), 0);
}

/// A frame to `host`, with source address 0.
fn frame_to(host: &Host) -> Vec<u8> {
    let mac = host.mac();
    let mac: Vec<_> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mut frame = [&mac[..], &[0; 6], &[0x88, 0xb5]].concat();
    frame.resize(60, 0);
    frame
}

/// Twice as many as the host table has room for. With their destination they cause no flow entries and are not flooded.
fn made_up_hosts(version: OpenFlow) {
    const SENT: u32 = 16_000;
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let controller =
        controller(&network, "topology,hosts,forwarding", "[hosts]\nhosts_max = 8000\n");
    let [abuser, server, first, second, third] = [(); 5].map(|()| network.host("s1"));
    for host in [&second, &third] {
        host.become_silent();
    }
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "edge ports", || {
        network.env().metric("topology_ports_edge") == Some(5)
    });
    abuser.assert_reaches(&server);
    let frame = frame_to(&abuser);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| abuser.send_frames_from_made_up_hosts(&frame, SENT, 2000));
        wait_until(LONG_TIMEOUT, "the port to be full", || count(&network, "hosts") >= 1000);
        assert_eq!(first.ping(&server, 5).lost(), 0, "at another port");
        network.assert_forwards_to("s1", &first);
        abuser.take_addresses_of(&second);
        assert_eq!(abuser.ping(&server, 5).lost(), 0, "at the same port");
        let output = abuser.output();
        let is_right = || network.flows_to("s1", &second).iter().any(|f| f.actions() == output);
        wait_until(SHORT_TIMEOUT, "flow entries to the host at the same port", is_right);
        assert!(!flooding.is_finished(), "meanwhile");
        flooding.join().unwrap();
    });
    third.take_addresses_of(&third);
    assert_eq!(third.ping(&server, 5).lost(), 0, "afterwards");
    network.assert_forwards_to("s1", &third);
    network.wait_for_probes(2);
    let hosts = count(&network, "hosts");
    assert!((4..1100).contains(&hosts), "{hosts} hosts");
    assert!(count(&network, "hosts_evicted_total") > 0);
    controller.wait_for_log(&["hosts that did not answer a probe are evicted"]);
}

/// The default configuration. As many made-up hosts as the host table has room for, from one port.
fn memory_of_made_up_hosts(version: OpenFlow) {
    const SENT: u32 = 131_072;
    // As in docs/hosts.md.
    const GROWTH_MAX_KIB: u64 = 8 << 10;
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let controller = controller(&network, "topology,hosts,forwarding", "");
    let [abuser, client, server] = [(); 3].map(|()| network.host("s1"));
    network.connect(&controller);
    for host in [&abuser, &client] {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(&server, 1).lost() == 0
        });
    }
    let before = controller.resident_kib();
    let packets = || count(&network, "switch_packet_ins_received_total{dpid=\"0000000000000001\"}");
    let packets_before = packets();
    let frame = frame_to(&abuser);
    abuser.send_frames_from_made_up_hosts(&frame, SENT, 20_000);
    network.wait_for_probes(2);
    let received = packets() - packets_before;
    let growth = controller.resident_kib().saturating_sub(before);
    let hosts = count(&network, "hosts");
    // A busy switch loses some.
    assert!(received > u64::from(SENT) / 8, "{received} packet-ins of {SENT} frames");
    assert!(growth < GROWTH_MAX_KIB, "{growth} KiB more of resident memory for {hosts} hosts");
    wait_until(SHORT_TIMEOUT, "the other hosts", || client.ping(&server, 5).lost() == 0);
}
