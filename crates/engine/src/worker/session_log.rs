//! The rate of log lines about switches that connect and disconnect.

use crate::log_limit::LogLimiter;

/// One limiter for each kind of line, so that none takes the place of another.
#[derive(Debug, Default)]
pub(super) struct SessionLog {
    pub(super) connected: LogLimiter,
    /// Switches that have left, or are left since the controller stops.
    pub(super) disconnected: LogLimiter,
    /// Switches that were disconnected for a fault.
    pub(super) failed: LogLimiter,
}

impl SessionLog {
    /// Logs how many switches have connected and disconnected without a line of their own: what `take` returns of each limiter.
    pub(super) fn log_suppressed(
        &mut self,
        worker: usize,
        take: impl Fn(&mut LogLimiter) -> Option<u64>,
    ) {
        if let Some(count) = take(&mut self.connected) {
            tracing::info!(count, worker, "more switches connected");
        }
        if let Some(count) = take(&mut self.disconnected) {
            tracing::info!(count, worker, "more switches disconnected");
        }
        if let Some(count) = take(&mut self.failed) {
            tracing::warn!(count, worker, "more switches disconnected for a fault");
        }
    }
}
