//! Several runs of one plan, each with new connections, and their summary.

use std::time::Duration;

use sluice_io::shell;

use crate::plan::ConnectAttempts;
use crate::provenance::RunNumber;
use crate::report::Report;
use crate::statistics::FigureSummary;
use crate::text_report::{counted, quantity};
use crate::{Error, Plan, Quantile, RunObserver, run};

/// Difference between neighbouring runs, sorted by rate, from which they are in different states.
const STATES_MIN: f64 = 0.15;

/// How often a measurement is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// Number of runs.
    pub runs: u32,
    /// Command of the shell that restarts the controller before each run.
    pub restart: Option<String>,
}

impl Default for Repetition {
    /// One run, without a restart.
    fn default() -> Self {
        Self { runs: 1, restart: None }
    }
}

/// Figures of several runs of one plan.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsSummary {
    /// Number of runs.
    pub runs: u32,
    /// Requests answered per second.
    pub rate: FigureSummary,
    /// Median latencies of the runs, nanoseconds.
    pub p50_ns: FigureSummary,
    /// 99th percentiles of the latencies of the runs, nanoseconds.
    pub p99_ns: FigureSummary,
    /// Which of `p50` and `p99` are lower bounds in a run, since that request was not answered.
    pub at_least: Vec<&'static str>,
    /// Reasons to distrust the runs, as sentences.
    pub warnings: Vec<String>,
}

impl RunsSummary {
    /// Summarizes the reports of all runs.
    pub fn of(reports: &[Report]) -> Self {
        let rates: Vec<_> = reports.iter().map(|report| report.rate.mean).collect();
        let quantiles = |q| reports.iter().map(move |report| report.latency.quantile(q));
        #[expect(clippy::cast_precision_loss, reason = "a latency needs no 16 digits")]
        let latencies =
            |q| FigureSummary::of(&quantiles(q).map(|it| it.ns() as f64).collect::<Vec<_>>());
        let is_bound =
            |&(_, q): &(&str, f64)| quantiles(q).any(|it| matches!(it, Quantile::AtLeast(_)));
        let bounds = [("p50", 0.5), ("p99", 0.99)].into_iter().filter(is_bound);
        let warnings = states(&rates).into_iter().chain(grouped_warnings(reports));
        Self {
            runs: u32::try_from(reports.len()).unwrap_or(u32::MAX),
            rate: FigureSummary::of(&rates),
            p50_ns: latencies(0.5),
            p99_ns: latencies(0.99),
            at_least: bounds.map(|(name, _)| name).collect(),
            warnings: warnings.collect(),
        }
    }
}

/// Do the runs fall into states between which the rate jumps?
fn states(rates: &[f64]) -> Option<String> {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let gaps = sorted.windows(2).enumerate().filter_map(|(at, pair)| match *pair {
        [low, high] if high > 0.0 => Some((at + 1, high / low - 1.0)),
        _ => None,
    });
    let (at, gap) = gaps.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|&(_, gap)| gap > STATES_MIN)?;
    let (slow, fast) = sorted.split_at_checked(at)?;
    let state = |rates: &[f64]| {
        let runs = counted(rates.len() as u64, "run", "runs");
        let [low, high] = [rates.first(), rates.last()].map(|it| it.copied().unwrap_or_default());
        let [low, high] = [low, high].map(quantity);
        let range = if low == high { low } else { format!("{low} to {high}") };
        format!("{runs} with {range} responses/s")
    };
    let apart =
        if gap.is_finite() { format!(", {:.0} % apart", gap * 100.0) } else { String::new() };
    Some(format!(
        "the runs fall into two states, {} and {}{apart}: mean and median say little; find out what differs \
         (the warnings of single runs, CPU cores, --spin)",
        state(slow),
        state(fast)
    ))
}

/// The warnings of single runs; those that differ only in figures are listed once, for all their runs.
fn grouped_warnings(reports: &[Report]) -> Vec<String> {
    let mut groups: Vec<(String, &str, Vec<String>)> = Vec::new();
    for (number, report) in (1..).zip(reports) {
        for warning in &report.warnings {
            let pattern: String = warning.chars().filter(|c| !c.is_ascii_digit()).collect();
            let run = u32::to_string(&number);
            match groups.iter_mut().find(|group| group.0 == pattern) {
                Some(group) => group.2.push(run),
                None => groups.push((pattern, warning, vec![run])),
            }
        }
    }
    let one = |(_, warning, runs): (String, &str, Vec<String>)| {
        let noun = if runs.len() == 1 { "run" } else { "runs" };
        format!("{noun} {}: {warning}", runs.join(", "))
    };
    groups.into_iter().map(one).collect()
}

