//! Streams of broadcasts and multicasts that switches forward by themselves.
//!
//! The first switch of a stream gets a flow entry with the outputs of the packet-out by which the controller would flood the
//! next packet. So such an entry causes no loop where that packet-out causes none. It is deleted when these outputs are no
//! longer the only ones, for example when the spanning tree is removed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::{
    Action, DatapathId, FlowMod, FlowModCommand, FlowModFlags, Instruction, PortNo,
};
use sluice_sdk::flow_space::GROUP_STREAMS;
use sluice_sdk::view::{AppRecord, NetworkView, SwitchPort};

use super::Matching;
use super::flow::Flow;
use super::flow_entries::{self, EntrySelector};
use super::tree::LIFETIME;
use crate::port_map::remove_switch;
use crate::rate_limit::RateLimit;

/// High bits of the cookies of these flow entries. The low bits are different for each.
const COOKIE: u64 = GROUP_STREAMS.cookie;
const COOKIE_MASK: u64 = GROUP_STREAMS.cookie_mask;

/// Packets within a second by which a stream gets a flow entry.
const PACKETS_MIN: u32 = 10;

/// Time for which a port must have been an edge port. Until then a switch that does not respond, and so has not shown that it is
/// behind the port as well, may have flow entries of the tree: the stream would circulate through both, without the controller,
/// which drops what returns too often.
const EDGE_TIME_MIN: Duration = LIFETIME;

/// Streams of a port that are counted. Packets of others are flooded by the controller.
const STREAMS_PER_PORT_MAX: usize = 64;

/// Time without a packet after which a flow entry expires.
const IDLE_TIMEOUT_S: u16 = 30;

/// Time after which a flow entry expires in any case, so that none stays for long that was written on an earlier connection.
const HARD_TIMEOUT_S: u16 = 300;

/// Time after which an entry has certainly expired, even if the switch's message about it was lost.
const FORGET_AFTER: Duration = Duration::from_secs(HARD_TIMEOUT_S as u64 + 10);

/// Broadcasts and multicasts that a worker floods within a second by which it demands a spanning tree.
const DEMAND_FLOODS: u32 = 100;

/// For how long a worker demands a spanning tree after the last second with so many floods, or with a stream.
const DEMAND_TIME: Duration = Duration::from_secs(60);

/// Interval at which a worker decides whether it demands a spanning tree.
const DEMAND_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A worker floods so many packets that it wants a spanning tree, by worker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TreeDemand;

impl AppRecord for TreeDemand {
    type Key = usize;
}

/// Whether a worker demands a spanning tree.
pub(super) fn is_tree_demanded(view: &NetworkView) -> bool {
    view.records::<TreeDemand>().next().is_some()
}

/// Whether a cookie is that of a flow entry of a stream.
pub(super) const fn is_ours(cookie: u64) -> bool {
    GROUP_STREAMS.has_cookie(cookie)
}

/// The streams from the edge ports of this worker's switches.
#[derive(Debug, Default)]
pub(super) struct GroupStreams {
    switches: BTreeMap<DatapathId, BTreeMap<PortNo, Vec<Stream>>>,
    /// Since when a port has been an edge port, as far as known.
    edge_since: BTreeMap<SwitchPort, Instant>,
    last_id: u32,
    floods: RateLimit,
    demand_until: Option<Instant>,
    demand_checked_at: Option<Instant>,
}

/// Packets of one flow to a group.
#[derive(Debug)]
struct Stream {
    flow: Flow,
    packets: RateLimit,
    /// Until when it gets no flow entry, as the switch has refused one.
    paused_until: Option<Instant>,
    entry: Option<StreamEntry>,
}

#[derive(Debug)]
struct StreamEntry {
    id: u32,
    outputs: Vec<PortNo>,
    written_at: Instant,
    /// When the switch has it.
    arrives_at: Instant,
}

impl GroupStreams {
    /// Number of flow entries.
    pub(super) fn len(&self) -> usize {
        let streams = self.switches.values().flat_map(BTreeMap::values).flatten();
        streams.filter(|stream| stream.entry.is_some()).count()
    }

