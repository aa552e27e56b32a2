//! `sluice decode --follow` as a background process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;

use crate::controller::{ExitReport, append_to, binary};
use crate::process::Daemon;
use crate::test_env::TestEnv;
use crate::{LONG_TIMEOUT, SHORT_TIMEOUT, becomes_true, wait_until};

/// `sluice decode --follow` on the loopback interface of a [`TestEnv`].
#[derive(Debug)]
pub struct LiveDecode {
    daemon: Daemon,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl LiveDecode {
    /// Starts it with further `arguments`, separated by spaces, and waits until it captures. Its output goes to files called `name`.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn new(env: &TestEnv, name: &str, arguments: &str) -> Self {
        let (stdout, stderr) = (env.file(&format!("{name}.out")), env.file(&format!("{name}.err")));
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["decode", "--follow", "-i", "lo"]).args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(append_to(&stdout)).stderr(append_to(&stderr));
        let mut new = Self { daemon: Daemon::new(&mut command), stdout, stderr };
        wait_until(SHORT_TIMEOUT, "`capturing on`", || {
            let errors = read(&new.stderr);
            assert!(new.daemon.exit_status().is_none(), "sluice decode has ended: {errors}");
            errors.contains("capturing on lo")
        });
        new
    }

    /// Waits until a line of its output contains all of `words`.
    ///
    /// # Panics
    /// When that takes longer than [`LONG_TIMEOUT`]; the message contains the output.
    #[track_caller]
    pub fn wait_for(&self, words: &[&str]) {
        let has_line = || {
            let output = self.output();
            output.lines().any(|line| words.iter().all(|word| line.contains(word)))
        };
        assert!(becomes_true(LONG_TIMEOUT, has_line), "no line with {words:?}:\n{}", self.output());
    }

    /// What it has written so far.
    pub fn output(&self) -> String {
        read(&self.stdout)
    }

    /// Sends SIGINT and waits until it has ended.
    #[track_caller]
    pub fn stop(mut self) -> ExitReport {
        self.daemon.signal(Signal::INT);
        wait_until(SHORT_TIMEOUT, "sluice decode to end", || self.daemon.exit_status().is_some());
        let code = self.daemon.exit_status().and_then(|status| status.code());
        ExitReport { code, stdout: self.output(), stderr: read(&self.stderr) }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
