//! The switches of a worker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sluice_base::HashMap;
use sluice_io::ConnId;
use sluice_openflow::{DatapathId, PortStatus, SwitchFeatures};
use sluice_proto::ControllerSession;
use sluice_sdk::SwitchIndex;

use super::in_kernel::InKernel;
use super::ports::{PortChange, PortIndex};
use crate::connection::{ConnectionBuffers, EstablishedConnection};
use crate::messages::SessionId;
use crate::outstanding::OutstandingRequests;
use crate::switch_counters::SwitchCounters;

/// A connected switch of a worker.
#[derive(Debug)]
pub(super) struct ConnectedSwitch {
    pub(super) id: ConnId,
    pub(super) session_id: SessionId,
    pub(super) addr: SocketAddr,
    pub(super) datapath_id: DatapathId,
    pub(super) index: SwitchIndex,
    /// As reported in the handshake, with the ports that it has now.
    pub(super) features: Arc<SwitchFeatures>,
    port_index: PortIndex,
    have_ports_changed: bool,
    /// Number of ports that the acceptor counts.
    counted_ports: usize,
    pub(super) migration: Option<Migration>,
    pub(super) session: ControllerSession,
    pub(super) buffers: ConnectionBuffers,
    pub(super) requests: OutstandingRequests,
    pub(super) counters: Arc<SwitchCounters>,
    /// The acceptor waits for a sign of life.
    pub(super) is_probed: bool,
    pub(super) unflushed: Unflushed,
    /// Log lines about this switch.
    pub(super) logged: u32,
}

/// A switch that is about to move to another worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    pub(super) to: usize,
    /// Whether all workers have been notified, and not only the new one.
    pub(super) is_announced: bool,
    /// Workers that have been notified and may still send messages to the switch here.
    pub(super) missing_acks: usize,
}

impl ConnectedSwitch {
    /// Keeps the list of ports current.
    pub(super) fn record_port(&mut self, status: &PortStatus, now: Instant) -> PortChange {
        self.have_ports_changed = true;
        self.port_index.record(&mut Arc::make_mut(&mut self.features).ports, status, now)
    }

    /// The features, if ports have changed since the last call.
    pub(super) fn take_changed_features(&mut self) -> Option<Arc<SwitchFeatures>> {
        std::mem::take(&mut self.have_ports_changed).then(|| self.features.clone())
    }

    /// What there is to send when a message is queued behind what waits.
    pub(super) fn unflushed_with(&self, is_packet_out: bool) -> Unflushed {
        match self.unflushed {
            Unflushed::Nothing if self.buffers.transmit.is_empty() => Unflushed::Messages,
            Unflushed::Nothing | Unflushed::BehindBacklog if is_packet_out => {
                Unflushed::BehindBacklog
            }
            Unflushed::Nothing | Unflushed::BehindBacklog => Unflushed::Overtaking,
            same => same,
        }
    }

    /// Whether nothing waits: no message is incomplete, nothing is left to be sent, and the switch stays here.
    pub(super) fn is_idle(&self) -> bool {
        let buffers = &self.buffers;
        buffers.received.is_empty()
            && buffers.backlog() == 0
            && !buffers.backpressure.is_paused()
            && !buffers.backpressure.is_lagging()
            && !buffers.has_lost_changes
            && self.unflushed == Unflushed::Nothing
            && self.migration.is_none()
    }

    /// The number of ports, if it is another than at the last call.
    pub(super) fn take_changed_port_count(&mut self) -> Option<usize> {
        let count = self.port_index.count().filter(|&count| count != self.counted_ports)?;
        self.counted_ports = count;
        Some(count)
    }
}

/// What was queued to a switch in this iteration and has not been sent yet. Unless it is nothing, the switch is in
/// [`Switches::unflushed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unflushed {
    Nothing,
    /// Messages, with nothing before them.
    Messages,
    /// Packet-outs, behind a backlog.
    BehindBacklog,
    /// Changes of tables, which are to overtake the packet-outs of the backlog.
    Overtaking,
}

/// The switches of a worker.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// By [`ConnId::slot`].
    slots: Vec<Option<Box<ConnectedSwitch>>>,
    by_session: HashMap<SessionId, ConnId>,
    by_datapath: HashMap<DatapathId, ConnId>,
    /// Those below `index_end` that no switch has.
    free_indices: BinaryHeap<Reverse<SwitchIndex>>,
    /// Above every [`SwitchIndex`] that a switch has had.
    index_end: u32,
    /// Switches to which messages were queued in this iteration, and not sent yet.
    unflushed: Vec<ConnId>,
    /// If the kernel answers in the place of the worker.
    pub(super) in_kernel: Option<InKernel>,
}

impl Switches {
    /// No switches. `in_kernel` answers in their place.
    pub(super) fn new(in_kernel: Option<InKernel>) -> Self {
        Self { in_kernel, ..Self::default() }
    }

