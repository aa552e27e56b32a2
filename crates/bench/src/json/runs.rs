//! The summary of several runs, a line of its own after the reports of the runs.

use std::io::{self, Write};

use serde::Serialize;

use super::RateDocument;
use crate::repeat::RunsSummary;

/// Name and version of the schema of a summary, the value of its field `schema`.
pub const RUNS_SCHEMA: &str = "sluice-bench-runs/1";

#[derive(Serialize)]
struct RunsDocument {
    schema: &'static str,
    runs: u32,
    rate: RateDocument,
    p50_ns: RateDocument,
    p99_ns: RateDocument,
    at_least: Vec<&'static str>,
    warnings: Vec<String>,
}

/// Writes `summary` as one line of JSON.
///
/// # Errors
/// Those of the writer.
pub fn write_runs(summary: &RunsSummary, to: &mut dyn Write) -> io::Result<()> {
    let document = RunsDocument {
        schema: RUNS_SCHEMA,
        runs: summary.runs,
        rate: summary.rate.into(),
        p50_ns: summary.p50_ns.into(),
        p99_ns: summary.p99_ns.into(),
        at_least: summary.at_least.clone(),
        warnings: summary.warnings.clone(),
    };
    serde_json::to_writer(&mut *to, &document)?;
    to.write_all(b"\n")
}
