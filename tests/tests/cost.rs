//! Instructions and system calls per packet-in and per path, which depend little on the machine.
//!
//! Instructions are counted in the middle of a load, without the start and the end of the process. Times are never asserted.
//! `crates/engine` counts allocations.

#![expect(clippy::unwrap_used, reason = "the failures of a test's helpers are its own")]

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use sluice_system_tests::{
    Controller, CountedController, LONG_TIMEOUT, SHORT_TIMEOUT, Stopwatch, TestEnv, binary,
    output_of, wait_until,
};

/// User-space instructions of the process per packet-in, OpenFlow 1.0, packet buffered by the switch, 1 000 known hosts.
/// `lab/instructions` breaks them down. Each limit is about 5 % above the highest of the values behind "measured", which are from
/// a quiet machine and from a loaded one.
///
/// Measured: 169 to 171.
const INSTRUCTIONS_MAX_1_0: u64 = 178;

/// The same in 1.3, whose flow entries are longer. Measured: 165 to 167.
const INSTRUCTIONS_MAX_1_3: u64 = 175;

/// The same in 1.0 and in 1.3 if the packets are not buffered, so that they are returned in packet-outs. Measured: 237 to 241.
const INSTRUCTIONS_MAX_NO_BUFFER: u64 = 250;

/// The same in 1.0, buffered, when every packet has a new source address and the host table is full. Measured: 205 to 235.
const INSTRUCTIONS_MAX_NEW: u64 = 245;

/// Keys of the configuration.
const KEYS: [(&str, &str); 1] = [
    // Small enough for the table to be full before the count.
    ("SLUICE_LEARNING__HOSTS_MAX", "16384"),
];

/// The same in 1.0 and in 1.3 with the default applications, which install flow entries for both directions.
/// `lab/forwarding` has the rates. Measured: 358 to 368.
const INSTRUCTIONS_MAX_FORWARDING: u64 = 385;

/// The same if the packets are not buffered. Measured: 458 to 473.
const INSTRUCTIONS_MAX_FORWARDING_NO_BUFFER: u64 = 495;

/// User-space instructions of the process per path of the default applications in 1.3: three switches, six flow entries, both
/// hosts known, 1 024 hosts. All switches belong to one worker. Measured: 36 400 to 38 000.
const INSTRUCTIONS_MAX_PATH: u64 = 40_000;

/// The same with two workers, each of which has half of the switches. Measured: 43 400 to 45 100.
const INSTRUCTIONS_MAX_PATH_TWO_WORKERS: u64 = 47_500;

const LEARNING: &str = "learning";
const FORWARDING: &str = "topology,hosts,forwarding";

/// Options of `sluice bench`: four switches with 1 000 hosts each, in throughput mode.
const FOUR_SWITCHES: [&str; 5] = ["-s", "4", "-M", "1000", "-t"];

/// System calls per 1 000 packet-ins under load, with `epoll` and with `io_uring`.
const CALLS_MAX: u64 = 10;

/// The same of one switch that sends the next packet-in when it has got the answer to the one before, with `epoll`: a wait, a read and a write for
/// each. About 3 % above what is measured: 3 003 to 3 004.
const CALLS_MAX_ALONE: u64 = 3095;

/// The same with `io_uring`: one for each. Measured: 1 002. Instructions of this engine are not counted: with Valgrind 3.19, the whole process
/// waits while one of its threads waits in `io_uring_enter`.
const CALLS_MAX_ALONE_URING: u64 = 1035;

/// Packet-ins and paths that are counted, at least.
const PACKET_INS: u64 = 2_000_000;
const PATHS: u64 = 15_000;

/// How a controller is run and loaded.
#[derive(Debug, Clone, Copy)]
struct Load<'a> {
    apps: &'a str,
    workers: &'a str,
    engine: &'a str,
    /// Mode and options of `sluice bench`.
    bench: &'a [&'a str],
    /// Seconds between the connection of the switches and the load.
    delay: u32,
    /// The metric that counts what has been done: its name and one of its labels.
    done: (&'a str, &'a str),
    /// What is done before the count: tables are filled, and hosts become known.
    uncounted: u64,
    /// What is done during the count, at least.
    counted: u64,
}

