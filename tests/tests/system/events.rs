//! Events of networks of Open vSwitch: in `sluice show events`, in its stream, and in the log.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs::{self, File};

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions, output_of,
    wait_until,
};

both_versions! {
    what_happens_is_shown_and_logged_once_and_in_order() = events;
}

/// What `sluice` prints.
fn sluice(network: &OvsNetwork, arguments: &str) -> String {
    let mut command = network.env().command(&binary().to_string_lossy());
    output_of(command.args(arguments.split_whitespace()))
}

/// Waits for an event of a kind that contains `text`.
#[track_caller]
fn wait_for_event(network: &OvsNetwork, kind: &str, text: &str) {
    wait_until(LONG_TIMEOUT, &format!("{kind} {text}"), || {
        sluice(network, &format!("show events --kind {kind}")).contains(text)
    });
}

/// Lines of the log at the level INFO with all of these words.
fn info_lines(controller: &Controller, words: &[&str]) -> usize {
    let log = controller.log();
    let lines = log.lines().filter(|line| line.contains(" INFO "));
    lines.filter(|line| words.iter().all(|word| line.contains(word))).count()
}

fn events(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (name, id) in [("s1", 1), ("s2", 2)] {
        network.bridge(name, id);
    }
    network.link("s1", "s2");
    let [a, mut b] = ["s1", "s2"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    let controller = Controller::with(command, network.env().dir());
    let followed = network.env().dir().join("followed.txt");
    let mut follow = network.env().command(&binary().to_string_lossy());
    follow.args(["show", "events", "--follow"]).stdout(File::create(&followed).unwrap());
    let mut follow = follow.spawn().unwrap();
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);

    let mac = b.mac();
    wait_for_event(&network, "switch-connected", "switch connected: s2 ");
    wait_for_event(&network, "link-up", "link up: s2 port");
    wait_for_event(&network, "host-learned", &mac);

    network.cut_link("s1", "s2");
    wait_for_event(&network, "link-down", "link down: s1 port");
    wait_for_event(&network, "link-down", "link down: s2 port");
    let lost = sluice(&network, "show events --kind link-down");
    assert!(lost.lines().all(|line| line.ends_with("reason=port-down")), "{lost}");
    wait_for_event(&network, "paths-repaired", "paths repaired: s1 port");
    network.restore_link("s1", "s2");
    network.move_host(&mut b, "s2", "s1");
    wait_until(LONG_TIMEOUT, "the host to be reached again", || b.ping(&a, 1).lost() == 0);
    network.clear_controller("s2");
    wait_for_event(&network, "switch-disconnected", "switch disconnected: s2 reason=");
    let all = sluice(&network, "show events");
    assert_order(&network, &all);

    // The stream has the same, in the same order.
    let newest = all.lines().last().unwrap();
    wait_until(LONG_TIMEOUT, "the stream to have all", || {
        fs::read_to_string(&followed).unwrap().contains(newest)
    });
    follow.kill().unwrap();
    follow.wait().unwrap();
    let stream = fs::read_to_string(&followed).unwrap();
    assert!(stream.contains(&all), "{all}\nis not a part of\n{stream}");

    assert_log(&network, &controller, &mac);
    assert_other_views(&network);
}

/// What has happened in this order. The loss of a link comes before that of its port.
fn assert_order(network: &OvsNetwork, all: &str) {
    let position = |text: &str| {
        let found = all.lines().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("{text} in\n{all}"))
    };
    let port = network.link_port("s1", "s2");
    let order = [
        "switch connected: s1 ".to_owned(),
        format!("link up: s1 port {port} "),
        format!("link down: s1 port {port} "),
        format!("port down: s1 port {port} "),
        format!("paths repaired: s1 port {port} "),
        "switch disconnected: s2".to_owned(),
    ];
    let positions: Vec<_> = order.iter().map(|text| position(text)).collect();
    assert!(positions.is_sorted(), "{positions:?} in\n{all}");
    let of_s1 = sluice(network, "show events --switch s1 --kind switch-connected,port-down");
    assert!(of_s1.lines().count() >= 2 && !of_s1.contains(": s2 "), "{of_s1}");
}

/// Each event is one line of the log, though there are two workers.
fn assert_log(network: &OvsNetwork, controller: &Controller, mac: &str) {
    let port = network.link_port("s1", "s2");
    let port_field = format!("from_port={port}");
    let link_down = ["link down", "reason=port-down", "from_dpid=0000000000000001", &port_field];
    assert_eq!(info_lines(controller, &link_down), 1, "{}", controller.log());
    for words in [
        ["paths repaired", "dpid=0000000000000001", "name=\"s1\""],
        ["switch connected", "dpid=0000000000000002", "name=\"s2\""],
        ["switch disconnected", "dpid=0000000000000002", "name=\"s2\""],
    ] {
        assert_eq!(info_lines(controller, &words), 1, "{words:?} in\n{}", controller.log());
    }
    // The cable was plugged in again.
    let link_up = ["link up", "from_dpid=0000000000000001", "to_name=\"s2\""];
    assert_eq!(info_lines(controller, &link_up), 2, "{}", controller.log());
    assert!(info_lines(controller, &["host learned", mac]) >= 1, "{}", controller.log());
    let warnings = controller.log().lines().filter(|line| line.contains(" WARN ")).count();
    assert_eq!(warnings, 0, "what is normal is no warning:\n{}", controller.log());
}

/// What else is shown of the network.
fn assert_other_views(network: &OvsNetwork) {
    let top = sluice(network, "top --once");
    assert!(top.starts_with("sluice ") && top.contains("s1-"), "{top}");
    assert!(top.lines().count() <= 24 && top.lines().all(|line| line.chars().count() <= 80));
    let description = sluice(network, "show switches --json");
    assert!(description.contains("Nicira"), "the switch was asked for it: {description}");
    let ports = sluice(network, "show ports s1 --json");
    assert!(ports.contains(r#""statistics":{"rx_packets":"#), "{ports}");
    let limits = sluice(network, "show limits");
    let switches = limits.lines().find(|line| line.starts_with("limits.switches_max")).unwrap();
    assert_eq!(switches.split_whitespace().nth(2), Some("1"), "{limits}");
    assert!(sluice(network, "show apps").contains("forwarding"));
}
