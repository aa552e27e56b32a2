//! Outstanding path requests.

use std::time::{Duration, Instant};

/// Identifies a request; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestId(pub(super) u64);

/// A request for a path between two hosts.
#[derive(Debug, Clone)]
pub(super) struct PathRequest {
    pub(super) id: RequestId,
    /// Hosts by index.
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) sent_at: Instant,
    /// The packet has arrived at the destination.
    pub(super) is_delivered: bool,
    /// The destination has answered.
    pub(super) is_answered: bool,
    /// Its path is to be checked.
    pub(super) is_due: bool,
    /// The switches whose next change makes it due.
    pub(super) waits_for: Vec<usize>,
}

/// The outstanding requests.
#[derive(Debug)]
pub(super) struct PathRequests {
    /// By slot; the slot is the low half of an id.
    slots: Vec<Option<PathRequest>>,
    free: Vec<u32>,
    sent: u32,
}

impl PathRequests {
    /// For at most `capacity` requests at a time.
    pub(super) fn new(capacity: usize) -> Self {
        let free = (0..u32::try_from(capacity).unwrap_or(u32::MAX)).rev().collect();
        Self { slots: vec![None; capacity], free, sent: 0 }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a request between two hosts; `None` if there are as many as possible.
    pub(super) fn add(
        &mut self,
        source: usize,
        destination: usize,
        now: Instant,
    ) -> Option<RequestId> {
        let slot = self.free.pop()?;
        self.sent = self.sent.wrapping_add(1);
        let id = RequestId(u64::from(self.sent) << 32 | u64::from(slot));
        let (is_delivered, is_answered, is_due) = (false, false, false);
        let request = PathRequest {
            id,
            source,
            destination,
            sent_at: now,
            is_delivered,
            is_answered,
            is_due,
            waits_for: vec![],
        };
        *self.slots.get_mut(slot as usize)? = Some(request);
        Some(id)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut PathRequest> {
        let request = self.slots.get_mut(slot(id))?.as_mut();
        request.filter(|request| request.id == id)
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<PathRequest> {
        let request = self.slots.get_mut(slot(id))?.take_if(|request| request.id == id)?;
        self.free.extend(u32::try_from(slot(id)));
        Some(request)
    }

    /// Removes all requests that are older than `timeout`.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) -> Vec<PathRequest> {
        let is_old =
            |request: &&PathRequest| now.saturating_duration_since(request.sent_at) >= timeout;
        let old: Vec<_> = self.slots.iter().flatten().filter(is_old).map(|it| it.id).collect();
        old.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

fn slot(id: RequestId) -> usize {
    usize::try_from(id.0 & u64::from(u32::MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn an_id_is_valid_until_its_request_is_removed() {
        let (mut requests, now) = (PathRequests::new(1), clock::now());
        let first = requests.add(1, 2, now).unwrap();
        assert!(requests.add(3, 4, now).is_none(), "there is one slot");
        assert_eq!(requests.remove(first).map(|r| (r.source, r.destination)), Some((1, 2)));
        let second = requests.add(3, 4, now).unwrap();
        assert!(requests.get_mut(first).is_none() && requests.remove(first).is_none());
        assert_eq!((requests.outstanding(), requests.get_mut(second).is_some()), (1, true));
    }

    #[test]
    fn a_request_expires_at_the_timeout() {
        let (mut requests, start) = (PathRequests::new(3), clock::now());
        let timeout = Duration::from_secs(1);
        let [_, second, _] =
            [0u32, 1, 2].map(|n| requests.add(n as usize, 9, start + timeout / 2 * n).unwrap());
        requests.remove(second);
        assert!(requests.expire(start + timeout / 2, timeout).is_empty());
        let expired = requests.expire(start + timeout, timeout);
        assert_eq!(expired.iter().map(|it| it.source).collect::<Vec<_>>(), [0]);
        assert_eq!(requests.expire(start + 2 * timeout, timeout).len(), 1);
        assert_eq!(requests.outstanding(), 0);
    }
}
