//! The figures of the summary: start-up, memory, throughput and latency of each controller.

use std::mem::discriminant;

use super::format::{Quantity, quantity_of};
use super::memory::peak_mib;
use super::summary::{CellSummary, ExperimentSummary, MetricSummary, StudySummary};
use crate::definition::{Figure, Measure};
use crate::record::Sample;

/// What all samples of a controller say about its processes.
#[derive(Debug, Default)]
pub(crate) struct ProcessSummary {
    /// Mean time from the start until it was ready, in seconds.
    pub(crate) start_up_s: Option<f64>,
    /// Greatest uncertainty of these times, in seconds.
    pub(crate) start_up_resolution_s: f64,
    /// How often it was started again, since it had ended before it was ready.
    pub(crate) restarts: u32,
    /// Greatest resident memory in MiB.
    pub(crate) peak_mib: Option<f64>,
    /// Samples that were taken, also if the start failed: not those that were left out after failures.
    pub(crate) tried: usize,
    /// Samples in which it was ready, and of which it is therefore known how it ended.
    pub(crate) observed: usize,
    /// Samples in which it ran until it was stopped.
    pub(crate) survived: usize,
}

impl ProcessSummary {
    pub(crate) fn of(samples: &[Sample], controller: &str) -> Self {
        let of_controller = || samples.iter().filter(|sample| sample.controller == controller);
        let usages: Vec<_> = of_controller().filter_map(|sample| sample.usage.as_ref()).collect();
        let start_ups: Vec<_> = usages.iter().map(|usage| usage.start_up_s).collect();
        let n = f64::from(u32::try_from(start_ups.len()).unwrap_or(u32::MAX));
        let peaks = of_controller().filter_map(peak_mib);
        Self {
            start_up_s: (!start_ups.is_empty()).then(|| start_ups.iter().sum::<f64>() / n),
            start_up_resolution_s: usages
                .iter()
                .map(|usage| usage.start_up_resolution_s)
                .fold(0.0, f64::max),
            restarts: of_controller().map(|sample| sample.restarts).sum(),
            peak_mib: peaks.reduce(f64::max),
            // A sample that was left out has no command.
            tried: of_controller().filter(|sample| !sample.command.is_empty()).count(),
            observed: usages.len(),
            survived: usages.iter().filter(|usage| usage.survived).count(),
        }
    }
}

/// The figure from which a column of the summary is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Headline<'a, 's> {
    pub(crate) experiment: &'a ExperimentSummary<'s>,
    pub(crate) figure: &'a Figure,
    is_higher_better: bool,
}

impl<'a, 's> Headline<'a, 's> {
    /// The figure with a rate of packet-ins that says so, or the first, of which a controller has a value.
    pub(crate) fn throughput(study: &'a StudySummary<'s>) -> Option<Self> {
        Self::find(study, Quantity::Rate, true)
    }

    /// The figure with a time of packet-ins that says so, or the first, of which a controller has a value.
    pub(crate) fn latency(study: &'a StudySummary<'s>) -> Option<Self> {
        Self::find(study, Quantity::Time(1.0), false)
    }

    fn find(study: &'a StudySummary<'s>, what: Quantity, is_higher_better: bool) -> Option<Self> {
        let benches = study
            .experiments
            .iter()
            .filter(|experiment| matches!(experiment.record.experiment.measure, Measure::Bench(_)));
        let figures = benches.flat_map(|experiment| {
            experiment.record.experiment.figures.iter().map(move |figure| (experiment, figure))
        });
        let fits = |(experiment, figure): &(&ExperimentSummary<'_>, &Figure)| {
            discriminant(&quantity_of(&figure.unit)) == discriminant(&what)
                && experiment
                    .cells_of(figure)
                    .iter()
                    .any(|cell| cell.metrics.contains_key(figure.metric.as_str()))
        };
        let headline = figures.clone().filter(|(_, figure)| figure.headline).find(&fits);
        let (experiment, figure) = headline.or_else(|| figures.into_iter().find(&fits))?;
        Some(Self { experiment, figure, is_higher_better })
    }

    /// The best cell of a controller.
    pub(crate) fn best(
        &self,
        controller: &str,
    ) -> Option<(&'a CellSummary<'s>, &'a MetricSummary)> {
        let cells = self.experiment.cells_of(self.figure).into_iter();
        let of_controller = cells.filter(|cell| cell.controller.id == controller);
        let values = of_controller
            .filter_map(|cell| Some((cell, cell.metrics.get(self.figure.metric.as_str())?)));
        values.reduce(|best, other| {
            let [a, b] = [best, other].map(|(_, metric)| metric.statistics().mean);
            if (b > a) == self.is_higher_better { other } else { best }
        })
    }
}
