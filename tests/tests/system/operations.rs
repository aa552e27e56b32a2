//! Operations on a running network of Open vSwitch: links taken out of service without losing a packet, ports set down, entries
//! deleted, packet-ins captured.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_system_tests::{
    BackgroundTraffic, Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT,
    Stopwatch, TestEnv, becomes_true, binary, both_versions, output_of, wait_until,
};

both_versions! {
    a_link_is_drained_and_unplugged_without_losing_a_packet() = drain;
    a_link_stays_drained_when_the_controller_is_killed_and_started_again() = drain_and_kill;
    a_port_is_set_down_and_up() = port_state;
    the_entries_of_an_owner_are_deleted() = clear;
    packet_ins_are_captured() = capture;
}

/// UDP port of the stream.
const PORT: u16 = 5007;

/// A packet every millisecond.
const INTERVAL: Duration = Duration::from_millis(1);

/// What a subcommand prints.
fn sluice(network: &OvsNetwork, arguments: &str) -> String {
    let mut command = network.env().command(&binary().to_string_lossy());
    output_of(command.args(arguments.split_whitespace()))
}

/// A ring of four bridges with a controller, and a host at the first and at the third.
fn ring(version: OpenFlow) -> (OvsNetwork, Controller, Host, Host) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let [a, b] = ["s1", "s3"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    (network, controller, a, b)
}

/// Numbered packets from one host to another, and the numbers that have arrived.
struct Stream {
    sent: Arc<Mutex<u32>>,
    received: Arc<Mutex<BTreeSet<u32>>>,
    _threads: [BackgroundTraffic; 2],
}

impl Stream {
    fn start(from: &Host, to: &Host) -> Self {
        let (sent, received) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(BTreeSet::new())));
        let numbers = Arc::clone(&received);
        let receiving = BackgroundTraffic::receive(to.udp(PORT), move |packet, _| {
            numbers.lock().unwrap().insert(u32::from_be_bytes(packet.try_into().unwrap()));
        });
        let (socket, to, count) = (from.udp(0), to.ipv4(), Arc::clone(&sent));
        let sending = BackgroundTraffic::send(INTERVAL, move |number| {
            socket.send_to(&number.to_be_bytes(), (to.as_str(), PORT)).unwrap();
            *count.lock().unwrap() = number + 1;
        });
        Self { sent, received, _threads: [sending, receiving] }
    }

    /// Waits until everything that was sent by now has arrived; panics if something does not.
    fn assert_nothing_lost(&self, what: &str) {
        let sent = *self.sent.lock().unwrap();
        let lost = || {
            let received = self.received.lock().unwrap();
            (0..sent).filter(|number| !received.contains(number)).count()
        };
        let arrived = becomes_true(SHORT_TIMEOUT, || lost() == 0);
        assert!(arrived, "{what}: {} of {sent} packets lost", lost());
    }
}

/// The neighbour of `s1` over whose link packets to `host` leave it.
fn next_hop(network: &OvsNetwork, host: &Host) -> &'static str {
    let used = |next: &&str| {
        let port = network.link_port("s1", next).to_string();
        network.flows_to("s1", host).iter().any(|flow| flow.actions().ends_with(&port))
    };
    wait_until(LONG_TIMEOUT, "the path", || ["s2", "s4"].iter().any(used));
    ["s2", "s4"].into_iter().find(used).unwrap()
}

fn drain(version: OpenFlow) {
    let (network, _controller, a, b) = ring(version);
    let streams = [Stream::start(&a, &b), Stream::start(&b, &a)];
    let check = |what: &str| streams.iter().for_each(|it| it.assert_nothing_lost(what));
    check("before");
    for _ in 0..2 {
        let next = next_hop(&network, &b);
        let port = network.link_port("s1", next);
        let printed = sluice(&network, &format!("link drain s1 {port}"));
        assert!(printed.contains("drained"), "{printed}");
        check(&format!("the link to {next} drained"));
        assert_eq!(network.entries_to_port("s1", port), 0);
        let links = sluice(&network, "show links");
        assert_eq!(links.matches("yes").count(), 2, "{links}");
        // Now it may be unplugged; the ends of a cable have the names in the order of the ring.
        let (first, second) = if next == "s2" { ("s1", "s2") } else { ("s4", "s1") };
        network.cut_link(first, second);
        Stopwatch::start().wait_until(Duration::from_secs(2));
        check(&format!("the link to {next} unplugged"));
        network.restore_link(first, second);
        wait_until(LONG_TIMEOUT, "the link", || {
            let drains = sluice(&network, "show drains");
            let up = drains.lines().nth(1).and_then(|row| row.split_whitespace().nth(1));
            up == Some("yes")
        });
        let printed = sluice(&network, &format!("link undrain s1 {port}"));
        assert_eq!(printed, "back in service\n");
        check(&format!("the link to {next} restored"));
    }
}

