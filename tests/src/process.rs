//! Running other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output};

use rustix::process::{Pid, Signal, kill_process};

/// Root folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// Runs `command` and returns its standard output.
///
/// # Panics
/// When it cannot be started or fails; the message contains its standard error.
#[track_caller]
pub fn output_of(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?} ended with {status}: {stderr}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Runs `command` and returns its output, whatever its exit code.
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

/// Names the program of `command` and the script that installs it.
pub(crate) fn missing(command: &Command) -> String {
    let program = command.get_program().display();
    format!("{program} (scripts/setup.sh installs it)")
}

/// A program that runs in the background; killed on drop.
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

    /// Sends a signal; does nothing when the program has ended.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_none()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // The program may end in between.
            _ = kill_process(pid, signal);
        }
    }

    /// Sends SIGKILL and waits until the program has ended.
    pub(crate) fn kill(&mut self) {
        // Both fail only when the program has ended and has been waited for.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// Takes the piped standard input.
    pub(crate) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its process id. The commands of a namespace replace themselves by the program, so that it has the id of the child.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, KiB; `None` when the program has ended.
    pub(crate) fn resident_kib(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim_end_matches("kB").trim().parse().ok()
    }

    /// Exit status; `None` while the program runs.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
