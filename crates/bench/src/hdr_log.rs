//! Latencies as an interval log of `HdrHistogram`.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use sluice_io::clock;

use crate::Report;

/// Writes an interval per measured loop, values in nanoseconds: the latencies of its requests that were answered in time.
///
/// # Errors
/// Those of the writer.
pub fn write(reports: &[Report], to: &mut dyn Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut to = to;
    let now = UNIX_EPOCH + clock::since_epoch();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(
            "sluice bench: latencies of answered requests in nanoseconds, one interval per loop",
        )
        .with_start_time(now)
        .begin_log_with(&mut to, &mut serializer)?;
    let mut start = Duration::ZERO;
    for report in reports {
        let tag = match report.provenance.run {
            Some(run) => format!("run-{}", run.number),
            None => format!("switches-{}", report.plan.switches),
        };
        for figures in report.loops.iter().filter(|figures| figures.measured) {
            log.write_histogram(&figures.latency.answered, start, figures.elapsed, Tag::new(&tag))
                .map_err(|e| io::Error::other(format!("{e:?}")))?;
            start += figures.elapsed;
        }
    }
    Ok(())
}
