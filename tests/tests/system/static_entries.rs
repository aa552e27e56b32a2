//! Static flow entries, groups and meters at Open vSwitch, which is the witness for what is installed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, SHORT_TIMEOUT, Stopwatch, TestEnv, binary,
    over, wait_until,
};

mod static_entries_are_kept {
    super::over!(over_openflow_1_0, V10, are_kept());
    super::over!(over_openflow_1_3, V13, are_kept());
    super::over!(over_openflow_1_4, V14, are_kept());
}

mod a_file_is_applied_without_touching_what_stays_the_same {
    super::over!(over_openflow_1_0, V10, is_applied());
    super::over!(over_openflow_1_3, V13, is_applied());
    super::over!(over_openflow_1_5, V15, is_applied());
}

mod groups_and_meters_are_kept {
    super::over!(over_openflow_1_3, V13, groups_and_meters());
    super::over!(over_openflow_1_5, V15, groups_and_meters());
}

pub(crate) const BLOCK: &str = "priority=200,in_port=55,actions=drop";

pub(crate) fn start(network: &OvsNetwork) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(network.env().file("state"));
    Controller::with(command, network.env().dir())
}

/// Exit code, standard output and error of `sluice` with these arguments.
pub(crate) fn sluice(network: &OvsNetwork, arguments: &[&str]) -> (i32, String, String) {
    let mut command = network.env().command(&binary().to_string_lossy());
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
pub(crate) fn sluice_ok(network: &OvsNetwork, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = sluice(network, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
    stdout
}

/// What `ovs-ofctl COMMAND` lists, with counters.
fn listed(network: &OvsNetwork, version: OpenFlow, command: &str) -> String {
    let socket = format!("unix:{}", network.env().file("s1.mgmt").display());
    let mut ofctl = network.env().command("ovs-ofctl");
    let output = ofctl.args(["-O", version.name(), "--no-names", command, &socket]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The actions of the flow entry of `in_port=PORT`, if there is one.
fn actions(network: &OvsNetwork, port: u16) -> Option<String> {
    let port = port.to_string();
    let flows = network.flows("s1");
    let flow = flows.iter().find(|flow| flow.value("in_port") == Some(&port))?;
    Some(flow.actions().to_owned())
}

pub(crate) fn has(network: &OvsNetwork, port: u16, expected: &str) -> bool {
    actions(network, port).as_deref() == Some(expected)
}

fn are_kept(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    network.bridge("s1", 1);
    let mut controller = start(&network);
    network.connect(&controller);
    let shown = sluice_ok(&network, &["flow", "add", "s1", BLOCK, "--name", "block"]);
    assert!(shown.starts_with("block: installed\n"), "{shown}");
    assert!(has(&network, 55, "drop"));

    // Removed and modified by somebody else.
    network.ofctl("del-flows", "s1", &["in_port=55"]);
    wait_until(LONG_TIMEOUT, "the entry that was deleted", || has(&network, 55, "drop"));
    network.ofctl("mod-flows", "s1", &["in_port=55,actions=output:9"]);
    wait_until(LONG_TIMEOUT, "the entry that was modified", || has(&network, 55, "drop"));

    // Refused, with all that belongs to the change; installed when there is room.
    let count = u16::try_from(network.flows("s1").len()).unwrap();
    network.limit_flow_entries("s1", count);
    let (code, shown, _) = sluice(
        &network,
        &["flow", "add", "s1", "priority=200,in_port=56,actions=drop", "--name", "more"],
    );
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("refused: FLOW_MOD_FAILED/") && shown.contains("FULL"), "{shown}");
    let refused = sluice_ok(&network, &["flow", "list", "--state", "refused"]);
    assert!(refused.contains("more") && !refused.contains("block"), "{refused}");
    network.unlimit_flow_entries("s1");
    wait_until(LONG_TIMEOUT, "the entry that was refused", || has(&network, 56, "drop"));

    // Gone with the memory of the switch, and with the controller.
    network.restart_switches();
    controller.wait_for_sessions(2);
    wait_until(LONG_TIMEOUT, "the entries after a restart", || {
        has(&network, 55, "drop") && has(&network, 56, "drop")
    });
    controller.kill();
    network.ofctl("del-flows", "s1", &["in_port=55"]);
    controller.restart();
    wait_until(LONG_TIMEOUT, "the entry after kill -9", || has(&network, 55, "drop"));
    sluice_ok(&network, &["flow", "del", "block"]);
    assert_eq!(actions(&network, 55), None);
    let (code, _, error) = sluice(&network, &["flow", "del", "block"]);
    assert_eq!((code, error.contains("no static flow \"block\"")), (1, true), "{error}");
    let (code, _, error) = sluice(&network, &["flow", "add", "s1", "priority=2,actions=drop"]);
    assert_eq!(
        (code, error.contains("priority 2 belongs to an application")),
        (1, true),
        "{error}"
    );
}

mod the_time_of_a_state_changes_with_the_state {
    super::over!(over_openflow_1_0, V10, has_a_time());
    super::over!(over_openflow_1_3, V13, has_a_time());
}

/// State of an entry at `s1`, and since when, seconds since 1970.
fn state_since(network: &OvsNetwork, name: &str) -> (String, f64) {
    let text = sluice_ok(network, &["flow", "show", name, "--json"]);
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let at = |field: &str| entry.pointer(&format!("/at/0/{field}")).unwrap().clone();
    (at("state").as_str().unwrap().to_owned(), at("since_unix_s").as_f64().unwrap())
}

fn has_a_time(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    network.bridge("s1", 1);
    let controller = start(&network);
    network.connect(&controller);
    sluice_ok(&network, &["flow", "add", "s1", BLOCK, "--name", "block"]);
    let (state, first) = state_since(&network, "block");
    assert_eq!(state, "installed");
    // As a table: a time of today in UTC, or a date if it has become midnight.
    let shown = sluice_ok(&network, &["flow", "list"]);
    let since = shown.lines().nth(1).and_then(|row| row.split_whitespace().nth(3)).unwrap();
    assert!(since.ends_with('Z') || since.len() == "2026-03-01".len(), "{shown}");

    // Another entry is refused, and tried again several times.
    let count = u16::try_from(network.flows("s1").len()).unwrap();
    network.limit_flow_entries("s1", count);
    let more = "priority=200,in_port=56,actions=drop";
    let (code, shown, _) = sluice(&network, &["flow", "add", "s1", more, "--name", "more"]);
    assert_eq!(code, 1, "{shown}");
    let (_, refused) = state_since(&network, "more");
    assert!(refused >= first);
    let time = Stopwatch::start();
    while time.elapsed().as_secs() < 5 {
        let (state, since) = state_since(&network, "more");
        assert_eq!((state.as_str(), since.to_bits()), ("refused", refused.to_bits()));
    }
    network.unlimit_flow_entries("s1");
    wait_until(LONG_TIMEOUT, "the entry that was refused", || {
        state_since(&network, "more").0 == "installed"
    });
    assert!(state_since(&network, "more").1 > refused + 4.0);
    // It was read and compared meanwhile, and has stayed the same.
    while time.elapsed().as_secs() < 15 {
        let (state, since) = state_since(&network, "block");
        assert_eq!((state.as_str(), since.to_bits()), ("installed", first.to_bits()));
    }
    // Deleted by another program, and put back.
    network.ofctl("del-flows", "s1", &["in_port=55"]);
    wait_until(LONG_TIMEOUT, "the entry that was deleted", || {
        has(&network, 55, "drop") && state_since(&network, "block").1 > first + 10.0
    });
    controller.wait_for_log(&[r#"name="s1" count=1"#]);
}

/// A number behind `key` in the line of a listing with all of `words`.
fn number(listing: &str, words: &[&str], key: &str) -> u64 {
    let line = listing.lines().find(|line| words.iter().all(|word| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("{words:?} in {listing}"));
    let (_, rest) = line.split_once(key).unwrap_or_else(|| panic!("{key} in {line}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

fn is_applied(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    network.bridge("s1", 1);
    let [a, b] = ["s1", "s1"].map(|switch| network.host(switch));
    let controller = start(&network);
    network.connect(&controller);
    let stream = |from: u16, to: u16| {
        format!(
            "[[flows]]\nname = \"from-{from}\"\nswitch = \"core\"\n\
             flow = \"priority=300,in_port={from},actions=output:{to}\"\n"
        )
    };
    let names = "[names.switches]\n1 = \"core\"\n";
    let both = stream(a.port(), b.port()) + &stream(b.port(), a.port());
    let other =
        "[[flows]]\nname = \"other\"\nswitch = \"all\"\nflow = \"in_port=77,actions=drop\"\n";
    let first = network.env().write("first.toml", format!("{names}{both}"));
    let second = network.env().write("second.toml", format!("{names}{both}{other}"));
    let [first, second] = [first, second].map(|path| path.display().to_string());
    let wrong = network.env().write("wrong.yaml", "flows:\n- name: a\n  swich: all\n");
    let wrong = wrong.display().to_string();
    let (code, _, error) = sluice(&network, &["diff", &wrong]);
    assert!(code == 2 && error.contains(&format!("{wrong}:3: flows[0].swich")), "{error}");
    let (code, shown, _) = sluice(&network, &["diff", &first]);
    assert_eq!((code, shown.lines().count()), (1, 3), "{shown}");
    sluice_ok(&network, &["apply", &first]);
    assert!(sluice_ok(&network, &["diff", &first]).is_empty());
    assert!(sluice_ok(&network, &["show", "switches"]).contains("core"));

    a.assert_reaches(&b);
    let ping = a.start_fast_ping(&b);
    ping.wait_for_replies(20);
    let words = [&*format!("in_port={}", a.port()), "priority=300"];
    let count = |key| number(&listed(&network, version, "dump-flows"), &words, key);
    let time = Stopwatch::start();
    let (mut packets, mut age) = (count("n_packets="), count("duration="));
    // Added, removed and applied again several times, and verified in between.
    while time.elapsed().as_secs() < 15 {
        for file in [&second, &second, &first] {
            sluice_ok(&network, &["apply", file]);
            assert_eq!(actions(&network, 77).is_some(), *file == second);
            let now = (count("n_packets="), count("duration="));
            assert!(now.0 >= packets && now.1 >= age, "{now:?} after {packets}, {age}");
            (packets, age) = now;
        }
    }
    assert!(packets >= 20 && age >= 14, "{packets} packets in {age} s");
    assert_eq!(ping.stop().lost(), 0);
}

fn groups_and_meters(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    network.bridge("s1", 1);
    let mut controller = start(&network);
    network.connect(&controller);
    let file = |text: &str| network.env().write("file.toml", text).display().to_string();
    let path = file(
        "[[meters]]\nname = \"slow\"\nswitch = \"s1\"\nmeter = \"meter=1,kbps,band=type=drop,rate=1000\"\n\
         [[groups]]\nname = \"copies\"\nswitch = \"s1\"\ngroup = \"group_id=2,type=all,bucket=actions=group:1\"\n\
         [[groups]]\nname = \"one\"\nswitch = \"s1\"\ngroup = \"group_id=1,type=all,bucket=actions=output:1,bucket=actions=output:2\"\n\
         [[flows]]\nname = \"to-group\"\nswitch = \"s1\"\nflow = \"in_port=77,actions=group:2\"\n\
         [[flows]]\nname = \"metered\"\nswitch = \"s1\"\nflow = \"in_port=78,actions=meter:1,output:3\"\n",
    );
    sluice_ok(&network, &["apply", &path]);
    let is_complete = || {
        let groups = listed(&network, version, "dump-groups");
        let meters = listed(&network, version, "dump-meters");
        groups.contains("group_id=1")
            && groups.contains("group_id=2")
            && meters.contains("rate=1000")
            && actions(&network, 77).is_some()
            && actions(&network, 78).is_some()
    };
    assert!(is_complete());
    let installed = |kind: &str| {
        let port = "8653";
        let mut curl = network.env().command("curl");
        let url = format!("http://127.0.0.1:{port}/v1/static/{kind}?state=installed");
        let output = curl.args(["-s", &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(installed("groups").contains("\"total\":2"), "{}", installed("groups"));

    // A group that is deleted takes the flow entries with it that use it.
    network.ofctl("del-groups", "s1", &[]);
    wait_until(LONG_TIMEOUT, "the groups that were deleted", is_complete);
    network.ofctl("del-meters", "s1", &[]);
    wait_until(LONG_TIMEOUT, "the meters that were deleted", is_complete);
    // Nothing is written again that the switch reports in its own way.
    wait_until(LONG_TIMEOUT, "the state", || {
        installed("groups").contains("\"total\":2") && installed("meters").contains("\"total\":1")
    });

    // Undeclared while the switch is away, and removed after a restart of the controller.
    network.set_unreachable_controller("s1");
    wait_until(SHORT_TIMEOUT, "the switch to disconnect", || {
        !sluice_ok(&network, &["show", "switches"]).contains("0000000000000001")
    });
    sluice_ok(&network, &["apply", &file("")]);
    controller.kill();
    controller.restart();
    network.set_controller("s1", &controller);
    wait_until(LONG_TIMEOUT, "what is not declared to be removed", || {
        !listed(&network, version, "dump-groups").contains("group_id=")
            && !listed(&network, version, "dump-meters").contains("meter=")
            && actions(&network, 77).is_none()
    });
}
