//! The commands of the documentation, run one after the other as they are written, in a network of Open vSwitch.
//!
//! Compared are the exit code, and the titles of tables. What a page shows besides varies: counters, times, addresses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, wait_until,
};

use crate::queue_setup::vsctl;

/// Commands that are not run, as they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("sluice run", "the test has started the controller"),
    ("sluice capture --switch s1 | wireshark", "wireshark needs a screen"),
    (
        "curl -X POST -H 'Content-Type: application/json' http://127.0.0.1:8653/v1/switches/s1/packets",
        "the frame is abbreviated",
    ),
];

/// Commands that last: they are ended after some seconds.
const LASTING: &[&str] = &[
    "sluice show events --follow",
    "curl -N 'http://127.0.0.1:8653/v1/events?",
    "sluice capture --switch s1 --port 3 --ethertype arp -w arp.pcapng --seconds 60",
    "sluice capture --ip 10.0.0.7 --json",
];

/// Commands that end with 1 though they print no error, and why.
const EXIT_1: &[(&str, &str)] =
    &[("sluice diff network.toml", "there are differences, as with diff(1)")];

/// What is done before a command, and after it.
type Around = (&'static str, fn(&Network), fn(&Network));

/// Commands for which the network is not as usual.
const AROUND: &[Around] = &[
    ("curl -s localhost:8653/v1/switches/s1/flows | jq", Network::declare_one_entry, |_| ()),
    ("sluice link drain s1 2 --timeout 10", Network::cut_other_path, Network::restore_other_path),
    ("sluice apply --atomic network.toml", Network::fill_table, Network::empty_table),
];

/// The pages, with the port of the API that they use.
const PAGES: &[(&str, &str, u16)] = &[
    ("api.md", include_str!("../../../docs/api.md"), 8653),
    ("operations.md", include_str!("../../../docs/operations.md"), 8653),
    ("static-entries.md", include_str!("../../../docs/static-entries.md"), 8653),
    ("policies.md", include_str!("../../../docs/policies.md"), 8653),
    ("trace.md", include_str!("../../../docs/trace.md"), 8653),
    ("events.md", include_str!("../../../docs/events.md"), 8653),
    ("flow-entries.md", include_str!("../../../docs/flow-entries.md"), 8653),
    ("ryu.md", include_str!("../../../docs/ryu.md"), 8080),
    ("coming-from.md", include_str!("../../../docs/coming-from.md"), 8653),
];

#[test]
fn commands_of_the_page_about_the_api_work_as_documented() {
    run_page("api.md");
}

#[test]
fn commands_of_the_page_about_operations_work_as_documented() {
    run_page("operations.md");
}

#[test]
fn commands_of_the_page_about_static_entries_work_as_documented() {
    run_page("static-entries.md");
}

#[test]
fn commands_of_the_page_about_policies_work_as_documented() {
    run_page("policies.md");
}

#[test]
fn commands_of_the_page_about_traces_work_as_documented() {
    run_page("trace.md");
}

#[test]
fn commands_of_the_page_about_events_work_as_documented() {
    run_page("events.md");
}

#[test]
fn commands_of_the_page_about_flow_entries_work_as_documented() {
    run_page("flow-entries.md");
}

#[test]
fn commands_of_the_page_about_ryu_work_as_documented() {
    run_page("ryu.md");
}

#[test]
fn commands_of_the_page_for_newcomers_print_what_is_documented() {
    run_page("coming-from.md");
}

#[test]
fn every_exception_is_a_documented_command() {
    let commands: Vec<_> = PAGES.iter().flat_map(|page| examples(page.1)).collect();
    assert!(commands.len() > 40, "{}", commands.len());
    let exceptions = NOT_RUN.iter().map(|it| it.0).chain(LASTING.iter().copied());
    let exceptions = exceptions.chain(EXIT_1.iter().map(|it| it.0));
    for exception in exceptions.chain(AROUND.iter().map(|it| it.0)) {
        assert!(
            commands.iter().any(|it| it.command.starts_with(exception)),
            "no page has {exception:?} any more"
        );
    }
}

/// A command of a page, and what the page shows below it.
#[derive(Debug)]
struct Example {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// A file that a page shows before a command.
struct File {
    line: usize,
    name: String,
    text: String,
}

/// The blocks of a page: the number of the line before, the language, and the lines.
fn blocks(page: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let mut blocks = vec![];
    let mut open: Option<(usize, &str, Vec<&str>)> = None;
    for (n, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => open = Some((n + 1, language, vec![])),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.2.push(line),
            (None, None) => {}
        }
    }
    blocks
}

/// Whether a command continues in the next line.
fn is_open(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

fn examples(page: &str) -> Vec<Example> {
    let mut examples = vec![];
    for (start, language, lines) in blocks(page) {
        let mut current: Option<Example> = None;
        for (n, line) in lines.iter().enumerate() {
            let command = match language {
                "console" => line.strip_prefix("$ "),
                "sh" => Some(*line),
                _ => None,
            };
            match current.as_mut() {
                Some(example) if is_open(&example.command) => {
                    example.command += "\n";
                    example.command += line;
                }
                _ if command.is_some() => {
                    examples.extend(current.take());
                    let command = command.unwrap_or_default().to_owned();
                    current = Some(Example { line: start + n + 1, command, output: vec![] });
                }
                Some(example) => example.output.push((*line).to_owned()),
                None => {}
            }
        }
        examples.extend(current);
    }
    let is_command = |it: &Example| {
        ["sluice ", "curl ", "ovs-ofctl "].iter().any(|start| it.command.starts_with(start))
    };
    examples.retain(is_command);
    examples
}

/// The files of a page, which have their names in a comment in the first line.
fn files(page: &str) -> Vec<File> {
    let file = |(line, language, lines): (usize, &str, Vec<&str>)| {
        let name = lines.first()?.strip_prefix("# ")?;
        (language == "toml" && !name.contains(' ')).then(|| File {
            line,
            name: name.to_owned(),
            text: lines.join("\n") + "\n",
        })
    };
    blocks(page).into_iter().filter_map(file).collect()
}

/// Whether a line has the titles of a table: several words of capital letters.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_title = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(|c| c.is_ascii_uppercase() || "-/".contains(c))
    };
    words.clone().count() > 1 && words.all(is_title)
}

