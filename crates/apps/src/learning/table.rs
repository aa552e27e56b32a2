//! Where stations are: a hash table of cache lines.

use prefetch_index::prefetch_index;
use sluice_base::Rng;
use sluice_wire::{EthHeader, PortNo, VlanId};

/// Stations per line.
const WAYS: usize = 4;

/// Lines of a table that holds nothing yet: one switch of ten thousand idle ones costs a KiB.
const LINES_MIN: usize = 16;

/// Lines looked at before a station is put in the place of another. Bounds what a crafted set of addresses costs.
const PROBES_MAX: usize = 32;

/// Lines looked through in a second for stations at ports that went down: sixteen times the table of a default.
const SCANNED_MAX: usize = 1 << 20;

/// A station: the bits of its address, a mark that it is one, its VLAN. Never zero, which marks an empty place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    /// The station with `bits` for an address, above 16 zeros, in `vlan`.
    #[inline]
    pub(super) fn new(bits: u64, vlan: VlanId) -> Self {
        Self(bits | 0x1000 | u64::from(vlan.0))
    }
}

/// A station and its hash, which tells the line it belongs in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    key: u64,
    hash: u64,
}

impl Spot {
    #[inline]
    fn new(key: Key, factor: u64) -> Self {
        // One product alone, or both its halves together, sends runs of addresses to runs of lines for some factors.
        let product = u128::from(key.0) * u128::from(factor);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = product as u64 ^ (product >> 64) as u64;
        Self { key: key.0, hash: folded.wrapping_mul(factor) }
    }
}

/// Seconds since the application began, counted round.
pub(super) type Tick = u16;

/// One cache line: four stations.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line {
    keys: [u64; WAYS],
    ports: [u32; WAYS],
    seen: [Tick; WAYS],
    /// Stations that belong here or before and are kept further on.
    spilled: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

const EMPTY: Line = Line { keys: [0; WAYS], ports: [0; WAYS], seen: [0; WAYS], spilled: 0 };

impl Line {
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&k| k == key)
    }

    /// The station not seen for longest, `None` if there is none.
    fn oldest(&self, now: Tick) -> Option<usize> {
        let (mut oldest, mut age_max) = (None, 0);
        for (way, (&key, &seen)) in self.keys.iter().zip(&self.seen).enumerate() {
            let age = now.wrapping_sub(seen);
            if key != 0 && age >= age_max {
                (oldest, age_max) = (Some(way), age);
            }
        }
        oldest
    }
}

/// What [`Table::learn`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learnt {
    /// The station where it was.
    Known,
    /// A new station.
    New,
    /// A new station, for which an old one had to go.
    InPlaceOfAnother,
    /// The station, which was at this port before.
    Moved(PortNo),
}

/// Where the stations of one switch are.
///
/// Open addressing over lines of four. A station stands in its line or, if that was full, in one of the next; a line
/// counts how many went past it, so a search ends at the first line that none did.
#[derive(Debug)]
pub(super) struct Table {
    lines: Vec<Line>,
    /// An odd factor that nobody outside knows.
    factor: u64,
    stations: usize,
    stations_max: usize,
    /// Lines looked through for ports since the last sweep.
    scanned: usize,
}

impl Table {
    /// A table for at most `stations_max`; `seed` keeps others from making addresses collide.
    pub(super) fn new(stations_max: usize, seed: u64) -> Self {
        let factor = Rng::new(seed).next_u64() | 1;
        let mut table = Self { lines: Vec::new(), factor, stations: 0, stations_max, scanned: 0 };
        table.resize(LINES_MIN);
        table
    }

