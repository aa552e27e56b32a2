//! How much is logged when much goes wrong.

use std::time::{Duration, Instant};

/// Lines in a second about connections; the rest is counted and told in one line.
const LINES_MAX: u32 = 20;

/// Lets some lines through each second and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    since: Option<Instant>,
    passed: u32,
    held: u64,
}

impl LogLimiter {
    /// Whether a line may be logged now.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= Duration::from_secs(1)) {
            if self.held > 0 {
                tracing::warn!(lines = self.held, "log lines suppressed");
            }
            *self = Self { since: Some(now), ..Self::default() };
        }
        let open = self.passed < LINES_MAX;
        if open {
            self.passed += 1;
        } else {
            self.held += 1;
        }
        open
    }

    /// Counts lines that were not even written.
    pub(crate) fn add_suppressed(&mut self, lines: u64) {
        self.held += lines;
    }
}
