//! Lines over a varied setting, with the interval of each point.

use super::super::figure_data::{FigureData, Panel};
use super::super::format as numbers;
use super::super::summary::MetricSummary;
use super::canvas::{CHARACTER, Canvas, Description, Margins};
use super::{Format, classes};
use sluice_base::sort_by;
use sluice_bench::html::Scale;

use super::scale::{VariedAxis, label};

/// Space at the left, right, top and bottom.
pub(super) const MARGINS: Margins = [84.0, 18.0, 14.0, 46.0];

pub(super) fn draw(
    data: &FigureData<'_, '_>,
    panel: &Panel<'_, '_>,
    (format, id): (Format, &str),
) -> String {
    let figure = data.figure;
    let unit = figure.unit.as_str();
    let varied = VariedAxis::new(&panel.xs);
    let mut canvas = Canvas::new(format.size());
    let [x, y] = canvas.area(MARGINS, varied.scale, metric_scale(data));
    let varied = varied.over(x.coordinates());
    let ticks = y.ticks(22.0).into_iter().map(|it| (it, numbers::tick(it, unit)));
    canvas.y_axis([x, y], &ticks.collect::<Vec<_>>(), &data.metric_name());
    canvas.x_axis([x, y], &varied.ticks(CHARACTER), data.x_name());
    let first = panel.xs.first();
    let mut texts = Vec::new();
    for series in &panel.series {
        let label_of = |x: Option<&_>| x.map(|it| format!(", {}", label(it))).unwrap_or_default();
        let points: Vec<_> = series
            .values(&figure.metric)
            .filter_map(|(at, metric)| {
                let place = x.at(varied.place(at.or(first)?));
                let tooltip =
                    format!("{}{}: {}", series.name.label, label_of(at), metric.text(unit));
                Some((place, metric, tooltip))
            })
            .collect();
        let mut points = points;
        sort_by(&mut points, |a, b| a.0.total_cmp(&b.0));
        let line: Vec<_> =
            points.iter().map(|(x, it, _)| [*x, y.at(it.statistics().mean)]).collect();
        let class = classes(&series.name);
        canvas.line(&class, &line, &series.name.label);
        for (place, metric, tooltip) in &points {
            point(&mut canvas, (*place, y), metric, (&class, series.name.style, tooltip));
        }
        texts.extend(points.into_iter().map(|(.., tooltip)| tooltip));
    }
    let title = super::title(data, panel);
    canvas.finish(&Description { id, title, text: texts.join("; ") })
}

/// The interval, the marker, and the sign of a bound beside it.
fn point(
    canvas: &mut Canvas,
    (x, y): (f64, Scale),
    metric: &MetricSummary,
    (class, style, tooltip): (&str, usize, &str),
) {
    let mean = y.at(metric.statistics().mean);
    canvas.interval(class, x, metric.interval().map(|bound| y.at(bound)));
    canvas.marker(style, [x, mean], tooltip);
    let sign = metric.bound.sign();
    if !sign.is_empty() {
        canvas.text([x + 7.0, mean - 5.0], "start", sign);
    }
}

/// The scale of the metric, the same in all panels.
pub(super) fn metric_scale(data: &FigureData<'_, '_>) -> Scale {
    let metric = data.figure.metric.as_str();
    let mut min = f64::INFINITY;
    let mut max = 0.0_f64;
    for series in data.panels.iter().flat_map(|panel| &panel.series) {
        for (_, it) in series.values(metric) {
            let [low, high] = it.interval();
            let mean = it.statistics().mean;
            min = [mean, low].into_iter().filter(|it| *it > 0.0).fold(min, f64::min);
            max = max.max(mean).max(high);
        }
    }
    if data.figure.logarithmic && min.is_finite() {
        Scale::round_logarithmic(min, max)
    } else {
        Scale::from_zero(max)
    }
}
