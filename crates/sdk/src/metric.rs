//! Numbers that an application exports.

/// A metric of an application. The values of all workers are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppMetric {
    /// Name without the prefix `sluice_`, beginning with the name of the application. Counters are exported with the suffix
    /// `_total`.
    pub name: &'static str,
    /// A phrase that says what is counted, without a full stop.
    pub help: &'static str,
    /// Whether the value only ever grows.
    pub kind: AppMetricKind,
    /// The value on this worker.
    pub value: u64,
}

/// Kind of a metric, in the terms of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppMetricKind {
    /// The number of events since the start.
    Counter,
    /// The current value.
    Gauge,
}

impl AppMetric {
    /// A number of events since the start.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: AppMetricKind::Counter, value }
    }

    /// The current number of something.
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: AppMetricKind::Gauge, value }
    }
}
