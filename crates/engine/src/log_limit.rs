//! Limits the rate of log lines.

use std::time::{Duration, Instant};

/// Log lines per second and thread. Further lines are counted, and the count is logged.
const LINES_MAX: u32 = 20;

/// Allows [`LINES_MAX`] log lines per second and counts those it suppresses.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    /// Start of the current second.
    since: Option<Instant>,
    allowed: u32,
    suppressed: u64,
}

impl LogLimiter {
    /// Whether a line may be logged now.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= Duration::from_secs(1)) {
            if self.suppressed > 0 {
                tracing::warn!(lines = self.suppressed, "log lines suppressed");
            }
            *self = Self { since: Some(now), ..Self::default() };
        }
        let is_allowed = self.allowed < LINES_MAX;
        if is_allowed {
            self.allowed += 1;
        } else {
            self.suppressed += 1;
        }
        is_allowed
    }

    /// Counts lines that were suppressed elsewhere.
    pub(crate) fn add_suppressed(&mut self, lines: u64) {
        self.suppressed += lines;
    }
}
