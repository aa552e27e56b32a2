//! Metrics as `OpenMetrics` text, version 1.0.0.

use std::fmt::{Error, Write as _};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sluice_base::HistogramSnapshot;
use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};

/// Media type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text form of the metrics of a source.
#[derive(Debug)]
pub(crate) struct Exposition(Registry);

impl Exposition {
    /// Adds the prefix `sluice_` to all names.
    pub(crate) fn new(source: Arc<dyn MetricsSource>) -> Self {
        let mut registry = Registry::with_prefix("sluice");
        registry.register_collector(Box::new(Samples(source)));
        Self(registry)
    }

    /// The text with the current values.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Cannot fail: neither writing to a string nor `Samples` does.
        let _ = text::encode(&mut out, &self.0);
        out
    }
}

#[derive(Debug)]
struct Samples(Arc<dyn MetricsSource>);

impl Collector for Samples {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut samples = Vec::new();
        self.0.collect(&mut |sample| samples.push(sample));
        for family in samples.chunk_by(|a, b| a.name == b.name) {
            let Some(first) = family.first() else { continue };
            let help = format!("{}.", first.help);
            let mut family_to =
                to.encode_descriptor(first.name, &help, None, kind(&first.value))?;
            for sample in family {
                encode(sample, &mut family_to)?;
            }
        }
        Ok(())
    }
}

fn kind(value: &MetricValue) -> MetricType {
    match value {
        MetricValue::Counter(_) | MetricValue::SecondsCounter(_) => MetricType::Counter,
        MetricValue::Gauge(_) => MetricType::Gauge,
        MetricValue::Histogram(_) => MetricType::Histogram,
    }
}

fn encode(sample: &MetricSample, to: &mut MetricEncoder<'_>) -> Result<(), Error> {
    // The encoder would write empty braces for an empty list of labels.
    if sample.labels.is_empty() {
        return encode_value(&sample.value, to);
    }
    let labels: Vec<_> =
        sample.labels.iter().map(|(name, value)| (*name, escaped(value))).collect();
    encode_value(&sample.value, &mut to.encode_family(&labels)?)
}

fn encode_value(value: &MetricValue, to: &mut MetricEncoder<'_>) -> Result<(), Error> {
    match value {
        MetricValue::Counter(n) => to.encode_counter::<NoLabelSet, u64, f64>(n, None),
        MetricValue::SecondsCounter(s) => to.encode_counter::<NoLabelSet, f64, f64>(s, None),
        MetricValue::Gauge(x) => to.encode_gauge(x),
        MetricValue::Histogram(h) => {
            let (sum, buckets) = (seconds(h.sum_ns), buckets(h));
            to.encode_histogram::<NoLabelSet>(sum, h.count(), &buckets, None)
        }
    }
}

/// Upper bounds in seconds, and the number of durations between the previous bound and each; the last bucket has no bound.
fn buckets(h: &HistogramSnapshot) -> Vec<(f64, u64)> {
    let bounded = h.buckets.iter().map(|&(bound, count)| (seconds(bound), count));
    // The encoder writes the largest number as `+Inf`.
    bounded.chain([(f64::MAX, h.overflow)]).collect()
}

#[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are 104 days")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The value of a label with the escapes of the text form, which the encoder does not add.
fn escaped(value: &str) -> String {
    value.chars().fold(String::with_capacity(value.len()), |mut out, c| {
        let _ = match c {
            '\\' => out.write_str("\\\\"),
            '"' => out.write_str("\\\""),
            '\n' => out.write_str("\\n"),
            c => out.write_char(c),
        };
        out
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_base::Histogram;

    use super::*;

    #[derive(Debug)]
    struct FixedSamples(Vec<MetricSample>);

    impl MetricsSource for FixedSamples {
        fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
            self.0.iter().cloned().for_each(emit);
        }
    }

    fn sample(
        name: &'static str,
        labels: &[(&'static str, &str)],
        value: MetricValue,
    ) -> MetricSample {
        let labels = labels.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        MetricSample { name, help: "Help text", labels, value }
    }

    fn text(samples: Vec<MetricSample>) -> String {
        Exposition::new(Arc::new(FixedSamples(samples))).text()
    }

    #[test]
    fn samples_of_one_name_are_one_family() {
        let text = text(vec![
            sample("messages", &[("type", "HELLO"), ("version", "1.3")], MetricValue::Counter(3)),
            sample("messages", &[("type", "ERROR"), ("version", "1.0")], MetricValue::Counter(0)),
            sample("switches", &[], MetricValue::Gauge(2.5)),
        ]);
        let expected = "\
            # HELP sluice_messages Help text.\n\
            # TYPE sluice_messages counter\n\
            sluice_messages_total{type=\"HELLO\",version=\"1.3\"} 3\n\
            sluice_messages_total{type=\"ERROR\",version=\"1.0\"} 0\n\
            # HELP sluice_switches Help text.\n\
            # TYPE sluice_switches gauge\n\
            sluice_switches 2.5\n\
            # EOF\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_histogram_is_in_seconds_and_its_buckets_are_cumulative() {
        let h = Histogram::default();
        h.record_n(Duration::from_micros(1), 2);
        h.record_n(Duration::from_micros(3), 1);
        h.record_n(Duration::from_secs(60), 1);
        let text = text(vec![sample("latency_seconds", &[], MetricValue::Histogram(h.snapshot()))]);
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        has("# TYPE sluice_latency_seconds histogram");
        has("sluice_latency_seconds_sum 60.000005");
        has("sluice_latency_seconds_count 4");
        has("sluice_latency_seconds_bucket{le=\"0.000001\"} 2");
        has("sluice_latency_seconds_bucket{le=\"0.000002\"} 2");
        has("sluice_latency_seconds_bucket{le=\"0.000004\"} 3");
        has("sluice_latency_seconds_bucket{le=\"+Inf\"} 4");
    }

    #[test]
    fn an_empty_histogram_has_the_bucket_without_bound() {
        let empty = MetricValue::Histogram(HistogramSnapshot::default());
        let text = text(vec![sample("latency_seconds", &[("worker", "0")], empty)]);
        let line = "sluice_latency_seconds_bucket{le=\"+Inf\",worker=\"0\"} 0";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn label_values_are_escaped() {
        let text = text(vec![sample("x", &[("reason", "a \"b\"\n\\")], MetricValue::Gauge(1.0))]);
        assert!(text.contains(r#"sluice_x{reason="a \"b\"\n\\"} 1.0"#), "{text}");
    }
}
