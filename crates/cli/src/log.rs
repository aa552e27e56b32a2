//! The log: lines on standard error, written by a thread of `tracing-appender`.
//!
//! A thread that logs never waits for standard error. Lines that do not fit into the queue are dropped, and their number is
//! logged.

use std::io::{self, IsTerminal as _, Stderr, Write};
use std::sync::{Arc, OnceLock};

use tracing::warn;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

use crate::config::{LogConfig, LogFormat};

/// Capacity of the queue of lines: about 1 MiB.
const QUEUED_LINES_MAX: usize = 8192;

/// The log of the process. Dropping it waits up to about a second until the last lines are written.
#[derive(Debug)]
pub(crate) struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    _writer: WorkerGuard,
}

impl Logging {
    /// Starts the log; may be called once per process.
    pub(crate) fn start(config: LogConfig) -> Self {
        let dropped = DroppedLines::default();
        let stderr =
            DropReportingWriter { inner: io::stderr(), dropped: Arc::clone(&dropped), reported: 0 };
        let builder = NonBlockingBuilder::default().lossy(true).thread_name("log");
        let (lines, writer) = builder.buffered_lines_limit(QUEUED_LINES_MAX).finish(stderr);
        let _ = dropped.set(lines.error_counter());
        let (filter, level) = reload::Layer::new(config.level);
        let has_colors = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let layer = fmt::layer().with_writer(lines).with_target(false);
        let layer = match config.format {
            LogFormat::Text => layer.with_ansi(has_colors).boxed(),
            LogFormat::Json => layer.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(layer).init();
        Self { level, _writer: writer }
    }

    /// Sets the lowest level that is logged.
    pub(crate) fn set_level(&self, level: LevelFilter) {
        // This fails only if the subscriber was dropped, and it lives as long as the process.
        let _ = self.level.modify(|filter| *filter = level);
    }
}

/// The counter of dropped lines, set as soon as the queue exists.
type DroppedLines = Arc<OnceLock<ErrorCounter>>;

/// Writes to standard error and reports dropped lines after each batch.
#[derive(Debug)]
struct DropReportingWriter<W = Stderr> {
    inner: W,
    dropped: DroppedLines,
    /// Dropped lines that have been reported.
    reported: usize,
}

impl<W> DropReportingWriter<W> {
    /// Lines that were dropped since the last call.
    fn newly_dropped(&mut self) -> usize {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        dropped - std::mem::replace(&mut self.reported, dropped)
    }
}

impl<W: Write> Write for DropReportingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.inner.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        let lines = self.newly_dropped();
        if lines > 0 {
            warn!(lines, "log lines were dropped: standard error is not read fast enough");
        }
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Writes to a channel, and blocks until the test releases it.
    struct BlockedWriter {
        released: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for BlockedWriter {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.released.recv();
            let _ = self.written.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_exceed_the_queue_are_dropped_and_counted_without_blocking() {
        let ((release, released), (written, lines_written)) = (channel(), channel());
        let dropped = DroppedLines::default();
        let blocked = BlockedWriter { released, written };
        let writer =
            DropReportingWriter { inner: blocked, dropped: Arc::clone(&dropped), reported: 0 };
        let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(2);
        let (mut lines, guard) = builder.finish(writer);
        let counter = lines.error_counter();
        dropped.set(lines.error_counter()).unwrap();
        for _ in 0..6 {
            lines.write_all(b"line\n").unwrap();
        }
        // Two lines are queued, and the thread may have taken a third one.
        let count = counter.dropped_lines();
        assert!((3..=4).contains(&count), "{count}");
        drop(release);
        drop(guard);
        assert_eq!(lines_written.iter().count(), 6 - count);
    }

    #[test]
    fn dropped_lines_are_reported_once() {
        let ((_release, released), (written, _)) = (channel(), channel());
        let dropped = DroppedLines::default();
        let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(1);
        let (mut lines, _guard) = builder.finish(BlockedWriter { released, written });
        dropped.set(lines.error_counter()).unwrap();
        let mut writer = DropReportingWriter { inner: io::sink(), dropped, reported: 0 };
        assert_eq!(writer.newly_dropped(), 0);
        for _ in 0..5 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(writer.newly_dropped() >= 3);
        assert_eq!(writer.newly_dropped(), 0);
    }
}
