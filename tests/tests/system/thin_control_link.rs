//! A host that scans, over a control link that carries fewer packet-ins than it causes, and over a fast one: the other hosts of
//! the switch are served, and a failed link is repaired.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_system_tests::{
    BackgroundTraffic, ControlLink, Conversations, EmulatedControlLink, Host, LONG_TIMEOUT,
    OpenFlow, OvsNetwork, SHORT_TIMEOUT, Stopwatch, TestEnv, binary, both_versions,
    send_at_intervals, wait_until,
};

both_versions! {
    a_scan_over_a_thin_control_link_leaves_other_ports_their_share("s1") = thin_link;
    a_scan_over_a_thin_control_link_leaves_other_hosts_of_the_port_their_share("hub") = thin_link;
    a_fast_control_link_is_not_found_saturated() = fast_link;
    a_link_that_fails_while_the_control_link_is_saturated_leaves_no_stale_entry("s1", "s2") = failed_link;
    a_link_whose_other_end_has_a_saturated_control_link_leaves_no_stale_entry("s2", "s1") = failed_link;
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

/// Addresses of each of two hosts: 400 conversations, with an entry each at every switch of their path.
const ADDRESSES: u8 = 20;

/// Frames per second, of all conversations together.
const FRAMES_PER_S: u32 = 400;

/// How many scanned ports have flow entries when the link fails: so many that more than before wait for the control link.
const SCANNED: usize = 200;

/// For how long the scan goes on after the failure.
const LOAD_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The control link of one switch carries 1 Mbit/s, a third of what the scan causes. The link to `other` fails, which is on
/// the path of the conversations and of the scan. Switches of OpenFlow 1.0 have to list the entries that are deleted, about a
/// thousand per second.
fn failed_link(version: OpenFlow, distant: &str, other: &str) {
    let network = OvsNetwork::ring(TestEnv::shared(), version, 4);
    let link = EmulatedControlLink::new(&network, "1Mbit");
    let config = network.env().write("sluice.toml", CONFIG);
    let arguments = format!("--threads 2 --no-api --config {}", config.display());
    let controller = link.connect(&network, distant, &arguments);
    let [near, far] = ["s1", "s3"].map(|bridge| network.host(bridge));
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || near.ping(&far, 1).lost() == 0);
    let conversations = Conversations::start(&near, &far, ADDRESSES, FRAMES_PER_S);
    let all_arrive = || conversations.arriving() == conversations.count();
    wait_until(SHORT_TIMEOUT, "all conversations to arrive", all_arrive);
    let scanning = start_scan(&near, &far);
    let scanned = || {
        let flows = network.flows("s1");
        flows.iter().filter(|flow| flow.value("tp_dst").is_some()).count()
    };
    wait_until(SHORT_TIMEOUT, "flow entries of the scan", || scanned() >= SCANNED);
    let ends =
        [(distant, network.link_port(distant, other)), (other, network.link_port(other, distant))];
    assert!(ends.iter().all(|&(bridge, port)| network.entries_to_port(bridge, port) > 0));
    network.cut_link("s1", "s2");
    Stopwatch::start().wait_until(LOAD_AFTER_FAILURE);
    drop(scanning);
    for (bridge, port) in ends {
        wait_until(LONG_TIMEOUT, &format!("stale entries of {bridge} to be deleted"), || {
            network.entries_to_port(bridge, port) == 0
        });
    }
    wait_until(LONG_TIMEOUT, "all conversations to arrive over the other path", all_arrive);
    wait_until(SHORT_TIMEOUT, "the hosts to reach each other", || near.ping(&far, 20).lost() == 0);
    for (bridge, port) in ends {
        assert_eq!(network.entries_to_port(bridge, port), 0, "{bridge}");
    }
    let log = controller.log();
    assert!(!log.contains("switch disconnected"), "{log}");
}
