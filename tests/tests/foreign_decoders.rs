//! What foreign decoders make of everything the controller says.
//!
//! Open vSwitch reads whole recordings, in every version; tshark reads them where it knows the version well. os-ken
//! judges message by message: see `tests/osken.py` for which kinds it reads itself and which it only writes.

use sluice_system_tests::{
    Capture, Controller, OpenFlow, OvsNetwork, TestEnv, both_versions, count_by_type,
    message_types_read_by_osken, other_versions,
};

both_versions! {
    everything_we_say_is_read_by_others_without_complaint() = read_by_others;
}

other_versions! {
    everything_we_say_is_read_by_open_vswitch_without_complaint() = read_by_open_vswitch;
}

/// §7.1, the same in 1.0.
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;

/// What a session with a learning bridge says at the least, as os-ken names it.
fn kinds_said(version: OpenFlow) -> Vec<&'static str> {
    let mut kinds = vec![
        "ECHO_REPLY",
        "ECHO_REQUEST",
        "FEATURES_REQUEST",
        "FLOW_MOD",
        "HELLO",
        "PACKET_OUT",
        "SET_CONFIG",
    ];
    if version == OpenFlow::V13 {
        kinds.extend(["MULTIPART_REQUEST", "ROLE_REQUEST"]);
    }
    kinds
}

fn read_by_others(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let config = |echo_interval_s| {
        let text = format!("[session]\nrole = \"master\"\necho_interval_s = {echo_interval_s}\n");
        network.env().write("sluice.toml", &text).display().to_string()
    };
    let mut controller =
        Controller::new(network.env(), &format!("--app learning --config {}", config(1)));
    let mut capture = Capture::new(network.env(), &controller);
    let (h1, mut h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    // A station that moves has its old rules deleted.
    network.move_host(&mut h2, "s2", "s1");
    h2.forget_neighbours();
    h2.assert_reaches(&h1);
    capture.wait_for(ECHO_REQUEST);
    // Whoever is asked is not silent: Open vSwitch asks only when we do not.
    config(60);
    controller.reload();
    capture.wait_for(ECHO_REPLY);
    capture.stop();

    let messages = capture.messages();
    let kinds = message_types_read_by_osken(network.env(), &messages);
    for kind in kinds_said(version) {
        assert!(kinds.iter().any(|k| k == kind), "no {kind} in {kinds:?}");
    }
    assert_eq!(capture.errors_found_by_tshark(), "");
    assert_eq!(capture.message_types_read_by_tshark(), count_by_type(&messages));
    assert_decoded_by_ovs(&capture, messages.len());
}

fn read_by_open_vswitch(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let config = network.env().write("sluice.toml", "[session]\nrole = \"master\"\n");
    let config = format!("--app learning --config {}", config.display());
    let controller = Controller::new(network.env(), &config);
    let mut capture = Capture::new(network.env(), &controller);
    let (h1, mut h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.move_host(&mut h2, "s1", "s1");
    h2.forget_neighbours();
    h2.assert_reaches(&h1);
    capture.stop();

    let messages = capture.messages();
    let kinds = count_by_type(&messages);
    for (kind, since) in KINDS_SAID {
        assert_eq!(kinds.contains_key(&kind), version >= since, "kind {kind} of {kinds:?}");
    }
    assert_decoded_by_ovs(&capture, messages.len());
}

/// `HELLO`, `FEATURES_REQUEST`, `SET_CONFIG`, `PACKET_OUT`, `FLOW_MOD`, `MULTIPART_REQUEST`, `ROLE_REQUEST`, and since
/// when a session says them. §7.1.
const KINDS_SAID: [(u8, OpenFlow); 7] = [
    (0, OpenFlow::V10),
    (5, OpenFlow::V10),
    (9, OpenFlow::V10),
    (13, OpenFlow::V10),
    (14, OpenFlow::V10),
    (18, OpenFlow::V13),
    (24, OpenFlow::V12),
];

fn assert_decoded_by_ovs(capture: &Capture, messages: usize) {
    let read = capture.as_read_by_ovs();
    assert_eq!(read.len(), messages);
    let complaint = read.iter().find(|message| message.contains("***"));
    assert_eq!(complaint, None, "what Open vSwitch cannot decode");
}
