//! `--start`: measures how long a network takes to come up.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sluice_emu::live::{LiveNetwork, StartupProgress, StartupTest};
use sluice_io::clock;

use super::failure_reports::FailureReports;
use super::summary::counted;
use crate::write_stdout;

/// How long startup may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the startup test and prints its result; `false` if startup was not complete in time.
pub(super) fn measure(
    network: LiveNetwork,
    title: &str,
    stop: &AtomicBool,
) -> Result<bool, String> {
    let topology = network.data_plane().topology();
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    let (switches, hosts) =
        (counted(switches, "switch", "switches"), counted(hosts, "host", "hosts"));
    write_stdout(&format!("{title}\n{switches}, {hosts}\n"))?;
    let mut test = StartupTest::new(network).map_err(|e| e.to_string())?;
    let mut failures = FailureReports::default();
    let deadline = clock::now() + TIMEOUT;
    let mut now = clock::now();
    while now < deadline && !test.progress().is_complete() && !stop.load(Relaxed) {
        now = test.run_once(now + super::UPDATE_INTERVAL).map_err(|e| e.to_string())?;
        failures.report(test.network());
    }
    write_stdout(&result_text(test.progress()))?;
    Ok(test.progress().is_complete())
}

fn result_text(progress: &StartupProgress) -> String {
    let mut text = String::new();
    let rows = [
        ("all switches connected", progress.all_connected),
        ("first reply", progress.first_replies.first().copied()),
        ("half of the hosts have a reply", progress.half()),
        ("all hosts have a reply", progress.all()),
    ];
    for (event, time) in rows {
        let time =
            time.map_or_else(|| "never".to_owned(), |time| format!("{:.3} s", time.as_secs_f64()));
        let _ = writeln!(text, "{event}: {time}");
    }
    let _ = writeln!(
        text,
        "hosts with a reply: {} of {}",
        progress.first_replies.len(),
        progress.hosts
    );
    text
}
