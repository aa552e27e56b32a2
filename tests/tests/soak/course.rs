//! The course of a soak: rounds of all faults, first one after the other, then together, then a time without.

use std::env;
use std::time::Duration;

use sluice_system_tests::{LONG_TIMEOUT, Stopwatch, TestEnv, wait_until};

use crate::attacks::{ATTACKS, Attacking, STALLED_SWITCHES};
use crate::clock::Clock;
use crate::descriptors::ExhaustedDescriptors;
use crate::disk::{FullDisk, SmallDisk, declare, declared, flow};
use crate::load::{Load, SWITCHES};
use crate::memory::{ExhaustedMemory, MemoryLimit};
use crate::subject::{Subject, metric, start, state_dir};

/// Duration unless `SLUICE_SOAK_SECONDS` is set.
const SECONDS: u64 = 120;

/// Memory may grow until then: buffers, tables and the caches of the allocator get the size that the faults need.
const WARM_UP: Duration = Duration::from_secs(60);

/// How long a fault lasts at least.
const TURN: Duration = Duration::from_secs(1);

/// How long all faults together last at least.
const TOGETHER: Duration = Duration::from_secs(4);

/// How much more resident memory there may be without faults than at any such time in the first minute, KiB. The large change of
/// [`FullDisk`] needs 7 MiB for a moment. On a busy machine, a further thread makes it at any time, whose arena keeps that memory.
///
/// In each second there are about 95 connections and 2000 requests. So in the last minute of two, what leaks 4500 bytes with each connection or
/// 210 with each request exceeds this, and in the last 19 minutes of twenty, what leaks 240 or 12 bytes.
const GROWTH_MAX_KIB: u64 = 24 << 10;

/// The port of the static entry that stays. Another one has a further port in each round.
const KEPT: usize = 1;

/// Soaks a controller with these options and keys of the configuration.
pub(crate) fn soak(options: &str, keys: &[(&str, &str)]) {
    let env = TestEnv::shared();
    // The packet length of Ethernet, so that the kernel buffers no more for slow readers than in other networks.
    env.ip("link set lo mtu 1500");
    let disk = SmallDisk::new(state_dir(&env));
    let (memory, clock) = (MemoryLimit::new(&env), Clock::new(&env));
    println!("{options}: memory limit by {}", memory.as_ref().map_or("nothing", MemoryLimit::name));
    let mut controller = start(&env, (options, keys), (memory.as_ref(), &clock));
    env.within(|| {
        let subject = Subject::new(&env, &controller);
        Course { subject, disk: &disk, memory: memory.as_ref(), clock: &clock }.run(seconds());
    });

    let entries = env.within(declared);
    controller.terminate();
    let end = controller.wait_for_end();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.lines().last().is_some_and(|line| line.contains("stopping")));
    controller.restart();
    assert_eq!(env.within(declared), entries, "after a restart");
    controller.terminate();
    controller.wait_for_end();
}

fn seconds() -> u64 {
    match env::var("SLUICE_SOAK_SECONDS") {
        Ok(seconds) => seconds.parse().expect("SLUICE_SOAK_SECONDS is a number of seconds"),
        Err(_) => SECONDS,
    }
}

/// A controller, and the faults that need something for it.
struct Course<'a> {
    subject: Subject<'a>,
    disk: &'a SmallDisk,
    memory: Option<&'a MemoryLimit>,
    clock: &'a Clock,
}

/// What a round has shown.
struct Round {
    /// When it ended.
    end: Duration,
    /// Resident memory at its end, without faults.
    resident_kib: u64,
}

