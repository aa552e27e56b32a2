//! How stations go: for others, with their time, with their port.

use sluice_wire::PortNo;

use super::line::{Key, PROBES_MAX, Tick, WAYS};
use super::{LINES_MIN, Table};

/// Lines looked through in a second for stations at ports that went down: sixteen times the table of a default.
const SCANNED_MAX: usize = 1 << 20;

impl Table {
    /// Forgets the stations of one part in `parts` that were not seen within `timeout`. Once a second.
    pub(crate) fn sweep(&mut self, part: usize, parts: usize, now: Tick, timeout: Tick) {
        self.scanned = 0;
        self.census.next_second();
        let len = self.lines.len();
        let (from, to) = (len * part / parts, len * (part + 1) / parts);
        self.forget(from, to, |_, seen| now.wrapping_sub(seen) > timeout);
    }

    /// Forgets the stations at `port`; all of them if ports come and go so fast that looking for these would keep
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

    /// Forgets all stations but the proved: a flood of addresses began.
    #[cold]
    pub(super) fn shed(&mut self) {
        let places = self.census.flood() * 8 / 5;
        let lines = places.div_ceil(WAYS).next_power_of_two().max(LINES_MIN);
        self.resize(lines, |station| station.is_proved);
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

    /// Empties a place that a station has.
    fn remove(&mut self, at: usize, way: usize) {
        let Some(line) = self.lines.get_mut(at) else { return };
        let key = line.keys.get(way).copied().unwrap_or(0);
        self.census.leave(line, way);
        line.clear(way);
        self.uncount(key, at);
    }

    /// A station is no longer at `at`: the lines that it went past count one less.
    fn uncount(&mut self, key: u64, at: usize) {
        let home = self.home(self.spot(Key(key)));
        let passed = at.wrapping_sub(home) & (self.lines.len() - 1);
        self.count_spill(home, passed, |spilled| spilled - 1);
    }

    /// Corrects the count of the lines that a station went past.
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
