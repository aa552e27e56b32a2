//! Instructions and system calls per packet-in and per path, which are the same on every machine.
//!
//! Instructions are counted under a short and a long load; the difference excludes the start and the end of the process. The
//! switches are connected equally long, so that it excludes periodic work, too. Times are never asserted. `crates/engine` counts allocations.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the failures of a test's helpers are its own"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Keys of the configuration.
const KEYS: [(&str, &str); 1] = [
    // Small enough for the table to be full within the first loop.
    ("SLUICE_LEARNING__HOSTS_MAX", "16384"),
];

/// The same in 1.0 and in 1.3 with the default applications, which install flow entries for both directions.
/// `lab/forwarding` has the rates.
const INSTRUCTIONS_MAX_FORWARDING: u64 = 360;

/// The same if the packets are not buffered.
const INSTRUCTIONS_MAX_FORWARDING_NO_BUFFER: u64 = 475;

/// User-space instructions of the process per path of the default applications in 1.3: three switches, six flow entries, both
/// hosts known, 128 hosts. All switches belong to one worker.
const INSTRUCTIONS_MAX_PATH: u64 = 35_000;

/// The same with two workers, each of which has half of the switches.
const INSTRUCTIONS_MAX_PATH_TWO_WORKERS: u64 = 38_000;

const LEARNING: &str = "learning";
const FORWARDING: &str = "topology,hosts,forwarding";

/// Options of `sluice bench`: four switches with 1 000 hosts each, in throughput mode.
const FOUR_SWITCHES: [&str; 5] = ["-s", "4", "-M", "1000", "-t"];

/// System calls per 1 000 packet-ins under load.
const CALLS_MAX: u64 = 10;

/// Fewer between the short and the long load would say little.
const PACKET_INS_MIN: u64 = 50_000;
const PATHS_MIN: u64 = 5_000;

/// Two counts at a time: periodic work has more weight when packet-ins are slow.
static PERMITS: (Mutex<()>, Mutex<()>) = (Mutex::new(()), Mutex::new(()));

/// How a controller is run and loaded.
#[derive(Debug, Clone, Copy)]
struct Load<'a> {
    apps: &'a str,
    workers: &'a str,
    /// Mode and options of `sluice bench`.
    bench: &'a [&'a str],
    /// Seconds between the connection of the switches and the load.
    delay: u32,
    /// The metric that counts what has been done: its name and one of its labels.
    done: (&'a str, &'a str),
}

