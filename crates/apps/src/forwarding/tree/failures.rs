//! Failures of links or switches: which are left out of trees for how long.

use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// For how long links or switches that have failed are left out of trees.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureLimits {
    /// The time after the first failure. It doubles each time.
    pub(super) first: Duration,
    /// The longest of these times.
    pub(super) max: Duration,
    /// How many are remembered. If there are more, the one with the least time left is forgotten.
    pub(super) count: usize,
}

/// Failures of what a `K` identifies.
///
/// # Cost
/// Linear in the number that is remembered.
#[derive(Debug)]
pub(super) struct Failures<K> {
    limits: FailureLimits,
    /// In the order of the keys.
    entries: Vec<(K, Backoff)>,
}

impl<K: Copy + Ord> Failures<K> {
    pub(super) fn new(limits: FailureLimits) -> Self {
        Self { limits, entries: Vec::new() }
    }

    /// Counts a failure.
    pub(super) fn add(&mut self, key: K, now: Instant) {
        if let Some((_, backoff)) = self.entries.iter_mut().find(|(known, _)| *known == key) {
            return backoff.on_failure(now);
        }
        self.entries.retain(|(_, backoff)| backoff.is_remembered(now));
        if self.entries.len() >= self.limits.count {
            let ends = self.entries.iter().map(|(_, backoff)| backoff.remembered_until());
            if let Some((at, _)) = ends.enumerate().min_by_key(|&(_, end)| end) {
                self.entries.remove(at);
            }
        }
        let mut backoff = Backoff::new(self.limits.first, self.limits.max);
        backoff.on_failure(now);
        let at = self.entries.partition_point(|&(known, _)| known < key);
        self.entries.insert(at, (key, backoff));
    }

    /// What is left out of new trees now, in the order of the keys.
    pub(super) fn left_out(&self, now: Instant) -> Vec<K> {
        let active = self.entries.iter().filter(|(_, backoff)| backoff.is_active(now));
        active.map(|&(key, _)| key).collect()
    }

    /// When the next one may be part of a tree again.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        self.entries.iter().filter_map(|(_, backoff)| backoff.end(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(2);
    const MAX: Duration = Duration::from_secs(300);
    const LIMITS: FailureLimits = FailureLimits { first: FIRST, max: MAX, count: 8 };

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn what_fails_again_is_left_out_for_twice_as_long_up_to_a_limit() {
        let (mut failures, mut now) = (Failures::new(LIMITS), start());
        for seconds in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!((failures.left_out(now), failures.next_end(now)), (vec![], None));
            failures.add(1, now);
            let end = now + Duration::from_secs(seconds);
            assert_eq!(failures.next_end(now), Some(end));
            let before = now + Duration::from_millis(1000 * seconds - 1);
            assert_eq!(failures.left_out(before), [1]);
            now = end;
        }
        now += MAX;
        failures.add(1, now);
        assert_eq!(failures.next_end(now), Some(now + FIRST));
    }

    #[test]
    fn the_one_with_the_least_time_left_makes_room() {
        let (mut failures, start) = (Failures::new(LIMITS), start());
        failures.add(5, start);
        let mut now = start + FIRST;
        failures.add(5, now);
        // In descending order.
        for key in (10..18).rev() {
            now += Duration::from_millis(1);
            failures.add(key, now);
        }
        assert_eq!(failures.left_out(now), [5, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(
            failures.next_end(start),
            Some(start + FIRST + FIRST + Duration::from_millis(2))
        );
    }

    #[test]
    fn each_is_remembered_for_a_limited_time() {
        let (mut failures, start) = (Failures::new(LIMITS), start());
        (0..8).for_each(|key| failures.add(key, start));
        let later = start + FIRST + MAX;
        failures.add(9, later);
        assert_eq!((failures.left_out(later), failures.entries.len()), (vec![9], 1));
    }
}
