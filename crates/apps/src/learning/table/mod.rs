//! Where hosts are: a hash table of cache lines.

mod census;
mod forget;
mod line;
mod standing;

use prefetch_index::prefetch_index;
use sluice_base::Rng;
use sluice_openflow::PortNo;

use census::Census;
use line::{EMPTY, LearnedHost, Line, PROBES_MAX, WAYS, find, home, next};
use standing::settle;

pub(super) use line::{Key, Spot, Tick};
pub(super) use standing::Standing;

/// Lines of a table that holds nothing yet: one switch of ten thousand idle ones costs a KiB.
const LINES_MIN: usize = 16;

/// What [`Table::learn`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learnt {
    /// The host where it was.
    Known,
    /// A new host, for which another may have gone.
    New,
    /// The host, which was at this port before.
    Moved(PortNo),
}

/// Where the hosts of one switch are.
///
/// Open addressing over lines of four. A host stands in its line or, if that was full, in one of the next; a line
/// counts how many went past it, so a search ends at the first line that none did.
#[derive(Debug)]
pub(super) struct Table {
    lines: Vec<Line>,
    /// An odd factor that nobody outside knows.
    factor: u64,
    census: Census,
    /// Lines looked through for ports since the last sweep.
    scanned: usize,
}

impl Table {
    /// A table for at most `hosts_max`; `seed` keeps others from making addresses collide.
    pub(super) fn new(hosts_max: usize, seed: u64) -> Self {
        let factor = Rng::new(seed).next_u64() | 1;
        Self { lines: vec![EMPTY; LINES_MIN], factor, census: Census::new(hosts_max), scanned: 0 }
    }

    /// Bytes it takes.
    pub(super) const fn size(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Hosts in it, some of which may have aged.
    pub(super) const fn len(&self) -> usize {
        self.census.len()
    }

    /// Whether most of the hosts that are heard are new.
    pub(super) const fn is_flooded(&self) -> bool {
        self.census.is_flooded()
    }

    /// Hosts that went for others since it is there.
    pub(super) const fn forgotten(&self) -> u64 {
        self.census.forgotten()
    }

    /// Sets how many it holds at most; those beyond go as new ones come.
    pub(super) const fn set_max(&mut self, hosts_max: usize) {
        self.census.set_max(hosts_max);
    }

    /// Where a host belongs, whatever the size of the table.
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

    /// Has the line of a host brought nearer, without waiting for it.
    #[inline]
    pub(super) fn fetch(&self, spot: Spot) {
        prefetch_index(&self.lines, self.home(spot));
    }

    /// Where a host is, if it was seen within `timeout`.
    #[inline]
    pub(super) fn get(&mut self, spot: Spot, now: Tick, timeout: Tick) -> Option<PortNo> {
        let (line, way) = find(&mut self.lines, spot)?;
        let (port, seen) = (*line.ports.get(way)?, *line.seen.get(way)?);
        (now.wrapping_sub(seen) <= timeout).then_some(PortNo(port))
    }

    /// The table while none of its lines moves.
    #[inline]
    pub(super) fn standing(&mut self, now: Tick, timeout: Tick) -> Standing<'_> {
        if self.census.overflows() {
            self.shed();
        }
        let (lines, census) = (&mut self.lines, &mut self.census);
        Standing { lines, factor: self.factor, now, timeout, census }
    }

    /// Notes that a host was seen at `port`.
    ///
    /// # Cost
    /// Constant, but for the times the table doubles.
    #[inline]
    pub(super) fn learn(&mut self, spot: Spot, port: PortNo, now: Tick) -> Learnt {
        let Some((line, way)) = find(&mut self.lines, spot) else {
            self.add(spot, port, now);
            return Learnt::New;
        };
        // A line that does not change stays clean in the caches.
        if line.seen.get(way).is_some_and(|&seen| seen != now) {
            self.census.hear_again(line, way, now);
        }
        match line.ports.get_mut(way) {
            Some(old) if *old != port.0 => Learnt::Moved(PortNo(std::mem::replace(old, port.0))),
            _ => Learnt::Known,
        }
    }

    /// Notes that a new host sends to this one, which is kept before others from now on.
    pub(super) fn prove(&mut self, spot: Spot) {
        if let Some((line, way)) = find(&mut self.lines, spot)
            && !line.is_proved(way)
        {
            self.census.prove(line, way);
        }
    }

    #[cold]
    fn add(&mut self, spot: Spot, port: PortNo, now: Tick) {
        if settle(&mut self.lines, &mut self.census, spot, port.0, now).is_some() {
            return;
        }
        if self.census.has_room(self.lines.len()) && self.put(spot, port.0, now).is_some() {
            return;
        }
        // With less than a quarter taken, it is the addresses that crowd, and a larger table is no cure.
        if !self.census.is_full() && self.len() >= self.lines.len() * WAYS / 4 {
            self.resize(self.lines.len() * 2, |_| true);
            if self.put(spot, port.0, now).is_some() {
                return;
            }
        }
        self.make_room(self.home(spot), now);
        self.put(spot, port.0, now);
    }

    /// Puts a host that is not there into the first free place within reach; says which line and
    /// which place in it.
    fn put(&mut self, spot: Spot, port: u32, seen: Tick) -> Option<(usize, usize)> {
        let home = self.home(spot);
        let mut at = home;
        for probe in 0..PROBES_MAX {
            let next = self.next(at);
            let line = self.lines.get_mut(at)?;
            if let Some(way) = line.free() {
                line.put(way, spot.key, port, seen);
                if probe > 0 {
                    line.lodge(way);
                }
                self.census.enter();
                self.count_spill(home, probe, |spilled| spilled + 1);
                return Some((at, way));
            }
            at = next;
        }
        None
    }

    /// Moves the hosts that `stay` names to so many lines.
    fn resize(&mut self, lines: usize, stay: impl Fn(&LearnedHost) -> bool) {
        let old = std::mem::replace(&mut self.lines, vec![EMPTY; lines]);
        self.census.clear();
        for host in old.iter().flat_map(Line::hosts).filter(stay) {
            let place = self.put(self.spot(Key(host.key)), host.port, host.seen);
            if let Some((at, way)) = place.filter(|_| host.is_proved)
                && let Some(line) = self.lines.get_mut(at)
            {
                self.census.prove(line, way);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluice_openflow::VlanId;

    use super::line::audit;
    use super::*;

    pub(super) const TIMEOUT: Tick = 300;

    pub(super) fn spot(table: &Table, n: u64) -> Spot {
        table.spot(Key::new(n << 16, VlanId(0)))
    }

    pub(super) fn learn(table: &mut Table, n: u64, port: u32, now: Tick) -> Learnt {
        table.learn(spot(table, n), PortNo(port), now)
    }

    pub(super) fn get(table: &mut Table, n: u64, now: Tick) -> Option<u32> {
        table.get(spot(table, n), now, TIMEOUT).map(|port| port.0)
    }

    /// All that is counted is so.
    pub(super) fn check(table: &Table) {
        let counted = audit(&table.lines, table.factor);
        assert_eq!(counted, (table.census.len(), table.census.proved));
    }

    #[test]
    fn a_hundred_thousand_hosts_are_all_found() {
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
            let spilled: u32 = table.lines.iter().map(|line| u32::from(line.spilled)).sum();
            assert!(spilled < 120, "seed {seed}: {spilled}");
        }
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
        check(&table);
    }
}
