//! The output of a network in lines, one per second.

use std::time::Duration;

use sluice_emu::live::NetworkStatus;
use sluice_io::clock;

use super::failure_reports::FailureReports;
use super::summary::counted;
use super::{CONNECT_TIMEOUT, Emulation};
use crate::write_stdout;

/// Time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the network and prints its status every second.
pub(super) fn run(emulation: &mut Emulation, title: &str) -> Result<(), String> {
    write_stdout(&format!("{title}\n{}", inventory(emulation)))?;
    let (mut next, mut previous) = (emulation.started_at + LINE_INTERVAL, NetworkStatus::default());
    let mut failures = FailureReports::default();
    while emulation.run_interval()? {
        failures.report(emulation.rounds.network());
        let now = clock::now();
        if now >= next {
            let status = emulation.rounds.status();
            write_stdout(&line(emulation, now - emulation.started_at, status, previous))?;
            (next, previous) = (next + LINE_INTERVAL, status);
        }
        let is_waiting = emulation.once && emulation.rounds.completed_rounds() == 0;
        if is_waiting && connect_timed_out(emulation, now - emulation.started_at) {
            break;
        }
    }
    Ok(())
}

fn connect_timed_out(emulation: &Emulation, elapsed: Duration) -> bool {
    let network = emulation.rounds.network();
    elapsed > CONNECT_TIMEOUT
        && network.connected_switches() < network.data_plane().topology().switches.len()
}

fn inventory(emulation: &Emulation) -> String {
    let topology = emulation.rounds.network().data_plane().topology();
    format!(
        "{}, {}, {} between switches\n",
        counted(topology.switches.len(), "switch", "switches"),
        counted(topology.hosts.len(), "host", "hosts"),
        counted(topology.links.len(), "link", "links")
    )
}

fn line(
    emulation: &Emulation,
    elapsed: Duration,
    status: NetworkStatus,
    previous: NetworkStatus,
) -> String {
    let switches = emulation.rounds.network().data_plane().topology().switches.len();
    format!(
        "{:>4} s  {} of {switches} switches connected, pings: {} answered, {} lost, {} packet-ins/s, {} flow entries\n",
        elapsed.as_secs(),
        status.connected_switches,
        status.pings_answered,
        status.pings_lost,
        status.packet_ins - previous.packet_ins,
        status.flow_entries,
    )
}
