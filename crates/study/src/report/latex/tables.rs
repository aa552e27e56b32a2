//! Tables of booktabs.

use super::super::escape::latex;
use super::super::figure_data::{FigureData, Panel};
use super::super::format::{self, bound_mark};
use super::super::summary::axis_name;
use super::super::trials::columns;
use crate::definition::AxisValue;

/// Mean and deviation; a row for each series, a column for each value of `x`. One table for each panel.
pub(super) fn means(data: &FigureData<'_, '_>) -> String {
    let figure = data.figure;
    let table = |panel: &Panel<'_, '_>| {
        let xs: Vec<_> =
            if panel.xs.is_empty() { vec![None] } else { panel.xs.iter().map(Some).collect() };
        let heading = |x: Option<&AxisValue>| match (x, figure.x) {
            (Some(value), Some(axis)) => format!("{} {value}", axis_name(axis)),
            _ => data.metric_name(),
        };
        let headings =
            std::iter::once("Controller".to_owned()).chain(xs.iter().copied().map(heading));
        let row = |series: &super::super::figure_data::Series<'_, '_>| {
            let value = |x: Option<&AxisValue>| {
                let Some((_, cell)) = series.cells.iter().find(|(it, _)| it.as_ref() == x) else {
                    return "–".to_owned();
                };
                let Some(metric) = cell.metrics.get(figure.metric.as_str()) else {
                    return cell.absence(&figure.metric).unwrap_or_default();
                };
                let mean = metric.mean_text(&figure.unit);
                if metric.values.len() < 2 {
                    return mean;
                }
                format!("{mean} ± {}", format::value(metric.statistics().deviation, &figure.unit))
            };
            std::iter::once(series.name.label.clone())
                .chain(xs.iter().copied().map(value))
                .collect()
        };
        tabular(&headings.collect::<Vec<_>>(), &[panel.series.iter().map(row).collect()])
    };
    with_titles(data, table)
}

/// A row for each trial, then average and variance; a column for each series.
pub(super) fn trials(data: &FigureData<'_, '_>) -> String {
    let unit = data.figure.unit.as_str();
    let table = |panel: &Panel<'_, '_>| {
        let columns = columns(data, panel);
        let headings = std::iter::once("Trial".to_owned())
            .chain(columns.iter().map(|column| column.title.clone()));
        let rounds = columns.iter().map(|column| column.trials.len()).max().unwrap_or_default();
        let row = |round: usize| {
            let value =
                |column: &super::super::trials::TrialColumn<'_>| match column.trials.get(round) {
                    Some(Ok((value, is_bound))) => {
                        format!("{}{}", bound_mark(*is_bound), format::value(*value, unit))
                    }
                    Some(Err(reason)) => reason.clone(),
                    None => "not measured".to_owned(),
                };
            std::iter::once((round + 1).to_string()).chain(columns.iter().map(value)).collect()
        };
        let last = |name: &str, text: &dyn Fn(f64, f64) -> String| -> Vec<String> {
            let value = |column: &super::super::trials::TrialColumn<'_>| {
                column.summary.map_or_else(
                    || "–".to_owned(),
                    |it| text(it.statistics().mean, it.statistics().deviation),
                )
            };
            std::iter::once(name.to_owned()).chain(columns.iter().map(value)).collect()
        };
        let summary = vec![
            last("Average", &|mean, _| format::value(mean, unit)),
            last("Variance", &|_, deviation| {
                let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})²") };
                format!("{}{unit}", format::value(deviation * deviation, ""))
            }),
        ];
        tabular(&headings.collect::<Vec<_>>(), &[(0..rounds).map(row).collect(), summary])
    };
    with_titles(data, table)
}

/// The table of each panel, below its title.
fn with_titles(data: &FigureData<'_, '_>, table: impl Fn(&Panel<'_, '_>) -> String) -> String {
    if let [panel] = data.panels.as_slice() {
        return table(panel);
    }
    let one = |panel: &Panel<'_, '_>| format!("{}\\\\\n{}", latex(&panel.title), table(panel));
    let tables: Vec<_> = data.panels.iter().map(one).collect();
    format!("\\begin{{tabular}}{{@{{}}l@{{}}}}\n{}\\end{{tabular}}\n", tables.join("\\\\[1ex]\n"))
}

/// A table with rules between groups of rows.
fn tabular(headings: &[String], groups: &[Vec<Vec<String>>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| latex(cell)).collect();
        format!("{} \\\\\n", cells.join(" & "))
    };
    let groups: Vec<String> =
        groups.iter().map(|rows| rows.iter().map(|row| line(row)).collect()).collect();
    format!(
        "\\begin{{tabular}}{{l{}}}\n\\toprule\n{}\\midrule\n{}\\bottomrule\n\\end{{tabular}}\n",
        "r".repeat(headings.len().saturating_sub(1)),
        line(headings),
        groups.join("\\midrule\n")
    )
}
