//! Bar charts of ASCII characters for the terminal: the distribution of latencies, and that of the switches' rates.

use std::time::Duration;

use crate::text_report::short_time;
use crate::{LatencyDistribution, SwitchFigures};

/// Rows of the distribution of latencies, without that of requests without an answer.
const LATENCY_ROWS: usize = 8;

/// Columns of the longest bar.
const BAR_WIDTH: usize = 32;

/// Bounds of the rows of the switches' rates, relative to their mean.
const FAIRNESS_BOUNDS: [f64; 7] = [0.0, 0.5, 0.8, 0.95, 1.05, 1.2, 1.5];

/// The distribution of latencies: rows of equal width on a logarithmic scale, and one for requests without an answer.
pub(crate) fn latency_rows(latency: &LatencyDistribution) -> Vec<String> {
    if latency.answered.is_empty() {
        return Vec::new();
    }
    let bounds = log_bounds(latency.answered.min(), latency.answered.max());
    let mut counts = vec![0; bounds.len() - 1];
    for value in latency.answered.iter_recorded() {
        let row = bounds.partition_point(|&bound| bound <= value.value_iterated_to());
        if let Some(count) = counts.get_mut(row.clamp(1, bounds.len() - 1) - 1) {
            *count += value.count_at_value();
        }
    }
    let times: Vec<_> = bounds.iter().map(|&ns| short_time(Duration::from_nanos(ns))).collect();
    let labels = times.windows(2).map(|pair| match pair {
        [from, to] => format!("{from:>7} to {to:<7}"),
        _ => String::new(),
    });
    let mut rows: Vec<_> = labels.zip(counts).collect();
    if latency.unanswered > 0 {
        rows.push((format!("{:<18}", "no answer"), latency.unanswered));
    }
    bars(&rows)
}

/// Bounds of the rows between `min` and `max`: `LATENCY_ROWS` of them on a logarithmic scale, fewer if they are close.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bounds between two times in nanoseconds"
)]
fn log_bounds(min: u64, max: u64) -> Vec<u64> {
    let (min, max) = (min.max(1), max.max(1));
    let (from, to) = ((min as f64).ln(), (max as f64 + 1.0).ln());
    let at = |row: usize| (from + (to - from) * row as f64 / LATENCY_ROWS as f64).exp() as u64;
    let mut bounds: Vec<_> = (1..LATENCY_ROWS).map(|row| at(row).clamp(min, max + 1)).collect();
    bounds.insert(0, min);
    bounds.push(max + 1);
    bounds.dedup();
    bounds
}

/// The distribution of the switches' rates relative to their mean; empty if all are the same or there is only one.
pub(crate) fn fairness_rows(switches: &[SwitchFigures]) -> Vec<String> {
    let rates: Vec<_> = switches.iter().map(|switch| switch.rate).collect();
    let mean = crate::statistics::mean(&rates);
    if rates.len() < 2 || mean <= 0.0 {
        return Vec::new();
    }
    let mut counts = [0; FAIRNESS_BOUNDS.len()];
    for rate in rates {
        let row = FAIRNESS_BOUNDS.partition_point(|&bound| bound <= rate / mean);
        if let Some(count) = counts.get_mut(row.saturating_sub(1)) {
            *count += 1;
        }
    }
    let upper = FAIRNESS_BOUNDS.iter().skip(1).map(Some).chain([None]);
    let labels = FAIRNESS_BOUNDS.iter().zip(upper).map(|(low, high)| match high {
        Some(high) => format!("{:>4.0} to {:<10}", low * 100.0, format!("{:.0} %", high * 100.0)),
        None => format!("{:<18}", format!("over {:.0} %", low * 100.0)),
    });
    let rows: Vec<_> = labels.zip(counts).collect();
    let is_used = |row: &(String, u64)| row.1 > 0;
    let first = rows.iter().position(is_used).unwrap_or(0);
    let last = rows.iter().rposition(is_used).map_or(0, |at| at + 1);
    bars(rows.get(first..last).unwrap_or_default())
}

