//! Published values beside the measured ones.

use sluice_base::sort_by;

use super::super::escape::html;
use super::super::format;
use super::super::summary::{CellSummary, ExperimentSummary, cell_text, is_same_value};
use super::table::{Table, TableCell};
use crate::definition::{AxisValue, Figure, PublishedValue, PublishedValues};

/// A table of all published values of `figure`, with what was measured of each controller below them; empty if there are none.
pub(super) fn tables(experiment: &ExperimentSummary<'_>, figure: &Figure) -> String {
    let all = experiment.record.experiment.published.iter();
    let all: Vec<_> = all.filter(|it| it.figure == figure.id).collect();
    if all.is_empty() { String::new() } else { table(experiment, figure, &all) }
}

/// A sentence for each source of values of a figure that does not exist.
pub(super) fn of_unknown_figures(experiment: &ExperimentSummary<'_>) -> String {
    let definition = &experiment.record.experiment;
    let is_known = |id: &str| definition.figures.iter().any(|figure| figure.id == id);
    let unknown = definition.published.iter().filter(|it| !is_known(&it.figure));
    let one = |it: &PublishedValues| {
        let (figure, source) = (html(&it.figure), html(&it.source));
        format!(
            "<p class=\"failed\">Published values of an unknown figure: {figure} ({source}).</p>\n"
        )
    };
    unknown.map(one).collect()
}

fn table(
    experiment: &ExperimentSummary<'_>,
    figure: &Figure,
    sources: &[&PublishedValues],
) -> String {
    let columns = columns(figure, sources);
    let heading = |x: &Option<AxisValue>| match (x, figure.x) {
        (Some(value), Some(axis)) => format!("{} {value}", experiment.axis_name(axis)),
        _ => "Value".to_owned(),
    };
    let headings = std::iter::once("Controller".to_owned()).chain(columns.iter().map(heading));
    let mut table = Table::new(&format!("Published values: {}", figure.title), headings);
    for (number, source) in (1..).zip(sources) {
        for series in series_of(source) {
            let name = if sources.len() > 1 {
                format!("{series}, published [{number}]")
            } else {
                format!("{series}, published")
            };
            let cell =
                |x: &Option<AxisValue>| published_cell(source, (series, x.as_ref()), &figure.unit);
            let cells = columns.iter().map(cell);
            table.row(std::iter::once(TableCell::Head(name)).chain(cells).collect());
        }
    }
    for controller in experiment.controllers.iter().filter(|it| it.missing.is_none()) {
        let head = TableCell::Head(format!("{}, measured here", controller.row.title));
        let cell =
            |x: &Option<AxisValue>| measured_cell(experiment, figure, (&controller.id, x.as_ref()));
        table.row(std::iter::once(head).chain(columns.iter().map(cell)).collect());
    }
    let note = |(number, published): (usize, &&PublishedValues)| {
        let number = if sources.len() > 1 { format!("[{number}] ") } else { String::new() };
        let (source, conditions) = (html(&published.source), html(&published.conditions));
        let conditions = conditions.trim_end_matches('.');
        format!("<p class=\"note\">{number}Source: {source}. Conditions: {conditions}.</p>\n")
    };
    let notes: String = (1..).zip(sources).map(note).collect();
    let table = table.finish();
    let disturbed = if table.contains('†') { " †: with disturbed samples." } else { "" };
    format!(
        "<div class=\"published\">\n{table}{notes}<p class=\"note\">The machines and methods differ, so that the ratios between controllers say \
         more than the values. –: not published, or not measured in this study.{disturbed}</p>\n</div>\n"
    )
}

/// The values of `x` for which something was published, ascending if they are numbers; a single `None` if the figure has no `x`.
fn columns(figure: &Figure, sources: &[&PublishedValues]) -> Vec<Option<AxisValue>> {
    if figure.x.is_none() {
        return vec![None];
    }
    let mut columns: Vec<Option<AxisValue>> = Vec::new();
    for value in sources.iter().flat_map(|source| &source.values) {
        if !columns.iter().any(|x| is_same_x(x.as_ref(), value.x.as_ref())) {
            columns.push(value.x.clone());
        }
    }
    let number = |x: &Option<AxisValue>| x.as_ref().and_then(AxisValue::as_number);
    sort_by(&mut columns, |a, b| match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => std::cmp::Ordering::Equal,
    });
    columns
}

/// The controllers of a source, in its order.
fn series_of(source: &PublishedValues) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for value in &source.values {
        if !all.contains(&value.series.as_str()) {
            all.push(&value.series);
        }
    }
    all
}

/// What a source says about a controller with the value `x`. Several values, as of several runs, are all shown.
fn published_cell(
    source: &PublishedValues,
    (series, x): (&str, Option<&AxisValue>),
    unit: &str,
) -> TableCell {
    let is_here =
        |it: &&PublishedValue| it.series == series && (x.is_none() || is_same_x(it.x.as_ref(), x));
    let text = |value: &PublishedValue| {
        let deviation = value.deviation.map(|it| format!(" ± {}", format::value(it, unit)));
        format!("{}{}", format::value(value.y, unit), deviation.unwrap_or_default())
    };
    let values: Vec<_> = source.values.iter().filter(is_here).map(text).collect();
    if values.is_empty() {
        TableCell::Number("–".to_owned())
    } else {
        TableCell::Number(values.join(", "))
    }
}

fn is_same_x(first: Option<&AxisValue>, second: Option<&AxisValue>) -> bool {
    match (first, second) {
        (Some(first), Some(second)) => is_same_value(first, second),
        (first, second) => first.is_none() && second.is_none(),
    }
}

/// What was measured of a controller with the value `x`, in all panels.
fn measured_cell(
    experiment: &ExperimentSummary<'_>,
    figure: &Figure,
    (controller, x): (&str, Option<&AxisValue>),
) -> TableCell {
    let has_x = |cell: &crate::definition::Cell| match (figure.x, x) {
        (Some(axis), Some(x)) => cell.get(&axis).is_some_and(|it| is_same_value(it, x)),
        _ => true,
    };
    let cells: Vec<_> = experiment
        .cells_of(figure)
        .into_iter()
        .filter(|it| it.controller.id == controller && has_x(&it.cell))
        .collect();
    let text = |cell: &CellSummary<'_>| {
        let metric = cell.metrics.get(figure.metric.as_str());
        metric.map_or_else(
            // The reason is in the list below the figure.
            || {
                let absence = cell.absence(&figure.metric).unwrap_or_default();
                absence.split(':').next().unwrap_or_default().to_owned()
            },
            |it| it.mean_text(&figure.unit),
        )
    };
    match cells.as_slice() {
        [] => TableCell::Number("–".to_owned()),
        [cell] if cell.metrics.contains_key(figure.metric.as_str()) => {
            TableCell::Number(text(cell))
        }
        [cell] => TableCell::Failed(text(cell)),
        several => {
            let one = |cell: &&CellSummary<'_>| {
                let mut rest = cell.cell.clone();
                rest.retain(|axis, _| Some(*axis) != figure.x && !figure.only.contains_key(axis));
                format!("{}: {}", html(&cell_text(cell.measure, &rest)), html(&text(cell)))
            };
            TableCell::Markup(several.iter().map(one).collect::<Vec<_>>().join("<br>"))
        }
    }
}
