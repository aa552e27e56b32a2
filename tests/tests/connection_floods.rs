//! Floods of connections that are no switches, against the whole binary.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluice_system_tests::{Controller, PATIENCE, TestEnv, binary, happens, wait_until};

/// Connections a second.
const RATE: u32 = 3000;

/// For how long, seconds.
const SECONDS: u32 = 4;

/// Peers that may be without proof. Less than a second's worth: the limit is met.
const HANDSHAKES_MAX: u32 = 2000;

/// What the process may grow by in a flood: 2 KiB for each of these peers (what it said so far, its session, its place
/// in the tables), and 4 MiB for what the allocator does not give back. Seen: 2 MiB in all.
const GROWTH_MAX_KIB: u64 = HANDSHAKES_MAX as u64 * 2 + 4 * 1024;

/// Lines in the log about a flood: what each of two threads may write in a second, for longer than it lasts.
const LINES_MAX: usize = 2 * 21 * 5 * SECONDS as usize;

/// Where metrics are served: the env has its own loopback.
const API: &str = "127.0.0.1:8653";

/// A controller in a env of its own, and what can be seen of it from outside.
struct Flooded {
    controller: Controller,
    config: String,
    env: TestEnv,
}

impl Flooded {
    fn new(handshake_timeout_ms: u32) -> Self {
        let env = TestEnv::new();
        let config = env.write(
            "sluice.toml",
            &format!(
                "[experimental]\nhandshake_timeout_ms = {handshake_timeout_ms}\n\
                 [limits]\nhandshakes_max = {HANDSHAKES_MAX}\n\
                 [api]\nlisten = \"{API}\"\n"
            ),
        );
        let config = config.to_string_lossy().into_owned();
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["run", "--threads", "1", "--app", "learning", "--config", &config]);
        let controller = Controller::with(command, env.dir());
        Self { controller, config, env }
    }

    /// A flood of peers that say `what`.
    fn flood(&self, what: &str) -> Child {
        let mut flood = self.bench("flood --held-max 15000");
        flood.args(["--send"]).args(what.split_whitespace());
        flood.args(["--rate", &RATE.to_string(), "--seconds", &SECONDS.to_string()]);
        flood.stdout(Stdio::null()).spawn().unwrap()
    }

    fn bench(&self, arguments: &str) -> Command {
        let mut bench = self.env.command(&binary().to_string_lossy());
        bench.args(["bench"]).args(arguments.split_whitespace());
        bench.args(["-c", "127.0.0.1", "-p", self.controller.port()]);
        bench
    }

    /// Its memory, KiB.
    fn resident_kib(&self) -> u64 {
        let pid = processes_with(&self.config);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse().unwrap()
    }

    /// All samples of `name`.
    fn metrics(&self, name: &str) -> String {
        let mut curl = self.env.command("curl");
        let text = curl.args(["-sf", &format!("http://{API}/metrics")]).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        samples.collect::<Vec<_>>().join("\n")
    }

    /// The sum of all samples of `name` with `label` among their labels.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let samples = self.metrics(name);
        let samples = samples.lines().filter(|line| line.contains(label));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    fn ended(&self, reason: &str) -> u64 {
        self.metric("sluice_connections_ended_total", &format!("reason=\"{reason}\""))
    }

    /// A switch that asks one thing after the other for so many seconds, and writes what it saw to `report`.
    fn good_switch(&self, report: &Path, seconds: u32) -> Child {
        let sessions = self.controller.sessions();
        let child = self.switch(report, seconds);
        self.controller.wait_for_sessions(sessions + 1);
        child
    }

    /// The same, which tries again when it is turned away, as switches do.
    fn patient_switch(&self, report: &Path, seconds: u32) -> Child {
        let sessions = self.controller.sessions();
        let mut child = self.switch(report, seconds);
        wait_until(PATIENCE, "a session with the switch that is late", || {
            let is_in = self.controller.sessions() > sessions;
            if !is_in && child.try_wait().unwrap().is_some() {
                child = self.switch(report, seconds);
            }
            is_in
        });
        child
    }

    fn switch(&self, report: &Path, seconds: u32) -> Child {
        let mut bench = self.bench(&format!("-s 1 -M 100 -m 1000 -w 0 -l {seconds}"));
        bench.arg("--json").arg(report).stdout(Stdio::null()).stderr(Stdio::null());
        bench.spawn().unwrap()
    }
}

