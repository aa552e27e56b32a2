//! All samples, their processes, and the statistics of all cells, as CSV (RFC 4180).

use std::collections::BTreeSet;

use sluice_base::ordered;

use super::escape::csv;
use super::summary::{CellSummary, MetricSummary, StudySummary};
use crate::definition::{Axis, Cell};
use crate::record::Sample;

/// A row for each sample, repeated ones included; a column for each axis and each figure of any sample.
pub(super) fn samples(study: &StudySummary<'_>) -> String {
    let axes = axes(study);
    let names = study.samples.iter().flat_map(|it| it.figures.keys());
    let names: BTreeSet<&str> = ordered(names.map(String::as_str));
    let facts_of_sample = [
        "round",
        "attempt",
        "restarts",
        "started_at",
        "elapsed_s",
        "failure",
        "disturbed",
        "other_cores",
        "stolen_cores",
        "start_up_s",
        "start_up_resolution_s",
        "survived",
        "stopped_in_order",
        "lower_bounds",
        "upper_bounds",
        "warnings",
    ];
    let mut text = header(&axes, facts_of_sample.iter().chain(&names));
    for sample in study.samples {
        let mut fields = place(&sample.experiment, &sample.controller, &sample.cell, &axes);
        fields.extend(facts(sample));
        let figure =
            |name: &&str| sample.figures.get(*name).map_or_else(String::new, f64::to_string);
        fields.extend(names.iter().map(figure));
        text += &line(fields);
    }
    text
}

/// What a row says of a sample, besides its cell and figures.
fn facts(sample: &Sample) -> [String; 16] {
    let usage = sample.usage.as_ref();
    let flag = |flag: Option<bool>| flag.map_or_else(String::new, |it| it.to_string());
    [
        sample.round.to_string(),
        sample.attempt.to_string(),
        sample.restarts.to_string(),
        sample.started_at.clone(),
        sample.elapsed_s.to_string(),
        sample.failure.clone().unwrap_or_default(),
        sample.machine.is_disturbed.to_string(),
        sample.machine.other_cores.to_string(),
        sample.machine.stolen_cores.to_string(),
        usage.map_or_else(String::new, |it| it.start_up_s.to_string()),
        usage.map_or_else(String::new, |it| it.start_up_resolution_s.to_string()),
        flag(usage.map(|it| it.survived)),
        flag(usage.map(|it| it.stopped_in_order)),
        sample.lower_bounds.join(" "),
        sample.upper_bounds.join(" "),
        sample.warnings.join("; "),
    ]
}

/// A row for each process of each sample, repeated ones included.
pub(super) fn processes(study: &StudySummary<'_>) -> String {
    let axes = axes(study);
    let columns = [
        "round",
        "attempt",
        "pid",
        "name",
        "first_seen_s",
        "last_seen_s",
        "ended_early",
        "cpu_s",
        "peak_resident_bytes",
        "peak_threads",
    ];
    let mut text = header(&axes, &columns);
    for sample in study.samples {
        for process in sample.usage.iter().flat_map(|usage| &usage.processes) {
            let mut fields = place(&sample.experiment, &sample.controller, &sample.cell, &axes);
            fields.extend([
                sample.round.to_string(),
                sample.attempt.to_string(),
                process.pid.to_string(),
                process.name.clone(),
                process.first_seen_s.to_string(),
                process.last_seen_s.to_string(),
                process.ended_early.to_string(),
                process.cpu_s.to_string(),
                process.peak_resident_bytes.to_string(),
                process.peak_threads.to_string(),
            ]);
            text += &line(fields);
        }
    }
    text
}

/// A row for each cell and metric; a row without metric for each cell of which all samples failed.
pub(super) fn summary(study: &StudySummary<'_>) -> String {
    let axes = axes(study);
    let columns = [
        "metric",
        "unit",
        "n",
        "mean",
        "deviation",
        "median",
        "min",
        "max",
        "interval_low",
        "interval_high",
        "lower_bound",
        "upper_bound",
        "disturbed",
        "failed",
        "failure",
    ];
    let mut text = header(&axes, &columns);
    for experiment in &study.experiments {
        for cell in &experiment.cells {
            let head = || place(&experiment.record.id, &cell.controller.id, &cell.cell, &axes);
            for (name, metric) in &cell.metrics {
                let unit = experiment.unit_of(name);
                text +=
                    &line(head().into_iter().chain(statistics(cell, (name, unit), Some(metric))));
            }
            if cell.metrics.is_empty() {
                text += &line(head().into_iter().chain(statistics(cell, ("", ""), None)));
            }
        }
    }
    text
}

fn statistics(
    cell: &CellSummary<'_>,
    (name, unit): (&str, &str),
    metric: Option<&MetricSummary>,
) -> Vec<String> {
    let mut fields = vec![name.to_owned(), unit.to_owned()];
    match metric {
        None => fields.extend(["0", "", "", "", "", "", "", "", "", "", "0"].map(str::to_owned)),
        Some(metric) => {
            let statistics = metric.statistics();
            let [low, high] = metric.interval();
            let all = [
                statistics.mean,
                statistics.deviation,
                statistics.median,
                statistics.min,
                statistics.max,
                low,
                high,
            ];
            fields.push(metric.values.len().to_string());
            fields.extend(all.map(|it| it.to_string()));
            fields.push(metric.bound.is_lower.to_string());
            fields.push(metric.bound.is_upper.to_string());
            fields.push(metric.disturbed.to_string());
        }
    }
    let failures = cell.failures();
    fields.push(failures.values().sum::<usize>().to_string());
    fields.push(if cell.samples.is_empty() {
        "not measured".to_owned()
    } else {
        failures.keys().copied().collect::<Vec<_>>().join("; ")
    });
    fields
}

/// The axes of all cells.
fn axes(study: &StudySummary<'_>) -> Vec<Axis> {
    let planned = study.experiments.iter().flat_map(|it| &it.cells).flat_map(|it| it.cell.keys());
    let measured = study.samples.iter().flat_map(|it| it.cell.keys());
    ordered::<BTreeSet<_>, _>(planned.chain(measured).copied()).into_iter().collect()
}

/// The names of the columns: those of [`place`], and others.
fn header<'n>(axes: &[Axis], others: impl IntoIterator<Item = &'n &'n str>) -> String {
    let before = ["experiment", "controller"].map(str::to_owned).into_iter();
    let axes = axes.iter().map(|axis| axis_key(*axis));
    line(before.chain(axes).chain(others.into_iter().map(|it| (*it).to_owned())))
}

/// The columns that say to which cell a row belongs.
fn place(experiment: &str, controller: &str, cell: &Cell, axes: &[Axis]) -> Vec<String> {
    let value = |axis| cell.get(axis).map_or_else(String::new, ToString::to_string);
    let names = [experiment, controller].map(str::to_owned).into_iter();
    names.chain(axes.iter().map(value)).collect()
}

fn axis_key(axis: Axis) -> String {
    // A figure may have the same name.
    format!("axis_{}", axis.name().replace('-', "_"))
}

fn line(fields: impl IntoIterator<Item = String>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|field| csv(&field)).collect();
    fields.join(",") + "\r\n"
}
