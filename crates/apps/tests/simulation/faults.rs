//! Faults, and traffic while they occur.

use super::*;

/// The faults of control connections.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each kind of faults explains others")]
pub(super) struct Faults {
    /// Connections are broken.
    pub(super) have_breaks: bool,
    /// The engine is not told of the end of some connections.
    pub(super) have_silent_ends: bool,
    /// Control links carry nothing for a while.
    pub(super) have_pauses: bool,
    /// Delays of control links become longer.
    pub(super) have_slow_links: bool,
    /// File descriptors are missing when switches connect.
    pub(super) have_missing_descriptors: bool,
}

impl Faults {
    /// Whether they are a cause for which the engine may close a connection.
    pub(super) fn explain(&self, reason: &str) -> bool {
        match reason {
            "closed_by_peer" | "connection_reset" => self.have_breaks,
            "connection_error" => self.have_breaks || self.have_missing_descriptors,
            "too_many_handshakes" => {
                self.have_missing_descriptors || (self.have_breaks && self.have_silent_ends)
            }
            "duplicate_datapath_id" | "replaced_by_new_connection" => {
                self.have_breaks && self.have_silent_ends
            }
            "echo_timeout" | "send_timeout" | "handshake_timeout" => {
                self.have_pauses || (self.have_breaks && self.have_silent_ends)
            }
            _ => false,
        }
    }
}

/// What happens besides pings while faults occur.
pub(super) struct Senders<'a> {
    pub(super) lies: &'a mut Lies,
    pub(super) members: &'a mut Members,
    pub(super) made_up_hosts: &'a mut MadeUpHosts,
    pub(super) reloads: &'a mut Reloads,
    pub(super) requests: &'a mut Requests,
    pub(super) drains: &'a mut Drains,
}

/// Schedules faults, has hosts send meanwhile, and repairs permanent faults.
pub(super) fn run_with_faults(
    net: &mut ChainSimulation,
    rng: &mut Rng,
    conditions: &NetworkConditions,
    senders: &mut Senders<'_>,
) -> Result<Faults, sluice_emu::net::NetworkError> {
    let topology = net.data_plane().topology().clone();
    let (n_links, n_switches) = (topology.links.len(), topology.switches.len());
    let (start, mut cut_links) = (net.now(), BTreeSet::new());
    let (mut paused, mut used_switches) = (BTreeSet::new(), BTreeSet::new());
    let mut faults = Faults::default();
    for _ in 0..=rng.below(8) {
        let at = start + Duration::from_millis(rng.below(FAULTS_MS).into());
        let schedule = |net: &mut ChainSimulation, at: Instant, fault| {
            if std::env::var_os("SLUICE_SIM_TRACE").is_some() {
                let _ = writeln!(std::io::stderr(), "{:?}: {fault:?}", at - start);
            }
            net.schedule(at, fault);
        };
        match rng.below(6) {
            0 | 1 if n_links > 0 => {
                let link = pick(rng, n_links);
                schedule(net, at, NetworkChange::CutLink(link));
                cut_links.insert(link);
                if rng.below(2) == 0 {
                    let later = at + Duration::from_millis(rng.below(3000).into());
                    schedule(net, later, NetworkChange::RestoreLink(link));
                }
            }
            2 => {
                let switch = pick(rng, n_switches);
                schedule(net, at, NetworkChange::BreakControlConnection(switch));
                faults.have_breaks = true;
            }
            3 => {
                let switch = pick(rng, n_switches);
                schedule(net, at, NetworkChange::PauseControlLink(switch));
                paused.insert(switch);
                let later = at + Duration::from_millis(rng.below(8000).into());
                schedule(net, later, NetworkChange::ResumeControlLink(switch));
            }
            4 => {
                let (host, switch) = (pick(rng, topology.hosts.len()), pick(rng, n_switches));
                // Each switch has one free port.
                if used_switches.insert(switch)
                    && let Some(to) = net.data_plane().free_port(switch)
                {
                    schedule(net, at, NetworkChange::MoveHost(host, to));
                }
            }
            _ => {
                faults.have_slow_links = true;
                let slow = LinkImpairments {
                    delay: Duration::from_micros(rng.below(50_000).into()),
                    jitter: Duration::from_micros(rng.below(50_000).into()),
                    ..LinkImpairments::default()
                };
                schedule(
                    net,
                    at,
                    NetworkChange::SetControlImpairments(pick(rng, n_switches), slow, slow),
                );
            }
        }
    }
    for number in 0..TRACED_FRAMES {
        let at = start + Duration::from_millis(rng.below(FAULTS_MS + 12_000).into());
        net.schedule(at, send_traced(pick(rng, topology.hosts.len()), number));
    }
    ping_meanwhile(net, rng, conditions, senders)?;
    let end = start + Duration::from_millis((FAULTS_MS + 12_000).into());
    net.run_until(end.max(net.now()))?;
    // In a partitioned network some pairs cannot reach each other.
    cut_links.iter().try_for_each(|&link| net.apply(NetworkChange::RestoreLink(link)))?;
    paused.iter().try_for_each(|&switch| net.apply(NetworkChange::ResumeControlLink(switch)))?;
    faults.have_pauses = !paused.is_empty();
    Ok(faults)
}

/// Has hosts ping each other while faults occur, and moves switches between workers.
fn ping_meanwhile(
    net: &mut ChainSimulation,
    rng: &mut Rng,
    conditions: &NetworkConditions,
    senders: &mut Senders<'_>,
) -> Result<(), sluice_emu::net::NetworkError> {
    let (topology, start) = (net.data_plane().topology().clone(), net.now());
    for round in 0..5 {
        let pairs: Vec<_> =
            PingSummary::all_pairs(&topology).filter(|_| rng.below(3) == 0).collect();
        if conditions.moves != SwitchMoves::Never {
            // Entries are being installed while the switches move.
            let soon = Duration::from_millis(rng.below(50).into());
            net.ping(pairs.clone(), IpFamily::V4, soon)?;
            for (n, switch) in topology.switches.iter().enumerate() {
                let worker = match conditions.moves {
                    SwitchMoves::Random if rng.below(2) == 0 => continue,
                    SwitchMoves::Random => pick(rng, conditions.workers),
                    SwitchMoves::Never | SwitchMoves::InTurn => (n + round) % conditions.workers,
                };
                net.controller_mut().move_switch(switch.datapath_id, worker);
            }
        }
        senders.lies.send(net)?;
        senders.members.send(net)?;
        senders.made_up_hosts.send(net)?;
        senders.requests.send(net);
        senders.drains.apply(net);
        if (1..=4).contains(&round) {
            senders.reloads.apply(net);
        }
        net.ping(pairs, IpFamily::V4, Duration::from_millis((FAULTS_MS / 5).into()))?;
        let until = start + Duration::from_millis((FAULTS_MS / 5).into());
        net.run_until(until.max(net.now()))?;
    }
    Ok(())
}
