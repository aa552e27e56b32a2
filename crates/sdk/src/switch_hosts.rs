//! The residents of one switch: a hash table of cache lines.

use std::time::{Duration, Instant};

use sluice_base::folded_multiply;
use sluice_openflow::{EthHeader, EtherType, PortNo};

use crate::fast_path_hosts::FastPathHost;

/// Hosts in a line, which is one of the cache's.
const WAYS: usize = 4;

/// Lines of a table with a host in it.
const LINES_MIN: usize = 4;

/// Lines looked at before a host has no place: with a secret hash and half of the places free, that is never.
const PROBES_MAX: usize = 32;

/// Ports with this number and higher ones have no residents: frames from there are answered the general way.
pub const PORTS_MAX: u32 = 1 << 12;

/// The unit of time here: finer than anybody's patience with a silent host.
const UNIT: Duration = Duration::from_millis(10);

/// Units since the first resident was heard. After 497 days they stand still, so that hosts seem silent and are asked.
pub type CoarseTime = u32;

/// A bit of a key that no address has, so that none is that of an empty place.
const MARK: u64 = 0x1000;

/// At which port a host is, and of which addresses its packets say nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostEntry(u16);

/// One cache line: four hosts.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line {
    keys: [u64; WAYS],
    heard: [CoarseTime; WAYS],
    abodes: [HostEntry; WAYS],
}

const _: () = assert!(size_of::<Line>() == 64);

const EMPTY: Line = Line { keys: [0; WAYS], heard: [0; WAYS], abodes: [HostEntry(0); WAYS] };

/// The residents at one switch.
///
/// A host stands in the line that its hash says or, if that was full, in the first after it that was not. Whenever one
/// goes, those behind it close up, so that a search ends at the first line that is not full.
#[derive(Debug)]
pub struct SwitchHosts {
    lines: Vec<Line>,
    len: usize,
    /// Nobody outside knows these, so nobody can make addresses collide.
    keys: [u64; 2],
    since: Option<Instant>,
}

/// The place of a resident.
#[derive(Debug)]
pub struct HostSlot<'a> {
    line: &'a mut Line,
    way: usize,
}

impl HostEntry {
    const IPV4: u16 = 1 << 15;
    const IPV6: u16 = 1 << 14;

    fn new(resident: &FastPathHost) -> Option<Self> {
        let port =
            u16::try_from(resident.port.0).ok().filter(|&port| u32::from(port) < PORTS_MAX)?;
        let ipv4 = if resident.has_ipv4 { Self::IPV4 } else { 0 };
        let ipv6 = if resident.has_ipv6 { Self::IPV6 } else { 0 };
        Some(Self(port | ipv4 | ipv6))
    }

    /// The port.
    #[inline]
    pub fn port(self) -> PortNo {
        PortNo(u32::from(self.0) % PORTS_MAX)
    }

    /// Whether a frame of the host is ordinary, as far as can be told at a glance: it says nothing that is not known. Of
    /// `frame`, perhaps truncated, `eth` is the start.
    ///
    /// Only packets of IP are, without those that may be about addresses (neighbour discovery, DHCP), those of a family of
    /// which no address is known, and those that have a tag.
    #[inline]
    pub fn is_ordinary(self, eth: &EthHeader, frame: &[u8]) -> bool {
        /// Where the protocol of IPv4 stands, and the ports if the header has no options.
        const PROTOCOL_AT: usize = 23;
        /// Where the next header of IPv6 stands.
        const NEXT_HEADER_AT: usize = 20;
        const UDP: u8 = 17;
        const ICMPV6: u8 = 58;
        /// The ports of DHCP's servers and clients.
        const DHCP: [u8; 4] = [0, 67, 0, 68];
        match eth.ethertype() {
            EtherType::IPV4 => {
                let protocol = frame.get(PROTOCOL_AT);
                let is_plain = frame.get(14) == Some(&0x45);
                let ports = || frame.get(34..38) != Some(&DHCP[..]);
                self.0 & Self::IPV4 != 0 && is_plain && (protocol != Some(&UDP) || ports())
            }
            EtherType::IPV6 => {
                self.0 & Self::IPV6 != 0 && frame.get(NEXT_HEADER_AT) != Some(&ICMPV6)
            }
            _ => false,
        }
    }
}

