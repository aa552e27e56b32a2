//! The controller under test, and what it shows of itself.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use sluice_system_tests::{Controller, LONG_TIMEOUT, TestEnv, binary, sum_of_samples, wait_until};

use crate::clock::Clock;
use crate::memory::MemoryLimit;

/// Address of the API; each soak has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// Handshakes that are not completed end within the turn of a fault.
const HANDSHAKE_TIMEOUT_MS: u32 = 1500;

/// The directory of the store.
pub(crate) fn state_dir(env: &TestEnv) -> PathBuf {
    env.file("state")
}

/// Starts the controller under a memory limit, with a wall clock of its own.
pub(crate) fn start(
    env: &TestEnv,
    (options, keys): (&str, &[(&str, &str)]),
    (memory, clock): (Option<&MemoryLimit>, &Clock),
) -> Controller {
    let config = env.write(
        "sluice.toml",
        format!("[experimental]\nhandshake_timeout_ms = {HANDSHAKE_TIMEOUT_MS}\n"),
    );
    let mut command = env.command("sh");
    match memory {
        Some(memory) => command.args(memory.prefix()),
        None => command.args(["-c", "exec \"$@\"", "sh"]),
    };
    command.arg(binary());
    command.args(["run", "--threads", "2", "--pin", "off", "--api", API]);
    command.arg("--state-dir").arg(state_dir(env)).arg("--config").arg(config);
    command.args(options.split_whitespace()).envs(keys.iter().copied()).envs(clock.environment());
    Controller::with(command, env.dir())
}

/// The controller as faults see it.
pub(crate) struct Subject<'a> {
    pub(crate) env: &'a TestEnv,
    pub(crate) controller: &'a Controller,
    /// Where switches connect.
    pub(crate) to: SocketAddr,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(env: &'a TestEnv, controller: &'a Controller) -> Self {
        Self { env, controller, to: controller.address().parse().unwrap() }
    }

    /// A position in the log, from which [`LogReader::count`] counts.
    pub(crate) fn log_from_now(&self) -> LogReader {
        let path = self.env.file("sluice.err");
        let position = fs::metadata(&path).unwrap().len();
        LogReader { path, position: Cell::new(position), count: Cell::new(0) }
    }
}

/// Counts lines of the log without reading all of it again.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    position: Cell<u64>,
    count: Cell<usize>,
}

impl LogReader {
    /// Lines since the start of this reader that contain `words`, which must be the same at each call.
    pub(crate) fn count(&self, words: &str) -> usize {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.position.get())).unwrap();
        let mut text = Vec::new();
        file.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text);
        let complete = text.rfind('\n').map_or("", |end| text.get(..=end).unwrap_or_default());
        self.position.set(self.position.get() + complete.len() as u64);
        let found = complete.lines().filter(|line| line.contains(words)).count();
        self.count.set(self.count.get() + found);
        self.count.get()
    }
}

/// Status and body of the response to a request of the API.
pub(crate) fn request(method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(API)?;
    stream.set_read_timeout(Some(LONG_TIMEOUT))?;
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Sum of all samples of the metric `name` that have `label`; of all if that is empty.
#[track_caller]
pub(crate) fn metric(name: &str, label: &str) -> u64 {
    let mut text = String::new();
    // While descriptors were exhausted, the server has accepted nothing; it does so again.
    wait_until(LONG_TIMEOUT, "the page with the metrics", || {
        match request("GET", "/metrics", "") {
            Ok((200, body)) => {
                text = body;
                true
            }
            _ => false,
        }
    });
    sum_of_samples(&text, name, label).unwrap_or(0)
}

/// Connections that have ended with `reason`.
#[track_caller]
pub(crate) fn closed(reason: &str) -> u64 {
    metric("sluice_connections_closed_total", &format!("reason=\"{reason}\""))
}

/// The number of open files of a process.
pub(crate) fn open_files(pid: u32) -> u64 {
    fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count() as u64
}
