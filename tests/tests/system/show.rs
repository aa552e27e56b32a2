//! `sluice show` of networks of Open vSwitch, which is the witness for what it lists.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions,
    output_of, over, wait_until,
};

both_versions! {
    the_network_is_shown_as_it_is() = network;
    tables_fit_80_columns() = tables_fit;
}

mod live_commands_show_what_has_changed {
    super::over!(over_openflow_1_3, V13, live_commands());
}

mod groups_and_meters_are_shown_as_ovs_ofctl_takes_them {
    super::over!(over_openflow_1_3, V13, groups_and_meters());
    super::over!(over_openflow_1_5, V15, groups_and_meters());
}

/// Subcommands of `show` that print texts and no tables: a flow entry, an event or a path has one line, whatever its length.
const TEXTS: [&str; 5] = ["events", "flows", "groups", "meters", "paths"];

/// Columns of a small terminal.
const COLUMNS: usize = 80;

/// What `sluice show` prints.
fn show(network: &OvsNetwork, arguments: &str) -> String {
    let mut command = network.env().command(&binary().to_string_lossy());
    output_of(command.arg("show").args(arguments.split_whitespace()))
}

/// Rows below the titles, in cells.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

/// Two connected switches, each with a host; the hosts have reached each other.
fn start(version: OpenFlow) -> (OvsNetwork, Controller, [Host; 2]) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (name, id) in [("s1", 1), ("s2", 2)] {
        network.bridge(name, id);
    }
    network.link("s1", "s2");
    let [a, b] = ["s1", "s2"].map(|switch| network.host(switch));
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2", "--state-dir"]).arg(network.env().file("state"));
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);
    (network, controller, [a, b])
}

/// What a subcommand prints.
fn sluice(network: &OvsNetwork, arguments: &[&str]) -> String {
    output_of(network.env().command(&binary().to_string_lossy()).args(arguments))
}

