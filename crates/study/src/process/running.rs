//! A controller that runs.

use std::fmt;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_base::ordered;
use sluice_io::process_tree::{self, ProcessTree, Program, TreeEnd};
use sluice_io::{clock, shell};
use sluice_openflow::Version;

use super::Placeholders;
use super::readiness::{self, Readiness};
use super::usage_log::UsageLog;
use crate::definition::{ControllerRow, StopSignal, Variant};
use crate::record::Usage;

/// Interval between readings of the use of resources.
const READING_INTERVAL: Duration = Duration::from_millis(200);

/// Time between the two readings that say which processes a controller has when it is ready.
const CONFIRMATION_INTERVAL: Duration = Duration::from_millis(20);

/// Name of the file with the output of a controller.
const LOG: &str = "controller.log";

/// The end of a log that is searched for its last lines.
const LOG_BYTES: u64 = 64 << 10;

/// Size beyond which the log of a running controller is emptied.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Lines of a controller's log that an error quotes.
const LOG_LINES: usize = 3;

/// Longest line of a log that an error quotes.
const LOG_LINE_CHARS: usize = 200;

/// A controller that has been started and is ready.
#[derive(Debug)]
pub struct RunningController {
    tree: ProcessTree,
    log: PathBuf,
    started_at: Instant,
    start_up: Duration,
    /// Time before that, since when it may have been ready.
    start_up_resolution: Duration,
    stop_signal: process_tree::StopSignal,
    grace: Duration,
    usage_log: UsageLog,
    next_reading: Instant,
}

/// Why a controller did not get ready.
#[derive(Debug)]
pub enum StartError {
    /// Files of the start could not be written, or the program not be started.
    Io(String),
    /// Another program listens on the port that the controller cannot change.
    PortInUse(u16),
    /// It ended before it was ready.
    Ended(String),
    /// It was not ready in time.
    NotReady {
        /// The limit.
        seconds: f64,
        /// How far it got.
        missing: String,
        /// The end of its log.
        log: String,
    },
    /// The command after the start failed.
    Then(String),
    /// The study was interrupted.
    Interrupted,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(f, "it could not be started: {why}"),
            Self::PortInUse(port) => write!(f, "port {port}, which it needs, is in use"),
            Self::Ended(log) => write!(f, "it ended before it was ready{log}"),
            Self::NotReady { seconds, missing, log } => {
                write!(f, "it was not ready after {seconds} s: {missing}{log}")
            }
            Self::Then(why) => write!(f, "the command after its start failed: {why}"),
            Self::Interrupted => f.write_str("the study was interrupted"),
        }
    }
}

impl std::error::Error for StartError {}

