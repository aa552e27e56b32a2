//! Latencies: in full for all switches together, coarsely for each.

use hdrhistogram::Histogram;

use crate::outstanding::{TICK_NS, Timestamp};

/// Steps per factor of two in a [`Coarse`].
const STEPS_BITS: u32 = 3;

/// Buckets of a [`Coarse`]: every 32-bit value has one.
const BUCKETS: usize = (32 - STEPS_BITS as usize + 1) << STEPS_BITS;

/// A histogram of a kibibyte, one per switch: eight steps to a factor of two, so right to within 6 %.
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

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The least value beyond those of `bucket`.
    fn upper(bucket: usize) -> u64 {
        let (steps, bucket) = (1u64 << STEPS_BITS, bucket as u64 + 1);
        if bucket <= 2 * steps {
            return bucket;
        }
        let shift = (bucket >> STEPS_BITS) - 1;
        (bucket - (shift << STEPS_BITS)) << shift
    }

    /// The value in nanoseconds that a `share` of all values does not exceed; 0 if there is none.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        let total: u64 = self.0.iter().map(|&n| u64::from(n)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a count is a count"
        )]
        let rank = (share * total as f64).ceil() as u64;
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

/// Latencies of one thread since the last time somebody took them.
#[derive(Debug)]
pub(crate) struct LatencyRecorder {
    all: Histogram<u64>,
}

impl LatencyRecorder {
    pub(crate) fn new() -> Self {
        Self { all: histogram() }
    }

    #[inline]
    pub(crate) fn record_n(&mut self, ticks: u32, n: u32) {
        self.all.saturating_record_n(u64::from(ticks) * TICK_NS, u64::from(n));
    }

    /// Takes what there is.
    pub(crate) fn take(&mut self) -> Histogram<u64> {
        std::mem::replace(&mut self.all, histogram())
    }
}

/// Three significant digits of nanoseconds, from 16 ns to more than the longest time-out allows.
pub(crate) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(TICK_NS, u64::from(u32::MAX) * TICK_NS, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("these bounds are in order"),
    }
}

/// Equal latencies in a row, recorded at once.
#[derive(Debug)]
pub(crate) struct LatencyBatch {
    now: Timestamp,
    stamp: Timestamp,
    n: u32,
}

impl LatencyBatch {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { now, stamp: 0, n: 0 }
    }

    /// One more that was open since `stamp`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        stamp: Timestamp,
        coarse: &mut CoarseHistogram,
        all: &mut LatencyRecorder,
    ) {
        if stamp != self.stamp {
            self.flush(coarse, all);
            self.stamp = stamp;
        }
        self.n += 1;
    }

    #[inline]
    pub(crate) fn flush(&mut self, coarse: &mut CoarseHistogram, all: &mut LatencyRecorder) {
        if self.n > 0 {
            let ticks = self.now.wrapping_sub(self.stamp);
            all.record_n(ticks, self.n);
            coarse.record_n(ticks, self.n);
            self.n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bucket_that_holds_it_closely() {
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
    fn quantiles_are_found() {
        let mut coarse = CoarseHistogram::new();
        assert_eq!(coarse.quantile_ns(0.5), 0);
        coarse.record_n(100, 99);
        coarse.record_n(100_000, 1);
        let (half, most) = (coarse.quantile_ns(0.5), coarse.quantile_ns(1.0));
        assert!((1600..1820).contains(&half), "{half}");
        assert!((1_600_000..1_820_000).contains(&most), "{most}");
    }

    #[test]
    fn equal_latencies_are_recorded_at_once() {
        let (mut coarse, mut all) = (CoarseHistogram::new(), LatencyRecorder::new());
        let mut run = LatencyBatch::new(500);
        for stamp in [400, 400, 400, 300] {
            run.add(stamp, &mut coarse, &mut all);
        }
        run.flush(&mut coarse, &mut all);
        let all = all.take();
        assert_eq!((all.len(), all.min()), (4, 1600));
        assert_eq!(all.count_at(3200), 1);
    }
}
