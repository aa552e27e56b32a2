//! A host that scans, over a control link that carries fewer packet-ins than it causes, and over a fast one: the other hosts of
//! the switch are served.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_system_tests::{
    BackgroundTraffic, ControlLink, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, Stopwatch, TestEnv,
    binary, both_versions, send_at_intervals, wait_until,
};

both_versions! {
    a_scan_over_a_thin_control_link_leaves_other_ports_their_share("s1") = thin_link;
    a_scan_over_a_thin_control_link_leaves_other_hosts_of_the_port_their_share("hub") = thin_link;
    a_fast_control_link_is_not_found_saturated() = fast_link;
}

/// UDP port that the server listens at.
const PORT: u16 = 5006;

/// Each UDP port is another conversation.
const CONFIG: &str = "[forwarding]\nmatch = \"five-tuple\"\n";

/// How long the first packet of a conversation may take.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Sends 3 000 datagrams per second, each to another port of `server`.
fn start_scan(scanner: &Host, server: &Host) -> BackgroundTraffic {
    let (socket, address) = (scanner.udp(0), server.ipv4());
    let (since, mut sent) = (Stopwatch::start(), 0u32);
    BackgroundTraffic::send(Duration::from_millis(2), move |_| {
        while u128::from(sent) < since.elapsed().as_millis() * 3 {
            _ = socket
                .send_to(b"scan", (&*address, 10_000 + u16::try_from(sent % 50_000).unwrap()));
            sent += 1;
        }
    })
}

/// What has become of the conversations of a client beside a scan.
struct ScanOutcome {
    sent: usize,
    arrived: usize,
    /// Within [`DELAY_MAX`].
    in_time: usize,
    log: String,
}

impl ScanOutcome {
    #[track_caller]
    fn assert_are_in_time(&self) {
        let Self { sent, arrived, in_time, log } = self;
        assert!(in_time * 10 >= sent * 9, "{in_time} of {sent} in time, {arrived} arrived\n{log}");
    }
}

/// The scanner and the client are at two ports of the switch, or behind a hub at one of them.
fn thin_link(version: OpenFlow, bridge: &str) {
    let outcome = scan(version, bridge, "2mbit", 200);
    outcome.assert_are_in_time();
    let limited = if bridge == "hub" { "host sends too many" } else { "port sends too many" };
    for line in ["packet-ins saturate the control link", limited] {
        assert!(outcome.log.contains(line), "no {line:?} in the log:\n{}", outcome.log);
    }
}

fn fast_link(version: OpenFlow) {
    let outcome = scan(version, "s1", "1gbit", 50);
    outcome.assert_are_in_time();
    assert!(!outcome.log.contains("saturate"), "{}", outcome.log);
}

/// Ten conversations per second, of which each is one packet, beside a scan.
fn scan(version: OpenFlow, bridge: &str, rate: &str, conversations: u32) -> ScanOutcome {
    let network = OvsNetwork::line(TestEnv::new(), version, 1);
    network.hub("hub");
    network.link("s1", "hub");
    let link = ControlLink::new(&network, rate);
    let config = network.env().write("sluice.toml", CONFIG);
    let apps = "limiter,topology,hosts,forwarding";
    let arguments = format!("run --threads 2 --no-api --app {apps} --config {}", config.display());
    let controller = link.start(&network, &binary().to_string_lossy(), &arguments);
    let [scanner, client, server] = [bridge, bridge, "s1"].map(|bridge| network.host(bridge));
    network.connect(&controller);
    for host in [&scanner, &client] {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            host.ping(&server, 1).lost() == 0
        });
    }
    let (since, arrivals) = (Stopwatch::start(), Arc::new(Mutex::new(Vec::new())));
    let arrivals_in_thread = Arc::clone(&arrivals);
    let _receiving = BackgroundTraffic::receive(server.udp(PORT), move |message, _| {
        let number = u32::from_be_bytes(message.try_into().unwrap());
        arrivals_in_thread.lock().unwrap().push((number, since.elapsed()));
    });
    let _scanning = start_scan(&scanner, &server);
    let mut departures = BTreeMap::new();
    send_at_intervals(conversations, Duration::from_millis(100), |number| {
        departures.insert(number, since.elapsed());
        client.udp(0).send_to(&number.to_be_bytes(), (&*server.ipv4(), PORT)).unwrap();
    });
    Stopwatch::start().wait_until(DELAY_MAX);
    let arrivals = arrivals.lock().unwrap().clone();
    let is_in_time = |(number, at)| at <= departures[number] + DELAY_MAX;
    let in_time = arrivals.iter().filter(|(number, at)| is_in_time((number, *at))).count();
    let (sent, arrived, log) = (departures.len(), arrivals.len(), controller.log());
    ScanOutcome { sent, arrived, in_time, log }
}
