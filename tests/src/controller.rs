//! The binary under test.

use std::env;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::panicking;

use rustix::process::Signal;

use crate::room::Room;
use crate::shell::{Daemon, run, workspace};
use crate::{SOON, wait_until};

/// The file that is tested: `SLUICE_BIN`, else the release build of this workspace.
///
/// # Panics
/// When there is none.
pub fn binary() -> PathBuf {
    let given = env::var_os("SLUICE_BIN").map(PathBuf::from);
    let path = given.unwrap_or_else(|| workspace().join("target/release/sluice"));
    assert!(
        path.is_file(),
        "there is no {}: build it with `cargo build --release`, or name one in SLUICE_BIN",
        path.display()
    );
    path
}

/// How a program ended, and everything it said.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output of its last run.
    pub stdout: String,
    /// Standard error of all its runs.
    pub stderr: String,
}

impl Ended {
    /// How `command` ends, which it must do within ten seconds.
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

/// One `sluice run`, which can be ended and started again at the same address.
#[derive(Debug)]
pub struct Controller {
    command: Command,
    daemon: Daemon,
    address: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Controller {
    /// Starts it in `room` with one thread and no HTTP, and waits until it accepts.
    ///
    /// `arguments` are separated by spaces and follow `--threads 1 --no-api`.
    ///
    /// # Panics
    /// When it does not listen soon; its words are in the message.
    #[track_caller]
    pub fn new(room: &Room, arguments: &str) -> Self {
        let mut command = room.command(&binary().to_string_lossy());
        command.args(["run", "--threads", "1", "--no-api"]).args(arguments.split_whitespace());
        Self::with(command, room.dir())
    }

    /// Starts `command`, a `sluice run` without its `--listen`; what it says goes to `dir`.
    #[track_caller]
    pub fn with(mut command: Command, dir: &Path) -> Self {
        let (stdout, stderr) = (dir.join("sluice.out"), dir.join("sluice.err"));
        let address = "127.0.0.1:0".to_owned();
        let daemon = start(&mut command, &address, &stdout, &stderr);
        let mut new = Self { command, daemon, address, stdout, stderr };
        new.address = new.wait_for_address();
        new
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts it again at the address it had, and waits until it accepts.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.daemon = start(&mut self.command, &self.address, &self.stdout, &self.stderr);
        self.wait_for_address();
    }

    /// Asks it to end.
    pub fn ask_to_end(&mut self) {
        self.daemon.signal(Signal::TERM);
    }

    /// Asks it to read its configuration again.
    pub fn reload(&mut self) {
        self.daemon.signal(Signal::HUP);
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> Ended {
        wait_until(SOON, "sluice to end", || self.daemon.ended().is_some());
        let code = self.daemon.ended().and_then(|status| status.code());
        Ended { code, stdout: read(&self.stdout), stderr: self.log() }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.daemon.ended().is_some()
    }

    /// Where it listens, as in `127.0.0.1:40123`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its port.
    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// What it has written to standard error so far, over all starts.
    pub fn log(&self) -> String {
        read(&self.stderr)
    }

    /// How many sessions with switches have begun, over all starts.
    pub fn sessions(&self) -> usize {
        self.log().lines().filter(|line| line.contains("switch up")).count()
    }

    /// Waits until that many have.
    ///
    /// # Panics
    /// When they have not soon.
    #[track_caller]
    pub fn wait_for_sessions(&self, count: usize) {
        wait_until(SOON, &format!("{count} sessions"), || self.sessions() >= count);
    }

    /// Waits until a line of the log has all of `words`.
    ///
    /// # Panics
    /// When there is none soon.
    #[track_caller]
    pub fn wait_for_log(&self, words: &[&str]) {
        wait_until(SOON, &format!("{words:?} in the log:\n{}", self.log()), || self.says(words));
    }

    /// Whether a line of the log has all of `words`.
    pub fn says(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    #[track_caller]
    fn wait_for_address(&mut self) -> String {
        let mut address = None;
        wait_until(SOON, "`listening on …`", || {
            if let Some(status) = self.daemon.ended() {
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
            // A thread that fell may have gone unnoticed by everybody else.
            assert!(!log.contains("panicked"), "the controller panicked:\n{log}");
        }
    }
}

#[track_caller]
fn start(command: &mut Command, address: &str, stdout: &Path, stderr: &Path) -> Daemon {
    // The log goes on where it was; the first screen is another one.
    _ = fs::remove_file(stdout);
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).args(["--listen", address]).stdin(Stdio::null());
    again.stdout(logged(stdout)).stderr(logged(stderr));
    Daemon::new(&mut again)
}

/// What is written there goes to the end of the file at `path`.
#[track_caller]
pub(crate) fn logged(path: &Path) -> Stdio {
    match OpenOptions::new().create(true).append(true).open(path) {
        Ok(file) => Stdio::from(file),
        Err(e) => panic!("{}: {e}", path.display()),
    }
}

/// The first address of `listening on ADDRESS`, once its line is whole.
fn listening_on(screen: &str) -> Option<String> {
    let whole = screen.rsplit_once('\n')?.0;
    let words = whole.lines().find_map(|line| line.trim().split_once("listening on "))?.1;
    words.split_whitespace().next().map(str::to_owned)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[expect(clippy::print_stderr, reason = "the harness shows it beside the failure")]
fn show(log: &str) {
    eprintln!("the controller's log:\n{log}");
}
