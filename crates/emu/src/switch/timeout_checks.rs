//! When the timeouts of flow entries are checked. §5.5.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Cancelled checks that are kept besides as many as there are others.
const CANCELLED_MIN: usize = 64;

/// The checks that are due, by time. A cancelled one stays until it is the first, or until most are cancelled: removing it costs
/// nothing then.
///
/// Callers tell which checks are cancelled: `is_valid` is `false` for these.
#[derive(Debug, Default)]
pub(crate) struct TimeoutChecks {
    /// Times and indices of flow entries.
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Number of cancelled ones, at least.
    cancelled: usize,
}

impl TimeoutChecks {
    /// Adds a check of the entry at index `index`.
    pub(crate) fn add(&mut self, at: Instant, index: usize) {
        self.heap.push(Reverse((at, index)));
    }

    /// One of the checks was cancelled.
    pub(crate) fn cancelled(&mut self, is_valid: impl Fn(Instant, usize) -> bool) {
        self.cancelled += 1;
        if self.cancelled > self.heap.len() / 2 + CANCELLED_MIN {
            self.heap.retain(|&Reverse((at, index))| is_valid(at, index));
            self.cancelled = 0;
        }
        while self.first().is_some_and(|(at, index)| !is_valid(at, index)) {
            self.heap.pop();
            self.cancelled = self.cancelled.saturating_sub(1);
        }
    }

    /// Time and entry of the first check.
    pub(crate) fn first(&self) -> Option<(Instant, usize)> {
        self.heap.peek().map(|&Reverse(check)| check)
    }

    /// Removes the first check if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, usize)> {
        let first = self.first().filter(|(at, _)| *at <= now)?;
        self.heap.pop();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn cancelled_checks_are_never_the_first_and_take_a_limited_amount_of_memory() {
        let start = sluice_io::clock::now();
        let at = |n: usize| start + Duration::from_secs(n as u64);
        let mut checks = TimeoutChecks::default();
        for n in 0..10_000 {
            checks.add(at(n), n);
            // Only multiples of 1 000 stay.
            let is_valid = |_, index: usize| index.is_multiple_of(1000) || index > n;
            if n % 1000 != 0 {
                checks.cancelled(is_valid);
            }
            assert_eq!(checks.first(), Some((at(0), 0)));
            assert!(checks.heap.len() < 250, "{}", checks.heap.len());
        }
        assert_eq!(checks.pop_due(start), Some((start, 0)));
        checks.cancelled(|_, index| index.is_multiple_of(1000));
        assert_eq!((checks.first(), checks.pop_due(start)), (Some((at(1000), 1000)), None));
    }
}
