//! Where connections come from, and how many each source has.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use sluice_base::hash::HashMap;
use sluice_proto::SourceId;

/// The source that a connection is attributed to: an IPv4 address or an IPv6 /64 prefix, since a host can usually
/// choose any address of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Number of connections, or of ports, of each source, to share a limited number among sources: each may have all, as long as no
/// other source wants them. `K` may be something else than a source that connections have in common.
///
/// # Cost
/// Logarithmic in the number of sources.
#[derive(Debug)]
pub(crate) struct SourceCounts<K = SourceNetwork> {
    by_source: HashMap<K, usize>,
    by_count: BTreeSet<(usize, K)>,
}

impl<K> Default for SourceCounts<K> {
    fn default() -> Self {
        Self { by_source: HashMap::default(), by_count: BTreeSet::new() }
    }
}

impl<K: Copy + Ord + Hash> SourceCounts<K> {
    /// How many `source` has.
    pub(crate) fn count(&self, source: K) -> usize {
        self.by_source.get(&source).copied().unwrap_or(0)
    }

    /// Counts `n` more of `source`.
    pub(crate) fn add(&mut self, source: K, n: usize) {
        let count = self.count(source);
        self.set(source, count, count + n);
    }

    /// Counts `n` less of `source`.
    pub(crate) fn remove(&mut self, source: K, n: usize) {
        let count = self.count(source);
        self.set(source, count, count.saturating_sub(n));
    }

    fn set(&mut self, source: K, old: usize, new: usize) {
        self.by_count.remove(&(old, source));
        if new == 0 {
            self.by_source.remove(&source);
        } else {
            self.by_source.insert(source, new);
            self.by_count.insert((new, source));
        }
    }

    /// The source that has the most.
    pub(crate) fn largest(&self) -> Option<K> {
        self.by_count.last().map(|&(_, source)| source)
    }

    /// The source that must give up something for `n` more of `newcomer`: the largest, if it has more than `newcomer` would have
    /// then.
    pub(crate) fn larger_than(&self, newcomer: K, n: usize) -> Option<K> {
        let &(count, source) = self.by_count.last()?;
        (count > self.count(newcomer) + n).then_some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_source_gives_up_connections_until_shares_are_equal() {
        let source = |last: u8| SourceNetwork::new([10, 0, 0, last].into());
        let mut counts = SourceCounts::default();
        assert_eq!((counts.largest(), counts.larger_than(source(1), 1)), (None, None));
        (0..8).for_each(|_| counts.add(source(1), 1));
        assert_eq!(counts.larger_than(source(1), 1), None);
        let mut replaced = 0;
        while counts.larger_than(source(2), 1) == Some(source(1)) {
            counts.remove(source(1), 1);
            counts.add(source(2), 1);
            replaced += 1;
        }
        assert_eq!((replaced, counts.count(source(1)), counts.count(source(2))), (4, 4, 4));
        assert_eq!(counts.larger_than(source(3), 1), counts.largest());
        for n in [1, 2] {
            (0..9).for_each(|_| counts.remove(source(n), 1));
        }
        assert_eq!((counts.by_source.len(), counts.by_count.len()), (0, 0));
    }

    #[test]
    fn an_ipv6_prefix_is_one_source_and_a_mapped_ipv4_address_equals_the_plain_one() {
        let at = |ip: &str| SourceNetwork::new(ip.parse().unwrap());
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_ne!(at("10.0.0.1").id(), at("2001:db8::1").id());
    }
}
