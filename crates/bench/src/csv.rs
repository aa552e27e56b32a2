//! The loops of all runs as CSV (RFC 4180), for spreadsheets and scripts.

use std::io::{self, Write};

use crate::report::{LoopFigures, Report};
use crate::{NotSent, Quantile};

/// Names of the columns, which `docs/bench-json.md` describes.
pub const HEADER: &str = "run,switches,loop,measured,elapsed_ns,rate,answered,latency_count,latency_answered,mean_ns,p50_ns,p90_ns,\
     p99_ns,p999_ns,max_ns,at_least,socket_full,window_full,generator_late,disconnected";

/// Writes a header, and one line per loop of each report.
///
/// # Errors
/// Those of the writer.
pub fn write(reports: &[Report], to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{HEADER}")?;
    for report in reports {
        let run = report.provenance.run.map_or(1, |run| run.number);
        for figures in &report.loops {
            write_loop(run, report.plan.switches, figures, to)?;
        }
    }
    Ok(())
}

fn write_loop(
    run: u32,
    switches: u32,
    figures: &LoopFigures,
    to: &mut dyn Write,
) -> io::Result<()> {
    let &LoopFigures { number, measured, elapsed, rate, .. } = figures;
    let (number, elapsed_ns) = (number + 1, elapsed.as_nanos());
    let answered: u64 = figures.answered.iter().sum();
    let latency = &figures.latency;
    let (count, of_answered, mean) = (latency.len(), latency.answered.len(), latency.mean_ns());
    let quantiles = latency.named_quantiles();
    let [p50, p90, p99, p999, max] = quantiles.map(|(_, quantile)| quantile.ns());
    let bounds = quantiles.iter().filter(|(_, it)| matches!(it, Quantile::AtLeast(_)));
    let at_least = bounds.map(|&(name, _)| name).collect::<Vec<_>>().join(" ");
    let NotSent { socket_full, window_full, generator_late, disconnected } = figures.not_sent;
    writeln!(
        to,
        "{run},{switches},{number},{measured},{elapsed_ns},{rate:.3},{answered},{count},{of_answered},{mean:.0},{p50},{p90},{p99},\
         {p999},{max},{at_least},{socket_full},{window_full},{generator_late},{disconnected}"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::provenance::RunNumber;
    use crate::report::ThreadResults;
    use crate::{LatencyDistribution, Plan};

    #[test]
    fn each_loop_of_each_run_has_a_line_with_all_columns() {
        let plan = Plan { loops: 2, warmup: 1, switches: 2, ..Plan::default() };
        let mut report = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        report.provenance.run = Some(RunNumber { number: 3, of: 3 });
        let second = &mut report.loops[1];
        (second.number, second.measured) = (1, true);
        (second.elapsed, second.rate) = (Duration::from_millis(1001), 2000.0);
        second.answered = vec![1500, 500];
        second.latency = LatencyDistribution {
            unanswered: 1,
            unanswered_min_ns: 500,
            ..LatencyDistribution::empty()
        };
        second.latency.answered.record(7).unwrap();
        second.not_sent.socket_full = 4;
        let mut text = Vec::new();
        write(&[report], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], HEADER);
        assert_eq!(lines[1], "3,2,1,false,0,0.000,0,0,0,0,0,0,0,0,0,,0,0,0,0");
        assert_eq!(
            lines[2],
            "3,2,2,true,1001000000,2000.000,2000,2,1,8,15,500,500,500,500,p90 p99 p999 max,4,0,0,0"
        );
        let columns = |line: &str| line.split(',').count();
        assert!(lines.iter().all(|line| columns(line) == columns(HEADER)));
    }

    #[test]
    fn every_column_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-json.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, section) = page.split_once("\n## CSV").unwrap();
        for column in HEADER.split(',') {
            assert!(
                section.contains(&format!("`{column}`")),
                "{column} is not in docs/bench-json.md"
            );
        }
    }
}
