//! The samples of a study by experiment, controller and cell, with the statistics of each metric.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use sluice_base::sort_by_key;
use sluice_bench::FigureSummary;

use super::escape::slug;
use super::failures::SentenceGroup;
use super::format::{self, Bound, disturbed_mark};
use super::names::unique;
use crate::definition::metrics;
use crate::definition::{Axis, AxisValue, Cell, Figure, Measure};
use crate::interval::widened;
use crate::record::{ControllerRecord, ExperimentRecord, Sample, StudyRecord};
use crate::run::can_run;

/// Fewest values of which an interval is computed; the range is shown of fewer.
pub(crate) const INTERVAL_VALUES_MIN: usize = 4;

/// A study with its samples in order.
#[derive(Debug)]
pub(crate) struct StudySummary<'s> {
    pub(crate) record: &'s StudyRecord,
    /// In the order of the plan.
    pub(crate) experiments: Vec<ExperimentSummary<'s>>,
    /// All samples, in the order in which they were taken.
    pub(crate) samples: &'s [Sample],
}

/// An experiment with its cells.
#[derive(Debug)]
pub(crate) struct ExperimentSummary<'s> {
    pub(crate) record: &'s ExperimentRecord,
    /// Its name in ids, unique in the study.
    pub(crate) name: String,
    /// The names of its figures in files and ids, unique in the study, in the order of the figures.
    figure_names: Vec<String>,
    /// The controllers that take part, whether or not they were found.
    pub(crate) controllers: Vec<&'s ControllerRecord>,
    /// By controller, then by the values of the axes, in the order of the plan.
    pub(crate) cells: Vec<CellSummary<'s>>,
}

/// The samples of a controller with one combination of values.
#[derive(Debug)]
pub(crate) struct CellSummary<'s> {
    pub(crate) controller: &'s ControllerRecord,
    /// Place of the controller in the plan of the study.
    pub(crate) place: usize,
    /// What is measured.
    pub(crate) measure: &'s Measure,
    pub(crate) cell: Cell,
    /// The last sample of each round.
    pub(crate) samples: Vec<&'s Sample>,
    /// Samples that were disturbed and therefore taken again.
    pub(crate) repeated: Vec<&'s Sample>,
    /// Statistics of the samples without a failure, by name of the metric.
    pub(crate) metrics: BTreeMap<&'s str, MetricSummary>,
}

/// The statistics of one metric of a cell.
#[derive(Debug, Clone)]
pub(crate) struct MetricSummary {
    /// The value of each sample.
    pub(crate) values: Vec<f64>,
    /// Computed at first use, since the interval takes long.
    statistics: OnceCell<FigureSummary>,
    /// Which bounds its values are, and hence its statistics.
    pub(crate) bound: Bound,
    /// How many of the samples were disturbed.
    pub(crate) disturbed: usize,
    /// The greatest possible value.
    limit: f64,
}

/// The value of one sample.
#[derive(Debug)]
pub(crate) struct SampleValue {
    value: f64,
    bound: Bound,
    is_disturbed: bool,
}

impl<'s> StudySummary<'s> {
    pub(crate) fn new(record: &'s StudyRecord, samples: &'s [Sample]) -> Self {
        let one = |experiment| ExperimentSummary::new(record, experiment, samples);
        let mut experiments: Vec<_> = record.experiments.iter().map(one).collect();
        set_names(&mut experiments);
        Self { record, experiments, samples }
    }
}

