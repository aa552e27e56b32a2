//! Links of switches that disconnected: a switch that reconnects most likely still has them.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Fact, NetworkView, SwitchInfo, SwitchPort};

use super::SILENT_LINK_HOLD;

/// The links of the network view, and those that left it only because a switch at one end disconnected.
#[derive(Debug, Default)]
pub(super) struct LinkMemory {
    /// By the port where frames are received.
    links: HashMap<SwitchPort, RememberedLink>,
    switches: HashMap<DatapathId, RememberedPorts>,
}

/// The ports of a switch. If it reconnects with others, it is another switch or has been rebuilt, and has other links.
#[derive(Debug)]
struct RememberedPorts {
    addresses: BTreeMap<PortNo, MacAddr>,
    /// When the switch disconnected.
    lost_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct RememberedLink {
    from: SwitchPort,
    /// When it left the network view.
    lost_at: Option<Instant>,
}

impl LinkMemory {
    /// Follows a change of the network view.
    pub(super) fn on_fact(&mut self, fact: &Fact, now: Instant, view: &NetworkView) {
        match fact {
            Fact::Link(to, Some(link)) => {
                self.links.insert(*to, RememberedLink { from: link.from, lost_at: None });
            }
            Fact::Link(to, None) => {
                let Some(link) = self.links.get_mut(to) else { return };
                let is_connected = |at: &SwitchPort| view.switch(at.switch).is_some();
                if is_connected(to) && is_connected(&link.from) {
                    self.links.remove(to);
                } else {
                    link.lost_at.get_or_insert(now);
                }
            }
            Fact::Port(at, port) => {
                if let Some(ports) = self.switches.get_mut(&at.switch) {
                    match port {
                        Some(port) => ports.addresses.insert(at.port, port.hw_addr),
                        None => ports.addresses.remove(&at.port),
                    };
                }
                if port.as_ref().is_none_or(|port| !port.is_up) {
                    self.forget(*at);
                }
            }
            // The worker of the switch publishes which of its ports are others.
            Fact::Switch(id, Some(info)) => _ = self.switch_connected(*id, info),
            Fact::Switch(id, None) => {
                if let Some(ports) = self.switches.get_mut(id) {
                    ports.lost_at = Some(now);
                }
            }
            _ => {}
        }
    }

    /// A switch has connected with the ports `info`. If these are not those of before, its links are forgotten, and the numbers of
    /// the ports of before are returned.
    pub(super) fn switch_connected(&mut self, id: DatapathId, info: &SwitchInfo) -> Vec<PortNo> {
        let addresses = info.ports.iter().map(|(&no, port)| (no, port.hw_addr)).collect();
        let ports = RememberedPorts { addresses, lost_at: None };
        let is_other = |old: &&RememberedPorts| old.addresses != ports.addresses;
        let old = self.switches.get(&id).filter(is_other);
        let replaced: Vec<_> =
            old.into_iter().flat_map(|old| old.addresses.keys().copied()).collect();
        for &no in &replaced {
            self.forget(SwitchPort::new(id, no));
        }
        self.switches.insert(id, ports);
        replaced
    }

    /// Forgets the link into a port, and the other direction of the same link.
    fn forget(&mut self, at: SwitchPort) {
        if let Some(link) = self.links.remove(&at)
            && self.links.get(&link.from).is_some_and(|back| back.from == at)
        {
            self.links.remove(&link.from);
        }
    }

    /// Forgets links and switches that left the network view too long ago.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |at: Instant| now.saturating_duration_since(at) >= SILENT_LINK_HOLD;
        self.links.retain(|_, link| !link.lost_at.is_some_and(is_over));
        self.switches.retain(|_, ports| !ports.lost_at.is_some_and(is_over));
    }

    /// The start of the link into a port, as known last.
    pub(super) fn peer(&self, to: SwitchPort) -> Option<SwitchPort> {
        self.links.get(&to).map(|link| link.from)
    }
}
