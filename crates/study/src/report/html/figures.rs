//! A figure or table with its caption, and what is missing in it.

use super::super::escape::html;
use super::super::figure_data::{FigureData, Panel};
use super::super::format::{self, Bound};
use super::super::summary::CellSummary;
use super::super::svg;
use super::super::trials::{TrialColumn, columns};
use super::figure_id;
use super::table::{Table, TableCell};
use crate::definition::{AxisValue, FigureKind};

/// A figure with its caption; `name` is unique in the page.
pub(super) fn figure(data: &FigureData<'_, '_>, name: &str) -> String {
    let figure = data.figure;
    let repeats =
        figure.repeats.as_ref().map(|it| format!(" Repeats {}.", html(it.trim_end_matches('.'))));
    let caption = format!(
        "<figcaption><strong>{}</strong> {}{} <span class=\"note\">{}</span></figcaption>\n",
        html(&figure.title),
        html(&figure.caption),
        repeats.unwrap_or_default(),
        note(data),
    );
    let body = match figure.kind {
        _ if !data.has_values() => "<p class=\"failed\">No values.</p>\n".to_owned(),
        FigureKind::Table => data.panels.iter().map(|panel| means(data, panel)).collect(),
        FigureKind::Trials => data.panels.iter().map(|panel| trials(data, panel)).collect(),
        _ => pictures(data, &format!("picture-{name}")),
    };
    let (failures, disturbed) = (failures(data), disturbed(data));
    let substitution = |text: &String| format!("<p class=\"failed\">{}</p>\n", html(text));
    let substitutions: String = data.substitutions.iter().map(substitution).collect();
    let id = figure_id(name);
    format!("<figure id=\"{id}\">\n{caption}{body}{disturbed}{substitutions}{failures}</figure>\n")
}

fn pictures(data: &FigureData<'_, '_>, id: &str) -> String {
    let pictures = svg::pictures(data, id);
    let titles = data.panels.iter().map(|panel| panel.title.as_str());
    let class = if pictures.len() > 1 { "panels" } else { "single" };
    let one = |(title, picture): (&str, &String)| {
        let heading =
            if title.is_empty() { String::new() } else { format!("<h4>{}</h4>\n", html(title)) };
        let label = html(&data.figure.title);
        format!(
            "<div>{heading}<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{label}\">{picture}</div></div>\n"
        )
    };
    let pictures: String = titles.zip(&pictures).map(one).collect();
    let legend = svg::legend(data);
    format!("<div class=\"{class}\">\n{pictures}</div>\n{legend}")
}

/// How to read the kind of figure.
fn note(data: &FigureData<'_, '_>) -> String {
    let note = match data.figure.kind {
        FigureKind::Lines | FigureKind::Bars => {
            "Mean of the samples; the error bars are the 95 % bootstrap interval of the mean, or the range of fewer than four samples."
        }
        FigureKind::Cdf => {
            "The median of the samples at each share of the requests, of which those without an answer are slower than all others: a line ends where the median has no answer."
        }
        FigureKind::Memory => {
            "The sample with the median peak of each cell; the marker is where the controller was ready."
        }
        FigureKind::Table => "Mean ± standard deviation of the samples.",
        FigureKind::Trials => "The variance divides by the number of trials − 1.",
    };
    let Bound { is_lower, is_upper } = data.bound();
    let lower = if is_lower {
        " ≥: a lower bound, since requests were not answered, or the load generator was the limit."
    } else {
        ""
    };
    let upper = match (is_lower, is_upper) {
        (_, false) => "",
        (false, true) => " ≤: an upper bound, since the load generator was the limit.",
        (true, true) => {
            " ≤: an upper bound, since the load generator was the limit; ≈: it may be both."
        }
    };
    format!("{note}{lower}{upper}")
}

/// How many samples were disturbed, with the mark of their values if these have one.
fn disturbed(data: &FigureData<'_, '_>) -> String {
    let mark = match data.figure.kind {
        FigureKind::Bars | FigureKind::Table | FigureKind::Trials => "†: ",
        FigureKind::Lines | FigureKind::Cdf | FigureKind::Memory => "",
    };
    let sentence = |text: &String| format!("<p class=\"note\">{mark}{}</p>\n", html(text));
    data.disturbed.as_ref().map(sentence).unwrap_or_default()
}

