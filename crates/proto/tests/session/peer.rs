//! The peer of a session: says messages, hears messages, lets time pass.

use std::time::{Duration, Instant};

use sluice_proto::{Config, Event, Fault, Session};
use sluice_wire::{
    Action, Command, DatapathId, ErrorCode, ErrorType, Features, FlowFlags, FlowMod, Frame, Kind,
    MacAddr, Match, Message, MultipartKind, Out, Port, PortNo, Reason, Rule, Version, Versions,
    split,
};

/// The other end of a session.
pub(crate) struct Peer {
    pub(crate) cfg: Config,
    pub(crate) now: Instant,
    pub(crate) session: Session,
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
        let session = Session::open(&cfg, now, &mut tx);
        Self { cfg, now, session, tx, features_xid: 0, ports_xid: 0 }
    }

    /// A version is agreed on; `tx` has the questions.
    pub(crate) fn greeted(cfg: &Config, version: Version) -> Self {
        let mut peer = Self::connect(cfg);
        peer.tx.clear();
        assert!(peer.says(&hello(version)).unwrap().is_none());
        for (kind, xid) in kinds(&peer.tx) {
            match kind {
                Kind::FEATURES_REQUEST => peer.features_xid = xid,
                Kind::MULTIPART_REQUEST => peer.ports_xid = xid,
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
        assert!(matches!(up, Some(Heard::Up(_))), "{up:?}");
        peer.tx.clear();
        peer
    }

    /// Sends `octets`, one message.
    pub(crate) fn sends(&mut self, octets: &[u8]) -> Result<Option<Heard>, Fault> {
        let msg = Frame::new(octets).unwrap();
        self.session.heard(self.now);
        let event = self.session.on_message(&self.cfg, msg, &mut self.tx)?;
        Ok(event.map(Heard::from))
    }

    /// Says `message` as request or reply `xid`.
    pub(crate) fn says_as(&mut self, xid: u32, message: &Message) -> Result<Option<Heard>, Fault> {
        let (mut octets, mut next) = (Vec::new(), 1);
        let mut out = Out::new(&mut octets, self.session.version(), &mut next);
        message.emit(xid, &mut out).unwrap();
        self.sends(&octets)
    }

    /// Says `message`.
    pub(crate) fn says(&mut self, message: &Message) -> Result<Option<Heard>, Fault> {
        self.says_as(99, message)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ms: u64) -> Result<(), Fault> {
        self.now += Duration::from_millis(ms);
        self.session.on_time(&self.cfg, self.now, &mut self.tx)
    }

    /// Reads what it was told.
    pub(crate) fn told(&mut self) -> Vec<Message> {
        let octets = std::mem::take(&mut self.tx);
        frames(&octets).into_iter().map(|msg| Message::parse(msg).unwrap()).collect()
    }

    /// Reads what it was told: one `ERROR`, which quotes the start of `request`.
    pub(crate) fn told_error_about(&mut self, request: &[u8]) -> (ErrorType, ErrorCode) {
        let told = self.told();
        let [Message::Error { kind, code, data }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(data, &request[..request.len().min(64)]);
        (*kind, *code)
    }

    pub(crate) fn features(&self) -> Message {
        let ports =
            if self.session.version() < Version::V1_3 { vec![port(1), port(2)] } else { vec![] };
        Message::FeaturesReply(Features {
            datapath_id: DatapathId(7),
            n_buffers: 256,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: 0,
            actions: 0,
            ports,
        })
    }
}

pub(crate) fn ports(n: u32) -> Message {
    some_ports(n, false)
}

/// A part of a reply that has more.
pub(crate) fn some_ports(n: u32, more: bool) -> Message {
    let (mut body, mut xid) = (Vec::new(), 1);
    let mut out = Out::new(&mut body, Version::V1_3, &mut xid);
    (1..=n).for_each(|n| port(n).emit(&mut out).unwrap());
    Message::MultipartReply { kind: MultipartKind::PORT_DESC, more, body }
}

/// What an event was, without what it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Up(Features),
    PacketIn,
    Error(u32, ErrorType, Option<Kind>),
    BarrierReply(u32),
    MultipartReply(u32, MultipartKind, Vec<u8>),
    Role,
    Malformed(Kind),
    Other(Kind),
}

impl From<Event<'_>> for Heard {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Up(features) => Self::Up(*features),
            Event::PacketIn(_) => Self::PacketIn,
            Event::Error(error) => Self::Error(error.xid, error.kind, error.request()),
            Event::BarrierReply(xid) => Self::BarrierReply(xid),
            Event::MultipartReply(xid, kind, body) => Self::MultipartReply(xid, kind, body.into()),
            Event::Role(_) => Self::Role,
            Event::Malformed(kind, _) => Self::Malformed(kind),
            Event::Other(msg) => Self::Other(msg.kind()),
            Event::FlowRemoved(_) => Self::Other(Kind::FLOW_REMOVED),
            Event::PortStatus(_) => Self::Other(Kind::PORT_STATUS),
        }
    }
}

pub(crate) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut cfg = Config::default();
    change(&mut cfg);
    cfg
}

pub(crate) fn hello(version: Version) -> Message {
    Message::Hello(version, (version > Version::V1_0).then(|| Versions::of(&[version])))
}

pub(crate) fn packet_in() -> Message {
    Message::PacketIn {
        buffer_id: Some(1),
        in_port: PortNo(1),
        total_len: 64,
        reason: Reason::NO_MATCH,
        table_id: 0,
        cookie: u64::MAX,
        frame: vec![2; 64],
    }
}

/// What only a controller says.
pub(crate) fn flow_mod() -> Message {
    let matching = Match::default();
    Message::FlowMod {
        command: Command::ADD,
        table_id: 0,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: FlowMod::PRIORITY_DEFAULT,
        buffer_id: None,
        out_port: PortNo::ANY,
        flags: FlowFlags(0),
        rule: Rule { matching, actions: vec![Action::output(PortNo(1))], goto_table: None },
    }
}

/// Kinds and transaction ids of all messages in `octets`.
pub(crate) fn kinds(octets: &[u8]) -> Vec<(Kind, u32)> {
    frames(octets).into_iter().map(|msg| (msg.kind(), msg.xid())).collect()
}

fn frames(mut octets: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while let Some((msg, rest)) = split(octets).unwrap() {
        frames.push(msg);
        octets = rest;
    }
    assert!(octets.is_empty(), "only whole messages are said");
    frames
}

fn port(n: u32) -> Port {
    Port {
        port_no: PortNo(n),
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: *b"eth\0\0\0\0\0\0\0\0\0\0\0\0\0",
        config: 0,
        state: 0,
        features: [0; 4],
        speed_kbps: [0; 2],
    }
}
