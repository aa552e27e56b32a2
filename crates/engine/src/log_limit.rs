//! Limits the rate of log lines.

use std::time::{Duration, Instant};

/// Log lines of one kind and thread that may be logged in a second.
const LINES_MAX: u32 = 20;

/// Period in which at most [`LINES_MAX`] lines are logged. The number of suppressed lines is logged once per period.
const SECOND: Duration = Duration::from_secs(1);

/// Seconds in which one line and the number of the others are logged while there are more than [`LINES_MAX`] per second.
const LIMITED_SECONDS: u32 = 2;

/// Allows [`LINES_MAX`] log lines per second, and counts those it suppresses.
///
/// As long as there are more, and in the period after, it allows one line in [`LIMITED_SECONDS`]. With the one that has the count, which the
/// caller logs for [`take_suppressed`](Self::take_suppressed), that is one line per second.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    /// When the current period ends; none before the first line.
    until: Option<Instant>,
    /// There were too many lines in the period before.
    is_limited: bool,
    allowed: u32,
    suppressed: u64,
}

impl LogLimiter {
    /// Whether a line may be logged now.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        self.begin_period(now);
        let is_allowed = self.allowed < if self.is_limited { 1 } else { LINES_MAX };
        if is_allowed {
            self.allowed += 1;
        } else {
            self.suppressed += 1;
        }
        is_allowed
    }

    /// Counts lines that were suppressed elsewhere.
    pub(crate) fn add_suppressed(&mut self, now: Instant, lines: u64) {
        if lines > 0 {
            self.begin_period(now);
            self.suppressed += lines;
        }
    }

    /// Begins another period if the last one is over, unless its count is still to be taken.
    fn begin_period(&mut self, now: Instant) {
        if self.suppressed == 0 && self.until.is_none_or(|until| now >= until) {
            *self = Self { until: Some(now + SECOND), ..Self::default() };
        }
    }

    /// When [`take_suppressed`](Self::take_suppressed) has a count.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| self.suppressed > 0)
    }

    /// How many lines were suppressed since the last count, before the thread ends.
    pub(crate) fn take_rest(&mut self) -> Option<u64> {
        let suppressed = std::mem::take(&mut self.suppressed);
        (suppressed > 0).then_some(suppressed)
    }

    /// How many lines were suppressed in the last period, once it is over.
    pub(crate) fn take_suppressed(&mut self, now: Instant) -> Option<u64> {
        self.deadline().filter(|&deadline| now >= deadline)?;
        let suppressed = self.suppressed;
        let seconds = if self.is_limited { LIMITED_SECONDS } else { 1 };
        let is_limited = u64::from(self.allowed) + suppressed > u64::from(LINES_MAX * seconds);
        let period = if is_limited { LIMITED_SECONDS * SECOND } else { SECOND };
        *self = Self { until: Some(now + period), is_limited, ..Self::default() };
        Some(suppressed)
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock::now;

    use super::*;

    /// The lines and the counts that are logged if there are `per_second` lines in each of `seconds`, and a count is asked for four
    /// times a second.
    fn log(
        limiter: &mut LogLimiter,
        start: Instant,
        seconds: u32,
        per_second: u32,
    ) -> (u32, Vec<u64>) {
        let (mut lines, mut counts) = (0, Vec::new());
        for quarter in 0..4 * seconds {
            let now = start + quarter * SECOND / 4;
            counts.extend(limiter.take_suppressed(now));
            lines += (0..per_second / 4).map(|_| u32::from(limiter.allow(now))).sum::<u32>();
        }
        (lines, counts)
    }

    #[test]
    fn all_lines_are_logged_up_to_the_limit() {
        let mut limiter = LogLimiter::default();
        assert_eq!(log(&mut limiter, now(), 10, LINES_MAX), (10 * LINES_MAX, Vec::new()));
        assert_eq!(limiter.deadline(), None);
    }

    /// The first second has the limit and a count; then, each two seconds have one line and one count.
    #[test]
    fn while_lines_are_suppressed_one_per_second_is_logged() {
        let (mut limiter, start) = (LogLimiter::default(), now());
        let (lines, counts) = log(&mut limiter, start, 21, 1000);
        assert_eq!(lines, LINES_MAX + 10);
        let rest = limiter.take_suppressed(start + 21 * SECOND).expect("the last period is over");
        assert_eq!(counts, [vec![1000 - u64::from(LINES_MAX)], vec![1999; 9]].concat());
        assert_eq!(u64::from(lines) + counts.iter().sum::<u64>() + rest, 21 * 1000);
    }

    #[test]
    fn after_a_period_without_suppressed_lines_the_limit_is_the_first_again() {
        let (mut limiter, start) = (LogLimiter::default(), now());
        log(&mut limiter, start, 1, 1000);
        assert_eq!(limiter.take_suppressed(start + SECOND), Some(1000 - u64::from(LINES_MAX)));
        assert_eq!(limiter.deadline(), None, "nothing is suppressed");
        assert_eq!(log(&mut limiter, start + 3 * SECOND, 1, LINES_MAX), (LINES_MAX, Vec::new()));
    }

    #[test]
    fn when_there_are_fewer_lines_again_all_are_logged() {
        let (mut limiter, start) = (LogLimiter::default(), now());
        log(&mut limiter, start, 1, 1000);
        // The period that began with the count has lines at the limit, of which one is logged.
        let (lines, counts) = log(&mut limiter, start + SECOND, 10, LINES_MAX);
        assert_eq!(counts, [1000 - u64::from(LINES_MAX), 2 * u64::from(LINES_MAX) - 1]);
        assert_eq!(lines, 1 + 8 * LINES_MAX);
    }

    #[test]
    fn a_thread_that_ends_logs_the_rest() {
        let (mut limiter, start) = (LogLimiter::default(), now());
        let (lines, _) = log(&mut limiter, start, 1, 1000);
        assert_eq!(limiter.take_rest(), Some(1000 - u64::from(lines)));
        assert_eq!(limiter.take_rest(), None);
    }

    /// The count is logged when nothing more happens, too.
    #[test]
    fn a_count_is_due_at_the_end_of_its_second() {
        let (mut limiter, start) = (LogLimiter::default(), now());
        limiter.add_suppressed(start, 3);
        assert_eq!(limiter.deadline(), Some(start + SECOND));
        assert_eq!(limiter.take_suppressed(start + SECOND / 2), None);
        assert_eq!(limiter.take_suppressed(start + SECOND), Some(3));
        limiter.add_suppressed(start + SECOND, 0);
        assert_eq!(limiter.deadline(), None);
        // Long after the last period, too.
        limiter.add_suppressed(start + 100 * SECOND, 1);
        assert_eq!(limiter.deadline(), Some(start + 101 * SECOND));
    }
}
