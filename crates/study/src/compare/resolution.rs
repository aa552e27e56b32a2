//! How exactly figures are measured: values without any deviation differ only beyond that.

use std::time::Duration;

use crate::rfc8456::{FAILOVER_INTERVAL, NORTHBOUND_INTERVAL};

/// Figures that are read from the histogram of latencies, in microseconds.
const LATENCIES: [&str; 7] =
    ["mean_us", "min_us", "p50_us", "p90_us", "p99_us", "p999_us", "processing_us"];

/// Relative width of the buckets of the bench's latency histogram: three significant digits are 1024 to 2048 buckets for a factor of two.
const BUCKET: f64 = 1.0 / 1024.0;

/// Least width of these buckets, in microseconds.
const BUCKET_MIN_US: f64 = 0.016;

/// Figures in milliseconds that are multiples of an interval: of that between two frames, or two requests.
const POLLED: [(&str, Duration); 2] =
    [("failover_ms", FAILOVER_INTERVAL), ("northbound_ms", NORTHBOUND_INTERVAL)];

/// Figures that count things. Without any deviation, few samples do not tell whether one more is chance.
const COUNTS: [&str; 18] = [
    "dropped",
    "duplicates",
    "entries",
    "first_flow_entries",
    "first_packet_ins",
    "forward_lost",
    "lost_packets",
    "messages",
    "nodes",
    "proactive_entries",
    "reactive_entries",
    "reordered",
    "reverse_lost",
    "second_flow_entries",
    "second_packet_ins",
    "sessions",
    "stream_flow_entries",
    "stream_packet_ins",
];

/// By how much the logarithm of the ratio of two means may differ from the true one because of the resolution of the instrument.
pub(super) fn resolution(metric: &str, means: [f64; 2]) -> f64 {
    let mean = means[0].min(means[1]);
    if mean <= 0.0 {
        return 0.0;
    }
    if LATENCIES.contains(&metric) {
        return BUCKET.max(BUCKET_MIN_US / mean);
    }
    let polled = POLLED.iter().find(|(name, _)| *name == metric);
    let step = match polled {
        Some((_, interval)) => interval.as_secs_f64() * 1e3,
        None if COUNTS.contains(&metric) => 1.0,
        None => 0.0,
    };
    (step / mean).ln_1p()
}

#[cfg(test)]
mod tests {
    use sluice_bench::ConfidenceInterval;

    use super::*;
    use crate::definition::Catalogue;
    use crate::definition::metrics::unit;
    use crate::interval::RatioEstimate;

    fn interval(first: f64, second: f64, metric: &str) -> ConfidenceInterval {
        let resolution = resolution(metric, [first, second]);
        RatioEstimate::new(&[first; 3], &[second; 4], resolution).at(0.01)
    }

    #[test]
    fn figures_that_count_are_known_numbers_without_a_unit() {
        for name in COUNTS {
            let of_all = Catalogue::embedded().unwrap().experiments;
            let mut units = of_all.values().filter_map(|it| unit(&it.measure, name));
            assert!(units.next().is_some(), "{name}");
            assert!(units.all(str::is_empty), "{name}");
        }
    }

    #[test]
    fn values_without_deviation_differ_unless_they_are_equal_or_too_close_for_the_instrument() {
        let double = interval(2.0, 4.0, "cpu_cores");
        assert!((double.low - 2.0).abs() < 1e-9 && (double.high - 2.0).abs() < 1e-9);
        assert!(interval(0.1, 0.1, "cpu_cores").contains(1.0), "in spite of rounding");
        // Neighbouring buckets of the histogram, at 32 µs to 64 µs of 32 ns each.
        assert!(interval(33.055, 33.087, "p50_us").contains(1.0));
        assert!(!interval(33.055, 33.151, "p50_us").contains(1.0), "three buckets");
        assert!(!interval(33.055, 33.087, "cpu_us_per_answer").contains(1.0));
        assert!(interval(4.0, 4.016, "min_us").contains(1.0), "the least width of a bucket");
        assert!(!interval(4.0, 4.032, "min_us").contains(1.0));
        // One message more, or two.
        assert!(interval(4.0, 5.0, "first_packet_ins").contains(1.0));
        assert!(interval(5.0, 4.0, "first_packet_ins").contains(1.0));
        assert!(!interval(4.0, 6.0, "first_packet_ins").contains(1.0));
        // Frames are sent every 10 ms.
        assert!(interval(390.0, 400.0, "failover_ms").contains(1.0));
        assert!(!interval(390.0, 410.0, "failover_ms").contains(1.0));
    }
}
