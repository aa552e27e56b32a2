//! Several runs of one plan as text for the terminal: a line for each, and their summary.

use std::fmt::Write;

use crate::entries::{Entries, NO_BREAK_SPACE, WARNING, unbroken};
use crate::plan::ReplyCounting;
use crate::statistics::FigureSummary;
use crate::text_report::{bounded_time, heading, provenance, quantity, seconds};
use crate::{Plan, Report, RunsSummary};

/// What is measured, before the first run.
pub(crate) fn heading_of(plan: &Plan) -> String {
    let mut text = Entries::default();
    heading(&mut text, plan);
    text.to_string()
}

/// The line of run `number`.
pub(crate) fn run_line(number: u32, report: &Report) -> String {
    let mut line = format!("{} responses/s", unbroken(&quantity(report.rate.mean)));
    if report.plan.counting == ReplyCounting::Answers {
        let [median, p99] = [0.5, 0.99].map(|q| bounded_time(report.latency.quantile(q)));
        let _ = write!(line, ", median {median}, 99th {p99}");
    }
    let busy = report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
    let _ = write!(line, ", generator {:.0}{NO_BREAK_SPACE}%", busy * 100.0);
    let processes = report.provenance.controllers.iter().flatten();
    let busiest = processes.filter_map(|it| Some(it.cpu.as_ref()?.busiest_thread));
    if let Some(busiest) = busiest.reduce(f64::max) {
        let _ = write!(line, ", controller {:.0}{NO_BREAK_SPACE}% busy", busiest * 100.0);
    }
    let mut text = Entries::default();
    text.entry(&format!("Run {number}"), &line);
    text.to_string()
}

/// The summary of all runs.
pub(crate) fn summary_of(summary: &RunsSummary, reports: &[Report]) -> Entries {
    let mut text = Entries::default();
    let rate = |n: f64| unbroken(&quantity(n));
    text.entry("Throughput", &figures(&summary.rate, rate, " responses/s"));
    if reports.iter().all(|report| report.plan.counting == ReplyCounting::Answers) {
        for (label, name, latency) in
            [("Median", "p50", &summary.p50_ns), ("99th", "p99", &summary.p99_ns)]
        {
            let bound = if summary.at_least.contains(&name) {
                "; at least, since requests of this percentile were not answered"
            } else {
                ""
            };
            let time = |ns: f64| unbroken(&seconds(ns / 1e9));
            text.entry(label, &figures(latency, time, bound));
        }
    }
    if let Some(last) = reports.last() {
        provenance(&mut text, &last.provenance);
    }
    for warning in &summary.warnings {
        text.entry(WARNING, warning);
    }
    text
}

/// Median, range, mean, deviation and confidence interval; `unit` follows the median.
fn figures(summary: &FigureSummary, format: impl Fn(f64) -> String, unit: &str) -> String {
    let deviation = if summary.mean > 0.0 { summary.deviation / summary.mean * 100.0 } else { 0.0 };
    let [median, min, max, mean] =
        [summary.median, summary.min, summary.max, summary.mean].map(&format);
    let [low, high] = [summary.confidence.low, summary.confidence.high].map(&format);
    format!(
        "median {median}{unit}, min {min}, max {max}; mean {mean} ± {deviation:.1}{NO_BREAK_SPACE}%, 95{NO_BREAK_SPACE}% \
         confidence interval of the mean {low} to {high}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ThreadResults;

    #[test]
    fn runs_and_their_summary_fit_on_the_terminal() {
        let plan = Plan { loops: 0, ..Plan::default() };
        let report = |rate| Report {
            rate: FigureSummary::of(&[rate]),
            ..Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] })
        };
        let reports = [report(10.1e6), report(10.3e6), report(10.2e6)];
        let summary = summary_of(&RunsSummary::of(&reports), &reports).to_string();
        let expected =
            "Throughput   median 10.2 M responses/s, min 10.1 M, max 10.3 M; mean 10.2 M ±\n";
        assert!(summary.starts_with(expected), "{summary}");
        assert!(summary.contains("\nMedian ") && summary.contains("\n99th "), "{summary}");
        let line = run_line(1, &reports[0]);
        assert!(
            line.starts_with("Run 1        10.1 M responses/s, median 0.00 ns, 99th"),
            "{line}"
        );
        for text in [summary, line, heading_of(&plan)] {
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}
