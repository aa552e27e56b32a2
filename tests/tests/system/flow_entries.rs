//! Hosts on Open vSwitch reach each other, and the flow entries are those that the documentation promises.

use sluice_system_tests::{
    Controller, Host, ListedFlow, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, binary,
    every_version, wait_until,
};

every_version! {
    the_default_applications_install_entries_for_both_directions() = default_applications;
}

/// Idle timeout and priority by default, of `forwarding` and of `learning`.
const IDLE_TIMEOUT_AND_PRIORITY: [&str; 2] = ["idle_timeout=60", "priority=100"];

/// The flow entries of `s1` that forward packets; checks for the table-miss entry that its version needs.
fn entries(network: &OvsNetwork, version: OpenFlow) -> Vec<ListedFlow> {
    let (misses, entries): (Vec<_>, Vec<_>) =
        network.flows("s1").into_iter().partition(ListedFlow::is_table_miss);
    // Until 1.2 a switch sends packets without a flow entry to the controller by itself. §5.4.
    assert_eq!(misses.len(), usize::from(version >= OpenFlow::V13));
    // The entries of `topology` send LLDP to the controller.
    entries.into_iter().filter(|entry| !entry.actions().starts_with("CONTROLLER")).collect()
}

/// Checks that one of `entries` forwards from `from` to `to` and contains `parts`.
#[track_caller]
fn assert_has_entry(entries: &[ListedFlow], from: &Host, to: &Host, parts: &[String]) {
    let has_source = |entry: &&ListedFlow| entry.value("dl_src") == Some(&from.mac());
    let entry = entries.iter().find(has_source).map(ToString::to_string).unwrap_or_default();
    let addresses = format!("dl_src={},dl_dst={}", from.mac(), to.mac());
    let common = IDLE_TIMEOUT_AND_PRIORITY.map(str::to_owned).into_iter();
    for part in common.chain([addresses, format!(" actions={}", to.output())]) {
        assert!(entry.contains(&part), "no {part:?} in {entry:?}");
    }
    for part in parts {
        assert!(entry.contains(part), "no {part:?} in {entry:?}");
    }
}

fn default_applications(version: OpenFlow) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 1);
    let controller = Controller::new(network.env(), "");
    let (h1, h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    wait_until(SHORT_TIMEOUT, "the hosts to be learned", || h1.ping(&h2, 1).lost() == 0);
    h1.assert_reaches(&h2);
    let entries = entries(&network, version);
    for (from, to) in [(&h1, &h2), (&h2, &h1)] {
        network.assert_forwards_to("s1", to);
        assert_has_entry(&entries, from, to, &["vlan_tci=0x0000".to_owned()]);
    }
    assert_eq!(entries.len(), 2, "{entries:#?}");
}

#[test]
fn learning_matches_the_ingress_port_and_both_addresses() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    let entries = entries(&network, OpenFlow::V13);
    for (from, to) in [(&h1, &h2), (&h2, &h1)] {
        network.assert_forwards_to("s1", to);
        assert_has_entry(&entries, from, to, &[format!("in_port={},vlan_tci=0x0000", from.port())]);
    }
    assert_eq!(entries.len(), 2, "{entries:#?}");
}

#[test]
fn learning_connects_hosts_through_eight_switches() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 8);
    let controller = Controller::new(network.env(), "--app learning");
    let (h1, h2) = (network.host("s1"), network.host("s8"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    h2.assert_reaches(&h1);
}

#[test]
fn learning_reinstalls_an_entry_after_its_idle_timeout() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let config = network.env().write("sluice.toml", "[learning]\nidle_timeout_s = 1\n");
    let controller =
        Controller::new(network.env(), &format!("--app learning --config {}", config.display()));
    let (h1, h2) = (network.host("s1"), network.host("s1"));
    network.connect(&controller);
    for _ in 0..2 {
        h1.assert_reaches(&h2);
        for entry in network.flows_to("s1", &h2) {
            assert_eq!(entry.value("idle_timeout"), Some("1"), "{entry}");
        }
        network.assert_forwards_to("s1", &h2);
        wait_until(SHORT_TIMEOUT, "the entry to expire", || network.flows_to("s1", &h2).is_empty());
    }
}

#[test]
fn the_hub_connects_hosts_without_flow_entries_for_them() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 3);
    let controller = Controller::new(network.env(), "--app hub");
    let (h1, h2) = (network.host("s1"), network.host("s3"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    for flow in network.flows("s2") {
        assert_eq!((flow.value("dl_src"), flow.value("dl_dst")), (None, None), "{flow}");
    }
}

/// Every packet goes to the controller, so a message that was lost or late on the way to another worker would be a lost ping.
#[test]
fn no_packet_is_lost_while_switches_move_between_workers() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 3);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--no-api", "--app", "hub"]);
    command.env("SLUICE_EXPERIMENTAL__MOVE_INTERVAL_MS", "50");
    let controller = Controller::with(command, network.env().dir());
    let (h1, h2) = (network.host("s1"), network.host("s3"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    let moves = controller.log().matches("switch moved").count();
    assert!(moves >= 30, "only {moves} moves");
}
