//! Hubs: devices without memory that repeat each frame out of all their other cables.

use super::operations::OldPort;
use super::{
    DataPlane, FabricLink, Instant, LinkEnd, LinkImpairments, LinkSide, NetworkError, PortRef,
};

/// The first bytes of the addresses that bridges do not forward, and of a few more. IEEE 802.1D-2004 §7.12.6.
const RESERVED: [u8; 5] = [1, 0x80, 0xc2, 0, 0];

/// What a hub repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubKind {
    /// All frames, LLDP among them.
    Repeater,
    /// All frames but those to addresses that bridges do not forward, such as LLDP: an unmanaged switch that has learned nothing.
    Bridge,
}

/// A hub: its cables, by link and the side at which it is.
#[derive(Debug)]
pub(super) struct Hub {
    kind: HubKind,
    cables: Vec<(usize, LinkSide)>,
}

impl DataPlane {
    /// Connects free ports of switches and hosts to a new hub, which repeats each frame out of all its other cables. Returns the
    /// numbers of the cables to the ports, in their order.
    ///
    /// The hosts are unplugged from where they are and announce themselves. The port of each in
    /// [`topology`](Self::topology) is then the lowest one of the hub.
    ///
    /// # Errors
    /// There is no such host; a port does not exist or is in use; there are no ports.
    pub fn add_hub(
        &mut self,
        now: Instant,
        kind: HubKind,
        ports: &[PortRef],
        hosts: &[usize],
        impairments: LinkImpairments,
    ) -> Result<Vec<usize>, NetworkError> {
        let lowest =
            *ports.iter().min().ok_or(NetworkError::NotFound { what: "port", index: 0 })?;
        let number = self.hubs.len();
        self.hubs.push(Hub { kind, cables: Vec::new() });
        let mut links = Vec::with_capacity(ports.len());
        for &port in ports {
            let link = self.links.len();
            match self.port(port) {
                Some(slot @ None) => *slot = Some((link, LinkSide::A)),
                _ => return Err(NetworkError::PortUnavailable(port)),
            }
            let ends = [LinkEnd::Port(port), LinkEnd::Hub(number)];
            self.links.push(FabricLink::new(ends[0], ends[1], impairments));
            self.add_cable(number, (link, LinkSide::B));
            self.set_port(now, port, true);
            links.push(link);
        }
        for &host in hosts {
            self.unplug_host(now, host, OldPort::GoesDown)?;
            let link = self.host_link(host);
            if let Some(link) = self.links.get_mut(link) {
                link.a = LinkEnd::Hub(number);
            }
            if let Some(node) = self.topology.hosts.get_mut(host) {
                node.port = lowest;
            }
            self.add_cable(number, (link, LinkSide::A));
            self.announce(now, host)?;
        }
        Ok(links)
    }

    fn add_cable(&mut self, hub: usize, cable: (usize, LinkSide)) {
        if let Some(hub) = self.hubs.get_mut(hub) {
            hub.cables.push(cable);
        }
    }

    /// Removes the link of a host from the port or hub to which it is attached. Frames in transit are dropped.
    pub(super) fn unplug_host(
        &mut self,
        now: Instant,
        host: usize,
        old_port: OldPort,
    ) -> Result<(), NetworkError> {
        let link = self.host_link(host);
        let no_host = NetworkError::NotFound { what: "host", index: host };
        let link_model = self.links.get_mut(link).ok_or(no_host)?;
        self.frames_in_flight -= link_model.drop_frames();
        match link_model.a {
            LinkEnd::Port(from) => {
                if let Some(port) = self.port(from) {
                    *port = None;
                }
                self.set_port(now, from, old_port == OldPort::StaysUp);
            }
            LinkEnd::Hub(hub) => {
                if let Some(hub) = self.hubs.get_mut(hub) {
                    hub.cables.retain(|&(cable, _)| cable != link);
                }
            }
            LinkEnd::Host(_) => {}
        }
        Ok(())
    }

