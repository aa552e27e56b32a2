//! Instructions of the process for switches that do nothing, which depend little on the machine.
//!
//! A source that has all sessions it may have must not use a core with them, nor delay others by ending all at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{Read, Write, copy, sink};
use std::net::TcpStream;
use std::time::Duration;

use sluice_system_tests::{
    Count, CountedController, LONG_TIMEOUT, Stopwatch, TestEnv, output_of, wait_until,
};

/// Instructions per second for each connected switch without ports that sends nothing, with the default applications: four
/// ticks, an echo request every five seconds, and what the threads of the API and of the static entries look at. Measured:
/// 9 650 to 9 760.
const INSTRUCTIONS_MAX_IDLE: u64 = 10_000;

/// Instructions for each switch of this kind that connects and disconnects: in all threads, with the requests for its description and
/// its static entries, and its events. Measured: 92 000 on a loaded
/// machine, where several connect at a time, to 116 000.
const INSTRUCTIONS_MAX_CONNECTION: u64 = 122_000;

/// The interval of echo requests. Of a time that is no multiple of it, each switch has one more or one less, by chance.
const ECHO_INTERVAL: Duration = Duration::from_secs(5);

/// Switches that are idle; if one of them cost more the more there are, so many would exceed the limit.
const IDLE: u16 = 500;

/// Switches that connect and disconnect.
const CONNECTING: u16 = 1500;

#[test]
fn an_idle_switch_takes_no_more_instructions_than_the_limit() {
    let cost = idle_cost();
    assert!(cost <= INSTRUCTIONS_MAX_IDLE, "{cost} instructions per idle switch and second");
}

/// The switches that have connected are idle until they disconnect, on a loaded machine for longer, so this is subtracted.
#[test]
fn a_switch_that_connects_and_disconnects_takes_no_more_instructions_than_the_limit() {
    let idle = idle_cost();
    let env = TestEnv::new();
    let mut counted = start(&env);
    counted.start_counting();
    let switches = connect(&env, &counted, CONNECTING);
    let connected: Duration = switches.iter().map(|(_, since)| since.elapsed()).sum();
    drop(switches);
    let waiting = || output_of(env.command("ss").args(["-Htn", "state", "close-wait"]));
    wait_until(LONG_TIMEOUT, "the sessions to end", || waiting().is_empty());
    // Other threads learn of it a little later.
    Stopwatch::start().wait_until(Duration::from_secs(1));
    let instructions = counted.count().instructions - idle * connected.as_secs();
    let cost = instructions / u64::from(CONNECTING);
    assert!(cost <= INSTRUCTIONS_MAX_CONNECTION, "{cost} instructions per connection");
}

/// Instructions per second for each connected switch.
fn idle_cost() -> u64 {
    let env = TestEnv::new();
    let mut counted = start(&env);
    let _switches = connect(&env, &counted, IDLE);
    // What follows a connection is over.
    Stopwatch::start().wait_until(Duration::from_secs(2));
    counted.start_counting();
    Stopwatch::start().wait_until(2 * ECHO_INTERVAL);
    let Count { instructions, time } = counted.count();
    let per_second = u128::from(instructions) * 1000 / time.as_millis();
    u64::try_from(per_second).unwrap() / u64::from(IDLE)
}

fn start(env: &TestEnv) -> CountedController {
    CountedController::start(env, "--threads 1 --no-api", &[])
}

/// Connects `count` switches; returns them, and for how long they have been connected.
fn connect(env: &TestEnv, counted: &CountedController, count: u16) -> Vec<(TcpStream, Stopwatch)> {
    let address = counted.controller().address();
    let connect = |n| (idle_switch(address, n), Stopwatch::start());
    let switches = env.within(|| (0..count).map(connect).collect());
    counted.controller().wait_for_sessions(count.into());
    switches
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
