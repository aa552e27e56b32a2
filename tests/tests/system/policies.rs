//! `sluice policy`: while a policy is replaced, each packet is processed by the old or by the new entries on its whole path.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, over, wait_until,
};

mod a_stream_sees_the_old_or_the_new_policy {
    super::over!(over_openflow_1_3, V13, replaced_under_load());
    super::over!(over_openflow_1_4, V14, replaced_under_load());
}

const SWITCHES: [&str; 4] = ["s1", "s2", "s3", "s4"];

/// Exit code, standard output and error of `sluice` with these arguments.
fn sluice(network: &OvsNetwork, arguments: &[&str]) -> (i32, String, String) {
    let mut command = network.env().command(&binary().to_string_lossy());
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Two paths from `s1` to `s4`: over `s2` and over `s3`.
fn diamond(version: OpenFlow) -> (OvsNetwork, Controller) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (id, switch) in (1..).zip(SWITCHES) {
        network.bridge(switch, id);
    }
    for (a, b) in [("s1", "s2"), ("s1", "s3"), ("s2", "s4"), ("s3", "s4")] {
        network.link(a, b);
    }
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(network.env().file("state"));
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    (network, controller)
}

/// A flow entry in a file.
fn entry(name: &str, switch: &str, flow: &str) -> String {
    format!("[[flows]]\nname = \"{name}\"\nswitch = \"{switch}\"\nflow = \"{flow}\"\n")
}

/// A policy whose packets pass one switch between `s1` and `s4`, and have a mark from the first to the last one: a packet that is processed by one policy at the
/// beginning and by another one at the end has the wrong mark, and is dropped.
fn policy(network: &OvsNetwork, hosts: [u16; 2], over: &str, mark: u8) -> String {
    let mut flows = vec![];
    let mut flow = |switch: &str, name: &str, flow: String| {
        flows.push(entry(&format!("{switch}-{name}"), switch, &flow));
    };
    let mark = |switch: &str| format!("02:00:00:00:{}:{mark:02}", &switch[1..]);
    for ((from, from_host), (to, to_host)) in
        [(("s1", hosts[0]), ("s4", hosts[1])), (("s4", hosts[1]), ("s1", hosts[0]))]
    {
        let [first, middle] =
            [(from, over), (over, to)].map(|(at, next)| network.link_port(at, next));
        let sent = mark(from);
        for kind in ["ip", "arp"] {
            let actions = format!("set_field:{sent}->eth_src,output:{first}");
            flow(
                from,
                &format!("{kind}-out"),
                format!("priority=300,{kind},in_port={from_host},actions={actions}"),
            );
            let on = format!("priority=300,{kind},dl_src={sent},actions=output:{middle}");
            flow(over, &format!("{kind}-to-{to}"), on);
            let deliver = format!("priority=300,{kind},dl_src={sent},actions=output:{to_host}");
            flow(to, &format!("{kind}-in"), deliver);
        }
    }
    let name = format!("{over}.toml");
    network.env().write(&name, flows.concat()).display().to_string()
}

fn replaced_under_load(version: OpenFlow) {
    let (network, controller) = diamond(version);
    let [a, b] = ["s1", "s4"].map(|switch| network.host(switch));
    wait_until(LONG_TIMEOUT, "hosts and links", || {
        a.ping(&b, 1).lost() == 0 && links(&network) == 8
    });
    let hosts = [a.port(), b.port()];
    let [two, three] =
        [("s2", 2), ("s3", 3)].map(|(over, mark)| policy(&network, hosts, over, mark));
    let apply = |file: &str| sluice(&network, &["policy", "apply", "way", file]);
    let (code, shown, error) = apply(&two);
    assert_eq!(code, 0, "{shown}{error}");
    assert!(shown.starts_with("way: in effect at 3 switches, VLAN 4000, "), "{shown}");
    a.assert_reaches(&b);
    let ping = a.start_fast_ping(&b);
    ping.wait_for_replies(20);

    // A full table keeps all switches on the old policy, and leaves nothing of the new one.
    for (full, expected) in [("s3", "FULL"), ("s4", "FULL")] {
        let count = u16::try_from(network.flows(full).len()).unwrap();
        network.limit_flow_entries(full, count + 1);
        let (code, shown, error) = apply(&three);
        assert_eq!((code, shown.as_str()), (1, ""), "{error}");
        assert!(error.contains(full) && error.contains(expected), "{error}");
        network.unlimit_flow_entries(full);
        wait_until(LONG_TIMEOUT, "no entries of the refused version", || {
            SWITCHES.iter().all(|switch| tagged(&network, switch, 4001) == 0)
        });
    }
    for _ in 0..8 {
        for (file, unused) in [(&three, "s2"), (&two, "s3")] {
            let (code, shown, error) = apply(file);
            assert_eq!(code, 0, "{shown}{error}");
            ping.wait_for_replies(10);
            let before = network.packets_on_link("s1", unused);
            ping.wait_for_replies(10);
            // Link probes, not the stream.
            assert!(network.packets_on_link("s1", unused) < before + 10, "{unused} is not used");
        }
    }
    ping.wait_for_replies(20);
    assert_eq!(ping.stop().lost(), 0);
    let (_, shown, _) = apply(&two);
    assert!(shown.starts_with("way: as before"), "{shown}");

    // Versions without packets in flight are removed, and the current one survives the controller.
    wait_until(LONG_TIMEOUT, "one version", || versions(&network) == 1);
    drop(controller);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(network.env().file("state"));
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the policy", || {
        sluice(&network, &["policy", "list"]).1.contains("installed")
    });
    a.assert_reaches(&b);
    assert_eq!(versions(&network), 1);
    let (code, shown, error) = sluice(&network, &["policy", "remove", "way"]);
    assert_eq!((code, shown.as_str()), (0, "way: removed\n"), "{error}");
    wait_until(LONG_TIMEOUT, "nothing of the policy", || versions(&network) == 0);
    wait_until(LONG_TIMEOUT, "the policy to be forgotten", || {
        sluice(&network, &["policy", "list"]).1.lines().count() <= 1
    });
    // By the applications again.
    wait_until(LONG_TIMEOUT, "paths of forwarding", || a.ping(&b, 1).lost() == 0);
}

