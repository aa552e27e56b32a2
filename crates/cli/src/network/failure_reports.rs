//! Reports on standard error that switches have no session with the controller.

use std::io::{Write as _, stderr};
use std::time::{Duration, Instant};

use sluice_emu::live::LiveNetwork;

/// Time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time between two reports of the same failure.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// Reports failures, at most one per second, and the same one once a minute.
#[derive(Debug, Default)]
pub(super) struct FailureReports {
    /// The last report, and when it was made.
    last: Option<(Instant, String)>,
}

impl FailureReports {
    /// Reports why switches of `network` have no session, if that is due.
    pub(super) fn report(&mut self, network: &LiveNetwork) {
        let failure = network.connection_failure().map(|failure| failure.to_string());
        if let Some(failure) = failure.and_then(|failure| self.due(network.now(), failure)) {
            let all = network.data_plane().topology().switches.len();
            let without = all - network.connected_switches();
            // If it cannot be written, the status still says that switches are not connected.
            let _ = writeln!(
                stderr(),
                "warning: {without} of {all} switches without an OpenFlow session: {failure}"
            );
        }
    }

    /// The failure if it is to be reported now.
    fn due(&mut self, now: Instant, failure: String) -> Option<&str> {
        let is_due = self.last.as_ref().is_none_or(|(at, last)| {
            let interval = if *last == failure { REPEAT_INTERVAL } else { INTERVAL };
            now.saturating_duration_since(*at) >= interval
        });
        is_due.then(|| self.last.insert((now, failure)).1.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_a_minute_and_another_one_after_a_second() {
        let start = sluice_io::clock::now();
        let mut reports = FailureReports::default();
        let mut is_due = |ms: u64, text: &str| {
            reports.due(start + Duration::from_millis(ms), text.to_owned()).is_some()
        };
        assert!(is_due(0, "refused"));
        assert!(!is_due(500, "reset") && !is_due(30_000, "refused"));
        assert!(is_due(30_000, "reset") && is_due(31_000, "refused"));
        assert!(!is_due(90_999, "refused") && is_due(91_000, "refused"));
    }
}
