//! Limits the number of connections in the handshake: when there are too many, chooses which one to close.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_base::hash::HashMap;
use sluice_io::ConnId;

use super::source::{SourceCounts, SourceNetwork};

/// Key of a connection in the handshake queue, increasing with time. A connection gets a new one with its first progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey(u64);

/// Connections in the handshake, and those that claim a datapath id in use, by progress and source.
///
/// When the capacity is reached, the connection to close for a new one is chosen among these:
///
/// 1. Those of the source that has the most, if it has more than the source of the new one would have.
/// 2. Otherwise those of the source of the new one, if no other source has more.
/// 3. Otherwise all.
///
/// Of these, it is the oldest that has made no progress, or else the one whose progress is the oldest. In the second and third case, that
/// must be older than a grace period, in which a switch can complete the handshake. Progress is the `HELLO`, or the end of the TLS
/// handshake, before which the peer cannot send one.
///
/// # Cost
/// Logarithmic in the number of connections.
#[derive(Debug)]
pub(crate) struct HandshakeQueue<C = ConnId> {
    all: AgeOrder<C>,
    by_source: HashMap<SourceNetwork, AgeOrder<C>>,
    counts: SourceCounts,
    last_key: u64,
}

/// Connections by age: those without progress since they were accepted, the others since their progress.
#[derive(Debug)]
struct AgeOrder<C> {
    silent: BTreeMap<QueueKey, C>,
    progressed: BTreeMap<QueueKey, (C, Instant)>,
}

impl<C> Default for HandshakeQueue<C> {
    fn default() -> Self {
        Self {
            all: AgeOrder::default(),
            by_source: HashMap::default(),
            counts: SourceCounts::default(),
            last_key: 0,
        }
    }
}

impl<C> Default for AgeOrder<C> {
    fn default() -> Self {
        Self { silent: BTreeMap::new(), progressed: BTreeMap::new() }
    }
}

impl<C: Copy> HandshakeQueue<C> {
    /// Adds a connection that was just accepted.
    pub(crate) fn insert(&mut self, id: C, source: SourceNetwork) -> QueueKey {
        let key = self.next_key();
        self.all.silent.insert(key, id);
        self.by_source.entry(source).or_default().silent.insert(key, id);
        self.counts.add(source, 1);
        key
    }

    /// Records the first progress of a connection. Returns its new key; the same if there was progress before.
    pub(crate) fn record_progress(
        &mut self,
        old: QueueKey,
        source: SourceNetwork,
        now: Instant,
    ) -> QueueKey {
        let Some(id) = self.all.silent.remove(&old) else { return old };
        let key = self.next_key();
        self.all.progressed.insert(key, (id, now));
        if let Some(order) = self.by_source.get_mut(&source) {
            order.silent.remove(&old);
            order.progressed.insert(key, (id, now));
        }
        key
    }

    /// Removes a connection that a worker takes over or that was closed.
    pub(crate) fn remove(&mut self, key: QueueKey, source: SourceNetwork) {
        self.all.remove(key);
        self.counts.remove(source, 1);
        if let Some(order) = self.by_source.get_mut(&source) {
            order.remove(key);
            if order.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }

    /// The connection to close for a new one from `source` when the capacity is reached; `None` if the new one must be
    /// refused.
    pub(crate) fn eviction_candidate(
        &self,
        source: SourceNetwork,
        now: Instant,
        grace: Duration,
    ) -> Option<C> {
        if let Some(larger) = self.counts.larger_than(source, 1) {
            return self.by_source.get(&larger)?.oldest(now, Duration::ZERO);
        }
        let own = self.counts.count(source);
        let is_largest = self.counts.largest().is_some_and(|it| self.counts.count(it) == own);
        match self.by_source.get(&source).filter(|_| is_largest && own > 1) {
            Some(order) => order.oldest(now, grace),
            None => self.all.oldest(now, grace),
        }
    }

    /// The oldest connection of the source that has the most, for want of something else than capacity.
    pub(crate) fn oldest_of_largest_source(&self, now: Instant) -> Option<C> {
        self.by_source.get(&self.counts.largest()?)?.oldest(now, Duration::ZERO)
    }

    fn next_key(&mut self) -> QueueKey {
        self.last_key += 1;
        QueueKey(self.last_key)
    }
}

impl<C: Copy> AgeOrder<C> {
    fn is_empty(&self) -> bool {
        self.silent.is_empty() && self.progressed.is_empty()
    }

    fn remove(&mut self, key: QueueKey) {
        self.silent.remove(&key);
        self.progressed.remove(&key);
    }

    fn oldest(&self, now: Instant, grace: Duration) -> Option<C> {
        let silent = self.silent.values().next().copied();
        silent.or_else(|| {
            let &(id, since) = self.progressed.values().next()?;
            (now.saturating_duration_since(since) >= grace).then_some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(100);

    fn source(last: u8) -> SourceNetwork {
        SourceNetwork::new([10, 0, 0, last].into())
    }

    #[test]
    fn silent_connections_are_evicted_first_then_the_oldest_progress_after_the_grace_period() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        let keys: Vec<_> = (0..4).map(|n| queue.insert(n, source(n))).collect();
        let candidate =
            |queue: &HandshakeQueue<u8>, now| queue.eviction_candidate(source(9), now, GRACE);
        let first = queue.record_progress(keys[0], source(0), now);
        assert_eq!(candidate(&queue, now), Some(1));
        // The others send HELLO in another order than they were accepted.
        for n in [3, 2, 1] {
            queue.record_progress(keys[usize::from(n)], source(n), now + GRACE / 2);
        }
        assert_eq!(candidate(&queue, now), None);
        assert_eq!(candidate(&queue, now + GRACE), Some(0));
        queue.remove(first, source(0));
        assert_eq!(candidate(&queue, now + GRACE), None);
        assert_eq!(candidate(&queue, now + 2 * GRACE), Some(3));
    }

    #[test]
    fn a_source_over_its_share_loses_connections_to_other_sources_without_a_grace_period() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for (id, from) in [(0, source(1)), (1, source(2)), (2, source(2)), (3, source(2))] {
            let key = queue.insert(id, from);
            queue.record_progress(key, from, now);
        }
        let candidate = |from, now| queue.eviction_candidate(from, now, GRACE);
        assert_eq!(candidate(source(3), now), Some(1));
        assert_eq!(candidate(source(2), now), None, "its own connection may be a switch");
        assert_eq!(candidate(source(2), now + GRACE), Some(1), "not the older one of source 1");
    }

    /// No source has half of the capacity, and all have sent `HELLO` a moment ago.
    #[test]
    fn a_few_sources_together_keep_no_other_source_out() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for id in 0..30 {
            let key = queue.insert(id, source(id % 3));
            queue.record_progress(key, source(id % 3), now);
        }
        assert_eq!(queue.eviction_candidate(source(9), now, GRACE), Some(2));
        assert_eq!(queue.eviction_candidate(source(1), now, GRACE), None);
        assert_eq!(queue.oldest_of_largest_source(now), Some(2));
    }

    #[test]
    fn nothing_is_kept_of_removed_connections() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for n in 0..200 {
            let mut key = queue.insert(n, source(n));
            if n % 2 == 0 {
                key = queue.record_progress(key, source(n), now);
            }
            queue.remove(key, source(n));
        }
        assert_eq!((queue.all.is_empty(), queue.by_source.len()), (true, 0));
    }
}
