//! Who sends to whom: addresses from sequence numbers, and sequence numbers from addresses.

use sluice_base::Rng;

/// Numbers of hosts that were announced lie below, those of new sources at and above.
pub(crate) const FRESH: u32 = 1 << 24;

/// New sources come round after so many requests of one switch.
const FRESH_LEN: u32 = 1 << 29;

/// A share of one, as a fixed-point number.
const WHOLE: u64 = 1 << 32;

/// Who sends to whom on one switch.
///
/// Host `h` lives on port `1 + h mod ports`. Request by request the source runs over all hosts, the destination
/// stays `offset + step × ports` ahead of it, and at the end of each lap the step grows: so every pair of a period is
/// another one, the two ports differ, and the pair tells how long ago it was sent.
///
/// An address is locally administered: `02`, 16 bits of switch, 24 bits of host. New sources have more bits of host in
/// the first byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPairs {
    base: u64,
    hosts: u32,
    ports: u32,
    offset: u32,
    steps: u32,
    /// Share of requests with a new source, of [`WHOLE`].
    fresh_share: u64,
    src: u32,
    dst: u32,
    port: u32,
    step: u32,
    fresh_sum: u64,
}

/// What one request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostPair {
    /// Destination, 48 bits.
    pub(crate) dst: u64,
    /// Source, 48 bits.
    pub(crate) src: u64,
    /// Where the frame came in.
    pub(crate) in_port: u32,
}

impl HostPair {
    /// Destination and source as they follow one another in a frame.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&(self.dst << 16 | self.src >> 32).to_be_bytes());
        bytes[8..].copy_from_slice(&self.src.to_be_bytes()[4..]);
        bytes
    }
}

impl HostPairs {
    /// Pairs of the switch with number `switch`, of at least two `hosts` on at least two `ports`.
    ///
    /// `new_sources` is the share of requests that bring an address nobody has seen, 0 to 1.
    pub(crate) fn new(switch: u16, hosts: u32, ports: u16, new_sources: f64, seed: u64) -> Self {
        let ports = u32::from(ports);
        // Past the last host the sum wraps; it must not land on the source's own port.
        let offset = if hosts % ports == 1 { 2 } else { 1 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the share is between 0 and 1"
        )]
        let fresh_share = (new_sources.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        let mut pairs = Self {
            base: 0x0200_0000_0000 | u64::from(switch) << 24,
            hosts,
            ports,
            offset,
            steps: (hosts - 1).saturating_sub(offset) / ports + 1,
            fresh_share,
            src: 0,
            dst: offset,
            port: 1,
            step: 0,
            fresh_sum: 0,
        };
        let mut rng = Rng::new(seed ^ u64::from(switch) << 32);
        pairs.advance(rng.below(hosts));
        pairs
    }

    /// Requests after which the pairs come again.
    pub(crate) fn period(hosts: u32, ports: u16) -> u64 {
        let pairs = Self::new(0, hosts, ports, 0.0, 0);
        u64::from(pairs.hosts) * u64::from(pairs.steps)
    }

