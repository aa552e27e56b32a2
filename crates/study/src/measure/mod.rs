//! Takes one measurement of a running controller.

mod advice;
mod bench;
mod beside;
pub(crate) mod cbench;
mod churn;
mod control_link;
mod idle;
mod observer;
mod startup;
mod traffic;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use sluice_openflow::Version;

use crate::definition::{Axis, AxisValue, Cell, ControllerRow, LinkSettings, Measure, metrics};
use crate::process::{Placeholders, RunningController};
use crate::rfc8456;

#[cfg(test)]
pub(crate) use bench::tests::{report as report_without_requests, switch as switch_figures};
pub(crate) use bench::{
    is_generator_the_limit, mark_response_times, not_sent, require_all_switches, set_quantiles,
    unanswered_share, whole,
};
pub(crate) use beside::Beside;
pub(crate) use churn::CHANGES_PER_S_MAX;
pub(crate) use idle::{Interrupted, wait_until_idle};

/// Loops into which the measured time is divided.
pub(crate) const LOOPS: u32 = 5;

/// Duration of a loop, and number of loops before the measured ones.
pub(crate) fn loops(seconds: f64, warm_up_s: f64) -> (Duration, u32) {
    let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let loop_time = time(seconds / f64::from(LOOPS)).max(Duration::from_millis(1));
    // In whole milliseconds, as on the command line.
    let loop_ms = loop_time.as_millis().max(1);
    let warm_up = time(warm_up_s).as_millis().div_ceil(loop_ms);
    let loop_time = Duration::from_millis(u64::try_from(loop_ms).unwrap_or(u64::MAX));
    (loop_time, u32::try_from(warm_up).unwrap_or(u32::MAX))
}

/// A running controller and how it is reached.
#[derive(Debug)]
pub struct Subject<'s> {
    /// The processes.
    pub controller: &'s mut RunningController,
    /// Where switches connect.
    pub target: SocketAddr,
    /// OpenFlow version of the switches.
    pub version: Version,
    /// Cores of the load generator; empty for no pinning.
    pub generator_cores: &'s [usize],
    /// Its file.
    pub row: &'s ControllerRow,
    /// What the placeholders in it stand for.
    pub placeholders: &'s Placeholders,
}

/// The result of a measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Figures by name.
    pub figures: BTreeMap<String, f64>,
    /// Names of figures that are lower bounds.
    pub lower_bounds: Vec<String>,
    /// Names of figures that are upper bounds.
    pub upper_bounds: Vec<String>,
    /// Quantiles and latencies in microseconds.
    pub distribution: Vec<(f64, f64)>,
    /// Reasons to distrust it.
    pub warnings: Vec<String>,
}

impl Measured {
    /// Sets a figure. What is not finite is none.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_owned(), value);
        }
    }
}

/// Sets topology and control link as a cell says.
fn resolve_network(topology: &mut String, link: &mut LinkSettings, cell: &Cell) {
    if let Some(AxisValue::Text(text)) = cell.get(&Axis::Topology) {
        topology.clone_from(text);
    }
    if let Some(delay) = cell.get(&Axis::DelayMs) {
        link.delay_ms = bench::number(delay);
    }
    if let Some(rate) = cell.get(&Axis::RateMbit) {
        link.rate_mbit = bench::number(rate);
    }
}

/// Takes a measurement.
///
/// # Errors
/// Why there are no figures, as a sentence without its end.
pub fn take(
    measure: &Measure,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let result = match measure {
        Measure::Bench(settings) => bench::measure(settings, cell, subject, is_interrupted),
        Measure::Paths(settings) => bench::measure_paths(settings, cell, subject),
        Measure::Startup(settings) => startup::measure(settings, cell, subject, is_interrupted),
        Measure::Connection(settings) => {
            traffic::measure_connection(settings, cell, subject, is_interrupted)
        }
        Measure::Stream(settings) => {
            traffic::measure_stream(settings, cell, subject, is_interrupted)
        }
        Measure::Cbench(settings) => cbench::measure(settings, subject, is_interrupted),
        Measure::Rfc8456(settings) => rfc8456::measure(settings, cell, subject, is_interrupted),
    };
    let for_study = |text: String| advice::for_study(&text);
    let mut measured = result.map_err(for_study)?;
    measured.warnings = measured.warnings.into_iter().map(for_study).collect();
    debug_assert!(
        measured.figures.keys().all(|name| metrics::find(measure, name).is_some()),
        "definition/metrics.rs lacks one of {:?}",
        measured.figures.keys()
    );
    Ok(measured)
}

/// The command line that repeats a measurement of `experiment` with a running controller on the default port, or, where no command does
/// that, the one that repeats the experiment.
pub fn command(
    (experiment, measure): (&str, &Measure),
    cell: &Cell,
    (controller, row, version): (&str, &ControllerRow, Version),
    cores: &[usize],
) -> String {
    let of_study =
        || format!("sluice study run --experiments {experiment} --controllers {controller}");
    match measure {
        Measure::Bench(settings) if bench::resolve(settings, cell, row).churn > 0 => of_study(),
        Measure::Connection(_) | Measure::Stream(_) | Measure::Cbench(_) => of_study(),
        Measure::Bench(settings) => {
            bench::command(&bench::resolve(settings, cell, row), version, cores)
        }
        Measure::Paths(settings) => {
            bench::paths_command(&bench::resolve_paths(settings, cell, row), version, cores)
        }
        Measure::Startup(settings) => startup::command(&startup::resolve(settings, cell), version),
        Measure::Rfc8456(settings) => {
            format!("sluice study rfc8456 --test {} --controllers {controller}", settings.test)
        }
    }
}
