//! Instructions of a controller between two moments, counted by callgrind.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::controller::{Controller, binary};
use crate::process::output_of;
use crate::{SHORT_TIMEOUT, Stopwatch, TestEnv, wait_until};

/// A controller at a time for each of two cores: a load needs processor time, too.
static PERMITS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];

/// What was counted.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// User-space instructions of all threads.
    pub instructions: u64,
    /// For how long they were counted.
    pub time: Duration,
}

/// A controller under callgrind, which counts the user-space instructions of all its threads.
#[derive(Debug)]
pub struct CountedController {
    controller: Controller,
    report: PathBuf,
    since: Stopwatch,
    _permit: MutexGuard<'static, ()>,
}

impl CountedController {
    /// Starts `sluice run` with `arguments`, which are separated by spaces, and the environment variables `variables`; waits for its
    /// turn if two others run. Nothing is counted yet, so that the start takes less time.
    #[track_caller]
    pub fn start(env: &TestEnv, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let permit = permit();
        let report = env.file("callgrind.out");
        let mut command = env.command("valgrind");
        command.args(["--tool=callgrind", "--instr-atstart=no"]);
        command.arg(format!("--callgrind-out-file={}", report.display()));
        command.arg(binary()).args(["run", "--pin", "off"]).args(arguments.split_whitespace());
        command.envs(variables.iter().copied());
        let controller = Controller::with(command, env.dir());
        Self { controller, report, since: Stopwatch::start(), _permit: permit }
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Counts from now on. What runs is slower from now on, too.
    #[track_caller]
    pub fn start_counting(&mut self) {
        self.tell("instrumentation on");
        self.since = Stopwatch::start();
    }

    /// Forgets what was counted until now.
    #[track_caller]
    pub fn count_anew(&mut self) {
        self.tell("zero");
        self.since = Stopwatch::start();
    }

    /// Ends the count, then the controller.
    ///
    /// # Panics
    /// When there is no report within [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn count(mut self) -> Count {
        self.tell("instrumentation off");
        let time = self.since.elapsed();
        self.controller.terminate();
        let total = || {
            let report = fs::read_to_string(&self.report).ok()?;
            report.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
        };
        let mut instructions = None;
        wait_until(SHORT_TIMEOUT, "the report of callgrind", || {
            instructions = total();
            instructions.is_some()
        });
        Count { instructions: instructions.unwrap_or_default(), time }
    }

    /// Sends callgrind a command, which has been obeyed on return.
    #[track_caller]
    fn tell(&self, command: &str) {
        let mut vgdb = Command::new("vgdb");
        vgdb.arg(format!("--pid={}", self.controller.pid())).args(command.split(' '));
        output_of(&mut vgdb);
    }
}

fn permit() -> MutexGuard<'static, ()> {
    static IS_FIRST: AtomicBool = AtomicBool::new(true);
    let [first, second] = &PERMITS;
    let permit = if IS_FIRST.fetch_not(Relaxed) { first } else { second };
    permit.lock().unwrap_or_else(PoisonError::into_inner)
}
