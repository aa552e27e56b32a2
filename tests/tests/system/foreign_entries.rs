//! What an operator does with `ovs-ofctl` while the default applications run: flow entries that are added stay, and those of the
//! controller that are deleted are written again.

use sluice_system_tests::{
    Controller, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary, both_versions, every_version,
    wait_until,
};

every_version! {
    an_entry_of_an_operator_stays_when_a_packet_to_an_unknown_host_uses_it() = unknown_host;
    an_entry_of_an_operator_stays_when_its_port_goes_down() = port_down;
    a_switch_whose_flow_entries_were_deleted_forwards_again() = emptied_table;
}

both_versions! {
    a_flow_entry_that_another_program_has_changed_is_found_in_the_background() = changed_entry;
}

/// A host that does not exist.
const UNKNOWN: &str = "02:00:00:00:12:34";

/// The entry of the operator: to the unknown host, over the link to `s2`.
const ENTRY: &str = "cookie=0x1234,priority=1234,dl_dst=02:00:00:00:12:34,actions=output:s1-s2";

/// The entries of `forwarding`, as the documentation selects them.
const FORWARDING: &str = "cookie=0x666f727700000000/0xffffffff00000000";

/// With metrics, and the default applications on two workers.
fn controller(network: &OvsNetwork) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]);
    Controller::with(command, network.env().dir())
}

fn has_operator_entry(network: &OvsNetwork) -> bool {
    let flows = network.flows("s1");
    flows
        .iter()
        .any(|flow| flow.value("dl_dst") == Some(UNKNOWN) && flow.to_string().contains("1234"))
}

fn unknown_host(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network);
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.ofctl("add-flow", "s1", &[ENTRY]);
    let frame =
        [&[2, 0, 0, 0, 0x12, 0x34, 2, 0, 0, 0, 0x56, 0x78, 0x88, 0xb5][..], &[0; 50]].concat();
    let unknown = || network.env().metric("forwarding_unknown_from_link_total").unwrap_or_default();
    wait_until(SHORT_TIMEOUT, "packets to the unknown host at s2", || {
        h1.send_frames(&frame, 5, 50);
        unknown() > 0
    });
    // What they caused has been sent to s1 by then.
    network.wait_for_probes(4);
    assert!(has_operator_entry(&network), "{:#?}", network.flows("s1"));
    if version > OpenFlow::V10 {
        network.ofctl("del-flows", "s1", &[FORWARDING]);
        assert!(network.flows_to("s1", &h2).is_empty());
        assert!(has_operator_entry(&network), "{:#?}", network.flows("s1"));
    }
}

fn port_down(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = controller(&network);
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.ofctl("add-flow", "s1", &[ENTRY]);
    assert!(!network.flows_to("s1", &h2).is_empty());
    network.cut_link("s1", "s2");
    wait_until(SHORT_TIMEOUT, "the entries to h2 to be deleted", || {
        network.flows_to("s1", &h2).is_empty()
    });
    // Deletions are repeated after a second.
    network.wait_for_probes(4);
    assert!(has_operator_entry(&network), "{:#?}", network.flows("s1"));
    network.restore_link("s1", "s2");
    h1.assert_reaches(&h2);
}

fn emptied_table(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let controller = Controller::new(network.env(), "");
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    let before = network.flows("s1");
    network.ofctl("del-flows", "s1", &[]);
    controller.wait_for_log(&["the switch has removed a flow entry of the controller"]);
    h1.assert_reaches(&h2);
    assert_eq!(h1.ping(&h2, 5).lost(), 0);
    let sorted = |mut flows: Vec<_>| {
        flows.sort();
        flows
    };
    let lines = |flows: &[_]| sorted(flows.iter().map(ToString::to_string).collect::<Vec<_>>());
    wait_until(SHORT_TIMEOUT, "the flow entries of before", || {
        lines(&network.flows("s1")) == lines(&before)
    });
}

fn changed_entry(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.arg("run").env("SLUICE_FORWARDING__VERIFY_INTERVAL_S", "1");
    let controller = Controller::with(command, network.env().dir());
    let (h1, h2) = (network.host("s1"), network.host("s2"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.ofctl("add-flow", "s1", &[ENTRY]);
    // The cookie of the entry, which OpenFlow 1.0 would replace.
    let change = format!("cookie=0x666f727700000001,dl_dst={},actions=output:s2-s1", h2.mac());
    network.ofctl("mod-flows", "s2", &[&change]);
    controller.wait_for_log(&["switch had wrong flow entries of forwarding"]);
    h1.assert_reaches(&h2);
    assert!(has_operator_entry(&network), "{:#?}", network.flows("s1"));
}
