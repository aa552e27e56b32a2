//! The switch that a session under test talks to.

use std::time::{Duration, Instant};

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, FlowMod, Instruction, MacAddr, Message,
    MessageType, MultipartFlags, MultipartReply, MultipartType, PacketIn, PacketInReason, Port,
    PortNo, RawMessage, SwitchFeatures, Version, Versions, split_message,
};
use sluice_proto::{Config, ControllerEvent, ControllerSession, SessionError};

/// A switch and the controller session that it talks to, with a clock that the test advances.
pub(crate) struct TestSwitch {
    pub(crate) cfg: Config,
    pub(crate) now: Instant,
    pub(crate) session: ControllerSession,
    /// Messages of the session that the test has not read.
    pub(crate) tx: Vec<u8>,
    pub(crate) features_xid: u32,
    pub(crate) ports_xid: u32,
}

impl TestSwitch {
    /// A switch that has sent nothing yet.
    pub(crate) fn connect(cfg: &Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut tx, cfg) = (Vec::new(), cfg.clone());
        let session = ControllerSession::open(&cfg, 1, now, &mut tx);
        Self { cfg, now, session, tx, features_xid: 0, ports_xid: 0 }
    }

    /// A switch after both `HELLO`s; `tx` has the requests of the handshake.
    pub(crate) fn negotiated(cfg: &Config, version: Version) -> Self {
        let mut switch = Self::connect(cfg);
        switch.tx.clear();
        assert!(switch.send_hello(version, bitmap(version)).unwrap().is_none());
        for (kind, xid) in types_and_xids(&switch.tx) {
            match kind {
                MessageType::FEATURES_REQUEST => switch.features_xid = xid,
                MessageType::MULTIPART_REQUEST => switch.ports_xid = xid,
                _ => {}
            }
        }
        switch
    }

    /// A switch after the handshake; `tx` is empty.
    pub(crate) fn established(cfg: &Config, version: Version) -> Self {
        let mut switch = Self::negotiated(cfg, version);
        let (features, ports) = (switch.features(), port_desc_reply(2));
        if version >= Version::V1_3 {
            switch.send_as(switch.ports_xid, &ports).unwrap();
        }
        let up = switch.send_as(switch.features_xid, &features).unwrap();
        assert!(matches!(up, Some(OwnedEvent::SwitchConnected(_))), "{up:?}");
        switch.tx.clear();
        switch
    }

    /// Sends one message.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<Option<OwnedEvent>, SessionError> {
        let msg = RawMessage::new(bytes).unwrap();
        self.session.record_activity(self.now);
        let event = self.session.on_message(&self.cfg, msg, &mut self.tx)?;
        Ok(event.map(OwnedEvent::from))
    }

    /// Sends `message` with the transaction id `xid`.
    pub(crate) fn send_as(
        &mut self,
        xid: u32,
        message: &Message,
    ) -> Result<Option<OwnedEvent>, SessionError> {
        let (mut bytes, mut next) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.session.version(), &mut next);
        message.encode(xid, &mut out).unwrap();
        self.send_bytes(&bytes)
    }

    /// Sends `message` with the transaction id 99.
    pub(crate) fn send(&mut self, message: &Message) -> Result<Option<OwnedEvent>, SessionError> {
        self.send_as(99, message)
    }

    /// Sends a part of the multipart reply `xid`.
    pub(crate) fn send_part(
        &mut self,
        xid: u32,
        part: Multipart<'_>,
    ) -> Result<Option<OwnedEvent>, SessionError> {
        let (mut bytes, mut next) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.session.version(), &mut next);
        out.multipart_reply(xid, part).unwrap();
        self.send_bytes(&bytes)
    }

    /// Sends `HELLO` in `version`, with a bitmap of `versions` if given.
    pub(crate) fn send_hello(
        &mut self,
        version: Version,
        versions: Option<Versions>,
    ) -> Result<Option<OwnedEvent>, SessionError> {
        let (mut bytes, mut next) = (Vec::new(), 1);
        let element = |versions: Versions| {
            let [a, b, c, d] = versions.0.to_be_bytes();
            [0, 1, 0, 8, a, b, c, d]
        };
        let body = versions.map(element);
        let body = body.as_ref().map_or(&[][..], |element| element);
        Encoder::new(&mut bytes, version, &mut next)
            .raw_message(MessageType::HELLO, 99, body)
            .unwrap();
        self.send_bytes(&bytes)
    }

    /// Advances the clock and lets the session check its timeouts.
    pub(crate) fn advance_ms(&mut self, ms: u64) -> Result<(), SessionError> {
        self.now += Duration::from_millis(ms);
        self.session.handle_timeouts(&self.cfg, self.now, &mut self.tx)
    }

    /// Takes the messages that the session sent since the last call.
    pub(crate) fn received(&mut self) -> Vec<Message> {
        let bytes = std::mem::take(&mut self.tx);
        messages(&bytes).into_iter().map(|msg| Message::parse_raw(msg).unwrap()).collect()
    }

    /// Takes the one message that the session sent, an `ERROR` that quotes the start of `request`.
    pub(crate) fn received_error_quoting(&mut self, request: &[u8]) -> ErrorReason {
        let received = self.received();
        let [Message::Error(error)] = &received[..] else { panic!("{received:?}") };
        assert_eq!(error.data, &request[..request.len().min(64)]);
        error.reason
    }

    /// Takes the one message that the session sent, an `ERROR`.
    pub(crate) fn received_error(&mut self) -> ErrorReason {
        let received = self.received();
        let [Message::Error(error)] = &received[..] else { panic!("{received:?}") };
        error.reason
    }

    pub(crate) fn features(&self) -> Message {
        let ports =
            if self.session.version() < Version::V1_3 { vec![port(1), port(2)] } else { vec![] };
        Message::FeaturesReply(SwitchFeatures {
            datapath_id: DatapathId(7),
            n_buffers: 256,
            n_tables: 1,
            ports,
            ..SwitchFeatures::default()
        })
    }
}

