//! Replies that last, for as long as the client reads, and what the server knows of the current request of a connection.

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

/// What a connection does. A reply that lasts has itself polled at least every [`PROGRESS_INTERVAL`], as long as the connection takes
/// what it writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamGuard(Arc<Connection>);

#[derive(Debug, Default)]
struct Connection {
    activity: Mutex<Activity>,
    permit: Option<ConnectionPermit>,
}

#[derive(Debug, Default)]
struct Activity {
    /// When a reply that lasts was polled last.
    last_progress: Option<Instant>,
    /// Whether a request has been received that is not answered yet.
    is_processing: bool,
    /// When the last request was answered.
    answered_at: Option<Instant>,
}

impl StreamGuard {
    /// For a connection, which has no such reply yet.
    pub(crate) fn new(permit: ConnectionPermit) -> Self {
        Self(Arc::new(Connection { activity: Mutex::default(), permit: Some(permit) }))
    }

    /// The connection has received the head of a request.
    pub(crate) fn record_request(&self) {
        self.activity().is_processing = true;
        if let Some(permit) = &self.0.permit {
            permit.record_request();
        }
    }

    /// The answer to the request begins.
    pub(crate) fn record_answer(&self, now: Instant) {
        let mut activity = self.activity();
        activity.is_processing = false;
        activity.answered_at = Some(now);
    }

    /// Whether a request is being processed, or was answered a moment ago.
    pub(crate) fn is_answering(&self, now: Instant, moment: Duration) -> bool {
        let activity = self.activity();
        let is_recent = |at| now.saturating_duration_since(at) < moment;
        activity.is_processing || activity.answered_at.is_some_and(is_recent)
    }

    /// The connection takes what a reply that lasts writes. From the first time on it does not count as a connection: replies that last
    /// have limits of their own.
    pub(crate) fn record_progress(&self, now: Instant) {
        let before = self.activity().last_progress.replace(now);
        if let (None, Some(permit)) = (before, &self.0.permit) {
            permit.exempt();
        }
    }

    /// Whether a reply lasts, and its client reads.
    pub(crate) fn is_streaming(&self, now: Instant) -> bool {
        let last = self.activity().last_progress;
        last.is_some_and(|last| now.saturating_duration_since(last) < STALL_TIMEOUT)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_request_is_answered_before_its_connection_ends() {
        let (now, moment) = (clock::now(), Duration::from_secs(5));
        let guard = StreamGuard::default();
        assert!(!guard.is_answering(now, moment));
        guard.record_request();
        assert!(guard.is_answering(now + Duration::from_secs(100), moment));
        guard.record_answer(now);
        assert!(guard.is_answering(now, moment));
        assert!(!guard.is_answering(now + moment, moment));
    }

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
