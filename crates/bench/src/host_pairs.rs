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
/// host number in the first byte. IPv4 addresses are consecutive over all switches: announced hosts have those of 10.0.0.0/9, new
/// sources those of 10.128.0.0/9. They repeat after 2²³ hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPairs {
    base: u64,
    /// Added to the number of a host in its IPv4 address.
    ip_offset: u32,
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
    /// IPv4 address of the destination.
    pub(crate) dst_ip: u32,
    /// IPv4 address of the source.
    pub(crate) src_ip: u32,
}

/// The requests that have one pair of hosts: how many requests before the next one they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EqualRequests {
    /// The newest of them; 1 is the last request.
    pub(crate) age: u64,
    /// Number of requests from one of them to the next.
    pub(crate) period: u64,
}

impl HostPair {
    /// Destination and source as in an Ethernet header.
    #[inline]
    pub(crate) fn mac_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&(self.dst << 16 | self.src >> 32).to_be_bytes());
        bytes[8..].copy_from_slice(&self.src.to_be_bytes()[4..]);
        bytes
    }

    /// Checksum, source and destination as in an IPv4 header. `rest` is the sum of the other 16-bit words of the header.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the carries have been added")]
    pub(crate) fn ip_bytes(self, rest: u32) -> [u8; 10] {
        let sum = |address: u32| (address >> 16) + (address & 0xffff);
        let sum = rest + sum(self.src_ip) + sum(self.dst_ip);
        let sum = (sum >> 16) + (sum & 0xffff);
        let checksum = !(sum + (sum >> 16)) as u16;
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&checksum.to_be_bytes());
        let addresses = u64::from(self.src_ip) << 32 | u64::from(self.dst_ip);
        bytes[2..].copy_from_slice(&addresses.to_be_bytes());
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
            ip_offset: u32::from(switch).wrapping_mul(hosts).wrapping_add(1),
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
                let (dst_ip, src_ip) = (self.ip_of(dst), self.ip_of(from));
                if !f(seq, HostPair { dst, src: from, in_port, dst_ip, src_ip }) {
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
    #[inline]
    pub(crate) fn advance(&mut self, n: u32) {
        let is_same_lap = self.src.max(self.dst).checked_add(n).is_some_and(|it| it < self.hosts);
        if n > self.ports || !is_same_lap {
            return self.advance_far(n);
        }
        // Without a division: a small window advances by one for every request.
        (self.src, self.dst, self.port) = (self.src + n, self.dst + n, self.port + n);
        if self.port > self.ports {
            self.port -= self.ports;
        }
        self.advance_new_sources(n);
    }

    /// Advances by any number of requests.
    fn advance_far(&mut self, n: u32) {
        let src = u64::from(self.src) + u64::from(n);
        let laps = src / u64::from(self.hosts);
        let below = |n: u64, bound: u32| u32::try_from(n % u64::from(bound)).unwrap_or(0);
        self.src = below(src, self.hosts);
        self.step = below(u64::from(self.step) + laps, self.steps);
        let ahead = u64::from(self.offset) + u64::from(self.step) * u64::from(self.ports);
        self.dst = below(u64::from(self.src) + ahead, self.hosts);
        self.port = 1 + self.src % self.ports;
        self.advance_new_sources(n);
    }

    #[inline]
    fn advance_new_sources(&mut self, n: u32) {
        self.new_source_sum = (self.new_source_sum + u64::from(n) * self.new_source_share) % ONE;
    }

    /// The requests before the next one (number `next_seq`) that have this pair; `None` if it is not a pair of this switch.
    #[inline]
    pub(crate) fn equal_requests(
        &self,
        dst: u64,
        src: u64,
        next_seq: u32,
    ) -> Option<EqualRequests> {
        let (dst, src) = (self.host(dst)?, self.host(src)?);
        if dst >= self.hosts {
            return None;
        }
        if src >= NEW_SOURCE_MIN {
            let age = next_seq.wrapping_sub(src - NEW_SOURCE_MIN) % NEW_SOURCES;
            let age = u64::from(if age == 0 { NEW_SOURCES } else { age });
            return Some(EqualRequests { age, period: NEW_SOURCES.into() });
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
        let age = if there < here { here - there } else { here + period - there };
        Some(EqualRequests { age, period })
    }

    /// MAC address and port of a host.
    pub(crate) fn location(&self, host: u32) -> (u64, u32) {
        (self.address(host), 1 + host % self.ports)
    }

    /// IPv4 address of a host.
    pub(crate) fn ip(&self, host: u32) -> u32 {
        self.ip_of(self.address(host))
    }

    /// IPv4 address of the host with this MAC address.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low 24 bits are the number of the host"
    )]
    fn ip_of(&self, address: u64) -> u32 {
        let is_new_source = u32::from(address >> 42 & 0x3f != 0);
        let number = (address as u32 & 0xff_ffff).wrapping_add(self.ip_offset);
        0x0a00_0000 | is_new_source << 23 | number & 0x7f_ffff
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
    fn equal_requests_are_computed_from_their_pair_of_hosts() {
        let mut pairs = HostPairs::new(40_000, 10, 4, 0.5, 7);
        let sent = next(&pairs, 20);
        pairs.advance(20);
        for (seq, pair) in (0u64..).zip(&sent) {
            let equal = pairs.equal_requests(pair.dst, pair.src, 20).unwrap();
            assert_eq!(equal.age, 20 - seq);
            let is_new = pairs.host(pair.src).unwrap() >= NEW_SOURCE_MIN;
            let period = if is_new { NEW_SOURCES.into() } else { HostPairs::period(10, 4) };
            assert_eq!(equal.period, period);
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
    fn advancing_one_by_one_is_advancing_by_their_number() {
        for (hosts, ports) in [(2, 2), (5, 4), (9, 4), (12, 4), (7, 3), (16, 4)] {
            let mut single = HostPairs::new(1, hosts, ports, 0.3, 5);
            let start = single;
            for n in 1..=2 * u32::try_from(HostPairs::period(hosts, ports)).unwrap() {
                single.advance(1);
                let mut far = start;
                far.advance_far(n);
                assert_eq!(next(&single, 3), next(&far, 3), "{hosts} {ports}: {n}");
            }
        }
    }

    #[test]
    fn addresses_that_no_request_had_are_not_matched() {
        let pairs = HostPairs::new(1, 10, 4, 0.0, 0);
        let (host, _) = pairs.location(3);
        assert_eq!(pairs.equal_requests(0xffff_ffff_ffff, host, 5), None);
        assert_eq!(pairs.equal_requests(host, 0x0180_c200_000e, 5), None);
        assert_eq!(pairs.equal_requests(pairs.location(10).0, host, 5), None);
        let other_switch = HostPairs::new(2, 10, 4, 0.0, 0).location(4).0;
        assert_eq!(pairs.equal_requests(other_switch, host, 5), None);
    }

    #[test]
    fn hosts_of_all_switches_and_new_sources_have_ip_addresses_of_their_own() {
        let switches = [1, 2, 3].map(|switch| HostPairs::new(switch, 100, 4, 0.5, 7));
        let hosts = (0..100).chain(NEW_SOURCE_MIN..NEW_SOURCE_MIN + 100);
        let mut seen = HashSet::default();
        for host in hosts {
            for pairs in &switches {
                assert!(seen.insert(pairs.ip(host)), "host {host}");
            }
        }
        assert!(seen.iter().all(|ip| ip >> 24 == 10));
        let pair = next(&switches[0], 1)[0];
        let [dst, src] = [pair.dst, pair.src].map(|mac| switches[0].host(mac).unwrap());
        assert_eq!((pair.dst_ip, pair.src_ip), (switches[0].ip(dst), switches[0].ip(src)));
    }
}
