//! The rate of log lines about switches that connect and disconnect.

use std::time::Instant;

use crate::log_limit::LogLimiter;

/// One limiter for each kind of line, so that none takes the place of the other.
#[derive(Debug, Default)]
pub(super) struct SessionLog {
    pub(super) connected: LogLimiter,
    pub(super) disconnected: LogLimiter,
}

impl SessionLog {
    /// Logs how many switches have connected and disconnected without a line of their own.
    pub(super) fn log_suppressed(&mut self, now: Instant, worker: usize) {
        if let Some(count) = self.connected.take_suppressed(now) {
            tracing::info!(count, worker, "more switches connected");
        }
        if let Some(count) = self.disconnected.take_suppressed(now) {
            tracing::info!(count, worker, "more switches disconnected");
        }
    }
}
