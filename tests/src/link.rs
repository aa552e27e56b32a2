//! A `sluice control-link` between two network namespaces.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};

use rustix::process::Signal;

use crate::controller::{ExitReport, append_to, binary};
use crate::host::PingCounts;
use crate::namespace::Namespace;
use crate::process::{Daemon, run};
use crate::test_env::TestEnv;
use crate::{SHORT_TIMEOUT, wait_until};

/// IPv4 address of the far end.
pub const FAR_ADDR: &str = "10.9.0.2";

/// A link from the namespace of a [`TestEnv`] to a second namespace.
#[derive(Debug)]
pub struct LinkProcess {
    daemon: Daemon,
    input: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
    env: TestEnv,
    far: Namespace,
}

impl LinkProcess {
    /// Starts `sluice control-link` with `arguments`, separated by spaces, and waits until it is ready.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`]; the message contains its errors.
    #[track_caller]
    pub fn open(arguments: &str) -> Self {
        let env = TestEnv::shared();
        let far = Namespace::new(&format!("{}-far", env.name()));
        let mut command = env.command(&binary().to_string_lossy());
        command
            .current_dir(env.dir())
            .args(["control-link", "--to", far.name()])
            .args(arguments.split_whitespace());
        let (stdout, stderr) = (env.file("link.out"), env.file("link.err"));
        command.stdin(Stdio::piped()).stdout(append_to(&stdout)).stderr(append_to(&stderr));
        let mut daemon = Daemon::new(&mut command);
        let input = daemon.input();
        let mut new = Self { daemon, input, stdout, stderr, env, far };
        new.wait_for("ready");
        new
    }

    /// Waits until a line of its output begins with `words`.
    ///
    /// # Panics
    /// When it has ended, or that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        wait_until(SHORT_TIMEOUT, &format!("`{words}` of sluice control-link"), || {
            if let Some(status) = self.daemon.exit_status() {
                panic!("sluice control-link ended with {status}: {}", self.stderr_text());
            }
            self.stdout_text().lines().any(|line| line.starts_with(words))
        });
    }

    /// Writes a command to its standard input, and waits until the command is confirmed.
    ///
    /// # Panics
    /// When it has ended, or that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn command(&mut self, line: &str) {
        let input = self.input.as_mut().map(|input| writeln!(input, "{line}"));
        assert!(
            matches!(input, Some(Ok(()))),
            "sluice control-link does not accept {line:?}: {input:?}"
        );
        self.wait_for(&format!("ok: {line}"));
    }

    /// Pings the far end `count` times with packets of `bytes`, one every 20 ms; returns the result and the
    /// shortest round trip, milliseconds.
    #[track_caller]
    pub fn ping(&self, count: u32, bytes: u32) -> (PingCounts, Option<f64>) {
        const HEADERS: u32 = 28;
        let mut ping = self.env.command("ping");
        ping.args(["-n", "-q", "-i", "0.02", "-W", "1", "-c", &count.to_string()]);
        ping.args(["-s", &bytes.saturating_sub(HEADERS).to_string(), FAR_ADDR]);
        let output = String::from_utf8_lossy(&run(&mut ping).stdout).into_owned();
        let trips = output.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
        let shortest = trips.and_then(|trips| trips.split('/').next()?.parse().ok());
        (PingCounts::parse(&output), shortest)
    }

    /// Runs `act` at the near end, on a thread of its own.
    #[track_caller]
    pub fn within_near<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.env.within(act)
    }

    /// Runs `act` at the far end, on a thread of its own.
    #[track_caller]
    pub fn within_far<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.far.within(act)
    }

    /// Whether a device of that name is at the near or the far end.
    pub fn has_device(&self, name: &str) -> bool {
        let shows = |mut ip: Command| run(ip.args(["link", "show", name])).status.success();
        shows(self.env.command("ip")) || shows(self.far.command("ip"))
    }

    /// Path of a file in the folder of the test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.env.file(name)
    }

    /// The environment that it runs in.
    pub fn env(&self) -> &TestEnv {
        &self.env
    }

    /// Name of the namespace at the far end.
    pub fn far_name(&self) -> &str {
        self.far.name()
    }

    /// Sends SIGTERM and waits until it has ended.
    #[track_caller]
    pub fn close(&mut self) -> ExitReport {
        self.daemon.signal(Signal::TERM);
        self.wait_for_end()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitReport {
        wait_until(SHORT_TIMEOUT, "sluice control-link to end", || {
            self.daemon.exit_status().is_some()
        });
        let code = self.daemon.exit_status().and_then(|status| status.code());
        ExitReport { code, stdout: self.stdout_text(), stderr: self.stderr_text() }
    }

    /// Its standard output so far.
    pub fn stdout_text(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    fn stderr_text(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}
