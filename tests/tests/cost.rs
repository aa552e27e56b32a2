//! Instructions and system calls per packet-in, which are the same on every machine.
//!
//! Each is counted under a short and a long load; the difference excludes the start and the end of the process. Times are
//! never asserted. `crates/engine` counts allocations.

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

use sluice_system_tests::{Controller, SHORT_TIMEOUT, TestEnv, binary, wait_until};

/// User-space instructions of the process per packet-in, OpenFlow 1.0, packet buffered by the switch, 1 000 known hosts.
/// `lab/instructions` breaks them down.
const INSTRUCTIONS_MAX_1_0: u64 = 170;

/// The same in 1.3, whose flow entries are longer.
const INSTRUCTIONS_MAX_1_3: u64 = 175;

/// The same in 1.0 and in 1.3 if the packets are not buffered, so that they are returned in packet-outs.
const INSTRUCTIONS_MAX_NO_BUFFER: u64 = 245;

/// The same in 1.0, buffered, when every packet has a new source address and the host table is full.
const INSTRUCTIONS_MAX_NEW: u64 = 215;

/// Size of the host table: small enough to be full within the first loop.
const HOSTS_MAX: (&str, &str) = ("SLUICE_LEARNING__HOSTS_MAX", "16384");

/// The same in 1.0 and in 1.3 with the default applications, which install flow entries for both directions.
/// `lab/forwarding` has the rates.
const INSTRUCTIONS_MAX_FORWARDING: u64 = 360;

/// The same if the packets are not buffered.
const INSTRUCTIONS_MAX_FORWARDING_NO_BUFFER: u64 = 475;

const LEARNING: &str = "learning";
const FORWARDING: &str = "topology,hosts,forwarding";

/// System calls per 1 000 packet-ins under load.
const CALLS_MAX: u64 = 10;

/// One count at a time: periodic work has more weight when packet-ins are slow.
static SERIAL: Mutex<()> = Mutex::new(());

/// A count and the number of packet-ins that it covers.
#[derive(Debug, Clone, Copy)]
struct Count {
    cost: u64,
    packet_ins: u64,
}

/// Cost of 1 000 packet-ins, by the difference of two counts.
fn per_thousand(short: Count, long: Count) -> u64 {
    let packet_ins = long.packet_ins - short.packet_ins;
    assert!(packet_ins > 50_000, "only {packet_ins} packet-ins between {short:?} and {long:?}");
    (long.cost - short.cost) * 1000 / packet_ins
}

/// Runs the controller with `apps` under `tool`, with a load of `loops` seconds. The tool writes its report to the file that
/// replaces `REPORT` in its arguments; `count` parses it, and returns `None` until it is complete. `options` are of the bench.
fn counted(
    tool: &[&str],
    (apps, options): (&str, &[&str]),
    loops: u32,
    count: impl Fn(&str) -> Option<u64>,
) -> Count {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
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
    let load = load(controller.port(), options, loops).output().unwrap();
    assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
    let packet_ins = all_packet_ins_received(&env);
    controller.terminate();
    let read = || count(&fs::read_to_string(&report).unwrap_or_default());
    wait_until(SHORT_TIMEOUT, "the report of the tool", || read().is_some());
    Count { cost: read().unwrap(), packet_ins }
}

/// Load of four switches with 1 000 hosts each in throughput mode.
fn load(port: &str, options: &[&str], loops: u32) -> Command {
    let mut bench = Command::new(binary());
    bench.args(["bench", "-c", "127.0.0.1", "-p", port, "-s", "4", "-M", "1000", "-t", "-w", "0"]);
    bench.args(["-m", "1000", "-l", &loops.to_string()]).args(options);
    bench
}

/// Number of packet-ins after the switches have disconnected. When the load ends, some are still in the sockets, and the
/// tool counts the instructions that they take.
fn all_packet_ins_received(env: &TestEnv) -> u64 {
    let is_end = |page: &str| {
        let connected = page.lines().filter(|line| line.starts_with("sluice_switches_connected{"));
        connected.filter(|line| !line.ends_with(" 0.0")).count() == 0
    };
    wait_until(SHORT_TIMEOUT, "the switches to disconnect", || is_end(&metrics(env)));
    packet_ins_received(&metrics(env))
}

