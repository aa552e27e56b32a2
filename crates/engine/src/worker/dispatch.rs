//! Processes a read of a switch: messages go to the applications, replies to the transmit buffer.

use std::time::Instant;

use sluice_openflow::view::PacketIns;
use sluice_openflow::{MessageType, MultipartReply, MultipartType, RawMessage, split_message};
use sluice_proto::ControllerEvent;
use sluice_sdk::flow_space::TABLE_MISS;
use sluice_sdk::{Answer, App, CaptureSender, Ctx, Network, ReceivedMultipart, SwitchError};

use super::captures;
use super::ports::PortChange;
use super::switches::ConnectedSwitch;
use crate::close_reason::CloseReason;
use crate::config::{Config, PORTS_PER_SWITCH_MAX};
use crate::connection::framing_error;
use crate::counters::ThreadCounters;
use crate::error_log;
use crate::receive_buffer::Reassembly;
use crate::requests::Answers;

/// Errors and malformed messages that are logged per switch. All are counted.
const LOGGED_MAX: u32 = 10;

/// What is needed to process a read, borrowed from a worker.
pub(super) struct Dispatcher<'w, A> {
    pub(super) app: &'w mut A,
    pub(super) cfg: &'w Config,
    pub(super) counters: &'w ThreadCounters,
    pub(super) network: &'w mut Network,
    pub(super) captures: &'w [CaptureSender],
    pub(super) tx: &'w mut Vec<u8>,
    /// Messages to be sent before the backlog.
    pub(super) urgent: &'w mut Vec<u8>,
    pub(super) answers: &'w mut Answers,
    pub(super) now: Instant,
}