    /// Counts a packet that is flooded.
    pub(super) fn count_flood(&mut self, now: Instant) {
        if !self.floods.admit(DEMAND_FLOODS - 1, now) {
            self.demand_until = Some(now + DEMAND_TIME);
        }
    }

    /// Whether this worker demands a spanning tree; `None` if that was asked just before.
    pub(super) fn demand(&mut self, now: Instant) -> Option<bool> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < DEMAND_CHECK_INTERVAL;
        if self.demand_checked_at.is_some_and(is_recent) {
            return None;
        }
        self.demand_checked_at = Some(now);
        if self.len() > 0 {
            self.demand_until = Some(now + DEMAND_TIME);
        }
        Some(self.demand_until.is_some_and(|until| now < until))
    }

    /// Handles the role of a port of one of this worker's switches.
    pub(super) fn on_port(&mut self, at: SwitchPort, is_edge: bool, now: Instant) {
        if is_edge {
            self.edge_since.entry(at).or_insert(now);
        } else {
            self.edge_since.remove(&at);
        }
    }

    /// Counts a packet of a stream from an edge port. Returns `true` if the stream is to get a flow entry.
    pub(super) fn packet_arrived(&mut self, at: SwitchPort, flow: Flow, now: Instant) -> bool {
        let port = self.switches.entry(at.switch).or_default().entry(at.port).or_default();
        let Some(stream) = find_or_insert(port, flow, now) else { return false };
        let is_frequent = !stream.packets.admit(PACKETS_MIN - 1, now);
        let is_in_flight = stream.entry.as_ref().is_some_and(|entry| now < entry.arrives_at);
        let is_paused = stream.paused_until.is_some_and(|until| now < until);
        let edge_since = *self.edge_since.entry(at).or_insert(now);
        let is_settled = now.saturating_duration_since(edge_since) >= EDGE_TIME_MIN;
        is_frequent && !is_in_flight && !is_paused && is_settled
    }

    /// The flow entry of a stream from now on. `time` is how long packets that it does not match may still arrive.
    pub(super) fn install(
        &mut self,
        at: SwitchPort,
        flow: Flow,
        outputs: Vec<PortNo>,
        priority: u16,
        (now, time): (Instant, Duration),
    ) -> Option<FlowMod> {
        let port = self.switches.get_mut(&at.switch)?.get_mut(&at.port)?;
        let stream = port.iter_mut().find(|stream| stream.flow == flow)?;
        self.last_id = self.last_id.wrapping_add(1);
        let flow_mod = flow_mod(self.last_id, flow, at.port, &outputs, priority);
        let (id, arrives_at) = (self.last_id, now + time);
        stream.entry = Some(StreamEntry { id, outputs, written_at: now, arrives_at });
        Some(flow_mod)
    }

    /// Whether a switch has streams.
    pub(super) fn has_streams(&self, switch: DatapathId) -> bool {
        self.switches.contains_key(&switch)
    }

    /// Switches with streams.
    pub(super) fn switches(&self) -> Vec<DatapathId> {
        self.switches.keys().copied().collect()
    }

    /// Compares the flow entries of a switch with the outputs that they should have; `None` if there should be no entry.
    /// Returns the changes.
    pub(super) fn refresh(
        &mut self,
        switch: DatapathId,
        priority: u16,
        now: Instant,
        mut outputs: impl FnMut(SwitchPort, Flow) -> Option<Vec<PortNo>>,
    ) -> Vec<FlowMod> {
        let mut changes = Vec::new();
        let Some(ports) = self.switches.get_mut(&switch) else { return changes };
        for (&port, streams) in &mut *ports {
            for stream in &mut *streams {
                let Some(entry) = &mut stream.entry else { continue };
                if now.saturating_duration_since(entry.written_at) >= FORGET_AFTER {
                    stream.entry = None;
                    continue;
                }
                match outputs(SwitchPort::new(switch, port), stream.flow) {
                    Some(outputs) if outputs == entry.outputs => {}
                    Some(outputs) => {
                        self.last_id = self.last_id.wrapping_add(1);
                        (entry.id, entry.written_at) = (self.last_id, now);
                        changes.push(flow_mod(entry.id, stream.flow, port, &outputs, priority));
                        entry.outputs = outputs;
                    }
                    None => {
                        let entry = flow_mod(entry.id, stream.flow, port, &[], priority);
                        changes.push(flow_entries::delete_strict(entry));
                        stream.entry = None;
                    }
                }
            }
            streams.retain(|stream| stream.entry.is_some() || !stream.is_old(now));
        }
        ports.retain(|_, streams| !streams.is_empty());
        if ports.is_empty() {
            self.switches.remove(&switch);
        }
        changes
    }

    /// A flow entry has expired or was deleted.
    pub(super) fn on_removed(&mut self, switch: DatapathId, cookie: u64) {
        if let Some(stream) = self.find_by_cookie(switch, cookie) {
            stream.entry = None;
        }
    }

    /// The switch has refused a flow entry; it gets no other for this stream for a while.
    pub(super) fn on_refused(&mut self, switch: DatapathId, cookie: u64, until: Instant) {
        if let Some(stream) = self.find_by_cookie(switch, cookie) {
            (stream.entry, stream.paused_until) = (None, Some(until));
        }
    }

    fn find_by_cookie(&mut self, switch: DatapathId, cookie: u64) -> Option<&mut Stream> {
        let mut streams = self.switches.get_mut(&switch)?.values_mut().flatten();
        streams.find(|stream| {
            stream.entry.as_ref().is_some_and(|entry| COOKIE | u64::from(entry.id) == cookie)
        })
    }

    /// Forgets the streams of a switch, which may or may not have their flow entries. Returns the deletions of these.
    pub(super) fn forget(
        &mut self,
        switch: DatapathId,
        selector: Option<EntrySelector>,
        priority: u16,
    ) -> Vec<FlowMod> {
        let known = self.switches.remove(&switch).unwrap_or_default();
        if selector == Some(EntrySelector::ByCookie) {
            let (command, cookie_mask) = (FlowModCommand::DELETE, COOKIE_MASK);
            return vec![FlowMod { command, cookie: COOKIE, cookie_mask, ..FlowMod::default() }];
        }
        let delete = |port, stream: &Stream| {
            flow_entries::delete_strict(flow_mod(0, stream.flow, port, &[], priority))
        };
        let deletions = known.iter().flat_map(|(&port, streams)| {
            let installed = streams.iter().filter(|stream| stream.entry.is_some());
            installed.map(move |stream| delete(port, stream))
        });
        deletions.collect()
    }

    /// Forgets the streams of a switch that has disconnected.
    pub(super) fn on_disconnected(&mut self, switch: DatapathId) {
        self.switches.remove(&switch);
        remove_switch(&mut self.edge_since, switch);
    }
}