/// The one process that has `argument`.
fn processes_with(argument: &str) -> String {
    let has = |pid: &String| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|word| word == argument.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found = pids.filter(|pid| pid.parse::<u32>().is_ok()).filter(has);
    let one = found.next().unwrap();
    assert_eq!(found.next(), None);
    one
}

/// The number, or the first of the list, after each `"key":` of a JSON text.
fn numbers(json: &str, key: &str) -> Vec<f64> {
    let key = format!("\"{key}\":");
    let rest = json.split(&key).skip(1);
    let number =
        |rest: &str| rest.trim_start_matches('[').split([',', '}', ']']).next()?.parse().ok();
    rest.map(|rest| number(rest).unwrap()).collect()
}

/// Floods with peers that say `what`. Each of them must be counted, some for each of `reasons`; a switch that was there
/// before is answered without a gap.
fn flood(what: &str, reasons: &[&str]) {
    let flooded = Flooded::new(1500);
    let report = flooded.env.file("good.json");
    let mut good = flooded.good_switch(&report, SECONDS + 2);
    let (before, lines) = (flooded.resident_kib(), flooded.controller.log().lines().count());

    let mut flood = flooded.flood(what);
    let mut most = before;
    wait_until(PATIENCE, "the end of the flood", || {
        most = most.max(flooded.resident_kib());
        flood.try_wait().unwrap().is_some()
    });
    assert!(most <= before + GROWTH_MAX_KIB, "{most} KiB in a flood, {before} before");
    wait_until(PATIENCE, "the end of the good switch", || good.try_wait().unwrap().is_some());

    let report = fs::read_to_string(report).unwrap();
    for never in ["never_answered", "twice", "unasked", "malformed"] {
        assert_eq!(numbers(&report, never).first(), Some(&0.0), "{never}: {report}");
    }
    let answered = numbers(&report, "answered");
    assert!(answered.iter().all(|&n| n > 0.0), "in all and in each loop: {answered:?}");

    let accepted = flooded.metric("sluice_connections_accepted_total", "");
    assert!(accepted > u64::from(RATE * SECONDS) / 2, "only {accepted} connections got through");
    let all_counted = || flooded.metric("sluice_connections_ended_total", "") == accepted;
    assert!(happens(PATIENCE, all_counted), "every connection ends for a reason that is counted");
    for reason in reasons {
        assert!(flooded.ended(reason) > 0, "none ended as {reason}");
    }
    let log = flooded.controller.log();
    let more = log.lines().count() - lines;
    assert!(more <= LINES_MAX, "{more} lines about {accepted} connections");
    assert!(!log.contains("panicked"), "{log}");
}

/// The longest silent make env for newcomers, long before they are slow.
#[test]
fn connections_that_say_nothing() {
    flood("nothing", &["too_many_handshakes"]);
}

/// Random bytes, which this seed makes begin with a length of three.
#[test]
fn connections_that_say_what_is_no_message() {
    flood("rubbish --seed 12533", &["malformed"]);
}

/// Random bytes, which this seed makes begin with a whole message of an unknown type.
#[test]
fn connections_that_say_what_nobody_knows() {
    flood("rubbish --seed 3", &["out_of_turn"]);
}

/// Random bytes, which this seed makes begin with a message longer than they are.
#[test]
fn connections_that_say_half_a_message() {
    flood("rubbish --seed 1", &["too_many_handshakes"]);
}

#[test]
fn connections_that_say_hello_and_no_more() {
    flood("hello-only", &["too_many_handshakes"]);
}

/// No place comes free by itself while the flood lasts.
#[test]
fn a_switch_gets_in_among_those_that_say_hello_and_no_more() {
    let flooded = Flooded::new(60_000);
    let mut flood = flooded.flood("hello-only");
    let is_full = || flooded.ended("too_many_handshakes") > 0;
    wait_until(PATIENCE, "the places to be taken", is_full);
    let report = flooded.env.file("late.json");
    let mut late = flooded.patient_switch(&report, 1);
    assert!(flood.try_wait().unwrap().is_none(), "the flood lasts");
    wait_until(PATIENCE, "the end of the late switch", || late.try_wait().unwrap().is_some());
    let answered = numbers(&fs::read_to_string(report).unwrap(), "answered");
    assert!(answered.iter().all(|&n| n > 0.0), "in all and in each loop: {answered:?}");
    flood.wait().unwrap();
}

#[test]
fn connections_that_say_hello_slowly() {
    flood("slow", &["too_many_handshakes"]);
}
