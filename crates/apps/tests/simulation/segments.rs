//! Unmanaged segments: hubs with one or several cables to switches, and hosts behind them.

use sluice_emu::net::{HubKind, NetworkError};

use super::*;

/// One in so many networks has unmanaged segments.
const ODDS: u32 = 4;

/// Unmanaged segments of a network.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Links between hubs and switches.
    cables: Vec<usize>,
}

impl Segments {
    /// Ports that each switch has for cables of hubs.
    pub(super) const PORTS: u16 = 3;

    /// Whether the network of a seed has unmanaged segments.
    pub(super) fn are_planned(seed: u64) -> bool {
        Rng::new(seed.wrapping_mul(7) ^ 0x4c).below(ODDS) == 0
    }

    /// Connects hubs to switches, and hosts to hubs.
    pub(super) fn new(seed: u64, net: &mut ChainSimulation) -> Result<Self, NetworkError> {
        let mut segments = Self::default();
        if !Self::are_planned(seed) {
            return Ok(segments);
        }
        let mut rng = Rng::new(seed.wrapping_mul(7) ^ 0x4b);
        let (n_switches, n_hosts) = {
            let topology = net.data_plane().topology();
            (topology.switches.len(), topology.hosts.len())
        };
        let mut free_hosts: Vec<_> = (0..n_hosts).collect();
        for _ in 0..=rng.below(2) {
            let (now, data_plane) = net.data_plane_mut();
            let mut ports = BTreeSet::new();
            for _ in 0..=rng.below(4) {
                ports.extend(data_plane.free_port(pick(&mut rng, n_switches)));
            }
            let ports: Vec<_> = ports.into_iter().collect();
            // The controller takes a repeater with two cables for a link, which leads to no hosts.
            let is_repeater = ports.len() > 2 && rng.below(2) == 0;
            let kind = if is_repeater { HubKind::Repeater } else { HubKind::Bridge };
            let mut hosts = Vec::new();
            for _ in 0..rng.below(3).min(u32::try_from(free_hosts.len()).unwrap()) {
                hosts.push(free_hosts.swap_remove(pick(&mut rng, free_hosts.len())));
            }
            let link = LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() };
            segments.cables.extend(data_plane.add_hub(now, kind, &ports, &hosts, link)?);
        }
        Ok(segments)
    }

    /// Whether there are any.
    pub(super) fn exist(&self) -> bool {
        !self.cables.is_empty()
    }

    /// Schedules cuts of cables from now on, each of which is restored before the faults end.
    pub(super) fn schedule_cuts(&self, seed: u64, net: &mut ChainSimulation) {
        let mut rng = Rng::new(seed.wrapping_mul(11) ^ 0x4b);
        let start = net.now();
        for &cable in &self.cables {
            if rng.below(3) == 0 {
                let at = start + Duration::from_millis(rng.below(FAULTS_MS).into());
                net.schedule(at, NetworkChange::CutLink(cable));
                let later = at + Duration::from_millis(rng.below(10_000).into());
                net.schedule(later, NetworkChange::RestoreLink(cable));
            }
        }
    }
}