impl<'a> Load<'a> {
    /// Packet-ins, under the load that `options` of `sluice bench` describe. With `forwarding` it begins when ports have been
    /// classified as edge ports and hosts can be learned there.
    fn packet_ins(apps: &'a str, options: &'a [&'a str]) -> Self {
        let (done, delay) =
            (("messages_received", "PACKET_IN"), if apps == FORWARDING { 3 } else { 0 });
        Self { apps, workers: "1", bench: options, delay, done }
    }

    /// Paths between the 1 024 hosts of a network of four spines and sixteen leaves.
    fn paths(workers: &'a str) -> Self {
        let bench = &["paths", "--topo", "leafspine,4,16,64", "--window", "64"];
        Self {
            apps: FORWARDING,
            workers,
            bench,
            delay: 2,
            done: ("forwarding_paths_installed", ""),
        }
    }

    /// The same load, `seconds` later.
    fn delayed(self, seconds: u32) -> Self {
        Self { delay: self.delay + seconds, ..self }
    }

    fn run(&self, port: &str, loops: u32) {
        let mut bench = Command::new(binary());
        bench.arg("bench").args(self.bench).args(["-c", &format!("127.0.0.1:{port}")]);
        bench.args(["-D", &(1000 * self.delay).to_string()]);
        bench.args(["-w", "0", "-m", "1000", "-l", &loops.to_string()]);
        let output = bench.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Instructions or system calls, and the number of packet-ins or paths that they are for.
#[derive(Debug, Clone, Copy)]
struct Count {
    cost: u64,
    done: u64,
}

/// Cost of 1 000 packet-ins or paths, without that of start, end and periodic work: by the difference of two counts, in which
/// the switches are connected equally long. The longer load is made longer until it does `least` more than the short one and
/// costs more, since other tests may leave it little processor time.
fn per_thousand(
    load: Load<'_>,
    count: impl Fn(Load<'_>, u32) -> Count,
    [short, mut long]: [u32; 2],
    least: u64,
) -> u64 {
    loop {
        let (few, many) = (count(load.delayed(long - short), short), count(load, long));
        let done = many.done.saturating_sub(few.done);
        if done >= least && many.cost > few.cost {
            return (many.cost - few.cost) * 1000 / done;
        }
        assert!(long < LOOPS_MAX, "only {done} between {few:?} and {many:?} of {long} loops");
        long *= 2;
    }
}

/// Runs the controller under `tool`, with a load of `loops` seconds. The tool writes its report to the file that replaces
/// `REPORT` in its arguments; `cost` parses it, and returns `None` until it is complete.
fn counted(tool: &[&str], load: Load<'_>, loops: u32, cost: impl Fn(&str) -> Option<u64>) -> Count {
    let _permit = permit();
    let env = TestEnv::new();
    let report = env.file("report");
    let (program, arguments) = tool.split_first().unwrap();
    let mut command = Command::new(program);
    for argument in arguments {
        command.arg(argument.replace("REPORT", &report.to_string_lossy()));
    }
    command.arg(binary()).args(["run", "--threads", load.workers, "--pin", "off"]);
    command.args(["--api", "127.0.0.1:0", "--app", load.apps]);
    command.envs(KEYS);
    let mut controller = Controller::with(command, env.dir());
    load.run(controller.port(), loops);
    let done = all_done(&env, load.done);
    controller.terminate();
    let read = || cost(&fs::read_to_string(&report).unwrap_or_default());
    wait_until(SHORT_TIMEOUT, "the report of the tool", || read().is_some());
    Count { cost: read().unwrap(), done }
}

fn permit() -> MutexGuard<'static, ()> {
    static IS_FIRST: AtomicBool = AtomicBool::new(true);
    let permit = if IS_FIRST.fetch_not(Relaxed) { &PERMITS.0 } else { &PERMITS.1 };
    permit.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of packet-ins or paths after the switches have disconnected. When the load ends, some are still in the sockets, and
/// the tool counts the instructions that they take.
fn all_done(env: &TestEnv, metric: (&str, &str)) -> u64 {
    let is_end = |page: &str| {
        let connected = page.lines().filter(|line| line.starts_with("sluice_switches_connected{"));
        connected.filter(|line| !line.ends_with(" 0.0")).count() == 0
    };
    wait_until(SHORT_TIMEOUT, "the switches to disconnect", || is_end(&metrics(env)));
    value(&metrics(env), metric)
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

fn value(page: &str, (name, label): (&str, &str)) -> u64 {
    let name = format!("sluice_{name}_total");
    let is_it = |line: &&str| line.starts_with(&name) && line.contains(label);
    let line = page.lines().find(is_it).unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap()
}

/// Seconds of the short and of the long load.
const LOOPS: [u32; 2] = [1, 3];

/// The long load is not made longer than this.
const LOOPS_MAX: u32 = 40;

/// The same when a table must be full before the end of the short load.
const LOOPS_FULL_TABLE: [u32; 2] = [2, 5];

/// The same for paths: the announcements of the hosts before the load take as many instructions as thousands of paths, and not always
/// the same number.
const LOOPS_OF_PATHS: [u32; 2] = [2, 8];

/// Instructions per 1 000 packet-ins, by callgrind.
fn instructions(apps: &str, options: &[&str], loops: [u32; 2]) -> u64 {
    let options = [&FOUR_SWITCHES, options].concat();
    let load = Load::packet_ins(apps, &options);
    per_thousand(load, callgrind, loops, PACKET_INS_MIN)
}

fn callgrind(load: Load<'_>, loops: u32) -> Count {
    let tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=REPORT"];
    counted(&tool, load, loops, |report| {
        report.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
    })
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

#[test]
fn a_packet_in_for_forwarding_takes_no_more_instructions_than_the_limit() {
    let limits = [
        (&[][..], INSTRUCTIONS_MAX_FORWARDING),
        (&["--no-buffer"], INSTRUCTIONS_MAX_FORWARDING_NO_BUFFER),
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

/// Start and end are counted too: a few hundred calls, among those of millions of packet-ins.
#[test]
fn a_thousand_packet_ins_take_at_most_ten_system_calls() {
    // Detached, so that the signal to terminate goes to the controller and not to strace.
    let tool = ["strace", "--daemonize", "-f", "-c", "-o", "REPORT"];
    // Columns of the last line: share, seconds, mean, calls, errors (optional), `total`.
    let total = |report: &str| {
        let line = report.lines().rfind(|line| line.ends_with("total"))?;
        line.split_whitespace().nth(3)?.parse().ok()
    };
    let load = Load::packet_ins(LEARNING, &FOUR_SWITCHES);
    let Count { cost, done } = counted(&tool, load, LOOPS[1], total);
    assert!(done >= PACKET_INS_MIN, "only {done} packet-ins");
    let calls = cost * 1000 / done;
    assert!(calls <= CALLS_MAX, "{calls} system calls per 1000 packet-ins");
}

#[test]
fn a_path_within_a_worker_takes_no_more_instructions_than_the_limit() {
    let cost = instructions_per_path("1");
    assert!(cost <= INSTRUCTIONS_MAX_PATH, "{cost} instructions per path");
}

#[test]
fn a_path_over_switches_of_two_workers_takes_no_more_instructions_than_the_limit() {
    let cost = instructions_per_path("2");
    assert!(cost <= INSTRUCTIONS_MAX_PATH_TWO_WORKERS, "{cost} instructions per path");
}

fn instructions_per_path(workers: &str) -> u64 {
    per_thousand(Load::paths(workers), callgrind, LOOPS_OF_PATHS, PATHS_MIN) / 1000
}