impl Stream {
    /// Whether its last packet is old, so that another may take its place.
    fn is_old(&self, now: Instant) -> bool {
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        !is_paused && self.packets.is_older_than(Duration::from_secs(2), now)
    }
}

fn find_or_insert(port: &mut Vec<Stream>, flow: Flow, now: Instant) -> Option<&mut Stream> {
    let known = port.iter().position(|stream| stream.flow == flow);
    let at = known.or_else(|| {
        let new = Stream { flow, packets: RateLimit::default(), paused_until: None, entry: None };
        if port.len() < STREAMS_PER_PORT_MAX {
            port.push(new);
            return Some(port.len() - 1);
        }
        let old = port.iter().position(|stream| stream.entry.is_none() && stream.is_old(now))?;
        *port.get_mut(old)? = new;
        Some(old)
    })?;
    port.get_mut(at)
}

fn flow_mod(id: u32, flow: Flow, in_port: PortNo, outputs: &[PortNo], priority: u16) -> FlowMod {
    let actions: Vec<_> = outputs.iter().copied().map(Action::output).collect();
    let instructions = if actions.is_empty() { vec![] } else { vec![Instruction::apply(actions)] };
    FlowMod {
        cookie: COOKIE | u64::from(id),
        flags: FlowModFlags::SEND_FLOW_REM,
        idle_timeout: IDLE_TIMEOUT_S,
        hard_timeout: HARD_TIMEOUT_S,
        priority,
        matching: flow.to_match(Matching::FiveTuple, in_port),
        instructions,
        ..FlowMod::default()
    }
}
