//! What a figure shows: panels, series and points, before they are drawn.

use std::collections::BTreeMap;

use sluice_base::{ordered, sort_by};

use super::distribution::has_median;
use super::failures::SentenceGroup;
use super::format::{Bound, counted};
use super::memory::typical_sample;
use super::summary::{
    CellSummary, ExperimentSummary, MetricSummary, axis_name, cell_text, is_same_cell,
    is_same_value,
};
use crate::definition::{Axis, AxisValue, Cell, Figure, FigureKind, Measure};
use crate::record::Sample;

/// Most cells that are named for disturbed samples.
const CELLS_MAX: usize = 12;

/// A figure with the cells that it shows.
#[derive(Debug)]
pub(crate) struct FigureData<'a, 's> {
    pub(crate) figure: &'a Figure,
    measure: &'s Measure,
    /// At least one, unless no cell belongs to the figure.
    pub(crate) panels: Vec<Panel<'a, 's>>,
    /// Series in the order of their styles, of all panels.
    pub(crate) legend: Vec<SeriesName>,
    /// Sentences about cells without values, and cells of which only a part of the samples has values.
    pub(crate) failures: Vec<String>,
    /// How many of the samples that are shown were disturbed, and in which cells, as a sentence; `None` if none was.
    pub(crate) disturbed: Option<String>,
    /// Notes for the reader: which value is shown where the one that the figure asks for was not measured, as in a short form.
    pub(crate) substitutions: Vec<String>,
}

/// The name of a series and how it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesName {
    pub(crate) label: String,
    /// Number of the color and marker.
    pub(crate) style: usize,
    /// Number of the pattern of the line.
    pub(crate) dash: usize,
}

/// A part of a figure with axes of its own.
#[derive(Debug)]
pub(crate) struct Panel<'a, 's> {
    /// Such as `threads 4`; empty for the only panel.
    pub(crate) title: String,
    /// The values of `x` in the order of the plan; empty if the figure has no `x`.
    pub(crate) xs: Vec<AxisValue>,
    pub(crate) series: Vec<Series<'a, 's>>,
}

/// The cells of a series in a panel.
#[derive(Debug)]
pub(crate) struct Series<'a, 's> {
    pub(crate) name: SeriesName,
    pub(crate) cells: Vec<(Option<AxisValue>, &'a CellSummary<'s>)>,
}

impl<'a, 's> FigureData<'a, 's> {
    pub(crate) fn new(experiment: &'a ExperimentSummary<'s>, figure: &'a Figure) -> Self {
        let cells = experiment.cells_of(figure);
        // Distributions of one controller are compared best in one picture; those of several would be too many lines.
        let controllers = distinct(cells.iter().map(|it| it.place), usize::eq);
        let is_together = figure.kind == FigureKind::Cdf && controllers.len() == 1;
        let panel_axis = figure.panels.filter(|_| !is_together);
        let x_axis = figure.x.filter(|_| has_x(figure.kind));
        let is_rest = |axis: &Axis| {
            Some(*axis) != panel_axis && Some(*axis) != x_axis && !figure.only.contains_key(axis)
        };
        let rest_of = |cell: &Cell| -> Cell {
            let rest = cell.iter().filter(|(axis, _)| is_rest(axis));
            ordered(rest.map(|(axis, value)| (*axis, value.clone())))
        };
        let rests = distinct(cells.iter().map(|it| rest_of(&it.cell)), is_same_cell);
        let names = Names::new(&cells, &rests);
        let panels = panel_axis.map_or_else(
            || vec![None],
            |axis| values_of(&cells, axis).into_iter().map(|it| Some((axis, it))).collect(),
        );
        let panel = |split: Option<(Axis, AxisValue)>| {
            let is_here = |cell: &Cell| {
                split.as_ref().is_none_or(|(axis, value)| {
                    cell.get(axis).is_some_and(|it| is_same_value(it, value))
                })
            };
            let here: Vec<_> = cells.iter().copied().filter(|it| is_here(&it.cell)).collect();
            let xs = x_axis.map(|axis| values_of(&here, axis)).unwrap_or_default();
            let mut series: Vec<Series<'a, 's>> = Vec::new();
            for cell in here {
                let name = names.of(cell, &rest_of(&cell.cell));
                let x = x_axis.and_then(|axis| cell.cell.get(&axis)).cloned();
                match series.iter_mut().find(|it| it.name == name) {
                    Some(series) => series.cells.push((x, cell)),
                    None => series.push(Series { name, cells: vec![(x, cell)] }),
                }
            }
            let title = split
                .map(|(axis, value)| format!("{} {value}", experiment.axis_name(axis)))
                .unwrap_or_default();
            Panel { title, xs, series }
        };
        let panels: Vec<_> =
            if cells.is_empty() { Vec::new() } else { panels.into_iter().map(panel).collect() };
        let all = panels.iter().flat_map(|it| &it.series).map(|it| it.name.clone());
        let legend = distinct(all, SeriesName::eq);
        let (failures, disturbed) = (failures(&cells, figure), disturbed(&cells, figure));
        let substitutions =
            experiment.substitutions(figure).into_iter().map(|(axis, [wanted, shown])| {
                format!(
                    "Shown with {} {shown}, since {wanted} was not measured in this study.",
                    experiment.axis_name(axis)
                )
            });
        let substitutions = substitutions.collect();
        let measure = experiment.measure();
        Self { figure, measure, panels, legend, failures, disturbed, substitutions }
    }

