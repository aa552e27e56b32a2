//! The rate of log lines about connections.

use std::time::Instant;

use crate::log_limit::LogLimiter;

/// One limiter for each kind of line: a flood of connections that are closed hides neither that none can be accepted nor anything else.
#[derive(Debug, Default)]
pub(super) struct ConnectionLog {
    /// Connections that have ended in normal operation.
    pub(super) closed_normally: LogLimiter,
    /// Connections that have ended for a fault.
    pub(super) closed: LogLimiter,
    pub(super) not_accepted: LogLimiter,
    /// Switches that wait for a worker.
    pub(super) waiting: LogLimiter,
    /// Handshakes, and ports of switches.
    pub(super) others: LogLimiter,
}

impl ConnectionLog {
    /// When a limiter has a count to be logged.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let of_connections = [&self.closed_normally, &self.closed, &self.not_accepted];
        let limiters = of_connections.into_iter().chain([&self.waiting, &self.others]);
        limiters.filter_map(LogLimiter::deadline).min()
    }

    /// Logs how many lines were suppressed: what `take` returns of each limiter.
    pub(super) fn log_suppressed(&mut self, take: impl Fn(&mut LogLimiter) -> Option<u64>) {
        if let Some(count) = take(&mut self.closed_normally) {
            tracing::debug!(count, "more connections closed normally");
        }
        if let Some(count) = take(&mut self.closed) {
            tracing::warn!(count, "more connections closed");
        }
        if let Some(count) = take(&mut self.not_accepted) {
            tracing::warn!(count, "more connections could not be accepted");
        }
        if let Some(count) = take(&mut self.waiting) {
            tracing::info!(count, "more switches wait for a busy worker");
        }
        if let Some(lines) = take(&mut self.others) {
            tracing::warn!(lines, "log lines about handshakes and ports suppressed");
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn connections_that_are_closed_hide_no_other_line() {
        let (mut log, now) = (ConnectionLog::default(), clock::now());
        while log.closed_normally.allow(now) {}
        assert!(log.deadline().is_some());
        assert!(log.closed.allow(now));
        while log.closed.allow(now) {}
        assert!(log.not_accepted.allow(now) && log.others.allow(now));
        assert_eq!(log.deadline(), log.closed.deadline());
    }
}
