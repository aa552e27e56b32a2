//! The binary under test, and `sluice run` as a background process.

use std::env;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::panicking;

use rustix::process::Signal;

use crate::process::{Daemon, run, workspace};
use crate::test_env::TestEnv;
use crate::{SHORT_TIMEOUT, becomes_true, wait_until};

/// Path of the binary under test: `SLUICE_BIN`, or else the release build of this workspace.
///
/// # Panics
/// When it does not exist.
pub fn binary() -> PathBuf {
    let given = env::var_os("SLUICE_BIN").map(PathBuf::from);
    let path = given.unwrap_or_else(|| workspace().join("target/release/sluice"));
    assert!(
        path.is_file(),
        "{} does not exist: build it with `cargo build --release`, or set SLUICE_BIN",
        path.display()
    );
    path
}

/// Exit code and output of a program that has ended.
#[derive(Debug)]
pub struct ExitReport {
    /// Exit code; `None` when a signal ended the program.
    pub code: Option<i32>,
    /// Standard output of the last start.
    pub stdout: String,
    /// Standard error of all starts.
    pub stderr: String,
}

impl ExitReport {
    /// Runs `command`, which must end within ten seconds.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn of(command: &Command) -> Self {
        let mut limited = Command::new("timeout");
        limited.arg("10").arg(command.get_program()).args(command.get_args());
        let Output { status, stdout, stderr } = run(&mut limited);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Sets the directory of the store.
const STATE_DIR: &str = "SLUICE_STATE__DIR";

/// A `sluice run` that can be stopped and started again at the same address.
#[derive(Debug)]
pub struct Controller {
    command: Command,
    daemon: Daemon,
    address: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Controller {
    /// Starts it in `env` with one worker and no HTTP server, and waits until it listens.
    ///
    /// `arguments` are separated by spaces and follow `--threads 1 --no-api`.
    ///
    /// # Panics
    /// When it does not listen within [`SHORT_TIMEOUT`]; the message contains its log.
    #[track_caller]
    pub fn new(env: &TestEnv, arguments: &str) -> Self {
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["run", "--threads", "1", "--no-api"]).args(arguments.split_whitespace());
        Self::with(command, env.dir())
    }

    /// Starts `command`, a `sluice run` without `--listen`; its output goes to files in `dir`.
    #[track_caller]
    pub fn with(command: Command, dir: &Path) -> Self {
        Self::at("127.0.0.1:0", command, dir)
    }

    /// Starts `command` and lets it listen at `address`.
    #[track_caller]
    pub(crate) fn at(address: &str, mut command: Command, dir: &Path) -> Self {
        let (stdout, stderr) = (dir.join("sluice.out"), dir.join("sluice.err"));
        // Without the static entries of this machine.
        if command.get_envs().all(|(name, _)| name != STATE_DIR) {
            command.env(STATE_DIR, dir.join("state"));
        }
        let daemon = start(&mut command, address, &stdout, &stderr);
        let mut new = Self { command, daemon, address: address.to_owned(), stdout, stderr };
        new.address = new.wait_for_address();
        new
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts it again at the same address, and waits until it listens.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.daemon = start(&mut self.command, &self.address, &self.stdout, &self.stderr);
        self.wait_for_address();
    }

    /// Sends SIGTERM.
    pub fn terminate(&mut self) {
        self.daemon.signal(Signal::TERM);
    }

    /// Sends SIGHUP, on which it reads its configuration again.
    pub fn reload(&mut self) {
        self.daemon.signal(Signal::HUP);
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitReport {
        wait_until(SHORT_TIMEOUT, "sluice to end", || self.daemon.exit_status().is_some());
        let code = self.daemon.exit_status().and_then(|status| status.code());
        ExitReport { code, stdout: read(&self.stdout), stderr: self.log() }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.daemon.exit_status().is_some()
    }

    /// Address that it listens at, for example `127.0.0.1:40123`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Address that it listens at with TLS.
    ///
    /// # Panics
    /// When it was started without such an address.
    #[track_caller]
    pub fn tls_address(&self) -> String {
        let screen = read(&self.stdout);
        let address = screen.lines().find_map(|line| {
            line.strip_prefix("listening on ")?.strip_suffix(" (TLS)").map(str::to_owned)
        });
        address.unwrap_or_else(|| panic!("no address with TLS: {screen}"))
    }

    /// Port that it listens at.
    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Its resident memory, KiB.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn resident_kib(&self) -> u64 {
        self.daemon.resident_kib().unwrap_or_else(|| panic!("sluice has ended: {}", self.log()))
    }

    /// Its log so far, over all starts.
    pub fn log(&self) -> String {
        read(&self.stderr)
    }

    /// Number of sessions with switches that have been established, over all starts.
    pub fn sessions(&self) -> usize {
        let log = self.log();
        let logged = log.lines().filter(|line| line.contains("switch connected")).count();
        let suppressed =
            log.lines().filter_map(|line| line.split_once("more switches connected count="));
        let suppressed =
            suppressed.filter_map(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok());
        logged + suppressed.sum::<usize>()
    }

    /// Waits until `count` sessions have been established.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for_sessions(&self, count: usize) {
        wait_until(SHORT_TIMEOUT, &format!("{count} sessions"), || self.sessions() >= count);
    }

    /// Waits until a line of the log contains all of `words`.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for_log(&self, words: &[&str]) {
        let is_logged = becomes_true(SHORT_TIMEOUT, || self.logged(words));
        assert!(is_logged, "no line with {words:?} in the log:\n{}", self.log());
    }

    /// Whether a line of the log contains all of `words`.
    pub fn logged(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    #[track_caller]
    fn wait_for_address(&mut self) -> String {
        let mut address = None;
        wait_until(SHORT_TIMEOUT, "`listening on …`", || {
            if let Some(status) = self.daemon.exit_status() {
                panic!("sluice ended with {status} before it listened: {}", self.log());
            }
            address = listening_on(&read(&self.stdout));
            address.is_some()
        });
        address.unwrap_or_default()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let log = self.log();
        if panicking() {
            show(&log);
        } else {
            // The panic of a thread may have had no other visible effect.
            assert!(!log.contains("panicked"), "the controller panicked:\n{log}");
        }
    }
}

#[track_caller]
fn start(command: &mut Command, address: &str, stdout: &Path, stderr: &Path) -> Daemon {
    // The log is appended to; the first screen is written anew.
    _ = fs::remove_file(stdout);
    let mut started = Command::new(command.get_program());
    started.args(command.get_args()).args(["--listen", address]).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    started.stdout(append_to(stdout)).stderr(append_to(stderr));
    Daemon::new(&mut started)
}

/// Output that is appended to the file at `path`.
#[track_caller]
pub(crate) fn append_to(path: &Path) -> Stdio {
    match OpenOptions::new().create(true).append(true).open(path) {
        Ok(file) => Stdio::from(file),
        Err(e) => panic!("{}: {e}", path.display()),
    }
}

/// The first address after `listening on`, once the line is complete.
fn listening_on(screen: &str) -> Option<String> {
    let complete_lines = screen.rsplit_once('\n')?.0;
    let words = complete_lines.lines().find_map(|line| line.trim().split_once("listening on "))?.1;
    words.split_whitespace().next().map(str::to_owned)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[expect(clippy::print_stderr, reason = "the test harness shows it beside the failure")]
fn show(log: &str) {
    eprintln!("the controller's log:\n{log}");
}
