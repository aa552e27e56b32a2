//! Whole scripts as users of Ryu have them, in `tests/ryu-scripts/`, run as they are; `ovs-ofctl` is the witness.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, ListedFlow, OpenFlow, OvsNetwork, TestEnv, binary,
    both_versions, output_of, wait_until,
};

use crate::ryu::API;

both_versions! {
    a_flow_pusher_installs_modifies_and_deletes_its_policy() = flow_pusher;
    a_collector_prints_topology_and_rates() = topology_stats;
}

#[test]
fn a_shaper_uses_a_meter_and_a_group() {
    shaper();
}

/// Two switches, two hosts at the first and one at the second. The API listens where Ryu's does.
fn network(version: OpenFlow) -> (OvsNetwork, [Host; 3], Controller) {
    let network = OvsNetwork::line(TestEnv::shared(), version, 2);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", API]);
    let controller = Controller::with(command, network.env().dir());
    let hosts = ["s1", "s1", "s2"].map(|switch| network.host(switch));
    network.connect(&controller);
    (network, hosts, controller)
}

/// What a script prints, with arguments that are separated by spaces.
#[track_caller]
fn run(network: &OvsNetwork, script: &str, arguments: &str) -> String {
    let path = format!("{}/ryu-scripts/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut python = network.env().command("python3");
    output_of(python.arg(path).args(arguments.split_whitespace()))
}

/// What follows `key` in a line, up to the next space.
#[track_caller]
fn number(line: &str, key: &str) -> u64 {
    let (_, rest) = line.split_once(key).unwrap_or_else(|| panic!("no {key} in {line}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Match and actions of the flow entries of the flow pusher at a bridge.
fn pushed(network: &OvsNetwork, bridge: &str) -> Vec<String> {
    let flows = network.flows(bridge);
    let pushed = flows.iter().filter(|flow| flow.value("cookie") == Some("0x5ec"));
    let text = |flow: &ListedFlow| {
        let text = flow.to_string();
        text.split_once("priority=40000,").unwrap().1.to_owned()
    };
    let mut texts: Vec<_> = pushed.map(text).collect();
    texts.sort();
    texts
}

fn flow_pusher(version: OpenFlow) {
    let (network, _hosts, _controller) = network(version);
    let number = if version == OpenFlow::V10 { "1.0" } else { "1.3" };
    let [tos, modified_tos, push, pop] = if version == OpenFlow::V10 {
        ["mod_nw_tos:16", "mod_nw_tos:32", "mod_vlan_vid:20", "strip_vlan"]
    } else {
        let push = "push_vlan:0x8100,set_field:4116->vlan_vid";
        ["set_field:4->ip_dscp", "set_field:8->ip_dscp", push, "pop_vlan"]
    };
    let policy = |tos: &str| {
        [
            format!("in_port=1,dl_vlan=20 actions={pop},output:3"),
            format!("in_port=3,dl_src=00:00:00:00:00:09 actions={push},output:1"),
            "ip,nw_src=10.0.0.66 actions=drop".to_owned(),
            format!("tcp,nw_dst=10.0.0.2,tp_dst=80 actions={tos},output:2"),
        ]
    };
    for (command, expected) in [
        ("add", &policy(tos)[..]),
        ("list", &policy(tos)),
        ("modify", &policy(modified_tos)),
        ("delete", &[]),
    ] {
        let printed = run(&network, "flow_pusher.py", &format!("{command} {number}"));
        for switch in ["s1", "s2"] {
            assert_eq!(pushed(&network, switch), expected, "{command} at {switch}");
        }
        let flows = format!(": {} flows", expected.len());
        assert_eq!(printed.matches(&flows).count(), 2, "{command}: {printed}");
        assert_eq!(printed.matches(" -> ").count(), 2 * expected.len(), "{command}: {printed}");
    }
}

/// Packets that a port of `s1` has received and sent, as Open vSwitch counts them.
fn counted(network: &OvsNetwork, port: u16) -> [u64; 2] {
    let listing = network.ofctl_output("dump-ports", "s1", &[&port.to_string()]);
    ["rx pkts=", "tx pkts="].map(|key| number(&listing, key))
}

fn topology_stats(version: OpenFlow) {
    let (network, [a, _, b], _controller) = network(version);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    let ping = a.start_fast_ping(&b);
    ping.wait_for_replies(20);
    let before = counted(&network, a.port());
    let printed = run(&network, "topology_stats.py", "http://127.0.0.1:8080 1 2");
    let after = counted(&network, a.port());
    ping.stop();

    let [s1, s2] = ["0000000000000001", "0000000000000002"];
    let [to_s2, to_s1] = [("s1", "s2"), ("s2", "s1")].map(|(from, to)| network.link_port(from, to));
    for line in [
        format!("switch {s1} ports=3"),
        format!("switch {s2} ports=2"),
        format!("link {s1}:{to_s2} {s2}:{to_s1}"),
        format!("link {s2}:{to_s1} {s1}:{to_s2}"),
        format!("host {} {} at {s1}:{}", a.mac(), a.ipv4(), a.port()),
        format!("host {} {} at {s2}:{}", b.mac(), b.ipv4(), b.port()),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "no {line:?} in {printed}");
    }
    let start = format!("port {s1}:{} interface{} ", a.port(), a.port());
    let readings: Vec<_> = printed.lines().filter(|line| line.starts_with(&start)).collect();
    assert_eq!(readings.len(), 2, "{printed}");
    for reading in readings {
        for (count, key) in [" rx=", " tx="].into_iter().enumerate() {
            let packets = number(reading, key);
            let range = before.get(count).unwrap()..=after.get(count).unwrap();
            assert!(range.contains(&&packets), "{reading}: not within {range:?}");
        }
        // Pings of 98 bytes, a hundred per second at most; half of them on a busy machine.
        for key in ["rx_bit/s=", "tx_bit/s="] {
            let rate = number(reading, key);
            assert!((8_000..400_000).contains(&rate), "{reading}");
        }
    }
}

fn shaper() {
    let (network, [a, c, b], _controller) = network(OpenFlow::V13);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    let link = network.link_port("s1", "s2");
    let arguments = format!("1 {} {link},{}", a.port(), c.port());
    run(&network, "shaper.py", &format!("start {arguments}"));
    let dump = |what: &str| network.ofctl_output(what, "s1", &[]);
    let meters = dump("dump-meters");
    assert!(meters.contains("meter=5 kbps burst stats"), "{meters}");
    assert!(meters.contains("type=drop rate=2000 burst_size=200"), "{meters}");
    let groups = dump("dump-groups");
    let buckets = format!("bucket=actions=output:{link},bucket=actions=output:{}", c.port());
    let has_group = |groups: &str| groups.contains(&format!("group_id=50,type=all,{buckets}"));
    assert!(has_group(&no_names(&network)), "{groups}");
    let entry = || {
        let flows = network.flows("s1");
        flows.iter().any(|flow| {
            flow.value("priority") == Some("50000") && flow.actions() == "meter:5,group:50"
        })
    };
    assert!(entry());

    let received = c.frames_received();
    // Packets may pass by the entries of before for a moment, uncounted.
    wait_until(LONG_TIMEOUT, "the entry to be used", || {
        assert_eq!(a.ping(&b, 20).lost(), 0);
        number(&dump("meter-stats"), "packet_in_count:") >= 20
    });
    assert!(c.frames_received() >= received + 20, "the copies of the echo requests");
    wait_until(LONG_TIMEOUT, "the counters", || {
        let printed = run(&network, "shaper.py", &format!("counters {arguments}"));
        let packets = number(&dump("meter-stats"), "packet_in_count:");
        let grouped = dump("dump-group-stats");
        let meter = format!("meter 5: 2000, {packets} packets in, 0 dropped\n");
        let group = format!("group 50: ALL, {packets} packets\n");
        printed.starts_with(&(meter + &group))
            && printed.matches(&format!(": {packets} packets\n")).count() == 2
            && grouped.contains("group_id=50")
            && grouped.matches(&format!("packet_count={packets},")).count() == 3
    });

    run(&network, "shaper.py", &format!("stop {arguments}"));
    assert!(!entry());
    assert!(!dump("dump-groups").contains("group_id"), "{}", dump("dump-groups"));
    assert!(!dump("dump-meters").contains("meter=5"), "{}", dump("dump-meters"));
}

/// The groups of `s1`, with numbers of ports.
fn no_names(network: &OvsNetwork) -> String {
    let socket = format!("unix:{}", network.env().file("s1.mgmt").display());
    let mut ofctl = network.env().command("ovs-ofctl");
    output_of(ofctl.args(["-O", "OpenFlow13", "--no-names", "dump-groups", &socket]))
}
