//! Compares two reports, each of one or several runs: ratios with confidence intervals.

mod file;
mod print;

use std::path::Path;

pub use file::{ReportFile, RunRecord};

use crate::Error;
use crate::statistics::{ConfidenceInterval, mean};

/// Fewest runs or loops of which a confidence interval says something.
const SAMPLES_MIN: usize = 3;

/// Fields of the plan that are different for every controller.
const PLAN_IGNORED: [&str; 1] = ["targets"];

/// The comparison of a second report with a first one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The files.
    pub files: [String; 2],
    /// What a sample is.
    pub basis: Basis,
    /// Number of samples in each file.
    pub samples: [usize; 2],
    /// Requests answered per second.
    pub rate: Option<Ratio>,
    /// Median latency in nanoseconds.
    pub p50_ns: Option<Ratio>,
    /// 99th percentile of the latency in nanoseconds.
    pub p99_ns: Option<Ratio>,
    /// Reasons to distrust the comparison, as sentences.
    pub warnings: Vec<String>,
}

/// What the samples are from which intervals are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Runs: the interval includes the differences between runs.
    Runs,
    /// The loops of a single run: the interval does not include the differences between runs.
    Loops,
}

/// A figure of both reports and their ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Mean over the samples of each report.
    pub means: [f64; 2],
    /// Whether each mean is only a lower bound, since requests were not answered.
    pub at_least: [bool; 2],
    /// The second mean divided by the first.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio; `None` with fewer than three samples, or if a figure is only a lower bound.
    pub confidence: Option<ConfidenceInterval>,
}

impl Ratio {
    /// Compares the samples of two reports; `None` if there are none.
    fn of(samples: [&[Sample]; 2]) -> Option<Self> {
        let figures = samples.map(|samples| samples.iter().map(|it| it.figure).collect::<Vec<_>>());
        let [first, second] = &figures;
        let means = [mean(first), mean(second)];
        if means.iter().any(|&mean| mean <= 0.0) {
            return None;
        }
        let at_least = samples.map(|samples| samples.iter().any(|sample| sample.is_bound));
        let are_enough = first.len().min(second.len()) >= SAMPLES_MIN;
        let confidence = (at_least == [false; 2] && are_enough)
            .then(|| ConfidenceInterval::of_ratio(second, first));
        Some(Self { means, at_least, ratio: means[1] / means[0], confidence })
    }

    /// Whether the interval excludes equality; `None` if there is no interval.
    pub fn is_significant(&self) -> Option<bool> {
        Some(!self.confidence?.contains(1.0))
    }
}

/// A figure of one run or loop.
#[derive(Debug, Clone, Copy)]
struct Sample {
    figure: f64,
    /// The request of this percentile was not answered, so the figure is a lower bound.
    is_bound: bool,
}

/// Reads and compares two reports.
///
/// # Errors
/// [`Error::Read`]: a file that cannot be read, or is no report of this version.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, Error> {
    Ok(Comparison::of(&ReportFile::read(first)?, &ReportFile::read(second)?))
}

impl Comparison {
    /// Compares `second` with `first`.
    pub fn of(first: &ReportFile, second: &ReportFile) -> Self {
        let files = [first, second];
        let basis =
            if files.iter().all(|file| file.runs.len() > 1) { Basis::Runs } else { Basis::Loops };
        let samples = |figure: fn(&RunRecord, Basis) -> Vec<Sample>| {
            files
                .map(|file| file.runs.iter().flat_map(|run| figure(run, basis)).collect::<Vec<_>>())
        };
        let ratio = |figure: fn(&RunRecord, Basis) -> Vec<Sample>| {
            let [first, second] = samples(figure);
            Ratio::of([&first, &second])
        };
        let numbers = samples(rates).map(|samples| samples.len());
        let p50_ns = ratio(|run, basis| latencies(run, basis, "p50"));
        let p99_ns = ratio(|run, basis| latencies(run, basis, "p99"));
        let bounds = bounds([p50_ns, p99_ns]);
        Self {
            files: files.map(|file| file.path.clone()),
            basis,
            samples: numbers,
            rate: ratio(rates),
            p50_ns,
            p99_ns,
            warnings: bounds.into_iter().chain(warnings(first, second, basis, numbers)).collect(),
        }
    }
}

