//! The report of a link: its counters and its accuracy.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::command::{Direction, PerDirection};
use super::impairments::LinkImpairments;
use super::model::{LinkCounters, TrafficTotal};
use super::units::{format_rate, format_time};

/// Lateness above this is recorded as this.
const LATE_MAX: Duration = Duration::from_secs(60);

/// How late packets left the link, compared with the time at which they were due.
#[derive(Debug, Clone)]
pub struct Lateness(Histogram<u64>);

impl Lateness {
    pub(super) fn new() -> Self {
        let ns_max = u64::try_from(LATE_MAX.as_nanos()).unwrap_or(u64::MAX);
        match Histogram::new_with_bounds(1, ns_max, 2) {
            Ok(histogram) => Self(histogram),
            Err(_) => unreachable!("these bounds are in order"),
        }
    }

    pub(super) fn record(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A quantile (0 to 1), accurate to 1 %; zero without packets.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }
}

/// Statistics of one direction.
#[derive(Debug, Clone)]
pub struct DirectionReport {
    /// The current impairments.
    pub impairments: LinkImpairments,
    /// Packets and bytes offered, delivered and dropped.
    pub counters: LinkCounters,
    /// How late packets left.
    pub lateness: Lateness,
    /// Most bytes delivered in any second.
    pub busiest_second_bytes: u64,
    /// Packets that the system at the far end did not accept.
    pub refused_packets: u64,
    /// Packets that the system dropped before the link could read them; `None` if unknown.
    pub dropped_before_link: Option<u64>,
}

/// Statistics of a link since it was opened.
#[derive(Debug, Clone)]
pub struct LinkReport {
    /// Time since the link was opened.
    pub uptime: Duration,
    /// Statistics of each direction.
    pub directions: PerDirection<DirectionReport>,
    /// Why the time series is incomplete.
    pub time_series_error: Option<String>,
    /// Connections accepted and refused; TCP proxies only.
    pub connections: Option<(u64, u64)>,
}

impl fmt::Display for LinkReport {
    /// One value per line, prefixed with the direction, so that scripts can find it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "uptime: {:.3} s", self.uptime.as_secs_f64())?;
        for direction in Direction::ALL {
            self.write_direction(f, direction.name(), self.directions.get(direction))?;
        }
        if let Some((accepted, refused)) = self.connections {
            writeln!(f, "connections: {accepted} accepted, {refused} refused")?;
        }
        if let Some(error) = &self.time_series_error {
            writeln!(f, "series: incomplete: {error}")?;
        }
        Ok(())
    }
}

impl LinkReport {
    fn write_direction(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        direction: &DirectionReport,
    ) -> fmt::Result {
        let DirectionReport { impairments, counters, lateness, .. } = direction;
        writeln!(f, "{name}: {impairments}")?;
        for (what, tally) in [
            ("offered", counters.offered),
            ("delivered", counters.delivered),
            ("lost", counters.lost),
            ("dropped (queue full)", counters.queue_full),
            ("in transit", counters.in_transit()),
        ] {
            let TrafficTotal { packets, bytes } = tally;
            writeln!(f, "{name}: {what}: {packets} packets, {bytes} bytes")?;
        }
        for (what, packets) in [
            ("refused by the far end", Some(direction.refused_packets)),
            ("dropped before the link", direction.dropped_before_link),
        ] {
            if let Some(packets) = packets.filter(|&packets| packets > 0) {
                writeln!(f, "{name}: {what}: {packets} packets")?;
            }
        }
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| format_micros(lateness.quantile(share)));
        writeln!(f, "{name}: lateness: p50 {p50}, p99 {p99}, max {max}")?;
        let mean = per_second(counters.delivered.bytes, self.uptime);
        let busiest = format_rate(rounded(direction.busiest_second_bytes * 8));
        writeln!(f, "{name}: rate: busiest second {busiest}, mean {}", format_rate(rounded(mean)))
    }
}

/// A measured time, to the microsecond.
fn format_micros(time: Duration) -> String {
    format_time(Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
}

/// A measured rate, rounded to four digits.
fn rounded(rate: u64) -> u64 {
    let unit = 10_u64.pow(rate.max(1).ilog10().saturating_sub(3));
    (rate + unit / 2) / unit * unit
}

/// Rate in bit/s of `bytes` over `time`.
fn per_second(bytes: u64, time: Duration) -> u64 {
    let bits = u128::from(bytes) * 8_000_000_000 / time.as_nanos().max(1);
    u64::try_from(bits).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_rates_have_four_digits() {
        let shown =
            [0, 999, 12_345, 100_075_616, 99_996_000].map(|rate| format_rate(rounded(rate)));
        assert_eq!(shown, ["0bit", "999bit", "12.35kbit", "100.1Mbit", "100Mbit"]);
        assert_eq!(rounded(u64::MAX / 2), 9_223_000_000_000_000_000);
    }

    #[test]
    fn every_line_about_a_direction_begins_with_its_name() {
        let mut late = Lateness::new();
        (1..=100).for_each(|us| late.record(Duration::from_micros(us)));
        let direction = DirectionReport {
            impairments: LinkImpairments::default(),
            counters: LinkCounters {
                offered: TrafficTotal { packets: 3, bytes: 3_000 },
                delivered: TrafficTotal { packets: 2, bytes: 2_000 },
                ..LinkCounters::default()
            },
            lateness: late,
            busiest_second_bytes: 2_000,
            refused_packets: 0,
            dropped_before_link: Some(7),
        };
        let report = LinkReport {
            uptime: Duration::from_secs(2),
            directions: PerDirection { up: direction.clone(), down: direction },
            time_series_error: None,
            connections: None,
        };
        let text = report.to_string();
        for line in [
            "up: in transit: 1 packets, 1000 bytes",
            "up: dropped before the link: 7 packets",
            "down: lateness: p50 50us, p99 99us, max 100us",
            "down: rate: busiest second 16kbit, mean 8kbit",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
        assert!(!text.contains("refused by"), "{text}");
    }
}
