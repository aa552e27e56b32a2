//! `sluice apply --atomic`: a change at all switches or at none, at Open vSwitch and with a running stream.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, over, wait_until,
};

mod a_policy_changes_at_all_switches_or_at_none {
    super::over!(over_openflow_1_0, V10, changes(false));
    super::over!(over_openflow_1_3, V13, changes(true));
    super::over!(over_openflow_1_4, V14, changes(true));
}

const SWITCHES: [&str; 3] = ["s1", "s2", "s3"];

/// Exit code, standard output and error of `sluice` with these arguments.
fn sluice(network: &OvsNetwork, arguments: &[&str]) -> (i32, String, String) {
    let mut command = network.env().command(&binary().to_string_lossy());
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A policy in a file: the way through all switches, and entries that tell the policies apart.
fn policy(network: &OvsNetwork, ports: &[(u16, u16)], name: &str, entries: u16) -> String {
    let flow = |name: String, switch: &str, flow: String| {
        format!("[[flows]]\nname = \"{name}\"\nswitch = \"{switch}\"\nflow = \"{flow}\"\n")
    };
    let mut text = String::new();
    for (switch, (left, right)) in SWITCHES.into_iter().zip(ports) {
        for (from, to) in [(left, right), (right, left)] {
            // Each policy rewrites the entries of the stream.
            let actions = format!("mod_dl_src:{},output:{to}", source(entries.into()));
            let entry = format!("priority=300,ip,in_port={from},actions={actions}");
            text += &flow(format!("{switch}-{from}"), switch, entry);
            let arp = format!("priority=300,arp,in_port={from},actions=output:{to}");
            text += &flow(format!("{switch}-arp-{from}"), switch, arp);
        }
    }
    for n in 0..entries {
        text += &flow(
            format!("{name}-{n}"),
            "all",
            format!("priority=400,in_port={},actions=drop", 70 + n),
        );
    }
    network.env().write(&format!("{name}.toml"), text).display().to_string()
}

/// The source address that the entries of the stream write, which tells the policies apart.
fn source(entries: usize) -> String {
    format!("02:00:00:00:00:{entries:02}")
}

/// Whether a switch has the policy with so many entries, and nothing of another one.
fn has_policy(network: &OvsNetwork, switch: &str, entries: usize) -> bool {
    let flows = network.flows(switch);
    let of_stream: Vec<_> =
        flows.iter().filter(|flow| flow.actions().contains("02:00:00:00:00:")).collect();
    let marks = flows.iter().filter(|flow| flow.value("priority") == Some("400")).count();
    of_stream.len() == 2
        && of_stream.iter().all(|flow| flow.actions().contains(&source(entries)))
        && marks == entries
}

fn changes(version: OpenFlow, has_bundles: bool) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (id, switch) in (1..).zip(SWITCHES) {
        network.bridge(switch, id);
    }
    network.link("s1", "s2");
    network.link("s2", "s3");
    let [a, b] = ["s1", "s3"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(network.env().file("state"));
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    let port = |from: &str, to: &str| network.link_port(from, to);
    let ports = [
        (a.port(), port("s1", "s2")),
        (port("s2", "s1"), port("s2", "s3")),
        (port("s3", "s2"), b.port()),
    ];
    let old = policy(&network, &ports, "old", 1);
    let new = policy(&network, &ports, "new", 6);
    let apply = |file: &str| sluice(&network, &["apply", "--atomic", file]);
    let (code, shown, error) = apply(&old);
    assert_eq!(code, 0, "{shown}{error}");
    let assert_all = |entries: usize| {
        for switch in SWITCHES {
            assert!(has_policy(&network, switch, entries), "{switch}: {:?}", network.flows(switch));
        }
    };
    assert_all(1);
    a.assert_reaches(&b);
    let ping = a.start_fast_ping(&b);
    ping.wait_for_replies(20);

    // A full table at any of the switches keeps all on the old policy.
    for full in SWITCHES {
        let count = u16::try_from(network.flows(full).len()).unwrap();
        network.limit_flow_entries(full, count + 1);
        let (code, shown, error) = apply(&new);
        assert_eq!((code, shown.as_str()), (1, ""), "{error}");
        let id = format!("(000000000000000{})", full.trim_start_matches('s'));
        let by = format!("nothing was changed: refused by switch {full} {id}: ");
        assert!(error.contains(&by), "{error}");
        assert!(error.contains("FULL"), "{error}");
        if has_bundles {
            assert_all(1);
        } else {
            wait_until(LONG_TIMEOUT, "the old policy everywhere", || {
                SWITCHES.iter().all(|switch| has_policy(&network, switch, 1))
            });
        }
        network.unlimit_flow_entries(full);
    }
    let diff = sluice(&network, &["diff", &old]);
    assert_eq!((diff.0, diff.1.as_str()), (0, ""), "what is declared stays the same");

    for _ in 0..10 {
        for (file, entries) in [(&new, 6), (&old, 1)] {
            let (code, shown, error) = apply(file);
            assert_eq!(code, 0, "{shown}{error}");
            assert_all(entries);
            // The log has at most 20 events in a second.
            ping.wait_for_replies(10);
        }
    }
    ping.wait_for_replies(20);
    assert_eq!(ping.stop().lost(), 0);

    let (_, events, _) =
        sluice(&network, &["show", "events", "--kind", "policy-applied,policy-refused"]);
    let count = |kind: &str| events.lines().filter(|line| line.contains(kind)).count();
    assert_eq!((count("policy applied: "), count("policy refused: ")), (21, 3), "{events}");
    let applied = || controller.log().matches("INFO policy applied").count();
    wait_until(LONG_TIMEOUT, "all changes in the log", || applied() >= 21);
    assert_eq!(applied(), 21, "{}", controller.log());
    let commits = if has_bundles { 21 } else { 0 };
    assert_eq!(events.lines().filter_map(commit_us).count(), commits, "{events}");
}

/// The time of the commits in the line of an event.
fn commit_us(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("commit=")?;
    rest.split_once("us")?.0.parse().ok()
}