/// Carries out run `number` of `plan`, after a restart of the controller if there is a command for that.
///
/// # Errors
/// Those of [`run`], and a restart that fails.
pub(crate) fn run_number(
    plan: &Plan,
    repetition: &Repetition,
    number: u32,
    observer: &mut dyn RunObserver,
) -> Result<Report, Error> {
    let mut report = match &repetition.restart {
        None => run(plan, observer)?,
        Some(command) => {
            restart(command, plan.handshake_timeout)?;
            let connect_attempts = ConnectAttempts::UntilTimeout;
            let report = run(&Plan { connect_attempts, ..plan.clone() }, observer)?;
            Report { plan: plan.clone(), ..report }
        }
    };
    let of = repetition.runs;
    report.provenance.run = (of > 1).then_some(RunNumber { number, of });
    report.provenance.restart.clone_from(&repetition.restart);
    Ok(report)
}

/// Runs the command that restarts the controller, which must return within `timeout`.
fn restart(command: &str, timeout: Duration) -> Result<(), Error> {
    let failed = |why: String| Error::Restart(command.to_owned(), why);
    match shell::run(command, timeout).map_err(|e| failed(e.to_string()))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(failed(status.to_string())),
        None => Err(failed(format!(
            "it did not return within {} s and was killed; start the controller in the background (`&`), or raise \
             --handshake-timeout",
            timeout.as_secs_f64()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ThreadResults;

    fn report(rate: f64, warnings: &[&str]) -> Report {
        let plan = Plan { loops: 0, ..Plan::default() };
        let report = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        let warnings = warnings.iter().map(|&warning| warning.to_owned()).collect();
        Report { rate: FigureSummary::of(&[rate]), warnings, ..report }
    }

    #[test]
    fn the_summary_has_median_range_and_interval_of_the_runs() {
        let reports = [10.0, 11.0, 10.5, 10.2, 10.8].map(|rate| report(rate, &[]));
        let summary = RunsSummary::of(&reports);
        let rate = summary.rate;
        assert_eq!((summary.runs, rate.median, rate.min, rate.max), (5, 10.5, 10.0, 11.0));
        assert!(
            (rate.deviation - 0.17f64.sqrt()).abs() < 1e-9,
            "divided by n − 1: {}",
            rate.deviation
        );
        assert!(rate.confidence.low > 10.0 && rate.confidence.high < 11.0);
        assert_eq!(summary.warnings, [""; 0]);
    }

    #[test]
    fn runs_that_fall_into_two_states_are_reported() {
        let warning = states(&[7.1e6, 8.6e6, 7.2e6, 8.5e6, 8.7e6]).unwrap();
        assert!(warning.contains("2 runs with 7.10 M to 7.20 M responses/s"), "{warning}");
        assert!(
            warning.contains("3 runs with 8.50 M to 8.70 M responses/s, 18 % apart"),
            "{warning}"
        );
        for one_state in [&[1.0, 1.1, 1.2, 1.3][..], &[5.0], &[], &[0.0, 0.0]] {
            assert_eq!(states(one_state), None);
        }
        assert!(states(&[0.0, 5.0]).is_some());
    }

    #[test]
    fn a_warning_of_several_runs_is_listed_once() {
        let reports =
            [report(1.0, &["busy 71 %"]), report(1.0, &["late"]), report(1.0, &["busy 68 %"])];
        assert_eq!(grouped_warnings(&reports), ["runs 1, 3: busy 71 %", "run 2: late"]);
    }

    #[test]
    fn a_restart_that_fails_or_does_not_return_is_an_error_with_the_command() {
        let minute = Duration::from_secs(60);
        restart("exit 0", minute).unwrap();
        let error = restart("exit 3", minute).unwrap_err().to_string();
        assert_eq!(error, "cannot restart the controller with `exit 3`: exit status: 3");
        let error = restart("sleep 600", Duration::from_millis(20)).unwrap_err().to_string();
        let expected =
            "cannot restart the controller with `sleep 600`: it did not return within 0.02 s";
        assert!(error.starts_with(expected), "{error}");
    }
}
