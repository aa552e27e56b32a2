//! The audit log: one JSON object per line for each write.
//!
//! A thread of its own writes the file, so that a slow or full disk does not delay the API.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use sluice_io::clock;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{error, info};

use crate::config::AuditTarget;

/// Lines that wait for the disk; each has a few kilobytes at most.
const WAITING_MAX: usize = 1024;

/// How long a write waits until its line is on record, with `audit_required`.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the lines that wait for the disk may take when the server stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Every how many lost lines an error is logged.
const LOST_LOG_INTERVAL: u64 = 1000;

/// One line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditRecord {
    pub(crate) time_unix_s: f64,
    /// `begin` before a write, if it must be on record before it is made; `end` after it.
    pub(crate) event: &'static str,
    pub(crate) who: String,
    pub(crate) from: String,
    pub(crate) role: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The first bytes of the body.
    pub(crate) body: String,
    /// Of the whole body, if the line has only a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<f64>,
}

/// Writes records to where they are configured to go. Clones share the thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditLog {
    writers: Arc<Mutex<Writers>>,
    /// Lines that could not be written.
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Writers {
    current: Option<FileWriter>,
    /// Files that are no longer configured, for which lines may wait.
    ending: Vec<WriterThread>,
}

#[derive(Debug)]
struct FileWriter {
    path: PathBuf,
    lines: SyncSender<FileLine>,
    thread: WriterThread,
}

/// A thread that writes a file until all of its lines are written.
#[derive(Debug)]
struct WriterThread {
    /// Lines that are not written yet.
    waiting: Arc<AtomicU64>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
}

impl WriterThread {
    fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl Writers {
    /// Writes no more lines to the current file than those that wait.
    fn end_current(&mut self) {
        self.ending.retain(|thread| !thread.has_ended());
        // Dropping the sender ends the thread.
        self.ending.extend(self.current.take().map(|writer| writer.thread));
    }
}

#[derive(Debug)]
enum FileLine {
    Record(String, Option<oneshot::Sender<bool>>),
    /// Opens the file anew: another program has renamed it.
    Reopen,
}

impl AuditLog {
    /// Lines that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Uses the file from now on, or opens it anew.
    pub(crate) fn reopen(&self, target: &AuditTarget) {
        let mut writers = self.writers();
        let AuditTarget::File(path) = target else { return writers.end_current() };
        if let Some(same) = writers.current.as_ref().filter(|it| it.path == *path) {
            // If the queue is full, the file is opened anew with the next line that fails.
            let _ = same.lines.try_send(FileLine::Reopen);
        } else {
            writers.end_current();
            writers.current = self.start(path);
        }
    }

    /// Waits until the lines are written, but not for a disk that does not answer: its lines are counted as lost.
    pub(crate) fn close(&self) {
        let mut writers = self.writers();
        writers.end_current();
        let deadline = clock::now() + CLOSE_TIMEOUT;
        for thread in writers.ending.drain(..) {
            let left = deadline.saturating_duration_since(clock::now());
            if thread.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                let waiting = thread.waiting.load(Relaxed);
                self.lost.fetch_add(waiting, Relaxed);
                error!(lost = waiting, "audit log: the disk has not taken all lines");
            }
        }
    }

    fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, path: &Path) -> Option<FileWriter> {
        let (lines, receiver) = sync_channel(WAITING_MAX);
        let (file, lost) = (path.to_owned(), Arc::clone(&self.lost));
        let waiting = Arc::new(AtomicU64::new(0));
        let (ending, ended) = sync_channel(0);
        let of_thread = waiting.clone();
        let run = move || {
            // Dropped at the end.
            let _ending: SyncSender<()> = ending;
            write_lines(&file, &receiver, (&of_thread, &lost));
        };
        match thread::Builder::new().name("audit".to_owned()).spawn(run) {
            Ok(_) => {
                let thread = WriterThread { waiting, ended };
                Some(FileWriter { path: path.to_owned(), lines, thread })
            }
            Err(why) => {
                error!("cannot start the thread of the audit log: {why}");
                None
            }
        }
    }

    /// Writes a record; without waiting, and without an error: a loss is counted and logged.
    pub(crate) fn record(&self, target: &AuditTarget, record: &AuditRecord) {
        let line = line(record);
        match target {
            AuditTarget::Off => {}
            AuditTarget::Log => info!(target: "audit", record = line, "API write"),
            AuditTarget::File(_) => {
                if !self.send(FileLine::Record(line, None)) {
                    count_lost(&self.lost, "too many lines wait for the disk");
                }
            }
        }
    }

    /// Writes a record and waits until the system has taken it. `false` if it has not.
    pub(crate) async fn record_surely(&self, target: &AuditTarget, record: &AuditRecord) -> bool {
        if !matches!(target, AuditTarget::File(_)) {
            self.record(target, record);
            return true;
        }
        let (sender, written) = oneshot::channel();
        self.send(FileLine::Record(line(record), Some(sender)))
            && matches!(timeout(RECORD_TIMEOUT, written).await, Ok(Ok(true)))
    }

    fn send(&self, line: FileLine) -> bool {
        let writers = self.writers();
        let Some(writer) = &writers.current else { return false };
        // Before the thread can count it down.
        writer.thread.waiting.fetch_add(1, Relaxed);
        let is_sent = writer.lines.try_send(line).is_ok();
        if !is_sent {
            writer.thread.waiting.fetch_sub(1, Relaxed);
        }
        is_sent
    }
}