fn rates(run: &RunRecord, basis: Basis) -> Vec<Sample> {
    let exact = |figure| Sample { figure, is_bound: false };
    match basis {
        Basis::Runs => vec![exact(run.rate.mean)],
        Basis::Loops => run.measured().map(|it| exact(it.rate)).collect(),
    }
}

/// The latency at the percentile `name`, `p50` or `p99`.
fn latencies(run: &RunRecord, basis: Basis, name: &str) -> Vec<Sample> {
    let sample = |latency: &file::LatencyRecord| Sample {
        figure: if name == "p50" { latency.p50 } else { latency.p99 },
        is_bound: latency.at_least.iter().any(|bound| bound == name),
    };
    match basis {
        Basis::Runs => vec![sample(&run.latency_ns)],
        Basis::Loops => {
            let loops = run.measured().map(|it| &it.latency_ns).filter(|it| it.count > 0);
            loops.map(sample).collect()
        }
    }
}

/// The warning that ratios of latencies are bounds.
fn bounds(latencies: [Option<Ratio>; 2]) -> Option<String> {
    let mut at_least = latencies.into_iter().flatten().flat_map(|ratio| ratio.at_least);
    at_least.any(|is_bound| is_bound).then(|| {
        "latencies marked ≥ are lower bounds, since requests were not answered: their ratio is a bound as well (≥ or ≤), or \
         unknown if both latencies are bounds"
            .to_owned()
    })
}

fn warnings(
    first: &ReportFile,
    second: &ReportFile,
    basis: Basis,
    samples: [usize; 2],
) -> Vec<String> {
    let mut warnings = Vec::new();
    let [a, b] = [first, second].map(|file| file.runs.first());
    if let (Some(a), Some(b)) = (a, b) {
        let plans = differences(&a.plan, &b.plan, &PLAN_IGNORED);
        if !plans.is_empty() {
            warnings.push(format!("the plans differ: {}", plans.join(", ")));
        }
        let machines = [a, b].map(|run| run.provenance.machine());
        let machines = differences(&machines[0], &machines[1], &[]);
        if !machines.is_empty() {
            warnings.push(format!("the machines or programs differ: {}", machines.join(", ")));
        }
    }
    if samples.iter().any(|&n| n < SAMPLES_MIN) {
        let unit = if basis == Basis::Runs { "runs" } else { "measured loops" };
        warnings.push(format!(
            "there are too few {unit} for a confidence interval: at least {SAMPLES_MIN} are needed in each file"
        ));
    } else if basis == Basis::Loops {
        warnings.push(
            "the intervals are those of the loops, and do not include how much runs differ from each other: measure both \
             with --repeat 5"
                .to_owned(),
        );
    }
    for file in [first, second] {
        let number = file.runs.iter().map(|run| run.warnings.len()).sum::<usize>();
        if number > 0 {
            warnings
                .push(format!("{} has warnings of its own ({number}): read them first", file.path));
        }
    }
    warnings
}

type Fields = serde_json::Map<String, serde_json::Value>;

