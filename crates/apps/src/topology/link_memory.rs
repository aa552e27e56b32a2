//! Links of switches that disconnected: a switch that reconnects most likely still has them.

use std::time::Instant;

use sluice_base::HashMap;
use sluice_sdk::view::{Fact, NetworkView, SwitchPort};

use super::DISCONNECTED_PEER_HOLD;

/// The links of the network view, and those that left it only because a switch at one end disconnected.
#[derive(Debug, Default)]
pub(super) struct LinkMemory {
    /// By the port where frames are received.
    links: HashMap<SwitchPort, RememberedLink>,
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
            Fact::Port(at, port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                if let Some(link) = self.links.remove(at) {
                    self.links.remove(&link.from);
                }
            }
            _ => {}
        }
    }

    /// Forgets links that left the network view too long ago.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |at: Instant| now.saturating_duration_since(at) >= DISCONNECTED_PEER_HOLD;
        self.links.retain(|_, link| !link.lost_at.is_some_and(is_over));
    }

    /// The start of the link into a port, as known last.
    pub(super) fn peer(&self, to: SwitchPort) -> Option<SwitchPort> {
        self.links.get(&to).map(|link| link.from)
    }
}
