//! Hosts in quarantine at Open vSwitch: nothing that they send, and nothing that is sent to them, passes a switch.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    output_of, wait_until,
};

both_versions! {
    a_quarantined_host_neither_sends_nor_receives_until_it_is_released() = quarantine;
}

/// Echo requests, all of which are lost.
const PINGS: u32 = 3;

/// What a subcommand prints.
fn sluice(network: &OvsNetwork, arguments: &[&str]) -> String {
    output_of(network.env().command(&binary().to_string_lossy()).args(arguments))
}

#[track_caller]
fn assert_cut_off(host: &Host, other: &Host) {
    assert_eq!(host.ping(other, PINGS).lost(), PINGS);
    assert_eq!(other.ping(host, PINGS).lost(), PINGS);
}

/// The row of a table with a word.
fn row(table: &str, word: &str) -> String {
    table.lines().find(|line| line.contains(word)).unwrap_or_default().to_owned()
}

/// How many entries of quarantined hosts the switch of the host has.
fn entries(network: &OvsNetwork) -> usize {
    let flows = network.flows("s2");
    flows.iter().filter(|flow| flow.value("priority") == Some("65532")).count()
}

fn quarantine(version: OpenFlow) {
    let mut network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let [a, host, c] = ["s1", "s2", "s2"].map(|switch| network.host(switch));
    let place = network.vacant_place("s1");
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let mut controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
        a.ping(&host, 1).lost() == 0 && c.ping(&host, 1).lost() == 0
    });

    let mac = host.mac();
    let printed = sluice(&network, &["host", "quarantine", &mac, "--reason", "a test"]);
    assert!(printed.contains("in quarantine\n"), "{printed}");
    assert_eq!(printed.matches("installed").count(), 2, "{printed}");
    // The flow entries of its paths are still there.
    assert!(!network.flows_to("s1", &host).is_empty());
    assert_cut_off(&host, &a);
    // At the same switch, too.
    assert_cut_off(&host, &c);
    assert_eq!(a.ping(&c, PINGS).lost(), 0);
    let hosts = sluice(&network, &["show", "hosts"]);
    assert!(row(&hosts, &mac).ends_with("yes") && row(&hosts, &a.mac()).ends_with("no"), "{hosts}");
    let shown = sluice(&network, &["show", "quarantines"]);
    assert!(row(&shown, &mac).ends_with("a test"), "{shown}");
    // Entries of the spanning tree follow within seconds.
    wait_until(LONG_TIMEOUT, "broadcasts to spare the host", || {
        let [before, others_before] = [&host, &c].map(|it| it.broadcasts_received());
        a.broadcast(5);
        let [after, others_after] = [&host, &c].map(|it| it.broadcasts_received());
        after == before && others_after >= others_before + 5
    });

    // Somebody deletes the entries; the controller puts them back.
    assert_eq!(entries(&network), 2);
    network.ofctl("del-flows", "s2", &[]);
    wait_until(LONG_TIMEOUT, "the entries", || entries(&network) == 2);
    assert_cut_off(&host, &c);

    // It moves to another switch, and the controller is killed and started again.
    host.become_silent();
    place.take_addresses_of(&host);
    let reaches = |from: &Host, to: &Host| from.ping(to, PINGS).lost() < PINGS;
    assert!(!reaches(&place, &a) && !reaches(&a, &host) && !reaches(&place, &c));
    controller.kill();
    assert!(!reaches(&place, &a) && !reaches(&a, &host));
    let sessions = controller.sessions();
    controller.restart();
    controller.wait_for_sessions(sessions + 2);
    assert!(!reaches(&place, &a) && !reaches(&a, &host));
    wait_until(LONG_TIMEOUT, "the others to reach each other", || a.ping(&c, 1).lost() == 0);
    assert!(!reaches(&place, &a) && !reaches(&a, &host));
    // A switch that has lost its entries gets them again.
    network.restart_switches();
    wait_until(LONG_TIMEOUT, "the entries after a restart", || {
        let shown = sluice(&network, &["show", "quarantines", "--json"]);
        shown.matches("\"state\":\"installed\"").count() == 3 && entries(&network) == 2
    });
    assert!(!reaches(&place, &a) && !reaches(&a, &host));

    let printed = sluice(&network, &["host", "release", &host.ipv4()]);
    assert!(printed.contains(&mac) && printed.ends_with("released\n"), "{printed}");
    assert_eq!(entries(&network), 0);
    wait_until(LONG_TIMEOUT, "the host at its new place", || {
        place.ping(&a, 1).lost() == 0 && a.ping(&host, 1).lost() == 0
    });
    let again =
        network.env().command(&binary().to_string_lossy()).args(["host", "release", &mac]).output();
    let again = again.unwrap();
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1), "{error}");
    assert!(error.contains("is not in quarantine"), "{error}");
}
