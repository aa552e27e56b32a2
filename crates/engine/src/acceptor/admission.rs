//! Limits the number of connections in the handshake: when there are too many, chooses which one to close.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_base::hash::HashMap;
use sluice_io::ConnId;

use super::listeners::ListenerGroup;
use super::pending::Origin;
use super::source::{SourceCounts, SourceNetwork};

/// Key of a connection in the handshake queue, increasing with time. A connection gets a new one with its first progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey(u64);

/// Connections in the handshake, those that claim a datapath id in use, and those that wait for a worker, by listener, progress and source.
///
/// When the capacity is reached, the connection to close for a new one is chosen among those of one [`ListenerGroup`], so that a flood
/// of one keeps out no switch of another: among those of the group that has the most, if it has more than the group of the new one
/// would have; then it is the oldest of the source with the most. Otherwise among those of the group of the new one, or of one that
/// has one more, and there among these:
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
    by_listeners: HashMap<ListenerGroup, GroupQueue<C>>,
    counts: SourceCounts<ListenerGroup>,
    last_key: u64,
}

/// The connections of a group of listeners.
#[derive(Debug)]
struct GroupQueue<C> {
    all: AgeOrder<C>,
    by_source: HashMap<SourceNetwork, AgeOrder<C>>,
    counts: SourceCounts,
}

/// Connections by age: those without progress since they were accepted, the others since their progress.
#[derive(Debug)]
struct AgeOrder<C> {
    silent: BTreeMap<QueueKey, C>,
    progressed: BTreeMap<QueueKey, (C, Instant)>,
}

impl<C> Default for HandshakeQueue<C> {
    fn default() -> Self {
        Self { by_listeners: HashMap::default(), counts: SourceCounts::default(), last_key: 0 }
    }
}

