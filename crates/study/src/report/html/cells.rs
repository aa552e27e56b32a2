//! The data of each cell and each sample, in parts that can be opened.

use sluice_base::sort_by_key;

use super::super::format::{self, THIN_SPACE, counted};
use super::super::summary::{
    CellSummary, ExperimentSummary, INTERVAL_VALUES_MIN, MetricSummary, SampleValue,
};
use super::table::{Table, TableCell, headings};
use crate::record::Sample;

pub(super) fn details(experiment: &ExperimentSummary<'_>) -> String {
    let samples: usize =
        experiment.cells.iter().map(|it| it.samples.len() + it.repeated.len()).sum();
    let part = |title: &str, content: &str| {
        format!("<details><summary>{title}</summary>\n{content}</details>\n")
    };
    let cells = counted(experiment.cells.len(), "cell", "cells");
    part(&format!("Data of {cells}"), &statistics(experiment))
        + &part(&format!("Each of {}", counted(samples, "sample", "samples")), &each(experiment))
}

/// A row for each cell and metric, and one for each cell without a value.
fn statistics(experiment: &ExperimentSummary<'_>) -> String {
    let names = [
        "Controller",
        "Cell",
        "Metric",
        "n",
        "Mean",
        "Deviation",
        "Median",
        "95 % interval",
        "Samples",
    ];
    let mut table = Table::new("Data of each cell", headings(names)).below_heading();
    for cell in &experiment.cells {
        let head = || {
            vec![TableCell::Head(cell.controller.row.title.clone()), TableCell::Text(cell.text())]
        };
        for (name, metric) in &cell.metrics {
            let mut row = head();
            row.extend(statistics_of(name, metric, experiment.unit_of(name)));
            row.push(TableCell::Text(values(cell, name, experiment.unit_of(name))));
            table.row(row);
        }
        let rounds = experiment.record.experiment.rounds as usize;
        let missing = rounds.saturating_sub(cell.samples.len());
        let failures = cell.failure_groups().into_iter();
        let failures = failures.map(|it| (format!("failed: {}", it.text()), it.count));
        let missing = (missing > 0).then(|| ("not measured".to_owned(), missing));
        for (reason, n) in failures.chain(missing) {
            let mut row = head();
            row.extend([TableCell::Failed(reason), TableCell::Number(n.to_string())]);
            table.row(row);
        }
    }
    table.finish()
}

fn statistics_of(name: &str, metric: &MetricSummary, unit: &str) -> Vec<TableCell> {
    let value = |it: f64| format::value(it, unit);
    let [low, high] = metric.interval().map(value);
    let mark = metric.bound.mark();
    let statistics = metric.statistics();
    let interval = match metric.values.len() {
        1 => "–".to_owned(),
        2..INTERVAL_VALUES_MIN => format!("range {low} to {high}"),
        _ => format!("{low} to {high}"),
    };
    vec![
        TableCell::Text(name.to_owned()),
        TableCell::Number(metric.values.len().to_string()),
        TableCell::Number(metric.mean_text(unit)),
        TableCell::Number(value(statistics.deviation)),
        TableCell::Number(format!("{mark}{}", value(statistics.median))),
        TableCell::Number(interval),
    ]
}

/// The value of each round, with marks of lower bounds and disturbed samples.
fn values(cell: &CellSummary<'_>, metric: &str, unit: &str) -> String {
    let one = |sample: &&Sample| {
        let value = SampleValue::of(sample, metric);
        value.map_or_else(|_| "failed".to_owned(), |value| value.text(unit))
    };
    cell.samples.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A row for each sample, those that were repeated included.
fn each(experiment: &ExperimentSummary<'_>) -> String {
    let names = [
        "Controller",
        "Cell",
        "Round",
        "Attempt",
        "Started",
        "Duration",
        "Result",
        "Restarts",
        "Other load",
        "Steal",
        "Warnings",
        "Command",
    ];
    let mut table = Table::new("Each sample", headings(names)).below_heading();
    for cell in &experiment.cells {
        let mut all: Vec<_> = cell.samples.iter().chain(&cell.repeated).copied().collect();
        sort_by_key(&mut all, |sample| (sample.round, sample.attempt));
        for sample in all {
            let is_repeated = cell.repeated.iter().any(|it| std::ptr::eq(*it, sample));
            table.row(sample_row(cell, sample, is_repeated.then_some("disturbed and repeated")));
        }
    }
    table.finish()
}

fn sample_row(cell: &CellSummary<'_>, sample: &Sample, replaced: Option<&str>) -> Vec<TableCell> {
    let result = match (&sample.failure, replaced, sample.machine.is_disturbed) {
        (Some(reason), replaced, _) => {
            let replaced = replaced.map_or_else(String::new, |text| format!("; {text}"));
            TableCell::Failed(format!("failed: {reason}{replaced}"))
        }
        (None, Some(text), _) => TableCell::Text(text.to_owned()),
        (None, None, true) => TableCell::Text("disturbed †".to_owned()),
        (None, None, false) => TableCell::Text("ok".to_owned()),
    };
    let cores = |n: f64| TableCell::Number(format!("{}{THIN_SPACE}cores", format::three_digits(n)));
    vec![
        TableCell::Head(cell.controller.row.title.clone()),
        TableCell::Text(cell.text()),
        TableCell::Number((sample.round + 1).to_string()),
        TableCell::Number((sample.attempt + 1).to_string()),
        TableCell::Text(sample.started_at.clone()),
        TableCell::Number(format::value(sample.elapsed_s, "s")),
        result,
        TableCell::Number(sample.restarts.to_string()),
        cores(sample.machine.other_cores),
        cores(sample.machine.stolen_cores),
        TableCell::Text(sample.warnings.join("; ")),
        TableCell::Text(sample.command.clone()),
    ]
}
