//! Floods of connections that are not switches, against the binary.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluice_system_tests::{Controller, LONG_TIMEOUT, TestEnv, becomes_true, binary, wait_until};

/// Connections per second.
const RATE: u32 = 3000;

/// Duration of a flood, seconds.
const SECONDS: u32 = 4;

/// Limit of concurrent handshakes; less than the connections of one second, so that it is reached.
const HANDSHAKES_MAX: u32 = 2000;

/// Maximum growth of the process in a flood, KiB: 2 KiB for each peer in a handshake (received bytes, session, table
/// entries), and 4 MiB that the allocator may keep. Measured: 2 MiB in all.
const GROWTH_MAX_KIB: u64 = HANDSHAKES_MAX as u64 * 2 + 4 * 1024;

/// Maximum number of log lines of one kind about a flood: 20 at its beginning, and as many after a pause of two seconds, which a machine
/// may make; otherwise one per second, for longer than it lasts.
const LINES_MAX: usize = 2 * 20 + 5 * SECONDS as usize;

/// The kinds of lines about a flood; what is about none of them is counted together.
const LINE_KINDS: [&str; 4] =
    ["connection closed", "switch connected", "switch disconnected", "for a busy worker"];

/// Address of the metrics; each test environment has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// A controller that is flooded, and measurements of it from outside.
struct Flooded {
    controller: Controller,
    env: TestEnv,
}

impl Flooded {
    fn new(handshake_timeout_ms: u32) -> Self {
        Self::with_limits(handshake_timeout_ms, "")
    }

