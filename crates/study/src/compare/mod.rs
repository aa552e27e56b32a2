//! Compares two studies: the ratio of each metric of each cell, with an interval.

mod controllers;
pub(crate) mod differences;
mod gate;
mod print;
mod resolution;

use sluice_bench::ConfidenceInterval;

pub use controllers::of_controller;
pub use gate::{GateVerdict, Undecided};
pub use print::SCHEMA;

pub use crate::definition::Direction;

use self::resolution::resolution;
use crate::definition::{Cell, Measure, metrics};
use crate::interval::{
    ERROR, RATIO_ERROR, RatioEstimate, greater_beyond_noise, probability_of_greater,
};
use crate::record::{Sample, StudyRecord};
use crate::report::failures::SentenceGroup;
use crate::report::summary::{CellSummary, MetricSummary, StudySummary, is_same_cell};

/// Fewest samples of each study of which a ratio has an interval.
const SAMPLES_MIN: usize = 3;

/// A study that is compared.
#[derive(Debug, Clone, Copy)]
pub struct Study<'s> {
    /// What it is called in texts, such as its folder.
    pub name: &'s str,
    /// Its plan and machine.
    pub record: &'s StudyRecord,
    /// Its samples.
    pub samples: &'s [Sample],
}

/// The comparison of a second study with a first one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Names of the studies.
    pub names: [String; 2],
    /// A row for each metric of each cell that both studies have, in the order of the first one's plan.
    pub rows: Vec<Row>,
    /// Cells with values in one study only.
    pub unmatched: Vec<UnmatchedCell>,
    /// Differences of machines and plans, as sentences.
    pub warnings: Vec<String>,
}

/// A metric of a cell in both studies.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Experiment, by name of file.
    pub experiment: String,
    /// Controller, by name of file.
    pub controller: String,
    /// The cell.
    pub cell: Cell,
    /// The cell as text, such as `threads 2`; empty if nothing is varied.
    pub values: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit, if a figure of the experiment shows it; may be empty.
    pub unit: String,
    /// Which values are better.
    pub direction: Direction,
    /// Number of samples in each study.
    pub samples: [usize; 2],
    /// Mean in each study.
    pub means: [f64; 2],
    /// Whether each mean is only a lower bound, since requests were not answered, or the load generator was the limit of a rate.
    pub at_least: [bool; 2],
    /// Whether each mean is only an upper bound, since the load generator was the limit of a response time.
    pub at_most: [bool; 2],
    /// The second mean divided by the first; `None` if that is not positive.
    pub ratio: Option<f64>,
    /// Interval of the ratio; `None` with fewer than three samples, or if the means are bounds that leave the ratio
    /// without any. With a probability of 96 %, those of all
    /// rows contain their true ratio (Bonferroni correction).
    pub interval: Option<ConfidenceInterval>,
    /// The interval for the gate, which is narrower: the same for the rows that the gate tests.
    pub joint_interval: Option<ConfidenceInterval>,
    /// Whether a figure of the report shows it.
    pub is_shown: bool,
    /// Whether a value of the first study is 0, so that there is no ratio that has an interval.
    pub has_zero: bool,
    /// Whether a value of the first study is 0, and those of the second are greater beyond the noise of all such rows (Holm's correction).
    pub is_new: bool,
}

/// A cell with values in one study only.
#[derive(Debug, Clone, PartialEq)]
pub struct UnmatchedCell {
    /// Experiment, by name of file.
    pub experiment: String,
    /// Controller, by name of file.
    pub controller: String,
    /// The cell.
    pub cell: Cell,
    /// The cell as text; empty if nothing is varied.
    pub values: String,
    /// The study that has values: 0 for the first, 1 for the second.
    pub study: usize,
    /// Why the other study has none.
    pub reason: String,
}

/// How the second study differs from the first in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// Significantly different, and neither better nor worse.
    Different,
    /// Not significantly different.
    None,
    /// Not known: there are too few samples, or a mean is only a bound.
    Unknown,
}

/// Compares `second` with `first`, two studies.
pub fn compare(first: Study<'_>, second: Study<'_>) -> Comparison {
    let warnings = differences::warnings(first.record, second.record);
    compare_figures(first, second, warnings)
}

/// Compares two controllers of one study, of which each is in a study of its own (see [`of_controller`]).
pub fn compare_controllers(first: Study<'_>, second: Study<'_>) -> Comparison {
    compare_figures(first, second, Vec::new())
}

