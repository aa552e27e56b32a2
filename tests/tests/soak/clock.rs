//! The wall clock of the controller, which is stepped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};
use sluice_system_tests::{TestEnv, output_of};

use crate::attacks::switch;
use crate::subject::{Subject, metric};

/// The size of a step: more than any timeout.
const DAY_S: i64 = 86_400;

/// How far the controller's clock may be from the expected time: the switch connects while others take the processor.
const TOLERANCE_S: i64 = 3600;

/// Number of the switch that connects after a step, among those of the attacker.
const SWITCH: u64 = 50;

/// A library that the controller preloads, and the file with its offset. The clock of the machine stays as it is: a time
/// namespace has no wall clock of its own.
pub(crate) struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    pub(crate) fn new(env: &TestEnv) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soak/clock.c");
        let library = env.file("clock.so");
        let mut compiler = Command::new("cc");
        output_of(compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source));
        let new = Self { library, offset: env.write("offset", 0_i64.to_ne_bytes()) };
        new.step_to(0);
        new
    }

    /// Environment variables of the controller.
    pub(crate) fn environment(&self) -> [(&'static str, &PathBuf); 2] {
        [("LD_PRELOAD", &self.library), ("SLUICE_TEST_CLOCK_OFFSET", &self.offset)]
    }

    fn step_to(&self, offset_s: i64) {
        // In place: the controller has mapped the file.
        let file = fs::OpenOptions::new().write(true).open(&self.offset).unwrap();
        rustix::io::pwrite(&file, &offset_s.to_ne_bytes(), 0).unwrap();
    }

    /// Steps the clock by a day, forward and back in turn; it is set back when the result is dropped.
    pub(crate) fn step(&self, round: usize) -> SteppedClock<'_> {
        let offset_s = if round.is_multiple_of(2) { DAY_S } else { -DAY_S };
        self.step_to(offset_s);
        SteppedClock { clock: self, offset_s }
    }
}

/// The clock is wrong until this is dropped.
pub(crate) struct SteppedClock<'a> {
    clock: &'a Clock,
    offset_s: i64,
}

impl SteppedClock<'_> {
    /// Whether a switch that connects now has connected at the stepped time.
    pub(crate) fn is_shown(&self, subject: &Subject<'_>) -> bool {
        // The attacker has only so many places; the connection of the last round may not have ended.
        let Ok(_connected) = switch(subject.to, SWITCH) else { return false };
        let label = format!("dpid=\"{:016x}\"", 1000 + SWITCH);
        let shown = metric("sluice_switch_connected_timestamp_seconds", &label);
        let expected = clock_gettime(ClockId::Realtime).tv_sec + self.offset_s;
        i64::try_from(shown).unwrap().abs_diff(expected) < TOLERANCE_S.unsigned_abs()
    }
}

impl Drop for SteppedClock<'_> {
    fn drop(&mut self) {
        self.clock.step_to(0);
    }
}
