//! A comparison as text and as JSON.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use super::{Change, Comparison, Row, UnmatchedCell};
use crate::definition::Cell;
use crate::report::format::{self, Bound, THIN_SPACE};

/// Name and version of the format, the value of the field `schema`.
pub const SCHEMA: &str = "sluice-study-compare/2";

/// Columns of the text.
const WIDTH: usize = 80;

/// Columns of a label.
const LABEL: usize = 13;

/// Most rows without a difference and cells without a counterpart that are listed without `{:#}`.
const LISTED_MAX: usize = 20;

impl fmt::Display for Comparison {
    /// Formats the rows that differ significantly, or all of them with `{:#}`; at most 80 columns wide.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = &self.names;
        entry(f, "First", first)?;
        entry(f, "Second", second)?;
        let [known, different] = self.significant();
        let unknown = self.rows.len() - known;
        let unknown = if unknown == 0 {
            String::new()
        } else {
            format!("; {unknown} have too few samples, or are bounds, so that it cannot be told")
        };
        entry(
            f,
            "Rows",
            &format!(
                "{known} with an interval, of which {different} differ significantly; {:.0} % of the comparisons in which nothing has changed \
                 show no difference{unknown}",
                100.0 * (1.0 - self.expected_by_chance())
            ),
        )?;
        for warning in &self.warnings {
            entry(f, "Warning", warning)?;
        }
        let is_shown =
            |row: &&Row| f.alternate() || !matches!(row.change(), Change::None | Change::Unknown);
        table(f, &self.rows.iter().filter(is_shown).collect::<Vec<_>>())?;
        unmatched(f, &self.unmatched)
    }
}

/// A label and a text, wrapped between words.
fn entry(f: &mut fmt::Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    for (number, line) in wrapped(text, WIDTH - LABEL).iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        writeln!(f, "{}", format!("{label:<LABEL$}{line}").trim_end())?;
    }
    Ok(())
}

/// `text` in lines of at most `width` characters; longer words are split.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        while !letters.is_empty() {
            let rest = letters.split_off(letters.len().min(width));
            let part: String = letters.iter().collect();
            letters = rest;
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = part,
                Some(line) if line.chars().count() + 1 + part.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[&Row]) -> fmt::Result {
    let mut before: Option<&Row> = None;
    for row in rows {
        if before.is_none_or(|it| it.experiment != row.experiment) {
            writeln!(f)?;
            let name = shortened(&row.experiment, 23);
            writeln!(
                f,
                "{name:<24}{:<12}{:<12}{:<7}{:<13} Second",
                "First", "Second", "Ratio", "Interval"
            )?;
        }
        if before
            .is_none_or(|it| it.experiment != row.experiment || it.cell_text() != row.cell_text())
        {
            for line in wrapped(&row.cell_text(), WIDTH - 1) {
                writeln!(f, " {line}")?;
            }
        }
        writeln!(f, "{}", line(row).trim_end())?;
        before = Some(row);
    }
    Ok(())
}

fn line(row: &Row) -> String {
    let value = |mean: f64, is_lower, is_upper| {
        let sign = Bound { is_lower, is_upper }.sign();
        format!("{sign}{}", format::value(mean, &row.unit).replace(THIN_SPACE, " "))
    };
    let ([a, b], [a_least, b_least], [a_most, b_most]) = (row.means, row.at_least, row.at_most);
    let ratio = match (row.ratio, row.ratio_bounds()) {
        (None, _) | (_, [true, true]) => "none".to_owned(),
        (Some(ratio), [false, false]) => factor(ratio),
        (Some(ratio), [false, true]) => format!("≥{}", factor(ratio)),
        (Some(ratio), [true, false]) => format!("≤{}", factor(ratio)),
    };
    let interval = row
        .interval
        .map_or_else(|| "none".to_owned(), |it| format!("{}–{}", factor(it.low), factor(it.high)));
    format!(
        "  {:<22}{:<12}{:<12}{ratio:<7}{interval:<13} {}",
        shortened(&row.metric, 21),
        value(a, a_least, a_most),
        value(b, b_least, b_most),
        change(row.change())
    )
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::Worse => "worse",
        Change::Different => "differs",
        Change::None => "same",
        Change::Unknown => "unknown",
    }
}

