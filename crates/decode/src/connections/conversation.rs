//! What the messages of a connection say about it: which end is the controller, the datapath id of the switch.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use sluice_openflow::{DatapathId, MessageType, RawMessage, SwitchFeatures};

use super::End;
use super::held::{HeldMessage, HeldMessages};
use crate::message_stream::StreamEvent;
use crate::pairing::{AnsweredRequest, Pairing};
use crate::record::{Direction, MessageOrigin};
use crate::report::Reporter;

/// Ports on which controllers listen: the one that IANA has assigned, and the one that was usual before.
const CONTROLLER_PORTS: [u16; 2] = [6653, 6633];

/// Types that only controllers send, among the first of every session.
const CONTROLLER_TYPES: [MessageType; 6] = [
    MessageType::FEATURES_REQUEST,
    MessageType::SET_CONFIG,
    MessageType::MULTIPART_REQUEST,
    MessageType::BARRIER_REQUEST,
    MessageType::FLOW_MOD,
    MessageType::PACKET_OUT,
];

/// Types that only switches send.
const SWITCH_TYPES: [MessageType; 6] = [
    MessageType::FEATURES_REPLY,
    MessageType::MULTIPART_REPLY,
    MessageType::BARRIER_REPLY,
    MessageType::PACKET_IN,
    MessageType::PORT_STATUS,
    MessageType::FLOW_REMOVED,
];

/// What shows which end is the controller, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// Servers have lower ports than clients.
    LowerPort,
    /// Switches open connections.
    Opener,
    /// One of [`CONTROLLER_PORTS`].
    KnownPort,
    /// A type that only one of the two sends.
    Message,
}

/// The state of a connection that its messages change.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Number of the connection, unique in the capture. The upper half counts the connections between the same addresses.
    number: u64,
    endpoints: [SocketAddr; 2],
    controller: End,
    evidence: Evidence,
    dpid: Option<DatapathId>,
    held: HeldMessages,
}

impl Conversation {
    pub(super) fn new(number: u64, endpoints: [SocketAddr; 2]) -> Self {
        let [a, b] = endpoints.map(|endpoint| endpoint.port());
        let is_known = [a, b].map(|port| CONTROLLER_PORTS.contains(&port));
        let (controller, evidence) = match is_known {
            [true, false] => (End::A, Evidence::KnownPort),
            [false, true] => (End::B, Evidence::KnownPort),
            _ if a < b => (End::A, Evidence::LowerPort),
            _ => (End::B, Evidence::LowerPort),
        };
        let held = HeldMessages::default();
        Self { number, endpoints, controller, evidence, dpid: None, held }
    }

    /// Forgets an earlier connection with the same addresses.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.number + (1 << 32), self.endpoints);
    }

    /// Bytes that are kept back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Notes which end has opened the connection.
    pub(super) fn note_opener(&mut self, opener: End) {
        self.learn_controller(opener.other(), Evidence::Opener);
    }

    fn learn_controller(&mut self, controller: End, evidence: Evidence) {
        if evidence > self.evidence {
            (self.controller, self.evidence) = (controller, evidence);
        }
    }

    /// Learns from the type of a message.
    fn note_type(&mut self, sender: End, message_type: MessageType) {
        if self.evidence == Evidence::Message {
            return;
        }
        if CONTROLLER_TYPES.contains(&message_type) {
            self.learn_controller(sender, Evidence::Message);
        } else if SWITCH_TYPES.contains(&message_type) {
            self.learn_controller(sender.other(), Evidence::Message);
        }
    }

    fn origin(
        &self,
        sender: End,
        time: Duration,
        answered: Option<AnsweredRequest>,
    ) -> MessageOrigin {
        let [a, b] = self.endpoints;
        let (from, to) = if sender == End::A { (a, b) } else { (b, a) };
        let direction =
            if sender == self.controller { Direction::ToSwitch } else { Direction::ToController };
        MessageOrigin { time, from, to, direction, dpid: self.dpid, answered }
    }
}

/// Where the messages of a connection go.
#[derive(Debug)]
pub(super) struct Output<'a, W> {
    pub(super) conversation: &'a mut Conversation,
    /// Capture time of the packet that is being processed.
    pub(super) time: Duration,
    pub(super) pairing: &'a mut Pairing,
    pub(super) report: &'a mut Reporter<W>,
}

impl<W: Write> Output<'_, W> {
    pub(super) fn on_event(&mut self, sender: End, event: StreamEvent<'_>) -> io::Result<()> {
        if let StreamEvent::Message(message) = event {
            return self.receive(sender, message);
        }
        // A stream that is not OpenFlow is of no switch.
        if !matches!(event, StreamEvent::NotOpenFlow)
            && !self.report.selection().has_all_dpids()
            && !self.conversation.dpid.is_some_and(|dpid| self.report.selection().has_dpid(dpid))
        {
            return Ok(());
        }
        let origin = self.conversation.origin(sender, self.time, None);
        self.report.report_event(event, Some(&origin))
    }

    fn receive(&mut self, sender: End, message: RawMessage<'_>) -> io::Result<()> {
        let conversation = &mut *self.conversation;
        conversation.note_type(sender, message.kind());
        if message.kind() == MessageType::FEATURES_REPLY
            && let Ok(features) = SwitchFeatures::parse_raw(message)
        {
            conversation.dpid = Some(features.datapath_id);
            self.release_held()?;
        }
        let (time, number) = (self.time, self.conversation.number);
        let answered = self.pairing.observe(number, sender, message, time);
        let selection = self.report.selection();
        match self.conversation.dpid {
            Some(dpid) if !selection.has_dpid(dpid) => Ok(()),
            None if !selection.has_all_dpids() => {
                let bytes = message.bytes().to_vec();
                let held = HeldMessage { sender, time, answered, bytes };
                self.report.counts.messages_without_dpid += self.conversation.held.push(held);
                Ok(())
            }
            _ => {
                let origin = self.conversation.origin(sender, time, answered);
                self.report.report_message(message.bytes(), Some(&origin))
            }
        }
    }

    /// Reports the messages that were kept back until the datapath id is known, if they are selected.
    fn release_held(&mut self) -> io::Result<()> {
        let held = self.conversation.held.take();
        if !self.conversation.dpid.is_some_and(|dpid| self.report.selection().has_dpid(dpid)) {
            return Ok(());
        }
        for HeldMessage { sender, time, answered, bytes } in held {
            let origin = self.conversation.origin(sender, time, answered);
            self.report.report_message(&bytes, Some(&origin))?;
        }
        Ok(())
    }

    /// Discards the messages that are kept back, at the end of the connection.
    pub(super) fn discard_held(&mut self) {
        self.report.counts.messages_without_dpid += self.conversation.held.take().len() as u64;
    }
}
