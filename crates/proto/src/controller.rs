//! The controller's end of one connection.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, FlowRemoved, Multipart, PacketIn};
use sluice_openflow::{
    Encoder, ErrorReason, Field, FlowMod, FlowModCommand, Hello, MacAddr, Message, MessageType,
    MultipartType, ParseError, ParseErrorKind, Port, PortNo, PortReason, PortStatus, RawMessage,
    Role, RoleRequest, SwitchConfig, SwitchFeatures, Version, Versions, ports,
};

use crate::SessionError;
use crate::budget::{ReassemblyBudget, SourceId};
use crate::reassembly::{Reassembled, Reassembler, ReassemblyLimits};

/// Source and destination address, Ethernet type and priority of a flow entry that no switch has: a locally administered
/// address that is not in use, and an Ethernet type for local experiments.
const UNUSED_MAC: MacAddr = MacAddr([0x02, b's', b'l', b'u', b'i', b'c']);
const UNUSED_ETH_TYPE: u16 = 0x88b5;
const UNUSED_PRIORITY: u16 = 0x5e1f;

/// The configuration of all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// OpenFlow versions to offer. Default: all.
    pub versions: Versions,
    /// Time limit of the handshake. Default: 10 s.
    pub handshake_timeout: Duration,
    /// How long a switch may be silent before an echo request is sent. Default: 5 s.
    pub echo_interval: Duration,
    /// How long a switch may stay silent after an echo request. Default: 10 s.
    pub echo_timeout: Duration,
    /// Bytes of a buffered packet that the switch includes in a packet-in (§7.3.2). Default: 128.
    pub miss_send_len: u16,
    /// The role to request, from 1.2 on; `None` requests none.
    pub role: Option<Role>,
    /// Generation id of role requests; must not be less than that of an earlier controller (§6.3.7).
    pub generation_id: u64,
    /// Bytes of incomplete multipart replies per session. Default: 4 MiB.
    pub multipart_bytes_max: usize,
    /// Bytes of incomplete multipart replies of all sessions that share a [`ReassemblyBudget`]. Default: 64 MiB.
    pub multipart_total_bytes_max: usize,
    /// How long an incomplete multipart reply may make no progress. Default: 30 s.
    pub multipart_timeout: Duration,
    /// Malformed messages that a session tolerates. Default: 1000.
    pub malformed_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: Versions::SUPPORTED,
            handshake_timeout: Duration::from_secs(10),
            echo_interval: Duration::from_secs(5),
            echo_timeout: Duration::from_secs(10),
            miss_send_len: 128,
            role: None,
            generation_id: 0,
            multipart_bytes_max: 4 << 20,
            multipart_total_bytes_max: 64 << 20,
            multipart_timeout: Duration::from_secs(30),
            malformed_max: 1000,
        }
    }
}

impl Config {
    fn reassembly_limits(&self) -> ReassemblyLimits {
        ReassemblyLimits {
            session_bytes: self.multipart_bytes_max,
            shared_bytes: self.multipart_total_bytes_max,
        }
    }
}

/// The controller's end of one OpenFlow connection (§6.3), as a state machine without I/O.
///
/// Its owner passes it the messages of the switch and the time. It appends its own messages to the owner's transmit
/// buffer, returns an event for each message that concerns the controller, and says with [`deadline`](Self::deadline)
/// when to call [`handle_timeouts`](Self::handle_timeouts).
///
/// ```text
///      open(): send HELLO
///            │
///            ▼
///   ┌──────────────────┐ HELLO: send FEATURES_REQUEST, PORT_DESC request (from 1.3), SET_CONFIG,
///   │  awaiting HELLO  │        ROLE_REQUEST (from 1.2, if configured)
///   └──────────────────┘
///            │
///            ▼
///   ┌──────────────────┐ FEATURES_REPLY and PORT_DESC reply: SwitchConnected
///   │awaiting features │
///   └──────────────────┘
///            │
///            ▼
///   ┌──────────────────┐ any message: an event; ECHO_REQUEST: send ECHO_REPLY
///   │        up        │ nothing received for echo_interval: send ECHO_REQUEST
///   └──────────────────┘
/// ```
///
/// In every state, a [`SessionError`] ends the session: the owner sends what is in the transmit buffer and closes the
/// connection.
#[derive(Debug)]
pub struct ControllerSession {
    state: State,
    version: Version,
    next_xid: u32,
    opened_at: Instant,
    /// From `opened_at` to the end of the handshake.
    handshake_duration: Duration,
    last_received_at: Instant,
    /// When the outstanding echo request was sent.
    probed_at: Option<Instant>,
    /// Malformed messages received so far.
    malformed: u32,
    reassembler: Reassembler,
}

