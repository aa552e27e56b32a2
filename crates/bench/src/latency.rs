//! Latency histograms: a precise one for all switches together, a coarse one for each.

use hdrhistogram::Histogram;

use crate::outstanding::{TICK_NS, Timestamp};

/// Log2 of the buckets per factor of two in a [`CoarseHistogram`].
const STEPS_BITS: u32 = 3;

/// Buckets of a [`CoarseHistogram`], which cover all 32-bit values.
const BUCKETS: usize = (32 - STEPS_BITS as usize + 1) << STEPS_BITS;

/// A histogram of 1 KiB, one per switch: eight buckets per factor of two, so accurate to within 12 %.
#[derive(Debug, Clone)]
pub(crate) struct CoarseHistogram(Box<[u32; BUCKETS]>);

impl CoarseHistogram {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; BUCKETS]))
    }

    #[inline]
    pub(crate) fn record_n(&mut self, ticks: u32, n: u32) {
        if let Some(bucket) = self.0.get_mut(Self::bucket(ticks)) {
            *bucket = bucket.saturating_add(n);
        }
    }

    #[inline]
    fn bucket(ticks: u32) -> usize {
        let shift = (ticks | 1 << STEPS_BITS).ilog2() - STEPS_BITS;
        ((shift << STEPS_BITS) + (ticks >> shift)) as usize
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The smallest value above those of `bucket`.
    fn upper(bucket: usize) -> u64 {
        let (steps, bucket) = (1u64 << STEPS_BITS, bucket as u64 + 1);
        if bucket <= 2 * steps {
            return bucket;
        }
        let shift = (bucket >> STEPS_BITS) - 1;
        (bucket - (shift << STEPS_BITS)) << shift
    }

    /// The value at quantile `q` (0 to 1) in nanoseconds; 0 if the histogram is empty.
    pub(crate) fn quantile_ns(&self, q: f64) -> u64 {
        let total: u64 = self.0.iter().map(|&n| u64::from(n)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a quantile of a count is a count"
        )]
        let rank = (q * total as f64).ceil() as u64;
        let mut below = 0;
        for (bucket, &n) in self.0.iter().enumerate() {
            below += u64::from(n);
            if n > 0 && below >= rank {
                return (Self::upper(bucket) - 1) * TICK_NS;
            }
        }
        0
    }
}

/// Latencies of one thread in the current loop.
#[derive(Debug)]
pub(crate) struct LatencyRecorder {
    histogram: Histogram<u64>,
}

impl LatencyRecorder {
    pub(crate) fn new() -> Self {
        Self { histogram: histogram() }
    }

    #[inline]
    pub(crate) fn record_n(&mut self, ticks: u32, n: u32) {
        self.histogram.saturating_record_n(u64::from(ticks) * TICK_NS, u64::from(n));
    }

    /// Returns the recorded latencies and clears the histogram.
    pub(crate) fn take(&mut self) -> Histogram<u64> {
        std::mem::replace(&mut self.histogram, histogram())
    }
}

/// An empty histogram of nanoseconds: three significant digits, from 16 ns to more than the longest timeout.
pub(crate) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(TICK_NS, u64::from(u32::MAX) * TICK_NS, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are in order"),
    }
}

/// Collects answers to requests that were sent at the same time, which have the same latency, and records them at once.
#[derive(Debug)]
pub(crate) struct LatencyBatch {
    now: Timestamp,
    sent_at: Timestamp,
    n: u32,
}

impl LatencyBatch {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { now, sent_at: 0, n: 0 }
    }

    /// Adds the answer to a request that was sent at `sent_at`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        sent_at: Timestamp,
        switch: &mut CoarseHistogram,
        thread: &mut LatencyRecorder,
    ) {
        if sent_at != self.sent_at {
            self.flush(switch, thread);
            self.sent_at = sent_at;
        }
        self.n += 1;
    }

    #[inline]
    pub(crate) fn flush(&mut self, switch: &mut CoarseHistogram, thread: &mut LatencyRecorder) {
        if self.n > 0 {
            let ticks = self.now.wrapping_sub(self.sent_at);
            thread.record_n(ticks, self.n);
            switch.record_n(ticks, self.n);
            self.n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bucket_whose_bound_is_at_most_an_eighth_above_it() {
        let mut last = 0;
        for value in
            (0..4096).chain((12..32).flat_map(|n| [1 << n, (1 << n) + 1, u32::MAX >> (31 - n)]))
        {
            let bucket = CoarseHistogram::bucket(value);
            assert!(bucket < BUCKETS);
            let upper = CoarseHistogram::upper(bucket);
            assert!(u64::from(value) < upper, "{value} {bucket} {upper}");
            assert!(upper <= u64::from(value) * 9 / 8 + 1, "{value} {bucket} {upper}");
            if value < 4096 {
                assert!(bucket == last || bucket == last + 1);
                last = bucket;
            }
        }
    }

    #[test]
    fn quantiles_of_a_coarse_histogram() {
        let mut coarse = CoarseHistogram::new();
        assert_eq!(coarse.quantile_ns(0.5), 0);
        coarse.record_n(100, 99);
        coarse.record_n(100_000, 1);
        let (median, max) = (coarse.quantile_ns(0.5), coarse.quantile_ns(1.0));
        assert!((1600..1820).contains(&median), "{median}");
        assert!((1_600_000..1_820_000).contains(&max), "{max}");
    }

    #[test]
    fn answers_to_requests_of_one_time_are_recorded_at_once() {
        let (mut switch, mut thread) = (CoarseHistogram::new(), LatencyRecorder::new());
        let mut batch = LatencyBatch::new(500);
        for sent_at in [400, 400, 400, 300] {
            batch.add(sent_at, &mut switch, &mut thread);
        }
        batch.flush(&mut switch, &mut thread);
        let all = thread.take();
        assert_eq!((all.len(), all.min()), (4, 1600));
        assert_eq!(all.count_at(3200), 1);
    }
}
