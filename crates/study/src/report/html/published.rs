//! Published values beside the measured ones.

use super::super::escape::html;
use super::super::format;
use super::super::summary::{ExperimentSummary, axis_name, cell_text, is_same_value};
use super::table::{Table, TableCell};
use crate::definition::{AxisValue, Figure, PublishedValues};

/// A table for each source of published values of `figure`.
pub(super) fn tables(experiment: &ExperimentSummary<'_>, figure: &Figure) -> String {
    let all = experiment.record.experiment.published.iter();
    all.filter(|it| it.figure == figure.id).map(|it| table(experiment, figure, it)).collect()
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
    published: &PublishedValues,
) -> String {
    let unit = figure.unit.as_str();
    let mut headings = vec!["Published for".to_owned()];
    headings.extend(figure.x.map(|axis| axis_name(axis).to_owned()));
    headings.push("Published value".to_owned());
    let measured = experiment.controllers.iter().filter(|it| it.missing.is_none());
    let measured: Vec<_> = measured.collect();
    headings.extend(measured.iter().map(|it| format!("{}, measured here", it.row.title)));
    let mut table = Table::new(&format!("Published values: {}", figure.title), headings);
    for value in &published.values {
        let mut row = vec![TableCell::Head(value.series.clone())];
        if figure.x.is_some() {
            let x = value.x.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
            row.push(TableCell::Number(x));
        }
        let deviation = value.deviation.map(|it| format!(" ± {}", format::value(it, unit)));
        let text = format!("{}{}", format::value(value.y, unit), deviation.unwrap_or_default());
        row.push(TableCell::Number(text));
        for controller in &measured {
            row.push(measured_cell(experiment, figure, (&controller.id, value.x.as_ref())));
        }
        table.row(row);
    }
    let (source, conditions) = (html(&published.source), html(&published.conditions));
    format!(
        "<div class=\"published\">\n{}<p class=\"note\">Source: {source}. Conditions: {conditions}. The machines and methods differ, so that \
         the ratios between controllers say more than the values. –: not measured in this study.</p>\n</div>\n",
        table.finish()
    )
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
    let text = |cell: &super::super::summary::CellSummary<'_>| {
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
        [] => TableCell::Text("–".to_owned()),
        [cell] if cell.metrics.contains_key(figure.metric.as_str()) => {
            TableCell::Number(text(cell))
        }
        [cell] => TableCell::Failed(text(cell)),
        several => {
            let one = |cell: &&super::super::summary::CellSummary<'_>| {
                let mut rest = cell.cell.clone();
                rest.retain(|axis, _| Some(*axis) != figure.x && !figure.only.contains_key(axis));
                format!("{}: {}", html(&cell_text(&rest)), html(&text(cell)))
            };
            TableCell::Markup(several.iter().map(one).collect::<Vec<_>>().join("<br>"))
        }
    }
}