    /// Octets it takes.
    pub(super) const fn size(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Stations in it, some of which may have aged.
    pub(super) const fn len(&self) -> usize {
        self.stations
    }

    /// Sets how many it holds at most; those beyond go as new ones come.
    pub(super) const fn set_max(&mut self, stations_max: usize) {
        self.stations_max = stations_max;
    }

    /// Where a station belongs, whatever the size of the table.
    #[inline]
    pub(super) fn spot(&self, key: Key) -> Spot {
        Spot::new(key, self.factor)
    }

    #[inline]
    fn home(&self, spot: Spot) -> usize {
        home(&self.lines, spot)
    }

    #[inline]
    fn next(&self, line: usize) -> usize {
        next(&self.lines, line)
    }

    /// Has the line of a station brought nearer, without waiting for it.
    #[inline]
    pub(super) fn fetch(&self, spot: Spot) {
        prefetch_index(&self.lines, self.home(spot));
    }

    /// Where a station is, if it was seen within `timeout`.
    #[inline]
    pub(super) fn get(&mut self, spot: Spot, now: Tick, timeout: Tick) -> Option<PortNo> {
        let (line, way) = find(&mut self.lines, spot)?;
        let (port, seen) = (*line.ports.get(way)?, *line.seen.get(way)?);
        (now.wrapping_sub(seen) <= timeout).then_some(PortNo(port))
    }

    /// The table as it stands while nobody new comes.
    #[inline]
    pub(super) fn as_it_stands(&mut self, now: Tick, timeout: Tick) -> AsItStands<'_> {
        AsItStands { lines: &mut self.lines, factor: self.factor, now, timeout }
    }

    /// Notes that a station was seen at `port`.
    ///
    /// # Cost
    /// Constant, but for the times the table doubles.
    #[inline]
    pub(super) fn learn(&mut self, spot: Spot, port: PortNo, now: Tick) -> Learnt {
        let Some((line, way)) = find(&mut self.lines, spot) else {
            return self.add(spot, port, now);
        };
        let (Some(old), Some(seen)) = (line.ports.get_mut(way), line.seen.get_mut(way)) else {
            return Learnt::Known;
        };
        // A line that does not change stays clean in the caches.
        if *seen != now {
            *seen = now;
        }
        if *old == port.0 {
            return Learnt::Known;
        }
        Learnt::Moved(PortNo(std::mem::replace(old, port.0)))
    }

    #[cold]
    fn add(&mut self, spot: Spot, port: PortNo, now: Tick) -> Learnt {
        if self.stations < self.stations_max {
            let places = self.lines.len() * WAYS;
            // Five in eight: beyond, the longest searches grow faster than the table would.
            if self.stations < places / 8 * 5 && self.put(spot, port.0, now) {
                return Learnt::New;
            }
            // With less than a quarter taken, it is the addresses that crowd, and a larger table is no cure.
            if self.stations >= places / 4 {
                self.resize(self.lines.len() * 2);
                if self.put(spot, port.0, now) {
                    return Learnt::New;
                }
            }
        }
        if !self.replace(spot, port.0, now) {
            self.evict(self.home(spot), now);
            self.put(spot, port.0, now);
        }
        Learnt::InPlaceOfAnother
    }

    /// Puts a station that is not there in the place of the one not seen for longest in its own line; false if
    /// that has none.
    fn replace(&mut self, spot: Spot, port: u32, now: Tick) -> bool {
        let home = self.home(spot);
        let Some(line) = self.lines.get_mut(home) else { return false };
        let Some(way) = line.oldest(now) else { return false };
        let old = line.keys.get(way).copied().unwrap_or(0);
        set(&mut line.keys, way, spot.key);
        set(&mut line.ports, way, port);
        set(&mut line.seen, way, now);
        self.uncount(old, home);
        true
    }

    /// Forgets the station not seen for longest in the first line from `home` on that has one.
    fn evict(&mut self, home: usize, now: Tick) {
        let mut at = home;
        for _ in 0..self.lines.len() {
            if let Some(way) = self.lines.get(at).and_then(|line| line.oldest(now)) {
                return self.remove(at, way);
            }
            at = self.next(at);
        }
    }

    /// Puts a station that is not there into the first free place within reach; false if there is none.
    fn put(&mut self, spot: Spot, port: u32, seen: Tick) -> bool {
        let home = self.home(spot);
        let mut at = home;
        for probe in 0..PROBES_MAX {
            let next = self.next(at);
            let Some(line) = self.lines.get_mut(at) else { return false };
            if let Some(way) = line.find(0) {
                set(&mut line.keys, way, spot.key);
                set(&mut line.ports, way, port);
                set(&mut line.seen, way, seen);
                self.stations += 1;
                self.count_spill(home, probe, |spilled| spilled + 1);
                return true;
            }
            at = next;
        }
        false
    }

