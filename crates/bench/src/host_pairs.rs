//! Source and destination of each request: addresses from sequence numbers, and sequence numbers from addresses.

use sluice_base::Rng;

/// Host numbers of announced hosts lie below, those of new sources at and above.
pub(crate) const NEW_SOURCE_MIN: u32 = 1 << 24;

/// Number of requests of one switch after which new sources repeat.
const NEW_SOURCES: u32 = 1 << 29;

/// 1.0 as a fixed-point number.
const ONE: u64 = 1 << 32;

/// The sequence of (source, destination) pairs of the requests of one switch.
///
/// Host `h` is attached to port `1 + h mod ports`. From one request to the next, the source advances over all hosts; the
/// destination stays `offset + step × ports` ahead of it, and `step` grows by one after each lap. So all pairs of a period
/// differ, the two hosts are never on one port, and the pair determines how many requests ago it was sent.
///
/// MAC addresses are locally administered: `02`, 16 bits of switch, 24 bits of host. New sources have more bits of the
/// host number in the first byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPairs {
    base: u64,
    hosts: u32,
    ports: u32,
    offset: u32,
    steps: u32,
    /// Share of requests with a new source, in units of 1 / [`ONE`].
    new_source_share: u64,
    src: u32,
    dst: u32,
    port: u32,
    step: u32,
    new_source_sum: u64,
}

/// Addresses and ingress port of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostPair {
    /// Destination, 48 bits.
    pub(crate) dst: u64,
    /// Source, 48 bits.
    pub(crate) src: u64,
    pub(crate) in_port: u32,
}

impl HostPair {
    /// Destination and source as in an Ethernet header.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&(self.dst << 16 | self.src >> 32).to_be_bytes());
        bytes[8..].copy_from_slice(&self.src.to_be_bytes()[4..]);
        bytes
    }
}

impl HostPairs {
    /// Pairs for switch number `switch`, with at least two `hosts` on at least two `ports`.
    ///
    /// `new_sources` is the share of requests (0 to 1) whose source address was never used before.
    pub(crate) fn new(switch: u16, hosts: u32, ports: u16, new_sources: f64, seed: u64) -> Self {
        let ports = u32::from(ports);
        // Past the last host the destination wraps; it must not wrap to a host on the port of the source.
        let offset = if hosts % ports == 1 { 2 } else { 1 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the share is between 0 and 1"
        )]
        let new_source_share = (new_sources.clamp(0.0, 1.0) * ONE as f64) as u64;
        let mut pairs = Self {
            base: 0x0200_0000_0000 | u64::from(switch) << 24,
            hosts,
            ports,
            offset,
            steps: (hosts - 1).saturating_sub(offset) / ports + 1,
            new_source_share,
            src: 0,
            dst: offset,
            port: 1,
            step: 0,
            new_source_sum: 0,
        };
        let mut rng = Rng::new(seed ^ u64::from(switch) << 32);
        pairs.advance(rng.below(hosts));
        pairs
    }

    /// Number of requests after which the pairs repeat.
    pub(crate) fn period(hosts: u32, ports: u16) -> u64 {
        let pairs = Self::new(0, hosts, ports, 0.0, 0);
        u64::from(pairs.hosts) * u64::from(pairs.steps)
    }

    /// Calls `f` with sequence number and pair of one request after the other, starting from `seq`, until it returns
    /// `false`.
    ///
    /// Split into runs in which nothing but the port wraps, since this is the hottest loop of the generator.
    #[inline]
    pub(crate) fn for_each(mut self, seq: u32, mut f: impl FnMut(u32, HostPair) -> bool) {
        let mut seq = seq;
        loop {
            let run = self.hosts - self.src.max(self.dst);
            let (mut src, mut dst, mut in_port) =
                (self.address(self.src), self.address(self.dst), self.port);
            for _ in 0..run {
                let mut from = src;
                if self.new_source_share > 0 {
                    self.new_source_sum += self.new_source_share;
                    if self.new_source_sum >= ONE {
                        self.new_source_sum -= ONE;
                        from = self.address(NEW_SOURCE_MIN + seq % NEW_SOURCES);
                    }
                }
                if !f(seq, HostPair { dst, src: from, in_port }) {
                    return;
                }
                (src, dst, seq) = (src + 1, dst + 1, seq.wrapping_add(1));
                in_port = if in_port == self.ports { 1 } else { in_port + 1 };
            }
            (self.src, self.dst, self.port) = (self.src + run, self.dst + run, in_port);
            if self.dst == self.hosts {
                self.dst = 0;
            }
            if self.src == self.hosts {
                (self.src, self.port) = (0, 1);
                self.step = if self.step + 1 == self.steps { 0 } else { self.step + 1 };
                self.dst = self.offset + self.step * self.ports;
            }
        }
    }

    /// Advances by `n` requests.
    pub(crate) fn advance(&mut self, n: u32) {
        let src = u64::from(self.src) + u64::from(n);
        let laps = src / u64::from(self.hosts);
        let below = |n: u64, bound: u32| u32::try_from(n % u64::from(bound)).unwrap_or(0);
        self.src = below(src, self.hosts);
        self.step = below(u64::from(self.step) + laps, self.steps);
        let ahead = u64::from(self.offset) + u64::from(self.step) * u64::from(self.ports);
        self.dst = below(u64::from(self.src) + ahead, self.hosts);
        self.port = 1 + self.src % self.ports;
        self.new_source_sum = (self.new_source_sum + u64::from(n) * self.new_source_share) % ONE;
    }

    /// How many requests before the next one (number `next_seq`) this pair was last sent; `None` if it is not a pair of
    /// this switch.
    #[inline]
    pub(crate) fn age(&self, dst: u64, src: u64, next_seq: u32) -> Option<u64> {
        let (dst, src) = (self.host(dst)?, self.host(src)?);
        if dst >= self.hosts {
            return None;
        }
        if src >= NEW_SOURCE_MIN {
            let age = next_seq.wrapping_sub(src - NEW_SOURCE_MIN) % NEW_SOURCES;
            return Some(u64::from(if age == 0 { NEW_SOURCES } else { age }));
        }
        if src >= self.hosts {
            return None;
        }
        let ahead = if dst >= src { dst - src } else { dst + self.hosts - src };
        let beyond = ahead.checked_sub(self.offset)?;
        if beyond % self.ports != 0 {
            return None;
        }
        let here = u64::from(self.step) * u64::from(self.hosts) + u64::from(self.src);
        let there = u64::from(beyond / self.ports) * u64::from(self.hosts) + u64::from(src);
        let period = u64::from(self.steps) * u64::from(self.hosts);
        Some(if there < here { here - there } else { here + period - there })
    }

    /// MAC address and port of a host.
    pub(crate) fn location(&self, host: u32) -> (u64, u32) {
        (self.address(host), 1 + host % self.ports)
    }

    /// IPv4 address that a host announces, in 10.0.0.0/8. The first 2²⁴ hosts of all switches have different ones.
    pub(crate) fn ip(&self, host: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
        let switch = (self.base >> 24) as u16;
        let number = u32::from(switch).wrapping_mul(self.hosts).wrapping_add(host);
        0x0a00_0000 | number.wrapping_add(1) & 0xff_ffff
    }

    #[inline]
    fn address(&self, host: u32) -> u64 {
        self.base | u64::from(host / NEW_SOURCE_MIN) << 42 | u64::from(host % NEW_SOURCE_MIN)
    }

    #[inline]
    fn host(&self, address: u64) -> Option<u32> {
        let high = address >> 42 & 0x3f;
        let rest = address & !(0x3f << 42);
        let low = rest.wrapping_sub(self.base);
        if low >= u64::from(NEW_SOURCE_MIN) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "30 bits")]
        let host = (high << 24 | low) as u32;
        Some(host)
    }
}