    /// With further lines of the section `limits`.
    fn with_limits(handshake_timeout_ms: u32, limits: &str) -> Self {
        let env = TestEnv::new();
        let config = env.write(
            "sluice.toml",
            format!(
                "[experimental]\nhandshake_timeout_ms = {handshake_timeout_ms}\n\
                 [limits]\nhandshakes_max = {HANDSHAKES_MAX}\n{limits}\n\
                 [api]\nlisten = \"{API}\"\n"
            ),
        );
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["run", "--threads", "1", "--app", "learning", "--config"]).arg(config);
        let controller = Controller::with(command, env.dir());
        Self { controller, env }
    }

    /// Starts a flood of peers that send `payload`.
    fn flood(&self, payload: &str) -> Child {
        let mut flood = self.bench("flood --max-open 15000");
        flood.args(["--send"]).args(payload.split_whitespace());
        flood.args(["--rate", &RATE.to_string(), "--seconds", &SECONDS.to_string()]);
        flood.stdout(Stdio::null()).spawn().unwrap()
    }

    fn bench(&self, arguments: &str) -> Command {
        let mut bench = self.env.command(&binary().to_string_lossy());
        bench.args(["bench"]).args(arguments.split_whitespace());
        bench.args(["-c", "127.0.0.1", "-p", self.controller.port()]);
        bench
    }

    /// All samples of `name`.
    fn metrics(&self, name: &str) -> String {
        let mut curl = self.env.command("curl");
        let text = curl.args(["-sf", &format!("http://{API}/metrics")]).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        samples.collect::<Vec<_>>().join("\n")
    }

    /// Sum of all samples of `name` that have `label`.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let samples = self.metrics(name);
        let samples = samples.lines().filter(|line| line.contains(label));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    fn connections_ended(&self, reason: &str) -> u64 {
        self.metric("sluice_connections_closed_total", &format!("reason=\"{reason}\""))
    }

    /// Starts an emulated switch that sends one request after the other for `seconds`; it writes its report to `report`.
    fn measured_switch(&self, report: &Path, seconds: u32) -> Child {
        let sessions = self.controller.sessions();
        let child = self.switch(report, seconds);
        self.controller.wait_for_sessions(sessions + 1);
        child
    }

    /// The same, but connects again when its connection is refused, as switches do.
    fn reconnecting_switch(&self, report: &Path, seconds: u32) -> Child {
        let sessions = self.controller.sessions();
        let mut child = self.switch(report, seconds);
        wait_until(LONG_TIMEOUT, "a session with the late switch", || {
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

/// Numbers after each `"key":` of a JSON text; of a list, the first.
fn numbers(json: &str, key: &str) -> Vec<f64> {
    let key = format!("\"{key}\":");
    let rest = json.split(&key).skip(1);
    let number =
        |rest: &str| rest.trim_start_matches('[').split([',', '}', ']']).next()?.parse().ok();
    rest.map(|rest| number(rest).unwrap()).collect()
}

/// Checks that every connection has ended with a counted reason, some for each of `reasons`, that the flood had connections enough, and
/// that not every one has a line in the log, which had `lines` lines before.
fn check_counts(flooded: &Flooded, reasons: &[&str], lines: usize) {
    let accepted = flooded.metric("sluice_connections_accepted_total", "");
    assert!(accepted > u64::from(RATE * SECONDS) / 2, "only {accepted} connections accepted");
    let all_counted = || flooded.metric("sluice_connections_closed_total", "") == accepted;
    assert!(becomes_true(LONG_TIMEOUT, all_counted), "every connection ends with a counted reason");
    for reason in reasons {
        assert!(flooded.connections_ended(reason) > 0, "none ended as {reason}");
    }
    let log = flooded.controller.log();
    let mut counts = BTreeMap::new();
    for line in log.lines().skip(lines) {
        *counts.entry(LINE_KINDS.iter().find(|kind| line.contains(*kind))).or_insert(0) += 1;
    }
    assert!(counts.values().all(|&n| n <= LINES_MAX), "{counts:?} about {accepted} connections");
    assert!(!log.contains("panicked"), "{log}");
}

/// Floods with peers that send `payload`, and checks that every connection is counted, that some end for each of `reasons`,
/// and that a switch that connected before is answered without interruption.
fn flood(payload: &str, reasons: &[&str]) {
    let flooded = Flooded::new(1500);
    let report = flooded.env.file("measured.json");
    let mut measured = flooded.measured_switch(&report, SECONDS + 2);
    let (before, lines) =
        (flooded.controller.resident_kib(), flooded.controller.log().lines().count());

    let mut flood = flooded.flood(payload);
    let mut most = before;
    wait_until(LONG_TIMEOUT, "the end of the flood", || {
        most = most.max(flooded.controller.resident_kib());
        flood.try_wait().unwrap().is_some()
    });
    assert!(most <= before + GROWTH_MAX_KIB, "{most} KiB in a flood, {before} before");
    wait_until(LONG_TIMEOUT, "the end of the measured switch", || {
        measured.try_wait().unwrap().is_some()
    });

    let report = fs::read_to_string(report).unwrap();
    for never in ["never_answered", "duplicate", "unsolicited", "malformed"] {
        assert_eq!(numbers(&report, never).first(), Some(&0.0), "{never}: {report}");
    }
    let answered = numbers(&report, "answered");
    assert!(answered.iter().all(|&n| n > 0.0), "answered in total and per loop: {answered:?}");

    check_counts(&flooded, reasons, lines);
}

/// The connections that have been silent for longest are closed first, before their handshake times out.
#[test]
fn a_flood_of_silent_connections_does_not_disturb_a_switch() {
    flood("nothing", &["too_many_handshakes"]);
}

/// Random bytes; with this seed they begin with a length of three.
#[test]
fn a_flood_of_malformed_messages_does_not_disturb_a_switch() {
    flood("random --seed 12533", &["malformed_message"]);
}

/// Random bytes; with this seed they begin with a complete message of an unknown type.
#[test]
fn a_flood_of_unknown_messages_does_not_disturb_a_switch() {
    flood("random --seed 3", &["unexpected_message"]);
}

/// Random bytes; with this seed they begin with a message that is longer than they are.
#[test]
fn a_flood_of_incomplete_messages_does_not_disturb_a_switch() {
    flood("random --seed 1", &["too_many_handshakes"]);
}

#[test]
fn a_flood_of_connections_that_only_send_hello_does_not_disturb_a_switch() {
    flood("hello-only", &["too_many_handshakes"]);
}

#[test]
fn a_flood_of_tls_handshakes_does_not_disturb_a_switch() {
    flood("tls-hello", &["tls_on_tcp_port"]);
}

/// They are switches for a moment: their sessions begin and end.
#[test]
fn a_flood_of_switches_that_leave_at_once_does_not_disturb_a_switch() {
    flood("handshake", &["closed_by_peer"]);
}

/// The handshake timeout is longer than the flood, so no handshake ends by itself.
#[test]
fn a_switch_can_connect_during_a_flood_of_connections_that_only_send_hello() {
    let flooded = Flooded::new(60_000);
    let mut flood = flooded.flood("hello-only");
    let is_full = || flooded.connections_ended("too_many_handshakes") > 0;
    wait_until(LONG_TIMEOUT, "the limit of handshakes to be reached", is_full);
    let report = flooded.env.file("late.json");
    let mut late = flooded.reconnecting_switch(&report, 1);
    assert!(flood.try_wait().unwrap().is_none(), "the flood lasts");
    wait_until(LONG_TIMEOUT, "the end of the late switch", || late.try_wait().unwrap().is_some());
    let answered = numbers(&fs::read_to_string(report).unwrap(), "answered");
    assert!(answered.iter().all(|&n| n > 0.0), "answered in total and per loop: {answered:?}");
    flood.wait().unwrap();
}

#[test]
fn a_flood_of_connections_that_send_hello_slowly_does_not_disturb_a_switch() {
    flood("slow-hello", &["too_many_handshakes"]);
}

/// More than half of a flood from one address: some 3000 of its 12 000 connections may be established.
#[test]
fn the_kernel_drops_a_flood_of_connections_from_one_address() {
    let flooded = Flooded::with_limits(1500, "syn_filter = true");
    let report = flooded.env.file("measured.json");
    let mut measured = flooded.measured_switch(&report, SECONDS + 2);
    let dropped = || flooded.metric("sluice_syns_dropped_total", "");
    assert_eq!(dropped(), 0);
    let mut flood = flooded.flood("hello-only");
    wait_until(LONG_TIMEOUT, "the end of the flood", || flood.try_wait().unwrap().is_some());
    let total = u64::from(RATE * SECONDS);
    assert!(dropped() > total / 2, "{} of {total} SYNs are dropped", dropped());
    let accepted = flooded.metric("sluice_connections_accepted_total", "");
    assert!(accepted < total / 2, "{accepted} of {total} connections are accepted");
    // Its connection is older than the flood.
    wait_until(LONG_TIMEOUT, "the end of the measured switch", || {
        measured.try_wait().unwrap().is_some()
    });
    let report = fs::read_to_string(report).unwrap();
    assert_eq!(numbers(&report, "never_answered").first(), Some(&0.0), "{report}");
    let answered = numbers(&report, "answered");
    assert!(answered.iter().all(|&n| n > 0.0), "answered in total and per loop: {answered:?}");
}

/// They come from the address of the switches that are connected and of the one that connects late.
#[test]
fn switches_that_leave_at_once_wait_while_the_worker_is_busy() {
    let flooded = Flooded::new(1500);
    let report = flooded.env.file("measured.json");
    let (sessions, lines) =
        (flooded.controller.sessions(), flooded.controller.log().lines().count());
    // The datapath id 1 is that of the late switch.
    let mut bench = flooded.bench(&format!("-s 4 -o 2 -t -M 100 -m 1000 -w 0 -l {}", SECONDS + 4));
    bench.arg("--json").arg(&report).stdout(Stdio::null()).stderr(Stdio::null());
    let mut measured = bench.spawn().unwrap();
    flooded.controller.wait_for_sessions(sessions + 4);

    let mut flood = flooded.flood("handshake");
    flooded.controller.wait_for_log(&["switch waits for a busy worker"]);
    let late = flooded.env.file("late.json");
    let mut late_switch = flooded.switch(&late, 1);
    wait_until(LONG_TIMEOUT, "answers to a switch that connects during the flood", || {
        let status = late_switch.try_wait().unwrap();
        if status.is_some_and(|status| !status.success()) {
            late_switch = flooded.switch(&late, 1);
        }
        status.is_some_and(|status| status.success())
    });
    wait_until(LONG_TIMEOUT, "the end of the flood and of the switches", || {
        [&mut flood, &mut measured].into_iter().all(|child| child.try_wait().unwrap().is_some())
    });
    for report in [report, late] {
        let report = fs::read_to_string(report).unwrap();
        for never in ["never_answered", "duplicate", "unsolicited", "malformed"] {
            assert_eq!(numbers(&report, never).first(), Some(&0.0), "{never}: {report}");
        }
        let answered = numbers(&report, "answered");
        assert!(answered.iter().all(|&n| n > 0.0), "answered in total and per loop: {answered:?}");
    }
    check_counts(&flooded, &["closed_by_peer"], lines);
    assert_eq!(flooded.metrics("sluice_switches_waiting"), "sluice_switches_waiting 0.0");
}
