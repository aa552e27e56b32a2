//! The control connection: agreeing on a version, taking one message after the other. §6.3, §7.1.

use std::time::Instant;

use sluice_openflow::model::{MultipartFlags, QueueGetConfigReply, Role, RoleRequest, TableMod};
use sluice_openflow::{
    ActionBits, Capabilities, Encoder, ErrorReason, Features, FlowRemovedReason, Hello, Message,
    MessageType, PacketInReason, PortNo, PortReason, PortStatus, RawMessage, SwitchConfig, Version,
    Versions, split_message,
};
use sluice_proto::SessionError;

use super::check::Stand;
use super::news::News;
use super::plan::Plan;
use super::{ModelSwitch, Outbox, reasons};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Alone,
    Greeting,
    Agreed,
    Known,
}

/// What holds as long as one connection does.
#[derive(Debug)]
pub(super) struct Session {
    phase: Phase,
    offered: Versions,
    version: Version,
    next_xid: u32,
    /// The start of a message whose rest has not come yet: 65 535 bytes at most between two calls.
    torn: Vec<u8>,
    pub(super) config: SwitchConfig,
    role: Role,
    news: News,
    generation_id: Option<u64>,
}

impl Session {
    /// Nobody to talk to.
    pub(super) fn new(plan: &Plan) -> Self {
        let offered = plan.versions.both(Versions::SPOKEN);
        Self {
            phase: Phase::Alone,
            offered,
            version: offered.highest().unwrap_or(Version::V1_0),
            next_xid: 1,
            torn: vec![],
            config: SwitchConfig { miss_send_len: plan.miss_send_len, ..SwitchConfig::default() },
            role: Role::EQUAL,
            news: News::new(Version::V1_0),
            generation_id: None,
        }
    }

    /// The connection is gone; what holds in the version of the tables goes on.
    pub(super) fn close(&mut self, plan: &Plan) {
        *self = Self { version: self.version, ..Self::new(plan) };
    }

    /// Says `HELLO`.
    pub(super) fn open(&mut self, tx: &mut Vec<u8>) {
        self.phase = Phase::Greeting;
        let offered = self.offered;
        self.out(tx).hello(offered);
    }

    pub(super) fn out<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.version, &mut self.next_xid)
    }

    /// Agrees on a version.
    fn greet(&mut self, msg: RawMessage<'_>, tx: &mut Vec<u8>) -> Result<(), SessionError> {
        match msg.kind() {
            MessageType::HELLO => {}
            MessageType::ERROR => {
                let error = sluice_openflow::ErrorMsg::new(msg).map_err(SessionError::Malformed)?;
                return Err(SessionError::HandshakeRejected(error.reason));
            }
            kind => return Err(SessionError::UnexpectedMessage(kind)),
        }
        // Of a version after ours nobody knows more than the header.
        let theirs = Hello::read(msg).ok().and_then(|hello| hello.versions());
        let Some(version) = self.offered.negotiate(msg.version(), theirs) else {
            self.version = self.version.min(msg.version()).max(Version::V1_0);
            let reason = ErrorReason::INCOMPATIBLE;
            // A sentence fits.
            let _ = self.out(tx).error_with(msg.xid(), reason, b"no common version");
            return Err(SessionError::NoCommonVersion(msg.version()));
        };
        (self.version, self.phase) = (version, Phase::Agreed);
        self.news = News::new(version);
        Ok(())
    }

    /// The version agreed on; the highest offered before.
    pub(super) const fn version(&self) -> Version {
        self.version
    }

    pub(super) fn agreed(&self) -> Option<Version> {
        matches!(self.phase, Phase::Agreed | Phase::Known).then_some(self.version)
    }

    pub(super) fn is_known(&self) -> bool {
        self.phase == Phase::Known
    }

    /// Whether frames go up for this reason.
    pub(super) fn wants_packet(&self, reason: PacketInReason) -> bool {
        self.is_known() && self.news.wants_packet(self.role, reason)
    }

    /// Whether rules that are gone for this reason are told.
    pub(super) fn wants_removed(&self, reason: FlowRemovedReason) -> bool {
        self.is_known() && self.news.wants_removed(self.role, reason)
    }

    fn wants_port(&self, reason: PortReason) -> bool {
        self.is_known() && self.news.wants_port(self.role, reason)
    }

    /// Takes a role. §6.3.6.
    ///
    /// # Errors
    /// `BAD_ROLE`, and `STALE` for a generation before one that was heard.
    fn take_role(&mut self, asked: &RoleRequest) -> Result<RoleRequest, ErrorReason> {
        match asked.role {
            Role::NOCHANGE => {}
            Role::EQUAL => self.role = Role::EQUAL,
            Role::MASTER | Role::SLAVE => {
                let distance = |old: u64| asked.generation_id.wrapping_sub(old);
                if self.generation_id.is_some_and(|old| distance(old) > u64::MAX / 2) {
                    return Err(reasons::STALE);
                }
                (self.role, self.generation_id) = (asked.role, Some(asked.generation_id));
            }
            _ => return Err(reasons::BAD_ROLE),
        }
        let generation_id = self.generation_id.unwrap_or(u64::MAX);
        Ok(RoleRequest { role: self.role, generation_id, short_id: asked.short_id })
    }
}