/// A ratio in at most five columns.
fn factor(n: f64) -> String {
    match n {
        n if n < 10.0 => format!("{n:.3}"),
        n if n < 99.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        _ => ">1e5".to_owned(),
    }
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn unmatched(f: &mut fmt::Formatter<'_>, cells: &[UnmatchedCell]) -> fmt::Result {
    let shown = if f.alternate() { cells.len() } else { LISTED_MAX };
    for (study, name) in ["first", "second"].into_iter().enumerate() {
        let own: Vec<_> = cells.iter().filter(|it| it.study == study).collect();
        if own.is_empty() {
            continue;
        }
        writeln!(f, "\nCells with values in the {name} study only: {}", own.len())?;
        for it in own.iter().take(shown) {
            let values = &it.values;
            let values = if values.is_empty() { String::new() } else { format!(", {values}") };
            let text = format!("{}: {}{values}: {}", it.experiment, it.controller, it.reason);
            for (number, line) in wrapped(&text, WIDTH - 4).iter().enumerate() {
                writeln!(f, "{}{line}", if number == 0 { "  " } else { "    " })?;
            }
        }
        if own.len() > shown {
            writeln!(f, "  and {} more", own.len() - shown)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct ComparisonDocument<'c> {
    schema: &'static str,
    names: &'c [String; 2],
    significant: usize,
    expected_by_chance: f64,
    rows: Vec<RowDocument<'c>>,
    unmatched: Vec<UnmatchedDocument<'c>>,
    warnings: &'c [String],
}

#[derive(Serialize)]
struct RowDocument<'c> {
    experiment: &'c str,
    controller: &'c str,
    cell: &'c Cell,
    metric: &'c str,
    unit: &'c str,
    better: Option<&'static str>,
    samples: [usize; 2],
    means: [f64; 2],
    at_least: [bool; 2],
    at_most: [bool; 2],
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    joint_interval: Option<[f64; 2]>,
    change: &'static str,
}

#[derive(Serialize)]
struct UnmatchedDocument<'c> {
    experiment: &'c str,
    controller: &'c str,
    cell: &'c Cell,
    study: &'static str,
    reason: &'c str,
}

impl<'c> From<&'c Row> for RowDocument<'c> {
    fn from(row: &'c Row) -> Self {
        let bounds = |it: sluice_bench::ConfidenceInterval| [it.low, it.high];
        Self {
            experiment: &row.experiment,
            controller: &row.controller,
            cell: &row.cell,
            metric: &row.metric,
            unit: &row.unit,
            better: row.direction.name(),
            samples: row.samples,
            means: row.means,
            at_least: row.at_least,
            at_most: row.at_most,
            ratio: row.ratio,
            interval: row.interval.map(bounds),
            joint_interval: row.joint_interval.map(bounds),
            change: change(row.change()),
        }
    }
}

impl<'c> From<&'c UnmatchedCell> for UnmatchedDocument<'c> {
    fn from(cell: &'c UnmatchedCell) -> Self {
        Self {
            experiment: &cell.experiment,
            controller: &cell.controller,
            cell: &cell.cell,
            study: if cell.study == 0 { "first" } else { "second" },
            reason: &cell.reason,
        }
    }
}

impl Comparison {
    /// Writes the comparison as one line of JSON.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_json(&self, to: &mut dyn Write) -> io::Result<()> {
        let document = ComparisonDocument {
            schema: SCHEMA,
            names: &self.names,
            significant: self.significant()[1],
            expected_by_chance: self.expected_by_chance(),
            rows: self.rows.iter().map(RowDocument::from).collect(),
            unmatched: self.unmatched.iter().map(UnmatchedDocument::from).collect(),
            warnings: &self.warnings,
        };
        serde_json::to_writer(&mut *to, &document)?;
        to.write_all(b"\n")
    }
}