#[cfg(test)]
mod tests {
    use sluice_base::HashSet;

    use super::*;

    /// The pairs of the next `n` requests, numbered from 0.
    fn next(pairs: &HostPairs, n: u64) -> Vec<HostPair> {
        let mut sequence = vec![];
        pairs.for_each(0, |_, pair| {
            sequence.push(pair);
            (sequence.len() as u64) <= n
        });
        sequence.truncate(usize::try_from(n).unwrap());
        sequence
    }

    #[test]
    fn all_pairs_of_a_period_differ_and_none_is_on_one_port() {
        for (hosts, ports) in [(2, 2), (8, 2), (5, 4), (9, 4), (10, 4), (11, 4), (12, 4), (7, 3)] {
            let pairs = HostPairs::new(3, hosts, ports, 0.0, 1);
            let period = HostPairs::period(hosts, ports);
            let sequence = next(&pairs, period + 1);
            let mut seen = HashSet::default();
            for pair in &sequence[..sequence.len() - 1] {
                let (dst, src) = (pairs.host(pair.dst).unwrap(), pairs.host(pair.src).unwrap());
                assert_eq!(pair.in_port, 1 + src % u32::from(ports));
                assert_ne!(dst % u32::from(ports), src % u32::from(ports), "{hosts} {ports}");
                assert!(seen.insert((dst, src)), "{hosts} {ports}: {dst} {src} twice");
            }
            assert_eq!(sequence.first(), sequence.last());
        }
    }

    #[test]
    fn the_age_of_a_request_is_computed_from_its_pair_of_hosts() {
        let mut pairs = HostPairs::new(40_000, 10, 4, 0.5, 7);
        let sent = next(&pairs, 20);
        pairs.advance(20);
        for (seq, pair) in (0u64..).zip(&sent) {
            assert_eq!(pairs.age(pair.dst, pair.src, 20), Some(20 - seq));
        }
        let new = sent.iter().filter(|pair| pairs.host(pair.src).unwrap() >= NEW_SOURCE_MIN);
        assert_eq!(new.count(), 10);
    }

    #[test]
    fn advancing_skips_as_many_pairs() {
        let mut pairs = HostPairs::new(1, 11, 4, 0.3, 0);
        let all = next(&pairs, 1100);
        let mut at = 0;
        for n in [1u32, 5, 11, 40, 1000] {
            pairs.advance(n);
            at += n;
            let after_advance: Vec<_> =
                next(&pairs, 20).iter().map(|p| (p.dst, p.in_port)).collect();
            let expected = all[at as usize..].iter().map(|p| (p.dst, p.in_port));
            assert_eq!(after_advance, expected.take(20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn addresses_that_no_request_had_are_not_matched() {
        let pairs = HostPairs::new(1, 10, 4, 0.0, 0);
        let (host, _) = pairs.location(3);
        assert_eq!(pairs.age(0xffff_ffff_ffff, host, 5), None);
        assert_eq!(pairs.age(host, 0x0180_c200_000e, 5), None);
        assert_eq!(pairs.age(pairs.location(10).0, host, 5), None);
        let other_switch = HostPairs::new(2, 10, 4, 0.0, 0).location(4).0;
        assert_eq!(pairs.age(other_switch, host, 5), None);
    }
}
