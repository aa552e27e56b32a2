//! Cumulative distributions of latencies: the median of the rounds at each share, up to the share that was answered.

use super::super::distribution::quantile_function;
use super::super::figure_data::{FigureData, Panel, Series};
use super::super::format as numbers;
use super::canvas::{Canvas, Description};
use super::lines::MARGINS;
use super::{Format, classes_without_markers};
use sluice_bench::html::Scale;

pub(super) fn draw(
    data: &FigureData<'_, '_>,
    panel: &Panel<'_, '_>,
    (format, id): (Format, &str),
) -> String {
    let figure = data.figure;
    let curves = curves(panel);
    if curves.is_empty() {
        return String::new();
    }
    // The same axes in all panels.
    let all: Vec<_> = data.panels.iter().flat_map(self::curves).collect();
    let latencies = || all.iter().flat_map(|(_, curve)| curve).map(|(_, latency)| *latency);
    let min = latencies().filter(|it| *it > 0.0).fold(f64::INFINITY, f64::min);
    let max = latencies().fold(0.0, f64::max);
    if !min.is_finite() {
        return String::new();
    }
    let mut canvas = Canvas::new(format.size());
    let scales = [Scale::round_logarithmic(min, max), Scale::linear(0.0, 1.0)];
    let [x, y] = canvas.area(MARGINS, scales[0], scales[1]);
    let shares = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0].map(|it| (it, format!("{it}")));
    canvas.y_axis([x, y], &shares, "share of requests");
    let ticks = x.ticks(56.0).into_iter().map(|it| (it, numbers::tick(it, "us")));
    let name = if figure.label.is_empty() { "latency" } else { &figure.label };
    canvas.x_axis([x, y], &ticks.collect::<Vec<_>>(), name);
    let mut texts = Vec::new();
    for (series, curve) in &curves {
        let points = curve.iter().map(|(share, latency)| [x.at(*latency), y.at(*share)]);
        let points: Vec<_> = points.collect();
        canvas.line(&classes_without_markers(&series.name), &points, &series.name.label);
        let at = |share: f64| {
            let found = curve.iter().find(|(it, _)| *it >= share);
            found.map_or_else(
                || "not reached".to_owned(),
                |(_, latency)| numbers::value(*latency, "us"),
            )
        };
        texts.push(format!(
            "{}: median {}, 99th percentile {}",
            series.name.label,
            at(0.5),
            at(0.99)
        ));
    }
    canvas.finish(&Description { id, title: super::title(data, panel), text: texts.join("; ") })
}

/// The series of a panel with its shares and latencies.
fn curves<'p, 'a, 's>(panel: &'p Panel<'a, 's>) -> Vec<(&'p Series<'a, 's>, Vec<(f64, f64)>)> {
    let cells = panel
        .series
        .iter()
        .flat_map(|series| series.cells.iter().map(move |(_, cell)| (series, cell)));
    let curves = cells.map(|(series, cell)| (series, quantile_function(cell.successful())));
    curves.filter(|(_, curve)| !curve.is_empty()).collect()
}