/// Words of a line, without numbers: for lines whose counters and times vary.
fn without_numbers(line: &str) -> String {
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = String::new();
    for c in words.chars() {
        if c.is_ascii_digit() {
            if !text.ends_with('0') {
                text.push('0');
            }
        } else {
            text.push(c);
        }
    }
    // One packet has no plural.
    text.replace(" packet,", " packets,").replace(" byte", " bytes").replace("bytess", "bytes")
}

/// Three switches in a ring. Hosts 1 and 2 are at port 1 of `s1` and `s2`, host 3 at port 4 of `s2`; port 2 of `s1` leads to port 2 of `s2`, and
/// port 3 of both to `s3`.
struct Network {
    switches: OvsNetwork,
    hosts: [Host; 3],
    _controller: Controller,
}

impl Network {
    fn new(api_port: u16) -> Self {
        let switches = OvsNetwork::ring(TestEnv::shared(), OpenFlow::V13, 3);
        let hosts = ["s1", "s2", "s2"].map(|switch| switches.host(switch));
        let [a, b, c] =
            [&hosts[0], &hosts[1], &hosts[2]].map(|host| format!("interface{}", host.port()));
        for (bridge, old, port) in [
            ("s1", &*a, 1),
            ("s2", &b, 1),
            ("s1", "s1-s2", 2),
            ("s2", "s2-s1", 2),
            ("s1", "s1-s3", 3),
            ("s2", "s2-s3", 3),
            ("s2", &c, 4),
        ] {
            vsctl(&switches, &format!("del-port {bridge} {old}"));
            switches.env().ip(&format!("link set {old} down"));
            switches.env().ip(&format!("link set {old} name {bridge}-eth{port}"));
        }
        for (bridge, port) in
            [("s1", 1), ("s1", 2), ("s1", 3), ("s2", 1), ("s2", 2), ("s2", 3), ("s2", 4)]
        {
            let name = format!("{bridge}-eth{port}");
            switches.env().ip(&format!("link set {name} up"));
            vsctl(
                &switches,
                &format!("add-port {bridge} {name} -- set interface {name} ofport_request={port}"),
            );
        }
        let env = switches.env();
        symlink(binary(), env.file("sluice")).unwrap();
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["run", "--threads", "1", "--api", &format!("127.0.0.1:{api_port}")]);
        let controller = Controller::with(command, env.dir());
        switches.connect(&controller);
        let new = Self { switches, hosts, _controller: controller };
        let [a, b, c] = &new.hosts;
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || {
            a.ping(b, 1).lost() == 0 && c.ping(b, 1).lost() == 0 && new.has_all_links(api_port)
        });
        new
    }

    fn has_all_links(&self, api_port: u16) -> bool {
        let (_, stdout, _) = self.run(&format!("sluice show links --api 127.0.0.1:{api_port}"));
        // Three links in two directions, and the titles.
        stdout.lines().count() == 7
    }

    /// Exit code and outputs of a command in the shell of a user, in the folder of the test.
    fn run(&self, command: &str) -> (i32, String, String) {
        let env = self.switches.env();
        let script = format!("cd '{}'; set -o pipefail\n{command}", env.dir().display());
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell: Command = env.command("bash");
        shell.env("PATH", format!("{}:{path}", env.dir().display()));
        shell.env("OVS_RUNDIR", env.dir());
        let output = shell.args(["-c", &script]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// Cuts the path through `s3`.
    fn cut_other_path(&self) {
        self.switches.env().ip("link set s1-eth3 down");
        wait_until(LONG_TIMEOUT, "the link to be lost", || {
            self.run("sluice show links").1.lines().count() == 5
        });
        // The path has to be another one now.
        self.run("sluice clear --owner forwarding");
        self.hosts[0].ping(&self.hosts[1], 1);
    }

    fn restore_other_path(&self) {
        self.switches.env().ip("link set s1-eth3 up");
        self.run("sluice link undrain s1 2");
        wait_until(LONG_TIMEOUT, "the link", || {
            self.run("sluice show links").1.lines().count() == 7
        });
    }

    /// Adds an entry to the file, and leaves no room for it.
    fn fill_table(&self) {
        let file = self.switches.env().file("network.toml");
        let more = "[[flows]]\nname = \"more\"\nswitch = \"s2\"\nflow = \"priority=200,in_port=77,actions=drop\"\n";
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text + more).unwrap();
        let count = self.switches.flows("s2").len();
        self.switches.limit_flow_entries("s2", u16::try_from(count).unwrap());
    }

    fn empty_table(&self) {
        self.switches.unlimit_flow_entries("s2");
    }

    /// Leaves one static entry, at `s1`.
    fn declare_one_entry(&self) {
        self.run("sluice flow del block-h3");
        self.run(
            "sluice flow add s1 'priority=200,ip,nw_src=10.0.0.3,actions=drop' --name block-h3",
        );
    }
}

