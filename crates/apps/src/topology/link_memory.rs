//! Links of switches that disconnected: a switch that reconnects most likely still has them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Fact, NetworkView, SwitchInfo, SwitchPort};

use super::SILENT_LINK_HOLD;

/// Ports of disconnected switches that are remembered: of 1 365 switches with 48 ports each, in less than 2 MiB.
///
/// Beyond, the switches with the shortest sessions are forgotten: if they connect again, their links are found anew and their ports
/// are not compared with those of before. So a device that connects under many datapath ids in turn takes no memory from switches
/// that have been connected for long.
const LOST_PORTS_MAX: usize = 65_536;

/// The links of the network view, and those that left it only because a switch at one end disconnected.
#[derive(Debug, Default)]
pub(super) struct LinkMemory {
    /// By the port where frames are received.
    links: HashMap<SwitchPort, RememberedLink>,
    switches: HashMap<DatapathId, RememberedPorts>,
    /// The disconnected switches among these, by the duration of their last session.
    lost: BTreeSet<(Duration, DatapathId)>,
    /// Number of ports of these.
    lost_ports: usize,
}

/// The ports of a switch. If it reconnects with others, it is another switch or has been rebuilt, and has other links.
#[derive(Debug)]
struct RememberedPorts {
    /// In the order of their numbers.
    addresses: Vec<(PortNo, MacAddr)>,
    connected_at: Instant,
    /// When the switch disconnected.
    lost_at: Option<Instant>,
}

impl RememberedPorts {
    fn set(&mut self, port: PortNo, addr: Option<MacAddr>) {
        match (self.addresses.binary_search_by_key(&port, |&(no, _)| no), addr) {
            (Ok(n), Some(addr)) => {
                if let Some(known) = self.addresses.get_mut(n) {
                    known.1 = addr;
                }
            }
            (Ok(n), None) => _ = self.addresses.remove(n),
            (Err(n), Some(addr)) => self.addresses.insert(n, (port, addr)),
            (Err(_), None) => {}
        }
    }

    /// How long the session took that has ended.
    fn session(&self) -> Option<Duration> {
        Some(self.lost_at?.saturating_duration_since(self.connected_at))
    }
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
                // The ports of a disconnected switch stay as they were.
                let ports = self.switches.get_mut(&at.switch);
                if let Some(ports) = ports.filter(|ports| ports.lost_at.is_none()) {
                    ports.set(at.port, port.as_ref().map(|port| port.hw_addr));
                }
                if port.as_ref().is_none_or(|port| !port.is_up) {
                    self.forget(*at);
                }
            }
            // The worker of the switch publishes which of its ports are others.
            Fact::Switch(id, Some(info)) => _ = self.switch_connected(*id, info, now),
            Fact::Switch(id, None) => self.switch_lost(*id, now),
            _ => {}
        }
    }

    /// A switch has connected with the ports `info`. If these are not those of before, its links are forgotten, and the numbers of
    /// the ports of before are returned.
    pub(super) fn switch_connected(
        &mut self,
        id: DatapathId,
        info: &SwitchInfo,
        now: Instant,
    ) -> Vec<PortNo> {
        let addresses: Vec<_> = info.ports.iter().map(|(&no, port)| (no, port.hw_addr)).collect();
        let mut connected_at = now;
        let mut replaced = Vec::new();
        if let Some(old) = self.remove(id) {
            if old.addresses != addresses {
                replaced.extend(old.addresses.iter().map(|&(no, _)| no));
            } else if old.lost_at.is_none() {
                connected_at = old.connected_at;
            }
        }
        for &no in &replaced {
            self.forget(SwitchPort::new(id, no));
        }
        self.switches.insert(id, RememberedPorts { addresses, connected_at, lost_at: None });
        replaced
    }

    /// A switch has disconnected. If too much is remembered then, switches with shorter sessions are forgotten.
    fn switch_lost(&mut self, id: DatapathId, now: Instant) {
        let Some(ports) = self.switches.get_mut(&id).filter(|ports| ports.lost_at.is_none()) else {
            return;
        };
        ports.lost_at = Some(now);
        self.lost_ports += ports.addresses.len();
        self.lost.extend(ports.session().map(|session| (session, id)));
        while self.lost_ports > LOST_PORTS_MAX
            && let Some(&(_, id)) = self.lost.first()
            && let Some(ports) = self.remove(id)
        {
            for (no, _) in ports.addresses {
                self.forget(SwitchPort::new(id, no));
            }
        }
    }

    /// Removes the ports of a switch.
    fn remove(&mut self, id: DatapathId) -> Option<RememberedPorts> {
        let ports = self.switches.remove(&id)?;
        if let Some(session) = ports.session() {
            self.lost.remove(&(session, id));
            self.lost_ports -= ports.addresses.len();
        }
        Some(ports)
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
        let lost = self.lost.iter().map(|&(_, id)| id);
        let over: Vec<_> = lost
            .filter(|id| self.switches.get(id).and_then(|it| it.lost_at).is_none_or(is_over))
            .collect();
        for id in over {
            self.remove(id);
        }
    }

    /// The start of the link into a port, as known last.
    pub(super) fn peer(&self, to: SwitchPort) -> Option<SwitchPort> {
        self.links.get(&to).map(|link| link.from)
    }
}

#[cfg(test)]
mod tests {
    use sluice_sdk::view::{PortInfo, PortRole};

    use super::*;

    const PORTS: u32 = 4000;

    fn switch(ports: u32) -> SwitchInfo {
        let ports = (1..=ports).map(|no| {
            let (name, hw_addr) = (sluice_openflow::FixedString::default(), MacAddr([2; 6]));
            (PortNo(no), PortInfo { name, hw_addr, is_up: true, role: PortRole::Pending })
        });
        SwitchInfo { ports: ports.collect() }
    }

    #[test]
    fn switches_that_come_and_go_take_no_memory_from_one_that_was_connected_for_long() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut memory, view) = (LinkMemory::default(), NetworkView::default());
        let mut apply = |fact, ms| {
            memory.on_fact(&fact, start + Duration::from_millis(ms), &view);
            memory.lost_ports
        };
        let old = DatapathId(1);
        apply(Fact::Switch(old, Some(switch(48))), 0);
        apply(Fact::Switch(old, None), 60_000);
        for n in 2..100 {
            let id = DatapathId(n);
            apply(Fact::Switch(id, Some(switch(PORTS))), 60_000 + n);
            let remembered = apply(Fact::Switch(id, None), 60_001 + n);
            assert!(remembered <= LOST_PORTS_MAX, "{remembered} ports");
        }
        assert!(memory.switches.len() <= LOST_PORTS_MAX / PORTS as usize + 1);
        assert_eq!(memory.switch_connected(old, &switch(47), start).len(), 48);
        memory.expire(start + Duration::from_secs(200));
        assert_eq!((memory.switches.len(), memory.lost.len(), memory.lost_ports), (1, 0, 0));
    }
}
