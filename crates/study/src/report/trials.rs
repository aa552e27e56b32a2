//! The columns of a table of trials.

use super::figure_data::{FigureData, Panel};
use super::summary::{MetricSummary, SampleValue};

/// The trials of one series.
#[derive(Debug)]
pub(crate) struct TrialColumn<'a> {
    pub(crate) title: String,
    /// The value of each, or why there is none.
    pub(crate) trials: Vec<Result<SampleValue, String>>,
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
    )| TrialColumn {
        title: series.name.label.clone(),
        trials: cell.samples.iter().map(|it| SampleValue::of(it, metric)).collect(),
        summary: cell.metrics.get(metric),
    };
    cells.map(column).collect()
}