fn metrics(env: &TestEnv) -> String {
    let screen = fs::read_to_string(env.file("sluice.out")).unwrap();
    let (_, address) = screen.split_once("http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let mut http = TcpStream::connect(address).unwrap();
    write!(http, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    http.read_to_string(&mut page).unwrap();
    page
}

/// Number of packet-ins that the controller has received, from its metrics.
fn packet_ins_received(page: &str) -> u64 {
    let is_count = |line: &&str| line.contains("messages_received") && line.contains("PACKET_IN");
    let line = page.lines().find(is_count).unwrap_or_else(|| panic!("no packet-ins in {page}"));
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap()
}

/// Seconds of the short and of the long load.
const LOOPS: [u32; 2] = [1, 4];

/// The same when a table must be full before the end of the short load.
const LOOPS_FULL_TABLE: [u32; 2] = [2, 8];

/// Instructions per 1 000 packet-ins, by callgrind.
fn instructions(apps: &str, options: &[&str], loops: [u32; 2]) -> u64 {
    let tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=REPORT"];
    let total =
        |report: &str| report.lines().find_map(|l| l.strip_prefix("totals: ")?.parse().ok());
    let [short, long] = loops.map(|loops| counted(&tool, (apps, options), loops, total));
    per_thousand(short, long)
}

#[test]
fn a_packet_in_of_1_0_takes_no_more_instructions_than_the_limit() {
    let cost = instructions(LEARNING, &["--openflow", "1.0"], LOOPS);
    assert!(cost <= INSTRUCTIONS_MAX_1_0 * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_of_1_3_takes_no_more_instructions_than_the_limit() {
    let cost = instructions(LEARNING, &["--openflow", "1.3"], LOOPS);
    assert!(cost <= INSTRUCTIONS_MAX_1_3 * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_of_a_new_host_takes_no_more_instructions_than_the_limit() {
    let cost = instructions(LEARNING, &["--new-sources", "1"], LOOPS_FULL_TABLE);
    assert!(cost <= INSTRUCTIONS_MAX_NEW * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_that_is_not_buffered_takes_no_more_instructions_than_the_limit() {
    for version in ["1.0", "1.3"] {
        let cost = instructions(LEARNING, &["--openflow", version, "--no-buffer"], LOOPS);
        let most = INSTRUCTIONS_MAX_NO_BUFFER * 1000;
        assert!(cost <= most, "{version}: {cost} instructions per 1000 packet-ins");
    }
}

/// The load starts after 3 s, when ports have been classified as edge ports and hosts can be learned there.
#[test]
fn a_packet_in_for_forwarding_takes_no_more_instructions_than_the_limit() {
    let limits = [
        (&["--delay", "3000"][..], INSTRUCTIONS_MAX_FORWARDING),
        (&["--delay", "3000", "--no-buffer"], INSTRUCTIONS_MAX_FORWARDING_NO_BUFFER),
    ];
    for version in ["1.0", "1.3"] {
        for (options, most) in limits {
            let options = [&["--openflow", version], options].concat();
            let cost = instructions(FORWARDING, &options, LOOPS);
            assert!(
                cost <= most * 1000,
                "{version} {options:?}: {cost} instructions per 1000 packet-ins"
            );
        }
    }
}

#[test]
fn a_thousand_packet_ins_take_at_most_ten_system_calls() {
    // Detached, so that the signal to terminate goes to the controller and not to strace.
    let tool = ["strace", "--daemonize", "-f", "-c", "-o", "REPORT"];
    // Columns of the last line: share, seconds, mean, calls, errors (optional), `total`.
    let total = |report: &str| {
        let line = report.lines().rfind(|line| line.ends_with("total"))?;
        line.split_whitespace().nth(3)?.parse().ok()
    };
    let [short, long] = [1, 4].map(|loops| counted(&tool, (LEARNING, &[]), loops, total));
    let calls = per_thousand(short, long);
    assert!(calls <= CALLS_MAX, "{calls} system calls per 1000 packet-ins");
}