    /// Empties a place.
    fn remove(&mut self, at: usize, way: usize) {
        let Some(line) = self.lines.get_mut(at) else { return };
        let Some(key) = line.keys.get(way).copied().filter(|&key| key != 0) else { return };
        set(&mut line.keys, way, 0);
        self.stations -= 1;
        self.uncount(key, at);
    }

    /// A station is no longer at `at`: the lines that it went past count one less.
    fn uncount(&mut self, key: u64, at: usize) {
        let home = self.home(self.spot(Key(key)));
        let passed = at.wrapping_sub(home) & (self.lines.len() - 1);
        self.count_spill(home, passed, |spilled| spilled - 1);
    }

    /// Corrects the count of the lines that a station went past.
    fn count_spill(&mut self, home: usize, passed: usize, change: impl Fn(u32) -> u32) {
        let mut at = home;
        for _ in 0..passed {
            let next = self.next(at);
            if let Some(line) = self.lines.get_mut(at) {
                line.spilled = change(line.spilled);
            }
            at = next;
        }
    }

    fn resize(&mut self, lines: usize) {
        let old = std::mem::replace(&mut self.lines, vec![EMPTY; lines]);
        self.stations = 0;
        for line in old {
            for ((key, port), seen) in line.keys.into_iter().zip(line.ports).zip(line.seen) {
                if key != 0 {
                    self.put(self.spot(Key(key)), port, seen);
                }
            }
        }
    }

    /// Forgets the stations of one part in `parts` that were not seen within `timeout`. Once a second.
    pub(super) fn sweep(&mut self, part: usize, parts: usize, now: Tick, timeout: Tick) {
        self.scanned = 0;
        let len = self.lines.len();
        let (from, to) = (len * part / parts, len * (part + 1) / parts);
        self.forget(from, to, |_, seen| now.wrapping_sub(seen) > timeout);
    }

    /// Forgets the stations at `port`; all of them if ports come and go so fast that looking for these would keep
    /// other switches waiting.
    ///
    /// # Cost
    /// A look at every line.
    pub(super) fn forget_port(&mut self, port: PortNo) {
        if self.scanned >= SCANNED_MAX {
            self.lines.clear();
            return self.resize(LINES_MIN);
        }
        self.scanned += self.lines.len();
        self.forget(0, self.lines.len(), |at, _| at == port.0);
    }

    fn forget(&mut self, from: usize, to: usize, stale: impl Fn(u32, Tick) -> bool) {
        for at in from..to {
            for way in 0..WAYS {
                let Some(line) = self.lines.get(at) else { return };
                let place = line.keys.get(way).zip(line.ports.get(way)).zip(line.seen.get(way));
                if place.is_some_and(|((&key, &port), &seen)| key != 0 && stale(port, seen)) {
                    self.remove(at, way);
                }
            }
        }
    }
}

/// A table while nobody new comes, so that what says where it is stays in registers.
#[derive(Debug)]
pub(super) struct AsItStands<'a> {
    lines: &'a mut [Line],
    factor: u64,
    now: Tick,
    timeout: Tick,
}

impl AsItStands<'_> {
    /// Where a conversation goes, from a source that is where it was, at `port`, to a destination that is known and
    /// elsewhere. `None` for every other.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn route(&mut self, eth: &EthHeader, port: PortNo) -> Option<PortNo> {
        // No group is ever learned, so none is found.
        let [src, dst] = self.spots(eth);
        let (line, way) = find(self.lines, src)?;
        if *line.ports.get(way)? != port.0 {
            return None;
        }
        let seen = line.seen.get_mut(way)?;
        // A line that does not change stays clean in the caches.
        if *seen != self.now {
            *seen = self.now;
        }
        let (line, way) = find(self.lines, dst)?;
        let (to, seen) = (PortNo(*line.ports.get(way)?), *line.seen.get(way)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    /// Has the lines of both stations brought nearer, without waiting for them.
    #[inline]
    pub(super) fn fetch(&self, eth: &EthHeader) {
        for spot in self.spots(eth) {
            prefetch_index(&*self.lines, home(self.lines, spot));
        }
    }

    #[inline]
    fn spots(&self, eth: &EthHeader) -> [Spot; 2] {
        [eth.src_bits(), eth.dst_bits()]
            .map(|bits| Spot::new(Key::new(bits, VlanId(0)), self.factor))
    }
}