impl<A: App> Dispatcher<'_, A> {
    /// Processes one read of `switch`. The replies are in `tx` and `urgent`, even after an error.
    pub(super) fn process_read(
        &mut self,
        switch: &mut ConnectedSwitch,
        bytes: &[u8],
    ) -> Result<(), CloseReason> {
        switch.session.record_activity(self.now);
        switch.counters.bytes_received.add(bytes.len() as u64);
        let reassembled = switch.buffers.received.reassemble(bytes);
        let rest = match reassembled.map_err(|error| self.framing_error(switch, error))? {
            Reassembly::NotNeeded(bytes) => bytes,
            Reassembly::Incomplete => return Ok(()),
            Reassembly::Complete(buffer, rest) => {
                self.process_messages(switch, &buffer)?;
                switch.buffers.received.reuse(buffer);
                rest
            }
        };
        let partial = self.process_messages(switch, rest)?;
        switch.buffers.received.keep(partial);
        Ok(())
    }

    /// Processes all complete messages of `bytes`; returns the rest.
    fn process_messages<'a>(
        &mut self,
        switch: &mut ConnectedSwitch,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], CloseReason> {
        let (mut rest, mut packet_ins, mut others) = (bytes, 0, 0);
        loop {
            let taken;
            (rest, taken) = self.process_packet_ins(switch, rest);
            packet_ins += taken;
            if taken > 0 && !self.cfg.batching.input {
                continue;
            }
            let next = split_message(rest).map_err(|error| self.framing_error(switch, error))?;
            let Some((msg, after)) = next else { break };
            rest = after;
            others += 1;
            self.counters.message_received(msg.version(), msg.kind(), 1);
            // Echo replies are sent before the backlog.
            let is_echo = msg.kind() == MessageType::ECHO_REQUEST;
            let tx = if is_echo { &mut *self.urgent } else { &mut *self.tx };
            let result = switch.session.on_message(&self.cfg.session, msg, tx);
            if let Some(event) = result.map_err(CloseReason::Session)? {
                self.handle_event(switch, msg, event);
            }
        }
        // Not for each message. After an error the switch is disconnected, and its counters are removed.
        switch.counters.packet_ins_received.add(packet_ins);
        switch.counters.messages_received.add(packet_ins + others);
        Ok(rest)
    }

    /// Passes the packet-ins at the front of `bytes` to the applications, or only the first if input is not batched; returns the rest,
    /// and the number of those that were passed.
    #[inline]
    fn process_packet_ins<'a>(
        &mut self,
        switch: &mut ConnectedSwitch,
        bytes: &'a [u8],
    ) -> (&'a [u8], u64) {
        let version = switch.session.version();
        let burst = if self.cfg.batching.input { bytes } else { first_message(bytes) };
        // Once for each read; without a capture, nothing else.
        if !self.captures.is_empty() {
            let copied = PacketIns::new(version, burst);
            captures::offer(self.captures, self.now, switch.datapath_id, copied);
        }
        let mut packet_ins = PacketIns::new(version, burst);
        let (index, id) = (switch.index, switch.datapath_id);
        let encoder = switch.session.encoder(self.tx);
        let mut ctx = Ctx::new(self.now, index, id, encoder, self.urgent, self.network);
        if switch.buffers.backpressure.is_lagging() {
            let shed = shed_packet_ins(self.app, &mut packet_ins, &mut ctx);
            self.counters.packet_ins_shed.add(shed);
            switch.counters.packet_ins_shed.add(shed);
        } else {
            self.app.on_packet_ins(&mut packet_ins, &mut ctx);
        }
        // Skip packet-ins that the applications did not take.
        packet_ins.by_ref().for_each(drop);
        let taken = packet_ins.taken();
        self.counters.message_received(version, MessageType::PACKET_IN, taken);
        let passed = burst.len() - packet_ins.rest().len();
        (bytes.get(passed..).unwrap_or_default(), taken)
    }

    /// Handles an event of the session: records it, and passes it to the requests that wait for it, or else to the applications.
    #[cold]
    fn handle_event(
        &mut self,
        switch: &mut ConnectedSwitch,
        msg: RawMessage<'_>,
        event: ControllerEvent<'_>,
    ) {
        let is_requested =
            !switch.requests.is_empty() && answer_request(switch, msg, &event, self.answers);
        if !self.record_event(switch, &event, is_requested) || is_requested {
            return;
        }
        let (index, id) = (switch.index, switch.datapath_id);
        let encoder = switch.session.encoder(self.tx);
        let mut ctx = Ctx::new(self.now, index, id, encoder, self.urgent, self.network);
        match event {
            ControllerEvent::PacketIn(p) => {
                captures::offer(self.captures, self.now, id, std::iter::once(p));
                self.app.on_packet_in(&p, &mut ctx);
            }
            ControllerEvent::FlowRemoved(removed) => self.app.on_flow_removed(&removed, &mut ctx),
            ControllerEvent::PortStatus(status) => self.app.on_port_status(&status, &mut ctx),
            ControllerEvent::Error(error) => self.app.on_error(&error, &mut ctx),
            ControllerEvent::BarrierReply(xid) => self.app.on_barrier_reply(xid, &mut ctx),
            ControllerEvent::MultipartReply(xid, kind, body) => {
                self.app.on_multipart_reply(xid, kind, &body, &mut ctx);
            }
            ControllerEvent::SwitchConnected(_)
            | ControllerEvent::RoleReply(_)
            | ControllerEvent::MultipartReplyTooLarge(..)
            | ControllerEvent::Malformed(..)
            | ControllerEvent::Other(_) => {}
        }
    }

    /// Counts and logs an event of the session, and keeps what it says of the switch. Returns whether it concerns the applications.
    fn record_event(
        &mut self,
        switch: &mut ConnectedSwitch,
        event: &ControllerEvent<'_>,
        is_requested: bool,
    ) -> bool {
        let (version, id) = (switch.session.version(), switch.datapath_id);
        match event {
            ControllerEvent::Malformed(kind, error) => {
                self.counters.malformed_messages.add(1);
                switch.counters.malformed_messages.add(1);
                log_limited(&mut switch.logged, || {
                    tracing::warn!(dpid = %id, %kind, %version, "malformed message: {error}");
                });
                return false;
            }
            ControllerEvent::MultipartReplyTooLarge(_, kind) => {
                self.counters.multipart_replies_discarded.add(1);
                log_limited(&mut switch.logged, || {
                    tracing::warn!(dpid = %id, kind = kind.0, "a multipart reply is too long and was discarded");
                });
            }
            ControllerEvent::Error(error) => {
                self.counters.error_received(error.reason.kind());
                switch.counters.errors_received.add(1);
                switch.counters.record_error(SwitchError {
                    at: self.now,
                    reason: error.reason,
                    xid: error.xid,
                    request: error.request(),
                });
                if !is_requested {
                    log_limited(&mut switch.logged, || error_log::log(id, error));
                }
            }
            ControllerEvent::PortStatus(status) => {
                let (port, name, up) = (status.port.port_no, status.port.name, status.port.is_up());
                match switch.record_port(status, self.now) {
                    PortChange::Recorded => {}
                    PortChange::Unknown => return false,
                    PortChange::TooMany => {
                        self.counters.ports_ignored.add(1);
                        log_limited(&mut switch.logged, || {
                            tracing::warn!(
                                dpid = %id, %port,
                                "port is ignored: its switch already has {PORTS_PER_SWITCH_MAX}, with those of the last minute"
                            );
                        });
                        return false;
                    }
                }
                tracing::debug!(dpid = %id, %port, %name, up, reason = status.reason.0, "port status");
            }
            ControllerEvent::FlowRemoved(removed) if removed.cookie == TABLE_MISS.cookie => {
                self.record_lost_changes(switch);
            }
            ControllerEvent::MultipartReply(_, MultipartType::DESC, body) => {
                let reply = MultipartReply::parse_body(version, MultipartType::DESC, body);
                if let Ok(MultipartReply::Desc(desc)) = reply {
                    switch.counters.set_desc(*desc);
                }
            }
            ControllerEvent::RoleReply(role) => {
                switch.counters.set_role(role.role);
                log_limited(&mut switch.logged, || {
                    tracing::info!(dpid = %id, role = role.role.0, "role granted");
                });
            }
            _ => {}
        }
        true
    }

    /// The switch has removed a flow entry that it must keep, so it may have lost others as well.
    fn record_lost_changes(&mut self, switch: &mut ConnectedSwitch) {
        self.counters.permanent_entries_removed.add(1);
        if !std::mem::replace(&mut switch.buffers.has_lost_changes, true) {
            let id = switch.datapath_id;
            log_limited(&mut switch.logged, || {
                tracing::warn!(
                    dpid = %id,
                    "the switch has removed a flow entry of the controller; all of these are written again"
                );
            });
        }
    }

    #[cold]
    fn framing_error(
        &mut self,
        switch: &mut ConnectedSwitch,
        error: sluice_openflow::ParseError,
    ) -> CloseReason {
        framing_error(&mut switch.session, self.tx, error)
    }
}