    /// Hands the pairs of the next requests to `put`, until that is not `true` any more; `seq` is the number of the
    /// first. The last pair may have been handed over in vain.
    ///
    /// Written as runs in which nothing wraps but the port: this is the most frequent thing that the bench does.
    #[inline]
    pub(crate) fn each(mut self, seq: u32, mut put: impl FnMut(u32, HostPair) -> bool) {
        let mut seq = seq;
        loop {
            let run = self.hosts - self.src.max(self.dst);
            let (mut src, mut dst, mut in_port) =
                (self.address(self.src), self.address(self.dst), self.port);
            for _ in 0..run {
                let mut from = src;
                if self.fresh_share > 0 {
                    self.fresh_sum += self.fresh_share;
                    if self.fresh_sum >= WHOLE {
                        self.fresh_sum -= WHOLE;
                        from = self.address(FRESH + seq % FRESH_LEN);
                    }
                }
                if !put(seq, HostPair { dst, src: from, in_port }) {
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

    /// Goes on by `n` requests at once.
    pub(crate) fn advance(&mut self, n: u32) {
        let src = u64::from(self.src) + u64::from(n);
        let laps = src / u64::from(self.hosts);
        let below = |n: u64, bound: u32| u32::try_from(n % u64::from(bound)).unwrap_or(0);
        self.src = below(src, self.hosts);
        self.step = below(u64::from(self.step) + laps, self.steps);
        let ahead = u64::from(self.offset) + u64::from(self.step) * u64::from(self.ports);
        self.dst = below(u64::from(self.src) + ahead, self.hosts);
        self.port = 1 + self.src % self.ports;
        self.fresh_sum = (self.fresh_sum + u64::from(n) * self.fresh_share) % WHOLE;
    }

    /// How many requests before the next one, which is `next_seq`, this pair was sent last; `None` if it is not one of
    /// ours.
    #[inline]
    pub(crate) fn age(&self, dst: u64, src: u64, next_seq: u32) -> Option<u64> {
        let (dst, src) = (self.host(dst)?, self.host(src)?);
        if dst >= self.hosts {
            return None;
        }
        if src >= FRESH {
            let age = next_seq.wrapping_sub(src - FRESH) % FRESH_LEN;
            return Some(u64::from(if age == 0 { FRESH_LEN } else { age }));
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

    /// The address of a host, and the port it lives on.
    pub(crate) fn whereabouts(&self, host: u32) -> (u64, u32) {
        (self.address(host), 1 + host % self.ports)
    }

    /// The IPv4 address that a host announces, of 10.0.0.0/8: no two of the first 2²⁴ hosts of all switches have the same.
    pub(crate) fn ip(&self, host: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
        let switch = (self.base >> 24) as u16;
        let number = u32::from(switch).wrapping_mul(self.hosts).wrapping_add(host);
        0x0a00_0000 | number.wrapping_add(1) & 0xff_ffff
    }

    #[inline]
    fn address(&self, host: u32) -> u64 {
        self.base | u64::from(host / FRESH) << 42 | u64::from(host % FRESH)
    }

    #[inline]
    fn host(&self, address: u64) -> Option<u32> {
        let high = address >> 42 & 0x3f;
        let rest = address & !(0x3f << 42);
        let low = rest.wrapping_sub(self.base);
        if low >= u64::from(FRESH) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "30 bits")]
        let host = (high << 24 | low) as u32;
        Some(host)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The pairs of the next `n` requests, numbered from 0.
    fn next(pairs: &HostPairs, n: u64) -> Vec<HostPair> {
        let mut taken = vec![];
        pairs.each(0, |_, pair| {
            taken.push(pair);
            (taken.len() as u64) <= n
        });
        taken.truncate(usize::try_from(n).unwrap());
        taken
    }

    #[test]
    fn pairs_are_all_different_and_never_on_one_port() {
        for (hosts, ports) in [(2, 2), (8, 2), (5, 4), (9, 4), (10, 4), (11, 4), (12, 4), (7, 3)] {
            let pairs = HostPairs::new(3, hosts, ports, 0.0, 1);
            let period = HostPairs::period(hosts, ports);
            let taken = next(&pairs, period + 1);
            let mut seen = HashSet::new();
            for pair in &taken[..taken.len() - 1] {
                let (dst, src) = (pairs.host(pair.dst).unwrap(), pairs.host(pair.src).unwrap());
                assert_eq!(pair.in_port, 1 + src % u32::from(ports));
                assert_ne!(dst % u32::from(ports), src % u32::from(ports), "{hosts} {ports}");
                assert!(seen.insert((dst, src)), "{hosts} {ports}: {dst} {src} twice");
            }
            assert_eq!(taken.first(), taken.last());
        }
    }

    #[test]
    fn a_pair_tells_how_long_ago_it_was_sent() {
        let mut pairs = HostPairs::new(40_000, 10, 4, 0.5, 7);
        let sent = next(&pairs, 20);
        pairs.advance(20);
        for (seq, pair) in (0u64..).zip(&sent) {
            assert_eq!(pairs.age(pair.dst, pair.src, 20), Some(20 - seq));
        }
        let fresh = sent.iter().filter(|pair| pairs.host(pair.src).unwrap() >= FRESH);
        assert_eq!(fresh.count(), 10);
    }

    #[test]
    fn to_advance_is_to_pass_over() {
        let mut pairs = HostPairs::new(1, 11, 4, 0.3, 0);
        let all = next(&pairs, 1100);
        let mut at = 0;
        for n in [1u32, 5, 11, 40, 1000] {
            pairs.advance(n);
            at += n;
            let here: Vec<_> = next(&pairs, 20).iter().map(|p| (p.dst, p.in_port)).collect();
            let there = all[at as usize..].iter().map(|p| (p.dst, p.in_port));
            assert_eq!(here, there.take(20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn other_addresses_are_not_ours() {
        let pairs = HostPairs::new(1, 10, 4, 0.0, 0);
        let (host, _) = pairs.whereabouts(3);
        assert_eq!(pairs.age(0xffff_ffff_ffff, host, 5), None);
        assert_eq!(pairs.age(host, 0x0180_c200_000e, 5), None);
        assert_eq!(pairs.age(pairs.whereabouts(10).0, host, 5), None);
        let other_switch = HostPairs::new(2, 10, 4, 0.0, 0).whereabouts(4).0;
        assert_eq!(pairs.age(other_switch, host, 5), None);
    }
}