#[derive(Debug)]
enum State {
    AwaitingHello,
    AwaitingFeatures(Box<PendingFeatures>),
    Up,
}

/// Requests of the handshake and the replies received so far.
#[derive(Debug)]
struct PendingFeatures {
    features_xid: u32,
    /// `None` if the version has no `PORT_DESC`: the ports are in the `FEATURES_REPLY`.
    ports_xid: Option<u32>,
    features: Option<SwitchFeatures>,
    ports: Option<Vec<Port>>,
    /// The last change of each port since the `HELLO`: a reply may describe the ports as they were before it. Owners limit
    /// the bytes of a handshake, and so this.
    port_changes: BTreeMap<PortNo, PortStatus>,
}

impl PendingFeatures {
    /// The ports of the replies, with the changes applied.
    fn into_features(self) -> Option<SwitchFeatures> {
        let mut features = self.features?;
        features.ports.append(&mut self.ports.unwrap_or_default());
        for PortStatus { reason, port } in self.port_changes.into_values() {
            let known = features.ports.iter().position(|known| known.port_no == port.port_no);
            match known.and_then(|at| features.ports.get_mut(at).map(|known| (at, known))) {
                Some((at, _)) if reason == PortReason::DELETE => _ = features.ports.remove(at),
                Some((_, known)) => *known = port,
                None if reason == PortReason::DELETE => {}
                None => features.ports.push(port),
            }
        }
        Some(features)
    }
}

