//! The log: lines on standard error, written by a thread of `tracing-appender`.
//!
//! A thread that logs never waits for standard error. Lines that do not fit into the queue are dropped, and their number is
//! logged.

use std::io::{self, ErrorKind, IsTerminal as _, Stderr, Write};
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
        let stderr = DropReportingWriter {
            dropped: Arc::clone(&dropped),
            ..DropReportingWriter::new(io::stderr())
        };
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
    /// Lines that could not be written and have not been reported.
    unwritten: usize,
    /// Whether the last line could not be written.
    is_failing: bool,
    /// Whether the output ends within a line.
    is_cut: bool,
}

impl<W> DropReportingWriter<W> {
    fn new(inner: W) -> Self {
        let dropped = DroppedLines::default();
        Self { inner, dropped, reported: 0, unwritten: 0, is_failing: false, is_cut: false }
    }

    /// Lines that were dropped since the last call.
    fn newly_dropped(&mut self) -> usize {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        dropped - std::mem::replace(&mut self.reported, dropped)
    }
}

impl<W: Write> DropReportingWriter<W> {
    /// Writes `bytes` and notes if the output then ends within a line.
    fn write_bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.inner.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = bytes.get(n..).unwrap_or_default();
                    self.is_cut = !bytes.is_empty();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for DropReportingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    /// Writes a line. A failure, such as a full disk, is counted and reported after the next line that can be written.
    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let end_cut_line = if self.is_cut { self.write_bytes(b"\n") } else { Ok(()) };
        self.is_failing = end_cut_line.and_then(|()| self.write_bytes(line)).is_err();
        self.unwritten += usize::from(self.is_failing);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let lines = self.newly_dropped();
        if lines > 0 {
            warn!(lines, "log lines were dropped: standard error is not read fast enough");
        }
        // Reporting while writes fail would only add another line that fails.
        if self.unwritten > 0 && !self.is_failing {
            let lines = std::mem::take(&mut self.unwritten);
            warn!(lines, "log lines were lost: standard error could not be written");
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
        let writer = DropReportingWriter {
            dropped: Arc::clone(&dropped),
            ..DropReportingWriter::new(blocked)
        };
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
        let mut writer = DropReportingWriter { dropped, ..DropReportingWriter::new(io::sink()) };
        assert_eq!(writer.newly_dropped(), 0);
        for _ in 0..5 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(writer.newly_dropped() >= 3);
        assert_eq!(writer.newly_dropped(), 0);
    }

    /// Accepts `room` bytes, then fails as a full disk does.
    #[derive(Default)]
    struct SmallDisk {
        room: usize,
        content: Vec<u8>,
    }

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room);
            if n == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= n;
            self.content.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_lost_on_a_full_disk_are_counted_and_the_next_line_starts_anew() {
        let mut writer = DropReportingWriter::new(SmallDisk { room: 8, ..SmallDisk::default() });
        for line in ["one\n", "number two\n", "three\n"] {
            writer.write_all(line.as_bytes()).unwrap();
            writer.flush().unwrap();
        }
        assert_eq!(
            (writer.unwritten, writer.is_failing),
            (2, true),
            "reported only once it can be"
        );
        writer.inner.room = 100;
        writer.write_all(b"four\n").unwrap();
        assert_eq!(String::from_utf8_lossy(&writer.inner.content), "one\nnumb\nfour\n");
        writer.flush().unwrap();
        assert_eq!(writer.unwritten, 0);
    }
}
