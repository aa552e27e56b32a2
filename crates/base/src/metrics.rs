//! What can be counted and shown, without a word about how.

use crate::HistogramSnapshot;

/// One value under a name, as a scraper will see it.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Name without prefix, unit last, as Prometheus wants it: `messages_received`, `table_entries`.
    pub name: &'static str,
    /// One sentence without full stop.
    pub help: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// A value of one of the three types.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// Only ever grows; the exposition adds `_total` to the name.
    Counter(u64),
    /// Goes up and down.
    Gauge(f64),
    /// How long things took, in seconds when exposed.
    Histogram(HistogramSnapshot),
}

/// Something that can be asked for its values at any time, from any thread.
pub trait MetricsSource: Send + Sync + std::fmt::Debug {
    /// Hands every value to `put`. Samples of one name come one after the other.
    fn collect(&self, put: &mut dyn FnMut(MetricSample));
}
