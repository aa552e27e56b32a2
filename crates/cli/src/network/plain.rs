//! A network in lines, one a second, and what was lost at the end.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_emu::live::NetworkStatus;
use sluice_io::clock;

use super::{PATIENCE, Watched};
use crate::print;

/// Time between two lines.
const LINE: Duration = Duration::from_secs(1);

/// Pairs that are named at the end.
const NAMED_MAX: usize = 10;

/// Shows the network until it ends.
pub(super) fn show(watched: &mut Watched, title: &str) -> Result<(), String> {
    print(&format!("{title}\n{}", inventory(watched)));
    let start = clock::now();
    let (mut next, mut before) = (start + LINE, NetworkStatus::default());
    while watched.moment()? {
        let now = clock::now();
        if now >= next {
            let glance = watched.rounds.status();
            print(&line(watched, now - start, glance, before));
            (next, before) = (next + LINE, glance);
        }
        if watched.once
            && watched.rounds.completed_rounds() == 0
            && is_hopeless(watched, now - start)
        {
            break;
        }
    }
    print(&summary(watched));
    Ok(())
}

/// Whether switches have not found the controller for too long.
fn is_hopeless(watched: &Watched, since: Duration) -> bool {
    let live = watched.rounds.network();
    since > PATIENCE && live.connected_switches() < live.data_plane().topology().switches.len()
}

fn inventory(watched: &Watched) -> String {
    let topology = watched.rounds.network().data_plane().topology();
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    format!("{switches} switches, {hosts} hosts, {} links between switches\n", topology.links.len())
}

fn line(
    watched: &Watched,
    since: Duration,
    glance: NetworkStatus,
    before: NetworkStatus,
) -> String {
    let switches = watched.rounds.network().data_plane().topology().switches.len();
    let mut line = format!(
        "{:>4} s  {} of {switches} switches known, pings: {} answered, {} lost, {} packet-ins/s, {} rules",
        since.as_secs(),
        glance.connected_switches,
        glance.pings_answered,
        glance.pings_lost,
        glance.packet_ins - before.packet_ins,
        glance.flow_entries,
    );
    if let Some(why) = watched.rounds.network().connect_error() {
        let _ = write!(line, ", no connection: {why}");
    }
    line + "\n"
}

fn summary(watched: &Watched) -> String {
    let glance = watched.rounds.status();
    let hosts = &watched.rounds.network().data_plane().topology().hosts;
    let name = |host: usize| hosts.get(host).map_or("?", |host| host.name.as_str());
    let rounds = if glance.rounds == 1 { "round" } else { "rounds" };
    let mut text = format!(
        "{} {rounds}: {} pings answered, {} lost; the slowest took {:.1} ms; {} packet-ins\n",
        glance.rounds,
        glance.pings_answered,
        glance.pings_lost,
        glance.rtt_max.as_secs_f64() * 1e3,
        glance.packet_ins,
    );
    let lost = watched.rounds.lost_in_last_round();
    for &(from, to) in lost.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "lost in the last round: {} to {}", name(from), name(to));
    }
    if lost.len() > NAMED_MAX {
        let _ = writeln!(text, "and {} more", lost.len() - NAMED_MAX);
    }
    text
}