fn compare_figures(first: Study<'_>, second: Study<'_>, mut warnings: Vec<String>) -> Comparison {
    let names = [first.name, second.name].map(str::to_owned);
    warnings.extend([&first, &second].into_iter().filter_map(differences::disturbed));
    let summaries = [first, second].map(|it| StudySummary::new(it.record, it.samples));
    let [first, second] = &summaries;
    let mut rows = Vec::new();
    for experiment in &first.experiments {
        for cell in &experiment.cells {
            let Some(other) = counterpart(second, &experiment.record.id, cell) else { continue };
            let shared = cell.metrics.iter().filter_map(|(name, metric)| {
                Some((*name, experiment.unit_of(name), [metric, other.metrics.get(name)?]))
            });
            rows.extend(shared.map(|(name, unit, metrics)| {
                let mut drawn = row(&experiment.record.id, cell, (name, unit), metrics);
                drawn.row.is_shown = experiment.shows(name);
                drawn
            }));
        }
    }
    let unmatched = (unmatched(0, first, second).into_iter()).chain(unmatched(1, second, first));
    let unmatched = unmatched.collect();
    let rows = tested_together(rows);
    Comparison { names, rows, unmatched, warnings }
}

/// The same cell of another study.
fn counterpart<'a, 's>(
    study: &'a StudySummary<'s>,
    experiment: &str,
    cell: &CellSummary<'_>,
) -> Option<&'a CellSummary<'s>> {
    let experiment = study.experiments.iter().find(|it| it.record.id == experiment)?;
    experiment
        .cells
        .iter()
        .find(|it| it.controller.id == cell.controller.id && is_same_cell(&it.cell, &cell.cell))
}

/// The cells of study number `study` of which `other` has fewer figures, or more failures.
fn unmatched(study: usize, own: &StudySummary<'_>, other: &StudySummary<'_>) -> Vec<UnmatchedCell> {
    let mut all = Vec::new();
    for experiment in &own.experiments {
        for cell in experiment.cells.iter().filter(|cell| !cell.metrics.is_empty()) {
            let counterpart = counterpart(other, &experiment.record.id, cell);
            if let Some(it) = counterpart.filter(|it| !it.metrics.is_empty()) {
                all.extend(fewer(cell, it).map(|reason| UnmatchedCell {
                    experiment: experiment.record.id.clone(),
                    controller: cell.controller.id.clone(),
                    cell: cell.cell.clone(),
                    values: cell.text(),
                    study,
                    reason,
                }));
                continue;
            }
            let missing = other.record.controllers.iter().find(|it| it.id == cell.controller.id);
            let missing = missing.and_then(|it| it.missing.as_ref());
            let reason = match (counterpart.and_then(CellSummary::failure_text), missing) {
                (Some(text), _) => text,
                (None, Some(missing)) => format!("controller not found: {missing}"),
                (None, None) => "not measured".to_owned(),
            };
            all.push(UnmatchedCell {
                experiment: experiment.record.id.clone(),
                controller: cell.controller.id.clone(),
                cell: cell.cell.clone(),
                values: cell.text(),
                study,
                reason,
            });
        }
    }
    all
}

/// What a cell with figures lacks of those of `own`.
fn fewer(own: &CellSummary<'_>, other: &CellSummary<'_>) -> Option<String> {
    let failed = |cell: &CellSummary<'_>| cell.failures().values().sum::<usize>();
    if failed(other) > failed(own) {
        let reasons: Vec<_> = other.failure_groups().iter().map(SentenceGroup::text).collect();
        let of = other.samples.len();
        return Some(format!("{} of {of} samples failed: {}", failed(other), reasons.join("; ")));
    }
    let names: Vec<_> =
        own.metrics.keys().filter(|name| !other.metrics.contains_key(*name)).copied().collect();
    (!names.is_empty()).then(|| format!("it has no {}", names.join(", ")))
}

/// A row, and what its tests need together with those of the other rows.
struct DrawnRow {
    row: Row,
    /// Of its ratio.
    estimate: Option<RatioEstimate>,
    /// That of means which differ as much, if nothing has changed; for rows whose first study has a 0.
    probability: Option<f64>,
}