impl Course<'_> {
    /// Repeats rounds while the load lasts.
    fn run(&self, seconds: u64) {
        declare("kept", KEPT);
        let soak = Stopwatch::start();
        let mut load = Load::start(&self.subject, seconds);
        let mut rounds: Vec<Round> = Vec::new();
        loop {
            let start = soak.elapsed();
            self.round(rounds.len());
            let (end, resident_kib) = (soak.elapsed(), self.subject.controller.resident_kib());
            rounds.push(Round { end, resident_kib });
            println!("round {} until {} s: {resident_kib} KiB", rounds.len(), end.as_secs());
            assert!(load.is_running(), "the load lasts until the end of the round");
            // Another one as long as this.
            if end + end.saturating_sub(start) * 5 / 4 > Duration::from_secs(seconds) {
                break;
            }
        }
        let requests = load.finish();
        let connections = await_that_all_connections_are_counted();
        println!(
            "{requests} requests, each answered once, and {connections} connections in {} rounds",
            rounds.len()
        );
        check_growth(&rounds);
    }

    /// All faults once alone, beside switches that wait for their timeout, and once together.
    fn round(&self, number: usize) {
        let stalled = STALLED_SWITCHES.begin(&self.subject);
        for attack in ATTACKS {
            let turn = Stopwatch::start();
            let attacking = attack.begin(&self.subject);
            await_evidence(&attacking);
            turn.wait_until(TURN);
        }
        self.exhaust_descriptors();
        self.step_clock(number);
        self.fill_disk(number);
        if let Some(memory) = self.memory {
            ExhaustedMemory::begin(memory).wait();
        }
        await_evidence(&stalled);
        drop(stalled);
        self.all_together(number);
        self.wait_for_rest();
    }

    fn exhaust_descriptors(&self) {
        let exhausted = ExhaustedDescriptors::begin(&self.subject);
        wait_until(LONG_TIMEOUT, "a log line about descriptors", || exhausted.is_logged());
        exhausted.end();
    }

    fn step_clock(&self, number: usize) {
        let turn = Stopwatch::start();
        let stepped = self.clock.step(number);
        wait_until(LONG_TIMEOUT, "the clock to be stepped", || stepped.is_shown(&self.subject));
        turn.wait_until(TURN);
    }

    fn fill_disk(&self, number: usize) {
        let full = FullDisk::begin(self.disk);
        FullDisk::check_that_changes_are_refused();
        drop(full);
        declare("changed", KEPT + 1 + number);
        let expected = [("changed", flow(KEPT + 1 + number)), ("kept", flow(KEPT))];
        assert_eq!(declared(), expected.map(|(name, flow)| (name.to_owned(), flow)));
    }

    /// Connections misbehave in all ways, and stop while others do; meanwhile each resource is missing, the clock is wrong, and at last there are
    /// no descriptors either, so that the metrics cannot be read.
    fn all_together(&self, number: usize) {
        let time = Stopwatch::start();
        let attacks: Vec<_> = ATTACKS.iter().map(|attack| attack.begin(&self.subject)).collect();
        let stepped = self.clock.step(number + 1);
        let memory = self.memory.map(ExhaustedMemory::begin);
        let full = FullDisk::begin(self.disk);
        FullDisk::check_that_changes_are_refused();
        attacks.iter().for_each(await_evidence);
        memory.into_iter().for_each(ExhaustedMemory::wait);
        let exhausted = ExhaustedDescriptors::begin(&self.subject);
        wait_until(LONG_TIMEOUT, "a log line about descriptors", || exhausted.is_logged());
        time.wait_until(TOGETHER);
        exhausted.end();
        drop((full, stepped, attacks));
    }

    /// Waits until only the switches of the load are connected.
    fn wait_for_rest(&self) {
        wait_until(LONG_TIMEOUT, "the end of all connections of the attacker", || {
            metric("sluice_switches_connected", "") == SWITCHES
                && metric("sluice_handshakes_pending", "") == 0
        });
        assert!(!self.subject.controller.log().contains("panicked"));
    }
}

/// Returns their number.
fn await_that_all_connections_are_counted() -> u64 {
    let mut accepted = 0;
    wait_until(LONG_TIMEOUT, "each connection to end for a counted reason", || {
        accepted = metric("sluice_connections_accepted_total", "");
        metric("sluice_connections_closed_total", "") == accepted
    });
    accepted
}

#[track_caller]
fn await_evidence(attacking: &Attacking) {
    let what = format!("{} to be counted", attacking.name());
    wait_until(LONG_TIMEOUT, &what, || attacking.is_counted());
}

/// Compares the memory of the rounds that ended in the first minute with that of the later ones.
fn check_growth(rounds: &[Round]) {
    let is_early = |round: &&Round| round.end <= WARM_UP;
    // On a machine that is so busy that no round ends in the first minute, the first one is early.
    let early = rounds.iter().take(rounds.iter().take_while(is_early).count().max(1));
    let late = rounds.iter().skip(early.len());
    assert!(late.len() > 0, "the soak is too short for a round after the first minute");
    let before = early.map(|round| round.resident_kib).max().unwrap();
    let after = late.map(|round| round.resident_kib).max().unwrap();
    assert!(
        after <= before + GROWTH_MAX_KIB,
        "{after} KiB without faults, {before} KiB in the first minute"
    );
}
