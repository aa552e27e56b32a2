//! Resident memory over time.

use super::super::figure_data::{FigureData, Panel, Series};
use super::super::format as numbers;
use super::super::memory::{peak_mib, resident_mib, typical_sample};
use super::canvas::{Canvas, Description};
use super::lines::MARGINS;
use super::{Format, classes_without_markers};
use crate::record::Sample;
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
    let points = || all.iter().flat_map(|(_, sample)| resident_mib(sample));
    let latest = points().map(|(at_s, _)| at_s).fold(0.0, f64::max);
    let max = points().map(|(_, mib)| mib).fold(0.0, f64::max);
    let min = points().map(|(_, mib)| mib).filter(|it| *it > 0.0).fold(max, f64::min);
    let y =
        if figure.logarithmic { Scale::round_logarithmic(min, max) } else { Scale::from_zero(max) };
    let mut canvas = Canvas::new(format.size());
    let [x, y] = canvas.area(MARGINS, Scale::linear(0.0, latest.max(1e-3)), y);
    let ticks = y.ticks(22.0).into_iter().map(|it| (it, numbers::tick(it, "MiB")));
    let name = if figure.label.is_empty() { "resident memory" } else { &figure.label };
    canvas.y_axis([x, y], &ticks.collect::<Vec<_>>(), name);
    let ticks = x.ticks(52.0).into_iter().map(|it| (it, numbers::tick(it, "s")));
    canvas.x_axis([x, y], &ticks.collect::<Vec<_>>(), "time since the start of the controller");
    let mut texts = Vec::new();
    for (series, sample) in curves {
        let points: Vec<_> =
            resident_mib(sample).map(|(at_s, mib)| [x.at(at_s), y.at(mib)]).collect();
        canvas.line(&classes_without_markers(&series.name), &points, &series.name.label);
        let start_up_s = sample.usage.as_ref().map_or(0.0, |usage| usage.start_up_s);
        let after = resident_mib(sample).find(|(at_s, _)| *at_s >= start_up_s);
        let start_up = numbers::value(start_up_s, "s");
        if let Some((_, mib)) = after {
            let tooltip = format!("{}: ready after {start_up}", series.name.label);
            canvas.marker(series.name.style, [x.at(start_up_s), y.at(mib)], &tooltip);
        }
        let peak = numbers::value(peak_mib(sample).unwrap_or_default(), "MiB");
        texts.push(format!("{}: ready after {start_up}, peak {peak}", series.name.label));
    }
    let title = super::title(data, panel);
    canvas.finish(&Description { id, title, text: texts.join("; ") })
}

/// The series of a panel with the sample that is drawn of each cell.
fn curves<'p, 'a, 's>(panel: &'p Panel<'a, 's>) -> Vec<(&'p Series<'a, 's>, &'s Sample)> {
    let cells = panel
        .series
        .iter()
        .flat_map(|series| series.cells.iter().map(move |(_, cell)| (series, cell)));
    cells.filter_map(|(series, cell)| Some((series, typical_sample(cell)?))).collect()
}
