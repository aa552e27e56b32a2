//! The fast-path hosts of one switch: a hash table whose buckets are cache lines.

use std::time::{Duration, Instant};

use sluice_base::folded_multiply;
use sluice_openflow::{EthHeader, EtherType, PortNo};

use crate::fast_path_hosts::FastPathHost;

/// Hosts in a bucket, so that it is one cache line.
const SLOTS: usize = 4;

/// Buckets of a table with any host in it.
const BUCKETS_MIN: usize = 4;

/// Buckets that are searched before a host is left out. As the hash is secret and half of the slots are free, that does
/// not happen.
const SEARCHED_MAX: usize = 32;

/// Ports from this number on have no fast-path hosts: their frames take the general path.
pub const FAST_PATH_PORTS_MAX: u32 = 1 << 12;

/// The unit of [`CoarseTime`].
const UNIT: Duration = Duration::from_millis(10);

/// Time in units of 10 ms since the first host was added. It stops after 497 days; hosts then seem silent, and are probed.
pub type CoarseTime = u32;

/// A bit that every key has and no address, so that no key is 0, which is a free slot.
const KEY_BIT: u64 = 0x1000;

/// The port of a host, and the address families of which its address is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostEntry(u16);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct FastPathBucket {
    /// 0 in a free slot.
    keys: [u64; SLOTS],
    seen: [CoarseTime; SLOTS],
    entries: [HostEntry; SLOTS],
}

const _: () = assert!(size_of::<FastPathBucket>() == 64);

const EMPTY_BUCKET: FastPathBucket =
    FastPathBucket { keys: [0; SLOTS], seen: [0; SLOTS], entries: [HostEntry(0); SLOTS] };

/// The fast-path hosts of one switch.
///
/// A host is in the bucket that its hash selects or, if that was full, in the first one after it that was not. When a host
/// is removed from a full bucket, the hosts behind it move up, so that a search can end at the first bucket that is not
/// full.
#[derive(Debug)]
pub struct SwitchHosts {
    buckets: Vec<FastPathBucket>,
    len: usize,
    /// Secret, so that nobody can choose addresses that collide.
    hash_keys: [u64; 2],
    /// When the first host was added.
    since: Option<Instant>,
}

/// The slot of a host.
#[derive(Debug)]
pub struct HostSlot<'a> {
    bucket: &'a mut FastPathBucket,
    slot: usize,
}

impl HostEntry {
    const IPV4: u16 = 1 << 15;
    const IPV6: u16 = 1 << 14;

    fn new(host: &FastPathHost) -> Option<Self> {
        let port = u16::try_from(host.port.0).ok();
        let port = port.filter(|&port| u32::from(port) < FAST_PATH_PORTS_MAX)?;
        let ipv4 = if host.has_ipv4 { Self::IPV4 } else { 0 };
        let ipv6 = if host.has_ipv6 { Self::IPV6 } else { 0 };
        Some(Self(port | ipv4 | ipv6))
    }

    /// The port in the low 12 bits, and whether an IPv4 address is known in bit 15, and an IPv6 address in bit 14.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The port of the host.
    #[inline]
    pub fn port(self) -> PortNo {
        PortNo(u32::from(self.0) % FAST_PATH_PORTS_MAX)
    }

    /// Whether a frame of the host is ordinary: there is nothing to learn from it but that the host is there. `eth` is the
    /// start of `frame`, which may be truncated.
    ///
    /// Ordinary are untagged packets of an IP version of which an address of the host is known, except those that may be
    /// about addresses: neighbour discovery and DHCP.
    #[inline]
    pub fn is_ordinary(self, eth: &EthHeader, frame: &[u8]) -> bool {
        /// Offset of the protocol in IPv4.
        const PROTOCOL_AT: usize = 23;
        /// Offset of the next header in IPv6.
        const NEXT_HEADER_AT: usize = 20;
        const UDP: u8 = 17;
        const ICMPV6: u8 = 58;
        /// Source and destination port of DHCP servers' messages.
        const DHCP: [u8; 4] = [0, 67, 0, 68];
        match eth.ethertype() {
            EtherType::IPV4 => {
                let protocol = frame.get(PROTOCOL_AT);
                let has_no_options = frame.get(14) == Some(&0x45);
                let is_no_dhcp = || frame.get(34..38) != Some(&DHCP[..]);
                self.0 & Self::IPV4 != 0
                    && has_no_options
                    && (protocol != Some(&UDP) || is_no_dhcp())
            }
            EtherType::IPV6 => {
                self.0 & Self::IPV6 != 0 && frame.get(NEXT_HEADER_AT) != Some(&ICMPV6)
            }
            _ => false,
        }
    }
}

