//! The emulated network: model switches, and frames that travel over the links between them.

use std::collections::VecDeque;
use std::time::Instant;

use sluice_emu::switch::{
    EmulatedPortConfig, EmulatedSwitch, EmulatedSwitchConfig, FlowEntry, FlowEntryId,
    FollowedOutput, FollowedPacket, SwitchCounters, SwitchOutput,
};
use sluice_emu::topology::{PortRef, SwitchNode};
use sluice_openflow::{DatapathId, FieldId, PortNo, Versions};
use sluice_proto::SessionError;

use super::frames::{HostAddresses, request_of};
use super::requests::RequestId;
use super::wiring::{PortPeer, Wiring};
use super::{Directions, NetworkPlan};
use crate::Plan;
use crate::pending::PendingSwitches;

/// Most times that a frame and its copies arrive at a switch, for each switch of the network, and the same for followed packets. A
/// frame that arrives more often is in a loop.
const VISITS_PER_SWITCH: usize = 8;

/// Most flow entries in one table of a switch: more than the paths of all outstanding requests need.
const TABLE_ENTRIES_MAX: usize = 1 << 20;

/// A frame on a link.
#[derive(Debug)]
struct FrameInTransit {
    /// The port at which it arrives.
    to: PortRef,
    bytes: Vec<u8>,
}

/// A model switch and what it sends.
#[derive(Debug)]
struct NetworkSwitch {
    model: EmulatedSwitch,
    out: SwitchOutput,
}

/// The frame of a request that arrived at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) request: RequestId,
    /// The port of the host.
    pub(super) at: PortRef,
}

/// Where the flow tables send a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FollowedPath {
    /// It arrives at its destination, as this frame.
    Arrives(Vec<u8>),
    /// It, or one of its copies, reaches a switch where no flow entry sends it anywhere.
    Ends,
    /// It arrives somewhere else, or is in a loop.
    LeadsElsewhere,
}

/// Switches and links.
#[derive(Debug)]
pub(super) struct ModelNetwork {
    pub(super) wiring: Wiring,
    switches: Vec<NetworkSwitch>,
    in_transit: VecDeque<FrameInTransit>,
    deliveries: Vec<Delivery>,
    /// Most arrivals of a frame and its copies at switches.
    visits_max: usize,
    /// Switches that may have something to send to the controller.
    pub(super) pending: PendingSwitches,
    /// Frames dropped because they and their copies arrived at switches too often.
    looping_frames: u64,
    followed: FollowedOutput,
    /// Copies of the followed packet to be followed further.
    follow_next: Vec<(PortRef, FollowedPacket)>,
    /// The switches that the last followed packet and its copies visited.
    visited: Vec<usize>,
    /// The flow entries that followed packets matched, with their switches.
    matched: Vec<(usize, FlowEntryId)>,
}

impl ModelNetwork {
    pub(super) fn new(plan: &Plan, network: &NetworkPlan) -> Self {
        let NetworkPlan { topology, directions, .. } = network;
        let switch = |(n, node): (usize, &SwitchNode)| {
            let datapath_id = DatapathId(plan.dpid_offset.wrapping_add(n as u64));
            NetworkSwitch {
                model: EmulatedSwitch::new(EmulatedSwitchConfig {
                    keeps_only_table_miss: *directions == Directions::None,
                    ..switch_config(plan, datapath_id, node)
                }),
                out: SwitchOutput::default(),
            }
        };
        Self {
            wiring: Wiring::new(topology),
            switches: topology.switches.iter().enumerate().map(switch).collect(),
            in_transit: VecDeque::new(),
            deliveries: vec![],
            visits_max: VISITS_PER_SWITCH * topology.switches.len() + 1,
            pending: PendingSwitches::new(topology.switches.len()),
            looping_frames: 0,
            followed: FollowedOutput::default(),
            follow_next: vec![],
            visited: vec![],
            matched: vec![],
        }
    }

