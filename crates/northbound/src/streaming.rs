//! Replies that last: the server leaves their connections open for as long as the client reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderName;
use axum::http::header::CONNECTION;

use crate::connection_limit::ConnectionPermit;

/// Time after which a client that reads nothing is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time in which a reply that lasts has to be polled, so that its client does not count as stalled.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// A header of every reply that lasts: its connection does not count towards the limit, and so must not be used again.
pub(crate) const CLOSE_AFTERWARDS: (HeaderName, &str) = (CONNECTION, "close");

/// When the reply of a connection was polled last: `None` without a reply that lasts. Such a reply has itself polled at least every
/// [`PROGRESS_INTERVAL`], as long as the connection takes what it writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamGuard(Arc<Connection>);

#[derive(Debug, Default)]
struct Connection {
    last_progress: Mutex<Option<Instant>>,
    permit: Option<ConnectionPermit>,
}

impl StreamGuard {
    /// For a connection, which has no such reply yet.
    pub(crate) fn new(permit: ConnectionPermit) -> Self {
        Self(Arc::new(Connection { last_progress: Mutex::default(), permit: Some(permit) }))
    }

    /// The connection has received the head of a request.
    pub(crate) fn record_request(&self) {
        if let Some(permit) = &self.0.permit {
            permit.record_request();
        }
    }

    /// The connection takes what a reply that lasts writes. From the first time on it does not count as a connection: replies that last
    /// have limits of their own.
    pub(crate) fn record_progress(&self, now: Instant) {
        let before = self.last_progress().replace(now);
        if let (None, Some(permit)) = (before, &self.0.permit) {
            permit.exempt();
        }
    }

    /// Whether a reply lasts, and its client reads.
    pub(crate) fn is_streaming(&self, now: Instant) -> bool {
        let last = *self.last_progress();
        last.is_some_and(|last| now.saturating_duration_since(last) < STALL_TIMEOUT)
    }

    fn last_progress(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.last_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::connection_limit::ConnectionLimit;
    use crate::peer::Source;

    #[test]
    fn a_reply_lasts_until_its_client_stops_reading() {
        let now = clock::now();
        let guard = StreamGuard::default();
        assert!(!guard.is_streaming(now));
        guard.record_progress(now);
        assert!(guard.is_streaming(now + PROGRESS_INTERVAL));
        assert!(!guard.is_streaming(now + STALL_TIMEOUT));
    }

    #[test]
    fn a_reply_that_lasts_does_not_count_as_a_connection() {
        let limit = ConnectionLimit::new(1);
        let (permit, mut closed) = limit.admit(Source::User(None));
        let guard = StreamGuard::new(permit);
        guard.record_progress(clock::now());
        let _others = [limit.admit(Source::User(None)), limit.admit(Source::User(None))];
        let error = closed.try_recv().unwrap_err();
        assert_eq!(error, TryRecvError::Empty);
    }
}
