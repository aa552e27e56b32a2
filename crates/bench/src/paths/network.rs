//! The emulated network: model switches, and frames that travel over the links between them.

use std::collections::VecDeque;
use std::time::Instant;

use sluice_emu::switch::{
    EmulatedPortConfig, EmulatedSwitch, EmulatedSwitchConfig, FlowEntry, FlowEntryId,
    FollowedOutput, FollowedPacket, SwitchCounters, SwitchOutput,
};
use sluice_emu::topology::{PortRef, SwitchNode, Topology};
use sluice_openflow::{DatapathId, FieldId, Versions};
use sluice_proto::SessionError;

use super::frames::{HostAddresses, request_of};
use super::requests::RequestId;
use super::wiring::{PortPeer, Wiring};
use crate::Plan;

/// Most links that a frame passes, and switches that a followed packet and its copies visit, for each switch of the network.
/// A frame that passes more is in a loop.
const VISITS_PER_SWITCH: usize = 2;

/// Most frames in transit between switches. Further ones are dropped: flow entries or packet-outs flood into a loop.
const IN_TRANSIT_MAX: usize = 1 << 16;

/// Most flow entries in one table of a switch: more than the paths of all outstanding requests need.
const TABLE_ENTRIES_MAX: usize = 1 << 20;

/// A frame on a link.
#[derive(Debug)]
struct FrameInTransit {
    /// The port at which it arrives.
    to: PortRef,
    bytes: Vec<u8>,
    hops: usize,
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
    /// No flow entry of this switch sends it anywhere.
    EndsAt(usize),
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
    /// Most links that a frame passes.
    visits_max: usize,
    /// Frames dropped because they passed too many links, or because too many were in transit.
    looping_frames: u64,
    followed: FollowedOutput,
    /// Copies of the followed packet to be followed further.
    follow_next: Vec<(PortRef, FollowedPacket)>,
    /// The flow entries that followed packets matched, with their switches.
    matched: Vec<(usize, FlowEntryId)>,
}

impl ModelNetwork {
    pub(super) fn new(plan: &Plan, topology: &Topology) -> Self {
        let switch = |(n, node): (usize, &SwitchNode)| {
            let datapath_id = DatapathId(plan.dpid_offset.wrapping_add(n as u64));
            NetworkSwitch {
                model: EmulatedSwitch::new(switch_config(plan, datapath_id, node)),
                out: SwitchOutput::default(),
            }
        };
        Self {
            wiring: Wiring::new(topology),
            switches: topology.switches.iter().enumerate().map(switch).collect(),
            in_transit: VecDeque::new(),
            deliveries: vec![],
            visits_max: VISITS_PER_SWITCH * topology.switches.len() + 1,
            looping_frames: 0,
            followed: FollowedOutput::default(),
            follow_next: vec![],
            matched: vec![],
        }
    }

    /// The control connection of a switch is open.
    pub(super) fn on_connected(&mut self, now: Instant, switch: usize) {
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
        let result = model.on_control_bytes(now, bytes, out);
        self.collect_frames(switch, 0);
        self.deliver_frames(now);
        result
    }

    /// A host sends a frame.
    pub(super) fn send_frame(&mut self, now: Instant, from: PortRef, bytes: &[u8]) {
        self.receive_frame(now, from, bytes, 0);
        self.deliver_frames(now);
    }

    fn receive_frame(&mut self, now: Instant, to: PortRef, bytes: &[u8], hops: usize) {
        if let Some(NetworkSwitch { model, out }) = self.switches.get_mut(to.switch) {
            model.on_frame(now, to.port, bytes, out);
            self.collect_frames(to.switch, hops);
        }
    }

    /// Puts the frames that a switch has sent on their links.
    fn collect_frames(&mut self, switch: usize, hops: usize) {
        let Some(NetworkSwitch { out, .. }) = self.switches.get_mut(switch) else { return };
        for (port, bytes) in out.frames.drain(..) {
            match self.wiring.peer(switch, port) {
                PortPeer::Switch(to) => {
                    if hops >= self.visits_max || self.in_transit.len() >= IN_TRANSIT_MAX {
                        self.looping_frames += 1;
                    } else {
                        self.in_transit.push_back(FrameInTransit { to, bytes, hops: hops + 1 });
                    }
                }
                PortPeer::Host => {
                    let at = PortRef { switch, port };
                    let request = request_of(&bytes).map(RequestId);
                    self.deliveries.extend(request.map(|request| Delivery { request, at }));
                }
                PortPeer::Unconnected => {}
            }
        }
    }

    fn deliver_frames(&mut self, now: Instant) {
        while let Some(FrameInTransit { to, bytes, hops }) = self.in_transit.pop_front() {
            self.receive_frame(now, to, &bytes, hops);
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
        let (mut arrived, mut end) = (None, None);
        self.follow_next.clear();
        self.follow_next.extend(FollowedPacket::parse(frame.to_vec()).map(|packet| (from, packet)));
        for _ in 0..self.visits_max {
            let Some((at, packet)) = self.follow_next.pop() else {
                return match (arrived, end) {
                    (Some(packet), _) => FollowedPath::Arrives(FollowedPacket::into_bytes(packet)),
                    (None, Some(switch)) => FollowedPath::EndsAt(switch),
                    (None, None) => FollowedPath::LeadsElsewhere,
                };
            };
            let Some(NetworkSwitch { model, .. }) = self.switches.get_mut(at.switch) else {
                continue;
            };
            model.follow(now, at.port, packet, &mut self.followed);
            let FollowedOutput { packets, entries } = &mut self.followed;
            self.matched.extend(entries.iter().map(|&entry| (at.switch, entry)));
            if packets.is_empty() {
                end = Some(at.switch);
            }
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

    /// Removes the flow entries that followed packets have matched and that match the address of one of the hosts, as if
    /// they had expired; returns how many.
    pub(super) fn expire_matched(&mut self, now: Instant, hosts: [HostAddresses; 2]) -> usize {
        let mut expired = 0;
        for (switch, id) in self.matched.drain(..) {
            let Some(NetworkSwitch { model, out }) = self.switches.get_mut(switch) else {
                continue;
            };
            if model.flow_entry(id).is_some_and(|entry| matches_address(entry, hosts)) {
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
    entry.matching.iter().filter(|field| field.is_exact()).any(|field| {
        hosts.iter().any(|host| match field.id.canonical() {
            FieldId::ETH_DST | FieldId::ETH_SRC => field.value == host.mac.to_u64().into(),
            FieldId::IPV4_DST | FieldId::IPV4_SRC => field.value == host.ip.to_bits().into(),
            _ => false,
        })
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
