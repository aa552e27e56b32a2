//! The log: lines on standard error, written by a thread of its own.
//!
//! A thread that logs hands its line over and goes on; it never waits for whoever reads standard error. Lines for
//! which there is no room are lost, and the log says how many.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sluice_io::clock;
use tracing::warn;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

use crate::config::{Format, Log};

/// Lines that may wait to be written: some seconds of a flood, a MiB or so.
const LINES_MAX: usize = 8192;

/// How long the last lines may take at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// The log of the process, once started.
#[derive(Debug, Clone)]
pub(crate) struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    lines: Lines,
}

impl Logging {
    /// Starts the log. Once per process.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn start(log: Log) -> io::Result<Self> {
        let lines = Lines::new()?;
        let (filter, level) = reload::Layer::new(log.level);
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let layer = fmt::layer().with_writer(lines.clone()).with_target(false);
        let layer = match log.format {
            Format::Text => layer.with_ansi(colours).boxed(),
            Format::Json => layer.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(layer).init();
        Ok(Self { level, lines })
    }

    /// Logs from now on what `level` says.
    pub(crate) fn set_level(&self, level: LevelFilter) {
        // It fails only when the subscriber is gone, and ours stays as long as the process.
        let _ = self.level.modify(|filter| *filter = level);
    }

    /// Waits until what was logged is written, but not for long.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        let give_up = clock::now() + FLUSH_TIMEOUT;
        let mut message = Message::Flush(done);
        while let Err(e) = self.lines.queue.try_send(message) {
            if clock::now() > give_up {
                return;
            }
            clock::sleep(Duration::from_millis(5));
            message = match e {
                std::sync::mpsc::TrySendError::Full(message)
                | std::sync::mpsc::TrySendError::Disconnected(message) => message,
            };
        }
        let _ = written.recv_timeout(FLUSH_TIMEOUT);
    }
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The way of lines to standard error.
#[derive(Debug, Clone)]
struct Lines {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn new() -> io::Result<Self> {
        let (queue, messages) = sync_channel(LINES_MAX);
        let lines = Self { queue, lost: Arc::default() };
        let lost = Arc::clone(&lines.lost);
        let write = move || write(&messages, &lost, &mut io::stderr());
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(lines)
    }
}

/// A line is handed over in one call, which is how the formatter writes it.
impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// The thread's whole life.
fn write(messages: &Receiver<Message>, lost: &AtomicU64, to: &mut impl Write) {
    for message in messages {
        match message {
            // Where the log cannot be written there is no place to say so.
            Message::Line(line) => drop(to.write_all(&line)),
            Message::Flush(done) => drop(done.try_send(())),
        }
        let lines = lost.swap(0, Relaxed);
        if lines > 0 {
            warn!(lines, "lines of the log were lost: standard error is not read fast enough");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_room_is_lost_and_counted_and_nobody_waits() {
        let (queue, messages) = sync_channel(2);
        let lines = Lines { queue, lost: Arc::default() };
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            assert_eq!((&lines).write(line.as_bytes()).unwrap(), 2);
        }
        assert_eq!(lines.lost.load(Relaxed), 2);
        let lost = Arc::clone(&lines.lost);
        drop(lines);
        let mut out = Vec::new();
        write(&messages, &lost, &mut out);
        assert_eq!((out.as_slice(), lost.load(Relaxed)), (&b"a\nb\n"[..], 0));
    }
}