/// A station: its line, and which place in it.
#[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
#[inline(always)]
fn find(lines: &mut [Line], spot: Spot) -> Option<(&mut Line, usize)> {
    let at = home(lines, spot);
    let keys = &lines.get(at)?.keys;
    // Every place is as likely as another, and a branch for each would be guessed wrong as often as not.
    let [_, one, two, three] = keys.map(|key| usize::from(key == spot.key));
    let way = one | (two * 2) | (three * 3);
    if *keys.get(way)? == spot.key {
        return Some((lines.get_mut(at)?, way));
    }
    let (at, way) = find_elsewhere(lines, spot)?;
    Some((lines.get_mut(at)?, way % WAYS))
}

/// The same for a station that is not in the line it belongs in.
#[cold]
fn find_elsewhere(lines: &[Line], spot: Spot) -> Option<(usize, usize)> {
    let mut at = home(lines, spot);
    for _ in 0..PROBES_MAX {
        let line = lines.get(at)?;
        if let Some(way) = line.find(spot.key) {
            return Some((at, way));
        }
        if line.spilled == 0 {
            return None;
        }
        at = next(lines, at);
    }
    None
}

/// The line that a station belongs in.
#[inline]
fn home(lines: &[Line], spot: Spot) -> usize {
    (spot.hash >> 32) as usize & (lines.len() - 1)
}

#[inline]
fn next(lines: &[Line], line: usize) -> usize {
    (line + 1) & (lines.len() - 1)
}

