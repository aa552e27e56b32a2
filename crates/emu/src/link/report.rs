//! What a link did, and how exactly.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::command::{Direction, PerDirection};
use super::impairments::LinkImpairments;
use super::model::{LinkCounters, TrafficTotal};
use super::units::{format_rate, format_time};

/// The longest lateness that is told from longer ones.
const LATE_MAX: Duration = Duration::from_secs(60);

/// How late packets left against the time at which they were due.
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

    /// What a share of all packets did not exceed, to within 1 %; zero without packets.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }
}

/// What one direction did.
#[derive(Debug, Clone)]
pub struct DirectionReport {
    /// What it is told to do now.
    pub impairments: LinkImpairments,
    /// Packets in and out.
    pub counters: LinkCounters,
    /// How late they left.
    pub lateness: Lateness,
    /// Bytes that left in the busiest second.
    pub busiest_second_bytes: u64,
    /// Packets that left and that the far end did not take.
    pub refused_packets: u64,
    /// Packets that the system dropped before they came in; `None` if it does not tell.
    pub dropped_before_link: Option<u64>,
}

/// What a link did since it was opened.
#[derive(Debug, Clone)]
pub struct LinkReport {
    /// How long that is.
    pub uptime: Duration,
    /// Each direction.
    pub directions: PerDirection<DirectionReport>,
    /// Why the series is not complete.
    pub time_series_error: Option<String>,
    /// Connections taken and refused, of a relay.
    pub connections: Option<(u64, u64)>,
}

impl fmt::Display for LinkReport {
    /// A line for each thing, the direction first, so that a script finds it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "open for {:.3} s", self.uptime.as_secs_f64())?;
        for way in Direction::ALL {
            self.write_direction(f, way.name(), self.directions.get(way))?;
        }
        if let Some((taken, refused)) = self.connections {
            writeln!(f, "connections: {taken} taken, {refused} refused")?;
        }
        if let Some(fault) = &self.time_series_error {
            writeln!(f, "series: not complete: {fault}")?;
        }
        Ok(())
    }
}

impl LinkReport {
    fn write_direction(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        way: &DirectionReport,
    ) -> fmt::Result {
        let DirectionReport { impairments, counters, lateness, .. } = way;
        writeln!(f, "{name}: {impairments}")?;
        for (what, tally) in [
            ("offered", counters.offered),
            ("delivered", counters.delivered),
            ("lost", counters.lost),
            ("no room in the queue", counters.queue_full),
            ("on the way", counters.in_transit()),
        ] {
            let TrafficTotal { packets, bytes } = tally;
            writeln!(f, "{name}: {what}: {packets} packets, {bytes} bytes")?;
        }
        for (what, packets) in [
            ("refused by the system at the far end", Some(way.refused_packets)),
            ("dropped by the system before the link", way.dropped_before_link),
        ] {
            if let Some(packets) = packets.filter(|&packets| packets > 0) {
                writeln!(f, "{name}: {what}: {packets} packets")?;
            }
        }
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| format_micros(lateness.quantile(share)));
        writeln!(f, "{name}: left after due: p50 {p50}, p99 {p99}, max {max}")?;
        let mean = per_second(counters.delivered.bytes, self.uptime);
        let busiest = format_rate(rounded(way.busiest_second_bytes * 8));
        writeln!(f, "{name}: rate: busiest second {busiest}, mean {}", format_rate(rounded(mean)))
    }
}

/// A measured time, to the microsecond.
fn format_micros(time: Duration) -> String {
    format_time(Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
}

/// A measured rate, to four digits.
fn rounded(rate: u64) -> u64 {
    let unit = 10_u64.pow(rate.max(1).ilog10().saturating_sub(3));
    (rate + unit / 2) / unit * unit
}

/// bit/s of `bytes` in `time`.
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
    fn a_report_says_the_direction_on_every_line_of_one() {
        let mut late = Lateness::new();
        (1..=100).for_each(|us| late.record(Duration::from_micros(us)));
        let way = DirectionReport {
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
            directions: PerDirection { up: way.clone(), down: way },
            time_series_error: None,
            connections: None,
        };
        let text = report.to_string();
        for line in [
            "up: on the way: 1 packets, 1000 bytes",
            "up: dropped by the system before the link: 7 packets",
            "down: left after due: p50 50us, p99 99us, max 100us",
            "down: rate: busiest second 16kbit, mean 8kbit",
        ] {
            assert!(text.lines().any(|said| said == line), "{line}: {text}");
        }
        assert!(!text.contains("refused by"), "{text}");
    }
}