impl RunningController {
    /// Starts a controller with further `arguments`, waits until it is ready, and lets it settle.
    ///
    /// # Errors
    /// Why it is not ready. All its processes have ended then.
    pub fn start(
        row: &ControllerRow,
        variant: &Variant,
        placeholders: &Placeholders,
        version: Version,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, StartError> {
        let program = program(row, variant, placeholders)
            .map_err(|error| StartError::Io(error.to_string()))?;
        // Other errors, such as that of a port that only root may use, are the controller's to report.
        let is_in_use = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, placeholders.port)).is_err_and(is_in_use) {
            return Err(StartError::PortInUse(placeholders.port));
        }
        let started_at = clock::now();
        let tree = ProcessTree::start(&program)
            .map_err(|error| StartError::Io(format!("{}: {error}", program.program)))?;
        let mut controller = Self::new(tree, program.log.clone(), row, started_at);
        controller.wait_until_ready(row, placeholders, version, &program.log, is_interrupted)?;
        run_command_after_start(row, placeholders, &controller.tree)?;
        let settle = Duration::try_from_secs_f64(row.ready.settle_s).unwrap_or_default();
        controller.settle(settle, is_interrupted)?;
        controller.usage_log.make_room();
        controller.take_reading(clock::now());
        clock::sleep(CONFIRMATION_INTERVAL);
        controller.take_reading(clock::now());
        controller.usage_log.mark_ready();
        Ok(controller)
    }

    /// A controller that was started at `started_at`.
    fn new(tree: ProcessTree, log: PathBuf, row: &ControllerRow, started_at: Instant) -> Self {
        Self {
            tree,
            log,
            started_at,
            start_up: Duration::ZERO,
            start_up_resolution: Duration::ZERO,
            stop_signal: match row.stop.signal {
                StopSignal::Term => process_tree::StopSignal::Term,
                StopSignal::Int => process_tree::StopSignal::Int,
            },
            grace: Duration::try_from_secs_f64(row.stop.grace_s).unwrap_or_default(),
            usage_log: UsageLog::default(),
            next_reading: started_at,
        }
    }

    /// Lets it run for `time` before it is measured.
    fn settle(
        &mut self,
        time: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(), StartError> {
        self.observe_for(time, is_interrupted);
        if is_interrupted() {
            return Err(StartError::Interrupted);
        }
        Ok(())
    }

    fn wait_until_ready(
        &mut self,
        row: &ControllerRow,
        placeholders: &Placeholders,
        version: Version,
        log: &Path,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(), StartError> {
        let seconds = row.ready.timeout_s;
        let deadline =
            self.started_at + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4);
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, placeholders.port));
        let mut unanswered = 0;
        let mut not_ready_at = self.started_at;
        loop {
            let check_started_at = clock::now();
            let readiness =
                readiness::check(target, version, row.ready.probe, unanswered, deadline);
            if let Readiness::Ready(at) = readiness {
                self.start_up = at.saturating_duration_since(self.started_at);
                self.start_up_resolution = at.saturating_duration_since(not_ready_at);
                return Ok(());
            }
            not_ready_at = check_started_at;
            if readiness == Readiness::NoAnswer {
                unanswered += 1;
            }
            if is_interrupted() {
                return Err(StartError::Interrupted);
            }
            if !self.tree.is_running() {
                return Err(StartError::Ended(end_of_log(log)));
            }
            if clock::now() >= deadline {
                let missing = readiness.describe();
                return Err(StartError::NotReady { seconds, missing, log: end_of_log(log) });
            }
            self.observe();
        }
    }

    /// Process id of the program that was started.
    pub fn id(&self) -> u32 {
        self.tree.id()
    }

    /// Reads the use of resources if it is due. To be called often.
    pub fn observe(&mut self) {
        let now = clock::now();
        if now >= self.next_reading {
            self.next_reading = now + READING_INTERVAL;
            self.take_reading(now);
        }
    }

    fn take_reading(&mut self, now: Instant) {
        if self.log.metadata().is_ok_and(|it| it.len() > LOG_BYTES_MAX) {
            // What cannot be emptied is not the controller's fault.
            let _ = fs::File::options().write(true).truncate(true).open(&self.log);
        }
        self.usage_log.add((now - self.started_at).as_secs_f64(), &self.tree.usage());
    }

    /// Reads the use of resources for `time`.
    pub fn observe_for(&mut self, time: Duration, is_interrupted: &dyn Fn() -> bool) {
        let until = clock::now() + time;
        loop {
            self.observe();
            let now = clock::now();
            if now >= until || is_interrupted() {
                return;
            }
            clock::sleep((until - now).min(READING_INTERVAL));
        }
    }

    /// Processor time that its processes have used so far, in seconds.
    pub fn cpu_s(&mut self) -> f64 {
        self.tree.usage().cpu_s
    }

    /// The part of it that is not yet that of this process's children: see [`ProcessTree::unreaped_cpu_s`].
    pub fn unreaped_cpu_s(&mut self) -> f64 {
        self.tree.unreaped_cpu_s()
    }

    /// Resident memory of its processes, as last read.
    pub fn resident_bytes(&self) -> u64 {
        self.usage_log.resident_bytes()
    }

    /// Stops it. Returns what it used.
    pub fn stop(mut self) -> Usage {
        self.take_reading(clock::now());
        let end = self.tree.stop(self.stop_signal, self.grace);
        self.usage_log.finish([self.start_up, self.start_up_resolution], end == TreeEnd::InOrder)
    }
}

