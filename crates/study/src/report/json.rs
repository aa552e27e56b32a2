//! The summary of a study as data.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_base::ordered;

use super::check::problems;
use super::headline::ProcessSummary;
use super::processes::{self, ProcessGroup};
use super::summary::{CellSummary, ExperimentSummary, MetricSummary, StudySummary};
use crate::definition::Cell;
use crate::record::{ControllerRecord, Machine};

/// Name and version of the format, the value of the field `schema`.
pub const SCHEMA: &str = "sluice-study-report/1";

#[derive(Serialize)]
struct ReportDocument<'s> {
    schema: &'static str,
    version: &'s str,
    started_at: &'s str,
    command: &'s [String],
    is_short: bool,
    machine: &'s Machine,
    samples: usize,
    controllers: Vec<ControllerDocument<'s>>,
    experiments: Vec<ExperimentDocument<'s>>,
    /// Reasons to distrust what is measured on the machine.
    warnings: Vec<String>,
    /// What is missing in the study.
    problems: Vec<String>,
}

#[derive(Serialize)]
struct ControllerDocument<'s> {
    id: &'s str,
    title: &'s str,
    language: &'s str,
    application: &'s str,
    missing: Option<&'s str>,
    version: Option<&'s str>,
    command: &'s str,
    start_up_s: Option<f64>,
    /// Greatest uncertainty of the start-up times of the samples.
    start_up_resolution_s: f64,
    restarts: u32,
    peak_resident_mib: Option<f64>,
    samples_tried: usize,
    samples_observed: usize,
    samples_survived: usize,
    processes: Vec<ProcessGroup<'s>>,
}

#[derive(Serialize)]
struct ExperimentDocument<'s> {
    id: &'s str,
    title: &'s str,
    rounds: u32,
    cells: Vec<CellDocument<'s>>,
}

#[derive(Serialize)]
struct CellDocument<'s> {
    controller: &'s str,
    cell: &'s Cell,
    samples: usize,
    /// Samples that were disturbed and taken again.
    repeated: usize,
    /// Samples that were disturbed, and were not taken again.
    disturbed: usize,
    /// Number of samples by reason of failure.
    failures: BTreeMap<&'s str, usize>,
    metrics: BTreeMap<&'s str, MetricDocument<'s>>,
}

#[derive(Serialize)]
struct MetricDocument<'s> {
    unit: &'s str,
    n: usize,
    mean: f64,
    deviation: f64,
    median: f64,
    min: f64,
    max: f64,
    /// 95 % bootstrap interval of the mean, or the range of fewer than four values.
    interval: [f64; 2],
    lower_bound: bool,
    upper_bound: bool,
    /// How many of the values are of disturbed samples.
    disturbed: usize,
    values: &'s [f64],
}

/// The document, indented.
pub(super) fn document(study: &StudySummary<'_>) -> serde_json::Result<String> {
    let record = study.record;
    let document = ReportDocument {
        schema: SCHEMA,
        version: &record.version,
        started_at: &record.started_at,
        command: &record.command,
        is_short: record.is_short,
        machine: &record.machine,
        samples: study.samples.len(),
        controllers: record.controllers.iter().map(|it| controller(study, it)).collect(),
        experiments: study.experiments.iter().map(experiment).collect(),
        warnings: record.machine.warnings(),
        problems: problems(study),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn controller<'s>(
    study: &StudySummary<'s>,
    controller: &'s ControllerRecord,
) -> ControllerDocument<'s> {
    let ProcessSummary {
        start_up_s,
        start_up_resolution_s,
        restarts,
        peak_mib,
        tried,
        observed,
        survived,
    } = ProcessSummary::of(study.samples, &controller.id);
    ControllerDocument {
        id: &controller.id,
        title: &controller.row.title,
        language: &controller.row.language,
        application: &controller.row.application,
        missing: controller.missing.as_deref(),
        version: controller.version.as_deref(),
        command: &controller.command,
        start_up_s,
        start_up_resolution_s,
        restarts,
        peak_resident_mib: peak_mib,
        samples_tried: tried,
        samples_observed: observed,
        samples_survived: survived,
        processes: processes::of_controller(study.samples, &controller.id),
    }
}

fn experiment<'a>(experiment: &'a ExperimentSummary<'_>) -> ExperimentDocument<'a> {
    let cell = |cell: &'a CellSummary<'_>| CellDocument {
        controller: &cell.controller.id,
        cell: &cell.cell,
        samples: cell.samples.len(),
        repeated: cell.repeated.len(),
        disturbed: cell.samples.iter().filter(|sample| sample.machine.is_disturbed).count(),
        failures: cell.failures(),
        metrics: ordered(
            (cell.metrics.iter())
                .map(|(name, summary)| (*name, metric(summary, experiment.unit_of(name)))),
        ),
    };
    ExperimentDocument {
        id: &experiment.record.id,
        title: &experiment.record.experiment.title,
        rounds: experiment.record.experiment.rounds,
        cells: experiment.cells.iter().map(cell).collect(),
    }
}

fn metric<'a>(metric: &'a MetricSummary, unit: &'a str) -> MetricDocument<'a> {
    let statistics = metric.statistics();
    MetricDocument {
        unit,
        n: metric.values.len(),
        mean: statistics.mean,
        deviation: statistics.deviation,
        median: statistics.median,
        min: statistics.min,
        max: statistics.max,
        interval: metric.interval(),
        lower_bound: metric.bound.is_lower,
        upper_bound: metric.bound.is_upper,
        disturbed: metric.disturbed,
        values: &metric.values,
    }
}