impl ModelSwitch {
    /// Cuts the stream into messages and does what they say.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> Result<(), SessionError> {
        self.ports.start(now);
        if self.session.phase == Phase::Alone {
            return Ok(());
        }
        let mut stream = std::mem::take(&mut self.session.torn);
        stream.extend_from_slice(bytes);
        let mut rest = stream.as_slice();
        while let Some((msg, after)) = split_message(rest).map_err(SessionError::Malformed)? {
            self.on_message(now, msg, out)?;
            rest = after;
        }
        let done = stream.len() - rest.len();
        stream.drain(..done);
        self.session.torn = stream;
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Instant,
        msg: RawMessage<'_>,
        out: &mut Outbox,
    ) -> Result<(), SessionError> {
        if self.session.phase == Phase::Greeting {
            return self.session.greet(msg, &mut out.control);
        }
        let done = if msg.version() != self.session.version() && msg.kind() != MessageType::HELLO {
            Err(ErrorReason::BAD_VERSION)
        } else if msg.kind() == MessageType::EXPERIMENTER {
            Err(ErrorReason::BAD_EXPERIMENTER)
        } else {
            match Message::parse(msg) {
                Ok(message) => self.obey(now, message, msg, out),
                Err(error) => Err(ErrorReason::deserved(error, self.session.version())),
            }
        };
        if let Err(reason) = done {
            self.refuse(reason, msg, out);
        }
        Ok(())
    }

    /// Does what a message says.
    fn obey(
        &mut self,
        now: Instant,
        message: Message,
        msg: RawMessage<'_>,
        out: &mut Outbox,
    ) -> Result<(), ErrorReason> {
        let xid = msg.xid();
        if self.session.role == Role::SLAVE && changes(&message) {
            return Err(reasons::IS_SLAVE);
        }
        match message {
            Message::FlowMod(flow_mod) => return self.on_flow_mod(now, flow_mod, out),
            Message::PacketOut(packet_out) => return self.on_packet_out(now, packet_out, out),
            Message::GroupMod(group_mod) => return self.on_group_mod(now, &group_mod, out),
            Message::MeterMod(meter_mod) => return self.on_meter_mod(now, &meter_mod, out),
            Message::MultipartRequest(asked) => {
                if asked.flags.contains(MultipartFlags::MORE) {
                    return Err(reasons::MULTIPART_BUFFER_OVERFLOW);
                }
                return self.on_multipart(now, xid, asked.body, out);
            }
            Message::PortMod(port_mod) => {
                if self.ports.set(&port_mod, self.session.version())? {
                    self.tell_port(port_mod.port_no, out);
                }
            }
            Message::TableMod(table_mod) => self.on_table_mod(&table_mod)?,
            Message::EchoRequest { data } => _ = self.out(out).echo_reply(xid, &data),
            Message::BarrierRequest => self.out(out).barrier_reply(xid),
            Message::FeaturesRequest => {
                let features = self.features();
                self.say(xid, &Message::FeaturesReply(features), out);
                self.session.phase = Phase::Known;
            }
            Message::GetConfigRequest => {
                self.say(xid, &Message::GetConfigReply(self.session.config), out);
            }
            Message::SetConfig(config) => self.session.config = config,
            Message::RoleRequest(asked) => {
                let granted = self.session.take_role(&asked)?;
                self.say(xid, &Message::RoleReply(granted), out);
            }
            Message::GetAsyncRequest => {
                self.say(xid, &Message::GetAsyncReply(self.session.news.told()), out);
            }
            Message::SetAsync(asked) => self.session.news.set(&asked)?,
            Message::QueueGetConfigRequest(asked) => {
                if asked.port != PortNo::ANY && !self.ports.contains(asked.port) {
                    return Err(reasons::QUEUE_BAD_PORT);
                }
                let none = QueueGetConfigReply { port: asked.port, queues: vec![] };
                self.say(xid, &Message::QueueGetConfigReply(none), out);
            }
            Message::Hello(_) | Message::EchoReply { .. } | Message::Error(_) => {}
            _ => return Err(ErrorReason::BAD_TYPE),
        }
        Ok(())
    }

    /// Writes the message that answers `xid`. What the version cannot say, as a rule from a session of another, is not
    /// said.
    pub(super) fn say(&mut self, xid: u32, message: &Message, out: &mut Outbox) {
        let _ = message.encode(xid, &mut self.out(out));
    }

    /// Writes a message that nobody asked for.
    pub(super) fn tell(&mut self, message: &Message, out: &mut Outbox) {
        let xid = self.session.next_xid;
        self.session.next_xid = xid.wrapping_add(1);
        self.say(xid, message, out);
    }

    fn refuse(&mut self, reason: ErrorReason, msg: RawMessage<'_>, out: &mut Outbox) {
        let reason = reasons::in_words_of(self.session.version(), reason);
        self.counts.errors += 1;
        self.out(out).error(reason, msg);
    }

    /// Tells the controller how a port is.
    pub(super) fn tell_port(&mut self, port: PortNo, out: &mut Outbox) {
        let (reason, desc) = (PortReason::MODIFY, self.ports.desc(port, self.session.version()));
        if let Some(port) = desc.filter(|_| self.session.wants_port(reason)) {
            let status = PortStatus { reason, port };
            self.tell(&Message::PortStatus(status), out);
        }
    }

    /// Sets what becomes of packets that match nothing, in 1.1 and 1.2.
    fn on_table_mod(&mut self, asked: &TableMod) -> Result<(), ErrorReason> {
        let known = if self.session.version() < Version::V1_4 { 3 } else { 0 };
        if asked.config.0 & !known != 0 {
            return Err(reasons::BAD_TABLE_CONFIG);
        }
        let every = asked.table_id == sluice_openflow::FlowMod::TABLE_ALL;
        if !every && usize::from(asked.table_id) >= self.tables.len() {
            return Err(reasons::TABLE_MOD_BAD_TABLE);
        }
        for (table, id) in self.tables.iter_mut().zip(0u8..) {
            if every || id == asked.table_id {
                table.config = asked.config;
            }
        }
        Ok(())
    }

    fn features(&self) -> Features {
        let version = self.session.version();
        let capabilities =
            Capabilities::FLOW_STATS | Capabilities::TABLE_STATS | Capabilities::PORT_STATS;
        let groups = if version > Version::V1_0 {
            Capabilities::GROUP_STATS
        } else {
            Capabilities::ARP_MATCH_IP
        };
        Features {
            datapath_id: self.plan.datapath_id,
            n_buffers: u32::try_from(self.plan.buffers).unwrap_or(u32::MAX),
            n_tables: u8::try_from(self.tables.len()).unwrap_or(u8::MAX),
            auxiliary_id: 0,
            capabilities: capabilities | groups,
            actions: if version == Version::V1_0 { ActionBits(0xfff) } else { ActionBits(0) },
            ports: if Features::has_ports(version) {
                let ports = self.ports.descs(version).into_iter();
                ports.take(ports_max(version)).collect()
            } else {
                vec![]
            },
        }
    }

    /// Does what a `PACKET_OUT` says. §7.3.7.
    fn on_packet_out(
        &mut self,
        now: Instant,
        asked: sluice_openflow::model::PacketOut,
        out: &mut Outbox,
    ) -> Result<(), ErrorReason> {
        let in_port = asked.in_port().unwrap_or(PortNo::ANY);
        let reserved = [PortNo::ANY, PortNo::CONTROLLER, PortNo::LOCAL];
        if !reserved.contains(&in_port) && !self.ports.contains(in_port) {
            return Err(reasons::BAD_PORT_ASKED);
        }
        self.check_actions(&asked.actions, Stand::PacketOut)?;
        self.send_out(now, in_port, asked, out)?;
        self.counts.packet_outs += 1;
        Ok(())
    }
}

/// Ports that fit into one `FEATURES_REPLY`.
fn ports_max(version: Version) -> usize {
    let port_len = if version == Version::V1_0 { 48 } else { 64 };
    (usize::from(u16::MAX) - 32) / port_len
}

/// Whether only a controller with the say may send it. §6.3.6.
fn changes(message: &Message) -> bool {
    matches!(
        message,
        Message::FlowMod(_)
            | Message::PacketOut(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
    )
}
