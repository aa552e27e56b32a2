//! A service manager of one service: passes listeners to `sluice run`, and receives what it reports.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::controller::{append_to, binary};
use crate::process::Daemon;
use crate::test_env::TestEnv;
use crate::{SHORT_TIMEOUT, becomes_true, wait_until};

/// Starts programs with these file descriptors as 3, 4 and so on, as systemd does.
const PASS: &str = r#"
fd=3
for passed in $PASSED; do eval "exec $fd<&$passed"; fd=$((fd + 1)); done
if [ -z "$LISTEN_PID" ]; then export LISTEN_PID=$$; fi
unset PASSED
exec "$@"
"#;

/// A service manager in the namespace of a test.
#[derive(Debug)]
pub struct ServiceManager<'e> {
    env: &'e TestEnv,
    sockets: Vec<(String, TcpListener)>,
    notifications: UnixDatagram,
    watchdog: Option<Duration>,
    listen_pid: Option<String>,
}

impl<'e> ServiceManager<'e> {
    /// Passes no listener yet, and has no watchdog.
    ///
    /// # Panics
    /// When the socket for notifications cannot be made.
    #[expect(
        clippy::expect_used,
        reason = "the failures of a test library are the test's failures"
    )]
    pub fn new(env: &'e TestEnv) -> Self {
        let notifications = UnixDatagram::bind(env.file("notify")).expect("the socket is new");
        Self { env, sockets: Vec::new(), notifications, watchdog: None, listen_pid: None }
    }

    /// Opens a listener with a name. It stays open, whatever happens to the service.
    ///
    /// # Panics
    /// When the address is in use.
    pub fn listen(&mut self, name: &str, address: &str) -> SocketAddr {
        let listener = self.env.within(|| TcpListener::bind(address));
        let listener = listener.unwrap_or_else(|e| panic!("{address}: {e}"));
        let bound = listener.local_addr().unwrap_or_else(|e| panic!("{address}: {e}"));
        self.sockets.push((name.to_owned(), listener));
        bound
    }

    /// Passes the watchdog's time limit.
    pub fn set_watchdog(&mut self, timeout: Duration) {
        self.watchdog = Some(timeout);
    }

    /// Says that the listeners are for another process.
    pub fn set_listen_pid(&mut self, pid: u32) {
        self.listen_pid = Some(pid.to_string());
    }

    /// Starts `sluice run`; `arguments` are separated by spaces.
    pub fn start(&self, arguments: &str) -> Service {
        let mut command = self.command();
        command.args(arguments.split_whitespace());
        Service(Daemon::new(&mut command))
    }

    fn command(&self) -> Command {
        let names: Vec<_> = self.sockets.iter().map(|(name, _)| name.as_str()).collect();
        let fds: Vec<_> = self.sockets.iter().map(|(_, it)| inheritable(it).to_string()).collect();
        let mut command = self.env.command("bash");
        command.args(["-c", PASS, "bash"]).arg(binary()).args(["run", "--config", "/dev/null"]);
        command.env("PASSED", fds.join(" ")).env("LISTEN_FDS", fds.len().to_string());
        command.env("LISTEN_FDNAMES", names.join(":"));
        command.env("LISTEN_PID", self.listen_pid.clone().unwrap_or_default());
        command.env("NOTIFY_SOCKET", self.env.file("notify"));
        command.env("SLUICE_STATE__DIR", self.env.file("state"));
        if let Some(timeout) = self.watchdog {
            command.env("WATCHDOG_USEC", timeout.as_micros().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(append_to(&self.env.file("sluice.err")));
        command
    }

    /// Waits for the next notification.
    ///
    /// # Panics
    /// When there is none within [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn next_notification(&self) -> String {
        let mut buffer = [0; 4096];
        let mut receive = || {
            self.notifications.set_read_timeout(Some(SHORT_TIMEOUT))?;
            self.notifications.recv(&mut buffer)
        };
        // A receive with a time limit is not restarted after a signal.
        let received = loop {
            match receive() {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match received {
            Ok(length) => {
                String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned()
            }
            Err(e) => panic!("no notification: {e}; the log: {}", self.log()),
        }
    }

    /// Waits for a notification that contains `text`, and returns it and those before it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> Vec<String> {
        let mut received = Vec::new();
        loop {
            let next = self.next_notification();
            let is_last = next.contains(text);
            received.push(next);
            if is_last {
                return received;
            }
        }
    }

    /// Waits until the log of all starts contains `text`: a thread of its own writes it.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        let is_logged = becomes_true(SHORT_TIMEOUT, || self.log().contains(text));
        assert!(is_logged, "no {text:?} in the log:\n{}", self.log());
    }

    /// The log of all starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.env.file("sluice.err")).unwrap_or_default()
    }
}

/// A started service; killed on drop.
#[derive(Debug)]
pub struct Service(Daemon);

impl Service {
    /// Sends SIGHUP, on which it reads its configuration again.
    pub fn reload(&mut self) {
        self.0.signal(Signal::HUP);
    }

    /// Sends SIGTERM.
    pub fn terminate(&mut self) {
        self.0.signal(Signal::TERM);
    }

    /// Waits until it has ended; its exit code.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> Option<i32> {
        wait_until(SHORT_TIMEOUT, "the service to end", || self.0.exit_status().is_some());
        self.0.exit_status().and_then(|status| status.code())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// Has started programs inherit a file descriptor; its number.
fn inheritable(fd: &(impl AsFd + AsRawFd)) -> i32 {
    let set = fcntl_setfd(fd, FdFlags::empty());
    set.unwrap_or_else(|e| panic!("a file descriptor cannot be inherited: {e}"));
    fd.as_raw_fd()
}
