//! Bytes over time: one CSV row every 10 ms, and the busiest second.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use super::command::{Direction, PerDirection};

/// Length of a bin.
pub const BIN_LEN: Duration = Duration::from_millis(10);

const BINS_PER_SECOND: usize = 100;

/// Names of the CSV columns.
pub const CSV_HEADER: &str = "time_ms,up_offered,up_delivered,down_offered,down_delivered";

/// A buffered writer for a time series.
pub struct TimeSeriesWriter(BufWriter<Box<dyn Write + Send>>);

impl TimeSeriesWriter {
    /// Writes rows to `to`, buffered.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self(BufWriter::new(Box::new(to)))
    }
}

impl fmt::Debug for TimeSeriesWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeSeriesWriter")
    }
}

/// Bytes of a bin in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct BinBytes {
    offered: u64,
    delivered: u64,
}

/// Bytes per bin since the start, in both directions.
#[derive(Debug)]
pub(super) struct TimeSeries {
    start: Instant,
    /// Number of complete bins.
    n_ended: u64,
    bin: PerDirection<BinBytes>,
    busiest: PerDirection<BusiestSecond>,
    writer: Option<TimeSeriesWriter>,
    error: Option<io::Error>,
}

impl TimeSeries {
    /// Starts a time series.
    pub(super) fn new(start: Instant, writer: Option<TimeSeriesWriter>) -> Self {
        let busiest = PerDirection::from_fn(|_| BusiestSecond::new());
        let mut new = Self {
            start,
            n_ended: 0,
            bin: PerDirection::default(),
            busiest,
            writer: None,
            error: None,
        };
        new.writer = writer;
        new.write(|writer| writeln!(writer, "{CSV_HEADER}"));
        new
    }

    pub(super) fn offered(&mut self, now: Instant, direction: Direction, bytes: u32) {
        self.advance(now);
        self.bin.get_mut(direction).offered += u64::from(bytes);
    }

    pub(super) fn delivered(&mut self, now: Instant, direction: Direction, bytes: u32) {
        self.advance(now);
        self.bin.get_mut(direction).delivered += u64::from(bytes);
    }

    /// Completes the bins that end by `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        let n_started = now.saturating_duration_since(self.start).as_nanos() / BIN_LEN.as_nanos();
        let n_started = u64::try_from(n_started).unwrap_or(u64::MAX);
        while self.n_ended < n_started {
            self.end_bin();
            // Without a file, only the last second matters.
            let silent = n_started - self.n_ended;
            if self.writer.is_none() && silent > BINS_PER_SECOND as u64 {
                self.n_ended = n_started - BINS_PER_SECOND as u64;
            }
        }
    }

    fn end_bin(&mut self) {
        let PerDirection { up, down } = std::mem::take(&mut self.bin);
        self.busiest.up.add(up.delivered);
        self.busiest.down.add(down.delivered);
        let ms = u128::from(self.n_ended) * BIN_LEN.as_millis();
        self.write(|writer| {
            let [a, b, c, d] = [up.offered, up.delivered, down.offered, down.delivered];
            writeln!(writer, "{ms},{a},{b},{c},{d}")
        });
        self.n_ended += 1;
    }

    /// Flushes complete rows to the file.
    pub(super) fn flush(&mut self) {
        self.write(Write::flush);
    }

    /// Writes the last, partial bin and closes the file.
    pub(super) fn finish(&mut self, now: Instant) {
        self.advance(now);
        self.end_bin();
        self.flush();
        self.writer = None;
    }

    fn write(&mut self, act: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> io::Result<()>) {
        if let Some(TimeSeriesWriter(writer)) = &mut self.writer
            && let Err(e) = act(writer)
        {
            self.error = Some(e);
            self.writer = None;
        }
    }

    /// Whether it is written to a file.
    pub(super) fn is_enabled(&self) -> bool {
        self.writer.is_some()
    }

    /// The error that ended the file.
    pub(super) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Most bytes delivered in any second, counting complete bins.
    pub(super) fn busiest_second(&self, direction: Direction) -> u64 {
        self.busiest.get(direction).max
    }
}

/// The largest sum of bytes over one second.
#[derive(Debug)]
struct BusiestSecond {
    bins: Box<[u64; BINS_PER_SECOND]>,
    at: usize,
    sum: u64,
    max: u64,
}

impl BusiestSecond {
    fn new() -> Self {
        Self { bins: Box::new([0; BINS_PER_SECOND]), at: 0, sum: 0, max: 0 }
    }

    fn add(&mut self, bytes: u64) {
        if let Some(oldest) = self.bins.get_mut(self.at) {
            self.sum = self.sum + bytes - std::mem::replace(oldest, bytes);
        }
        self.at = (self.at + 1) % BINS_PER_SECOND;
        self.max = self.max.max(self.sum);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sluice_io::clock;

    use super::*;

    /// A file whose contents can be inspected.
    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn every_bin_has_a_row_even_without_traffic() {
        let (file, start) = (SharedBuffer::default(), clock::now());
        let mut series = TimeSeries::new(start, Some(TimeSeriesWriter::new(file.clone())));
        series.offered(start, Direction::Up, 100);
        series.delivered(start + ms(9), Direction::Up, 60);
        series.offered(start + ms(10), Direction::Down, 7);
        series.delivered(start + ms(35), Direction::Down, 7);
        series.finish(start + ms(38));
        let text = String::from_utf8(file.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            format!("{CSV_HEADER}\n0,100,60,0,0\n10,0,0,7,0\n20,0,0,0,0\n30,0,0,0,7\n")
        );
    }

    #[test]
    fn the_busiest_second_may_start_at_any_bin() {
        let start = clock::now();
        let mut series = TimeSeries::new(start, None);
        for (at, bytes) in [(0, 10), (500, 20), (1_400, 25), (2_600, 30), (3_000_000, 1)] {
            series.delivered(start + ms(at), Direction::Up, bytes);
        }
        series.advance(start + ms(4_000_000));
        assert_eq!(
            (series.busiest_second(Direction::Up), series.busiest_second(Direction::Down)),
            (45, 0)
        );
    }

    #[test]
    fn a_write_error_ends_only_the_csv_file() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let start = clock::now();
        let mut series = TimeSeries::new(start, Some(TimeSeriesWriter::new(Full)));
        series.delivered(start + ms(20), Direction::Up, 5);
        assert!(series.is_enabled());
        series.flush();
        assert_eq!(series.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        series.finish(start + ms(30));
        assert_eq!(series.busiest_second(Direction::Up), 5);
    }
}