    /// Adds a switch, whose index is the lowest that is free.
    pub(super) fn insert(
        &mut self,
        id: ConnId,
        from: EstablishedConnection<()>,
        features: Arc<SwitchFeatures>,
        counters: Arc<SwitchCounters>,
    ) {
        let switch = ConnectedSwitch {
            id,
            session_id: from.session_id,
            addr: from.addr,
            datapath_id: from.datapath_id,
            index: self.allocate_index(),
            counted_ports: features.ports.len(),
            features,
            port_index: PortIndex::default(),
            have_ports_changed: false,
            migration: None,
            session: from.session,
            buffers: from.buffers,
            requests: from.requests,
            counters,
            is_probed: false,
            unflushed: Unflushed::Nothing,
            logged: 0,
        };
        self.by_session.insert(switch.session_id, id);
        self.by_datapath.insert(switch.datapath_id, id);
        if self.slots.len() <= id.slot() {
            self.slots.resize_with(id.slot() + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(id.slot()) {
            *slot = Some(Box::new(switch));
        }
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<Box<ConnectedSwitch>> {
        let switch = self.slots.get_mut(id.slot())?.take_if(|switch| switch.id == id)?;
        self.free_indices.push(Reverse(switch.index));
        self.by_session.remove(&switch.session_id);
        self.by_datapath.remove(&switch.datapath_id);
        Some(switch)
    }

    /// A switch, to do something with it. The kernel answers nothing in its place from now on until the end of the iteration.
    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut ConnectedSwitch> {
        let switch = self.slots.get_mut(id.slot())?.as_deref_mut()?;
        if switch.id != id {
            return None;
        }
        if let Some(in_kernel) = &mut self.in_kernel {
            in_kernel.close(switch.index, id, &mut switch.session);
        }
        Some(switch)
    }

    /// A switch of a worker in whose place the kernel answers, without closing its gate.
    pub(super) fn get_with_kernel(
        &mut self,
        id: ConnId,
    ) -> Option<(&mut ConnectedSwitch, &mut InKernel)> {
        let switch = self.slots.get_mut(id.slot())?.as_deref_mut();
        Some((switch.filter(|switch| switch.id == id)?, self.in_kernel.as_mut()?))
    }

    pub(super) fn index_of(&self, id: ConnId) -> Option<SwitchIndex> {
        self.get(id).map(|switch| switch.index)
    }

    #[inline]
    pub(super) fn get(&self, id: ConnId) -> Option<&ConnectedSwitch> {
        self.slots.get(id.slot())?.as_deref().filter(|switch| switch.id == id)
    }

    pub(super) fn find(&self, session_id: SessionId) -> Option<ConnId> {
        self.by_session.get(&session_id).copied()
    }

    pub(super) fn find_datapath(&self, datapath_id: DatapathId) -> Option<ConnId> {
        self.by_datapath.get(&datapath_id).copied()
    }

    /// The switches that are about to move and to which no other worker sends messages here any more, with their new workers.
    pub(super) fn ready_to_move(&self) -> Vec<(ConnId, usize)> {
        let switches = self.slots.iter().flatten();
        let ready = switches.filter_map(|switch| Some((switch.id, switch.migration?)));
        ready
            .filter(|(_, m)| m.is_announced && m.missing_acks == 0)
            .map(|(id, m)| (id, m.to))
            .collect()
    }

    /// The connections of all switches, in the order of their slots.
    pub(super) fn ids(&self) -> Vec<ConnId> {
        self.slots.iter().flatten().map(|switch| switch.id).collect()
    }

    /// Number of ports of a switch.
    pub(super) fn port_count(&self, id: ConnId) -> usize {
        self.get(id).map_or(0, |switch| switch.features.ports.len())
    }

    /// Remembers that messages were queued to a switch.
    pub(super) fn mark_unflushed(&mut self, id: ConnId, what: Unflushed) {
        if let Some(switch) = self.get_mut(id)
            && std::mem::replace(&mut switch.unflushed, what) == Unflushed::Nothing
        {
            self.unflushed.push(id);
        }
    }

    /// Takes the switches to which messages were queued, in order. [`restore_unflushed`](Self::restore_unflushed) gives the
    /// memory back.
    pub(super) fn take_unflushed(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.unflushed)
    }

    pub(super) fn restore_unflushed(&mut self, mut list: Vec<ConnId>) {
        if self.unflushed.is_empty() {
            list.clear();
            self.unflushed = list;
        }
    }

    fn allocate_index(&mut self) -> SwitchIndex {
        if let Some(Reverse(index)) = self.free_indices.pop() {
            return index;
        }
        let index = SwitchIndex(self.index_end);
        self.index_end = self.index_end.saturating_add(1);
        index
    }
}
