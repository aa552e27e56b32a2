//! Which values of a metric are better.

use crate::report::format::{Quantity, quantity_of};

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Rates, capacities, shares of answered requests.
    HigherIsBetter,
    /// Latencies, durations, memory, losses.
    LowerIsBetter,
    /// Settings and counts that are neither good nor bad.
    Neutral,
}

/// Parts of names that decide before the unit does; the first that a name contains counts.
const BY_NAME: [(&str, Direction); 26] = [
    ("offered", Direction::Neutral),
    ("generator", Direction::Neutral),
    ("sent", Direction::Neutral),
    ("cpu_cores", Direction::Neutral),
    ("flow_mods", Direction::Neutral),
    ("packet_outs", Direction::Neutral),
    ("per_answer", Direction::LowerIsBetter),
    ("unanswered", Direction::LowerIsBetter),
    ("never", Direction::LowerIsBetter),
    ("lost", Direction::LowerIsBetter),
    ("loss", Direction::LowerIsBetter),
    ("late_", Direction::LowerIsBetter),
    ("error", Direction::LowerIsBetter),
    ("failed", Direction::LowerIsBetter),
    ("disconnect", Direction::LowerIsBetter),
    ("dropped", Direction::LowerIsBetter),
    ("answered", Direction::HigherIsBetter),
    ("reached", Direction::HigherIsBetter),
    ("delivered", Direction::HigherIsBetter),
    ("fairness", Direction::HigherIsBetter),
    ("capacity", Direction::HigherIsBetter),
    ("sessions", Direction::HigherIsBetter),
    ("throughput", Direction::HigherIsBetter),
    ("per_s", Direction::HigherIsBetter),
    ("latency", Direction::LowerIsBetter),
    ("memory", Direction::LowerIsBetter),
];

/// Ends of names that tell the unit of metrics without a figure.
const BY_SUFFIX: [(&str, Direction); 9] = [
    ("_ns", Direction::LowerIsBetter),
    ("_us", Direction::LowerIsBetter),
    ("_ms", Direction::LowerIsBetter),
    ("_s", Direction::LowerIsBetter),
    ("_mib", Direction::LowerIsBetter),
    ("_bytes", Direction::LowerIsBetter),
    ("_cores", Direction::LowerIsBetter),
    ("rate", Direction::HigherIsBetter),
    ("_max", Direction::HigherIsBetter),
];

impl Direction {
    /// Which values of `metric` are better, by its name and its unit, which may be empty.
    pub fn of(metric: &str, unit: &str) -> Self {
        let name = metric.to_ascii_lowercase();
        let by_name = BY_NAME.iter().find(|(part, _)| name.contains(part));
        if let Some((_, direction)) = by_name {
            return *direction;
        }
        match quantity_of(unit) {
            Quantity::Rate => Self::HigherIsBetter,
            Quantity::Time(_) | Quantity::Memory(_) => Self::LowerIsBetter,
            Quantity::Other => {
                let by_suffix = BY_SUFFIX.iter().find(|(suffix, _)| name.ends_with(suffix));
                by_suffix.map_or(Self::Neutral, |(_, direction)| *direction)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_shall_be_high_and_times_memory_and_losses_low() {
        use Direction::{HigherIsBetter, LowerIsBetter, Neutral};
        let expected = [
            ("rate", "1/s", HigherIsBetter),
            ("answers_per_s", "", HigherIsBetter),
            ("p99_us", "us", LowerIsBetter),
            ("p50_us", "", LowerIsBetter),
            ("peak", "MiB", LowerIsBetter),
            ("answered_share", "", HigherIsBetter),
            ("never_answered", "", LowerIsBetter),
            ("unanswered_share", "", LowerIsBetter),
            ("offered", "1/s", Neutral),
            ("switches", "", Neutral),
            ("cpu_us_per_answer", "", LowerIsBetter),
            ("all_reached_s", "s", LowerIsBetter),
            ("connected_s", "s", LowerIsBetter),
        ];
        for (metric, unit, direction) in expected {
            assert_eq!(Direction::of(metric, unit), direction, "{metric} {unit}");
        }
    }
}
