//! Moves a switch from one worker to another, between two messages.
//!
//! ```text
//!  acceptor          worker O (old)              other workers T            worker N (new)
//!     ├── Move ──────────▶│                          │                          │
//!     │                   ├── SwitchMoving ─────────────────────────────────────▶│
//!     │                   │◀── MoveAcknowledged ─────────────────────────────────┤
//!     │                   │                          │                           │ parks messages
//!     │                   ├── SwitchMoving ─────────▶│                           │
//!     │                   │◀── MoveAcknowledged ─────┤ sends to N from now on    │
//!     │                   │ has every message that was sent to it                │
//!     │                   ├── Adopt ────────────────────────────────────────────▶│
//!     │◀──── Moved ───────┤                                                      │ sends what was parked
//! ```
//!
//! The queue between two workers keeps its order. So when O has the acknowledgment of T, it has all messages that T has
//! sent to it before; N keeps the later ones until it has the connection. N is notified before all others: the queues from O and
//! from T to N are not in order with each other, and N must know of the move when it gets the first message of T. With the
//! connection go the bytes of an incomplete message and those that the kernel has not taken yet.
//!
//! Until `Adopt`, O serves the switch. If the switch disconnects meanwhile, `SwitchDisconnected` ends the move.

use std::sync::Arc;

use sluice_io::{ConnId, Io};
use sluice_openflow::{
    DatapathId, Encoder, Message, MessageType, RawMessage, Version, split_message,
};
use sluice_sdk::{Answer, App};

use super::switches::Migration;
use super::{WorkerState, worker_counters};
use crate::close_reason::CloseReason;
use crate::connection::EstablishedConnection;
use crate::messages::{
    MessageBatch, RemoteSwitch, SessionId, SwitchLocation, ToAcceptor, ToWorker,
};
use crate::outstanding::BarrierOf;
use crate::requests::{Answers, RoutedRequest};

/// A switch that is about to move to this worker.
#[derive(Debug)]
pub(super) struct ArrivingSwitch {
    session_id: SessionId,
    version: Version,
    /// What applications and others have sent to it, in order.
    parked: Vec<Parked>,
    /// Number of messages in `parked`: not more than fit into a queue.
    parked_count: usize,
    /// Changes of its tables did not fit.
    has_lost_changes: bool,
}

/// What was sent to a switch that is about to arrive.
#[derive(Debug)]
enum Parked {
    Messages(MessageBatch),
    Request(RoutedRequest),
}

impl ArrivingSwitch {
    fn park_message(&mut self, to: DatapathId, message: RawMessage<'_>) {
        self.parked_count += 1;
        if let Some(Parked::Messages(batch)) = self.parked.last_mut() {
            return batch.append(to, message);
        }
        let mut batch = MessageBatch::default();
        batch.append(to, message);
        self.parked.push(Parked::Messages(batch));
    }

