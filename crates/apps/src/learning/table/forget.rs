//! How hosts go: for others, with their time, with their port.

use sluice_openflow::PortNo;

use super::line::{Key, PROBES_MAX, Tick, WAYS};
use super::{LINES_MIN, Table};

/// Lines looked through in a second for hosts at ports that went down: sixteen times the table of a default.
const SCANNED_MAX: usize = 1 << 20;

impl Table {
    /// Another second begins, or one after several.
    pub(crate) fn next_second(&mut self) {
        self.scanned = 0;
        self.census.next_second();
    }

    /// Forgets the hosts of one part in `parts` that were not seen within `timeout`. Once for each second.
    pub(crate) fn sweep(&mut self, part: usize, parts: usize, now: Tick, timeout: Tick) {
        let len = self.lines.len();
        let (from, to) = (len * part / parts, len * (part + 1) / parts);
        self.forget(from, to, |_, seen| now.wrapping_sub(seen) > timeout);
    }

    /// Forgets the hosts at `port`; all of them if ports come and go so fast that looking for these would keep
    /// other switches waiting.
    ///
    /// # Cost
    /// A look at every line.
    pub(crate) fn forget_port(&mut self, port: PortNo) {
        if self.scanned >= SCANNED_MAX {
            return self.resize(LINES_MIN, |_| false);
        }
        self.scanned += self.lines.len();
        self.forget(0, self.lines.len(), |at, _| at == port.0);
    }

    /// Forgets all hosts but the proved: a flood of addresses began.
    #[cold]
    pub(super) fn shed(&mut self) {
        let places = self.census.flood() * 8 / 5;
        let lines = places.div_ceil(WAYS).next_power_of_two().max(LINES_MIN);
        self.resize(lines, |host| host.is_proved);
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

    /// Empties a place in the line at `home`, or in another if that has a free one and all in it are proved.
    pub(super) fn make_room(&mut self, home: usize, now: Tick) {
        self.census.give_way();
        let (mut at, mut proved) = (home, None);
        for probe in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(at) else { break };
            if let Some(way) = line.unproved() {
                return self.remove(at, way);
            }
            let oldest = line.oldest(now).map(|way| (at, way));
            proved = proved.or(oldest);
            let is_last = (at == home && line.free().is_none()) || probe >= PROBES_MAX;
            if is_last && proved.is_some() {
                break;
            }
            at = self.next(at);
        }
        if let Some((at, way)) = proved {
            self.remove(at, way);
        }
    }

    /// Empties a place that a host has.
    fn remove(&mut self, at: usize, way: usize) {
        let Some(line) = self.lines.get_mut(at) else { return };
        let key = line.keys.get(way).copied().unwrap_or(0);
        self.census.leave(line, way);
        line.clear(way);
        self.uncount(key, at);
    }

    /// A host is no longer at `at`: the lines that it went past count one less.
    fn uncount(&mut self, key: u64, at: usize) {
        let home = self.home(self.spot(Key(key)));
        let passed = at.wrapping_sub(home) & (self.lines.len() - 1);
        self.count_spill(home, passed, |spilled| spilled - 1);
    }

    /// Corrects the count of the lines that a host went past.
    pub(super) fn count_spill(&mut self, home: usize, passed: usize, change: impl Fn(u8) -> u8) {
        let mut at = home;
        for _ in 0..passed {
            let next = self.next(at);
            if let Some(line) = self.lines.get_mut(at) {
                line.spilled = change(line.spilled);
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::census::FLOODED_MAX;
    use super::super::tests::{TIMEOUT, check, get, learn, spot};
    use super::*;

    /// So many new hosts send to host 0, all in one second.
    fn flood(table: &mut Table, from: u64, n: u64, now: Tick) {
        for n in from..from + n {
            learn(table, n, 1, now);
            table.prove(spot(table, 0));
            let _ = table.standing(now, TIMEOUT);
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
        let spilled: u32 = table.lines.iter().map(|line| u32::from(line.spilled)).sum();
        assert!(spilled < 2000, "counts of passed lines stay true");
    }

    #[test]
    fn who_was_sent_to_or_heard_again_stays_in_a_full_table() {
        let mut table = Table::new(1000, 7);
        for n in 0..200 {
            learn(&mut table, n, 1, 0);
        }
        for n in 0..100 {
            let spot = spot(&table, n);
            table.prove(spot);
        }
        for n in 100..200 {
            learn(&mut table, n, 1, 1);
        }
        for n in 1000..50_000 {
            learn(&mut table, n, 1, 2);
        }
        check(&table);
        assert_eq!(table.len(), 1000);
        let stayed = (0..200).filter(|&n| get(&mut table, n, 2).is_some()).count();
        assert!(stayed > 195, "but for lines that were full of them: {stayed}");
    }

    #[test]
    fn when_all_were_sent_to_the_oldest_go() {
        let mut table = Table::new(100, 7);
        for n in 0..1000 {
            learn(&mut table, n, 1, Tick::try_from(n / 100).unwrap());
            let spot = spot(&table, n);
            table.prove(spot);
            assert!(table.len() <= 100 && get(&mut table, n, 9).is_some());
        }
        check(&table);
        let newest = (900..1000).filter(|&n| get(&mut table, n, 9).is_some());
        assert!(newest.count() > 50);
    }

    #[test]
    fn a_flood_is_kept_small_and_takes_nobody_along() {
        let mut table = Table::new(16_384, 7);
        for n in 0..500 {
            learn(&mut table, n, 2, 0);
            let spot = spot(&table, n);
            table.prove(spot);
        }
        flood(&mut table, 1000, 30_000, 0);
        assert_eq!((table.len(), table.lines.len()), (16_384, 8192), "a table that is full");
        flood(&mut table, 31_000, 20_000, 0);
        check(&table);
        let max = FLOODED_MAX + 2 * 500;
        assert_eq!((table.len(), table.lines.len()), (max, 2048));
        let spilled = table.lines.iter().filter(|line| line.spilled > 0).count();
        assert!(spilled < 5, "nobody is sent on for whom another can go: {spilled}");
        assert_eq!(table.forgotten(), 50_500 - max as u64);
        assert!((0..500).all(|n| get(&mut table, n, 0) == Some(2)));
    }

    #[test]
    fn after_a_flood_there_are_all_places_again() {
        let mut table = Table::new(16_384, 7);
        flood(&mut table, 1000, 50_000, 0);
        assert!(table.len() <= FLOODED_MAX + 2);
        for second in 1..3 {
            table.next_second();
            flood(&mut table, 100_000 * u64::from(second), 4000, second);
        }
        assert!(table.len() > 4000, "the second of these seconds was no flood any more");
        table.next_second();
        flood(&mut table, 300_000, 12_000, 3);
        let there = (300_000..312_000).filter(|&n| get(&mut table, n, 3).is_some()).count();
        assert!(there > 11_000, "{there}");
        check(&table);
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
        table.next_second();
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