    /// Whether a cell has something to draw.
    pub(crate) fn has_values(&self) -> bool {
        let mut cells = self.panels.iter().flat_map(|it| &it.series).flat_map(|it| &it.cells);
        cells.any(|(_, cell)| has_values(cell, self.figure))
    }

    /// What the axis `x` is called; empty if there is none.
    pub(crate) fn x_name(&self) -> &'static str {
        self.figure.x.map_or("", |axis| axis_name(self.measure, axis))
    }

    /// A value of `x` with its name, such as `threads 4`; `None` if there is no `x`.
    pub(crate) fn x_text(&self, value: Option<&AxisValue>) -> Option<String> {
        let (value, _) = value.zip(self.figure.x)?;
        Some(format!("{} {value}", self.x_name()))
    }

    /// The name of the metric, without its unit, which the values have.
    pub(crate) fn metric_name(&self) -> String {
        let Figure { label, metric, .. } = self.figure;
        if label.is_empty() { metric.replace('_', " ") } else { label.clone() }
    }

    /// Which bounds are among the values that are shown. A distribution has those of its median that are upper ones: it ends before the others.
    pub(crate) fn bound(&self) -> Bound {
        let is_distribution = self.figure.kind == FigureKind::Cdf;
        let metric = if is_distribution { "p50_us" } else { self.figure.metric.as_str() };
        let cells = self.panels.iter().flat_map(|it| &it.series).flat_map(|it| &it.cells);
        let bounds = cells.filter_map(|(_, cell)| Some(cell.metrics.get(metric)?.bound));
        let Bound { is_lower, is_upper } = bounds.fold(Bound::default(), Bound::and);
        Bound { is_lower: is_lower && !is_distribution, is_upper }
    }
}

impl<'s> Series<'_, 's> {
    /// The values of `metric`, cell by cell, with the value of `x`.
    pub(crate) fn values<'m>(
        &'m self,
        metric: &'m str,
    ) -> impl Iterator<Item = (Option<&'m AxisValue>, &'m MetricSummary)> + 'm {
        let one = move |(x, cell): &'m (Option<AxisValue>, &'m CellSummary<'s>)| {
            Some((x.as_ref(), cell.metrics.get(metric)?))
        };
        self.cells.iter().filter_map(one)
    }
}

/// Whether a figure of this kind has an axis `x` of its own.
fn has_x(kind: FigureKind) -> bool {
    matches!(kind, FigureKind::Lines | FigureKind::Bars | FigureKind::Table)
}

/// Whether `cell` has something to draw in `figure`.
pub(crate) fn has_values(cell: &CellSummary<'_>, figure: &Figure) -> bool {
    match figure.kind {
        FigureKind::Cdf => has_median(cell.successful()),
        FigureKind::Memory => cell.successful().any(has_readings),
        _ => cell.metrics.contains_key(figure.metric.as_str()),
    }
}

pub(crate) fn has_readings(sample: &Sample) -> bool {
    sample.usage.as_ref().is_some_and(|usage| !usage.readings.is_empty())
}

/// The items without repetitions, in their order.
fn distinct<T>(items: impl Iterator<Item = T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in items {
        if !all.iter().any(|it| is_same(it, &item)) {
            all.push(item);
        }
    }
    all
}

/// The values of `axis`: ascending if they are numbers, otherwise in the order of the plan.
fn values_of(cells: &[&CellSummary<'_>], axis: Axis) -> Vec<AxisValue> {
    let all = cells.iter().filter_map(|it| it.cell.get(&axis).cloned());
    let mut values = distinct(all, is_same_value);
    if values.iter().all(|value| value.as_number().is_some()) {
        let number = |value: &AxisValue| value.as_number().unwrap_or_default();
        sort_by(&mut values, |a, b| number(a).total_cmp(&number(b)));
    }
    values
}

/// Gives names and styles to series.
struct Names<'r> {
    rests: &'r [Cell],
    /// Whether there is one controller only, so that other values decide about the color.
    is_single: bool,
    /// What the names of all cells without a difference would repeat.
    varied: Vec<Axis>,
}