/// The fields that differ, with both values; those that one of the reports does not have are skipped.
fn differences(first: &Fields, second: &Fields, ignored: &[&str]) -> Vec<String> {
    let both = first.iter().filter_map(|(name, value)| Some((name, value, second.get(name)?)));
    let different = both.filter(|(name, a, b)| a != b && !ignored.contains(&name.as_str()));
    different.map(|(name, a, b)| format!("{name} ({a} and {b})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report with runs of these rates; loops have the same rates.
    fn report(path: &str, rates: &[f64]) -> ReportFile {
        let line = |rate: &f64| {
            let loops: Vec<_> = [0.99, 1.0, 1.01]
                .iter()
                .map(|factor| format!(
                    r#"{{"measured":true,"rate":{},"latency_ns":{{"count":5,"p50":100,"p99":900}}}}"#,
                    rate * factor
                ))
                .collect();
            format!(
                r#"{{"schema":"sluice-bench/3","plan":{{"switches":16,"targets":["{path}"],"window":null}},"unknown":[1],
                "rate":{{"mean":{rate}}},"latency_ns":{{"count":15,"p50":100,"p99":900}},"loops":[{}],
                "provenance":{{"version":"0.1.0","host":{{"cores":2}}}}}}"#,
                loops.join(",")
            )
            .replace('\n', " ")
        };
        let lines: Vec<_> = rates.iter().map(line).collect();
        ReportFile::parse(path, &lines.join("\n")).unwrap()
    }

    #[test]
    fn runs_are_compared_by_the_ratio_of_their_means_with_an_interval() {
        let first = report("a", &[100.0, 101.0, 99.0, 100.5]);
        let second = report("b", &[80.0, 81.0, 79.5, 80.2]);
        let comparison = Comparison::of(&first, &second);
        assert_eq!((comparison.basis, comparison.samples), (Basis::Runs, [4, 4]));
        let rate = comparison.rate.unwrap();
        assert!((rate.ratio - 0.8).abs() < 0.01, "{rate:?}");
        assert!(rate.confidence.unwrap().contains(rate.ratio));
        assert_eq!(rate.is_significant(), Some(true));
        let p50 = comparison.p50_ns.unwrap();
        assert_eq!((p50.ratio.to_bits(), p50.is_significant()), (1f64.to_bits(), Some(false)));
        assert_eq!(comparison.warnings, [""; 0]);
    }

    #[test]
    fn single_runs_are_compared_by_their_loops_with_a_warning() {
        let comparison = Comparison::of(&report("a", &[100.0]), &report("b", &[100.5, 99.5]));
        assert_eq!((comparison.basis, comparison.samples), (Basis::Loops, [3, 6]));
        assert_eq!(comparison.rate.unwrap().is_significant(), Some(false));
        assert!(comparison.warnings[0].contains("--repeat 5"), "{:?}", comparison.warnings);
    }

    #[test]
    fn two_runs_are_too_few_for_an_interval() {
        let comparison = Comparison::of(&report("a", &[100.0, 101.0]), &report("b", &[50.0, 51.0]));
        assert_eq!(comparison.rate.unwrap().is_significant(), None);
        assert!(comparison.warnings[0].contains("too few runs"), "{:?}", comparison.warnings);
    }

    #[test]
    fn plans_and_machines_that_differ_are_named_with_the_fields() {
        let first = report("a", &[1.0; 3]);
        let mut second = report("b", &[1.0; 3]);
        for run in &mut second.runs {
            run.plan.insert("switches".to_owned(), 32.into());
            run.plan.insert("window".to_owned(), 4.into());
            run.provenance.host.insert("cores".to_owned(), 8.into());
            run.warnings.push("late".to_owned());
        }
        let warnings = Comparison::of(&first, &second).warnings;
        assert_eq!(
            warnings,
            [
                "the plans differ: switches (16 and 32), window (null and 4)",
                "the machines or programs differ: cores (2 and 8)",
                "b has warnings of its own (3): read them first"
            ]
        );
    }

    #[test]
    fn percentiles_of_requests_without_an_answer_have_no_interval() {
        let first = report("a", &[1.0; 3]);
        let mut second = report("b", &[1.0; 3]);
        second.runs[0].latency_ns.at_least = vec!["p99".to_owned()];
        let comparison = Comparison::of(&first, &second);
        let p99 = comparison.p99_ns.unwrap();
        assert_eq!((p99.is_significant(), p99.at_least), (None, [false, true]));
        assert!(comparison.p50_ns.unwrap().is_significant().is_some());
        assert!(comparison.warnings[0].starts_with("latencies marked ≥ are lower bounds"));
    }
}
