//! What a `PACKET_IN` costs, counted: instructions and system calls are the same on every machine.
//!
//! Each is counted over a short load and over a long one; the difference has neither the start nor the end of the
//! process in it. Times are never asserted. What a frame costs in allocations is counted in `crates/engine`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the failures of a test's helpers are its own"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use sluice_system_tests::{Controller, SOON, TestEnv, binary, wait_until};

/// Instructions of the whole process, kernel apart, per frame of 1.0 that is kept by the switch, 1 000 hosts known.
/// `lab/instructions` says where they go.
const INSTRUCTIONS_MAX_1_0: u64 = 170;

/// The same in 1.3, whose rules are longer by two stores.
const INSTRUCTIONS_MAX_1_3: u64 = 175;

/// The same in 1.0 when every frame comes from a station that is new, and the table has long been full.
const INSTRUCTIONS_MAX_NEW: u64 = 215;

/// So many stations are remembered then: the table is full, and flooded, within the first of the loops.
const HOSTS_MAX: (&str, &str) = ("SLUICE_LEARNING__HOSTS_MAX", "16384");

/// The same in 1.0 and in 1.3 when topology, hosts and forwarding answer, with rules for both directions of every
/// conversation. `lab/forwarding` has the rates.
const INSTRUCTIONS_MAX_FORWARDING: u64 = 360;

/// The applications that answer.
const LEARNING: &str = "learning";
const FORWARDING: &str = "topology,hosts,forwarding";

/// System calls per 1 000 frames under load.
const CALLS_MAX: u64 = 10;

/// One count after another: what is done once a second weighs more where frames are slow.
static TURN: Mutex<()> = Mutex::new(());

/// What was counted, and over how many frames.
#[derive(Debug, Clone, Copy)]
struct Count {
    cost: u64,
    frames: u64,
}

/// What 1 000 frames cost, by the difference of two counts.
fn per_thousand(short: Count, long: Count) -> u64 {
    let frames = long.frames - short.frames;
    assert!(frames > 50_000, "only {frames} frames between {short:?} and {long:?}");
    (long.cost - short.cost) * 1000 / frames
}

/// Runs the controller with `apps` under `tool`, which writes to the file it knows as `REPORT`, with a load of `loops`
/// seconds; `count` reads the report once it is whole. `what` is asked of the bench.
fn counted(
    tool: &[&str],
    (apps, what): (&str, &[&str]),
    loops: u32,
    count: impl Fn(&str) -> Option<u64>,
) -> Count {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let env = TestEnv::new();
    let report = env.file("report");
    let (program, arguments) = tool.split_first().unwrap();
    let mut command = Command::new(program);
    for argument in arguments {
        command.arg(argument.replace("REPORT", &report.to_string_lossy()));
    }
    command.arg(binary()).args(["run", "--threads", "1", "--pin", "off", "--api", "127.0.0.1:0"]);
    command.args(["--app", apps]);
    command.env(HOSTS_MAX.0, HOSTS_MAX.1);
    let mut controller = Controller::with(command, env.dir());
    let load = load(controller.port(), what, loops).output().unwrap();
    assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
    let frames = packet_ins_received(&env);
    controller.terminate();
    let read = || count(&fs::read_to_string(&report).unwrap_or_default());
    wait_until(SOON, "the report of the tool", || read().is_some());
    Count { cost: read().unwrap(), frames }
}

/// Four switches with 1 000 hosts each, as many requests open as fit.
fn load(port: &str, what: &[&str], loops: u32) -> Command {
    let mut bench = Command::new(binary());
    bench.args(["bench", "-c", "127.0.0.1", "-p", port, "-s", "4", "-M", "1000", "-t", "-w", "0"]);
    bench.args(["-m", "1000", "-l", &loops.to_string()]).args(what);
    bench
}

/// How many `PACKET_IN` messages the controller says it has read.
fn packet_ins_received(env: &TestEnv) -> u64 {
    let screen = fs::read_to_string(env.file("sluice.out")).unwrap();
    let (_, address) = screen.split_once("http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let mut http = TcpStream::connect(address).unwrap();
    write!(http, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    http.read_to_string(&mut page).unwrap();
    let is_frames = |line: &&str| line.contains("messages_received") && line.contains("PACKET_IN");
    let line = page.lines().find(is_frames).unwrap_or_else(|| panic!("no frames in {page}"));
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap()
}

/// Instructions per 1 000 frames, by callgrind.
fn instructions(apps: &str, what: &[&str]) -> u64 {
    let tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=REPORT"];
    let total =
        |report: &str| report.lines().find_map(|l| l.strip_prefix("totals: ")?.parse().ok());
    let [short, long] = [2, 8].map(|loops| counted(&tool, (apps, what), loops, total));
    per_thousand(short, long)
}

#[test]
fn a_frame_of_1_0_costs_no_more_instructions_than_it_did() {
    let cost = instructions(LEARNING, &["--openflow", "1.0"]);
    assert!(cost <= INSTRUCTIONS_MAX_1_0 * 1000, "{cost} instructions per 1000 frames");
}

#[test]
fn a_frame_of_1_3_costs_no_more_instructions_than_it_did() {
    let cost = instructions(LEARNING, &["--openflow", "1.3"]);
    assert!(cost <= INSTRUCTIONS_MAX_1_3 * 1000, "{cost} instructions per 1000 frames");
}

#[test]
fn a_frame_of_a_new_station_costs_no_more_instructions_than_it_did() {
    let cost = instructions(LEARNING, &["--new-sources", "1"]);
    assert!(cost <= INSTRUCTIONS_MAX_NEW * 1000, "{cost} instructions per 1000 frames");
}

/// Ports are known to be at the edge, and hosts learnt there, some moments after the last handshake.
#[test]
fn a_frame_between_hosts_of_one_switch_costs_forwarding_no_more_instructions_than_it_did() {
    for version in ["1.0", "1.3"] {
        let cost = instructions(FORWARDING, &["--openflow", version, "--delay", "3000"]);
        let most = INSTRUCTIONS_MAX_FORWARDING * 1000;
        assert!(cost <= most, "{version}: {cost} instructions per 1000 frames");
    }
}

#[test]
fn a_thousand_frames_under_load_cost_at_most_ten_system_calls() {
    // Detached, so that the signal that ends it goes to the controller.
    let tool = ["strace", "--daemonize", "-f", "-c", "-o", "REPORT"];
    // The last line: share, seconds, mean, calls, perhaps errors, `total`.
    let total = |report: &str| {
        let line = report.lines().rfind(|line| line.ends_with("total"))?;
        line.split_whitespace().nth(3)?.parse().ok()
    };
    let [short, long] = [2, 6].map(|loops| counted(&tool, (LEARNING, &[]), loops, total));
    let calls = per_thousand(short, long);
    assert!(calls <= CALLS_MAX, "{calls} system calls per 1000 frames");
}