impl<'r> Names<'r> {
    fn new(cells: &[&CellSummary<'_>], rests: &'r [Cell]) -> Self {
        let controllers = distinct(cells.iter().map(|it| it.place), usize::eq);
        let mut values: BTreeMap<Axis, Vec<&AxisValue>> = BTreeMap::new();
        for (axis, value) in rests.iter().flatten() {
            values.entry(*axis).or_default().push(value);
        }
        let varied = values.into_iter().filter(|(_, values)| {
            values.windows(2).any(|pair| matches!(pair, [a, b] if !is_same_value(a, b)))
        });
        let varied = varied.map(|(axis, _)| axis).collect();
        Self { rests, is_single: controllers.len() == 1, varied }
    }

    fn of(&self, cell: &CellSummary<'_>, rest: &Cell) -> SeriesName {
        let at = self.rests.iter().position(|it| is_same_cell(it, rest)).unwrap_or_default();
        let shown = rest.iter().filter(|(axis, _)| self.varied.contains(axis));
        let shown: Cell = ordered(shown.map(|(axis, value)| (*axis, value.clone())));
        let title = &cell.controller.row.title;
        let label = if shown.is_empty() {
            title.clone()
        } else {
            format!("{title}, {}", cell_text(cell.measure, &shown))
        };
        let style = if self.is_single { at } else { cell.place };
        SeriesName { label, style, dash: if self.is_single { 0 } else { at } }
    }
}

/// Why a cell without failures has nothing to draw.
fn absence(cell: &CellSummary<'_>, figure: &Figure) -> &'static str {
    let has_answers = cell.successful().any(|sample| !sample.distribution.is_empty());
    if figure.kind == FigureKind::Cdf && has_answers {
        "most samples have no distribution, since too few requests were answered"
    } else {
        "not measured"
    }
}

/// How many of the samples that a figure shows were disturbed, and in which cells.
fn disturbed(cells: &[&CellSummary<'_>], figure: &Figure) -> Option<String> {
    let (mut disturbed, mut shown) = (0, 0);
    let mut named = Vec::new();
    for cell in cells {
        let samples = shown_samples(cell, figure);
        let n = samples.iter().filter(|sample| sample.machine.is_disturbed).count();
        if n > 0 {
            let title = &cell.controller.row.title;
            let values = [title.clone(), cell.text()];
            let values: Vec<_> = values.into_iter().filter(|it| !it.is_empty()).collect();
            named.push(format!("{} ({n} of {})", values.join(", "), samples.len()));
        }
        disturbed += n;
        shown += samples.len();
    }
    let (verb, more) = match (disturbed, named.len().saturating_sub(CELLS_MAX)) {
        (0, _) => return None,
        (1, _) => ("was", String::new()),
        (_, 0) => ("were", String::new()),
        (_, more) => ("were", format!("; and in {} more", counted(more, "cell", "cells"))),
    };
    named.truncate(CELLS_MAX);
    let samples = counted(shown, "sample", "samples");
    Some(format!(
        "{disturbed} of {samples} {verb} disturbed by other programs or by the hypervisor: {}{more}.",
        named.join("; ")
    ))
}

/// The samples of which `figure` shows something.
fn shown_samples<'s>(cell: &CellSummary<'s>, figure: &Figure) -> Vec<&'s Sample> {
    let is_number = |sample: &&Sample| {
        sample.figures.get(&figure.metric).is_some_and(|value| value.is_finite())
    };
    match figure.kind {
        FigureKind::Cdf => cell.successful().collect(),
        FigureKind::Memory => typical_sample(cell).into_iter().collect(),
        _ => cell.successful().filter(is_number).collect(),
    }
}

/// Cells that have failed in the same way.
struct CellFailures<'s> {
    /// Which controller, and how many samples.
    head: String,
    group: SentenceGroup<'s>,
    cells: Vec<String>,
}

/// A sentence for each cell that failed as a whole or in part, equal ones together.
fn failures(cells: &[&CellSummary<'_>], figure: &Figure) -> Vec<String> {
    let mut sentences: Vec<CellFailures<'_>> = Vec::new();
    for cell in cells {
        let title = &cell.controller.row.title;
        let part = if has_values(cell, figure) { Some(cell.samples.len()) } else { None };
        let mut groups = cell.failure_groups();
        let has_failed = !groups.is_empty();
        if !has_failed && part.is_some() {
            continue;
        }
        if !has_failed {
            groups.push(SentenceGroup::new(absence(cell, figure)));
        }
        for group in groups {
            let head = match part {
                Some(n) => format!("{title}: {} of {n} samples failed", group.count),
                None if has_failed => format!("{title}: failed"),
                None => title.clone(),
            };
            let is_same = |it: &&mut CellFailures<'_>| {
                it.head == head && it.group.pattern() == group.pattern()
            };
            match sentences.iter_mut().find(is_same) {
                Some(same) => {
                    same.group.merge(&group);
                    same.cells.push(cell.text());
                }
                None => sentences.push(CellFailures { head, group, cells: vec![cell.text()] }),
            }
        }
    }
    let sentence = |CellFailures { head, group, cells }: CellFailures<'_>| {
        let cells: Vec<_> = cells.into_iter().filter(|it| !it.is_empty()).collect();
        let cells =
            if cells.is_empty() { String::new() } else { format!(" ({})", cells.join("; ")) };
        format!("{head}: {}{cells}", group.text())
    };
    sentences.into_iter().map(sentence).collect()
}
