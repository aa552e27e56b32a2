//! How long a network takes to come up, in lines.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sluice_emu::live::{LiveNetwork, StartupProgress, StartupTest};
use sluice_io::clock;

use crate::print;

/// How long it may take.
const START_MAX: Duration = Duration::from_secs(120);

/// Lets the network come up; whether all of it did.
pub(super) fn measure(live: LiveNetwork, title: &str, stop: &AtomicBool) -> Result<bool, String> {
    let topology = live.data_plane().topology();
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    print(&format!("{title}\n{switches} switches, {hosts} hosts\n"));
    let mut start = StartupTest::new(live).map_err(|e| e.to_string())?;
    let end = clock::now() + START_MAX;
    let mut now = clock::now();
    while now < end && !start.progress().is_complete() && !stop.load(Relaxed) {
        now = start.run_once(now + super::FRAME).map_err(|e| e.to_string())?;
    }
    let mut text = summary(start.progress());
    if let Some(why) = start.network().connect_error() {
        let _ = writeln!(text, "no connection: {why}");
    }
    print(&text);
    Ok(start.progress().is_complete())
}

fn summary(progress: &StartupProgress) -> String {
    let mut text = String::new();
    let rows = [
        ("every switch known", progress.all_connected),
        ("first answer", progress.first_replies.first().copied()),
        ("half of the hosts answered", progress.half()),
        ("every host answered", progress.all()),
    ];
    for (what, after) in rows {
        let after =
            after.map_or_else(|| "never".to_owned(), |t| format!("{:.3} s", t.as_secs_f64()));
        let _ = writeln!(text, "{what}: {after}");
    }
    let _ =
        writeln!(text, "hosts answered: {} of {}", progress.first_replies.len(), progress.hosts);
    text
}
