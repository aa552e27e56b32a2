//! Instructions of the process for switches that do nothing, which are the same on every machine.
//!
//! A source that has all sessions it may have must not use a core with them, nor delay others by ending all at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write, copy, sink};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluice_system_tests::{Controller, SHORT_TIMEOUT, Stopwatch, TestEnv, binary, wait_until};

/// Instructions per second for each connected switch without ports that sends nothing, with the default applications: four
/// ticks, an echo request every five seconds, and what the threads of the API and of the static entries look at.
const INSTRUCTIONS_MAX_IDLE: u64 = 12_000;

/// Instructions for each switch of this kind that connects and disconnects: in all threads, with the requests for its description and
/// its static entries, and its events.
const INSTRUCTIONS_MAX_CONNECTION: u64 = 110_000;

/// Sessions of the test; if one of them cost more the more there are, so many would exceed the limits.
const SWITCHES: u16 = 500;

#[test]
fn an_idle_switch_takes_no_more_instructions_than_the_limit() {
    let cost = idle_cost();
    assert!(cost <= INSTRUCTIONS_MAX_IDLE, "{cost} instructions per idle switch and second");
}

/// On a loaded machine the switches take longer to connect; what they cost meanwhile is not that of their connections.
#[test]
fn a_switch_that_connects_and_disconnects_takes_no_more_instructions_than_the_limit() {
    const COUNTS: [u16; 2] = [100, 1500];
    let idle = idle_cost();
    let costs = COUNTS.map(|count| {
        let Run { instructions, switch_seconds } = run(count, 0);
        instructions.saturating_sub(idle * switch_seconds)
    });
    let cost = (costs[1] - costs[0]) / u64::from(COUNTS[1] - COUNTS[0]);
    assert!(cost <= INSTRUCTIONS_MAX_CONNECTION, "{cost} instructions per connection");
}

/// Instructions per second for each connected switch.
fn idle_cost() -> u64 {
    const SECONDS: [u64; 2] = [2, 12];
    let [short, long] = SECONDS.map(|seconds| run(SWITCHES, seconds));
    (long.instructions - short.instructions) / (long.switch_seconds - short.switch_seconds)
}

/// What a run of the controller has taken.
struct Run {
    instructions: u64,
    /// The sum of the times for which its switches were connected.
    switch_seconds: u64,
}

/// One run at a time, so that the controller is not slower than necessary.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs the controller with `count` switches, all of which are connected for `seconds`.
fn run(count: u16, seconds: u64) -> Run {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let env = TestEnv::new();
    let report = env.file("report");
    let mut command = env.command("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", report.display()));
    command.arg(binary()).args(["run", "--threads", "1", "--pin", "off", "--no-api"]);
    let mut controller = Controller::with(command, env.dir());
    let address = controller.address().to_owned();
    let connect = |n| (idle_switch(&address, n), Stopwatch::start());
    let switches: Vec<_> = env.within(|| (0..count).map(connect).collect());
    controller.wait_for_sessions(count.into());
    Stopwatch::start().wait_until(Duration::from_secs(seconds));
    let connected: Duration = switches.iter().map(|(_, since)| since.elapsed()).sum();
    drop(switches);
    controller.terminate();
    let total = || {
        let report = fs::read_to_string(&report).ok()?;
        report.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
    };
    wait_until(SHORT_TIMEOUT, "the report of callgrind", || total().is_some());
    Run { instructions: total().unwrap(), switch_seconds: connected.as_secs() }
}

/// Connects the switch `n` of OpenFlow 1.0, which has no ports.
fn idle_switch(controller: &str, n: u16) -> TcpStream {
    const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 0];
    const FEATURES_REQUEST: u8 = 5;
    let mut switch = TcpStream::connect(controller).unwrap();
    switch.write_all(&HELLO).unwrap();
    let mut header = [0; 8];
    while header[1] != FEATURES_REQUEST {
        switch.read_exact(&mut header).unwrap();
        let body = u64::from(u16::from_be_bytes([header[2], header[3]])) - 8;
        copy(&mut (&switch).take(body), &mut sink()).unwrap();
    }
    let mut reply = [0; 32];
    reply[..4].copy_from_slice(&[1, 6, 0, 32]);
    reply[4..8].copy_from_slice(&header[4..]);
    reply[14..16].copy_from_slice(&(n + 1).to_be_bytes());
    switch.write_all(&reply).unwrap();
    switch
}
