//! How the controller did in the last hour: a few of its metrics, sampled every two seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_base::HistogramSnapshot;
use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_io::{clock, memory};
use tokio::time::sleep;
use utoipa::ToSchema;

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// Samples that are kept: an hour.
pub(crate) const SAMPLES_MAX: usize = 1800;

/// The controller between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub(crate) struct SampleDocument {
    /// The end of the time that it is about.
    pub(crate) at_unix_s: f64,
    pub(crate) packet_ins_per_s: f64,
    pub(crate) messages_per_s: f64,
    /// Median time from reading messages of a switch to writing the responses: the upper bound of the class of the histogram in which it is.
    /// `null` if there was nothing to respond to.
    pub(crate) latency_p50_s: Option<f64>,
    /// 99th percentile of the same.
    pub(crate) latency_p99_s: Option<f64>,
    /// Physical memory of the process.
    pub(crate) resident_bytes: Option<u64>,
    /// Connected switches.
    pub(crate) switches: f64,
}

/// The last samples, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct TimeSeries(Mutex<VecDeque<SampleDocument>>);

/// Values of counters at one moment.
#[derive(Debug, Default)]
struct Counts {
    packet_ins: u64,
    messages: u64,
    switches: f64,
    latency: HistogramSnapshot,
}

impl Counts {
    fn read(source: &dyn MetricsSource) -> Self {
        let mut counts = Self::default();
        source.collect(&mut |sample| counts.add(sample));
        counts
    }

    fn add(&mut self, sample: MetricSample) {
        match (sample.name, sample.value) {
            ("messages_received", MetricValue::Counter(count)) => {
                self.messages += count;
                if sample.labels.iter().any(|(_, value)| value == "PACKET_IN") {
                    self.packet_ins += count;
                }
            }
            ("switches_connected", MetricValue::Gauge(count)) => self.switches += count,
            ("response_latency_seconds", MetricValue::Histogram(latency)) => self.latency = latency,
            _ => {}
        }
    }

    /// What has happened since `before`.
    #[expect(clippy::cast_precision_loss, reason = "a rate has fewer than 53 significant bits")]
    fn since(&self, before: &Self, time: Duration) -> SampleDocument {
        let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
        let per_s = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        SampleDocument {
            at_unix_s: clock::since_epoch().as_secs_f64(),
            packet_ins_per_s: per_s(self.packet_ins, before.packet_ins),
            messages_per_s: per_s(self.messages, before.messages),
            latency_p50_s: percentile(&self.latency, &before.latency, 50),
            latency_p99_s: percentile(&self.latency, &before.latency, 99),
            resident_bytes: memory::resident_bytes(),
            switches: self.switches,
        }
    }
}

/// The upper bound of the class that has the given percentile of the durations between two snapshots.
#[expect(clippy::cast_precision_loss, reason = "bounds are small")]
fn percentile(new: &HistogramSnapshot, old: &HistogramSnapshot, percent: u64) -> Option<f64> {
    let before = |at: usize| old.buckets.get(at).map_or(0, |&(_, count)| count);
    let counts = new.buckets.iter().enumerate();
    let counts: Vec<_> =
        counts.map(|(at, &(bound, count))| (bound, count.saturating_sub(before(at)))).collect();
    let above = new.overflow.saturating_sub(old.overflow);
    let total = counts.iter().map(|&(_, count)| count).sum::<u64>() + above;
    let rank = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let mut classes = counts.iter().filter(|_| total > 0);
    let found = classes.find(|&&(_, count)| {
        seen += count;
        seen >= rank
    });
    found.or_else(|| counts.last().filter(|_| total > 0)).map(|&(bound, _)| bound as f64 / 1e9)
}

impl TimeSeries {
    fn lock(&self) -> MutexGuard<'_, VecDeque<SampleDocument>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The samples after a moment, the oldest first.
    pub(crate) fn after(&self, unix_s: f64) -> Vec<SampleDocument> {
        self.lock().iter().filter(|sample| sample.at_unix_s > unix_s).copied().collect()
    }

    fn push(&self, sample: SampleDocument) {
        let mut samples = self.lock();
        if samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Takes a sample every two seconds. Never ends.
    pub(crate) async fn follow(&self, source: &dyn MetricsSource) {
        let mut last: (Instant, Counts) = (clock::now(), Counts::read(source));
        loop {
            sleep(INTERVAL).await;
            let (now, counts) = (clock::now(), Counts::read(source));
            self.push(counts.since(&last.1, now.saturating_duration_since(last.0)));
            last = (now, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_about_the_time_since_the_last_one() {
        let latency = |counts: [u64; 3], overflow| HistogramSnapshot {
            buckets: vec![(1000, counts[0]), (2000, counts[1]), (4000, counts[2])],
            overflow,
            sum_ns: 0,
        };
        let before = Counts {
            packet_ins: 100,
            messages: 150,
            switches: 1.0,
            latency: latency([9, 9, 9], 1),
        };
        let now = Counts {
            packet_ins: 300,
            messages: 450,
            switches: 2.0,
            latency: latency([9, 109, 10], 1),
        };
        let sample = now.since(&before, Duration::from_secs(2));
        assert_eq!((sample.packet_ins_per_s, sample.messages_per_s), (100.0, 150.0));
        assert_eq!((sample.latency_p50_s, sample.latency_p99_s), (Some(2e-6), Some(2e-6)));
        assert_eq!(now.since(&now, Duration::from_secs(2)).latency_p50_s, None);
        assert_eq!(percentile(&latency([0, 0, 0], 5), &latency([0, 0, 0], 0), 50), Some(4e-6));
    }

    #[test]
    fn the_last_hour_is_kept() {
        let series = TimeSeries::default();
        let mut sample = Counts::default().since(&Counts::default(), INTERVAL);
        for at in 0..SAMPLES_MAX + 5 {
            sample.at_unix_s = f64::from(u32::try_from(at).unwrap());
            series.push(sample);
        }
        assert_eq!(series.after(0.0).len(), SAMPLES_MAX);
        assert_eq!(series.after(-1.0).len(), SAMPLES_MAX, "the first five are removed");
        assert_eq!(series.after(1803.0).len(), 1);
    }
}