fn line(record: &AuditRecord) -> String {
    // Cannot fail: all keys are text.
    serde_json::to_string(record).unwrap_or_default()
}

fn count_lost(lost: &AtomicU64, why: &str) {
    let before = lost.fetch_add(1, Relaxed);
    if before.is_multiple_of(LOST_LOG_INTERVAL) {
        error!(lost = before + 1, "audit log: a line is lost: {why}");
    }
}

/// The thread: ends when nobody sends lines any more.
fn write_lines(path: &Path, lines: &Receiver<FileLine>, (waiting, lost): (&AtomicU64, &AtomicU64)) {
    let mut file = None;
    for line in lines {
        match line {
            FileLine::Reopen => file = None,
            FileLine::Record(line, written) => {
                let result = write_line(path, &mut file, line);
                waiting.fetch_sub(1, Relaxed);
                if let Err(why) = &result {
                    file = None;
                    count_lost(lost, &format!("{}: {why}", path.display()));
                }
                if let Some(written) = written {
                    // Fails if the request does not wait any more.
                    let _ = written.send(result.is_ok());
                }
            }
        }
    }
}

fn write_line(path: &Path, file: &mut Option<File>, mut line: String) -> io::Result<()> {
    line.push('\n');
    let opened = if let Some(file) = file {
        file
    } else {
        let opened =
            file.insert(OpenOptions::new().append(true).create(true).mode(0o600).open(path)?);
        if ends_within_line(path, opened) {
            line.insert(0, '\n');
        }
        opened
    };
    opened.write_all(line.as_bytes())
}

/// Whether the last line of a file is incomplete: the disk was full, or the machine has failed.
fn ends_within_line(path: &Path, file: &File) -> bool {
    let len = file.metadata().ok().filter(Metadata::is_file).map_or(0, |it| it.len());
    let mut last = [b'\n'];
    if let Some(at) = len.checked_sub(1) {
        // If it cannot be read, it is taken for complete.
        let _ = File::open(path).and_then(|file| file.read_exact_at(&mut last, at));
    }
    last != [b'\n']
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str) -> AuditRecord {
        AuditRecord {
            time_unix_s: 1.5,
            event: "end",
            who: "token web".to_owned(),
            from: "127.0.0.1:1".to_owned(),
            role: "operate".to_owned(),
            method: "POST".to_owned(),
            path: path.to_owned(),
            body: "a\nb".to_owned(),
            body_sha256: None,
            status: Some(200),
            duration_ms: Some(1.0),
        }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn each_record_is_one_line_also_after_the_file_was_renamed() {
        run(async {
            let path = std::env::temp_dir().join(format!("sluice-audit-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let target = AuditTarget::File(path.clone());
            let log = AuditLog::default();
            log.reopen(&target);
            assert!(log.record_surely(&target, &record("/a")).await);
            let old = path.with_extension("old");
            std::fs::rename(&path, &old).unwrap();
            log.reopen(&target);
            assert!(log.record_surely(&target, &record("/b")).await);
            let [first, second] = [&old, &path].map(|path| std::fs::read_to_string(path).unwrap());
            assert_eq!((first.lines().count(), second.lines().count()), (1, 1));
            assert!(first.contains(r#""path":"/a","body":"a\nb","status":200"#), "{first}");
            assert!(second.contains(r#""path":"/b""#), "{second}");
            for path in [old, path] {
                std::fs::remove_file(path).unwrap();
            }
        });
    }

    #[test]
    fn the_lines_that_wait_are_written_before_the_log_ends() {
        let path = std::env::temp_dir().join(format!("sluice-audit-end-{}", std::process::id()));
        let other = path.with_extension("other");
        let log = AuditLog::default();
        for path in [&path, &other] {
            let _ = std::fs::remove_file(path);
            let target = AuditTarget::File(path.clone());
            log.reopen(&target);
            for _ in 0..WAITING_MAX / 2 {
                log.record(&target, &record("/a"));
            }
        }
        log.close();
        for path in [path, other] {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!((lines, log.lost()), (WAITING_MAX / 2, 0));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_line_follows_an_incomplete_one_on_a_line_of_its_own() {
        run(async {
            let path =
                std::env::temp_dir().join(format!("sluice-audit-torn-{}", std::process::id()));
            std::fs::write(&path, r#"{"time_unix_s":1.5,"eve"#).unwrap();
            let target = AuditTarget::File(path.clone());
            let log = AuditLog::default();
            for _ in 0..2 {
                log.reopen(&target);
                assert!(log.record_surely(&target, &record("/a")).await);
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<_> = text.lines().map(|line| line.ends_with('}')).collect();
            assert_eq!(lines, [false, true, true], "{text}");
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    fn a_disk_that_is_full_loses_lines_that_are_counted() {
        run(async {
            let target = AuditTarget::File("/dev/full".into());
            let log = AuditLog::default();
            log.reopen(&target);
            assert!(!log.record_surely(&target, &record("/a")).await);
            assert_eq!(log.lost(), 1);
            log.record(&target, &record("/b"));
            assert!(!log.record_surely(&target, &record("/c")).await);
            assert_eq!(log.lost(), 3);
        });
    }
}
