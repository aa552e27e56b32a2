//! Latency histograms: a precise one for all switches together, a coarse one for each.

use hdrhistogram::Histogram;

use crate::distribution::{Quantile, quantile_rank};
use crate::request_records::RequestRecorder;
use crate::timestamp::{TICK_NS, Timestamp};

/// Longest latency for which a new histogram has room: 1 ms. It is resized for longer ones.
const LATENCY_NS_START: u64 = 1 << 20;

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

    fn len(&self) -> u64 {
        self.0.iter().map(|&n| u64::from(n)).sum()
    }

    /// The value of this rank, from 1, in nanoseconds; 0 if there are fewer values.
    fn value_of_rank_ns(&self, rank: u64) -> u64 {
        let mut below = 0;
        for (bucket, &n) in self.0.iter().enumerate() {
            below += u64::from(n);
            if n > 0 && below >= rank {
                return (Self::upper(bucket) - 1) * TICK_NS;
            }
        }
        0
    }

    /// The value at quantile `q` (0 to 1) in nanoseconds; 0 if the histogram is empty.
    pub(crate) fn quantile_ns(&self, q: f64) -> u64 {
        self.value_of_rank_ns(quantile_rank(q, self.len()))
    }
}

/// Latencies of one switch in the measured loops.
#[derive(Debug, Clone)]
pub(crate) struct SwitchLatencies {
    pub(crate) answered: CoarseHistogram,
    /// Requests without an answer in time, or due and not sent.
    pub(crate) unanswered: u64,
}

impl SwitchLatencies {
    pub(crate) fn new() -> Self {
        Self { answered: CoarseHistogram::new(), unanswered: 0 }
    }

    /// The latency at quantile `q` (0 to 1), accurate to within 12 %. Requests without an answer take at least `unanswered_min_ns`.
    pub(crate) fn quantile(&self, q: f64, unanswered_min_ns: u64) -> Quantile {
        let answered = self.answered.len();
        let rank = quantile_rank(q, answered + self.unanswered);
        if rank > answered {
            Quantile::AtLeast(unanswered_min_ns)
        } else {
            Quantile::Exactly(self.answered.value_of_rank_ns(rank))
        }
    }
}

/// An empty histogram of nanoseconds with three significant digits. It takes 100 KiB, and more for long latencies.
pub(crate) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(TICK_NS, LATENCY_NS_START, 3) {
        Ok(mut histogram) => {
            histogram.auto(true);
            histogram
        }
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
    /// A batch of answers that arrive at `now`, the last timestamp of the recorder.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { now, sent_at: 0, n: 0 }
    }

    /// Adds the answer to a request that was sent at `sent_at`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        sent_at: Timestamp,
        switch: &mut SwitchLatencies,
        recorder: &mut RequestRecorder,
    ) {
        if sent_at != self.sent_at {
            self.flush(switch, recorder);
            self.sent_at = sent_at;
        }
        self.n += 1;
    }

    #[inline]
    pub(crate) fn flush(&mut self, switch: &mut SwitchLatencies, recorder: &mut RequestRecorder) {
        if self.n > 0 {
            if recorder.record_answers(self.sent_at, self.n) {
                switch.answered.record_n(self.now.wrapping_sub(self.sent_at), self.n);
            }
            self.n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_io::clock;

    use super::*;
    use crate::Plan;

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
    fn a_switch_with_unanswered_requests_has_them_as_its_slowest() {
        let mut latencies = SwitchLatencies::new();
        latencies.answered.record_n(100, 98);
        latencies.unanswered = 2;
        assert!(matches!(latencies.quantile(0.98, 7), Quantile::Exactly(1600..1820)));
        assert_eq!(latencies.quantile(0.99, 7), Quantile::AtLeast(7));
    }

    #[test]
    fn answers_to_requests_of_one_time_are_recorded_at_once() {
        let epoch = clock::now();
        let plan = Plan { loops: 1, warmup: 0, ..Plan::default() };
        let (mut switch, mut recorder) =
            (SwitchLatencies::new(), RequestRecorder::new(&plan, epoch));
        recorder.set_start(epoch);
        let mut batch = LatencyBatch::new(recorder.timestamp(epoch + Duration::from_micros(8)));
        for sent_at in [400, 400, 400, 300] {
            batch.add(sent_at, &mut switch, &mut recorder);
        }
        batch.flush(&mut switch, &mut recorder);
        let (loops, _) = recorder.take();
        let all = &loops[0].answered;
        assert_eq!((all.len(), all.min(), all.count_at(3200)), (4, 1600, 1));
        assert_eq!(switch.answered.len(), 4);
    }
}
