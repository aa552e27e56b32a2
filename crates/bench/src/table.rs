//! A report as people read it.

use crate::report::Report;

/// The report in lines of two columns.
pub fn of(report: &Report) -> String {
    format!(
        "{:.0} answers/s ± {:.0}\n{:?}\n{:?}\n{:?}\n{:?}\n{}\n",
        report.rate.mean,
        report.rate.deviation,
        report.counts,
        report.threads,
        report.little,
        report.fairness,
        report.warnings.join("\n")
    )
}

/// A number with three digits and a letter for its thousands.
pub(crate) fn quantity(n: f64) -> String {
    let (n, unit) = match n {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let digits = if n >= 100.0 {
        0
    } else if n >= 10.0 {
        1
    } else {
        2
    };
    format!("{n:.digits$}{unit}")
}
