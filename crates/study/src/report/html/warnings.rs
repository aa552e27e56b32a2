//! Reasons to distrust figures, and failed cells: equal ones together.

use std::collections::BTreeMap;

use sluice_base::sort_by_key;

use super::super::escape::html;
use super::super::failures::SentenceGroup;
use super::super::format::counted;
use super::super::summary::StudySummary;

/// Most cells that are named for one failure.
const CELLS_MAX: usize = 12;

/// The section of warnings and failures; says so if there are none.
pub(super) fn section(study: &StudySummary<'_>) -> String {
    let warnings = warnings(study);
    let failures = failures(study);
    if warnings.is_empty() && failures.is_empty() {
        return "<h2>Warnings</h2>\n<p>None: no sample failed, and none has a warning.</p>\n"
            .to_owned();
    }
    let list = |title: &str, items: &[String]| {
        if items.is_empty() {
            return String::new();
        }
        let item = |markup: &String| format!("<li>{markup}</li>\n");
        let items: String = items.iter().map(item).collect();
        format!("<h3>{title}</h3>\n<ul>\n{items}</ul>\n")
    };
    format!(
        "<section class=\"warnings\" aria-labelledby=\"warnings\">\n<h2 id=\"warnings\">Warnings</h2>\n{}{}</section>\n",
        list("Failed or missing samples", &failures),
        list("Reasons to distrust figures", &warnings)
    )
}

/// Samples with warnings that differ only in their numbers.
struct WarningGroup<'s> {
    warning: SentenceGroup<'s>,
    by_controller: BTreeMap<&'s str, usize>,
}

fn warnings(study: &StudySummary<'_>) -> Vec<String> {
    let mut groups: BTreeMap<String, WarningGroup<'_>> = BTreeMap::new();
    let cells = study.experiments.iter().flat_map(|experiment| &experiment.cells);
    for (cell, sample) in cells.flat_map(|cell| cell.samples.iter().map(move |it| (cell, *it))) {
        for warning in &sample.warnings {
            let single = SentenceGroup::new(warning);
            let group = groups
                .entry(single.pattern())
                .and_modify(|group| group.warning.add(warning))
                .or_insert_with(|| WarningGroup {
                    warning: single,
                    by_controller: BTreeMap::new(),
                });
            *group.by_controller.entry(&cell.controller.row.title).or_default() += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    sort_by_key(&mut groups, |group| std::cmp::Reverse(group.warning.count));
    let one = |group: &WarningGroup<'_>| {
        let controllers =
            group.by_controller.iter().map(|(title, n)| format!("{} ({n})", html(title)));
        let controllers = controllers.collect::<Vec<_>>().join(", ");
        let samples = counted(group.warning.count, "sample", "samples");
        format!("{}: <strong>{samples}</strong> of {controllers}", html(&group.warning.text()))
    };
    let of_machine = study.record.machine.warnings();
    of_machine.iter().map(|warning| html(warning)).chain(groups.iter().map(one)).collect()
}

/// The cells of a controller in an experiment that have failed in the same way.
struct FailureGroup<'s> {
    /// Experiment and controller.
    head: String,
    /// What is before the reason, such as `failed: `.
    kind: &'static str,
    reason: SentenceGroup<'s>,
    samples: usize,
    cells: Vec<String>,
}

fn failures(study: &StudySummary<'_>) -> Vec<String> {
    let mut groups: Vec<FailureGroup<'_>> = Vec::new();
    for experiment in &study.experiments {
        for cell in &experiment.cells {
            let title = &experiment.record.experiment.title;
            let head =
                format!("{}, <strong>{}</strong>", html(title), html(&cell.controller.row.title));
            let rounds = experiment.record.experiment.rounds as usize;
            let missing = rounds.saturating_sub(cell.samples.len());
            let failed = cell.failure_groups().into_iter().map(|it| ("failed: ", it.count, it));
            let missing = (missing > 0).then(|| ("", missing, SentenceGroup::new("not measured")));
            for (kind, samples, reason) in failed.chain(missing) {
                let is_same = |it: &&mut FailureGroup<'_>| {
                    it.head == head && it.kind == kind && it.reason.pattern() == reason.pattern()
                };
                if let Some(same) = groups.iter_mut().find(is_same) {
                    same.reason.merge(&reason);
                    same.samples += samples;
                    same.cells.push(cell.text());
                } else {
                    let (head, cells) = (head.clone(), vec![cell.text()]);
                    groups.push(FailureGroup { head, kind, reason, samples, cells });
                }
            }
        }
    }
    groups.iter().map(failure).collect()
}

fn failure(group: &FailureGroup<'_>) -> String {
    let FailureGroup { head, kind, reason, samples, cells } = group;
    let named: Vec<_> =
        cells.iter().filter(|it| !it.is_empty()).take(CELLS_MAX).map(|it| html(it)).collect();
    let more = cells.len().saturating_sub(CELLS_MAX);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let cells =
        if named.is_empty() { String::new() } else { format!(" ({}{more})", named.join("; ")) };
    let samples = counted(*samples, "sample", "samples");
    format!("{head}: {kind}{}: {samples}{cells}", html(&reason.text()))
}