/// Names experiments and figures such that no two of them have the same name: figure `b-c` of `a` and figure `c` of `a-b` are different.
fn set_names(experiments: &mut [ExperimentSummary<'_>]) {
    let names = unique(experiments.iter().map(|it| slug(&it.record.id)));
    let figures = experiments.iter().flat_map(|ExperimentSummary { record, .. }| {
        let name = |figure: &Figure| format!("{}-{}", slug(&record.id), slug(&figure.id));
        record.experiment.figures.iter().map(name)
    });
    let mut figures = unique(figures).into_iter();
    for (experiment, name) in experiments.iter_mut().zip(names) {
        let n = experiment.record.experiment.figures.len();
        experiment.name = name;
        experiment.figure_names = figures.by_ref().take(n).collect();
    }
}

impl<'s> ExperimentSummary<'s> {
    fn new(study: &'s StudyRecord, record: &'s ExperimentRecord, samples: &'s [Sample]) -> Self {
        let all = &record.experiment.controllers;
        let takes_part = |it: &&ControllerRecord| all.is_empty() || all.contains(&it.id);
        let controllers: Vec<_> = study.controllers.iter().filter(takes_part).collect();
        let of_experiment: Vec<_> =
            samples.iter().filter(|sample| sample.experiment == record.id).collect();
        let mut cells = Vec::new();
        for (place, controller) in study.controllers.iter().enumerate() {
            let of_controller: Vec<_> = of_experiment
                .iter()
                .copied()
                .filter(|sample| sample.controller == controller.id)
                .collect();
            let is_planned =
                controller.missing.is_none() && controllers.iter().any(|it| it.id == controller.id);
            let mut combinations = if is_planned { record.experiment.cells() } else { Vec::new() };
            combinations.retain(|cell| can_run(&controller.row, cell));
            for sample in &of_controller {
                if !combinations.iter().any(|cell| is_same_cell(cell, &sample.cell)) {
                    combinations.push(sample.cell.clone());
                }
            }
            let measure = &record.experiment.measure;
            let one = |cell| CellSummary::new((controller, place), (measure, cell), &of_controller);
            cells.extend(combinations.into_iter().map(one));
        }
        Self { record, name: String::new(), figure_names: Vec::new(), controllers, cells }
    }

    /// The figures, each with its name in files and ids.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&'s Figure, &str)> {
        let names = self.figure_names.iter().map(String::as_str);
        self.record.experiment.figures.iter().zip(names)
    }

    /// The cells that `figure` shows.
    pub(crate) fn cells_of(&self, figure: &Figure) -> Vec<&CellSummary<'s>> {
        let mut only = figure.only.clone();
        for (axis, [_, shown]) in self.substitutions(figure) {
            only.insert(axis, shown);
        }
        let has = |cell: &Cell, (axis, value): (&Axis, &AxisValue)| {
            cell.get(axis).is_some_and(|actual| is_same_value(actual, value))
        };
        self.cells.iter().filter(|it| only.iter().all(|value| has(&it.cell, value))).collect()
    }

    /// The values that `figure` asks for and that are not measured, as in a short form, each with the nearest one that is shown instead.
    pub(crate) fn substitutions(&self, figure: &Figure) -> Vec<(Axis, [AxisValue; 2])> {
        let one = |(axis, wanted): (&Axis, &AxisValue)| {
            let values = self.record.experiment.axes.get(axis)?;
            if values.iter().any(|it| is_same_value(it, wanted)) {
                return None;
            }
            let number = wanted.as_number()?;
            let distance =
                |it: &&AxisValue| (it.as_number().unwrap_or(f64::INFINITY) - number).abs();
            let shown = values.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
            Some((*axis, [wanted.clone(), shown.clone()]))
        };
        figure.only.iter().filter_map(one).collect()
    }

    /// Unit of a metric: what a figure of the experiment says, or what its measurement has; empty if neither is known.
    pub(crate) fn unit_of(&self, metric: &str) -> &'s str {
        let experiment = &self.record.experiment;
        let mut figures = experiment.figures.iter();
        let unit = figures.find(|figure| figure.metric == metric).map(|it| it.unit.as_str());
        unit.or_else(|| metrics::unit(&experiment.measure, metric)).unwrap_or_default()
    }

    /// What is measured.
    pub(crate) fn measure(&self) -> &'s Measure {
        &self.record.experiment.measure
    }

    /// What an axis is called in texts.
    pub(crate) fn axis_name(&self, axis: Axis) -> &'static str {
        axis_name(self.measure(), axis)
    }

    /// Whether a figure of the experiment shows a metric.
    pub(crate) fn shows(&self, metric: &str) -> bool {
        self.record.experiment.figures.iter().any(|figure| figure.metric == metric)
    }
}

