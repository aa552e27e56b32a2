//! The controller's end of one connection.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, FlowRemoved, Multipart, PacketIn};
use sluice_openflow::{
    Encoder, ErrorReason, Field, FlowMod, FlowModCommand, Hello, MacAddr, MessageType,
    MultipartType, ParseError, ParseErrorKind, Port, PortStatus, RawMessage, Role, RoleRequest,
    SwitchConfig, SwitchFeatures, Version, Versions, ports,
};

use crate::SessionError;
use crate::reassembly::{Reassembler, ReassemblyBudget, ReassemblyLimits};

/// A locally administered address that is nobody's: a rule that matches frames from it to itself, of an Ethernet type
/// for local experiments, at this priority is one that no switch has. A strict deletion means no other.
const NOBODY: MacAddr = MacAddr([0x02, b's', b'l', b'u', b'i', b'c']);
const NO_ETH_TYPE: u16 = 0x88b5;
const NOBODY_PRIORITY: u16 = 0x5e1f;

/// How sessions are held. The same for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Versions to offer.
    pub versions: Versions,
    /// How long a peer may take to prove that it is a switch.
    pub handshake_timeout: Duration,
    /// How long a switch may be silent before it is asked whether it is there.
    pub echo_interval: Duration,
    /// How long it may take to answer that.
    pub echo_timeout: Duration,
    /// Bytes of a missed frame that come up where the switch keeps the frame.
    pub miss_send_len: u16,
    /// The role to ask for, where the version has roles.
    pub role: Option<Role>,
    /// Orders our requests for a role after those of earlier controllers. §6.3.7.
    pub generation_id: u64,
    /// Bytes that replies in parts may hold in all, per session.
    pub multipart_bytes_max: usize,
    /// Bytes that they may hold in all sessions of one [`ReassemblyBudget`] together: so much memory, whatever switches do.
    pub multipart_total_bytes_max: usize,
    /// Malformed messages that one session may send before it is ended.
    pub malformed_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: Versions::SPOKEN,
            handshake_timeout: Duration::from_secs(10),
            echo_interval: Duration::from_secs(5),
            echo_timeout: Duration::from_secs(10),
            miss_send_len: 128,
            role: None,
            generation_id: 0,
            multipart_bytes_max: 4 << 20,
            multipart_total_bytes_max: 64 << 20,
            malformed_max: 1000,
        }
    }
}

impl Config {
    fn room(&self) -> ReassemblyLimits {
        ReassemblyLimits { own: self.multipart_bytes_max, all: self.multipart_total_bytes_max }
    }
}

/// The controller's end of one connection, from `HELLO` to hang-up. §6.3.
///
/// Fed a time and a message, it answers with bytes in a buffer, at most one [`ControllerEvent`], and the next
/// [`deadline`](Self::deadline). It owns no socket, no clock, no thread and no logger.
///
/// ```text
///            HELLO           FEATURES_REPLY, PORT_DESC (1.3…)
///  Greeting ───────▶ Asking ──────────────────────────────────▶ Up    any SessionError ──▶ the owner hangs up
/// ```
#[derive(Debug)]
pub struct ControllerSession {
    phase: Phase,
    version: Version,
    next_xid: u32,
    /// When the connection came about.
    opened: Instant,
    /// How long it took from then until it went up.
    took: Duration,
    /// When the peer last said something.
    heard: Instant,
    /// When it was asked whether it is there, if it has not spoken since.
    probed: Option<Instant>,
    malformed: u32,
    assemblies: Reassembler,
}

#[derive(Debug)]
enum Phase {
    Greeting,
    Asking(Box<Asking>),
    Up,
}

/// What was asked and what of it was answered.
#[derive(Debug)]
struct Asking {
    features_xid: u32,
    ports_xid: Option<u32>,
    features: Option<SwitchFeatures>,
    ports: Option<Vec<Port>>,
}

