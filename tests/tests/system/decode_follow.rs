//! `sluice decode --follow`: live conversations of Open vSwitch with the controller.

use std::process::Command;

use sluice_system_tests::{
    Controller, ExitReport, LiveDecode, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    both_versions, wait_until,
};

both_versions! {
    a_live_conversation_is_decoded_with_the_latencies_of_replies() = live_conversation;
}

fn live_conversation(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (bridge, dpid) in [("s1", 0x51), ("s2", 0x52)] {
        network.bridge(bridge, dpid);
    }
    network.link("s1", "s2");
    let controller = Controller::new(network.env(), "");
    let all = LiveDecode::new(network.env(), "all", "--json");
    let selected = LiveDecode::new(network.env(), "selected", "--json --dpid 52");
    let replies = LiveDecode::new(network.env(), "replies", "--dpid 0x52 --type features_reply");
    let summary = LiveDecode::new(network.env(), "summary", "--summary");
    network.connect(&controller);
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || h1.ping(&h2, 1).lost() == 0);
    for dpid in ["0000000000000051", "0000000000000052"] {
        let dpid = format!("\"dpid\":\"{dpid}\"");
        all.wait_for(&[&dpid, "\"request\":\"features_request\",\"latency_us\":"]);
        all.wait_for(&[&dpid, "\"type\":\"flow_mod\""]);
    }
    // The messages before the datapath id is known are there too.
    selected.wait_for(&["\"type\":\"hello\"", "0000000000000052"]);
    selected.wait_for(&["\"type\":\"flow_mod\"", "0000000000000052"]);
    replies.wait_for(&["[dpid=0000000000000052 latency=", "OFPT_FEATURES_REPLY"]);

    let selected = selected.stop();
    let of_other_switch = "\"dpid\":\"0000000000000051\"";
    assert!(!selected.stdout.contains(of_other_switch), "{}", selected.stdout);
    let replies = replies.stop();
    assert_eq!(replies.stdout.matches(" > ").count(), 1, "{}", replies.stdout);
    let all = all.stop();
    assert_eq!((all.code, all.stdout.contains("\"ok\":false")), (Some(0), false), "{}", all.stdout);
    assert!(all.stderr.contains(" captured, 0 dropped by the kernel"), "{}", all.stderr);
    let summary = summary.stop();
    let rows: Vec<Vec<_>> =
        summary.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let features = rows.iter().find(|row| row.starts_with(&["FEATURES_REQUEST", "to", "switch"]));
    // Messages, bytes, malformed, errors, answered.
    assert_eq!(
        features.and_then(|row| row.get(3..8)),
        Some(&["2", "16", "0", "0", "2"][..]),
        "{summary:?}"
    );
    assert!(summary.stdout.contains("0 malformed"), "{summary:?}");
    assert!(summary.stdout.ends_with(" captured, 0 dropped by the kernel\n"), "{summary:?}");
}

#[test]
fn a_live_capture_joins_connections_that_are_established() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let controller = Controller::new(network.env(), "");
    let (h1, h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    let live = LiveDecode::new(network.env(), "live", "");
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || h1.ping(&h2, 1).lost() == 0);
    live.wait_for(&["OFPT_FLOW_MOD"]);
    let exit = live.stop();
    assert_eq!((exit.code, exit.stdout.contains("malformed")), (Some(0), false), "{exit:?}");
}

#[test]
fn the_error_about_a_missing_privilege_to_capture_names_it() {
    let env = TestEnv::shared();
    let mut nobody = env.command("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    nobody.args(["decode", "--follow", "-i", "lo"]);
    let exit = ExitReport::of(&nobody);
    let error = "error: cannot capture on lo: permission denied: run this as root, or with the capability CAP_NET_RAW\n";
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(2), error));
}

#[test]
fn the_error_about_an_interface_that_does_not_exist_names_it() {
    let mut decode = Command::new(binary());
    decode.args(["decode", "--follow", "-i", "no-such-if"]);
    let exit = ExitReport::of(&decode);
    let is_named = exit.stderr.contains("no-such-if: no such interface");
    assert!(exit.code == Some(2) && is_named, "{exit:?}");
}