impl<'s> CellSummary<'s> {
    fn new(
        (controller, place): (&'s ControllerRecord, usize),
        (measure, cell): (&'s Measure, Cell),
        of_controller: &[&'s Sample],
    ) -> Self {
        let mut all: Vec<_> = of_controller
            .iter()
            .copied()
            .filter(|sample| is_same_cell(&sample.cell, &cell))
            .collect();
        sort_by_key(&mut all, |sample| (sample.round, sample.attempt));
        let last = |at: usize, sample: &Sample| {
            all.get(at + 1).is_none_or(|next| next.round != sample.round)
        };
        let (samples, repeated): (Vec<_>, Vec<_>) =
            all.iter().copied().enumerate().partition(|(at, sample)| last(*at, sample));
        let [samples, repeated] =
            [samples, repeated].map(|it| it.into_iter().map(|(_, it)| it).collect::<Vec<_>>());
        let metrics = metrics_of(measure, &samples);
        Self { controller, place, measure, cell, samples, repeated, metrics }
    }

    /// The samples that have figures.
    pub(crate) fn successful(&self) -> impl Iterator<Item = &'s Sample> {
        self.samples.iter().copied().filter(|sample| sample.failure.is_none())
    }

    /// The reasons of failures, each with its number of samples.
    pub(crate) fn failures(&self) -> BTreeMap<&'s str, usize> {
        let mut failures = BTreeMap::new();
        for reason in self.samples.iter().filter_map(|sample| sample.failure.as_deref()) {
            *failures.entry(reason).or_default() += 1;
        }
        failures
    }

    /// The failures, those together that differ only in their numbers.
    pub(crate) fn failure_groups(&self) -> Vec<SentenceGroup<'s>> {
        SentenceGroup::of(self.samples.iter().filter_map(|sample| sample.failure.as_deref()))
    }

    /// The values of the cell, such as `threads 2, switches 16`; empty if nothing is varied.
    pub(crate) fn text(&self) -> String {
        cell_text(self.measure, &self.cell)
    }

    /// Why the cell has no values of `metric`, if it has none: `failed: …` or `not measured`.
    pub(crate) fn absence(&self, metric: &str) -> Option<String> {
        if self.metrics.contains_key(metric) {
            return None;
        }
        Some(self.failure_text().unwrap_or_else(|| "not measured".to_owned()))
    }

    /// `failed: …`, if no sample has figures and at least one failed.
    pub(crate) fn failure_text(&self) -> Option<String> {
        if self.successful().next().is_some() {
            return None;
        }
        let reasons: Vec<_> = self.failure_groups().iter().map(SentenceGroup::text).collect();
        (!reasons.is_empty()).then(|| format!("failed: {}", reasons.join("; ")))
    }
}

impl MetricSummary {
    fn new(values: Vec<f64>, bound: Bound, limit: f64) -> Self {
        Self { values, statistics: OnceCell::new(), bound, disturbed: 0, limit }
    }

    /// The arithmetic mean, without the interval of [`MetricSummary::statistics`], which takes long.
    #[expect(clippy::cast_precision_loss, reason = "there are few samples")]
    pub(crate) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    pub(crate) fn statistics(&self) -> &FigureSummary {
        self.statistics.get_or_init(|| FigureSummary::of(&self.values))
    }

    /// The 95 % bootstrap interval of the mean, widened for few samples and within the possible values, or the range if there are fewer than
    /// four values.
    pub(crate) fn interval(&self) -> [f64; 2] {
        let FigureSummary { confidence, mean, min, max, .. } = *self.statistics();
        if self.values.len() < INTERVAL_VALUES_MIN {
            [min, max]
        } else {
            let interval = widened(confidence, mean, self.values.len());
            [interval.low, interval.high.min(self.limit.max(max))]
        }
    }

