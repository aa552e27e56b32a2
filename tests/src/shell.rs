//! Running other people's programs.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output};

use rustix::process::{Pid, Signal, kill_process};

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// What `command` writes to its standard output.
///
/// # Panics
/// When it cannot be started or fails; the message has its words.
#[track_caller]
pub(crate) fn output_of(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?} ended with {status}: {said}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Runs `command` to its end, whatever that is.
///
/// # Panics
/// When it cannot be started.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(e) => panic!("{} does not start: {e}", missing(command)),
    }
}

/// Names the program of `command` and where it comes from.
pub(crate) fn missing(command: &Command) -> String {
    let program = command.get_program().display();
    format!("{program} (scripts/setup.sh installs it)")
}

/// A program that runs beside the test; killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub(crate) fn new(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self { child },
            Err(e) => panic!("{} does not start: {e}", missing(command)),
        }
    }

    /// Sends a signal; nothing happens when it has ended already.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // It may end in between, which is as good.
            _ = kill_process(pid, signal);
        }
    }

    /// Kills it as a power cut would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // Both fail only for what has ended and been waited for.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// What it writes to a piped standard output until it ends.
    pub(crate) fn words(&mut self) -> String {
        let mut words = String::new();
        // What cannot be read is missing, and whoever looks for it says so.
        _ = self.child.stdout.take().map(|mut out| out.read_to_string(&mut words));
        words
    }

    /// Its piped standard input, once.
    pub(crate) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