    /// The control connection of a switch is open.
    pub(super) fn on_connected(&mut self, now: Instant, switch: usize) {
        self.pending.add(switch);
        if let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch) {
            model.on_connected(now, out);
        }
    }

    /// The control connection of a switch is closed.
    pub(super) fn on_disconnected(&mut self, now: Instant, switch: usize) {
        if let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch) {
            model.on_disconnected(now);
            out.clear();
        }
    }

    /// Handles bytes from the controller, and everything that the messages in them cause in the network.
    ///
    /// # Errors
    /// The reason to close the connection.
    pub(super) fn on_control_bytes(
        &mut self,
        now: Instant,
        switch: usize,
        bytes: &[u8],
    ) -> Result<(), SessionError> {
        let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch) else {
            return Ok(());
        };
        self.pending.add(switch);
        let result = model.on_control_bytes(now, bytes, out);
        self.deliver_frames(now, switch);
        result
    }

    /// A host sends a frame.
    pub(super) fn send_frame(&mut self, now: Instant, from: PortRef, bytes: &[u8]) {
        self.receive_frame(now, from, bytes);
        self.deliver_frames(now, from.switch);
    }

    fn receive_frame(&mut self, now: Instant, to: PortRef, bytes: &[u8]) {
        self.pending.add(to.switch);
        if let Some(NetworkSwitch { model, out }) = self.switches.get_mut(to.switch) {
            model.on_frame(now, to.port, bytes, out);
        }
    }

    /// Delivers the frames that a switch has sent, one after the other with all copies that are made of it on the way.
    fn deliver_frames(&mut self, now: Instant, switch: usize) {
        let Some(NetworkSwitch { out, .. }) = self.switches.get_mut(switch) else { return };
        let mut sent = std::mem::take(&mut out.frames);
        for frame in sent.drain(..) {
            self.put_on_link(switch, frame);
            for _ in 0..self.visits_max {
                let Some(FrameInTransit { to, bytes }) = self.in_transit.pop_front() else { break };
                self.receive_frame(now, to, &bytes);
                self.forward_frames(to.switch);
            }
            self.looping_frames += self.in_transit.len() as u64;
            self.in_transit.clear();
        }
        if let Some(NetworkSwitch { out, .. }) = self.switches.get_mut(switch) {
            // The buffer is used again.
            out.frames = sent;
        }
    }

    /// Puts the frames that a switch has sent on their links.
    fn forward_frames(&mut self, switch: usize) {
        let Some(NetworkSwitch { out, .. }) = self.switches.get_mut(switch) else { return };
        let mut sent = std::mem::take(&mut out.frames);
        sent.drain(..).for_each(|frame| self.put_on_link(switch, frame));
        if let Some(NetworkSwitch { out, .. }) = self.switches.get_mut(switch) {
            out.frames = sent;
        }
    }

    /// Puts a frame on the link of a port.
    fn put_on_link(&mut self, switch: usize, (port, bytes): (PortNo, Vec<u8>)) {
        match self.wiring.peer(switch, port) {
            PortPeer::Switch(to) => self.in_transit.push_back(FrameInTransit { to, bytes }),
            PortPeer::Host => {
                let at = PortRef { switch, port };
                let request = request_of(&bytes).map(RequestId);
                self.deliveries.extend(request.map(|request| Delivery { request, at }));
            }
            PortPeer::Unconnected => {}
        }
    }

    /// Takes one of the frames of requests that have arrived at hosts.
    pub(super) fn take_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop()
    }

    /// Follows a frame through the flow tables, from the port of its source to that of its destination.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        from: PortRef,
        frame: &[u8],
        to: PortRef,
    ) -> FollowedPath {
        let (mut arrived, mut ends) = (None, false);
        self.visited.clear();
        self.follow_next.clear();
        self.follow_next.extend(FollowedPacket::parse(frame.to_vec()).map(|packet| (from, packet)));
        for _ in 0..self.visits_max {
            let Some((at, packet)) = self.follow_next.pop() else {
                return match arrived {
                    Some(packet) => FollowedPath::Arrives(FollowedPacket::into_bytes(packet)),
                    None if ends => FollowedPath::Ends,
                    None => FollowedPath::LeadsElsewhere,
                };
            };
            let Some(NetworkSwitch { model, .. }) = self.switches.get_mut(at.switch) else {
                continue;
            };
            self.visited.push(at.switch);
            model.follow(now, at.port, packet, &mut self.followed);
            let FollowedOutput { packets, entries, .. } = &mut self.followed;
            self.matched.extend(entries.iter().map(|&entry| (at.switch, entry)));
            ends |= packets.is_empty();
            for (port, packet) in packets.drain(..) {
                let here = PortRef { switch: at.switch, port };
                match self.wiring.peer(at.switch, port) {
                    PortPeer::Switch(next) => self.follow_next.push((next, packet)),
                    PortPeer::Host if here == to => arrived = Some(packet),
                    PortPeer::Host | PortPeer::Unconnected => {}
                }
            }
        }
        FollowedPath::LeadsElsewhere
    }

    /// The switches whose tables decided where the last followed packet went.
    pub(super) fn visited(&self) -> &[usize] {
        &self.visited
    }

    /// Removes the flow entries that followed packets have matched and that match the address of one of the hosts, as if
    /// they had expired; returns how many.
    pub(super) fn expire_matched(&mut self, now: Instant, hosts: [HostAddresses; 2]) -> usize {
        let mut expired = 0;
        for (switch, id) in self.matched.drain(..) {
            let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch) else {
                continue;
            };
            if model.flow_entry(id).is_some_and(|entry| matches_address(entry, hosts)) {
                self.pending.add(switch);
                model.expire_flow_entry(now, id, out);
                expired += 1;
            }
        }
        expired
    }

    /// Forgets the flow entries that followed packets have matched.
    pub(super) fn forget_matched(&mut self) {
        self.matched.clear();
    }

    /// Lets timeouts pass: flow entries of all switches.
    pub(super) fn tick(&mut self, now: Instant) {
        for switch in 0..self.switches.len() {
            if let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch)
                && model.deadline().is_some_and(|at| at <= now)
            {
                self.pending.add(switch);
                model.tick(now, out);
            }
        }
    }

    /// Whether the handshake of a switch is complete.
    pub(super) fn is_ready(&self, switch: usize) -> bool {
        self.switches.get(switch).is_some_and(|it| it.model.is_connected())
    }

    /// Counters of one switch.
    pub(super) fn counters(&self, switch: usize) -> SwitchCounters {
        self.switches.get(switch).map(|it| *it.model.counters()).unwrap_or_default()
    }

    /// The sum of a counter over all switches.
    pub(super) fn total(&self, counter: impl Fn(&SwitchCounters) -> u64) -> u64 {
        self.switches.iter().map(|it| counter(it.model.counters())).sum()
    }

    /// Frames that were dropped in a loop.
    pub(super) fn looping_frames(&self) -> u64 {
        self.looping_frames
    }

    /// What a switch sends to the controller.
    pub(super) fn output(&mut self, switch: usize) -> Option<&mut SwitchOutput> {
        self.switches.get_mut(switch).map(|it| &mut it.out)
    }
}

