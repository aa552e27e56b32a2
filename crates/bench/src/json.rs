//! A report as programs read it.

use crate::Report;
use std::io::{self, Write};
/// Writes.
///
/// # Errors
/// What the writer says.
pub fn write(_report: &Report, _to: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
