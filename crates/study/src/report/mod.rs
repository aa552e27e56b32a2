//! The report of a study: a page, tables as CSV, the summary as JSON, and figures for LaTeX.

mod check;
mod csv;
mod distribution;
mod escape;
pub(crate) mod failures;
mod figure_data;
pub(crate) mod format;
mod headline;
mod html;
mod json;
mod latex;
mod memory;
mod names;
mod processes;
pub(crate) mod summary;
mod svg;
mod trials;

use std::fs;
use std::io;
use std::path::Path;

pub use check::check;
pub use json::SCHEMA;

use crate::atomic_file;
use crate::record::{Sample, StudyRecord};
use summary::StudySummary;

/// Writes the report into `folder`: `report.html`, `samples.csv`, `processes.csv`, `summary.csv`, `report.json`, and figures and tables in `latex/`.
/// Each file has either its old or its new content at any time, also if several processes write the report.
///
/// # Errors
/// Those of the file system.
pub fn write(record: &StudyRecord, samples: &[Sample], folder: &Path) -> io::Result<()> {
    let study = StudySummary::new(record, samples);
    let latex = folder.join("latex");
    fs::create_dir_all(&latex)?;
    atomic_file::write(&folder.join("samples.csv"), &csv::samples(&study))?;
    atomic_file::write(&folder.join("processes.csv"), &csv::processes(&study))?;
    atomic_file::write(&folder.join("summary.csv"), &csv::summary(&study))?;
    atomic_file::write(&folder.join("report.json"), &json::document(&study)?)?;
    for (name, text) in latex::files(&study) {
        atomic_file::write(&latex.join(name), &text)?;
    }
    atomic_file::write(&folder.join("report.html"), &html::page(&study))
}