impl HostSlot<'_> {
    /// Where the host is.
    #[inline]
    pub fn entry(&self) -> HostEntry {
        self.line.abodes.get(self.way).copied().unwrap_or(HostEntry(0))
    }

    /// Notes that it was heard.
    #[inline]
    pub fn mark_seen(&mut self, now: CoarseTime) {
        // What does not change stays clean in the caches.
        if let Some(heard) = self.line.heard.get_mut(self.way).filter(|heard| **heard < now) {
            *heard = now;
        }
    }
}

impl Line {
    fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&known| known == key)
    }
}

impl SwitchHosts {
    pub(crate) const fn new(keys: [u64; 2]) -> Self {
        Self { lines: Vec::new(), len: 0, keys, since: None }
    }

    /// What time it is.
    pub fn coarse_time(&self, now: Instant) -> CoarseTime {
        let passed = now.saturating_duration_since(self.since.unwrap_or(now));
        CoarseTime::try_from(passed.as_millis() / UNIT.as_millis()).unwrap_or(CoarseTime::MAX)
    }

    /// The place of the host with `bits` for an address, above those of its VLAN.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn find(&mut self, bits: u64) -> Option<HostSlot<'_>> {
        let key = bits | MARK;
        let at = self.home(key);
        let keys = &self.lines.get(at)?.keys;
        // Every place is as likely as another, and a branch for each would be guessed wrong as often as not.
        let [_, one, two, three] = keys.map(|known| usize::from(known == key));
        let way = one | (two * 2) | (three * 3);
        if *keys.get(way)? == key {
            return Some(HostSlot { line: self.lines.get_mut(at)?, way });
        }
        let (at, way) = self.find_elsewhere(key)?;
        Some(HostSlot { line: self.lines.get_mut(at)?, way })
    }

    /// The line and the place in it of a host.
    fn find_anywhere(&self, key: u64) -> Option<(usize, usize)> {
        let home = self.home(key);
        let here = self.lines.get(home)?.find(key).map(|way| (home, way));
        here.or_else(|| self.find_elsewhere(key))
    }

    /// The same of a host that is not in the line it belongs in.
    #[cold]
    fn find_elsewhere(&self, key: u64) -> Option<(usize, usize)> {
        let mut at = self.home(key);
        for _ in 1..PROBES_MAX {
            if self.lines.get(at)?.find(0).is_some() {
                return None;
            }
            at = self.next(at);
            if let Some(way) = self.lines.get(at)?.find(key) {
                return Some((at, way));
            }
        }
        None
    }

    /// When a host was heard last, if that was after the first of all was put here.
    pub(crate) fn last_seen(&self, bits: u64) -> Option<Instant> {
        let (at, way) = self.find_anywhere(bits | MARK)?;
        let heard = *self.lines.get(at)?.heard.get(way)?;
        if heard == 0 { None } else { Some(self.since? + UNIT * heard) }
    }

    /// A host is here from now on, or is known better.
    pub(crate) fn insert(&mut self, bits: u64, resident: &FastPathHost) {
        let Some(abode) = HostEntry::new(resident) else { return self.remove(bits) };
        self.since.get_or_insert(resident.last_seen);
        let heard = self.coarse_time(resident.last_seen);
        if let Some(mut seat) = self.find(bits) {
            seat.mark_seen(heard);
            if let Some(known) = seat.line.abodes.get_mut(seat.way) {
                *known = abode;
            }
            return;
        }
        if (self.len + 1) * 2 > self.lines.len() * WAYS {
            self.grow();
        }
        self.place(bits | MARK, abode, heard);
    }

    /// A host is here no longer.
    pub(crate) fn remove(&mut self, bits: u64) {
        let Some((at, way)) = self.find_anywhere(bits | MARK) else { return };
        let Some(line) = self.lines.get_mut(at) else { return };
        let was_full = line.find(0).is_none();
        if let Some(place) = line.keys.get_mut(way) {
            *place = 0;
            self.len -= 1;
        }
        if was_full {
            self.close_up(at);
        }
    }

    /// Those who stand behind a line because it was full have a place nearer to theirs.
    fn close_up(&mut self, line: usize) {
        let mut at = line;
        for _ in 0..self.lines.len() {
            at = self.next(at);
            let Some(line) = self.lines.get(at).copied() else { return };
            for (way, (key, (heard, abode))) in
                line.keys.into_iter().zip(line.heard.into_iter().zip(line.abodes)).enumerate()
            {
                if key == 0 || self.home(key) == at {
                    continue;
                }
                if let Some(known) = self.lines.get_mut(at).and_then(|line| line.keys.get_mut(way))
                {
                    *known = 0;
                    self.len -= 1;
                }
                self.place(key, abode, heard);
            }
            if line.find(0).is_some() {
                return;
            }
        }
    }

    /// Puts a host that is not there into the first free place within reach.
    fn place(&mut self, key: u64, abode: HostEntry, heard: CoarseTime) {
        let mut at = self.home(key);
        for _ in 0..PROBES_MAX {
            let next = self.next(at);
            let Some(line) = self.lines.get_mut(at) else { return };
            let free = line.find(0);
            if let Some(way) = free
                && let Some(place) = line.keys.get_mut(way)
                && let Some(known) = line.abodes.get_mut(way)
                && let Some(time) = line.heard.get_mut(way)
            {
                (*place, *known, *time) = (key, abode, heard);
                self.len += 1;
                return;
            }
            at = next;
        }
    }

    fn grow(&mut self) {
        let lines = (self.lines.len() * 2).max(LINES_MIN);
        let old = std::mem::replace(&mut self.lines, vec![EMPTY; lines]);
        self.len = 0;
        for line in old {
            let hosts = line.keys.into_iter().zip(line.abodes).zip(line.heard);
            for ((key, abode), heard) in hosts.filter(|((key, _), _)| *key != 0) {
                self.place(key, abode, heard);
            }
        }
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        let [start, factor] = self.keys;
        (folded_multiply(start ^ key, factor).wrapping_mul(factor) >> 32) as usize
            & self.lines.len().wrapping_sub(1)
    }

    #[inline]
    fn next(&self, line: usize) -> usize {
        (line + 1) & self.lines.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluice_base::Rng;
    use sluice_openflow::Ethernet;

    use super::*;

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn resident(port: u32, heard: Instant) -> FastPathHost {
        FastPathHost { port: PortNo(port), last_seen: heard, has_ipv4: true, has_ipv6: false }
    }

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], rest].concat()
    }

    /// The bits of an address as a frame has them.
    fn bits(n: u64) -> u64 {
        (0x0200_0000_0000 + n).swap_bytes()
    }

    /// All stand where they are found, and are counted.
    fn check(household: &SwitchHosts) {
        let mut counted = 0;
        for (at, line) in household.lines.iter().enumerate() {
            for (way, &key) in line.keys.iter().enumerate().filter(|(_, key)| **key != 0) {
                counted += 1;
                assert_eq!(household.find_anywhere(key), Some((at, way)));
            }
        }
        assert_eq!(counted, household.len);
    }

    #[test]
    fn it_agrees_with_a_map_under_random_use() {
        for (seed, hosts) in [(1, 20), (2, 200), (3, 3000)] {
            let mut rng = Rng::new(seed);
            let (mut household, mut map) =
                (SwitchHosts::new([rng.next_u64(), rng.next_u64() | 1]), HashMap::new());
            let start = now();
            for step in 0..20_000u32 {
                let n = u64::from(rng.below(hosts));
                let heard = start + UNIT * step;
                match rng.below(4) {
                    0 => {
                        household.remove(bits(n));
                        map.remove(&n);
                    }
                    1 => {
                        household.insert(bits(n), &resident(step % 100, heard));
                        map.insert(n, (step % 100, heard));
                    }
                    2 => {
                        let tick = household.coarse_time(heard);
                        if let Some(mut seat) = household.find(bits(n)) {
                            seat.mark_seen(tick);
                        }
                        map.entry(n).and_modify(|(_, known)| *known = heard);
                    }
                    _ => {
                        let found = household.find(bits(n)).map(|seat| seat.entry().port().0);
                        assert_eq!(found, map.get(&n).map(|(port, _)| *port), "step {step}");
                        let known = map.get(&n).map(|(_, heard)| *heard);
                        let first = household.since.unwrap_or(start);
                        let known = known.filter(|&known| known > first);
                        assert_eq!(household.last_seen(bits(n)), known, "step {step}");
                    }
                }
                if rng.below(100) == 0 {
                    check(&household);
                }
            }
            check(&household);
            assert_eq!(household.len, map.len());
        }
    }

    #[test]
    fn where_all_belong_in_one_line_some_have_no_place_and_the_others_are_found() {
        let mut household = SwitchHosts::new([0, 0]);
        for n in 0..200 {
            household.insert(bits(n), &resident(1, now()));
        }
        check(&household);
        assert_eq!(household.len, PROBES_MAX * WAYS);
        for n in 0..200 {
            household.remove(bits(n));
            check(&household);
        }
        assert_eq!(household.len, 0);
    }

    #[test]
    fn who_is_heard_at_a_port_without_residents_is_one_no_longer() {
        let mut household = SwitchHosts::new([1, 3]);
        household.insert(bits(1), &resident(PORTS_MAX - 1, now()));
        assert_eq!(household.find(bits(1)).unwrap().entry().port(), PortNo(PORTS_MAX - 1));
        household.insert(bits(1), &resident(PORTS_MAX, now()));
        assert!(household.find(bits(1)).is_none());
        household.insert(0, &resident(1, now()));
        assert!(household.find(0).is_some(), "an address of zeros is one");
    }

    /// Whatever the keys, addresses in a row do not crowd.
    #[test]
    fn addresses_in_a_row_spread() {
        for seed in 0..100 {
            let mut household = SwitchHosts::new([seed, Rng::new(seed).next_u64() | 1]);
            for n in 0..1000 {
                household.insert(bits(n), &resident(1, now()));
            }
            let (mut elsewhere, lines) = (0, household.lines.len());
            for (at, line) in household.lines.iter().enumerate() {
                let hosts = line.keys.iter().filter(|&&key| key != 0);
                elsewhere += hosts.filter(|&&key| household.home(key) != at).count();
            }
            assert!(lines == 512 && elsewhere < 100, "seed {seed}: {elsewhere} of 1000");
        }
    }

    #[test]
    fn what_may_be_about_addresses_is_not_ordinary() {
        let resident = resident(1, now());
        let abode = HostEntry::new(&resident).unwrap();
        let is_ordinary = |rest: &[u8]| {
            let frame = frame(rest);
            abode.is_ordinary(Ethernet::new(&frame).unwrap().header, &frame)
        };
        let ipv4 = |protocol, ports: [u8; 4]| {
            let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &[10, 0, 0, 1, 10, 0, 0, 2], &ports].concat()
        };
        assert!(is_ordinary(&ipv4(6, [0, 67, 0, 68])));
        assert!(is_ordinary(&ipv4(17, [0, 67, 0, 69])));
        assert!(!is_ordinary(&ipv4(17, [0, 67, 0, 68])), "DHCP");
        let options = [&[8, 0, 0x46][..], &ipv4(17, [0; 4])[3..]].concat();
        assert!(!is_ordinary(&options), "its ports are elsewhere");
        assert!(!is_ordinary(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]), "no address is known");
        assert!(!is_ordinary(&[8, 6]) && !is_ordinary(&[0x88, 0xcc]));
        assert!(!is_ordinary(&[0x81, 0, 0, 5, 8, 0]), "tagged");
        assert!(!is_ordinary(&[0x55, 0x55]), "whose it is we do not know");
        let known = HostEntry::new(&FastPathHost { has_ipv6: true, ..resident }).unwrap();
        let sent = frame(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 255]);
        assert!(!known.is_ordinary(Ethernet::new(&sent).unwrap().header, &sent));
        let sent = frame(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 6, 64]);
        assert!(known.is_ordinary(Ethernet::new(&sent).unwrap().header, &sent));
    }
}
