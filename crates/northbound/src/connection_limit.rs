//! Limits the number of connections by closing the least useful one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::peer::Source;

/// Concurrent connections: enough for several scrapers and browsers. For one more, another one is closed.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// A limit on the number of connections. Clones share it.
///
/// A new connection is always admitted. If that exceeds the limit, another one is closed, of the source that has the most: the oldest
/// of those that have sent no request yet, or, if those that have sent one are more than half, the one whose last request is the
/// oldest. So neither clients that send slowly nor clients that stay connected keep others out, and no source takes all connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    max: usize,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_id: u64,
    /// Ordered by the time of the last request, or of the connection if there was none.
    entries: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    id: u64,
    source: Source,
    has_request: bool,
    /// Dropped to close the connection.
    _close: oneshot::Sender<()>,
}

/// A connection that counts towards the limit until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limit: ConnectionLimit,
    id: u64,
    /// Keeps a connection open that does not count any more.
    exempt: Mutex<Option<OpenConnection>>,
}

impl ConnectionLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, open: Arc::default() }
    }

    /// Admits a connection. The receiver ends when the connection must be closed in favor of another one.
    pub(crate) fn admit(&self, source: Source) -> (ConnectionPermit, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        let id = self.with_open(|open| {
            if open.entries.len() >= self.max {
                open.remove_least_useful(source);
            }
            open.last_id += 1;
            open.entries.push(OpenConnection {
                id: open.last_id,
                source,
                has_request: false,
                _close: close,
            });
            open.last_id
        });
        (ConnectionPermit { limit: self.clone(), id, exempt: Mutex::default() }, closed)
    }

    /// Connections that count.
    pub(crate) fn in_use(&self) -> usize {
        self.with_open(|open| open.entries.len())
    }

    fn with_open<T>(&self, f: impl FnOnce(&mut OpenConnections) -> T) -> T {
        f(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OpenConnections {
    /// Closes a connection in favor of a new one from `source`.
    fn remove_least_useful(&mut self, source: Source) {
        let count = |of: Source| {
            let open = self.entries.iter().filter(|entry| entry.source == of).count();
            open + usize::from(of == source)
        };
        let largest = self.entries.iter().map(|entry| entry.source).max_by_key(|it| count(*it));
        let of_largest = || self.entries.iter().filter(|entry| Some(entry.source) == largest);
        let requested = of_largest().filter(|entry| entry.has_request).count();
        let has_request = requested > of_largest().count() / 2;
        let oldest = of_largest().find(|entry| entry.has_request == has_request);
        if let Some(id) = oldest.map(|entry| entry.id) {
            self.entries.retain(|entry| entry.id != id);
        }
    }
}

impl ConnectionPermit {
    /// Records that the head of a request was received.
    pub(crate) fn record_request(&self) {
        self.limit.with_open(|open| {
            if let Some(at) = open.entries.iter().position(|entry| entry.id == self.id) {
                let entry = open.entries.remove(at);
                open.entries.push(OpenConnection { has_request: true, ..entry });
            }
        });
    }
}

impl ConnectionPermit {
    /// From now on the connection does not count, since it has a limit of its own, and is not closed in favor of another one.
    pub(crate) fn exempt(&self) {
        let entry = self.limit.with_open(|open| {
            let at = open.entries.iter().position(|entry| entry.id == self.id);
            at.map(|at| open.entries.remove(at))
        });
        if let Some(entry) = entry {
            *self.exempt.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.with_open(|open| open.entries.retain(|entry| entry.id != self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Source = Source::User(Some(1));
    const B: Source = Source::User(Some(2));

    fn is_open(closed: &mut oneshot::Receiver<()>) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_connection_of_the_larger_group_is_closed() {
        let limit = ConnectionLimit::new(4);
        let mut all: Vec<_> = (0..4).map(|_| limit.admit(A)).collect();
        // Admits one more connection; returns those that are open.
        let admit = |all: &mut Vec<(ConnectionPermit, oneshot::Receiver<()>)>| {
            all.push(limit.admit(A));
            let open = (0..).zip(all).filter_map(|(n, (_, closed))| is_open(closed).then_some(n));
            open.collect::<Vec<_>>()
        };
        all[0].0.record_request();
        assert_eq!(admit(&mut all), [0, 2, 3, 4]);
        all[3].0.record_request();
        all[2].0.record_request();
        all[0].0.record_request();
        assert_eq!(admit(&mut all), [0, 2, 4, 5], "the last request of 3 is the oldest");
        assert_eq!(admit(&mut all), [0, 2, 5, 6]);
    }

    #[test]
    fn a_source_with_many_connections_loses_one_of_its_own() {
        let limit = ConnectionLimit::new(4);
        let (_permit, mut closed) = limit.admit(B);
        let mut flood: Vec<_> = (0..50).map(|_| limit.admit(A)).collect();
        assert!(is_open(&mut closed));
        assert!(is_open(&mut flood[49].1) && !is_open(&mut flood[46].1));
        let (_second, mut also_closed) = limit.admit(B);
        assert!(is_open(&mut closed) && is_open(&mut also_closed));
        assert!(!is_open(&mut flood[47].1));
    }

    #[test]
    fn an_exempt_connection_does_not_count_and_stays_open() {
        let limit = ConnectionLimit::new(1);
        let (stream, mut stream_closed) = limit.admit(A);
        stream.exempt();
        let (_second, mut closed) = limit.admit(A);
        assert!(is_open(&mut stream_closed) && is_open(&mut closed));
        let (_third, _) = limit.admit(A);
        assert!(is_open(&mut stream_closed) && !is_open(&mut closed));
        drop(stream);
        assert!(!is_open(&mut stream_closed));
    }

    #[test]
    fn a_dropped_permit_no_longer_counts() {
        let limit = ConnectionLimit::new(1);
        let (first, mut closed) = limit.admit(A);
        drop(first);
        assert!(!is_open(&mut closed));
        let (_second, mut closed) = limit.admit(A);
        assert!(is_open(&mut closed));
        assert_eq!(limit.in_use(), 1);
    }
}