/// Runs the command after the start. What it leaves running is part of the controller.
fn run_command_after_start(
    row: &ControllerRow,
    placeholders: &Placeholders,
    tree: &ProcessTree,
) -> Result<(), StartError> {
    let Some(command) = &row.start.then else { return Ok(()) };
    let command = placeholders.fill(command);
    let timeout = Duration::try_from_secs_f64(row.ready.timeout_s).unwrap_or_default();
    let (folder, log) = (&placeholders.directory, placeholders.directory.join(LOG));
    match shell::run_in(folder, &command, &log, timeout, tree.variable()) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(StartError::Then(format!("{command}: {status}"))),
        Ok(None) => Err(StartError::Then(format!("{command}: it did not end in time"))),
        Err(error) => Err(StartError::Then(format!("{command}: {error}"))),
    }
}

/// The program of a controller, whose files have been written.
fn program(
    row: &ControllerRow,
    variant: &Variant,
    placeholders: &Placeholders,
) -> io::Result<Program> {
    let start = &row.start;
    for (name, content) in &start.files {
        let path = placeholders.directory.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, placeholders.fill(content))?;
    }
    let environment = start.environment.iter().chain(&variant.environment);
    Ok(Program {
        program: placeholders.fill(&start.program),
        arguments: [&start.arguments[..], &variant.arguments]
            .concat()
            .iter()
            .map(|argument| placeholders.fill(argument))
            .collect(),
        environment: ordered(
            environment.map(|(name, value)| (name.clone(), placeholders.fill(value))),
        ),
        directory: placeholders.directory.clone(),
        log: placeholders.directory.join(LOG),
        cores: placeholders.cores.clone(),
    })
}

/// The last bytes of a file, which may be of any size.
fn end_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

/// The last lines of a log, as the end of a sentence; empty if there are none.
fn end_of_log(path: &Path) -> String {
    let text = end_of_file(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace(|c: char| c.is_control() && c != '\n', " ");
    let mut lines: Vec<_> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LOG_LINES).collect();
    if lines.is_empty() {
        return String::new();
    }
    lines.reverse();
    let lines = lines.iter().map(|line| line.chars().take(LOG_LINE_CHARS).collect::<String>());
    format!("; its log ends with: {}", lines.collect::<Vec<_>>().join(" / "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A controller that is `sleep 600`, with the command `then` after the start.
    fn sleeping(then: &str) -> (ControllerRow, RunningController) {
        let row = format!(
            "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n[start]\n\
             program = \"sleep\"\nthen = '{then}'\n"
        );
        let row: ControllerRow = toml::from_str(&row).unwrap();
        let program = Program {
            program: row.start.program.clone(),
            arguments: vec!["600".to_owned()],
            environment: BTreeMap::new(),
            directory: "/".into(),
            log: "/dev/null".into(),
            cores: Vec::new(),
        };
        let tree = ProcessTree::start(&program).unwrap();
        let controller = RunningController::new(tree, program.log, &row, clock::now());
        (row, controller)
    }

    #[test]
    fn what_the_command_after_the_start_leaves_running_ends_with_the_controller() {
        let directory =
            std::env::temp_dir().join(format!("sluice-after-start-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let placeholders = Placeholders {
            port: 0,
            api_port: 0,
            threads: 1,
            cores: Vec::new(),
            directory: directory.clone(),
            home: "/".into(),
            sluice: "/".into(),
        };
        let (row, controller) = sleeping("sleep 600 & echo $! >pid");
        run_command_after_start(&row, &placeholders, &controller.tree).unwrap();
        let pid = fs::read_to_string(directory.join("pid")).unwrap();
        let process = PathBuf::from("/proc").join(pid.trim());
        assert!(process.exists());
        let usage = controller.stop();
        assert!(usage.survived && usage.stopped_in_order);
        assert_eq!(usage.processes.len(), 2);
        assert!(!process.exists());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_controller_that_has_not_settled_because_of_an_interruption_is_not_started() {
        let (_, mut controller) = sleeping("");
        let interrupted = controller.settle(Duration::from_secs(3600), &|| true);
        assert!(matches!(interrupted, Err(StartError::Interrupted)));
        assert!(controller.settle(Duration::ZERO, &|| false).is_ok());
    }
}
