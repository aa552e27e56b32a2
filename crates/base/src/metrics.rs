//! Metrics as plain values, independent of how they are exported.

use crate::HistogramSnapshot;

/// One value of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Name without the prefix `sluice_` and without a counter's suffix `_total`; the unit is its last word, as in
    /// `sent_bytes`.
    pub name: &'static str,
    /// One sentence without a full stop, the same in all samples of one name.
    pub help: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// The value of a sample, by type of the metric.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// A count that only increases; its exported name ends in `_total`.
    Counter(u64),
    /// A time in seconds that only increases; its exported name ends in `_total`.
    SecondsCounter(f64),
    /// A number that increases and decreases.
    Gauge(f64),
    /// Durations, exported in seconds.
    Histogram(HistogramSnapshot),
}

/// Something that exports metrics; it may be read at any time, from any thread.
pub trait MetricsSource: Send + Sync + std::fmt::Debug {
    /// Passes every sample to `emit`. Samples of one name follow each other.
    fn collect(&self, emit: &mut dyn FnMut(MetricSample));
}
