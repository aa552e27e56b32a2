//! Limits the number of connections in the handshake: when there are too many, chooses which one to close.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_io::ConnId;
use sluice_proto::SourceId;

/// The share of a source is the capacity divided by this. A source with more connections loses one first.
const SHARE_DIVISOR: usize = 2;

/// Key of a connection in the handshake queue, increasing with time. A connection gets a new one with its `HELLO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey(u64);

/// The source that a connection is attributed to: an IPv4 address or an IPv6 /64 prefix, since a host can usually
/// choose any address of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SourceNetwork(IpAddr);

impl SourceNetwork {
    pub(crate) fn new(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }

    /// The source for the memory of multipart replies.
    pub(crate) fn id(self) -> SourceId {
        SourceId(match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        })
    }
}

/// Connections in the handshake, by progress and source.
///
/// When the capacity is reached, a new connection replaces the oldest one that has sent no `HELLO`, or else the one with
/// the oldest `HELLO` if that is older than a grace period, in which a switch can complete the handshake. If a source has
/// more than its share of the capacity, one of its connections is replaced instead: at once for a connection from another
/// source, after the grace period for one of its own.
///
/// # Cost
/// Logarithmic in the number of connections.
#[derive(Debug)]
pub(crate) struct HandshakeQueue<C = ConnId> {
    all: AgeOrder<C>,
    by_source: HashMap<SourceNetwork, AgeOrder<C>>,
    /// The last source that exceeded its share. At most one source can exceed half of the capacity.
    over_share: Option<SourceNetwork>,
    last_key: u64,
}

/// Connections by age: those without a `HELLO` since they were accepted, the others since their `HELLO`.
#[derive(Debug)]
struct AgeOrder<C> {
    without_hello: BTreeMap<QueueKey, C>,
    with_hello: BTreeMap<QueueKey, (C, Instant)>,
}

impl<C> Default for HandshakeQueue<C> {
    fn default() -> Self {
        Self {
            all: AgeOrder::default(),
            by_source: HashMap::default(),
            over_share: None,
            last_key: 0,
        }
    }
}

impl<C> Default for AgeOrder<C> {
    fn default() -> Self {
        Self { without_hello: BTreeMap::new(), with_hello: BTreeMap::new() }
    }
}

impl<C: Copy> HandshakeQueue<C> {
    /// Adds a connection that was just accepted.
    pub(crate) fn insert(&mut self, id: C, source: SourceNetwork, capacity: usize) -> QueueKey {
        let key = self.next_key();
        self.all.without_hello.insert(key, id);
        let order = self.by_source.entry(source).or_default();
        order.without_hello.insert(key, id);
        if order.len() > capacity / SHARE_DIVISOR {
            self.over_share = Some(source);
        }
        key
    }

    /// Records that a connection has sent `HELLO`. Returns its new key.
    pub(crate) fn record_hello(
        &mut self,
        old: QueueKey,
        source: SourceNetwork,
        now: Instant,
    ) -> QueueKey {
        let Some(id) = self.all.without_hello.remove(&old) else { return old };
        let key = self.next_key();
        self.all.with_hello.insert(key, (id, now));
        if let Some(order) = self.by_source.get_mut(&source) {
            order.without_hello.remove(&old);
            order.with_hello.insert(key, (id, now));
        }
        key
    }

    /// Removes a connection that has completed the handshake or was closed.
    pub(crate) fn remove(&mut self, key: QueueKey, source: SourceNetwork) {
        self.all.remove(key);
        if let Some(order) = self.by_source.get_mut(&source) {
            order.remove(key);
            if order.len() == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    /// The connection to close for a new one from `source` when the capacity is reached; `None` if the new one must be
    /// refused.
    pub(crate) fn eviction_candidate(
        &self,
        source: SourceNetwork,
        capacity: usize,
        now: Instant,
        grace: Duration,
    ) -> Option<C> {
        let over_share = self.over_share.and_then(|over| Some((over, self.by_source.get(&over)?)));
        match over_share.filter(|(_, order)| order.len() > capacity / SHARE_DIVISOR) {
            Some((over, order)) if over == source => order.oldest(now, grace),
            Some((_, order)) => order.oldest(now, Duration::ZERO),
            None => self.all.oldest(now, grace),
        }
    }

    fn next_key(&mut self) -> QueueKey {
        self.last_key += 1;
        QueueKey(self.last_key)
    }
}

impl<C: Copy> AgeOrder<C> {
    fn len(&self) -> usize {
        self.without_hello.len() + self.with_hello.len()
    }

    fn remove(&mut self, key: QueueKey) {
        self.without_hello.remove(&key);
        self.with_hello.remove(&key);
    }

    fn oldest(&self, now: Instant, grace: Duration) -> Option<C> {
        let without_hello = self.without_hello.values().next().copied();
        without_hello.or_else(|| {
            let &(id, since) = self.with_hello.values().next()?;
            (now.saturating_duration_since(since) >= grace).then_some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(100);
    const CAPACITY: usize = 4;

    fn source(last: u8) -> SourceNetwork {
        SourceNetwork::new([10, 0, 0, last].into())
    }

    #[test]
    fn connections_without_hello_are_evicted_first_then_the_oldest_hello_after_the_grace_period() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        let keys: Vec<_> = (0..4).map(|n| queue.insert(n, source(n), CAPACITY)).collect();
        let candidate = |queue: &HandshakeQueue<u8>, now| {
            queue.eviction_candidate(source(9), CAPACITY, now, GRACE)
        };
        let first = queue.record_hello(keys[0], source(0), now);
        assert_eq!(candidate(&queue, now), Some(1));
        // The others send HELLO in another order than they were accepted.
        for n in [3, 2, 1] {
            queue.record_hello(keys[usize::from(n)], source(n), now + GRACE / 2);
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
            let key = queue.insert(id, from, CAPACITY);
            queue.record_hello(key, from, now);
        }
        let candidate = |from, now| queue.eviction_candidate(from, CAPACITY, now, GRACE);
        assert_eq!(candidate(source(3), now), Some(1));
        assert_eq!(candidate(source(2), now), None, "its own connection may be a switch");
        assert_eq!(candidate(source(2), now + GRACE), Some(1), "not the older one of source 1");
    }

    #[test]
    fn nothing_is_kept_of_removed_connections() {
        let (mut queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for n in 0..200 {
            let mut key = queue.insert(n, source(n), CAPACITY);
            if n % 2 == 0 {
                key = queue.record_hello(key, source(n), now);
            }
            queue.remove(key, source(n));
        }
        assert_eq!((queue.all.len(), queue.by_source.len()), (0, 0));
    }

    #[test]
    fn an_ipv6_prefix_is_one_source_and_a_mapped_ipv4_address_equals_the_plain_one() {
        let at = |ip: &str| SourceNetwork::new(ip.parse().unwrap());
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }
}
