//! Tables of booktabs.

use super::super::escape::latex;
use super::super::figure_data::{FigureData, Panel, Series};
use super::super::format;
use super::super::summary::CellSummary;
use super::super::trials::{TrialColumn, columns};
use crate::definition::AxisValue;

/// Mean and deviation; a row for each series, a column for each value of `x`. One table for each panel.
pub(super) fn means(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let mut notes = Notes::new(data);
    let mut table = |panel: &Panel<'_, '_>| {
        let xs: Vec<_> =
            if panel.xs.is_empty() { vec![None] } else { panel.xs.iter().map(Some).collect() };
        let heading = |x: Option<&AxisValue>| data.x_text(x).unwrap_or_else(|| data.metric_name());
        let headings =
            std::iter::once("Controller".to_owned()).chain(xs.iter().copied().map(heading));
        let mut value = |series: &Series<'_, '_>, x: Option<&AxisValue>| {
            let cell = series.cells.iter().find(|(it, _)| it.as_ref() == x);
            cell.map_or_else(
                || latex("–"),
                |(_, cell)| mean(cell, (&figure.metric, &figure.unit), &mut notes),
            )
        };
        let mut row = |series: &Series<'_, '_>| -> Vec<String> {
            let values: Vec<_> = xs.iter().map(|x| value(series, *x)).collect();
            std::iter::once(latex(&series.name.label)).chain(values).collect()
        };
        let rows = panel.series.iter().map(&mut row).collect();
        tabular(&headings.collect::<Vec<_>>(), &[rows])
    };
    let tables: Vec<_> = data.panels.iter().map(&mut table).collect();
    with_titles(data, &tables, &notes)
}

/// Mean and deviation of a cell, or a mark.
fn mean(cell: &CellSummary<'_>, (metric, unit): (&str, &str), notes: &mut Notes) -> String {
    let Some(summary) = cell.metrics.get(metric) else {
        return notes.mark(cell.absence(metric).unwrap_or_default());
    };
    let mean = summary.mean_text(unit);
    if summary.values.len() < 2 {
        return latex(&mean);
    }
    latex(&format!("{mean} ± {}", format::value(summary.statistics().deviation, unit)))
}

/// A row for each trial, then average and variance; a column for each series.
pub(super) fn trials(data: &FigureData<'_, '_>) -> String {
    let unit = data.figure.unit.as_str();
    let mut notes = Notes::new(data);
    let mut table = |panel: &Panel<'_, '_>| {
        let columns = columns(data, panel);
        let headings = std::iter::once("Trial".to_owned())
            .chain(columns.iter().map(|column| column.title.clone()));
        let rounds = columns.iter().map(|column| column.trials.len()).max().unwrap_or_default();
        let mut value = |column: &TrialColumn<'_>, round: usize| match column.trials.get(round) {
            Some(Ok(value)) => latex(&value.text(unit)),
            Some(Err(reason)) => notes.mark(reason.clone()),
            None => notes.mark("not measured".to_owned()),
        };
        let mut row = |round: usize| -> Vec<String> {
            let values: Vec<_> = columns.iter().map(|column| value(column, round)).collect();
            std::iter::once((round + 1).to_string()).chain(values).collect()
        };
        let last = |name: &str, text: &dyn Fn(&TrialColumn<'_>) -> Option<String>| -> Vec<String> {
            let value = |column| latex(&text(column).unwrap_or_else(|| "–".to_owned()));
            std::iter::once(name.to_owned()).chain(columns.iter().map(value)).collect()
        };
        let summary = vec![
            last("Average", &|column| Some(column.summary?.mean_text(unit))),
            last("Variance", &|column| {
                let deviation = column.summary?.statistics().deviation;
                let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})²") };
                Some(format!("{}{unit}", format::value(deviation * deviation, "")))
            }),
        ];
        let trials = (0..rounds).map(&mut row).collect();
        tabular(&headings.collect::<Vec<_>>(), &[trials, summary])
    };
    let tables: Vec<_> = data.panels.iter().map(&mut table).collect();
    with_titles(data, &tables, &notes)
}

