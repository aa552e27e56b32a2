//! The rate of reads: units that are added at a constant rate, of which each read takes some.

use std::time::{Duration, Instant};

/// Units that are added per second. A reply of some kilobytes costs the worker of its switch 50 to 140 µs, so that all of them together
/// take at most 2 % of one.
pub(in crate::api) const UNITS_PER_SECOND: u32 = 120;

/// Units that are kept while nothing is read.
pub(super) const UNITS_MAX: u32 = 100;

/// The time in which a unit is added.
const UNIT_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / UNITS_PER_SECOND as u64);

const SECOND: Duration = Duration::from_secs(1);

/// What may be read now, in units.
#[derive(Debug)]
pub(super) struct Budget {
    units: u32,
    /// Until when units were added.
    added_until: Option<Instant>,
    /// When the current second of the statistics has begun.
    second: Option<Instant>,
    taken: u32,
    taken_before: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { units: UNITS_MAX, added_until: None, second: None, taken: 0, taken_before: 0 }
    }
}

impl Budget {
    /// Adds the units of the time that has passed, even beyond [`UNITS_MAX`], until [`limit`](Self::limit).
    pub(super) fn advance(&mut self, now: Instant) {
        let from = *self.added_until.get_or_insert(now);
        let passed = now.saturating_duration_since(from).as_nanos() / UNIT_INTERVAL.as_nanos();
        let added = u32::try_from(passed).unwrap_or(u32::MAX);
        self.units = self.units.saturating_add(added);
        self.added_until = Some(from + UNIT_INTERVAL * added);
        let since = now.saturating_duration_since(*self.second.get_or_insert(now));
        if since >= SECOND {
            self.taken_before = if since < 2 * SECOND { self.taken } else { 0 };
            (self.taken, self.second) = (0, Some(now));
        }
    }

    /// Forgets units that nothing has taken.
    pub(super) fn limit(&mut self) {
        self.units = self.units.min(UNITS_MAX);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units == 0
    }

    /// Takes a unit. There must be one.
    pub(super) fn take(&mut self) {
        self.units = self.units.saturating_sub(1);
        self.taken = self.taken.saturating_add(1);
    }

    /// Gives a unit back that was not used.
    pub(super) fn give_back(&mut self) {
        self.units = self.units.saturating_add(1).min(UNITS_MAX);
        self.taken = self.taken.saturating_sub(1);
    }

    /// When the next unit is added.
    pub(super) fn next_unit_at(&self) -> Option<Instant> {
        self.added_until.map(|until| until + UNIT_INTERVAL)
    }

    /// Units that were taken during the last second that is over.
    pub(super) const fn taken_per_second(&self) -> u32 {
        self.taken_before
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn units_are_added_at_a_constant_rate_up_to_a_maximum() {
        let (mut budget, start) = (Budget::default(), clock::now());
        budget.advance(start);
        let mut take_all = |now| {
            budget.advance(now);
            budget.limit();
            let mut taken = 0;
            while !budget.is_empty() {
                budget.take();
                taken += 1;
            }
            taken
        };
        assert_eq!(take_all(start), UNITS_MAX);
        // Whatever the steps, no part of a unit is lost.
        let taken: u32 = (1..=1000).map(|n| take_all(start + n * Duration::from_millis(7))).sum();
        assert!((839..=840).contains(&taken), "{taken}");
        assert_eq!(take_all(start + Duration::from_secs(3600)), UNITS_MAX);
    }

    #[test]
    fn what_was_taken_is_known_for_the_last_second() {
        let (mut budget, start) = (Budget::default(), clock::now());
        budget.advance(start);
        (0..7).for_each(|_| budget.take());
        assert_eq!(budget.taken_per_second(), 0);
        budget.advance(start + SECOND);
        assert_eq!(budget.taken_per_second(), 7);
        budget.advance(start + 4 * SECOND);
        assert_eq!(budget.taken_per_second(), 0);
    }
}