fn run_page(name: &str) {
    let (_, page, api_port) = *PAGES.iter().find(|page| page.0 == name).unwrap();
    let network = Network::new(api_port);
    let mut files = files(page);
    let mut failures = vec![];
    for example in examples(page) {
        for file in files.extract_if(.., |file| file.line < example.line) {
            network.switches.env().write(&file.name, &file.text);
        }
        if NOT_RUN.iter().any(|it| example.command.starts_with(it.0)) {
            continue;
        }
        // So that there are paths.
        network.hosts[0].ping(&network.hosts[1], 1);
        let around = AROUND.iter().find(|it| example.command.starts_with(it.0));
        if let Some((_, before, _)) = around {
            before(&network);
        }
        let problems = check(&network, &example, name == "coming-from.md");
        failures
            .extend(problems.into_iter().map(|it| format!("docs/{name}:{}: {it}", example.line)));
        if let Some((.., after)) = around {
            after(&network);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs the command of an example. Returns what is not as documented.
fn check(network: &Network, example: &Example, is_verbatim: bool) -> Vec<String> {
    let command = &example.command;
    let is_lasting = LASTING.iter().any(|it| command.starts_with(it));
    let shows_error = example.output.iter().any(|line| line.starts_with("error: "));
    let is_1 = shows_error || EXIT_1.iter().any(|it| command.starts_with(it.0));
    let (expected, run) = match (is_lasting, is_1) {
        (true, _) => (124, format!("timeout 3 {command}")),
        (false, is_1) => (i32::from(is_1), command.clone()),
    };
    let (code, stdout, stderr) = network.run(&run);
    let shown = format!("{stdout}\n{stderr}");
    let mut problems = vec![];
    let mut problem = |what: String| problems.push(format!("{command}\n{what}, printed:\n{shown}"));
    if code != expected {
        problem(format!("exit code {code} instead of {expected}"));
    }
    if shown.contains("{\"error\":")
        && !example.output.iter().any(|line| line.contains("{\"error\":"))
    {
        problem("the API has refused it".to_owned());
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for header in example.output.iter().filter(|line| is_header(line)) {
        if !shown.lines().any(|line| words(line) == words(header)) {
            problem(format!("not with the titles {header:?}"));
        }
    }
    if is_verbatim && example.output.is_empty() && !stdout.trim().is_empty() {
        problem("not without output".to_owned());
    }
    for line in example.output.iter().filter(|_| is_verbatim) {
        if !shown.lines().any(|printed| without_numbers(printed) == without_numbers(line)) {
            problem(format!("not with the line {line:?}"));
        }
    }
    problems
}