pub(crate) fn port_desc_reply(n: u32) -> Message {
    port_desc_part(n, false)
}

/// A part of a `PORT_DESC` reply.
pub(crate) fn port_desc_part(n: u32, more: bool) -> Message {
    let flags = if more { MultipartFlags::MORE } else { MultipartFlags::default() };
    let body = MultipartReply::PortDesc { ports: (1..=n).map(port).collect() };
    Message::MultipartReply(sluice_openflow::Multipart { flags, body })
}

/// A [`ControllerEvent`] without its borrowed contents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OwnedEvent {
    SwitchConnected(SwitchFeatures),
    PacketIn,
    Error(u32, ErrorReason, Option<MessageType>),
    BarrierReply(u32),
    MultipartReply(u32, MultipartType, Vec<u8>),
    MultipartReplyTooLarge(u32, MultipartType),
    RoleReply,
    Malformed(MessageType),
    Other(MessageType),
}

impl From<ControllerEvent<'_>> for OwnedEvent {
    fn from(event: ControllerEvent<'_>) -> Self {
        match event {
            ControllerEvent::SwitchConnected(features) => Self::SwitchConnected(*features),
            ControllerEvent::PacketIn(_) => Self::PacketIn,
            ControllerEvent::Error(error) => Self::Error(error.xid, error.reason, error.request()),
            ControllerEvent::BarrierReply(xid) => Self::BarrierReply(xid),
            ControllerEvent::MultipartReply(xid, kind, body) => {
                Self::MultipartReply(xid, kind, body.into())
            }
            ControllerEvent::MultipartReplyTooLarge(xid, kind) => {
                Self::MultipartReplyTooLarge(xid, kind)
            }
            ControllerEvent::RoleReply(_) => Self::RoleReply,
            ControllerEvent::Malformed(kind, _) => Self::Malformed(kind),
            ControllerEvent::Other(msg) => Self::Other(msg.kind()),
            ControllerEvent::FlowRemoved(_) => Self::Other(MessageType::FLOW_REMOVED),
            ControllerEvent::PortStatus(_) => Self::Other(MessageType::PORT_STATUS),
        }
    }
}

pub(crate) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut cfg = Config::default();
    change(&mut cfg);
    cfg
}

/// The bitmap in the `HELLO` of a switch that supports `version` only.
pub(crate) fn bitmap(version: Version) -> Option<Versions> {
    (version > Version::V1_0).then(|| Versions::of(&[version]))
}

pub(crate) fn error(reason: ErrorReason, data: &[u8]) -> Message {
    Message::Error(sluice_openflow::ErrorMsg { reason, data: data.to_vec() })
}

pub(crate) fn echo_request(data: &[u8]) -> Message {
    Message::EchoRequest { data: data.to_vec() }
}

pub(crate) fn echo_reply(data: &[u8]) -> Message {
    Message::EchoReply { data: data.to_vec() }
}

pub(crate) fn packet_in() -> Message {
    Message::PacketIn(PacketIn {
        buffer_id: Some(1),
        total_len: 64,
        reason: PacketInReason::NO_MATCH,
        matching: [Field::in_port(PortNo(1))].into(),
        data: vec![2; 64],
        ..PacketIn::default()
    })
}

/// A message that only controllers send.
pub(crate) fn flow_mod() -> Message {
    let instructions = vec![Instruction::apply([Action::output(PortNo(1))])];
    Message::FlowMod(FlowMod { instructions, ..FlowMod::default() })
}

/// Types and transaction ids of all messages in `bytes`.
pub(crate) fn types_and_xids(bytes: &[u8]) -> Vec<(MessageType, u32)> {
    messages(bytes).into_iter().map(|msg| (msg.kind(), msg.xid())).collect()
}

fn messages(mut bytes: &[u8]) -> Vec<RawMessage<'_>> {
    let mut messages = Vec::new();
    while let Some((msg, rest)) = split_message(bytes).unwrap() {
        messages.push(msg);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "incomplete message");
    messages
}

fn port(n: u32) -> Port {
    Port {
        port_no: PortNo(n),
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: "eth".into(),
        ..Port::default()
    }
}
