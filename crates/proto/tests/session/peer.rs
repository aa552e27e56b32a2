//! The peer of a session: says messages, hears messages, lets time pass.

use std::time::{Duration, Instant};

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, FlowMod, Instruction, MacAddr, Message,
    MessageType, MultipartFlags, MultipartReply, MultipartType, PacketIn, PacketInReason, Port,
    PortNo, RawMessage, SwitchFeatures, Version, Versions, split_message,
};
use sluice_proto::{Config, ControllerEvent, ControllerSession, SessionError};

/// The other end of a session.
pub(crate) struct Peer {
    pub(crate) cfg: Config,
    pub(crate) now: Instant,
    pub(crate) session: ControllerSession,
    /// What it was told and has not read.
    pub(crate) tx: Vec<u8>,
    pub(crate) features_xid: u32,
    pub(crate) ports_xid: u32,
}

impl Peer {
    /// Connected; nothing said.
    pub(crate) fn connect(cfg: &Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut tx, cfg) = (Vec::new(), cfg.clone());
        let session = ControllerSession::open(&cfg, now, &mut tx);
        Self { cfg, now, session, tx, features_xid: 0, ports_xid: 0 }
    }

    /// A version is agreed on; `tx` has the questions.
    pub(crate) fn greeted(cfg: &Config, version: Version) -> Self {
        let mut peer = Self::connect(cfg);
        peer.tx.clear();
        assert!(peer.greets(version, bitmap(version)).unwrap().is_none());
        for (kind, xid) in kinds(&peer.tx) {
            match kind {
                MessageType::FEATURES_REQUEST => peer.features_xid = xid,
                MessageType::MULTIPART_REQUEST => peer.ports_xid = xid,
                _ => {}
            }
        }
        peer
    }

    /// Proved to be a switch; nothing left to read.
    pub(crate) fn up(cfg: &Config, version: Version) -> Self {
        let mut peer = Self::greeted(cfg, version);
        let (features, ports) = (peer.features(), ports(2));
        if version >= Version::V1_3 {
            peer.says_as(peer.ports_xid, &ports).unwrap();
        }
        let up = peer.says_as(peer.features_xid, &features).unwrap();
        assert!(matches!(up, Some(OwnedEvent::SwitchConnected(_))), "{up:?}");
        peer.tx.clear();
        peer
    }

    /// Sends `bytes`, one message.
    pub(crate) fn sends(&mut self, bytes: &[u8]) -> Result<Option<OwnedEvent>, SessionError> {
        let msg = RawMessage::new(bytes).unwrap();
        self.session.record_activity(self.now);
        let event = self.session.on_message(&self.cfg, msg, &mut self.tx)?;
        Ok(event.map(OwnedEvent::from))
    }

    /// Says `message` as request or reply `xid`.
    pub(crate) fn says_as(
        &mut self,
        xid: u32,
        message: &Message,
    ) -> Result<Option<OwnedEvent>, SessionError> {
        let (mut bytes, mut next) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.session.version(), &mut next);
        message.encode(xid, &mut out).unwrap();
        self.sends(&bytes)
    }

    /// Says `message`.
    pub(crate) fn says(&mut self, message: &Message) -> Result<Option<OwnedEvent>, SessionError> {
        self.says_as(99, message)
    }

    /// Says a part of the reply `xid`, whatever is in it.
    pub(crate) fn says_part(
        &mut self,
        xid: u32,
        part: Multipart<'_>,
    ) -> Result<Option<OwnedEvent>, SessionError> {
        let (mut bytes, mut next) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut bytes, self.session.version(), &mut next);
        out.multipart_reply(xid, part).unwrap();
        self.sends(&bytes)
    }

    /// Says `HELLO` in `version`, with a bitmap of `versions` if there is one.
    pub(crate) fn greets(
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
        Encoder::new(&mut bytes, version, &mut next).raw(MessageType::HELLO, 99, body).unwrap();
        self.sends(&bytes)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ms: u64) -> Result<(), SessionError> {
        self.now += Duration::from_millis(ms);
        self.session.handle_timeouts(&self.cfg, self.now, &mut self.tx)
    }

    /// Reads what it was told.
    pub(crate) fn told(&mut self) -> Vec<Message> {
        let bytes = std::mem::take(&mut self.tx);
        frames(&bytes).into_iter().map(|msg| Message::parse_raw(msg).unwrap()).collect()
    }

    /// Reads what it was told: one `ERROR`, which quotes the start of `request`.
    pub(crate) fn told_error_about(&mut self, request: &[u8]) -> ErrorReason {
        let told = self.told();
        let [Message::Error(error)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(error.data, &request[..request.len().min(64)]);
        error.reason
    }

    /// Reads what it was told: one `ERROR`.
    pub(crate) fn told_error(&mut self) -> ErrorReason {
        let told = self.told();
        let [Message::Error(error)] = &told[..] else { panic!("{told:?}") };
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

pub(crate) fn ports(n: u32) -> Message {
    some_ports(n, false)
}

/// A part of a reply that has more.
pub(crate) fn some_ports(n: u32, more: bool) -> Message {
    let flags = if more { MultipartFlags::MORE } else { MultipartFlags::default() };
    let body = MultipartReply::PortDesc { ports: (1..=n).map(port).collect() };
    Message::MultipartReply(sluice_openflow::Multipart { flags, body })
}

/// What an event was, without what it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OwnedEvent {
    SwitchConnected(SwitchFeatures),
    PacketIn,
    Error(u32, ErrorReason, Option<MessageType>),
    BarrierReply(u32),
    MultipartReply(u32, MultipartType, Vec<u8>),
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

/// What a `HELLO` of `version` alone has for a bitmap.
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

/// What only a controller says.
pub(crate) fn flow_mod() -> Message {
    let instructions = vec![Instruction::apply([Action::output(PortNo(1))])];
    Message::FlowMod(FlowMod { instructions, ..FlowMod::default() })
}

/// Kinds and transaction ids of all messages in `bytes`.
pub(crate) fn kinds(bytes: &[u8]) -> Vec<(MessageType, u32)> {
    frames(bytes).into_iter().map(|msg| (msg.kind(), msg.xid())).collect()
}

fn frames(mut bytes: &[u8]) -> Vec<RawMessage<'_>> {
    let mut frames = Vec::new();
    while let Some((msg, rest)) = split_message(bytes).unwrap() {
        frames.push(msg);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "only whole messages are said");
    frames
}

fn port(n: u32) -> Port {
    Port {
        port_no: PortNo(n),
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: "eth".into(),
        ..Port::default()
    }
}
