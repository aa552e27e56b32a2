//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets with powers of two as upper bounds, from 1 µs to 2²² µs (about 4 s); the last has no upper bound.
const BUCKETS: usize = 24;

/// A histogram of durations, with powers of two of a microsecond as bucket bounds.
///
/// One thread records, any thread may take snapshots. A snapshot may contain a part of a concurrent update; its counts never
/// decrease.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// The content of a [`Histogram`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistogramSnapshot {
    /// Upper bound in nanoseconds, inclusive, and the number of durations between the previous bound and this one.
    pub buckets: Vec<(u64, u64)>,
    /// Number of durations above the last bound.
    pub overflow: u64,
    /// Sum of all durations, in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// Records `n` durations of `time` each. Only one thread may call this.
    #[inline]
    pub fn record_n(&self, time: Duration, n: u64) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = (ns.div_ceil(1000).next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.store(bucket.load(Relaxed) + n, Relaxed);
        }
        let sum = self.sum_ns.load(Relaxed).wrapping_add(ns.wrapping_mul(n));
        self.sum_ns.store(sum, Relaxed);
    }

    /// The current content.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let mut buckets: Vec<_> = (0..BUCKETS).map(|n| 1000 << n).zip(counts).collect();
        let overflow = buckets.pop().map_or(0, |(_, count)| count);
        HistogramSnapshot { buckets, overflow, sum_ns: self.sum_ns.load(Relaxed) }
    }
}

impl HistogramSnapshot {
    /// Number of recorded durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|&(_, count)| count).sum::<u64>() + self.overflow
    }

    /// Adds the content of another histogram.
    pub fn add(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            *self = other.clone();
            return;
        }
        for (ours, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            ours.1 += theirs.1;
        }
        self.overflow += other.overflow;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_smallest_bucket_that_includes_it() {
        let h = Histogram::default();
        h.record_n(Duration::from_nanos(1), 1);
        h.record_n(Duration::from_micros(1), 2);
        h.record_n(Duration::from_nanos(1001), 3);
        h.record_n(Duration::from_secs(100), 4);
        let s = h.snapshot();
        assert_eq!(s.buckets[..2], [(1000, 3), (2000, 3)]);
        assert_eq!((s.overflow, s.count()), (4, 10));
        assert_eq!(s.sum_ns, 1 + 2000 + 3003 + 400_000_000_000);
    }
}
