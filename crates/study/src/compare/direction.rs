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

/// Parts of the names of settings and of counts that are neither good nor bad.
const NEUTRAL: [&str; 12] = [
    "flood_per_s",
    "attack_per_s",
    "changes",
    "_ratio",
    "offered",
    "generator",
    "sent",
    "cpu_cores",
    "flow_mods",
    "packet_outs",
    "invalid_messages",
    "attack_connections",
];

/// Ends of names that tell the unit; the first that fits counts.
const BY_SUFFIX: [(&str, Direction); 8] = [
    ("per_s", Direction::HigherIsBetter),
    ("rate", Direction::HigherIsBetter),
    ("_ns", Direction::LowerIsBetter),
    ("_us", Direction::LowerIsBetter),
    ("_ms", Direction::LowerIsBetter),
    ("_s", Direction::LowerIsBetter),
    ("_mib", Direction::LowerIsBetter),
    ("_bytes", Direction::LowerIsBetter),
];

/// Parts of names; the first that a name contains counts.
const BY_PART: [(&str, Direction); 23] = [
    ("unanswered", Direction::LowerIsBetter),
    ("never", Direction::LowerIsBetter),
    ("lost", Direction::LowerIsBetter),
    ("loss", Direction::LowerIsBetter),
    ("late_", Direction::LowerIsBetter),
    ("error", Direction::LowerIsBetter),
    ("failed", Direction::LowerIsBetter),
    ("disconnect", Direction::LowerIsBetter),
    ("dropped", Direction::LowerIsBetter),
    ("per_answer", Direction::LowerIsBetter),
    ("power", Direction::LowerIsBetter),
    ("reordered", Direction::LowerIsBetter),
    ("duplicates", Direction::LowerIsBetter),
    ("latency", Direction::LowerIsBetter),
    ("answered", Direction::HigherIsBetter),
    ("reached", Direction::HigherIsBetter),
    ("fairness", Direction::HigherIsBetter),
    ("capacity", Direction::HigherIsBetter),
    ("throughput", Direction::HigherIsBetter),
    // Capacities of RFC 8456, sections 5.2.1 to 5.2.3.
    ("sessions", Direction::HigherIsBetter),
    ("nodes", Direction::HigherIsBetter),
    ("reactive_entries", Direction::HigherIsBetter),
    ("proactive_entries", Direction::HigherIsBetter),
];

impl Direction {
    /// Which values of `metric` are better, by its name and its unit, which may be empty.
    pub fn of(metric: &str, unit: &str) -> Self {
        let name = metric.to_ascii_lowercase();
        if NEUTRAL.iter().any(|part| name.contains(part)) {
            return Self::Neutral;
        }
        match quantity_of(unit) {
            Quantity::Rate => Self::HigherIsBetter,
            Quantity::Time(_) | Quantity::Memory(_) => Self::LowerIsBetter,
            Quantity::Other => {
                let by_suffix = BY_SUFFIX.iter().find(|(suffix, _)| name.ends_with(suffix));
                let by_part = || BY_PART.iter().find(|(part, _)| name.contains(part));
                by_suffix.or_else(by_part).map_or(Self::Neutral, |(_, direction)| *direction)
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
            ("all_reached_s", "", LowerIsBetter),
            ("connected_s", "s", LowerIsBetter),
            ("loss_free_rate", "1/s", HigherIsBetter),
            ("loss_free_rate", "", HigherIsBetter),
            ("loss_at_maximum_percent", "%", LowerIsBetter),
            ("offered_rate", "1/s", Neutral),
            ("sessions", "", HigherIsBetter),
            ("dropped", "", LowerIsBetter),
            ("messages", "", Neutral),
        ];
        for (metric, unit, direction) in expected {
            assert_eq!(Direction::of(metric, unit), direction, "{metric} {unit}");
        }
    }
}