    /// Keeps a request, unless there are as many messages as fit into a queue.
    pub(super) fn park_request(
        &mut self,
        request: RoutedRequest,
        capacity: usize,
        answers: &mut Answers,
    ) {
        if self.parked_count >= capacity {
            return answers.push(request.requester, Answer::TooMany);
        }
        self.parked_count += request.request.messages.len().max(1);
        self.parked.push(Parked::Request(request));
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Announces to another worker that a switch of this one moves there.
    pub(super) fn start_move(&mut self, session_id: SessionId, to: usize) {
        let from = self.outgoing.worker();
        let id = self.switches.find(session_id).filter(|_| to != from);
        let Some(switch) = id.and_then(|id| self.switches.get_mut(id)) else { return };
        if switch.migration.is_some() {
            return;
        }
        switch.migration = Some(Migration { to, is_announced: false, missing_acks: 1 });
        let (datapath_id, version) = (switch.datapath_id, switch.session.version());
        let remote = RemoteSwitch { location: SwitchLocation { session_id, worker: to }, version };
        self.outgoing.send_to(to, ToWorker::SwitchMoving(datapath_id, remote, from));
    }

    /// Sends messages to a switch of another worker to its new one from now on, or parks them if that is this one.
    pub(super) fn acknowledge_move(&mut self, to: DatapathId, switch: RemoteSwitch, from: usize) {
        let session_id = switch.location.session_id;
        let known = self.remote_switches.get(&to);
        if known.is_some_and(|known| known.location.session_id == session_id) {
            if switch.location.worker == self.outgoing.worker() {
                self.remote_switches.remove(&to);
                let arriving = ArrivingSwitch {
                    session_id,
                    version: switch.version,
                    parked: Vec::new(),
                    parked_count: 0,
                    has_lost_changes: false,
                };
                self.arriving.insert(to, arriving);
            } else {
                self.remote_switches.insert(to, switch);
            }
        }
        self.outgoing.send_to(from, ToWorker::MoveAcknowledged(session_id));
    }

    /// Another worker sends nothing to a moving switch here any more. If it is the new one, all others are notified.
    pub(super) fn count_acknowledgment(&mut self, session_id: SessionId) {
        let (from, others) = (self.outgoing.worker(), self.outgoing.other_workers());
        let id = self.switches.find(session_id);
        let Some(switch) = id.and_then(|id| self.switches.get_mut(id)) else { return };
        let (datapath_id, version) = (switch.datapath_id, switch.session.version());
        let Some(migration) = &mut switch.migration else { return };
        migration.missing_acks = migration.missing_acks.saturating_sub(1);
        if !migration.is_announced {
            (migration.is_announced, migration.missing_acks) = (true, others.saturating_sub(1));
            let to = migration.to;
            let location = SwitchLocation { session_id, worker: to };
            let remote = RemoteSwitch { location, version };
            let message = || ToWorker::SwitchMoving(datapath_id, remote, from);
            self.outgoing.send_to_all_but(to, message);
        }
        self.is_handing_over |= migration.missing_acks == 0;
    }

    /// Hands over the switches to which no other worker sends messages here any more.
    pub(super) fn hand_over_switches(&mut self, io: &mut I) {
        if !std::mem::take(&mut self.is_handing_over) {
            return;
        }
        for (id, to) in self.switches.ready_to_move() {
            self.hand_over(io, id, to);
        }
    }

    fn hand_over(&mut self, io: &mut I, id: ConnId, to: usize) {
        self.queue_barrier(id, BarrierOf::Changes);
        let Some(conn) = io.release(id) else {
            // The connection has just failed; its event follows.
            return self.disconnect(io, id, CloseReason::ClosedByPeer);
        };
        let Some(mut switch) = self.switches.remove(id) else { return };
        let kernel_session = self.release_from_kernel(&switch);
        self.deadlines.remove(id);
        if let Some(features) = switch.take_changed_features() {
            switch.counters.set_features(features);
        }
        let (datapath_id, session_id) = (switch.datapath_id, switch.session_id);
        let version = switch.session.version();
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        self.answers.outstanding -= switch.requests.message_count();
        counters.switch_disconnected(version);
        let backlog = switch.counters.backlog_bytes.get();
        counters.backlog_bytes.sub(backlog);
        self.backlog_count -= usize::from(backlog > 0);
        self.app.on_switch_disconnected(switch.index, self.now, &mut self.network);
        // The other worker must have the facts about this before it has the switch.
        self.deliver_facts();
        let location = SwitchLocation { session_id, worker: to };
        self.remote_switches.insert(datapath_id, RemoteSwitch { location, version });
        self.moved.insert(session_id, to);
        let connection = EstablishedConnection {
            conn,
            session_id,
            addr: switch.addr,
            datapath_id,
            session: switch.session,
            buffers: switch.buffers,
            requests: switch.requests,
            counters: Some(switch.counters),
            kernel_session,
        };
        let features = Box::new(Arc::unwrap_or_clone(switch.features));
        self.outgoing.send_to(to, ToWorker::Adopt(Box::new(connection), features));
        if switch.is_probed {
            self.outgoing.send_to(to, ToWorker::Probe(session_id));
        }
        self.outgoing.send_to_acceptor(ToAcceptor::Moved(session_id, to));
        tracing::info!(dpid = %datapath_id, from = self.outgoing.worker(), to, "switch moved");
    }

    /// Keeps a message of an application of this worker to a switch that is about to arrive.
    pub(super) fn park_message(&mut self, to: DatapathId, message: &Message) {
        let Some(arriving) = self.arriving.get(&to) else { return };
        let (mut bytes, mut xid) = (Vec::new(), 0);
        match Encoder::new(&mut bytes, arriving.version, &mut xid).encode(message) {
            Ok(_) => self.park_encoded(to, &bytes),
            Err(error) => self.report_unencodable(to, &error),
        }
    }

    /// Keeps messages to a switch that is about to arrive. If there are as many as fit into a queue, further packet-outs are
    /// dropped, and changes of its tables are made when it has arrived, as for a paused switch.
    pub(super) fn park_encoded(&mut self, to: DatapathId, mut messages: &[u8]) {
        let capacity = self.cfg.limits.queue_capacity;
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some(arriving) = self.arriving.get_mut(&to) else { return };
        while let Ok(Some((message, rest))) = split_message(messages) {
            messages = rest;
            if arriving.parked_count < capacity {
                arriving.park_message(to, message);
            } else if message.kind() == MessageType::PACKET_OUT {
                counters.app_messages_dropped.add(1);
            } else {
                arriving.has_lost_changes = true;
                counters.changes_deferred.add(1);
            }
        }
    }

    /// Queues what was parked for a switch that has arrived.
    pub(super) fn queue_parked_messages(&mut self, io: &mut I, id: ConnId, to: DatapathId) {
        let Some(arriving) = self.arriving.remove(&to) else { return };
        for parked in arriving.parked {
            match parked {
                Parked::Messages(batch) => self.queue_batch(io, &batch),
                Parked::Request(request) => self.route_request(io, request),
            }
        }
        if let Some(switch) = self.switches.get_mut(id) {
            switch.buffers.has_lost_changes |= arriving.has_lost_changes;
        }
    }

    /// A session that was moving or has moved is over.
    pub(super) fn forget_move(&mut self, datapath_id: DatapathId, session_id: SessionId) {
        self.moved.remove(&session_id);
        let arriving = self.arriving.get(&datapath_id);
        if arriving.is_some_and(|arriving| arriving.session_id == session_id)
            && let Some(arriving) = self.arriving.remove(&datapath_id)
        {
            for parked in arriving.parked {
                match parked {
                    Parked::Messages(batch) => {
                        self.counters().app_messages_undeliverable.add(batch.len() as u64);
                    }
                    Parked::Request(request) => {
                        self.answers.push(request.requester, Answer::NotConnected);
                    }
                }
            }
        }
    }
}