fn links(network: &OvsNetwork) -> usize {
    sluice(network, &["show", "links"]).1.lines().count().saturating_sub(1)
}

/// Entries of a switch that match a VLAN id.
fn tagged(network: &OvsNetwork, switch: &str, vlan: u16) -> usize {
    let vlan = vlan.to_string();
    network.flows(switch).iter().filter(|flow| flow.value("dl_vlan") == Some(&vlan)).count()
}

/// VLAN ids that entries of switches match.
fn versions(network: &OvsNetwork) -> usize {
    let is_used = |vlan: &u16| SWITCHES.iter().any(|switch| tagged(network, switch, *vlan) > 0);
    (4000..4032).filter(is_used).count()
}

#[test]
fn a_policy_that_is_not_possible_is_refused_with_the_reason() {
    let (network, controller) = diamond(OpenFlow::V13);
    wait_until(LONG_TIMEOUT, "links", || links(&network) == 8);
    let file = |text: &str| network.env().write("bad.toml", text).display().to_string();
    for (text, why) in [
        (
            entry("a", "s1", "priority=300,actions=normal"),
            "bad.toml:2: flow \"a\": `NORMAL` is not possible",
        ),
        (entry("a", "s1", "priority=300,dl_vlan=3,actions=drop"), "must not match VLAN tags"),
        (entry("a", "s1", "priority=100,actions=drop"), "belongs to an application"),
        (entry("a", "s9", "priority=300,actions=drop"), "switch s9 is not connected"),
        (
            entry("a", "s1", "priority=300,actions=drop")
                + &entry("a", "s1", "priority=301,actions=drop"),
            "twice",
        ),
        ("flows = []\n".to_owned(), "no flow entry"),
        ("[[flow]]\nname = \"a\"\n".to_owned(), "unknown field `flow`"),
    ] {
        let path = file(&text);
        let (code, shown, error) = sluice(&network, &["policy", "apply", "p", &path]);
        assert_eq!((code, shown.as_str()), (1, ""), "{error}");
        assert!(error.contains(why), "{why}: {error}");
    }
    let (code, _, error) = sluice(&network, &["policy", "show", "p"]);
    assert!(code == 1 && error.contains("no policy is named \"p\""), "{error}");
    let good = entry("a", "all", "priority=300,udp,actions=drop");
    let path = file(&good);
    network.clear_controller("s2");
    wait_until(LONG_TIMEOUT, "s2 to disconnect", || {
        !sluice(&network, &["show", "switches"]).1.contains("s2")
    });
    let named = file(&entry("a", "s2", "priority=300,udp,actions=drop"));
    let (code, _, error) = sluice(&network, &["policy", "apply", "p", &named]);
    assert!(code == 1 && error.contains("s2 is not connected"), "{error}");
    fs::write(&path, &good).unwrap();
    // Only when it is known that its links are lost.
    wait_until(LONG_TIMEOUT, "a policy of the other switches", || {
        let (code, shown, _) = sluice(&network, &["policy", "apply", "p", &path]);
        code == 0 && shown.contains("in effect at 3 switches")
    });
    network.set_controller("s2", &controller);
    wait_until(LONG_TIMEOUT, "what is to be done about a new switch", || {
        sluice(&network, &["policy", "show", "p"]).1.contains("to be applied again")
    });
    wait_until(LONG_TIMEOUT, "a policy of all switches", || {
        let (code, shown, _) = sluice(&network, &["policy", "apply", "p", &path]);
        code == 0 && shown.contains("in effect at 4 switches")
    });
    // A switch that has the policy is part of `all` while it is away.
    network.clear_controller("s2");
    wait_until(LONG_TIMEOUT, "s2 to disconnect", || {
        !sluice(&network, &["show", "switches"]).1.contains("s2")
    });
    let more = file(&(good + &entry("b", "all", "priority=301,udp,actions=drop")));
    let (code, _, error) = sluice(&network, &["policy", "apply", "p", &more]);
    assert!(code == 1 && error.contains("0000000000000002 is not connected"), "{error}");
}
