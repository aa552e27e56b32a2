//! Where a report comes from: program, time, machine, sockets, and the process of the controller.

mod host;
mod listener;
mod process;
mod recorder;

use std::time::Duration;

use sluice_io::sock::EffectiveOptions;

pub use host::Host;
pub use process::{ControllerProcess, CpuUse};
pub(crate) use recorder::{ProvenanceRecorder, thread_name};

/// Where a report comes from. What could not be found out is `None`.
#[derive(Debug, Clone, Default)]
pub struct Provenance {
    /// Version of this program.
    pub version: &'static str,
    /// When the run began, since 1970-01-01 UTC.
    pub started_at: Duration,
    /// The command line of the benchmark, as words.
    pub command_line: Vec<String>,
    /// Which of several runs it was; `None` for a single one.
    pub run: Option<RunNumber>,
    /// The command that restarted the controller before the run.
    pub restart: Option<String>,
    /// The machine of the generator.
    pub host: Host,
    /// Load averages over 1, 5 and 15 minutes, at the start and at the end.
    pub load_average: [Option<[f64; 3]>; 2],
    /// Options of one of the generator's connections at the end.
    pub socket: Option<EffectiveOptions>,
    /// The process that listens on each target; `None` if it is on another machine or cannot be inspected.
    pub controllers: Vec<Option<ControllerProcess>>,
    /// For each generator thread, the share of the measured time that it was ready to run and waited for a CPU core.
    pub generator_delayed: Vec<Option<f64>>,
}

/// Number of a run from 1, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunNumber {
    /// Number of the run, from 1.
    pub number: u32,
    /// How many runs there were.
    pub of: u32,
}

/// A time since 1970-01-01 UTC, such as `2025-11-25T02:40:35Z` (RFC 3339).
pub fn rfc3339(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, s) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970-01-01.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that the leap day is the last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_rfc_3339() {
        let at = |s| rfc3339(Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(1_764_038_435), "2025-11-25T02:40:35Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