/// What a message means to the owner of the session.
#[derive(Debug)]
pub enum ControllerEvent<'a> {
    /// The peer is a switch, and this is what it is; its ports are complete.
    SwitchConnected(Box<SwitchFeatures>),
    /// A frame came up.
    PacketIn(PacketIn<'a>),
    /// A rule is gone.
    FlowRemoved(FlowRemoved<'a>),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// A request failed.
    Error(ErrorMsg<'a>),
    /// All that was said before request `xid` is done.
    BarrierReply(u32),
    /// The whole reply to request `xid`.
    MultipartReply(u32, MultipartType, Cow<'a, [u8]>),
    /// The role that the switch granted.
    RoleReply(RoleRequest),
    /// A message could not be read; an `ERROR` about it was written.
    Malformed(MessageType, ParseError),
    /// A kind that sessions do not interpret.
    Other(RawMessage<'a>),
}

impl ControllerSession {
    /// Opens the conversation: writes `HELLO` to `tx`.
    pub fn open(cfg: &Config, now: Instant, tx: &mut Vec<u8>) -> Self {
        let version = cfg.versions.highest().unwrap_or(Version::V1_0);
        let mut session = Self {
            phase: Phase::Greeting,
            version,
            next_xid: 1,
            opened: now,
            took: Duration::ZERO,
            heard: now,
            probed: None,
            malformed: 0,
            assemblies: Reassembler::default(),
        };
        session.encoder(tx).hello(cfg.versions);
        session
    }

    /// Holds unfinished replies in `pool` from now on, with others that do.
    pub fn set_reassembly_budget(&mut self, pool: &ReassemblyBudget) {
        self.assemblies.set_reassembly_budget(pool);
    }

    /// A way to write to the peer.
    #[inline]
    pub fn encoder<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.version, &mut self.next_xid)
    }

    /// Notes that bytes came. Once per burst is enough.
    #[inline]
    pub fn record_activity(&mut self, now: Instant) {
        (self.heard, self.probed) = (now, None);
    }

    /// How long the handshake took: a round trip, and what the peer had to do. Nothing before it is done.
    pub fn handshake_duration(&self) -> Duration {
        self.took
    }

    /// Reads one message; answers go to `tx`.
    ///
    /// # Errors
    /// The reason to hang up. What `tx` holds is still to be sent: perhaps an `ERROR` that names the same reason.
    pub fn on_message<'a>(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<Option<ControllerEvent<'a>>, SessionError> {
        let kind = msg.kind();
        if !matches!(self.phase, Phase::Greeting) && msg.version() != self.version {
            self.encoder(tx).error(ErrorReason::BAD_VERSION, msg);
            return Err(SessionError::WrongVersion(msg.version()));
        }
        match (&self.phase, kind) {
            (Phase::Greeting, MessageType::HELLO) => self.greet(cfg, msg, tx).map(|()| None),
            (Phase::Greeting, MessageType::ERROR) => Err(refused(msg)),
            (Phase::Greeting, _) => Err(self.out_of_turn(msg, tx)),
            (_, MessageType::ECHO_REQUEST) => {
                // What came as one message fits into one.
                let _ = self.encoder(tx).echo_reply(msg.xid(), msg.body());
                Ok(None)
            }
            (_, MessageType::ECHO_REPLY | MessageType::HELLO) => Ok(None),
            (Phase::Asking(_), _) => self.on_answer(cfg, msg, tx),
            (Phase::Up, _) => match event(msg) {
                Ok(Told::ControllerEvent(event)) => Ok(Some(event)),
                Ok(Told::Part(part)) => {
                    let (xid, kind) = (msg.xid(), part.kind);
                    let whole = self.assemblies.add(xid, part, cfg.room())?;
                    Ok(whole.map(|body| ControllerEvent::MultipartReply(xid, kind, body)))
                }
                Err(error) => self.malformed(cfg, msg, error, tx),
            },
        }
    }

    /// Agrees on a version and asks everything at once.
    fn greet(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'_>,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let theirs = match Hello::read(msg) {
            Ok(hello) => hello.versions(),
            // The header says which version it is, and nobody knows what else.
            Err(ParseError { why: ParseErrorKind::Version, .. }) => None,
            Err(error) => {
                self.encoder(tx).error(ErrorReason::BAD_LEN, msg);
                return Err(SessionError::Malformed(error));
            }
        };
        let Some(version) = cfg.versions.negotiate(msg.version(), theirs) else {
            self.version = self.version.min(msg.version()).max(Version::V1_0);
            // A sentence fits.
            let reason = ErrorReason::INCOMPATIBLE;
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
            // The version has roles, just looked at.
            let _ =
                out.role_request(&RoleRequest { role, generation_id, ..RoleRequest::default() });
        }
        let asking = Asking { features_xid, ports_xid, features: None, ports: None };
        self.phase = Phase::Asking(Box::new(asking));
        if version < Version::V1_3 {
            self.delete_nothing(tx);
        }
        Ok(())
    }

    /// Takes an answer of the handshake; what else a switch may say by then is passed over.
    fn on_answer<'a>(
        &mut self,
        cfg: &Config,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<Option<ControllerEvent<'a>>, SessionError> {
        let malformed = |session: &mut Self, tx: &mut Vec<u8>, error: ParseError| {
            session.encoder(tx).error(ErrorReason::for_parse_error(error, msg.version()), msg);
            SessionError::Malformed(error)
        };
        let Phase::Asking(asking) = &mut self.phase else { return Ok(None) };
        let read = match msg.kind() {
            MessageType::FEATURES_REPLY if msg.xid() == asking.features_xid => {
                SwitchFeatures::read(msg).map(|features| asking.features = Some(features))
            }
            MessageType::MULTIPART_REPLY if Some(msg.xid()) == asking.ports_xid => {
                match Multipart::new(msg) {
                    Ok(part) if part.kind == MultipartType::PORT_DESC => {
                        match self.assemblies.add(msg.xid(), part, cfg.room())? {
                            Some(body) => ports(msg.version(), &body, 16)
                                .map(|ports| asking.ports = Some(ports)),
                            None => Ok(()),
                        }
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            // Some switches of 1.3 and later do not know PORT_DESC; they are switches all the same.
            MessageType::ERROR if Some(msg.xid()) == asking.ports_xid => {
                asking.ports = Some(Vec::new());
                Ok(())
            }
            MessageType::ERROR if msg.xid() == asking.features_xid => return Err(refused(msg)),
            MessageType::ERROR => return Ok(ErrorMsg::new(msg).ok().map(ControllerEvent::Error)),
            kind if is_from_switch(kind) => Ok(()),
            _ => return Err(self.out_of_turn(msg, tx)),
        };
        read.map_err(|error| malformed(self, tx, error))?;
        Ok(self.come_up().map(ControllerEvent::SwitchConnected))
    }

    /// Goes up once everything was answered.
    fn come_up(&mut self) -> Option<Box<SwitchFeatures>> {
        let Phase::Asking(asking) = &mut self.phase else { return None };
        if asking.ports_xid.is_some() && asking.ports.is_none() {
            return None;
        }
        let mut features = asking.features.take()?;
        features.ports.append(asking.ports.as_mut().unwrap_or(&mut Vec::new()));
        self.phase = Phase::Up;
        self.took = self.heard.saturating_duration_since(self.opened);
        Some(Box::new(features))
    }

    /// Deletes a rule that no switch has, which leaves all tables as they are.
    ///
    /// Open vSwitch 3.1 decides what happens to a flow once, and while it has no controller what no rule matches is
    /// dropped. It decides anew at the next change of a rule or port, and not because a controller has come: for some
    /// seconds, frames like those it dropped are dropped still. A deletion is reason enough, whether or not there is
    /// such a rule. From 1.3 on there is the table-miss entry, which is a change of a rule.
    fn delete_nothing(&mut self, tx: &mut Vec<u8>) {
        let deletion = FlowMod {
            command: FlowModCommand::DELETE_STRICT,
            priority: NOBODY_PRIORITY,
            matching: [
                Field::eth_dst(NOBODY),
                Field::eth_src(NOBODY),
                Field::eth_type(NO_ETH_TYPE),
            ]
            .into(),
            ..FlowMod::default()
        };
        // Every version can say all of this.
        let _ = self.encoder(tx).flow_mod(&deletion);
    }

    fn out_of_turn(&mut self, msg: RawMessage<'_>, tx: &mut Vec<u8>) -> SessionError {
        self.encoder(tx).error(ErrorReason::BAD_TYPE, msg);
        SessionError::UnexpectedMessage(msg.kind())
    }

    #[cold]
    fn malformed<'a>(
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

    /// Lets time pass: asks a silent switch whether it is there.
    ///
    /// # Errors
    /// The reason to hang up.
    pub fn handle_timeouts(
        &mut self,
        cfg: &Config,
        now: Instant,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if now < self.deadline(cfg) {
            return Ok(());
        }
        match (&self.phase, self.probed) {
            (Phase::Greeting | Phase::Asking(_), _) => Err(SessionError::HandshakeTimeout),
            (Phase::Up, Some(_)) => Err(SessionError::EchoTimeout),
            (Phase::Up, None) => {
                self.probe(now, tx);
                Ok(())
            }
        }
    }

    /// Asks the peer whether it is there, unless it was asked already.
    pub fn probe(&mut self, now: Instant, tx: &mut Vec<u8>) {
        if self.probed.is_none() {
            self.probed = Some(now);
            self.encoder(tx).echo_request();
        }
    }

    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do.
    pub fn deadline(&self, cfg: &Config) -> Instant {
        match (&self.phase, self.probed) {
            (Phase::Greeting | Phase::Asking(_), _) => self.opened + cfg.handshake_timeout,
            (Phase::Up, Some(probed)) => probed + cfg.echo_timeout,
            (Phase::Up, None) => self.heard + cfg.echo_interval,
        }
    }

    /// When the peer was asked whether it is there, if it has said nothing since.
    pub fn probed_at(&self) -> Option<Instant> {
        self.probed
    }

    /// The version agreed on, or offered as long as there is none.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the peer has said `HELLO` and a version was agreed on.
    #[inline]
    pub fn is_version_negotiated(&self) -> bool {
        !matches!(self.phase, Phase::Greeting)
    }

    /// Whether the peer has proved that it is a switch.
    #[inline]
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }
}

/// What a message of a session that is up says.
enum Told<'a> {
    ControllerEvent(ControllerEvent<'a>),
    Part(Multipart<'a>),
}

fn event(msg: RawMessage<'_>) -> Result<Told<'_>, ParseError> {
    Ok(Told::ControllerEvent(match msg.kind() {
        MessageType::PACKET_IN => ControllerEvent::PacketIn(PacketIn::new(msg)?),
        MessageType::FLOW_REMOVED => ControllerEvent::FlowRemoved(FlowRemoved::new(msg)?),
        MessageType::PORT_STATUS => ControllerEvent::PortStatus(PortStatus::read(msg)?),
        MessageType::ERROR => ControllerEvent::Error(ErrorMsg::new(msg)?),
        MessageType::BARRIER_REPLY => ControllerEvent::BarrierReply(msg.xid()),
        MessageType::ROLE_REPLY => ControllerEvent::RoleReply(RoleRequest::read(msg)?),
        MessageType::MULTIPART_REPLY => return Ok(Told::Part(Multipart::new(msg)?)),
        kind if is_from_switch(kind) => ControllerEvent::Other(msg),
        _ => return Err(ParseError::new("type", 1, ParseErrorKind::UnknownType)),
    }))
}

/// Whether a switch may say this of its own accord or in answer to something.
fn is_from_switch(kind: MessageType) -> bool {
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

fn refused(msg: RawMessage<'_>) -> SessionError {
    match ErrorMsg::new(msg) {
        Ok(error) => SessionError::HandshakeRejected(error.reason),
        Err(error) => SessionError::Malformed(error),
    }
}
