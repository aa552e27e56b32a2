//! Bars with the names of the controllers beside them, in groups by a varied setting.

use super::super::figure_data::{FigureData, Panel, Series};
use super::super::format as numbers;
use super::super::summary::CellSummary;
use super::canvas::{CHARACTER, Canvas, Description, shortened, width_of};
use super::lines::metric_scale;
use super::{COLORS, Format};
use crate::definition::AxisValue;
use sluice_bench::html::Scale;

/// Height of a bar with the space below it.
const ROW: f64 = 22.0;

/// Height of the heading of a group.
const HEADING: f64 = 22.0;

/// Widest names at the left, as a share of the picture.
const NAMES_SHARE_MAX: f64 = 0.32;

pub(super) fn draw(
    data: &FigureData<'_, '_>,
    panel: &Panel<'_, '_>,
    (format, id): (Format, &str),
) -> String {
    let groups: Vec<Option<&AxisValue>> =
        if panel.xs.is_empty() { vec![None] } else { panel.xs.iter().map(Some).collect() };
    let members = |group: Option<&AxisValue>| {
        let in_group =
            |series: &&Series<'_, '_>| series.cells.iter().any(|(x, _)| x.as_ref() == group);
        panel.series.iter().filter(in_group).count()
    };
    let has_headings = !panel.xs.is_empty();
    let rows: usize = groups.iter().map(|group| members(*group)).sum();
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let headings = if has_headings { count(groups.len()) * (HEADING + 6.0) } else { 0.0 };
    let width = format.width();
    let height = 52.0 + count(rows) * ROW + headings;
    let names = data.legend.iter().map(|it| width_of(&it.label)).fold(0.0, f64::max);
    let names_max = NAMES_SHARE_MAX * width;
    let names = names.min(names_max) + 10.0;
    let mut canvas = Canvas::new([width, height]);
    // The values are written to the right of the longest bar.
    let [x, y] =
        canvas.area([names, 104.0, 6.0, 46.0], metric_scale(data), Scale::linear(0.0, 1.0));
    axis(&mut canvas, [x, y], data);
    let mut at = 8.0;
    let mut texts = Vec::new();
    for group in groups {
        if let Some(heading) = data.x_text(group) {
            canvas.classed_text("group", [4.0, at + 15.0], "start", &heading);
            at += HEADING;
        }
        for series in &panel.series {
            let Some((_, cell)) = series.cells.iter().find(|(x, _)| x.as_ref() == group) else {
                continue;
            };
            let name = shortened(&series.name.label, names_max);
            canvas.text([names - 8.0, at + 14.5], "end", &name);
            let text = bar(&mut canvas, (x, at), cell, (data, series));
            texts.push(format!("{}: {text}", series.name.label));
            at += ROW;
        }
        at += if has_headings { 6.0 } else { 0.0 };
    }
    let title = super::title(data, panel);
    canvas.finish(&Description { id, title, text: texts.join("; ") })
}

/// The bar of a cell, its interval and its value, or why there is none. Returns what it shows.
fn bar(
    canvas: &mut Canvas,
    (x, at): (Scale, f64),
    cell: &CellSummary<'_>,
    (data, series): (&FigureData<'_, '_>, &Series<'_, '_>),
) -> String {
    let figure = data.figure;
    let [start, end] = x.coordinates();
    let Some(metric) = cell.metrics.get(figure.metric.as_str()) else {
        let reason = cell.absence(&figure.metric).unwrap_or_default();
        let width = canvas.size[0] - start - 8.0;
        canvas.classed_text(
            "failed",
            [start + 4.0, at + 14.5],
            "start",
            &shortened(&reason, width),
        );
        return reason;
    };
    let text = metric.text(&figure.unit);
    let tooltip = format!("{}: {text}", series.name.label);
    let mean = x.at(metric.statistics().mean);
    let class = format!("bar c{}", series.name.style % COLORS);
    canvas.rectangle(&class, [start, at + 3.0], [mean - start, ROW - 7.0], &tooltip);
    let interval = metric.interval().map(|bound| x.at(bound));
    canvas.interval_across("ink", at + 3.0 + (ROW - 7.0) / 2.0, interval);
    let [_, high] = interval;
    let label = metric.mean_text(&figure.unit);
    canvas.text([high.max(mean).min(end) + 8.0, at + 14.5], "start", &label);
    text
}

/// Labels and lines of the metric's axis, below the bars.
fn axis(canvas: &mut Canvas, [x, y]: [Scale; 2], data: &FigureData<'_, '_>) {
    let ([x0, x1], [y0, y1]) = (x.coordinates(), y.coordinates());
    let ticks: Vec<_> =
        x.ticks(58.0).into_iter().map(|it| (it, numbers::tick(it, &data.figure.unit))).collect();
    for (value, _) in &ticks {
        let at = x.at(*value);
        canvas.segment("grid", [at, y1], [at, y0]);
    }
    canvas.x_axis([x, y], &ticks, "");
    let [width, height] = canvas.size;
    let name = data.metric_name();
    let half = width_of(&name) / 2.0;
    let middle = x0.midpoint(x1).min(width - half).max(half);
    let name = shortened(&name, width - CHARACTER);
    canvas.classed_text("name", [middle, height - 6.0], "middle", &name);
}
