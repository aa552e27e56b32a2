//! Other programs decode everything that the controller sends.
//!
//! Open vSwitch decodes whole recordings in every version, tshark those of versions that it supports well. os-ken checks
//! message by message: `tests/osken.py` says which types it decodes and which it can only encode.

use sluice_system_tests::{
    Capture, Controller, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, both_versions,
    count_by_type, decoded_by_ovs, message_types_read_by_osken, other_versions, wait_until,
};

both_versions! {
    all_messages_of_the_default_applications_are_decoded_by_others("topology,hosts,forwarding")
        = decoded_by_others;
}

other_versions! {
    all_messages_of_the_default_applications_are_decoded_by_open_vswitch() = decoded_by_open_vswitch;
}

#[test]
fn all_messages_of_learning_are_decoded_by_others() {
    decoded_by_others(OpenFlow::V13, "learning");
}

/// Link probes so rare that control connections become idle, on which both ends send `ECHO_REQUEST`.
const RARE_PROBES: &str = "[topology]\nprobe_interval_ms = 600000\n";

/// §7.1, the same in 1.0.
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;

/// Types that a session has at least, as os-ken names them.
fn expected_types(version: OpenFlow) -> Vec<&'static str> {
    let mut types = vec![
        "ECHO_REPLY",
        "ECHO_REQUEST",
        "FEATURES_REQUEST",
        "FLOW_MOD",
        "HELLO",
        "PACKET_OUT",
        "SET_CONFIG",
    ];
    if version == OpenFlow::V13 {
        types.extend(["MULTIPART_REQUEST", "ROLE_REQUEST"]);
    }
    types
}

fn decoded_by_others(version: OpenFlow, apps: &str) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let config = |echo_interval_s| {
        let text = format!(
            "[session]\nrole = \"master\"\necho_interval_s = {echo_interval_s}\n{RARE_PROBES}"
        );
        network.env().write("sluice.toml", &text).display().to_string()
    };
    let mut controller =
        Controller::new(network.env(), &format!("--app {apps} --config {}", config(1)));
    let mut capture = Capture::new(network.env(), &controller);
    let (h1, mut h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || h1.ping(&h2, 1).lost() == 0);
    // The flow entries to a host that moves are deleted.
    network.move_host(&mut h2, "s2", "s1");
    h2.forget_neighbours();
    wait_until(SHORT_TIMEOUT, "the host to be learned again", || h2.ping(&h1, 1).lost() == 0);
    capture.wait_for(ECHO_REQUEST);
    // Open vSwitch sends ECHO_REQUEST only if the controller sends nothing.
    config(60);
    controller.reload();
    capture.wait_for(ECHO_REPLY);
    capture.stop();

    let messages = capture.messages();
    let types = message_types_read_by_osken(network.env(), &messages);
    for expected in expected_types(version) {
        assert!(types.iter().any(|t| t == expected), "no {expected} in {types:?}");
    }
    assert_eq!(capture.errors_found_by_tshark(), "");
    assert_eq!(capture.message_types_read_by_tshark(), count_by_type(&messages));
    assert_decoded_by_ovs(network.env(), &messages);
}

fn decoded_by_open_vswitch(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let config = network.env().write("sluice.toml", "[session]\nrole = \"master\"\n");
    let controller = Controller::new(network.env(), &format!("--config {}", config.display()));
    let mut capture = Capture::new(network.env(), &controller);
    let (h1, mut h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || h1.ping(&h2, 1).lost() == 0);
    network.move_host(&mut h2, "s1", "s1");
    h2.forget_neighbours();
    wait_until(SHORT_TIMEOUT, "the host to be learned again", || h2.ping(&h1, 1).lost() == 0);
    capture.stop();

    let messages = capture.messages();
    let types = count_by_type(&messages);
    for (message_type, since) in SENT_SINCE {
        let is_sent = types.contains_key(&message_type);
        assert_eq!(is_sent, version >= since, "type {message_type} of {types:?}");
    }
    assert_decoded_by_ovs(network.env(), &messages);
}

/// `HELLO`, `FEATURES_REQUEST`, `SET_CONFIG`, `PACKET_OUT`, `FLOW_MOD`, `MULTIPART_REQUEST`, `ROLE_REQUEST`, and the first
/// of the tested versions in which a session sends each. §7.1.
const SENT_SINCE: [(u8, OpenFlow); 7] = [
    (0, OpenFlow::V10),
    (5, OpenFlow::V10),
    (9, OpenFlow::V10),
    (13, OpenFlow::V10),
    (14, OpenFlow::V10),
    (18, OpenFlow::V10),
    (24, OpenFlow::V12),
];

#[track_caller]
fn assert_decoded_by_ovs(env: &TestEnv, messages: &[Vec<u8>]) {
    let decoded = decoded_by_ovs(env, messages);
    // The first line of a message: `OFPT_HELLO (OF1.3) (xid=0x1):`.
    assert_eq!(decoded.matches(" (xid=").count(), messages.len(), "{decoded}");
    let undecoded = decoded.lines().find(|line| line.contains("***"));
    assert_eq!(undecoded, None, "a message that Open vSwitch cannot decode");
}
