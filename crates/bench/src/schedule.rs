//! The schedule of an open-loop load: when each request is due, whether or not the controller keeps up.

use std::time::{Duration, Instant};

/// Requests at a constant rate, distributed over `switches` in turn.
///
/// Request `i` is due `i / rate` after the start; switch `i mod switches` sends it, as its request number `i / switches`.
/// The latency of a request that could not be sent in time counts from when it was due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start: Instant,
    per_ns: f64,
    switches: u64,
}

impl Schedule {
    /// `rate` requests per second, from `start` on.
    pub(crate) fn new(start: Instant, rate: f64, switches: usize) -> Self {
        Self { start, per_ns: rate / 1e9, switches: switches.max(1) as u64 }
    }

    /// Number of requests due by `now`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "2⁵³ ns are a hundred days"
    )]
    pub(crate) fn due(&self, now: Instant) -> u64 {
        if now < self.start {
            return 0;
        }
        let passed = (now - self.start).as_nanos() as u64;
        (passed as f64 * self.per_ns) as u64 + 1
    }

    /// When request `i` is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "2⁵³ ns are a hundred days"
    )]
    pub(crate) fn due_at(&self, i: u64) -> Instant {
        self.start + Duration::from_nanos((i as f64 / self.per_ns) as u64)
    }

    /// How many of the first `due` requests `switch` sends.
    pub(crate) fn due_for(&self, switch: usize, due: u64) -> u64 {
        (due + self.switches - 1).saturating_sub(switch as u64) / self.switches
    }

    /// When request number `k` of `switch` is due.
    pub(crate) fn due_at_for(&self, switch: usize, k: u64) -> Instant {
        self.due_at(k * self.switches + switch as u64)
    }

    /// The switches that send the requests from `from` to below `due`, each at most once.
    pub(crate) fn switches(&self, from: u64, due: u64) -> impl Iterator<Item = usize> + use<> {
        let n = self.switches;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of switches")]
        (from..due.min(from + n)).map(move |i| (i % n) as usize)
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn requests_are_due_at_equal_intervals_for_one_switch_after_another() {
        let start = clock::now();
        let schedule = Schedule::new(start, 1e6, 3);
        assert_eq!(schedule.due(start), 1);
        let later = start + Duration::from_nanos(9_500);
        assert_eq!(schedule.due(later), 10);
        assert_eq!(schedule.due_at(10), start + Duration::from_micros(10));
        let shares: Vec<_> = (0..3).map(|s| schedule.due_for(s, 10)).collect();
        assert_eq!(shares, [4, 3, 3]);
        assert_eq!(schedule.due_at_for(2, 1), start + Duration::from_micros(5));
        assert_eq!(schedule.switches(4, 6).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(schedule.switches(4, 100).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        let start = clock::now() + Duration::from_secs(1);
        assert_eq!(Schedule::new(start, 5.0, 1).due(clock::now()), 0);
        let shares: Vec<_> = (0..2).map(|s| Schedule::new(start, 5.0, 2).due_for(s, 0)).collect();
        assert_eq!(shares, [0, 0]);
    }
}