fn network(version: OpenFlow) {
    let (network, _controller, [_a, b]) = start(version);

    let switches = show(&network, "switches");
    let listed: Vec<_> = rows(&switches).iter().map(|row| [row[0], row[1], row[2]]).collect();
    let expected = [["0000000000000001", "s1"], ["0000000000000002", "s2"]];
    let number = if version == OpenFlow::V10 { "1.0" } else { "1.3" };
    assert_eq!(listed, expected.map(|[dpid, name]| [dpid, name, number]), "{switches}");

    let [port, other] = [("s1", "s2"), ("s2", "s1")].map(|(a, b)| network.link_port(a, b));
    let [near, far] = [format!("s1:{port}"), format!("s2:{other}")];
    let links = show(&network, "links");
    assert_eq!(rows(&links).len(), 2, "{links}");
    let from_s1 = rows(&links).into_iter().find(|row| row[0] == near).unwrap();
    assert_eq!([from_s1[2], from_s1[4]], [far.as_str(), "no"], "{links}");

    let ports = show(&network, "ports s1");
    let link = rows(&ports).into_iter().find(|row| row[0] == port.to_string()).unwrap();
    assert_eq!([link[2], link[3], link[5]], ["yes", "link", far.as_str()], "{ports}");
    let wide = show(&network, "ports s1 --wide");
    assert!(wide.lines().next().unwrap().ends_with("RX-DROPPED  TX-DROPPED"), "{wide}");

    let hosts = show(&network, &format!("hosts --mac {} --switch s2", b.mac()));
    assert_eq!(rows(&hosts).len(), 1, "{hosts}");
    assert_eq!(rows(&hosts)[0][2], format!("s2:{}", b.port()), "{hosts}");

    for bridge in ["s1", "s2"] {
        let flows = show(&network, &format!("flows {bridge}"));
        assert_eq!(flows.lines().count(), network.flows(bridge).len(), "{flows}");
        // Fails if the file and the switch have different flow entries.
        let file = network.env().write("flows.txt", &flows);
        network.ofctl("diff-flows", bridge, &[&file.to_string_lossy()]);
        let json = show(&network, &format!("flows {bridge} --json"));
        assert!(json.contains(r#""owner":"forwarding""#), "{json}");
    }

    network.ofctl("add-flow", "s1", &["cookie=0x1234,priority=9,dl_type=0x9999,actions=drop"]);
    let count_of = |filter: &str| show(&network, &format!("flows s1 {filter}")).lines().count();
    let total = count_of("");
    for (filter, count) in
        [("--owner foreign", 1), ("--cookie 0x1234", 1), ("--cookie 0x1200/0xffff", 0)]
    {
        assert_eq!(count_of(filter), count, "{filter}");
    }
    assert!((1..total).contains(&count_of("--owner forwarding")));
    assert_eq!(count_of("--cookie 0/0"), total);
}

/// The subcommands of `show`, as its help lists them.
fn subcommands(network: &OvsNetwork) -> Vec<String> {
    let help = sluice(network, &["show", "--help"]);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        // A line of a description that goes on is indented further.
        line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[track_caller]
fn assert_fits(table: &str) {
    let longest = table.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|columns| columns <= COLUMNS), "{longest:?} columns:\n{table}");
}

fn tables_fit(version: OpenFlow) {
    let (network, _controller, [a, b]) = start(version);
    let entry = "in_port=55,actions=drop";
    sluice(&network, &["flow", "add", "s1", entry, "--name", "block"]);
    sluice(&network, &["host", "quarantine", &b.mac(), "--reason", "a test"]);
    let port = network.link_port("s1", "s2").to_string();
    sluice(&network, &["link", "drain", "s1", &port, "--no-wait"]);
    // The first answer about ports has no rates.
    show(&network, "ports s1");
    wait_until(LONG_TIMEOUT, "rates", || {
        a.broadcast(1);
        rows(&show(&network, "ports s1")).iter().all(|row| row[6] != "-")
    });
    let (mut tables, mut texts) = (0, 0);
    for subcommand in subcommands(&network) {
        if TEXTS.contains(&subcommand.as_str()) {
            texts += 1;
            continue;
        }
        let switch = sluice(&network, &["show", &subcommand, "--help"]).contains("<SWITCH>\n");
        let table = show(&network, &format!("{subcommand}{}", if switch { " s1" } else { "" }));
        assert!(table.lines().count() > 1, "{subcommand}: {table}");
        assert_fits(&table);
        tables += 1;
    }
    assert_eq!((tables, texts), (8, TEXTS.len()), "subcommands of show");
    let list = sluice(&network, &["flow", "list"]);
    assert!(list.contains("block") && list.contains(entry), "{list}");
    assert_fits(&list);
    assert_fits(&sluice(&network, &["flow", "show", "block"]));
}

/// What `ovs-ofctl COMMAND` lists, with the syntax of the version.
fn listed(network: &OvsNetwork, command: &str) -> String {
    let text = network.ofctl_output(command, "s1", &[]);
    // The first line has the version and the id of the message.
    text.lines().skip(1).map(|line| line.trim().to_owned() + "\n").collect()
}

fn groups_and_meters(version: OpenFlow) {
    let (network, _controller, [a, b]) = start(version);
    let output = format!("group_id=12,type=all,bucket=actions=output:{}", a.port());
    for group in [&*output, "group_id=1,type=select,bucket=weight:3,actions=group:12"] {
        network.ofctl("add-group", "s1", &[group]);
    }
    network.ofctl(
        "add-meter",
        "s1",
        &["meter=3,kbps,burst,band=type=drop,rate=1000,burst_size=50"],
    );
    network.ofctl("add-meter", "s1", &["meter=7,pktps,band=type=drop,rate=20"]);
    // What h2 sends is counted by the group.
    let flow = format!("priority=50000,in_port={},actions=group:12", network.link_port("s1", "s2"));
    network.ofctl("add-flow", "s1", &[&flow]);
    b.broadcast(3);
    wait_until(LONG_TIMEOUT, "the counters", || {
        let shown = show(&network, "groups s1");
        let counted = shown.lines().any(|line| {
            line.starts_with("group_id=12,")
                && line.contains("  # ")
                && !line.contains(" 0 packets")
        });
        counted && listed(&network, "dump-group-stats").contains("group_id=12,")
    });
    let groups = show(&network, "groups s1");
    let meters = show(&network, "meters s1");
    assert_eq!([&groups, &meters].map(|text| text.lines().count()), [2, 2], "{groups}{meters}");
    assert!(meters.lines().all(|line| line.contains("  # ")), "{meters}");
    assert!(show(&network, "groups s1 --json").starts_with(r#"{"reply":"#));

    // Open vSwitch has the same groups and meters when it has read them from what is shown.
    let before = ["dump-groups", "dump-meters"].map(|command| listed(&network, command));
    for command in ["del-groups", "del-meters"] {
        network.ofctl(command, "s1", &[]);
    }
    assert_eq!(show(&network, "groups s1") + &show(&network, "meters s1"), "");
    // A group has to be there before another one uses it.
    let mut lines: Vec<_> = groups.lines().collect();
    lines.sort_by_key(|line| !line.starts_with("group_id=12,"));
    let file = network.env().write("groups.txt", lines.join("\n") + "\n");
    network.ofctl("add-groups", "s1", &[&file.to_string_lossy()]);
    for line in meters.lines() {
        let (meter, _) = line.split_once("  # ").unwrap();
        network.ofctl("add-meter", "s1", &[meter]);
    }
    let after = ["dump-groups", "dump-meters"].map(|command| listed(&network, command));
    assert_eq!(after.map(|text| sorted(&text)), before.map(|text| sorted(&text)));
}

/// A command that shows something again and again, into a file.
struct LiveCommand {
    child: Child,
    output: PathBuf,
}

impl LiveCommand {
    fn start(network: &OvsNetwork, name: &str, arguments: &[&str]) -> Self {
        let output = network.env().file(name);
        let mut command = network.env().command(&binary().to_string_lossy());
        let child = command.args(arguments).stdout(File::create(&output).unwrap()).spawn().unwrap();
        Self { child, output }
    }

    /// Whether the last whole text has a row of a switch, by its name. Texts begin with the time.
    fn has_switch(&self, name: &str) -> bool {
        let text = fs::read_to_string(&self.output).unwrap();
        let is_time = |line: &&str| line.starts_with("20") && line.ends_with('Z');
        let rows = text.lines().rev().skip_while(|line| !is_time(line)).skip(1);
        rows.take_while(|line| !is_time(line))
            .any(|line| line.split_whitespace().take(2).any(|word| word == name))
    }
}

impl Drop for LiveCommand {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn live_commands(version: OpenFlow) {
    let (network, _controller, _hosts) = start(version);
    let show = LiveCommand::start(&network, "show.txt", &["show", "switches", "--watch=0.5"]);
    let top = LiveCommand::start(&network, "top.txt", &["top", "--interval", "0.5"]);
    let both = [&show, &top];
    wait_until(LONG_TIMEOUT, "both switches", || {
        both.iter().all(|it| it.has_switch("s1") && it.has_switch("s2"))
    });
    network.set_controller_at("s2", "127.0.0.1:9");
    wait_until(LONG_TIMEOUT, "one of them", || {
        both.iter().all(|it| it.has_switch("s1") && !it.has_switch("s2"))
    });
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
