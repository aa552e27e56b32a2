//! Resident memory of samples.

use sluice_base::sort_by;

use super::figure_data::has_readings;
use super::summary::CellSummary;
use crate::record::Sample;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// The sample of `cell` with the median peak of memory, which is drawn for all of them.
pub(crate) fn typical_sample<'s>(cell: &CellSummary<'s>) -> Option<&'s Sample> {
    let mut all: Vec<_> = cell.successful().filter(|sample| has_readings(sample)).collect();
    let peak = |sample: &Sample| peak_mib(sample).unwrap_or_default();
    sort_by(&mut all, |a, b| peak(a).total_cmp(&peak(b)));
    all.get(all.len().saturating_sub(1) / 2).copied()
}

/// Seconds since the start and resident memory in MiB.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn resident_mib(sample: &Sample) -> impl Iterator<Item = (f64, f64)> {
    let readings = sample.usage.iter().flat_map(|usage| &usage.readings);
    readings.map(|reading| (reading.at_s, reading.resident_bytes as f64 / MIB))
}

/// Peak of the resident memory in MiB.
pub(crate) fn peak_mib(sample: &Sample) -> Option<f64> {
    resident_mib(sample).map(|(_, mib)| mib).reduce(f64::max)
}