    /// The mean with its unit, marked if it is a bound, and if samples were disturbed.
    pub(crate) fn mean_text(&self, unit: &str) -> String {
        format!("{}{}", self.bound_text(unit), disturbed_mark(self.disturbed > 0))
    }

    /// The mean with its unit, marked if it is a bound.
    fn bound_text(&self, unit: &str) -> String {
        format!("{}{}", self.bound.mark(), format::value(self.statistics().mean, unit))
    }

    /// Mean, interval, number of samples, and how many were disturbed, in a sentence.
    pub(crate) fn text(&self, unit: &str) -> String {
        let n = self.values.len();
        let [low, high] = self.interval().map(|bound| format::value(bound, unit));
        let mean = self.bound_text(unit);
        let disturbed = match self.disturbed {
            0 => String::new(),
            disturbed => format!(", {disturbed} disturbed"),
        };
        match n {
            1 => format!("{mean} (1 sample{disturbed})"),
            2..INTERVAL_VALUES_MIN => {
                format!("{mean} (range {low} to {high} of {n} samples{disturbed})")
            }
            _ => format!("{mean} (95 % interval {low} to {high}, {n} samples{disturbed})"),
        }
    }
}

impl SampleValue {
    /// The value of `metric`, or why there is none.
    pub(crate) fn of(sample: &Sample, metric: &str) -> Result<Self, String> {
        if let Some(reason) = &sample.failure {
            return Err(format!("failed: {reason}"));
        }
        let value = sample.figures.get(metric).ok_or_else(|| "no value".to_owned())?;
        Ok(Self {
            value: *value,
            bound: Bound::of(sample, metric),
            is_disturbed: sample.machine.is_disturbed,
        })
    }

    /// The value with its unit, marked if it is a bound, and if the sample was disturbed.
    pub(crate) fn text(&self, unit: &str) -> String {
        let Self { value, bound, is_disturbed } = *self;
        let (bound, disturbed) = (bound.mark(), disturbed_mark(is_disturbed));
        format!("{bound}{}{disturbed}", format::value(value, unit))
    }
}

/// The greatest possible value of a metric: shares have one.
fn limit(measure: &Measure, metric: &str) -> f64 {
    match (measure, metric) {
        (_, "fairness" | "unanswered") | (Measure::Stream(_), "lost" | "reordered") => 1.0,
        (_, "unanswered_percent" | "loss_at_maximum_percent" | "not_sent_percent") => 100.0,
        _ => f64::INFINITY,
    }
}

fn metrics_of<'s>(measure: &Measure, samples: &[&'s Sample]) -> BTreeMap<&'s str, MetricSummary> {
    let mut metrics: BTreeMap<&str, MetricSummary> = BTreeMap::new();
    for &sample in samples.iter().filter(|sample| sample.failure.is_none()) {
        for (name, value) in sample.figures.iter().filter(|(_, value)| value.is_finite()) {
            let new = || MetricSummary::new(Vec::new(), Bound::default(), limit(measure, name));
            let metric = metrics.entry(name).or_insert_with(new);
            metric.values.push(*value);
            metric.bound = metric.bound.and(Bound::of(sample, name));
            metric.disturbed += usize::from(sample.machine.is_disturbed);
        }
    }
    metrics
}

/// Whether two cells have the same values; `1` and `1.0` are the same.
pub(crate) fn is_same_cell(first: &Cell, second: &Cell) -> bool {
    first.len() == second.len()
        && first
            .iter()
            .all(|(axis, value)| second.get(axis).is_some_and(|it| is_same_value(it, value)))
}

/// Whether two values are the same; `1` and `1.0` are.
pub(crate) fn is_same_value(first: &AxisValue, second: &AxisValue) -> bool {
    match (first.as_number(), second.as_number()) {
        (Some(first), Some(second)) => first.to_bits() == second.to_bits(),
        _ => first == second,
    }
}

