//! Links that an operator takes out of service and puts back, while faults occur.

use std::collections::BTreeSet;

use sluice_emu::topology::TopologyLink;
use sluice_sdk::view::{Cable, DrainProgress, DrainedLink, RecordFact};

use super::*;

/// In one of so many networks.
const DRAINS_ODDS: u32 = 3;

/// Time within which the entries of an end are known again after its switch could not be asked: several rounds, since each may find the
/// queue to the switch full.
const ROUNDS_TIME: Duration = Duration::from_secs(20);

/// Links that are drained, and put back, at random.
pub(super) struct Drains {
    rng: Rng,
    are_planned: bool,
    /// By number.
    drained: BTreeSet<usize>,
}

impl Drains {
    pub(super) fn new(seed: u64) -> Self {
        // From a stream of its own, so that the other choices of a seed do not depend on it.
        let mut rng = Rng::new(seed.wrapping_mul(37) ^ 0xd2a1);
        let are_planned = rng.below(DRAINS_ODDS) == 0;
        Self { rng, are_planned, drained: BTreeSet::new() }
    }

    /// Drains a link, or puts one back.
    pub(super) fn apply(&mut self, net: &mut ChainSimulation) {
        let links = net.data_plane().topology().links.len();
        if !self.are_planned || links == 0 {
            return;
        }
        let link = pick(&mut self.rng, links);
        let is_drained = !self.drained.contains(&link);
        let drained = is_drained.then_some(DrainedLink { requested_at: Duration::ZERO });
        let record = RecordFact::new(cable(net, link), drained);
        // Refused if the queue of the worker is full.
        if net.controller_mut().publish(vec![record]) {
            if is_drained {
                self.drained.insert(link)
            } else {
                self.drained.remove(&link)
            };
        }
    }

    /// Checks that all workers know which links are drained, and, if `is_exact`, that no flow entry uses them where the other links
    /// connect all switches.
    pub(super) fn check(&self, net: &mut ChainSimulation, is_exact: bool) -> Result<(), String> {
        let cables: BTreeSet<_> = self.drained.iter().map(|&link| cable(net, link)).collect();
        for network in net.controller().networks() {
            let known: BTreeSet<_> =
                network.view().drained_cables().map(|(cable, _)| cable).collect();
            if known != cables {
                return Err(format!("{known:?} are drained, not {cables:?}"));
            }
        }
        if !is_exact || !is_connected_without(net.data_plane().topology(), &self.drained) {
            return Ok(());
        }
        let mut waited = Duration::ZERO;
        for at in cables.iter().flat_map(|cable| cable.ends()) {
            let mut known = progress(net, at);
            while known.is_none() && waited < ROUNDS_TIME {
                net.run_for(Duration::from_secs(1)).map_err(|e| e.to_string())?;
                waited += Duration::from_secs(1);
                known = progress(net, at);
            }
            if known.is_none_or(|progress| progress.entries > 0) {
                return Err(format!("{at} is drained and still used: {known:?}"));
            }
        }
        Ok(())
    }
}

fn progress(net: &ChainSimulation, at: SwitchPort) -> Option<DrainProgress> {
    let network = net.controller().networks().next()?;
    network.view().record::<DrainProgress>(at).copied()
}

fn cable(net: &ChainSimulation, link: usize) -> Cable {
    let topology = net.data_plane().topology();
    let TopologyLink { a, b, .. } = *topology.links.get(link).unwrap();
    let [a, b] = [a, b].map(|end| {
        SwitchPort::new(topology.switches.get(end.switch).unwrap().datapath_id, end.port)
    });
    Cable::new(a, b)
}

/// Whether all switches are connected by links other than these.
fn is_connected_without(topology: &Topology, drained: &BTreeSet<usize>) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([0]), vec![0]);
    while let Some(switch) = next.pop() {
        for (number, link) in topology.links.iter().enumerate() {
            let [a, b] = [link.a.switch, link.b.switch];
            if drained.contains(&number) || (a != switch && b != switch) {
                continue;
            }
            let other = if a == switch { b } else { a };
            if seen.insert(other) {
                next.push(other);
            }
        }
    }
    seen.len() == topology.switches.len()
}
