//! Bytes over time: a row for every 10 ms, and the busiest second of them.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use super::command::{Direction, PerDirection};

/// Length of a bin.
pub const BIN_LEN: Duration = Duration::from_millis(10);

/// Bins of a second.
const BINS_PER_SECOND: usize = 100;

/// What the columns are called.
pub const CSV_HEADER: &str = "time_ms,up_offered,up_delivered,down_offered,down_delivered";

/// Where a series goes.
pub struct TimeSeriesWriter(BufWriter<Box<dyn Write + Send>>);

impl TimeSeriesWriter {
    /// Writes rows to `to`, many at a time.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self(BufWriter::new(Box::new(to)))
    }
}

impl fmt::Debug for TimeSeriesWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// Bytes of a bin, in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct BinBytes {
    offered: u64,
    delivered: u64,
}

/// Bytes per bin since the start, both ways.
#[derive(Debug)]
pub(super) struct TimeSeries {
    start: Instant,
    /// Bins that are over.
    n_ended: u64,
    bin: PerDirection<BinBytes>,
    busiest: PerDirection<BusiestSecond>,
    sink: Option<TimeSeriesWriter>,
    error: Option<io::Error>,
}

impl TimeSeries {
    /// A series that starts now.
    pub(super) fn new(start: Instant, sink: Option<TimeSeriesWriter>) -> Self {
        let busiest = PerDirection::from_fn(|_| BusiestSecond::new());
        let mut new = Self {
            start,
            n_ended: 0,
            bin: PerDirection::default(),
            busiest,
            sink: None,
            error: None,
        };
        new.sink = sink;
        new.write(|sink| writeln!(sink, "{CSV_HEADER}"));
        new
    }

    pub(super) fn offered(&mut self, now: Instant, way: Direction, bytes: u32) {
        self.advance(now);
        self.bin.get_mut(way).offered += u64::from(bytes);
    }

    pub(super) fn delivered(&mut self, now: Instant, way: Direction, bytes: u32) {
        self.advance(now);
        self.bin.get_mut(way).delivered += u64::from(bytes);
    }

    /// Ends the bins that are over by `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        let begun = now.saturating_duration_since(self.start).as_nanos() / BIN_LEN.as_nanos();
        let begun = u64::try_from(begun).unwrap_or(u64::MAX);
        while self.n_ended < begun {
            self.end_bin();
            // Without a file, a second of silence is like any longer one.
            let silent = begun - self.n_ended;
            if self.sink.is_none() && silent > BINS_PER_SECOND as u64 {
                self.n_ended = begun - BINS_PER_SECOND as u64;
            }
        }
    }

    fn end_bin(&mut self) {
        let PerDirection { up, down } = std::mem::take(&mut self.bin);
        self.busiest.up.add(up.delivered);
        self.busiest.down.add(down.delivered);
        let ms = u128::from(self.n_ended) * BIN_LEN.as_millis();
        self.write(|sink| {
            let [a, b, c, d] = [up.offered, up.delivered, down.offered, down.delivered];
            writeln!(sink, "{ms},{a},{b},{c},{d}")
        });
        self.n_ended += 1;
    }

    /// Hands over what was written so far.
    pub(super) fn flush(&mut self) {
        self.write(Write::flush);
    }

    /// Ends the bin that has begun, and the series.
    pub(super) fn finish(&mut self, now: Instant) {
        self.advance(now);
        self.end_bin();
        self.flush();
        self.sink = None;
    }

    fn write(&mut self, act: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> io::Result<()>) {
        if let Some(TimeSeriesWriter(sink)) = &mut self.sink
            && let Err(e) = act(sink)
        {
            self.error = Some(e);
            self.sink = None;
        }
    }

    /// Whether it goes anywhere.
    pub(super) fn is_enabled(&self) -> bool {
        self.sink.is_some()
    }

    /// Why it goes nowhere any more.
    pub(super) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Bytes delivered in the busiest second, of bins that are over.
    pub(super) fn busiest_second(&self, way: Direction) -> u64 {
        self.busiest.get(way).max
    }
}

/// The most bytes in any second.
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

    /// A file that can be looked at.
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
    fn a_row_for_every_bin_of_silence_too() {
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
    fn the_busiest_second_is_any_second() {
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
    fn a_full_disk_ends_the_series_and_nothing_else() {
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