/// What an axis of a measurement is called in texts.
pub(crate) fn axis_name(measure: &Measure, axis: Axis) -> &'static str {
    match axis {
        Axis::Rate if matches!(measure, Measure::Stream(_)) => "packets per second",
        Axis::Window if matches!(measure, Measure::Paths(_)) => "outstanding path requests",
        Axis::Threads => "threads",
        Axis::Cores => "cores",
        Axis::Switches => "switches",
        Axis::Window => "outstanding requests per switch",
        Axis::WindowTotal => "outstanding requests",
        Axis::Rate => "requests per second",
        Axis::NewSources => "share of new sources",
        Axis::Hosts => "hosts per switch",
        Axis::Flood => "connections per second of the flood",
        Axis::Churn => "changes per second of a network beside",
        Axis::Variant => "variant",
        Axis::Topology => "topology",
        Axis::DelayMs => "one-way delay in ms",
        Axis::Invalid => "share of invalid messages",
        Axis::FrameBytes => "frame length in bytes",
        Axis::RateMbit => "rate of the control link in Mbit/s",
    }
}

/// The values of a cell, such as `threads 2, switches 16`; empty if nothing is varied.
pub(crate) fn cell_text(measure: &Measure, cell: &Cell) -> String {
    let one = |(axis, value): (&Axis, &AxisValue)| format!("{} {value}", axis_name(measure, *axis));
    cell.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{PathsSettings, StreamSettings};

    #[test]
    fn intervals_of_means_have_possible_values_only_and_are_the_range_of_three_samples() {
        let stream = Measure::Stream(StreamSettings::default());
        let interval = |metric: &str, values: &[f64]| {
            let limit = limit(&stream, metric);
            MetricSummary::new(values.to_vec(), Bound::default(), limit).interval()
        };
        let [low, high] = interval("fairness", &[1.0, 0.2, 1.0, 1.0]);
        assert!(low > 0.0 && low < 0.8 && (high - 1.0).abs() < 1e-12, "{low} {high}");
        let [low, high] = interval("p99_us", &[3.0, 4.0, 2.0, 200.0]);
        assert!(low > 0.0 && low < 10.0 && high > 52.25, "{low} {high}");
        let [low, high] = interval("lost", &[0.0, 0.0, 0.9, 0.9]);
        assert!(low >= 0.0 && high <= 1.0, "{low} {high}");
        let [low, high] = interval("p99_us", &[3.0, 1.0, 2.0]);
        assert_eq!((low, high), (1.0, 3.0), "the range");
        let summary = MetricSummary::new(vec![1.0, 3.0, 2.0], Bound::default(), f64::INFINITY);
        assert!(summary.text("").contains("of 3 samples)"), "{}", summary.text(""));
        assert_eq!(summary.mean().to_bits(), summary.statistics().mean.to_bits());
    }

    #[test]
    fn means_with_disturbed_samples_are_marked_and_say_how_many() {
        let bound = Bound { is_lower: true, is_upper: false };
        let new = || MetricSummary::new(vec![1.0, 3.0, 2.0], bound, f64::INFINITY);
        let disturbed = MetricSummary { disturbed: 2, ..new() };
        assert_eq!(disturbed.mean_text(""), "≥\u{202f}2.00†");
        assert!(
            disturbed.text("").ends_with("of 3 samples, 2 disturbed)"),
            "{}",
            disturbed.text("")
        );
        assert_eq!(new().mean_text(""), "≥\u{202f}2.00");
        assert!(!new().text("").contains("disturbed"), "{}", new().text(""));
    }

    #[test]
    fn the_name_of_an_axis_depends_on_what_is_measured() {
        let stream = Measure::Stream(StreamSettings::default());
        let paths = Measure::Paths(PathsSettings::default());
        let bench = Measure::Bench(crate::definition::BenchSettings::default());
        let cell: Cell = [(Axis::Rate, AxisValue::Integer(500))].into_iter().collect();
        assert_eq!(cell_text(&stream, &cell), "packets per second 500");
        assert_eq!(cell_text(&bench, &cell), "requests per second 500");
        assert_eq!(axis_name(&paths, Axis::Window), "outstanding path requests");
        assert_eq!(axis_name(&bench, Axis::Window), "outstanding requests per switch");
    }
}