impl<'a> Load<'a> {
    /// Packet-ins, under the load that `options` of `sluice bench` describe. With `forwarding` it begins when ports have been
    /// classified as edge ports and hosts can be learned there.
    fn packet_ins(apps: &'a str, options: &'a [&'a str]) -> Self {
        let delay = if apps == FORWARDING { 3 } else { 0 };
        let done = ("messages_received", "PACKET_IN");
        let (uncounted, counted) = (PACKET_INS, PACKET_INS);
        let (workers, engine) = ("1", "epoll");
        Self { apps, workers, engine, bench: options, delay, done, uncounted, counted }
    }

    /// Packet-ins of one switch, which sends the next one when it has got the answer.
    fn one_at_a_time() -> Self {
        let load = Self::packet_ins(LEARNING, &["-s", "1", "-M", "1000"]);
        Self { counted: 15_000, ..load }
    }

    /// Paths between the 1 024 hosts of a network of four spines and sixteen leaves.
    fn paths(workers: &'a str) -> Self {
        let bench = &["paths", "--topo", "leafspine,4,16,64", "--window", "64"];
        let done = ("forwarding_paths_installed", "");
        let (delay, uncounted, counted) = (2, 1000, PATHS);
        let (apps, engine) = (FORWARDING, "epoll");
        Self { apps, workers, engine, bench, delay, done, uncounted, counted }
    }

    /// Starts it; it ends with the controller, or after `seconds`.
    fn start(&self, env: &TestEnv, port: &str, seconds: u32) -> Generator {
        let mut bench = env.command(&binary().to_string_lossy());
        bench.arg("bench").args(self.bench).args(["-c", &format!("127.0.0.1:{port}")]);
        bench.args(["-D", &(1000 * self.delay).to_string()]);
        bench.args(["-w", "0", "-m", "1000", "-l", &seconds.to_string()]);
        Generator(bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// What has been done. The metrics of applications are collected once per second.
    fn done(&self, env: &TestEnv) -> u64 {
        value(&metrics(env), self.done)
    }

    /// What has been done, just after it was collected. Pauses between its requests, since they cost instructions, too.
    fn fresh_done(&self, env: &TestEnv) -> u64 {
        let before = self.done(env);
        let mut now = before;
        wait_until(SHORT_TIMEOUT, "progress of the load", || {
            pause();
            now = self.done(env);
            now > before
        });
        now
    }
}

fn pause() {
    Stopwatch::start().wait_until(Duration::from_millis(100));
}

/// A running `sluice bench`.
struct Generator(Child);

impl Drop for Generator {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn metrics(env: &TestEnv) -> String {
    let screen = fs::read_to_string(env.file("sluice.out")).unwrap();
    let (_, address) = screen.split_once("http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    output_of(env.command("curl").args(["-sf", &format!("http://{address}/metrics")]))
}

/// A counter; 0 before it is counted for the first time.
fn value(page: &str, (name, label): (&str, &str)) -> u64 {
    let name = format!("sluice_{name}_total");
    let is_it = |line: &&str| line.starts_with(&name) && line.contains(label);
    let value = page.lines().find(is_it).and_then(|line| line.rsplit(' ').next());
    value.map_or(0, |value| value.parse().unwrap())
}

/// Seconds for which a load is generated, unless the count ends before.
const SECONDS_MAX: u32 = 300;

/// Instructions per 1 000 packet-ins or paths, counted in the middle of the load.
fn instructions(load: &Load<'_>) -> u64 {
    let env = TestEnv::new();
    let arguments = format!("--threads {} --api 127.0.0.1:0 --app {}", load.workers, load.apps);
    let mut counted = CountedController::start(&env, &arguments, &KEYS);
    let _generator = load.start(&env, counted.controller().port(), SECONDS_MAX);
    wait_until(LONG_TIMEOUT, "the load", || load.done(&env) >= load.uncounted);
    counted.start_counting();
    let first = load.fresh_done(&env);
    counted.count_anew();
    wait_until(LONG_TIMEOUT, "the counted part of the load", || {
        pause();
        load.done(&env) >= first + load.counted
    });
    let done = load.fresh_done(&env) - first;
    counted.count().instructions * 1000 / done
}

/// As [`instructions`], for packet-ins of four switches.
fn instructions_per_packet_in(apps: &str, options: &[&str]) -> u64 {
    instructions(&Load::packet_ins(apps, &[&FOUR_SWITCHES, options].concat()))
}

#[test]
fn a_packet_in_of_1_0_takes_no_more_instructions_than_the_limit() {
    let cost = instructions_per_packet_in(LEARNING, &["--openflow", "1.0"]);
    assert!(cost <= INSTRUCTIONS_MAX_1_0 * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_of_1_3_takes_no_more_instructions_than_the_limit() {
    let cost = instructions_per_packet_in(LEARNING, &["--openflow", "1.3"]);
    assert!(cost <= INSTRUCTIONS_MAX_1_3 * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_of_a_new_host_takes_no_more_instructions_than_the_limit() {
    let cost = instructions_per_packet_in(LEARNING, &["--new-sources", "1"]);
    assert!(cost <= INSTRUCTIONS_MAX_NEW * 1000, "{cost} instructions per 1000 packet-ins");
}

#[test]
fn a_packet_in_that_is_not_buffered_takes_no_more_instructions_than_the_limit() {
    for version in ["1.0", "1.3"] {
        let cost = instructions_per_packet_in(LEARNING, &["--openflow", version, "--no-buffer"]);
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
            let cost = instructions_per_packet_in(FORWARDING, &options);
            assert!(
                cost <= most * 1000,
                "{version} {options:?}: {cost} instructions per 1000 packet-ins"
            );
        }
    }
}

/// System calls of the process per 1 000 packet-ins of `learning`. Start and end are counted too: a few hundred calls, among those of many packet-ins.
fn system_calls(load: &Load<'_>) -> u64 {
    let env = TestEnv::new();
    let report = env.file("strace.out");
    // Detached, so that the signal to terminate goes to the controller and not to strace.
    let mut command = env.command("strace");
    command.args(["--daemonize", "-f", "-c", "-o"]).arg(&report).arg(binary());
    command.args(["run", "--threads", "1", "--pin", "off", "--api", "127.0.0.1:0"]);
    command.args(["--app", load.apps, "--engine", load.engine]);
    let mut controller = Controller::with(command, env.dir());
    let generator = load.start(&env, controller.port(), SECONDS_MAX);
    // Seldom, since the answer takes system calls, too.
    wait_until(LONG_TIMEOUT, "the load", || {
        Stopwatch::start().wait_until(Duration::from_secs(1));
        load.done(&env) >= 4 * load.counted
    });
    drop(generator);
    let done = load.done(&env);
    controller.terminate();
    // Columns of the last line: share, seconds, mean, calls, errors (optional), `total`.
    let total = || {
        let report = fs::read_to_string(&report).ok()?;
        let line = report.lines().rfind(|line| line.ends_with("total"))?;
        line.split_whitespace().nth(3)?.parse::<u64>().ok()
    };
    wait_until(SHORT_TIMEOUT, "the report of strace", || total().is_some());
    total().unwrap() * 1000 / done
}

/// The controller does not start where `io_uring` is not permitted, and says so.
#[test]
fn a_thousand_packet_ins_take_at_most_ten_system_calls_with_each_engine() {
    for engine in ["epoll", "uring"] {
        let calls = system_calls(&Load { engine, ..Load::packet_ins(LEARNING, &FOUR_SWITCHES) });
        assert!(calls <= CALLS_MAX, "{engine}: {calls} system calls per 1000 packet-ins");
    }
}

#[test]
fn a_packet_in_that_comes_alone_takes_no_more_system_calls_than_the_limit() {
    for (engine, most) in [("epoll", CALLS_MAX_ALONE), ("uring", CALLS_MAX_ALONE_URING)] {
        let calls = system_calls(&Load { engine, ..Load::one_at_a_time() });
        assert!(calls <= most, "{engine}: {calls} system calls per 1000 packet-ins");
    }
}

#[test]
fn a_path_within_a_worker_takes_no_more_instructions_than_the_limit() {
    let cost = instructions(&Load::paths("1")) / 1000;
    assert!(cost <= INSTRUCTIONS_MAX_PATH, "{cost} instructions per path");
}

#[test]
fn a_path_over_switches_of_two_workers_takes_no_more_instructions_than_the_limit() {
    let cost = instructions(&Load::paths("2")) / 1000;
    assert!(cost <= INSTRUCTIONS_MAX_PATH_TWO_WORKERS, "{cost} instructions per path");
}
