//! Bytes over time: a row for every 10 ms, and the busiest second of them.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use super::control::{Both, Way};

/// Length of a bin.
pub const BIN: Duration = Duration::from_millis(10);

/// Bins of a second.
const SECOND: usize = 100;

/// What the columns are called.
pub const COLUMNS: &str = "time_ms,up_offered,up_delivered,down_offered,down_delivered";

/// Where a series goes.
pub struct Sink(BufWriter<Box<dyn Write + Send>>);

impl Sink {
    /// Writes rows to `to`, many at a time.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self(BufWriter::new(Box::new(to)))
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// Bytes of a bin, in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes {
    offered: u64,
    delivered: u64,
}

/// Bytes per bin since the start, both ways.
#[derive(Debug)]
pub(super) struct Series {
    start: Instant,
    /// Bins that are over.
    over: u64,
    row: Both<Bytes>,
    busiest: Both<Busiest>,
    sink: Option<Sink>,
    fault: Option<io::Error>,
}

impl Series {
    /// A series that starts now.
    pub(super) fn new(start: Instant, sink: Option<Sink>) -> Self {
        let busiest = Both::of(|_| Busiest::new());
        let mut new =
            Self { start, over: 0, row: Both::default(), busiest, sink: None, fault: None };
        new.sink = sink;
        new.write(|sink| writeln!(sink, "{COLUMNS}"));
        new
    }

    pub(super) fn offered(&mut self, now: Instant, way: Way, bytes: u32) {
        self.pass(now);
        self.row.at_mut(way).offered += u64::from(bytes);
    }

    pub(super) fn delivered(&mut self, now: Instant, way: Way, bytes: u32) {
        self.pass(now);
        self.row.at_mut(way).delivered += u64::from(bytes);
    }

    /// Ends the bins that are over by `now`.
    pub(super) fn pass(&mut self, now: Instant) {
        let begun = now.saturating_duration_since(self.start).as_nanos() / BIN.as_nanos();
        let begun = u64::try_from(begun).unwrap_or(u64::MAX);
        while self.over < begun {
            self.end_bin();
            // Without a file, a second of silence is like any longer one.
            let silent = begun - self.over;
            if self.sink.is_none() && silent > SECOND as u64 {
                self.over = begun - SECOND as u64;
            }
        }
    }

    fn end_bin(&mut self) {
        let Both { up, down } = std::mem::take(&mut self.row);
        self.busiest.up.add(up.delivered);
        self.busiest.down.add(down.delivered);
        let ms = u128::from(self.over) * BIN.as_millis();
        self.write(|sink| {
            let [a, b, c, d] = [up.offered, up.delivered, down.offered, down.delivered];
            writeln!(sink, "{ms},{a},{b},{c},{d}")
        });
        self.over += 1;
    }

    /// Hands over what was written so far.
    pub(super) fn flush(&mut self) {
        self.write(Write::flush);
    }

    /// Ends the bin that has begun, and the series.
    pub(super) fn end(&mut self, now: Instant) {
        self.pass(now);
        self.end_bin();
        self.flush();
        self.sink = None;
    }

    fn write(&mut self, act: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> io::Result<()>) {
        if let Some(Sink(sink)) = &mut self.sink
            && let Err(e) = act(sink)
        {
            self.fault = Some(e);
            self.sink = None;
        }
    }

    /// Whether it goes anywhere.
    pub(super) fn is_written(&self) -> bool {
        self.sink.is_some()
    }

    /// Why it goes nowhere any more.
    pub(super) fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// Bytes delivered in the busiest second, of bins that are over.
    pub(super) fn busiest(&self, way: Way) -> u64 {
        self.busiest.at(way).most
    }
}

/// The most bytes in any second.
#[derive(Debug)]
struct Busiest {
    bins: Box<[u64; SECOND]>,
    at: usize,
    sum: u64,
    most: u64,
}

impl Busiest {
    fn new() -> Self {
        Self { bins: Box::new([0; SECOND]), at: 0, sum: 0, most: 0 }
    }

    fn add(&mut self, bytes: u64) {
        if let Some(oldest) = self.bins.get_mut(self.at) {
            self.sum = self.sum + bytes - std::mem::replace(oldest, bytes);
        }
        self.at = (self.at + 1) % SECOND;
        self.most = self.most.max(self.sum);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sluice_io::clock;

    use super::*;

    /// A file that can be looked at.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
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
        let (page, start) = (Page::default(), clock::now());
        let mut series = Series::new(start, Some(Sink::new(page.clone())));
        series.offered(start, Way::Up, 100);
        series.delivered(start + ms(9), Way::Up, 60);
        series.offered(start + ms(10), Way::Down, 7);
        series.delivered(start + ms(35), Way::Down, 7);
        series.end(start + ms(38));
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, format!("{COLUMNS}\n0,100,60,0,0\n10,0,0,7,0\n20,0,0,0,0\n30,0,0,0,7\n"));
    }

    #[test]
    fn the_busiest_second_is_any_second() {
        let start = clock::now();
        let mut series = Series::new(start, None);
        for (at, bytes) in [(0, 10), (500, 20), (1_400, 25), (2_600, 30), (3_000_000, 1)] {
            series.delivered(start + ms(at), Way::Up, bytes);
        }
        series.pass(start + ms(4_000_000));
        assert_eq!((series.busiest(Way::Up), series.busiest(Way::Down)), (45, 0));
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
        let mut series = Series::new(start, Some(Sink::new(Full)));
        series.delivered(start + ms(20), Way::Up, 5);
        assert!(series.is_written());
        series.flush();
        assert_eq!(series.fault().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        series.end(start + ms(30));
        assert_eq!(series.busiest(Way::Up), 5);
    }
}
