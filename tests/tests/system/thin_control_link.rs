//! A host that scans, over a control link that carries fewer packet-ins than it causes, and over a fast one: the other hosts of
//! the switch are served.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

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

/// Ten conversations per second, of which each is one packet.
const ROUND: u32 = 100;

/// How many rounds the controller has to find out what the link carries and who takes it: one or two, more on a busy machine.
const ROUNDS_MAX: usize = 6;

/// The scanner and the client are at two ports of the switch, or behind a hub at one of them.
fn thin_link(version: OpenFlow, bridge: &str) {
    let log = scan_until_others_are_served(version, bridge, "2mbit");
    let limited = if bridge == "hub" { "host sends too many" } else { "port sends too many" };
    for line in ["packet-ins saturate the control link", limited] {
        assert!(log.contains(line), "no {line:?} in the log:\n{log}");
    }
}

/// A controller that gets no processor for a while answers as late as one behind a saturated link: so several times.
fn fast_link(version: OpenFlow) {
    let is_unlimited = |log: &String| !log.contains("saturate");
    let mut logs = (0..3).map(|_| scan_until_others_are_served(version, "s1", "1gbit"));
    assert!(logs.any(|log| is_unlimited(&log)), "each time, the link was found saturated");
}

/// Starts a scan, and conversations beside it until nine of ten packets in a round arrive within [`DELAY_MAX`]. Returns the log.
fn scan_until_others_are_served(version: OpenFlow, bridge: &str, rate: &str) -> String {
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
    let _scanning = start_scan(&scanner, &server);
    let (mut rounds, mut log) = (Vec::new(), None);
    while log.is_none() {
        assert!(rounds.len() < ROUNDS_MAX, "of {ROUND}: {rounds:?} in time\n{}", controller.log());
        let in_time = in_time_of_a_round(&client, &server, u32::try_from(rounds.len()).unwrap());
        rounds.push(in_time);
        log = (in_time * 10 >= ROUND as usize * 9).then(|| controller.log());
    }
    log.unwrap()
}

/// How many packets of a round arrive within [`DELAY_MAX`].
fn in_time_of_a_round(client: &Host, server: &Host, round: u32) -> usize {
    let (since, arrivals) = (Stopwatch::start(), Arc::new(Mutex::new(BTreeMap::new())));
    let arrivals_in_thread = Arc::clone(&arrivals);
    let _receiving = BackgroundTraffic::receive(server.udp(PORT), move |message, _| {
        let number = u32::from_be_bytes(message.try_into().unwrap());
        arrivals_in_thread.lock().unwrap().insert(number, since.elapsed());
    });
    let mut departures = BTreeMap::new();
    send_at_intervals(ROUND, Duration::from_millis(100), |number| {
        let number = round * ROUND + number;
        departures.insert(number, since.elapsed());
        client.udp(0).send_to(&number.to_be_bytes(), (&*server.ipv4(), PORT)).unwrap();
    });
    Stopwatch::start().wait_until(DELAY_MAX);
    let arrivals = arrivals.lock().unwrap();
    let is_in_time =
        |(number, at): (&_, &Duration)| arrivals.get(number).is_some_and(|a| *a <= *at + DELAY_MAX);
    departures.iter().filter(|&departure| is_in_time(departure)).count()
}
