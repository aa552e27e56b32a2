//! A network in lines, one a second, and what was lost at the end.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_emu::live::Glance;
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
    let (mut next, mut before) = (start + LINE, Glance::default());
    while watched.moment()? {
        let now = clock::now();
        if now >= next {
            let glance = watched.rounds.glance();
            print(&line(watched, now - start, glance, before));
            (next, before) = (next + LINE, glance);
        }
        if watched.once && watched.rounds.ended() == 0 && is_hopeless(watched, now - start) {
            break;
        }
    }
    print(&summary(watched));
    Ok(())
}

/// Whether switches have not found the controller for too long.
fn is_hopeless(watched: &Watched, since: Duration) -> bool {
    let live = watched.rounds.live();
    since > PATIENCE && live.known() < live.fabric().topology().switches.len()
}

fn inventory(watched: &Watched) -> String {
    let topology = watched.rounds.live().fabric().topology();
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    format!("{switches} switches, {hosts} hosts, {} links between switches\n", topology.links.len())
}

fn line(watched: &Watched, since: Duration, glance: Glance, before: Glance) -> String {
    let switches = watched.rounds.live().fabric().topology().switches.len();
    let mut line = format!(
        "{:>4} s  {} of {switches} switches known, pings: {} answered, {} lost, {} packet-ins/s, {} rules",
        since.as_secs(),
        glance.known,
        glance.answered,
        glance.lost,
        glance.packet_ins - before.packet_ins,
        glance.rules,
    );
    if let Some(why) = watched.rounds.live().refused() {
        let _ = write!(line, ", no connection: {why}");
    }
    line + "\n"
}

fn summary(watched: &Watched) -> String {
    let glance = watched.rounds.glance();
    let hosts = &watched.rounds.live().fabric().topology().hosts;
    let name = |host: usize| hosts.get(host).map_or("?", |host| host.name.as_str());
    let rounds = if glance.rounds == 1 { "round" } else { "rounds" };
    let mut text = format!(
        "{} {rounds}: {} pings answered, {} lost; the slowest took {:.1} ms; {} packet-ins\n",
        glance.rounds,
        glance.answered,
        glance.lost,
        glance.slowest.as_secs_f64() * 1e3,
        glance.packet_ins,
    );
    let lost = watched.rounds.lost();
    for &(from, to) in lost.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "lost in the last round: {} to {}", name(from), name(to));
    }
    if lost.len() > NAMED_MAX {
        let _ = writeln!(text, "and {} more", lost.len() - NAMED_MAX);
    }
    text
}
