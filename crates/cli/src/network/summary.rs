//! The summary printed at the end.

use std::fmt::Write as _;

use sluice_emu::net::LinkState;
use sluice_emu::topology::{PortRef, Topology};
use sluice_io::clock;

use super::Emulation;

/// Number of lost pairs, and of links, that are listed.
const LISTED_MAX: usize = 10;

/// The whole summary.
pub(super) fn text(emulation: &Emulation) -> String {
    let status = emulation.rounds.status();
    let data_plane = emulation.rounds.network().data_plane();
    let topology = data_plane.topology();
    let seconds = (clock::now() - emulation.started_at).as_secs_f64();
    let rounds = if status.rounds == 1 { "round" } else { "rounds" };
    let mut text = format!(
        "{} {rounds} of pings in {seconds:.1} s, longest round trip {:.1} ms\npings: {} sent, {} answered, {} lost\n",
        status.rounds,
        status.rtt_max.as_secs_f64() * 1e3,
        status.pings_sent,
        status.pings_answered,
        status.pings_lost,
    );
    let lost = emulation.rounds.lost_in_last_round();
    for &(from, to) in lost.iter().take(LISTED_MAX) {
        let (from, to) = (host_name(topology, from), host_name(topology, to));
        let _ = writeln!(text, "lost in the last round: {from} to {to}");
    }
    if lost.len() > LISTED_MAX {
        let _ = writeln!(text, "and {} more", lost.len() - LISTED_MAX);
    }
    let _ = writeln!(
        text,
        "{} of {} switches connected, {} flow entries, {} packet-ins",
        status.connected_switches,
        topology.switches.len(),
        status.flow_entries,
        status.packet_ins
    );
    if emulation.links_cut > 0 {
        let is_down = |&link: &usize| {
            data_plane.link(link).is_some_and(|(state, _)| state == LinkState::Down)
        };
        let down: Vec<_> = (0..data_plane.link_count()).filter(is_down).collect();
        let names: Vec<_> =
            down.iter().take(LISTED_MAX).map(|&link| link_name(topology, link)).collect();
        let _ = write!(text, "links cut: {}, still down: {}", emulation.links_cut, down.len());
        if !names.is_empty() {
            let _ = write!(text, " ({})", names.join(", "));
        }
        text.push('\n');
    }
    text
}

/// A number with its noun: `1 switch`, `2 switches`.
pub(super) fn counted(n: usize, one: &str, many: &str) -> String {
    let noun = if n == 1 { one } else { many };
    format!("{n} {noun}")
}

/// The name of a host by its index.
pub(super) fn host_name(topology: &Topology, host: usize) -> &str {
    topology.hosts.get(host).map_or("?", |host| host.name.as_str())
}

/// A port as `switch:port`.
pub(super) fn port_name(topology: &Topology, port: PortRef) -> String {
    let switch = topology.switches.get(port.switch);
    format!("{}:{}", switch.map_or("?", |switch| switch.name.as_str()), port.port)
}

/// Both ends of a link by its number.
pub(super) fn link_ends(topology: &Topology, link: usize) -> Option<(String, String)> {
    if let Some(link) = topology.links.get(link) {
        return Some((port_name(topology, link.a), port_name(topology, link.b)));
    }
    let host = topology.hosts.get(link.checked_sub(topology.links.len())?)?;
    Some((port_name(topology, host.port), host.name.clone()))
}

fn link_name(topology: &Topology, link: usize) -> String {
    link_ends(topology, link).map_or_else(String::new, |(a, b)| format!("{a} to {b}"))
}
