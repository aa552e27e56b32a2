//! What is missing or unknown in a study.

use super::failures::SentenceGroup;
use super::figure_data::FigureData;
use super::summary::{ExperimentSummary, StudySummary};
use crate::record::{SCHEMA, Sample, StudyRecord};

/// What is missing or unknown in a study, as sentences: figures without a value, cells with fewer samples than rounds, published values
/// of unknown figures, samples of unknown experiments or controllers. Controllers that were not found are no problem.
pub fn check(record: &StudyRecord, samples: &[Sample]) -> Vec<String> {
    problems(&StudySummary::new(record, samples))
}

/// As [`check`], of a study whose statistics are known.
pub(super) fn problems(study: &StudySummary<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    if study.record.schema != SCHEMA {
        let schema = &study.record.schema;
        problems.push(format!("the study has the schema `{schema}`, expected `{SCHEMA}`"));
    }
    for experiment in &study.experiments {
        figures(experiment, &mut problems);
        cells(experiment, &mut problems);
    }
    unknown_samples(study, &mut problems);
    problems
}

fn figures(experiment: &ExperimentSummary<'_>, problems: &mut Vec<String>) {
    let (id, definition) = (&experiment.record.id, &experiment.record.experiment);
    for figure in &definition.figures {
        let data = FigureData::new(experiment, figure);
        if !data.has_values() {
            let metric = &figure.metric;
            let what = if metric.is_empty() {
                String::new()
            } else {
                format!(" of the metric `{metric}`")
            };
            problems.push(format!("{id}: figure `{}` has no values{what}", figure.id));
        }
    }
    for published in &definition.published {
        if !definition.figures.iter().any(|figure| figure.id == published.figure) {
            let known: Vec<_> = definition.figures.iter().map(|it| it.id.as_str()).collect();
            problems.push(format!(
                "{id}: published values of the unknown figure `{}` (known: {})",
                published.figure,
                known.join(", ")
            ));
        }
    }
}

fn cells(experiment: &ExperimentSummary<'_>, problems: &mut Vec<String>) {
    let (id, rounds) = (&experiment.record.id, experiment.record.experiment.rounds as usize);
    for cell in &experiment.cells {
        let n = cell.successful().count();
        if cell.controller.missing.is_some() || n >= rounds {
            continue;
        }
        let values = cell.text();
        let values = if values.is_empty() { String::new() } else { format!(", {values}") };
        let reasons: Vec<_> = cell.failure_groups().iter().map(SentenceGroup::text).collect();
        let failures = if reasons.is_empty() {
            String::new()
        } else {
            format!("; failed: {}", reasons.join("; "))
        };
        problems.push(format!(
            "{id}: {}{values}: {n} of {rounds} samples{failures}",
            cell.controller.id
        ));
    }
}

fn unknown_samples(study: &StudySummary<'_>, problems: &mut Vec<String>) {
    let is_known = |sample: &Sample| {
        study.record.experiments.iter().any(|it| it.id == sample.experiment)
            && study.record.controllers.iter().any(|it| it.id == sample.controller)
    };
    let unknown: Vec<_> = study.samples.iter().filter(|sample| !is_known(sample)).collect();
    if let Some(first) = unknown.first() {
        problems.push(format!(
            "{} samples are of experiments or controllers that are not in the plan, such as {} of {}",
            unknown.len(),
            first.experiment,
            first.controller
        ));
    }
}
