//! `sluice bench compare`: compares two reports of the benchmark.

use std::io::{Write, stdout};
use std::path::PathBuf;

use sluice_bench::Error;
use sluice_bench::compare::compare;

const COMPARE_EXAMPLES: &str = "\
Example: measure each controller five times, then divide
  sluice bench -p 7000 -t -M 1000 --repeat 5 --json null.json
  sluice bench -p 6653 -t -M 1000 --repeat 5 --json sluice.json
  sluice bench compare null.json sluice.json";

/// Compare two reports: ratios of throughput and latency, and whether they are significant.
///
/// Reads two files of `sluice bench --json`, each with one or several runs
/// (--repeat), and prints the figures of the second one divided by those of the
/// first, with 95 % bootstrap confidence intervals over the runs, or over the loops of
/// a single run. A difference is significant if the interval does not contain 1.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Report that is compared with.
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// Report whose figures are divided by those of the first.
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let comparison = compare(&self.first, &self.second)?;
        let mut out = stdout().lock();
        let written =
            if self.json { comparison.write_json(&mut out) } else { write!(out, "{comparison}") };
        written.and_then(|()| out.flush()).map_err(Error::Output)
    }
}