impl HostSlot<'_> {
    /// Port and known address families of the host.
    #[inline]
    pub fn entry(&self) -> HostEntry {
        self.bucket.entries.get(self.slot).copied().unwrap_or(HostEntry(0))
    }

    /// Records that the host was seen at `now`.
    #[inline]
    pub fn mark_seen(&mut self, now: CoarseTime) {
        // A cache line that is not written to stays clean.
        if let Some(seen) = self.bucket.seen.get_mut(self.slot).filter(|seen| **seen < now) {
            *seen = now;
        }
    }
}

impl FastPathBucket {
    fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&known| known == key)
    }
}

impl SwitchHosts {
    pub(crate) const fn new(hash_keys: [u64; 2]) -> Self {
        Self { buckets: Vec::new(), len: 0, hash_keys, since: None }
    }

    /// Converts a time.
    pub fn coarse_time(&self, now: Instant) -> CoarseTime {
        let passed = now.saturating_duration_since(self.since.unwrap_or(now));
        CoarseTime::try_from(passed.as_millis() / UNIT.as_millis()).unwrap_or(CoarseTime::MAX)
    }

    /// Finds an untagged host by the bits of its address, as [`EthHeader::src_bits`] returns them.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn find(&mut self, bits: u64) -> Option<HostSlot<'_>> {
        let key = bits | KEY_BIT;
        let at = self.home(key);
        let keys = &self.buckets.get(at)?.keys;
        // All slots are equally likely, so a branch for each would be mispredicted half of the time.
        let [_, one, two, three] = keys.map(|known| usize::from(known == key));
        let slot = one | (two * 2) | (three * 3);
        if *keys.get(slot)? == key {
            return Some(HostSlot { bucket: self.buckets.get_mut(at)?, slot });
        }
        let (at, slot) = self.find_elsewhere(key)?;
        Some(HostSlot { bucket: self.buckets.get_mut(at)?, slot })
    }

    /// Bucket and slot of a host.
    fn find_anywhere(&self, key: u64) -> Option<(usize, usize)> {
        let home = self.home(key);
        let here = self.buckets.get(home)?.find(key).map(|slot| (home, slot));
        here.or_else(|| self.find_elsewhere(key))
    }

    /// Bucket and slot of a host that is not in the bucket that its hash selects.
    #[cold]
    fn find_elsewhere(&self, key: u64) -> Option<(usize, usize)> {
        let mut at = self.home(key);
        for _ in 1..SEARCHED_MAX {
            if self.buckets.get(at)?.find(0).is_some() {
                return None;
            }
            at = self.next(at);
            if let Some(slot) = self.buckets.get(at)?.find(key) {
                return Some((at, slot));
            }
        }
        None
    }

    /// When a host was seen last; `None` if that was before the first host was added.
    pub(crate) fn last_seen(&self, bits: u64) -> Option<Instant> {
        let (at, slot) = self.find_anywhere(bits | KEY_BIT)?;
        let seen = *self.buckets.get(at)?.seen.get(slot)?;
        if seen == 0 { None } else { Some(self.since? + UNIT * seen) }
    }

    /// Adds or updates a host.
    pub(crate) fn insert(&mut self, bits: u64, host: &FastPathHost) {
        let Some(entry) = HostEntry::new(host) else { return self.remove(bits) };
        self.since.get_or_insert(host.last_seen);
        let seen = self.coarse_time(host.last_seen);
        if let Some(mut slot) = self.find(bits) {
            slot.mark_seen(seen);
            if let Some(known) = slot.bucket.entries.get_mut(slot.slot) {
                *known = entry;
            }
            return;
        }
        if (self.len + 1) * 2 > self.buckets.len() * SLOTS {
            self.grow();
        }
        self.insert_new(bits | KEY_BIT, entry, seen);
    }

    /// Removes a host.
    pub(crate) fn remove(&mut self, bits: u64) {
        let Some((at, slot)) = self.find_anywhere(bits | KEY_BIT) else { return };
        let Some(bucket) = self.buckets.get_mut(at) else { return };
        let was_full = bucket.find(0).is_none();
        if let Some(key) = bucket.keys.get_mut(slot) {
            *key = 0;
            self.len -= 1;
        }
        if was_full {
            self.close_gap(at);
        }
    }

    /// Moves hosts behind the bucket `at` nearer to their own, since that one is no longer full.
    fn close_gap(&mut self, at: usize) {
        let mut at = at;
        for _ in 0..self.buckets.len() {
            at = self.next(at);
            let Some(bucket) = self.buckets.get(at).copied() else { return };
            let hosts = bucket.keys.into_iter().zip(bucket.seen.into_iter().zip(bucket.entries));
            for (slot, (key, (seen, entry))) in hosts.enumerate() {
                if key == 0 || self.home(key) == at {
                    continue;
                }
                let known = self.buckets.get_mut(at).and_then(|b| b.keys.get_mut(slot));
                if let Some(known) = known {
                    *known = 0;
                    self.len -= 1;
                }
                self.insert_new(key, entry, seen);
            }
            if bucket.find(0).is_some() {
                return;
            }
        }
    }

    /// Adds a host that is not in the table to the first free slot within reach.
    fn insert_new(&mut self, key: u64, entry: HostEntry, seen: CoarseTime) {
        let mut at = self.home(key);
        for _ in 0..SEARCHED_MAX {
            let next = self.next(at);
            let Some(bucket) = self.buckets.get_mut(at) else { return };
            if let Some(slot) = bucket.find(0)
                && let Some(free_key) = bucket.keys.get_mut(slot)
                && let Some(free_entry) = bucket.entries.get_mut(slot)
                && let Some(free_seen) = bucket.seen.get_mut(slot)
            {
                (*free_key, *free_entry, *free_seen) = (key, entry, seen);
                self.len += 1;
                return;
            }
            at = next;
        }
    }

    fn grow(&mut self) {
        let buckets = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY_BUCKET; buckets]);
        self.len = 0;
        for bucket in old {
            let hosts = bucket.keys.into_iter().zip(bucket.entries).zip(bucket.seen);
            for ((key, entry), seen) in hosts.filter(|((key, _), _)| *key != 0) {
                self.insert_new(key, entry, seen);
            }
        }
    }

    /// The bucket that the hash of a key selects.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let [start, factor] = self.hash_keys;
        (folded_multiply(start ^ key, factor).wrapping_mul(factor) >> 32) as usize
            & self.buckets.len().wrapping_sub(1)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & self.buckets.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {

    use sluice_base::{HashMap, Rng};
    use sluice_openflow::Ethernet;

    use super::*;

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn host(port: u32, last_seen: Instant) -> FastPathHost {
        FastPathHost { port: PortNo(port), last_seen, has_ipv4: true, has_ipv6: false }
    }

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], rest].concat()
    }

    /// The bits of an address as a frame has them.
    fn bits(n: u64) -> u64 {
        (0x0200_0000_0000 + n).swap_bytes()
    }

    /// Asserts that every host is found where it is, and that their number is right.
    fn check(hosts: &SwitchHosts) {
        let mut count = 0;
        for (at, bucket) in hosts.buckets.iter().enumerate() {
            for (slot, &key) in bucket.keys.iter().enumerate().filter(|(_, key)| **key != 0) {
                count += 1;
                assert_eq!(hosts.find_anywhere(key), Some((at, slot)));
            }
        }
        assert_eq!(count, hosts.len);
    }

    #[test]
    fn the_table_agrees_with_a_map_under_random_use() {
        for (seed, host_count) in [(1, 20), (2, 200), (3, 3000)] {
            let mut rng = Rng::new(seed);
            let (mut hosts, mut map) =
                (SwitchHosts::new([rng.next_u64(), rng.next_u64() | 1]), HashMap::default());
            let start = now();
            for step in 0..20_000u32 {
                let n = u64::from(rng.below(host_count));
                let seen = start + UNIT * step;
                match rng.below(4) {
                    0 => {
                        hosts.remove(bits(n));
                        map.remove(&n);
                    }
                    1 => {
                        hosts.insert(bits(n), &host(step % 100, seen));
                        map.insert(n, (step % 100, seen));
                    }
                    2 => {
                        let coarse = hosts.coarse_time(seen);
                        if let Some(mut slot) = hosts.find(bits(n)) {
                            slot.mark_seen(coarse);
                        }
                        map.entry(n).and_modify(|(_, known)| *known = seen);
                    }
                    _ => {
                        let port = hosts.find(bits(n)).map(|slot| slot.entry().port().0);
                        assert_eq!(port, map.get(&n).map(|(port, _)| *port), "step {step}");
                        let known = map.get(&n).map(|(_, seen)| *seen);
                        let first = hosts.since.unwrap_or(start);
                        let known = known.filter(|&known| known > first);
                        assert_eq!(hosts.last_seen(bits(n)), known, "step {step}");
                    }
                }
                if rng.below(100) == 0 {
                    check(&hosts);
                }
            }
            check(&hosts);
            assert_eq!(hosts.len, map.len());
        }
    }

    #[test]
    fn if_all_hosts_collide_some_are_left_out_and_the_others_are_found() {
        let mut hosts = SwitchHosts::new([0, 0]);
        for n in 0..200 {
            hosts.insert(bits(n), &host(1, now()));
        }
        check(&hosts);
        assert_eq!(hosts.len, SEARCHED_MAX * SLOTS);
        for n in 0..200 {
            hosts.remove(bits(n));
            check(&hosts);
        }
        assert_eq!(hosts.len, 0);
    }

    #[test]
    fn a_host_at_a_port_with_too_high_a_number_is_removed() {
        let mut hosts = SwitchHosts::new([1, 3]);
        let last = FAST_PATH_PORTS_MAX - 1;
        hosts.insert(bits(1), &host(last, now()));
        assert_eq!(hosts.find(bits(1)).unwrap().entry().port(), PortNo(last));
        hosts.insert(bits(1), &host(FAST_PATH_PORTS_MAX, now()));
        assert!(hosts.find(bits(1)).is_none());
        hosts.insert(0, &host(1, now()));
        assert!(hosts.find(0).is_some(), "the address 00:00:00:00:00:00 is an address");
    }

    #[test]
    fn consecutive_addresses_spread_over_the_buckets_whatever_the_hash_keys() {
        for seed in 0..100 {
            let mut hosts = SwitchHosts::new([seed, Rng::new(seed).next_u64() | 1]);
            for n in 0..1000 {
                hosts.insert(bits(n), &host(1, now()));
            }
            let (mut elsewhere, buckets) = (0, hosts.buckets.len());
            for (at, bucket) in hosts.buckets.iter().enumerate() {
                let keys = bucket.keys.iter().filter(|&&key| key != 0);
                elsewhere += keys.filter(|&&key| hosts.home(key) != at).count();
            }
            assert!(buckets == 512 && elsewhere < 100, "seed {seed}: {elsewhere} of 1000");
        }
    }

    #[test]
    fn frames_that_may_be_about_addresses_are_not_ordinary() {
        let host = host(1, now());
        let entry = HostEntry::new(&host).unwrap();
        let is_ordinary = |rest: &[u8]| {
            let frame = frame(rest);
            entry.is_ordinary(Ethernet::new(&frame).unwrap().header, &frame)
        };
        let ipv4 = |protocol, ports: [u8; 4]| {
            let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &[10, 0, 0, 1, 10, 0, 0, 2], &ports].concat()
        };
        assert!(is_ordinary(&ipv4(6, [0, 67, 0, 68])));
        assert!(is_ordinary(&ipv4(17, [0, 67, 0, 69])));
        assert!(!is_ordinary(&ipv4(17, [0, 67, 0, 68])), "DHCP");
        let options = [&[8, 0, 0x46][..], &ipv4(17, [0; 4])[3..]].concat();
        assert!(!is_ordinary(&options), "IP options: the ports are elsewhere");
        assert!(!is_ordinary(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]), "no IPv6 address known");
        assert!(!is_ordinary(&[8, 6]) && !is_ordinary(&[0x88, 0xcc]), "ARP, LLDP");
        assert!(!is_ordinary(&[0x81, 0, 0, 5, 8, 0]), "tagged");
        assert!(!is_ordinary(&[0x55, 0x55]), "unknown type");
        let with_ipv6 = HostEntry::new(&FastPathHost { has_ipv6: true, ..host }).unwrap();
        let icmpv6 = frame(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 255]);
        assert!(!with_ipv6.is_ordinary(Ethernet::new(&icmpv6).unwrap().header, &icmpv6));
        let tcp = frame(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 6, 64]);
        assert!(with_ipv6.is_ordinary(Ethernet::new(&tcp).unwrap().header, &tcp));
    }
}