/// Passes a message of a switch to the requests that wait for it. Returns whether it belongs to one, so that nobody else gets it.
fn answer_request(
    switch: &mut ConnectedSwitch,
    msg: RawMessage<'_>,
    event: &ControllerEvent<'_>,
    answers: &mut Answers,
) -> bool {
    let (requests, version) = (&mut switch.requests, msg.version());
    match event {
        ControllerEvent::Error(error) => requests.on_error(error.xid, error.reason, answers),
        ControllerEvent::MultipartReply(xid, kind, body) => {
            requests.on_multipart_reply(*xid, answers, || {
                Answer::Multipart(ReceivedMultipart::new(version, *kind, body.to_vec()))
            })
        }
        ControllerEvent::MultipartReplyTooLarge(xid, _) => {
            requests.on_multipart_reply(*xid, answers, || Answer::TooLarge)
        }
        ControllerEvent::BarrierReply(_)
        | ControllerEvent::RoleReply(_)
        | ControllerEvent::Other(_) => requests.on_reply(msg, answers),
        ControllerEvent::Malformed(kind, error) => {
            requests.on_malformed((msg.xid(), *kind), *error, answers);
            false
        }
        _ => false,
    }
}

/// The first message of `bytes`; all of them if it is incomplete or invalid.
fn first_message(bytes: &[u8]) -> &[u8] {
    match split_message(bytes) {
        Ok(Some((_, after))) => bytes.get(..bytes.len() - after.len()).unwrap_or(bytes),
        Ok(None) | Err(_) => bytes,
    }
}

/// Passes link probes to the applications and discards all other packet-ins; returns the number of those.
#[cold]
fn shed_packet_ins<A: App>(app: &mut A, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) -> u64 {
    let mut shed = 0;
    for p in packet_ins {
        if sluice_sdk::is_link_probe(p.frame) {
            app.on_packet_in(&p, ctx);
        } else {
            shed += 1;
        }
    }
    shed
}

fn log_limited(logged: &mut u32, log: impl FnOnce()) {
    if *logged < LOGGED_MAX {
        *logged += 1;
        log();
    }
}
