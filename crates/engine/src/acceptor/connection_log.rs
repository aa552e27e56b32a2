//! The rate of log lines about connections.

use std::time::Instant;

use crate::log_limit::LogLimiter;

/// One limiter for each kind of line: a flood of connections that are closed hides neither that none can be accepted nor anything else.
#[derive(Debug, Default)]
pub(super) struct ConnectionLog {
    pub(super) closed: LogLimiter,
    pub(super) not_accepted: LogLimiter,
    pub(super) others: LogLimiter,
}

impl ConnectionLog {
    /// When [`log_suppressed`](Self::log_suppressed) has something to log.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let limiters = [&self.closed, &self.not_accepted, &self.others];
        limiters.into_iter().filter_map(LogLimiter::deadline).min()
    }

    /// Logs how many lines were suppressed.
    pub(super) fn log_suppressed(&mut self, now: Instant) {
        if let Some(count) = self.closed.take_suppressed(now) {
            tracing::warn!(count, "more connections closed");
        }
        if let Some(count) = self.not_accepted.take_suppressed(now) {
            tracing::warn!(count, "more connections could not be accepted");
        }
        if let Some(lines) = self.others.take_suppressed(now) {
            tracing::warn!(lines, "log lines about handshakes suppressed");
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
        while log.closed.allow(now) {}
        assert!(log.not_accepted.allow(now) && log.others.allow(now));
        assert_eq!(log.deadline(), log.closed.deadline());
    }
}