fn failures(data: &FigureData<'_, '_>) -> String {
    if data.failures.is_empty() {
        return String::new();
    }
    let item = |text: &String| format!("<li>{}</li>\n", html(text));
    let items: String = data.failures.iter().map(item).collect();
    format!("<ul class=\"failed\">\n{items}</ul>\n")
}

/// A table without rows, whose caption is visible if it says more than that of the figure.
fn table_of(
    data: &FigureData<'_, '_>,
    panel: &Panel<'_, '_>,
    headings: impl Iterator<Item = String>,
) -> Table {
    let table = Table::new(&svg::title(data, panel), headings);
    if panel.title.is_empty() { table.below_heading() } else { table }
}

/// A row for each series, a column for each value of `x`.
fn means(data: &FigureData<'_, '_>, panel: &Panel<'_, '_>) -> String {
    let figure = data.figure;
    let columns: Vec<_> =
        if panel.xs.is_empty() { vec![None] } else { panel.xs.iter().map(Some).collect() };
    let heading = |x: Option<&AxisValue>| data.x_text(x).unwrap_or_else(|| data.metric_name());
    let headings =
        std::iter::once("Controller".to_owned()).chain(columns.iter().copied().map(heading));
    let mut table = table_of(data, panel, headings);
    for series in &panel.series {
        let mut row = vec![TableCell::Head(series.name.label.clone())];
        for column in &columns {
            let cell = series.cells.iter().find(|(x, _)| x.as_ref() == *column);
            row.push(cell.map_or_else(
                || TableCell::Number("–".to_owned()),
                |(_, cell)| mean_cell(cell, &figure.metric, &figure.unit),
            ));
        }
        table.row(row);
    }
    table.finish()
}

/// Mean and standard deviation, or why there are none.
pub(super) fn mean_cell(cell: &CellSummary<'_>, metric: &str, unit: &str) -> TableCell {
    let Some(summary) = cell.metrics.get(metric) else {
        return TableCell::Failed(cell.absence(metric).unwrap_or_default());
    };
    let mean = summary.mean_text(unit);
    if summary.values.len() < 2 {
        return TableCell::Number(mean);
    }
    TableCell::Number(format!("{mean} ± {}", format::value(summary.statistics().deviation, unit)))
}

/// A row for each trial, then average and variance; a column for each series and value of `x`.
fn trials(data: &FigureData<'_, '_>, panel: &Panel<'_, '_>) -> String {
    let unit = data.figure.unit.as_str();
    let columns = columns(data, panel);
    let headings = columns.iter().map(|column| column.title.clone());
    let headings = std::iter::once("Trial".to_owned()).chain(headings);
    let mut table = table_of(data, panel, headings);
    let rounds = columns.iter().map(|column| column.trials.len()).max().unwrap_or_default();
    for round in 0..rounds {
        let mut row = vec![TableCell::Head((round + 1).to_string())];
        for column in &columns {
            row.push(match column.trials.get(round) {
                Some(Ok(value)) => TableCell::Number(value.text(unit)),
                Some(Err(reason)) => TableCell::Failed(reason.clone()),
                None => TableCell::Text("not measured".to_owned()),
            });
        }
        table.row(row);
    }
    let mut last = |name: &str, text: &dyn Fn(&TrialColumn<'_>) -> Option<String>| {
        let none = || TableCell::Text("–".to_owned());
        let cells = columns.iter().map(|it| text(it).map_or_else(none, TableCell::Number));
        table.row(std::iter::once(TableCell::Head(name.to_owned())).chain(cells).collect());
    };
    last("Average", &|column| Some(column.summary?.mean_text(unit)));
    let unit_squared = if unit.is_empty() { String::new() } else { format!(" ({unit})²") };
    last("Variance", &|column| {
        let deviation = column.summary?.statistics().deviation;
        Some(format!("{}{unit_squared}", format::value(deviation * deviation, "")))
    });
    table.finish()
}