/// Rows with a label, the share of all, and a bar. A row that is not empty has at least one character.
fn bars(rows: &[(String, u64)]) -> Vec<String> {
    let total: u64 = rows.iter().map(|row| row.1).sum();
    let longest = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let row = |(label, count): &(String, u64)| {
        let len = u128::from(*count) * BAR_WIDTH as u128 / u128::from(longest);
        let len = usize::try_from(len).unwrap_or(BAR_WIDTH).max(usize::from(*count > 0));
        format!("{label} {:>8}  {}", percentage(*count, total), "#".repeat(len))
            .trim_end()
            .to_owned()
    };
    rows.iter().map(row).collect()
}

/// A share in percent, of which little is not shown as nothing.
#[expect(clippy::cast_precision_loss, reason = "a percentage needs few digits")]
fn percentage(count: u64, of: u64) -> String {
    let percent = count as f64 / of.max(1) as f64 * 100.0;
    if count > 0 && percent < 0.01 { "<0.01 %".to_owned() } else { format!("{percent:.2} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_drawn_on_a_logarithmic_scale_with_a_row_for_requests_without_an_answer() {
        let mut latency = LatencyDistribution { unanswered: 100, ..LatencyDistribution::empty() };
        for (us, count) in [(10, 700), (100, 199), (1000, 1)] {
            latency.answered.record_n(us * 1000, count).unwrap();
        }
        let rows = latency_rows(&latency);
        assert_eq!(rows.len(), LATENCY_ROWS + 1, "{rows:#?}");
        assert_eq!(rows[0], format!("10.0 µs to 17.8 µs  70.00 %  {}", "#".repeat(32)));
        assert!(rows[1].ends_with("0.00 %"), "{rows:#?}");
        assert!(rows[7].ends_with("  0.10 %  #"), "little is not nothing: {rows:#?}");
        assert_eq!(rows[8], format!("no answer           10.00 %  {}", "#".repeat(4)));
    }

    #[test]
    fn every_latency_is_in_one_row() {
        for values in [&[1, 1, 1][..], &[0], &[5], &[7, 8], &[1, u64::from(u32::MAX)], &[0, 3]] {
            let mut latency = LatencyDistribution::empty();
            for &ns in values {
                latency.answered.record(ns).unwrap();
            }
            let rows = latency_rows(&latency);
            let percent = |row: &String| {
                let end = row.find(" %").unwrap();
                row[..end].rsplit(' ').next().unwrap().parse::<f64>().unwrap()
            };
            let total: f64 = rows.iter().map(percent).sum();
            assert!((total - 100.0).abs() < 0.1, "{values:?}: {rows:#?}");
        }
        assert!(latency_rows(&LatencyDistribution::empty()).is_empty());
    }

    #[test]
    fn the_rates_of_the_switches_are_drawn_relative_to_their_mean() {
        let switch = |rate| SwitchFigures {
            datapath_id: sluice_openflow::DatapathId(1),
            rate,
            latency: [crate::Quantile::Exactly(0); 3],
            counts: crate::RequestCounts::default(),
            connect: None,
            handshake: None,
            hosts_announced: 0,
            disconnect_reason: None,
        };
        let rows = |rates: &[f64]| {
            fairness_rows(&rates.iter().map(|&rate| switch(rate)).collect::<Vec<_>>())
        };
        assert_eq!(
            rows(&[10.0, 10.0, 10.1]),
            [format!("  95 to 105 %      100.00 %  {}", "#".repeat(32))]
        );
        let unequal = rows(&[10.0, 10.0, 10.0, 2.0]);
        assert_eq!(
            unequal.first().unwrap(),
            &format!("   0 to 50 %        25.00 %  {}", "#".repeat(10))
        );
        assert_eq!(
            unequal.last().unwrap(),
            &format!(" 120 to 150 %       75.00 %  {}", "#".repeat(32))
        );
        assert!(rows(&[5.0]).is_empty() && rows(&[0.0, 0.0]).is_empty());
    }
}
