//! The schedule of an open-loop load: when each request is due, whether or not the controller keeps up.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use sluice_base::Rng;

/// How the requests of an open-loop load are distributed over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// At equal intervals.
    #[default]
    Fixed,
    /// At random, independently of each other: exponentially distributed intervals.
    Poisson,
    /// So many at a time, at equal intervals.
    Burst(u32),
}

/// As `--arrivals` has it.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed"),
            Self::Poisson => f.write_str("poisson"),
            Self::Burst(n) => write!(f, "burst:{n}"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fixed" => Ok(Self::Fixed),
            "poisson" => Ok(Self::Poisson),
            _ => {
                let n = text.strip_prefix("burst:").and_then(|n| n.parse().ok());
                n.map(Self::Burst).ok_or("expected fixed, poisson or burst:N")
            }
        }
    }
}

/// The times at which requests are due.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: Instant,
    interval_ns: f64,
    arrivals: Arrivals,
    rng: Rng,
    /// Number of the next request.
    next: u64,
    /// When it is due, in nanoseconds after the start.
    next_ns: f64,
}

impl Schedule {
    /// `rate` requests per second, from `start` on.
    pub(crate) fn new(start: Instant, rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        let (interval_ns, rng) = (1e9 / rate, Rng::new(seed));
        let mut schedule = Self { start, interval_ns, arrivals, rng, next: 0, next_ns: 0.0 };
        if arrivals == Arrivals::Poisson {
            schedule.next_ns = schedule.random_interval_ns();
        }
        schedule
    }

    /// When the next request is due.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "2⁵³ ns are a hundred days"
    )]
    pub(crate) fn next_due(&self) -> Instant {
        self.start + Duration::from_nanos(self.next_ns as u64)
    }

    /// Advances to the request after the next one.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "2⁵³ requests take days")]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        self.next_ns = match self.arrivals {
            Arrivals::Fixed => self.next as f64 * self.interval_ns,
            Arrivals::Poisson => self.next_ns + self.random_interval_ns(),
            Arrivals::Burst(n) => {
                let n = u64::from(n.max(1));
                (self.next / n * n) as f64 * self.interval_ns
            }
        };
    }

    /// Skips the requests that are due before `end`; returns their number. Of Poisson arrivals that is the expected number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "2⁵³ ns are a hundred days"
    )]
    pub(crate) fn skip_until(&mut self, end: Instant) -> u64 {
        let end_ns = end.saturating_duration_since(self.start).as_nanos() as f64;
        if self.next_ns >= end_ns {
            return 0;
        }
        let first = self.next;
        // At least one is skipped, also if rounding says that the next one is due at `end`.
        match self.arrivals {
            Arrivals::Fixed => {
                self.next = ((end_ns / self.interval_ns).ceil() as u64).max(first + 1);
            }
            Arrivals::Poisson => {
                self.next += 1 + ((end_ns - self.next_ns) / self.interval_ns) as u64;
                self.next_ns = end_ns;
            }
            Arrivals::Burst(n) => {
                let n = u64::from(n.max(1));
                let bursts = (end_ns / self.interval_ns / n as f64).ceil() as u64;
                self.next = (bursts * n).max((first / n + 1) * n);
            }
        }
        let skipped = self.next - first;
        self.next -= 1;
        self.advance();
        skipped
    }

    /// An exponentially distributed interval.
    fn random_interval_ns(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 random bits")]
        let uniform = ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() * self.interval_ns
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    /// The times of the first `n` requests in µs, at a request per µs.
    fn due_us(arrivals: Arrivals, n: usize) -> Vec<f64> {
        let start = clock::now();
        let mut schedule = Schedule::new(start, 1e6, arrivals, 5);
        let next = |_| {
            let due = schedule.next_due() - start;
            schedule.advance();
            due.as_secs_f64() * 1e6
        };
        (0..n).map(next).collect()
    }

    #[test]
    fn fixed_arrivals_come_at_equal_intervals_and_bursts_at_once() {
        assert_eq!(due_us(Arrivals::Fixed, 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(due_us(Arrivals::Burst(3), 7), [0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 6.0]);
        assert_eq!(due_us(Arrivals::Burst(1), 3), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn poisson_arrivals_have_exponentially_distributed_intervals() {
        let due = due_us(Arrivals::Poisson, 100_000);
        let mean = due[99_999] / 1e5;
        assert!((0.99..1.01).contains(&mean), "{mean}");
        let intervals: Vec<_> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (at_least, share) in [(0.1, 0.905), (1.0, 0.368), (3.0, 0.0498)] {
            let longer = intervals.iter().filter(|&&interval| interval >= at_least);
            let found = longer.map(|_| 1e-5).sum::<f64>();
            assert!((found - share).abs() < 0.01, "{at_least}: {found}");
        }
    }

    #[test]
    fn skipped_requests_are_those_that_were_due() {
        let start = clock::now();
        let end = start + Duration::from_millis(10);
        for arrivals in [Arrivals::Fixed, Arrivals::Burst(4), Arrivals::Burst(7)] {
            let mut counted = Schedule::new(start, 12_345.0, arrivals, 5);
            let mut skipped = Schedule::new(start, 12_345.0, arrivals, 5);
            for schedule in [&mut counted, &mut skipped] {
                (0..10).for_each(|_| schedule.advance());
            }
            let mut n = 0;
            while counted.next_due() < end {
                counted.advance();
                n += 1;
            }
            assert_eq!(skipped.skip_until(end), n, "{arrivals:?}");
            assert_eq!(skipped.next_due(), counted.next_due());
            assert_eq!(skipped.skip_until(end), 0);
        }
        // The next request is due half a picosecond before the end.
        let (mut rounded, end_of_loop) =
            (Schedule::new(start, 1_901_580.0, Arrivals::Fixed, 5), Duration::from_millis(3050));
        rounded.skip_until(start + Duration::from_millis(3049));
        while rounded.next_due() < start + end_of_loop {
            assert!(rounded.skip_until(start + end_of_loop) > 0);
        }
        assert_eq!(rounded.next, 5_799_820);
        let mut poisson = Schedule::new(start, 1e6, Arrivals::Poisson, 5);
        assert!((9_900..10_100).contains(&poisson.skip_until(end)));
        assert!(poisson.next_due() >= end);
    }
}