    /// Repeats a frame that arrived over a cable of a hub.
    pub(super) fn repeat(&mut self, now: Instant, hub: usize, from: usize, frame: &[u8]) {
        let Some(hub) = self.hubs.get(hub) else { return };
        if hub.kind == HubKind::Bridge && frame.starts_with(&RESERVED) {
            return;
        }
        let cables = hub.cables.clone();
        for (link, side) in cables.into_iter().filter(|&(link, _)| link != from) {
            self.send(now, link, side, frame.to_vec());
        }
    }

    /// The ports out of which frames reach a host: the one to which it is attached, or those of its hub whose cables are up.
    pub fn host_ports(&self, host: usize) -> Vec<PortRef> {
        match self.links.get(self.host_link(host)).map(|link| link.a) {
            Some(LinkEnd::Port(port)) => vec![port],
            Some(LinkEnd::Hub(hub)) => {
                let cables = self.hubs.get(hub).into_iter().flat_map(|hub| &hub.cables);
                let links = cables.filter_map(|&(link, _)| self.links.get(link));
                let ports = links.filter(|link| link.is_up).filter_map(|link| match link.a {
                    LinkEnd::Port(port) => Some(port),
                    LinkEnd::Host(_) | LinkEnd::Hub(_) => None,
                });
                ports.collect()
            }
            Some(LinkEnd::Host(_)) | None => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_openflow::{Action, FlowMod, Instruction, MacAddr, PortNo};

    use super::*;
    use crate::net::{FrameTraces, NetworkOptions};
    use crate::switch::EmulatedSwitchConfig;
    use crate::topology::Topology;

    /// Two hosts at a hub with two cables to one switch, which has a third host.
    #[test]
    fn a_hub_repeats_a_frame_out_of_all_other_cables() {
        let now = sluice_io::clock::now();
        let topology = Topology::from_text("single,3").unwrap();
        let options = NetworkOptions {
            spare_ports: 2,
            switch: EmulatedSwitchConfig::default(),
            ..NetworkOptions::default()
        };
        let mut net = DataPlane::new(topology, &options, now).unwrap();
        let ports = [4, 5].map(|n| PortRef { switch: 0, port: PortNo(n) });
        let cables =
            net.add_hub(now, HubKind::Bridge, &ports, &[1, 2], LinkImpairments::default()).unwrap();
        assert_eq!((cables, net.host_ports(2)), (vec![3, 4], ports.to_vec()));
        assert_eq!(net.host_ports(0), [PortRef { switch: 0, port: PortNo(1) }]);
        // Without a controller, the switch sends all that arrives at port 4 out of port 1.
        let to_host = FlowMod {
            matching: [sluice_openflow::Field::in_port(PortNo(4))].into(),
            instructions: vec![Instruction::apply([Action::output(PortNo(1))])],
            ..FlowMod::default()
        };
        assert!(net.change_tables(now, 0, to_host).unwrap());
        let mac = net.topology().hosts.first().unwrap().mac;
        net.send_frame(now, 1, FrameTraces::frame(mac, MacAddr::BROADCAST, 7)).unwrap();
        let end = now + Duration::from_secs(1);
        net.tick(end).unwrap();
        assert_eq!(net.traces().deliveries(7).collect::<Vec<_>>(), [(0, 1), (2, 1)]);
        assert_eq!(net.traces().link_crossings_max(7), 1);
        // A host that moves leaves the hub, whose ports stay up.
        let to = PortRef { switch: 0, port: PortNo(2) };
        net.move_host(end, 2, to).unwrap();
        assert_eq!(net.host_ports(2), [to]);
        net.send_frame(end, 1, FrameTraces::frame(mac, MacAddr::BROADCAST, 8)).unwrap();
        net.tick(end + Duration::from_secs(1)).unwrap();
        assert_eq!(net.traces().deliveries(8).collect::<Vec<_>>(), [(0, 1)]);
    }
}