fn row(
    experiment: &str,
    cell: &CellSummary<'_>,
    (metric, unit): (&str, &str),
    metrics: [&MetricSummary; 2],
) -> DrawnRow {
    let means = metrics.map(MetricSummary::mean);
    let [at_least, at_most] =
        [metrics.map(|it| it.bound.is_lower), metrics.map(|it| it.bound.is_upper)];
    let ratio_bounds = ratio_bounds(at_least, at_most);
    let samples = metrics.map(|it| it.values.len());
    let [first, second] = metrics.map(|it| it.values.as_slice());
    let ratio = (means[0] > 0.0 && means[1] >= 0.0).then(|| means[1] / means[0]);
    let are_enough = samples.iter().all(|&n| n >= SAMPLES_MIN) && ratio_bounds != [true; 2];
    let are_valid =
        first.iter().all(|&value| value > 0.0) && second.iter().all(|&value| value >= 0.0);
    let estimate = (are_enough && are_valid)
        .then(|| RatioEstimate::new(first, second, resolution(metric, means)));
    let has_zero = first.contains(&0.0);
    // A lower bound may have been greater already, and an upper one may still be 0.
    let is_tested = has_zero && !ratio_bounds[0];
    let probability = is_tested.then(|| probability_of_greater(first, second)).flatten();
    let measure: &Measure = cell.measure;
    let row = Row {
        experiment: experiment.to_owned(),
        controller: cell.controller.id.clone(),
        cell: cell.cell.clone(),
        values: cell.text(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        direction: metrics::direction(measure, metric),
        samples,
        means,
        at_least,
        at_most,
        ratio,
        interval: None,
        joint_interval: None,
        is_shown: false,
        has_zero,
        is_new: false,
    };
    DrawnRow { row, estimate, probability }
}

/// Adds what depends on the number of rows: which are greater than 0 beyond noise, and the intervals that all contain their true ratio.
fn tested_together(mut rows: Vec<DrawnRow>) -> Vec<Row> {
    let probabilities: Vec<f64> = rows.iter().filter_map(|it| it.probability).collect();
    let found = greater_beyond_noise(&probabilities);
    let tested = rows.iter_mut().filter(|it| it.probability.is_some());
    for (drawn, is_new) in tested.zip(found) {
        drawn.row.is_new = is_new;
    }
    let estimated = || rows.iter().filter(|it| it.estimate.is_some());
    let error = error_of_each(estimated().count());
    let error_of_gate = error_of_each(estimated().filter(|it| it.row.can_fail_the_gate()).count());
    let one = |DrawnRow { row, estimate, .. }: DrawnRow| {
        let [interval, joint_interval] =
            [error, error_of_gate].map(|error| estimate.map(|it| it.at(error)));
        Row { interval, joint_interval, ..row }
    };
    rows.into_iter().map(one).collect()
}

/// Bonferroni's correction: the error of each of so many intervals, all of which together have [`RATIO_ERROR`].
fn error_of_each(intervals: usize) -> f64 {
    RATIO_ERROR / f64::from(u32::try_from(intervals.max(1)).unwrap_or(u32::MAX))
}

/// Whether the ratio of two means is only an upper bound, and whether it is only a lower one: that is so if the first mean is a lower bound or
/// the second an upper one, and the other way round.
fn ratio_bounds([a, b]: [bool; 2], [a_most, b_most]: [bool; 2]) -> [bool; 2] {
    [a || b_most, b || a_most]
}

impl Row {
    fn ratio_bounds(&self) -> [bool; 2] {
        ratio_bounds(self.at_least, self.at_most)
    }

    /// How the second study differs from the first, beyond what chance explains in all rows of the comparison.
    pub fn change(&self) -> Change {
        self.change_by(self.interval)
    }

    fn change_by(&self, interval: Option<ConfidenceInterval>) -> Change {
        let is_higher = match (interval, self.ratio_bounds()) {
            _ if self.is_new => true,
            (None, _) | (_, [true, true]) => return Change::Unknown,
            // The true ratio is at least the measured one, or at most: beyond the other side, it may be anything.
            (Some(it), [false, true]) if it.low <= 1.0 => {
                let is_not_worse = it.high >= 1.0 && self.direction == Direction::HigherIsBetter;
                return if is_not_worse { Change::None } else { Change::Unknown };
            }
            (Some(it), [true, false]) if it.high >= 1.0 => {
                let is_not_worse = it.low <= 1.0 && self.direction == Direction::LowerIsBetter;
                return if is_not_worse { Change::None } else { Change::Unknown };
            }
            (Some(it), _) if it.contains(1.0) => return Change::None,
            (Some(it), _) => it.low > 1.0,
        };
        match (self.direction, is_higher) {
            (Direction::Neutral, _) => Change::Different,
            (Direction::HigherIsBetter, true) | (Direction::LowerIsBetter, false) => Change::Better,
            (Direction::HigherIsBetter, false) | (Direction::LowerIsBetter, true) => Change::Worse,
        }
    }

    /// By which share the second study is worse, such as 0.1 for 10 %; negative if it is better, infinite if the first study has 0.
    pub fn worsening(&self) -> f64 {
        match (self.direction, self.ratio) {
            (Direction::Neutral, _) => 0.0,
            (_, None) if self.is_new => {
                if self.direction == Direction::LowerIsBetter {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                }
            }
            (_, None) => 0.0,
            (Direction::HigherIsBetter, Some(ratio)) => 1.0 - ratio,
            (Direction::LowerIsBetter, Some(ratio)) => ratio - 1.0,
        }
    }

    /// Controller and cell, such as `sluice, threads 2`.
    pub fn cell_text(&self) -> String {
        if self.values.is_empty() {
            self.controller.clone()
        } else {
            format!("{}, {}", self.controller, self.values)
        }
    }
}

impl Comparison {
    /// The number of rows with an interval, and of those that differ significantly.
    pub fn significant(&self) -> [usize; 2] {
        let known = self.rows.iter().map(Row::change).filter(|it| *it != Change::Unknown);
        let [mut all, mut different] = [0, 0];
        for change in known {
            all += 1;
            different += usize::from(change != Change::None);
        }
        [all, different]
    }

    /// The number of rows that differ significantly by chance on average, at most, if nothing has changed. It is also the greatest
    /// probability that any row does.
    pub fn expected_by_chance(&self) -> f64 {
        if self.significant()[0] > 0 { ERROR } else { 0.0 }
    }
}
