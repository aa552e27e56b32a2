//! Replies that last: the server leaves their connections open for as long as the client reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a client that reads nothing is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// When the reply of a connection was polled last: `None` without a reply that lasts. Such a reply has itself polled at least once a
/// second, as long as the connection takes what it writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamGuard(Arc<Mutex<Option<Instant>>>);

impl StreamGuard {
    /// The connection takes what a reply that lasts writes.
    pub(crate) fn record_progress(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether a reply lasts, and its client reads.
    pub(crate) fn is_streaming(&self, now: Instant) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.saturating_duration_since(last) < STALL_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_lasts_until_its_client_stops_reading() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let guard = StreamGuard::default();
        assert!(!guard.is_streaming(now));
        guard.record_progress(now);
        assert!(guard.is_streaming(now + STALL_TIMEOUT / 2));
        assert!(!guard.is_streaming(now + STALL_TIMEOUT));
    }
}
