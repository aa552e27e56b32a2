//! The clock of a simulated thread.

use std::time::{Duration, Instant};

/// How far the clock of a thread is from the time of the simulation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// How far it is ahead at the start.
    pub offset: Duration,
    /// By how many millionths it is fast, or slow if negative; above −1 000 000.
    pub drift_ppm: i32,
}

/// A clock with an error. It never goes backwards, and each reading takes time.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    error: ClockError,
    last: Instant,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    pub(super) fn new(start: Instant, error: ClockError) -> Self {
        Self { start, error, last: start }
    }

    /// Reads the clock at the time `now` of the simulation; reading takes `cost`.
    pub(super) fn read(&mut self, now: Instant, cost: Duration) -> Instant {
        let elapsed = nanos(now.saturating_duration_since(self.start));
        let shown = elapsed * self.rate_ppm() / MILLION;
        self.last = self.last.max(self.start + self.error.offset + duration(shown)) + cost;
        self.last
    }

    /// The time of the simulation from which on the clock shows at least `shown`.
    pub(super) fn time_of(&self, shown: Instant) -> Instant {
        if shown <= self.last {
            return self.start;
        }
        let shown = nanos(shown.saturating_duration_since(self.start + self.error.offset));
        let rate = self.rate_ppm();
        self.start + duration((shown * MILLION + rate - 1) / rate)
    }

    /// Its rate in millionths of the correct rate.
    fn rate_ppm(&self) -> i128 {
        (MILLION + i128::from(self.error.drift_ppm)).max(1)
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / (2 * MILLION))
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_drifts_and_never_goes_backwards() {
        let start = crate::clock::now();
        let offset = Duration::from_secs(3);
        for drift_ppm in [-500_000, -77, 0, 1, 200, 1_000_000] {
            let mut clock = Clock::new(start, ClockError { offset, drift_ppm });
            let hour = Duration::from_hours(1);
            let shown = clock.read(start + hour, Duration::ZERO);
            let factor = 1.0 + f64::from(drift_ppm) / 1e6;
            let expected = start + offset + hour.mul_f64(factor);
            let difference = shown.max(expected) - shown.min(expected);
            assert!(difference < Duration::from_micros(1), "{drift_ppm}: {difference:?}");
            let again = clock.read(start, Duration::from_nanos(5));
            assert_eq!(again, shown + Duration::from_nanos(5));
        }
    }

    #[test]
    fn the_clock_has_reached_a_time_when_the_simulation_has_reached_the_time_of_it() {
        let start = crate::clock::now();
        for drift_ppm in [-900_000, -333, 0, 1, 17, 999_999] {
            let error = ClockError { offset: Duration::from_millis(1), drift_ppm };
            for ns in (0..2_000_000).step_by(77_777) {
                let mut clock = Clock::new(start, error);
                let wanted = start + Duration::from_nanos(ns);
                let at = clock.time_of(wanted);
                let shown = clock.read(at, Duration::ZERO);
                assert!(shown >= wanted, "{drift_ppm} {ns}");
                let late = shown.saturating_duration_since(wanted.max(start + error.offset));
                assert!(late <= Duration::from_nanos(20), "{drift_ppm} {ns}: {late:?}");
            }
        }
    }
}