fn drain_and_kill(version: OpenFlow) {
    let (network, mut controller, a, b) = ring(version);
    let next = next_hop(&network, &b);
    let port = network.link_port("s1", next);
    let printed = sluice(&network, &format!("link drain s1 {port}"));
    assert!(printed.contains("drained"), "{printed}");
    controller.kill();
    // All paths are new ones.
    for switch in ["s1", "s2", "s3", "s4"] {
        network.ofctl("del-flows", switch, &[]);
    }
    controller.restart();
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    assert_ne!(next_hop(&network, &b), next);
    assert_eq!(network.entries_to_port("s1", port), 0);
    wait_until(LONG_TIMEOUT, "the link to be drained", || {
        sluice(&network, "show drains").lines().any(|row| row.starts_with("drained"))
    });
    assert_eq!(sluice(&network, &format!("link undrain s1 {port}")), "back in service\n");
    controller.restart();
    wait_until(LONG_TIMEOUT, "the link", || sluice(&network, "show links").contains("s1-"));
    assert_eq!(sluice(&network, "show drains").lines().count(), 1);
}

fn port_state(version: OpenFlow) {
    let (network, _controller, a, _) = ring(version);
    let shown = || network.ofctl_output("show", "s1", &[]);
    let line = |port: u16| {
        let text = shown();
        let at = text.find(&format!("{port}(")).unwrap();
        text[at..].lines().nth(1).unwrap().trim().to_owned()
    };
    assert!(!line(a.port()).contains("PORT_DOWN"), "{}", shown());
    let printed = sluice(&network, &format!("port down s1 {}", a.port()));
    assert!(printed.contains("administratively down"), "{printed}");
    assert!(line(a.port()).contains("PORT_DOWN"), "{}", shown());
    let printed = sluice(&network, &format!("port up s1 {}", a.port()));
    assert!(printed.contains(": up") || printed.contains("enabled"), "{printed}");
    assert!(!line(a.port()).contains("PORT_DOWN"), "{}", shown());
}

fn clear(version: OpenFlow) {
    let (network, _controller, a, b) = ring(version);
    network.ofctl("add-flow", "s1", &["cookie=0x1234,priority=20000,dl_type=0x9999,actions=drop"]);
    let of_forwarding = || network.flows_to("s1", &b).len();
    // The first packets may have been forwarded without a path.
    wait_until(LONG_TIMEOUT, "a path", || {
        a.ping(&b, 1);
        of_forwarding() > 0
    });
    // Otherwise they ask each other whether they are still there, and the path is installed again.
    [&a, &b].into_iter().for_each(Host::forget_neighbours);
    let printed = sluice(&network, "clear s1 --owner forwarding");
    assert!(!printed.starts_with("0 "), "{printed}");
    assert_eq!(of_forwarding(), 0);
    // The path is installed again with the next packet.
    a.assert_reaches(&b);
    wait_until(SHORT_TIMEOUT, "the path", || of_forwarding() > 0);
    let printed = sluice(&network, "clear --cookie 0x1234");
    assert_eq!(printed, "1 flow entries deleted\n");
    // The table-miss entry comes back.
    sluice(&network, "clear --owner topology");
    sluice(&network, "clear --owner all");
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
        a.forget_neighbours();
        sluice(&network, "clear --owner forwarding");
        a.ping(&b, 1).lost() == 0
    });
}

fn capture(version: OpenFlow) {
    let (network, _controller, a, b) = ring(version);
    let file = network.env().file("capture.pcapng");
    let mut command = network.env().command(&binary().to_string_lossy());
    let arguments =
        format!("capture --switch s1 --port {} --ip {} --limit 3 -w", a.port(), a.ipv4());
    command.args(arguments.split_whitespace()).arg(&file).stderr(Stdio::inherit());
    let mut running = command.spawn().unwrap();
    wait_until(LONG_TIMEOUT, "three packet-ins", || {
        a.forget_neighbours();
        sluice(&network, "clear --owner forwarding");
        a.ping(&b, 1);
        running.try_wait().unwrap().is_some_and(|status| status.success())
    });
    let info = output_of(std::process::Command::new("capinfos").arg("-M").arg(&file));
    let packets = info.lines().find(|line| line.starts_with("Number of packets")).unwrap();
    assert_eq!(packets.split_whitespace().last(), Some("3"), "{info}");
    assert!(info.contains("s1:"), "the name of the interface: {info}");
    let mut tshark = std::process::Command::new("tshark");
    let fields =
        ["-T", "fields", "-e", "eth.src", "-e", "frame.comment", "-e", "frame.interface_name"];
    let shown = output_of(tshark.arg("-r").arg(&file).args(fields));
    for line in shown.lines() {
        assert!(line.contains("packet-in reason=") && line.contains("s1:"), "{shown}");
    }
    assert!(shown.contains(&a.mac()), "{shown}");
}
