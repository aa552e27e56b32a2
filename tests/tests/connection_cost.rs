//! Instructions of the process for switches that do nothing, which are the same on every machine.
//!
//! A source that has all sessions it may have must not use a core with them, nor delay others by ending all at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write, copy, sink};
use std::net::TcpStream;
use std::time::Duration;

use sluice_system_tests::{Controller, SHORT_TIMEOUT, Stopwatch, TestEnv, binary, wait_until};

/// Instructions per second for each connected switch without ports that sends nothing, with the default applications: four
/// ticks, an echo request every five seconds, and what the threads of the API and of the static entries look at.
const INSTRUCTIONS_MAX_IDLE: u64 = 18_000;

/// Instructions for each switch of this kind that connects and disconnects: in all threads, with the requests for its description and
/// its static entries, and its events.
const INSTRUCTIONS_MAX_CONNECTION: u64 = 260_000;

#[test]
fn an_idle_switch_takes_no_more_instructions_than_the_limit() {
    // If one of them cost more the more there are, so many would exceed the limit.
    const SWITCHES: u16 = 500;
    const SECONDS: [u64; 2] = [1, 5];
    let costs = SECONDS.map(|seconds| instructions(SWITCHES, seconds));
    let cost = (costs[1] - costs[0]) / (SECONDS[1] - SECONDS[0]) / u64::from(SWITCHES);
    assert!(cost <= INSTRUCTIONS_MAX_IDLE, "{cost} instructions per idle switch and second");
}

#[test]
fn a_switch_that_connects_and_disconnects_takes_no_more_instructions_than_the_limit() {
    const COUNTS: [u16; 2] = [100, 1500];
    let costs = COUNTS.map(|count| instructions(count, 0));
    let cost = (costs[1] - costs[0]) / u64::from(COUNTS[1] - COUNTS[0]);
    assert!(cost <= INSTRUCTIONS_MAX_CONNECTION, "{cost} instructions per connection");
}

/// Instructions of the controller with `count` switches that are connected for `seconds`.
fn instructions(count: u16, seconds: u64) -> u64 {
    let env = TestEnv::new();
    let report = env.file("report");
    let mut command = env.command("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", report.display()));
    command.arg(binary()).args(["run", "--threads", "1", "--pin", "off", "--no-api"]);
    let mut controller = Controller::with(command, env.dir());
    let switches: Vec<_> =
        env.within(|| (0..count).map(|n| idle_switch(controller.address(), n)).collect());
    controller.wait_for_sessions(count.into());
    Stopwatch::start().wait_until(Duration::from_secs(seconds));
    drop(switches);
    controller.terminate();
    let total = || {
        let report = fs::read_to_string(&report).ok()?;
        report.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
    };
    wait_until(SHORT_TIMEOUT, "the report of callgrind", || total().is_some());
    total().unwrap()
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