#[inline]
fn set<T>(ways: &mut [T; WAYS], way: usize, value: T) {
    if let Some(place) = ways.get_mut(way) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluice_wire::{Ethernet, MacAddr};

    use super::*;

    const TIMEOUT: Tick = 300;

    fn spot(table: &Table, n: u64) -> Spot {
        table.spot(Key::new(n << 16, VlanId(0)))
    }

    fn learn(table: &mut Table, n: u64, port: u32, now: Tick) -> Learnt {
        table.learn(spot(table, n), PortNo(port), now)
    }

    fn get(table: &mut Table, n: u64, now: Tick) -> Option<u32> {
        table.get(spot(table, n), now, TIMEOUT).map(|port| port.0)
    }

    #[test]
    fn a_hundred_thousand_stations_are_all_found() {
        let mut table = Table::new(131_072, 7);
        for n in 0..100_000 {
            assert_eq!(learn(&mut table, n.into(), n, 0), Learnt::New, "{n}");
        }
        assert_eq!(table.lines.len(), 65_536);
        for n in 0..100_000 {
            assert_eq!(get(&mut table, n.into(), 0), Some(n), "{n}");
        }
        assert_eq!(get(&mut table, 100_000, 0), None);
    }

    /// Whatever the factor, addresses in a row do not crowd: nearly all stand in the lines they belong in.
    #[test]
    fn addresses_in_a_row_spread_with_every_seed() {
        for seed in 0..200 {
            let mut table = Table::new(131_072, seed);
            for n in 0..1000u64 {
                learn(&mut table, (0x0200_0000_0000 + n).swap_bytes() >> 16, 1, 0);
            }
            let spilled: u32 = table.lines.iter().map(|line| line.spilled).sum();
            assert!(spilled < 120, "seed {seed}: {spilled}");
        }
    }

    #[test]
    fn what_stands_is_routed_and_all_else_is_left() {
        let header = |dst: u64, src: u64| {
            let octets = [dst, src].map(|n| MacAddr::from_u64(n).0).concat();
            *Ethernet::new(&[&octets[..], &[8, 0]].concat()).unwrap().header
        };
        let mut table = Table::new(1000, 7);
        for n in 1..=500u32 {
            let bits = header(0, n.into()).src_bits();
            let spot = table.spot(Key::new(bits, VlanId(0)));
            table.learn(spot, PortNo(n % 4), 100);
        }
        let mut route = |dst, src, port, now| {
            let mut table = table.as_it_stands(now, TIMEOUT);
            table.route(&header(dst, src), PortNo(port)).map(|port| port.0)
        };
        for n in 1..500u32 {
            assert_eq!(route(n.into(), u64::from(n) + 1, (n + 1) % 4, 100), Some(n % 4), "{n}");
        }
        assert_eq!(route(1, 2, 3, 100), None, "moved");
        assert_eq!(route(5, 1, 1, 100), None, "at one port");
        assert_eq!(route(501, 1, 1, 100), None, "unknown destination");
        assert_eq!(route(1, 501, 2, 100), None, "unknown source");
        assert_eq!(route(2, 1, 1, 401), None, "aged");
        assert_eq!(route(1, 2, 2, 401), Some(1), "seen again a moment ago");
    }

    #[test]
    fn it_agrees_with_a_map_under_random_use() {
        let mut rng = Rng::new(42);
        let (mut table, mut map) = (Table::new(10_000, rng.next_u64()), HashMap::new());
        for step in 0..200_000u32 {
            let n = u64::from(rng.below(3000));
            let port = rng.below(48);
            if rng.below(1000) == 0 {
                table.forget_port(PortNo(port));
                map.retain(|_, &mut at| at != port);
            } else {
                let learnt = learn(&mut table, n, port, 0);
                let expected = match map.insert(n, port) {
                    None => Learnt::New,
                    Some(old) if old == port => Learnt::Known,
                    Some(old) => Learnt::Moved(PortNo(old)),
                };
                assert_eq!(learnt, expected, "step {step}");
            }
            let probe = u64::from(rng.below(3000));
            let found = get(&mut table, probe, 0);
            assert_eq!(found, map.get(&probe).copied(), "step {step}");
            assert_eq!(table.len(), map.len());
        }
    }

    #[test]
    fn a_full_table_stays_full_and_forgets_the_old() {
        let mut table = Table::new(1000, 7);
        for n in 0..100_000u32 {
            let now = Tick::try_from(n / 100).unwrap();
            learn(&mut table, n.into(), 1, now);
            assert!(table.len() <= 1000);
        }
        let newest = (99_900..100_000).filter(|&n| get(&mut table, n, 999).is_some());
        assert!(newest.count() > 60, "the newest stay, but for a few in crowded lines");
        let spilled: u32 = table.lines.iter().map(|line| line.spilled).sum();
        assert!(spilled < 2000, "counts of passed lines stay true");
    }

    #[test]
    fn the_aged_are_unknown_at_once_and_swept_later() {
        let mut table = Table::new(1000, 7);
        learn(&mut table, 1, 1, 65_500);
        assert_eq!(get(&mut table, 1, 264), Some(1), "the tick goes round");
        assert_eq!(get(&mut table, 1, 265), None);
        for part in 0..16 {
            table.sweep(part, 16, 265, TIMEOUT);
        }
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_port_that_flaps_costs_no_more_than_the_table() {
        let mut table = Table::new(131_072, 7);
        for n in 0..100_000u32 {
            learn(&mut table, n.into(), n % 100, 0);
        }
        for _ in 0..SCANNED_MAX / table.lines.len() {
            table.forget_port(PortNo(1));
            assert_eq!((table.len(), get(&mut table, 2, 0)), (99_000, Some(2)));
        }
        table.forget_port(PortNo(1));
        assert_eq!((table.len(), table.lines.len()), (0, LINES_MIN));
        learn(&mut table, 2, 2, 1);
        table.sweep(1, 64, 1, TIMEOUT);
        table.forget_port(PortNo(1));
        assert_eq!(get(&mut table, 2, 1), Some(2), "in the next second it looks again");
    }

    /// Addresses that all belong in one line cost no more than a bounded search.
    #[test]
    fn addresses_that_collide_do_not_fill_the_table() {
        let mut table = Table::new(100_000, 1);
        // All keys times zero are zero.
        table.factor = 0;
        for n in 0..10_000 {
            learn(&mut table, n, 1, 0);
        }
        assert!(table.len() <= PROBES_MAX * WAYS);
    }
}
