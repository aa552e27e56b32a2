//! Reasons to distrust figures, and failed cells: equal ones together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::escape::html;
use super::super::format::counted;
use super::super::summary::{StudySummary, cell_text};

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

/// What a warning says, without the numbers in it.
fn pattern(sentence: &str) -> String {
    let mut pattern = String::new();
    for c in sentence.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && pattern.ends_with('#'));
        if !is_number {
            pattern.push(c);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

/// Samples with a warning of one pattern.
#[derive(Default)]
struct Group<'s> {
    example: &'s str,
    sentences: BTreeSet<&'s str>,
    samples: usize,
    by_controller: BTreeMap<&'s str, usize>,
}

fn warnings(study: &StudySummary<'_>) -> Vec<String> {
    let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
    let cells = study.experiments.iter().flat_map(|experiment| &experiment.cells);
    for (cell, sample) in cells.flat_map(|cell| cell.samples.iter().map(move |it| (cell, *it))) {
        for warning in &sample.warnings {
            let group = groups.entry(pattern(warning)).or_default();
            group.example = warning;
            group.sentences.insert(warning);
            group.samples += 1;
            *group.by_controller.entry(&cell.controller.row.title).or_default() += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.samples));
    let one = |group: &Group<'_>| {
        let others = group.sentences.len() - 1;
        let others =
            if others == 0 { String::new() } else { format!(" (and {others} with other numbers)") };
        let controllers =
            group.by_controller.iter().map(|(title, n)| format!("{} ({n})", html(title)));
        let controllers = controllers.collect::<Vec<_>>().join(", ");
        let samples = counted(group.samples, "sample", "samples");
        format!("{}{others}: <strong>{samples}</strong> of {controllers}", html(group.example))
    };
    groups.iter().map(one).collect()
}

fn failures(study: &StudySummary<'_>) -> Vec<String> {
    let mut groups: Vec<(String, usize, Vec<String>)> = Vec::new();
    for experiment in &study.experiments {
        for cell in &experiment.cells {
            let head = |text: &str| {
                let title = &experiment.record.experiment.title;
                format!(
                    "{}, <strong>{}</strong>: {}",
                    html(title),
                    html(&cell.controller.row.title),
                    html(text)
                )
            };
            let rounds = experiment.record.experiment.rounds as usize;
            let missing = rounds.saturating_sub(cell.samples.len());
            let failures = cell.failures();
            let failures = failures.into_iter().map(|(reason, n)| (format!("failed: {reason}"), n));
            let missing = (missing > 0).then(|| ("not measured".to_owned(), missing));
            for (text, n) in failures.chain(missing) {
                let head = head(&text);
                let values = cell_text(&cell.cell);
                match groups.iter_mut().find(|(it, ..)| *it == head) {
                    Some((_, samples, cells)) => {
                        *samples += n;
                        cells.push(values);
                    }
                    None => groups.push((head, n, vec![values])),
                }
            }
        }
    }
    let one = |(head, n, cells): (String, usize, Vec<String>)| {
        let named: Vec<_> =
            cells.iter().filter(|it| !it.is_empty()).take(CELLS_MAX).map(|it| html(it)).collect();
        let more = cells.len().saturating_sub(CELLS_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let cells =
            if named.is_empty() { String::new() } else { format!(" ({}{more})", named.join("; ")) };
        format!("{head}: {}{cells}", counted(n, "sample", "samples"))
    };
    groups.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_with_other_numbers_are_the_same() {
        assert_eq!(pattern("busy 97.5 % of 10 s"), "busy # % of # s");
        assert_eq!(pattern("no numbers."), "no numbers.");
    }
}
