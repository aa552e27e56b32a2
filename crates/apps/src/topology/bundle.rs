//! Ports that lead to one device, as configured: static link aggregation.
//!
//! The first of the ports that is an edge port by itself is used. The others stand by: nothing is sent out of them, and what they
//! receive counts as received at the port that is used.

use std::collections::BTreeSet;
use std::time::Instant;

use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::Network;
use sluice_sdk::view::SwitchPort;

use super::counters::Counters;
use super::port::PortPhase;
use super::port_facts::publish;
use super::switch::ProbedSwitch;

/// Ports of a switch that lead to one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticBundle {
    switch: DatapathId,
    /// In the order of preference.
    ports: Vec<PortNo>,
}

/// Ports of a bundle, at most, as in most switches.
const PORTS_MAX: usize = 16;

impl StaticBundle {
    /// The bundle of these ports, the preferred one first.
    ///
    /// # Errors
    /// There are fewer than 2 or more than 16 ports, or one of them twice.
    pub fn new(switch: DatapathId, ports: Vec<PortNo>) -> Result<Self, &'static str> {
        if !(2..=PORTS_MAX).contains(&ports.len()) {
            return Err("a bundle has 2 to 16 ports");
        }
        if ports.iter().collect::<BTreeSet<_>>().len() < ports.len() {
            return Err("a port is given twice");
        }
        Ok(Self { switch, ports })
    }

    /// Whether a port is in both bundles.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.switch == other.switch && self.ports.iter().any(|port| other.ports.contains(port))
    }

    /// The bundles of one switch.
    pub(super) fn of_switch(all: &[Self], id: DatapathId) -> Vec<Self> {
        all.iter().filter(|bundle| bundle.switch == id).cloned().collect()
    }
}

/// Whether a port belongs to a bundle, and which port is used for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum BundleState {
    #[default]
    None,
    /// No port of the bundle is an edge port yet.
    Undecided,
    Uses(SwitchPort),
}

impl ProbedSwitch {
    /// Applies the bundles of a new configuration. The ports are published with the next tick.
    pub(super) fn configure_bundles(&mut self, all: &[StaticBundle]) {
        self.bundles = StaticBundle::of_switch(all, self.id);
        let is_member = |port: PortNo| self.bundles.iter().any(|it| it.ports.contains(&port));
        for port in &mut self.ports {
            if !is_member(port.at.port) {
                port.set_bundle(BundleState::None);
            }
        }
        self.update_bundles();
    }

    /// Whether two ports belong to one bundle.
    pub(super) fn has_bundle_of(&self, ports: [SwitchPort; 2]) -> bool {
        let is_member = |bundle: &StaticBundle, at: SwitchPort| {
            at.switch == bundle.switch && bundle.ports.contains(&at.port)
        };
        self.bundles.iter().any(|bundle| ports.iter().all(|&at| is_member(bundle, at)))
    }

    /// Decides which port of each bundle is used.
    pub(super) fn update_bundles(&mut self) {
        for bundle in std::mem::take(&mut self.bundles) {
            let is_edge = |&no: &PortNo| {
                let port = self.find(no).ok().and_then(|n| self.ports.get(n));
                port.is_some_and(|port| port.phase == PortPhase::Edge)
            };
            let used = bundle.ports.iter().copied().find(is_edge);
            let state = used.map_or(BundleState::Undecided, |no| {
                BundleState::Uses(SwitchPort::new(self.id, no))
            });
            for &no in &bundle.ports {
                if let Ok(n) = self.find(no)
                    && let Some(port) = self.ports.get_mut(n)
                {
                    port.set_bundle(state);
                }
            }
            self.bundles.push(bundle);
        }
    }

    /// A port has gone down: publishes which port is used instead, before others learn that this one is down.
    pub(super) fn replace_in_bundle(
        &mut self,
        down: PortNo,
        now: Instant,
        network: &mut Network,
        counters: &mut Counters,
    ) {
        self.update_bundles();
        let bundle = self.bundles.iter().find(|bundle| bundle.ports.contains(&down)).cloned();
        for no in bundle.into_iter().flat_map(|bundle| bundle.ports).filter(|&no| no != down) {
            if let Ok(n) = self.find(no)
                && let Some(port) = self.ports.get_mut(n)
            {
                publish(port, now, network, counters);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_2_to_16_different_ports() {
        let bundle = |ports: std::ops::RangeInclusive<u32>| {
            StaticBundle::new(DatapathId(1), ports.map(PortNo).collect())
        };
        assert_eq!([1..=2, 1..=16].map(|ports| bundle(ports).is_ok()), [true; 2]);
        assert_eq!([1..=1, 1..=17].map(|ports| bundle(ports).is_err()), [true; 2]);
        assert!(StaticBundle::new(DatapathId(1), vec![PortNo(1), PortNo(1)]).is_err());
        let [a, b, c] = [1..=2, 2..=3, 3..=4].map(|ports| bundle(ports).unwrap());
        assert_eq!([a.overlaps(&b), a.overlaps(&c)], [true, false]);
    }
}