impl<C> Default for GroupQueue<C> {
    fn default() -> Self {
        Self {
            all: AgeOrder::default(),
            by_source: HashMap::default(),
            counts: SourceCounts::default(),
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
    pub(crate) fn insert(&mut self, id: C, origin: Origin) -> QueueKey {
        let key = self.next_key();
        self.by_listeners.entry(origin.listeners).or_default().insert(key, id, origin.source);
        self.counts.add(origin.listeners, 1);
        key
    }

    /// Records the first progress of a connection. Returns its new key; the same if there was progress before.
    pub(crate) fn record_progress(
        &mut self,
        old: QueueKey,
        origin: Origin,
        now: Instant,
    ) -> QueueKey {
        let new = self.next_key();
        let group = self.by_listeners.get_mut(&origin.listeners);
        let is_first = group.is_some_and(|it| it.record_progress((old, new), origin.source, now));
        if is_first { new } else { old }
    }

    /// Removes a connection that a worker takes over or that was closed.
    pub(crate) fn remove(&mut self, key: QueueKey, origin: Origin) {
        self.counts.remove(origin.listeners, 1);
        if let Some(group) = self.by_listeners.get_mut(&origin.listeners) {
            group.remove(key, origin.source);
            if group.all.is_empty() {
                self.by_listeners.remove(&origin.listeners);
            }
        }
    }

    /// The connection to close for a new one from `origin` when the capacity is reached; `None` if the new one must be
    /// refused.
    pub(crate) fn eviction_candidate(
        &self,
        origin: Origin,
        now: Instant,
        grace: Duration,
    ) -> Option<C> {
        if let Some(larger) = self.counts.larger_than(origin.listeners, 1) {
            return self.by_listeners.get(&larger)?.oldest_of_largest_source(now);
        }
        let largest = self.counts.largest()?;
        let is_largest = self.counts.count(origin.listeners) == self.counts.count(largest);
        let group = if is_largest { origin.listeners } else { largest };
        self.by_listeners.get(&group)?.eviction_candidate(origin.source, now, grace)
    }

    /// The oldest connection of the source that has the most, among those of the listeners that have the most, for want of something
    /// else than capacity.
    pub(crate) fn oldest_of_largest_source(&self, now: Instant) -> Option<C> {
        self.by_listeners.get(&self.counts.largest()?)?.oldest_of_largest_source(now)
    }

    fn next_key(&mut self) -> QueueKey {
        self.last_key += 1;
        QueueKey(self.last_key)
    }
}

impl<C: Copy> GroupQueue<C> {
    fn insert(&mut self, key: QueueKey, id: C, source: SourceNetwork) {
        self.all.silent.insert(key, id);
        self.by_source.entry(source).or_default().silent.insert(key, id);
        self.counts.add(source, 1);
    }

    /// Gives a connection that makes progress its new key. Returns `false` if it has made progress before.
    fn record_progress(
        &mut self,
        (old, new): (QueueKey, QueueKey),
        source: SourceNetwork,
        now: Instant,
    ) -> bool {
        let Some(id) = self.all.silent.remove(&old) else { return false };
        self.all.progressed.insert(new, (id, now));
        if let Some(order) = self.by_source.get_mut(&source) {
            order.silent.remove(&old);
            order.progressed.insert(new, (id, now));
        }
        true
    }

    fn remove(&mut self, key: QueueKey, source: SourceNetwork) {
        self.all.remove(key);
        self.counts.remove(source, 1);
        if let Some(order) = self.by_source.get_mut(&source) {
            order.remove(key);
            if order.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }

    fn eviction_candidate(
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

    fn oldest_of_largest_source(&self, now: Instant) -> Option<C> {
        self.by_source.get(&self.counts.largest()?)?.oldest(now, Duration::ZERO)
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

    /// A source that connects to the only listener.
    fn source(last: u8) -> Origin {
        at_listener(0, last)
    }

    fn at_listener(listener: usize, last: u8) -> Origin {
        let source = SourceNetwork::new([10, 0, 0, last].into());
        Origin { listeners: ListenerGroup(listener), source }
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

    /// A full queue, in which every connection has sent `HELLO`.
    struct FullQueue {
        queue: HandshakeQueue<u8>,
        open: HashMap<u8, (QueueKey, Origin)>,
        now: Instant,
    }

    impl FullQueue {
        fn insert(&mut self, id: u8, origin: Origin) {
            let key = self.queue.insert(id, origin);
            let key = self.queue.record_progress(key, origin, self.now);
            self.open.insert(id, (key, origin));
        }

        /// Inserts a connection in place of another one; returns the listener of that.
        fn replace(&mut self, id: u8, origin: Origin) -> ListenerGroup {
            self.now += GRACE;
            let evicted = self.queue.eviction_candidate(origin, self.now, GRACE).unwrap();
            let (key, from) = self.open.remove(&evicted).unwrap();
            self.queue.remove(key, from);
            self.insert(id, origin);
            from.listeners
        }
    }

    /// The flood comes from as many addresses as there are connections.
    #[test]
    fn a_flood_of_one_listener_costs_that_listener_its_connections_and_no_other() {
        const FLOODED: ListenerGroup = ListenerGroup(0);
        let (queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        let mut full = FullQueue { queue, open: HashMap::default(), now };
        let switch = at_listener(1, 200);
        for id in 0..2 {
            full.insert(id, switch);
        }
        for n in 2..20 {
            full.insert(n, at_listener(0, n));
        }
        for n in 20..120 {
            assert_eq!(full.replace(n, at_listener(0, n)), FLOODED, "not of the other listener");
        }
        // More switches of the other listener replace connections of the flood, up to half of all.
        for id in 120..128 {
            assert_eq!(full.replace(id, switch), FLOODED);
        }
        assert_eq!(full.replace(128, switch), ListenerGroup(1));
        assert_eq!(full.replace(129, at_listener(0, 129)), FLOODED);
        // A third listener has its share as well.
        for n in 130..136 {
            assert_ne!(full.replace(n, at_listener(2, n)), ListenerGroup(2));
        }
    }

    /// All connections have sent `HELLO` a moment ago.
    #[test]
    fn a_listener_over_its_share_loses_connections_to_others_without_a_grace_period() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for n in 0..10 {
            let origin = at_listener(0, n);
            let key = queue.insert(n, origin);
            queue.record_progress(key, origin, now);
        }
        // All sources have one connection.
        assert!(queue.eviction_candidate(at_listener(1, 200), now, GRACE).is_some());
        assert_eq!(queue.eviction_candidate(at_listener(0, 200), now, GRACE), None);
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
        assert_eq!(queue.by_listeners.len(), 0);
        assert_eq!(queue.counts.largest(), None);
    }
}