/// What is too long for cells: reasons for missing values, each with a letter that stands for it, and what the mark of disturbed samples means.
#[derive(Debug, Default)]
struct Notes {
    reasons: Vec<String>,
    disturbed: Option<String>,
}

impl Notes {
    fn new(data: &FigureData<'_, '_>) -> Self {
        Self { reasons: Vec::new(), disturbed: data.disturbed.clone() }
    }

    /// The mark of a reason, for a cell.
    fn mark(&mut self, reason: String) -> String {
        let at = self.reasons.iter().position(|it| *it == reason).unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        });
        format!("--\\textsuperscript{{{}}}", letters(at))
    }

    /// A line for each of them, to go below a table; empty if there are none.
    fn text(&self) -> String {
        let line = |(at, reason): (usize, &String)| {
            format!("\\textsuperscript{{{}}}~{}", letters(at), latex(reason))
        };
        let reasons = self.reasons.iter().enumerate().map(line);
        let disturbed = self.disturbed.iter().map(|it| format!("{}~{}", latex("†"), latex(it)));
        let lines: Vec<_> = reasons.chain(disturbed).collect();
        if lines.is_empty() {
            return String::new();
        }
        format!(
            "\\parbox[t]{{12cm}}{{\\raggedright\\footnotesize {}}}\\\\\n",
            lines.join("\\newline\n")
        )
    }
}

/// `a` to `z`, then `aa` and so on.
fn letters(number: usize) -> String {
    let letter = u8::try_from(number % 26).unwrap_or_default();
    let last = char::from(b'a' + letter);
    match number / 26 {
        0 => last.to_string(),
        before => format!("{}{last}", letters(before - 1)),
    }
}

/// The table of each panel, below its title, and the notes below all of them.
fn with_titles(data: &FigureData<'_, '_>, tables: &[String], notes: &Notes) -> String {
    let notes = notes.text();
    if let ([table], true) = (tables, notes.is_empty()) {
        return table.clone();
    }
    let one = |(panel, table): (&Panel<'_, '_>, &String)| {
        if panel.title.is_empty() {
            table.clone()
        } else {
            format!("{}\\\\\n{table}", latex(&panel.title))
        }
    };
    let tables: Vec<_> = data.panels.iter().zip(tables).map(one).collect();
    let notes = if notes.is_empty() { notes } else { format!("\\\\[1ex]\n{notes}") };
    format!(
        "\\begin{{tabular}}{{@{{}}l@{{}}}}\n{}{notes}\\end{{tabular}}\n",
        tables.join("\\\\[1ex]\n")
    )
}

/// A table with rules between groups of rows, whose cells are LaTeX already.
fn tabular(headings: &[String], groups: &[Vec<Vec<String>>]) -> String {
    let line = |cells: &[String]| format!("{} \\\\\n", cells.join(" & "));
    let headings: Vec<_> = headings.iter().map(|heading| latex(heading)).collect();
    let groups: Vec<String> =
        groups.iter().map(|rows| rows.iter().map(|row| line(row)).collect()).collect();
    format!(
        "\\begin{{tabular}}{{l{}}}\n\\toprule\n{}\\midrule\n{}\\bottomrule\n\\end{{tabular}}\n",
        "r".repeat(headings.len().saturating_sub(1)),
        line(&headings),
        groups.join("\\midrule\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_have_one_note() {
        let mut notes = Notes::default();
        let marks =
            ["failed: a & b", "not measured", "failed: a & b"].map(|it| notes.mark(it.to_owned()));
        assert_eq!(marks, ["a", "b", "a"].map(|it| format!("--\\textsuperscript{{{it}}}")));
        let text = notes.text();
        assert_eq!(text.matches("failed: a \\& b").count(), 1, "{text}");
        assert_eq!([0, 25, 26, 51, 52].map(letters), ["a", "z", "aa", "az", "ba"]);
    }
}
