//! The columns of a table of trials.

use super::figure_data::{FigureData, Panel};
use super::summary::MetricSummary;

/// The trials of one series.
#[derive(Debug)]
pub(crate) struct TrialColumn<'a> {
    pub(crate) title: String,
    /// The value and whether it is a lower bound, or why there is none.
    pub(crate) trials: Vec<Result<(f64, bool), String>>,
    pub(crate) summary: Option<&'a MetricSummary>,
}

/// The columns of a panel, in the order of its series.
pub(crate) fn columns<'p>(
    data: &'p FigureData<'_, '_>,
    panel: &'p Panel<'_, '_>,
) -> Vec<TrialColumn<'p>> {
    let metric = data.figure.metric.as_str();
    let cells = panel
        .series
        .iter()
        .flat_map(|series| series.cells.iter().map(move |(_, cell)| (series, *cell)));
    let column = |(series, cell): (
        &super::figure_data::Series<'_, '_>,
        &'p super::summary::CellSummary<'_>,
    )| {
        let trial = |sample: &&crate::record::Sample| {
            if let Some(reason) = &sample.failure {
                return Err(format!("failed: {reason}"));
            }
            let value = sample.figures.get(metric).ok_or_else(|| "no value".to_owned())?;
            Ok((*value, sample.lower_bounds.iter().any(|it| it == metric)))
        };
        TrialColumn {
            title: series.name.label.clone(),
            trials: cell.samples.iter().map(trial).collect(),
            summary: cell.metrics.get(metric),
        }
    };
    cells.map(column).collect()
}