/// What a message of a switch means to the controller.
#[derive(Debug)]
pub enum ControllerEvent<'a> {
    /// The handshake is complete; the list of ports is complete in every version.
    SwitchConnected(Box<SwitchFeatures>),
    /// A packet was sent to the controller.
    PacketIn(PacketIn<'a>),
    /// A flow entry was removed.
    FlowRemoved(FlowRemoved<'a>),
    /// A port was added, removed or changed.
    PortStatus(PortStatus),
    /// The switch rejected a message.
    Error(ErrorMsg<'a>),
    /// The switch has processed all messages before the `BARRIER_REQUEST` with this transaction id.
    BarrierReply(u32),
    /// The complete reply to the multipart request with this transaction id.
    MultipartReply(u32, MultipartType, Cow<'a, [u8]>),
    /// The reply to the multipart request with this transaction id was longer than a session may keep, and was discarded.
    MultipartReplyTooLarge(u32, MultipartType),
    /// The role that the switch granted.
    RoleReply(RoleRequest),
    /// A message could not be parsed; an `ERROR` that quotes it is in the transmit buffer.
    Malformed(MessageType, ParseError),
    /// A message that sessions do not interpret, such as an echo reply: any message shows that the switch is alive.
    Other(RawMessage<'a>),
}

impl ControllerSession {
    /// Starts a session: appends `HELLO` to `tx`. The requests of the handshake have the transaction ids from `first_xid` on;
    /// if that is unpredictable, a peer completes the handshake only after it has received them.
    ///
    /// The `HELLO` has a version bitmap only if that can make a difference.
    pub fn open(cfg: &Config, first_xid: u32, now: Instant, tx: &mut Vec<u8>) -> Self {
        let version = cfg.versions.highest().unwrap_or(Version::V1_0);
        let mut session = Self {
            state: State::AwaitingHello,
            version,
            next_xid: first_xid,
            opened_at: now,
            handshake_duration: Duration::ZERO,
            last_received_at: now,
            probed_at: None,
            malformed: 0,
            reassembler: Reassembler::default(),
        };
        session.send_hello(cfg.versions, tx);
        session
    }

    /// Sends `HELLO` with the transaction id 0.
    fn send_hello(&mut self, versions: Versions, tx: &mut Vec<u8>) {
        let mut xid = 0;
        let mut encoder = Encoder::new(tx, self.version, &mut xid);
        if needs_bitmap(versions) {
            encoder.hello(versions);
        } else {
            // Cannot fail: every version has a `HELLO` without elements.
            let _ = encoder.encode(&Message::Hello(Hello::default()));
        }
    }

    /// Uses the memory of `budget` for incomplete multipart replies, as a session of `source`. Discards those that there are.
    pub fn set_reassembly_budget(&mut self, budget: &ReassemblyBudget, source: SourceId) {
        self.reassembler.set_budget(budget, source);
    }

    /// Uses the memory of `budget` from now on, and moves incomplete multipart replies there.
    pub fn move_reassembly_budget(&mut self, budget: &ReassemblyBudget) {
        self.reassembler.move_to(budget);
    }

    /// An encoder that appends messages to `tx` with the version and the next transaction ids of this session.
    #[inline]
    pub fn encoder<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.version, &mut self.next_xid)
    }

    /// The transaction id of the next message.
    pub fn next_xid(&self) -> u32 {
        self.next_xid
    }

    /// Sets the transaction id of the next message, since others were sent in the name of this session.
    pub fn set_next_xid(&mut self, next_xid: u32) {
        self.next_xid = next_xid;
    }

    /// Records that data was received, which postpones the next echo request. Once per read is enough.
    #[inline]
    pub fn record_activity(&mut self, now: Instant) {
        (self.last_received_at, self.probed_at) = (now, None);
    }

    /// Records that the peer is not read at present. Its echo reply, or the rest of a multipart reply, may be among what it has
    /// sent, so that both get their full time again.
    pub fn record_unread(&mut self, now: Instant) {
        self.record_activity(now);
        self.reassembler.record_unread(now);
    }

    /// How long the handshake took: a round trip and the time that the switch needed. Zero until it is complete.
    pub fn handshake_duration(&self) -> Duration {
        self.handshake_duration
    }

    /// Handles one message of the switch; appends responses to `tx`.
    ///
    /// # Errors
    /// The session must end. `tx` is still to be sent: it may end with an `ERROR` about the same problem.
    pub fn on_message<'a>(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<Option<ControllerEvent<'a>>, SessionError> {
        let kind = msg.kind();
        if !matches!(self.state, State::AwaitingHello) && msg.version() != self.version {
            self.encoder(tx).error(ErrorReason::BAD_VERSION, msg);
            return Err(SessionError::WrongVersion(msg.version()));
        }
        match (&self.state, kind) {
            (State::AwaitingHello, MessageType::HELLO) => {
                self.on_hello(cfg, msg, tx).map(|()| None)
            }
            (State::AwaitingHello, MessageType::ERROR) => Err(handshake_rejected(msg)),
            (State::AwaitingHello, _) => Err(self.reject_unexpected(msg, tx)),
            (_, MessageType::ECHO_REQUEST) => {
                // Cannot fail: a body that fits into one message fits into another.
                let _ = self.encoder(tx).echo_reply(msg.xid(), msg.body());
                Ok(None)
            }
            (State::Up, MessageType::ECHO_REPLY) => Ok(Some(ControllerEvent::Other(msg))),
            (_, MessageType::ECHO_REPLY | MessageType::HELLO) => Ok(None),
            (State::AwaitingFeatures(_), _) => self.on_handshake_reply(cfg, msg, tx),
            (State::Up, _) => match parse(msg) {
                Ok(Parsed::Event(event)) => Ok(Some(event)),
                Ok(Parsed::MultipartPart(part)) => {
                    let (xid, kind) = (msg.xid(), part.kind);
                    let (now, limits) = (self.last_received_at, cfg.reassembly_limits());
                    Ok(match self.reassembler.add(xid, (msg.version(), part), now, limits)? {
                        Reassembled::Incomplete | Reassembled::Discarding => None,
                        Reassembled::Whole(body) => {
                            Some(ControllerEvent::MultipartReply(xid, kind, body))
                        }
                        Reassembled::Discarded => {
                            Some(ControllerEvent::MultipartReplyTooLarge(xid, kind))
                        }
                    })
                }
                Err(error) => self.on_malformed(cfg, msg, error, tx),
            },
        }
    }

    /// Negotiates the version and sends all requests of the handshake at once.
    fn on_hello(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'_>,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let theirs = match Hello::parse_without_padding(msg) {
            Ok(hello) => hello.versions(),
            // A version that we do not know: only its number in the header can be used.
            Err(ParseError { why: ParseErrorKind::Version, .. }) => None,
            Err(error) => {
                self.encoder(tx).error(ErrorReason::BAD_LEN, msg);
                return Err(SessionError::Malformed(error));
            }
        };
        let Some(version) = cfg.versions.negotiate(msg.version(), theirs) else {
            self.version = self.version.min(msg.version()).max(Version::V1_0);
            let reason = ErrorReason::INCOMPATIBLE;
            // Cannot fail: the text is short.
            let _ = self.encoder(tx).error_with(msg.xid(), reason, b"no common version");
            return Err(SessionError::NoCommonVersion(msg.version()));
        };
        self.version = version;
        let role = cfg.role.filter(|_| version >= Version::V1_2);
        let (miss_send_len, generation_id) = (cfg.miss_send_len, cfg.generation_id);
        let mut out = self.encoder(tx);
        let features_xid = out.features_request();
        let ports_xid = out.port_desc_request().ok();
        out.set_config(SwitchConfig { miss_send_len, ..SwitchConfig::default() });
        if let Some(role) = role {
            // Cannot fail: versions without roles were filtered out above.
            let _ =
                out.role_request(&RoleRequest { role, generation_id, ..RoleRequest::default() });
        }
        let pending = PendingFeatures {
            features_xid,
            ports_xid,
            features: None,
            ports: None,
            port_changes: BTreeMap::new(),
        };
        self.state = State::AwaitingFeatures(Box::new(pending));
        if version < Version::V1_3 {
            self.send_no_op_deletion(tx);
        }
        Ok(())
    }

    /// Handles a reply of the handshake; ignores other messages that a switch may send.
    fn on_handshake_reply<'a>(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<Option<ControllerEvent<'a>>, SessionError> {
        let malformed = |session: &mut Self, tx: &mut Vec<u8>, error: ParseError| {
            session.encoder(tx).error(ErrorReason::for_parse_error(error, msg.version()), msg);
            SessionError::Malformed(error)
        };
        let State::AwaitingFeatures(pending) = &mut self.state else { return Ok(None) };
        let parsed = match msg.kind() {
            MessageType::FEATURES_REPLY if msg.xid() == pending.features_xid => {
                SwitchFeatures::parse_raw(msg).map(|features| pending.features = Some(features))
            }
            MessageType::MULTIPART_REPLY if Some(msg.xid()) == pending.ports_xid => {
                match Multipart::new(msg) {
                    Ok(part) if part.kind == MultipartType::PORT_DESC => {
                        let (now, limits) = (self.last_received_at, cfg.reassembly_limits());
                        match self.reassembler.add(msg.xid(), (msg.version(), part), now, limits)? {
                            Reassembled::Incomplete => Ok(()),
                            Reassembled::Whole(body) => ports(msg.version(), &body, 16)
                                .map(|ports| pending.ports = Some(ports)),
                            Reassembled::Discarding | Reassembled::Discarded => {
                                return Err(SessionError::MultipartReplyTooLarge);
                            }
                        }
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            // Some switches of 1.3 and later do not support PORT_DESC.
            MessageType::ERROR if Some(msg.xid()) == pending.ports_xid => {
                pending.ports = Some(Vec::new());
                Ok(())
            }
            MessageType::ERROR if msg.xid() == pending.features_xid => {
                return Err(handshake_rejected(msg));
            }
            MessageType::PORT_STATUS => match PortStatus::parse_raw(msg) {
                Ok(status) => {
                    pending.port_changes.insert(status.port.port_no, status);
                    Ok(())
                }
                Err(error) => return self.on_malformed(cfg, msg, error, tx),
            },
            MessageType::ERROR => return Ok(ErrorMsg::new(msg).ok().map(ControllerEvent::Error)),
            kind if is_sent_by_switches(kind) => Ok(()),
            _ => return Err(self.reject_unexpected(msg, tx)),
        };
        parsed.map_err(|error| malformed(self, tx, error))?;
        Ok(self.complete_handshake().map(ControllerEvent::SwitchConnected))
    }

    /// Changes to the state `Up` if all replies of the handshake were received.
    fn complete_handshake(&mut self) -> Option<Box<SwitchFeatures>> {
        let State::AwaitingFeatures(pending) = &mut self.state else { return None };
        if pending.ports_xid.is_some() && pending.ports.is_none() {
            return None;
        }
        pending.features.as_ref()?;
        let State::AwaitingFeatures(pending) = std::mem::replace(&mut self.state, State::Up) else {
            return None;
        };
        let features = pending.into_features()?;
        self.handshake_duration = self.last_received_at.saturating_duration_since(self.opened_at);
        Some(Box::new(features))
    }

    /// Sends a strict deletion of a flow entry that no switch has, which changes no table.
    ///
    /// Works around Open vSwitch 3.1, which caches decisions: while it has no controller, it drops packets that match no
    /// flow entry, and it revalidates that decision only when a flow entry or a port changes, not when a controller
    /// connects. Without this message it drops such packets for some more seconds. From 1.3 on the table-miss flow entry
    /// that applications install has the same effect.
    fn send_no_op_deletion(&mut self, tx: &mut Vec<u8>) {
        let deletion = FlowMod {
            command: FlowModCommand::DELETE_STRICT,
            priority: UNUSED_PRIORITY,
            matching: [
                Field::eth_dst(UNUSED_MAC),
                Field::eth_src(UNUSED_MAC),
                Field::eth_type(UNUSED_ETH_TYPE),
            ]
            .into(),
            ..FlowMod::default()
        };
        // Cannot fail: every version can express this.
        let _ = self.encoder(tx).flow_mod(&deletion);
    }

    fn reject_unexpected(&mut self, msg: RawMessage<'_>, tx: &mut Vec<u8>) -> SessionError {
        self.encoder(tx).error(ErrorReason::BAD_TYPE, msg);
        SessionError::UnexpectedMessage(msg.kind())
    }

    #[cold]
    fn on_malformed<'a>(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'a>,
        error: ParseError,
        tx: &mut Vec<u8>,
    ) -> Result<Option<ControllerEvent<'a>>, SessionError> {
        self.encoder(tx).error(ErrorReason::for_parse_error(error, msg.version()), msg);
        self.malformed += 1;
        if self.malformed > cfg.malformed_max {
            return Err(SessionError::TooManyMalformed);
        }
        Ok(Some(ControllerEvent::Malformed(msg.kind(), error)))
    }

    /// Checks the timeouts: sends an echo request to a switch that was silent for `echo_interval`. Has nothing to do before
    /// [`deadline`](Self::deadline), unless another session has taken the memory of incomplete multipart replies.
    ///
    /// # Errors
    /// The session must end: the handshake, a multipart reply or the answer to an echo request took too long, or it has lost
    /// its incomplete multipart replies.
    pub fn handle_timeouts(
        &mut self,
        cfg: &Config,
        now: Instant,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.reassembler.check(cfg.multipart_timeout, now)?;
        if now < self.deadline(cfg) {
            return Ok(());
        }
        match (&self.state, self.probed_at) {
            (State::AwaitingHello | State::AwaitingFeatures(_), _) => {
                Err(SessionError::HandshakeTimeout)
            }
            (State::Up, Some(_)) => Err(SessionError::EchoTimeout),
            (State::Up, None) => {
                self.probe(now, tx);
                Ok(())
            }
        }
    }

    /// Sends an echo request, unless one is outstanding.
    pub fn probe(&mut self, now: Instant, tx: &mut Vec<u8>) {
        if self.probed_at.is_none() {
            self.probed_at = Some(now);
            self.encoder(tx).echo_request();
        }
    }

    /// When to call [`handle_timeouts`](Self::handle_timeouts) next.
    pub fn deadline(&self, cfg: &Config) -> Instant {
        let of_state = match (&self.state, self.probed_at) {
            (State::AwaitingHello | State::AwaitingFeatures(_), _) => {
                self.opened_at + cfg.handshake_timeout
            }
            (State::Up, Some(probed_at)) => probed_at + cfg.echo_timeout,
            (State::Up, None) => self.last_received_at + cfg.echo_interval,
        };
        let of_replies = self.reassembler.deadline(cfg.multipart_timeout);
        of_replies.map_or(of_state, |deadline| deadline.min(of_state))
    }

    /// When the outstanding echo request was sent; `None` if data was received since.
    pub fn probed_at(&self) -> Option<Instant> {
        self.probed_at
    }

    /// The negotiated version; before the peer's `HELLO`, the highest that we offer.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the peer's `HELLO` was received and a version was negotiated.
    #[inline]
    pub fn is_version_negotiated(&self) -> bool {
        !matches!(self.state, State::AwaitingHello)
    }

    /// Whether the handshake is complete.
    #[inline]
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }
}

/// Whether a `HELLO` for `versions` must have a version bitmap so that each peer that has one of them finds the best one.
///
/// Without bitmap the smaller of the two highest versions is used (§6.3.1). That is the best common one if there is only one
/// version, or if all from some version up to the highest that exists are supported.
fn needs_bitmap(versions: Versions) -> bool {
    let Some(lowest) = versions.iter().next() else { return false };
    let mut upper = Versions::SUPPORTED.iter().filter(|&version| version >= lowest);
    versions.iter().count() > 1 && !upper.all(|version| versions.contains(version))
}

/// A parsed message of a session that is up.
enum Parsed<'a> {
    Event(ControllerEvent<'a>),
    MultipartPart(Multipart<'a>),
}

fn parse(msg: RawMessage<'_>) -> Result<Parsed<'_>, ParseError> {
    Ok(Parsed::Event(match msg.kind() {
        MessageType::PACKET_IN => ControllerEvent::PacketIn(PacketIn::new(msg)?),
        MessageType::FLOW_REMOVED => ControllerEvent::FlowRemoved(FlowRemoved::new(msg)?),
        MessageType::PORT_STATUS => ControllerEvent::PortStatus(PortStatus::parse_raw(msg)?),
        MessageType::ERROR => ControllerEvent::Error(ErrorMsg::new(msg)?),
        MessageType::BARRIER_REPLY => ControllerEvent::BarrierReply(msg.xid()),
        MessageType::ROLE_REPLY => ControllerEvent::RoleReply(RoleRequest::parse_raw(msg)?),
        MessageType::MULTIPART_REPLY => return Ok(Parsed::MultipartPart(Multipart::new(msg)?)),
        kind if is_sent_by_switches(kind) => ControllerEvent::Other(msg),
        _ => return Err(ParseError::new("type", 1, ParseErrorKind::UnknownType)),
    }))
}

/// Whether switches send messages of this type, unasked or as a reply.
fn is_sent_by_switches(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::ERROR
            | MessageType::EXPERIMENTER
            | MessageType::FEATURES_REPLY
            | MessageType::GET_CONFIG_REPLY
            | MessageType::PACKET_IN
            | MessageType::FLOW_REMOVED
            | MessageType::PORT_STATUS
            | MessageType::MULTIPART_REPLY
            | MessageType::BARRIER_REPLY
            | MessageType::QUEUE_GET_CONFIG_REPLY
            | MessageType::ROLE_REPLY
            | MessageType::GET_ASYNC_REPLY
            | MessageType::ROLE_STATUS
            | MessageType::TABLE_STATUS
            | MessageType::REQUESTFORWARD
            | MessageType::BUNDLE_CONTROL
            | MessageType::CONTROLLER_STATUS
    )
}

fn handshake_rejected(msg: RawMessage<'_>) -> SessionError {
    match ErrorMsg::new(msg) {
        Ok(error) => SessionError::HandshakeRejected(error.reason),
        Err(error) => SessionError::Malformed(error),
    }
}