/// Whether a flow entry matches the address of one of two hosts: if not, it serves other pairs of hosts as well.
fn matches_address(entry: &FlowEntry, hosts: [HostAddresses; 2]) -> bool {
    hosts.iter().any(|host| {
        let (mac, ip) = (host.mac.to_u64().into(), host.ip.to_bits().into());
        [FieldId::ETH_DST, FieldId::ETH_SRC].into_iter().any(|id| entry.has_exact(id, mac))
            || [FieldId::IPV4_DST, FieldId::IPV4_SRC].into_iter().any(|id| entry.has_exact(id, ip))
    })
}

/// A switch that buffers nothing, like Open vSwitch.
fn switch_config(plan: &Plan, datapath_id: DatapathId, node: &SwitchNode) -> EmulatedSwitchConfig {
    let n_ports = u16::try_from(node.n_ports).unwrap_or(u16::MAX);
    EmulatedSwitchConfig {
        datapath_id,
        ports: (1..=n_ports).map(|n| EmulatedPortConfig::numbered(datapath_id, n)).collect(),
        versions: Versions::of(&[plan.version]),
        table_entries_max: TABLE_ENTRIES_MAX,
        n_buffers: 0,
        ..EmulatedSwitchConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;
    use sluice_openflow::{Action, Encoder, FlowMod, Instruction, MacAddr, MessageType, Version};

    use super::*;
    use crate::paths::frames::announcement;

    #[test]
    fn a_frame_that_is_flooded_into_loops_is_dropped_after_a_limited_number_of_copies() {
        let network = NetworkPlan::from_shape("leafspine,4,16,1", Directions::Both).unwrap();
        let plan = Plan { version: Version::V1_3, ..Plan::for_network(network.clone(), 1) };
        let (mut model, now) = (ModelNetwork::new(&plan, &network), clock::now());
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut tx, plan.version, &mut xid);
        out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
        let flood = Instruction::apply([Action::output(PortNo::FLOOD)]);
        out.flow_mod(&FlowMod { instructions: vec![flood], ..FlowMod::default() }).unwrap();
        for switch in 0..20 {
            model.on_connected(now, switch);
            model.on_control_bytes(now, switch, &tx).unwrap();
        }
        let host = HostAddresses { mac: MacAddr([2, 0, 0, 0, 0, 1]), ip: [10, 0, 0, 1].into() };
        model.send_frame(now, network.topology.hosts[0].port, &announcement(host));
        let arrivals: u64 = (0..20)
            .flat_map(|at| model.switches[at].model.flow_entries(0).map(|entry| entry.packets))
            .sum();
        // The host sends one frame, and the first switch one on each of its four links to the spines.
        let limit = 1 + 4 * model.visits_max as u64;
        assert!((100..=limit).contains(&arrivals), "{arrivals} arrivals");
        assert!(model.looping_frames() > 0 && model.in_transit.is_empty());
    }
}
