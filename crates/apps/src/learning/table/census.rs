//! How many hosts a table has, and how many it may have.

use super::line::{Line, Tick, WAYS};

/// Hosts that are not proved which a table keeps while it is flooded with addresses: so few that their lines stay in
/// the core's own cache for a burst. `lab/throughput` has the measurement.
pub(super) const FLOODED_MAX: usize = 2048;

/// How many hosts a table has, and how many it may have.
///
/// A host is proved when a new one sends to it, or when it is heard in another second than it came. Who is not goes
/// first in a full table, so that made-up addresses push out one another and not those who talk.
///
/// A flood is when more new addresses come within a second than there are places. While it lasts, there are places for
/// few who are not proved: more would only push lines out of the caches.
#[derive(Debug)]
pub(super) struct Census {
    hosts: usize,
    /// Those of them that are proved.
    pub(super) proved: usize,
    hosts_max: usize,
    /// How many there may be now.
    max: usize,
    /// Hosts that went for others within this second.
    replaced: usize,
    /// Hosts that went for others in those before.
    forgotten: u64,
    is_flooded: bool,
}

impl Census {
    pub(super) const fn new(hosts_max: usize) -> Self {
        let (hosts, proved, replaced, forgotten) = (0, 0, 0, 0);
        let max = hosts_max;
        Self { hosts, proved, hosts_max, max, replaced, forgotten, is_flooded: false }
    }

    pub(super) const fn set_max(&mut self, hosts_max: usize) {
        self.hosts_max = hosts_max;
        self.limit();
    }

    /// A host is in the table now.
    pub(super) const fn enter(&mut self) {
        self.hosts += 1;
    }

    /// A new host sends to the one in a place.
    #[cold]
    pub(super) const fn prove(&mut self, line: &mut Line, way: usize) {
        line.prove(way);
        self.proved += 1;
        self.limit();
    }

    /// The host in a place is heard in another second than before.
    #[cold]
    pub(super) fn hear_again(&mut self, line: &mut Line, way: usize, now: Tick) {
        if let Some(seen) = line.seen.get_mut(way) {
            *seen = now;
        }
        if !line.is_proved(way) {
            self.prove(line, way);
        }
    }

    /// The host in a place goes.
    pub(super) fn leave(&mut self, line: &Line, way: usize) {
        self.hosts -= 1;
        self.proved -= usize::from(line.is_proved(way));
        self.limit();
    }

    /// A host went for another.
    #[inline]
    pub(super) const fn give_way(&mut self) {
        self.replaced += 1;
    }

    /// All hosts leave, and may come again.
    pub(super) const fn clear(&mut self) {
        (self.hosts, self.proved) = (0, 0);
        self.limit();
    }

    /// Another second begins.
    pub(super) const fn next_second(&mut self) {
        self.is_flooded = self.is_flooded && self.replaced >= self.hosts_max / 4;
        self.forgotten += self.replaced as u64;
        self.replaced = 0;
        self.limit();
    }

    /// A flood begins, for which all but the proved hosts go; returns how many there may be then.
    pub(super) fn flood(&mut self) -> usize {
        self.forgotten += (self.hosts - self.proved) as u64;
        self.is_flooded = true;
        self.limit();
        self.max
    }

    /// Whether a flood begins.
    #[inline]
    pub(super) const fn overflows(&self) -> bool {
        // A table that is small anyway would gain nothing.
        let is_large = self.hosts_max > 4 * FLOODED_MAX;
        is_large && !self.is_flooded && self.replaced >= self.hosts_max
    }

    /// Whether more came within a second than there are places, and still do.
    pub(super) const fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Hosts in the table.
    pub(super) const fn len(&self) -> usize {
        self.hosts
    }

    /// Hosts that went for others, ever.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten + self.replaced as u64
    }

    /// Whether no host may come for which none goes.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.hosts >= self.max
    }

    /// Whether one more may come to so many lines.
    #[inline]
    pub(super) fn has_room(&self, lines: usize) -> bool {
        // Five in eight: beyond, the longest searches grow faster than the table would.
        self.hosts < (lines * WAYS / 8 * 5).min(self.max)
    }

    /// Says anew how many there may be.
    const fn limit(&mut self) {
        self.max = self.hosts_max;
        let few = self.proved * 2 + FLOODED_MAX;
        if self.is_flooded && few < self.max {
            self.max = few;
        }
    }
}
