//! The control connection: version negotiation and message handling. §6.3, §7.1.

use std::time::Instant;

use sluice_openflow::{
    ActionBits, Capabilities, Encoder, ErrorReason, FlowRemovedReason, Hello, Message, MessageType,
    MultipartFlags, PacketInReason, PortNo, PortReason, PortStatus, QueueGetConfigReply,
    RawMessage, Role, RoleRequest, SwitchConfig, SwitchFeatures, TableMod, Version, Versions,
    split_message,
};
use sluice_proto::SessionError;

use super::async_filter::AsyncFilter;
use super::config::EmulatedSwitchConfig;
use super::validation::ActionContext;
use super::{EmulatedSwitch, SwitchOutput, error_reasons};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Disconnected,
    HelloSent,
    VersionAgreed,
    Identified,
}

/// State that lasts as long as one connection.
#[derive(Debug)]
pub(super) struct ControlSession {
    state: SessionState,
    offered: Versions,
    version: Version,
    next_xid: u32,
    /// The start of an incomplete message; at most 65 535 bytes between two calls.
    partial: Vec<u8>,
    pub(super) config: SwitchConfig,
    role: Role,
    async_filter: AsyncFilter,
    generation_id: Option<u64>,
}

impl ControlSession {
    /// A closed session.
    pub(super) fn new(config: &EmulatedSwitchConfig) -> Self {
        let offered = config.versions.both(Versions::SUPPORTED);
        Self {
            state: SessionState::Disconnected,
            offered,
            version: offered.highest().unwrap_or(Version::V1_0),
            next_xid: 1,
            partial: vec![],
            config: SwitchConfig { miss_send_len: config.miss_send_len, ..SwitchConfig::default() },
            role: Role::EQUAL,
            async_filter: AsyncFilter::new(Version::V1_0),
            generation_id: None,
        }
    }

    /// Resets the session. The version is kept, since flow entries were added in it.
    pub(super) fn reset(&mut self, config: &EmulatedSwitchConfig) {
        *self = Self { version: self.version, ..Self::new(config) };
    }

    /// Sends `HELLO`.
    pub(super) fn send_hello(&mut self, tx: &mut Vec<u8>) {
        self.state = SessionState::HelloSent;
        let offered = self.offered;
        self.encoder(tx).hello(offered);
    }

    pub(super) fn encoder<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.version, &mut self.next_xid)
    }

    /// Negotiates the version from the first message.
    fn negotiate_version(
        &mut self,
        msg: RawMessage<'_>,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        match msg.kind() {
            MessageType::HELLO => {}
            MessageType::ERROR => {
                let error =
                    sluice_openflow::view::ErrorMsg::new(msg).map_err(SessionError::Malformed)?;
                return Err(SessionError::HandshakeRejected(error.reason));
            }
            kind => return Err(SessionError::UnexpectedMessage(kind)),
        }
        // Only the header of a later version is known.
        let peer_versions =
            Hello::parse_without_padding(msg).ok().and_then(|hello| hello.versions());
        let Some(version) = self.offered.negotiate(msg.version(), peer_versions) else {
            self.version = self.version.min(msg.version()).max(Version::V1_0);
            let reason = ErrorReason::INCOMPATIBLE;
            // The text always fits.
            let _ = self.encoder(tx).error_with(msg.xid(), reason, b"no common version");
            return Err(SessionError::NoCommonVersion(msg.version()));
        };
        (self.version, self.state) = (version, SessionState::VersionAgreed);
        self.async_filter = AsyncFilter::new(version);
        Ok(())
    }

    /// The negotiated version; before that, the highest one offered.
    pub(super) const fn version(&self) -> Version {
        self.version
    }

    pub(super) fn negotiated_version(&self) -> Option<Version> {
        matches!(self.state, SessionState::VersionAgreed | SessionState::Identified)
            .then_some(self.version)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state == SessionState::Identified
    }

    /// Whether packet-ins are sent for this reason.
    pub(super) fn wants_packet(&self, reason: PacketInReason) -> bool {
        self.is_connected() && self.async_filter.wants_packet(self.role, reason)
    }

    /// Whether `FLOW_REMOVED` is sent for this reason.
    pub(super) fn wants_removed(&self, reason: FlowRemovedReason) -> bool {
        self.is_connected() && self.async_filter.wants_removed(self.role, reason)
    }

    fn wants_port(&self, reason: PortReason) -> bool {
        self.is_connected() && self.async_filter.wants_port(self.role, reason)
    }

    /// Sets the controller's role. §6.3.6.
    ///
    /// # Errors
    /// `BAD_ROLE`, or `STALE` for a generation id older than the last one.
    fn set_role(&mut self, request: &RoleRequest) -> Result<RoleRequest, ErrorReason> {
        match request.role {
            Role::NOCHANGE => {}
            Role::EQUAL => self.role = Role::EQUAL,
            Role::MASTER | Role::SLAVE => {
                let distance = |old: u64| request.generation_id.wrapping_sub(old);
                if self.generation_id.is_some_and(|old| distance(old) > u64::MAX / 2) {
                    return Err(error_reasons::STALE);
                }
                (self.role, self.generation_id) = (request.role, Some(request.generation_id));
            }
            _ => return Err(error_reasons::BAD_ROLE),
        }
        let generation_id = self.generation_id.unwrap_or(u64::MAX);
        Ok(RoleRequest { role: self.role, generation_id, short_id: request.short_id })
    }
}

impl EmulatedSwitch {
    /// Splits the stream into messages and handles them.
    pub(super) fn process_bytes(
        &mut self,
        now: Instant,
        bytes: &[u8],
        out: &mut SwitchOutput,
    ) -> Result<(), SessionError> {
        self.ports.record_start(now);
        if self.session.state == SessionState::Disconnected {
            return Ok(());
        }
        if self.session.partial.is_empty() {
            let rest = self.process_messages(now, bytes, out)?;
            self.session.partial.extend_from_slice(rest);
            return Ok(());
        }
        let mut stream = std::mem::take(&mut self.session.partial);
        stream.extend_from_slice(bytes);
        let rest = self.process_messages(now, &stream, out)?.len();
        stream.drain(..stream.len() - rest);
        self.session.partial = stream;
        Ok(())
    }

    /// Handles all complete messages in `bytes`; returns the rest.
    fn process_messages<'b>(
        &mut self,
        now: Instant,
        bytes: &'b [u8],
        out: &mut SwitchOutput,
    ) -> Result<&'b [u8], SessionError> {
        let mut rest = bytes;
        while let Some((msg, after)) = split_message(rest).map_err(SessionError::Malformed)? {
            self.on_message(now, msg, out)?;
            rest = after;
        }
        Ok(rest)
    }

    fn on_message(
        &mut self,
        now: Instant,
        msg: RawMessage<'_>,
        out: &mut SwitchOutput,
    ) -> Result<(), SessionError> {
        if self.session.state == SessionState::HelloSent {
            return self.session.negotiate_version(msg, &mut out.control);
        }
        if msg.version() == self.session.version()
            && self.session.role != Role::SLAVE
            && (self.ignore_flow_mod(msg) || self.add_by_form(now, msg))
        {
            return Ok(());
        }
        let result = if msg.version() != self.session.version() && msg.kind() != MessageType::HELLO
        {
            Err(ErrorReason::BAD_VERSION)
        } else if msg.kind() == MessageType::EXPERIMENTER {
            Err(ErrorReason::BAD_EXPERIMENTER)
        } else {
            match Message::parse_raw(msg) {
                Ok(message) => self.handle(now, message, msg, out),
                Err(error) => Err(ErrorReason::for_parse_error(error, self.session.version())),
            }
        };
        if let Err(reason) = result {
            self.send_error(reason, msg, out);
        }
        Ok(())
    }

    /// Executes a message.
    fn handle(
        &mut self,
        now: Instant,
        message: Message,
        msg: RawMessage<'_>,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let xid = msg.xid();
        if self.session.role == Role::SLAVE && requires_write_access(&message) {
            return Err(error_reasons::IS_SLAVE);
        }
        if changes_forwarding(&message) {
            self.counters.changes += 1;
            if !matches!(message, Message::FlowMod(_)) {
                self.flow_mod_cache.clear();
            }
        }
        match message {
            Message::FlowMod(flow_mod) => return self.on_flow_mod(now, flow_mod, Some(msg), out),
            Message::PacketOut(packet_out) => return self.on_packet_out(now, packet_out, out),
            Message::GroupMod(group_mod) => return self.on_group_mod(now, &group_mod, out),
            Message::MeterMod(meter_mod) => return self.on_meter_mod(now, &meter_mod, out),
            Message::MultipartRequest(request) => {
                if request.flags.contains(MultipartFlags::MORE) {
                    return Err(error_reasons::MULTIPART_BUFFER_OVERFLOW);
                }
                return self.on_multipart(now, xid, request.body, out);
            }
            Message::PortMod(port_mod) => {
                if self.ports.apply_port_mod(&port_mod, self.session.version())? {
                    self.send_port_status(port_mod.port_no, out);
                }
            }
            Message::TableMod(table_mod) => self.on_table_mod(&table_mod)?,
            Message::EchoRequest { data } => _ = self.encoder(out).echo_reply(xid, &data),
            Message::BarrierRequest => self.encoder(out).barrier_reply(xid),
            Message::FeaturesRequest => {
                let features = self.features();
                self.send_reply(xid, &Message::FeaturesReply(features), out);
                self.session.state = SessionState::Identified;
            }
            Message::GetConfigRequest => {
                self.send_reply(xid, &Message::GetConfigReply(self.session.config), out);
            }
            Message::SetConfig(config) => self.session.config = config,
            Message::RoleRequest(request) => {
                let granted = self.session.set_role(&request)?;
                self.send_reply(xid, &Message::RoleReply(granted), out);
            }
            Message::GetAsyncRequest => {
                self.send_reply(
                    xid,
                    &Message::GetAsyncReply(self.session.async_filter.to_config()),
                    out,
                );
            }
            Message::SetAsync(request) => self.session.async_filter.apply(&request)?,
            Message::QueueGetConfigRequest(request) => {
                if request.port != PortNo::ANY && !self.ports.contains(request.port) {
                    return Err(error_reasons::QUEUE_BAD_PORT);
                }
                let reply = QueueGetConfigReply { port: request.port, queues: vec![] };
                self.send_reply(xid, &Message::QueueGetConfigReply(reply), out);
            }
            Message::Error(error) => out.errors.push(error.reason),
            Message::Hello(_) | Message::EchoReply { .. } => {}
            _ => return Err(ErrorReason::BAD_TYPE),
        }
        Ok(())
    }

    /// Sends a reply to `xid`. A message that the version cannot express, such as a flow entry added in another version,
    /// is not sent.
    pub(super) fn send_reply(&mut self, xid: u32, message: &Message, out: &mut SwitchOutput) {
        let _ = message.encode(xid, &mut self.encoder(out));
    }

    /// Sends an asynchronous message.
    pub(super) fn send_async(&mut self, message: &Message, out: &mut SwitchOutput) {
        let xid = self.session.next_xid;
        self.session.next_xid = xid.wrapping_add(1);
        self.send_reply(xid, message, out);
    }

    fn send_error(&mut self, reason: ErrorReason, msg: RawMessage<'_>, out: &mut SwitchOutput) {
        let reason = error_reasons::for_version(self.session.version(), reason);
        self.counters.errors += 1;
        self.encoder(out).error(reason, msg);
    }

    /// Sends `PORT_STATUS`.
    pub(super) fn send_port_status(&mut self, port: PortNo, out: &mut SwitchOutput) {
        let (reason, desc) = (PortReason::MODIFY, self.ports.desc(port, self.session.version()));
        if let Some(port) = desc.filter(|_| self.session.wants_port(reason)) {
            let status = PortStatus { reason, port };
            self.send_async(&Message::PortStatus(status), out);
        }
    }

    /// Sets what happens to table misses, in 1.1 and 1.2.
    fn on_table_mod(&mut self, table_mod: &TableMod) -> Result<(), ErrorReason> {
        let supported = if self.session.version() < Version::V1_4 { 3 } else { 0 };
        if table_mod.config.0 & !supported != 0 {
            return Err(error_reasons::BAD_TABLE_CONFIG);
        }
        let is_all = table_mod.table_id == sluice_openflow::FlowMod::TABLE_ALL;
        if !is_all && usize::from(table_mod.table_id) >= self.tables.len() {
            return Err(error_reasons::TABLE_MOD_BAD_TABLE);
        }
        for (table, id) in self.tables.iter_mut().zip(0u8..) {
            if is_all || id == table_mod.table_id {
                table.config = table_mod.config;
            }
        }
        Ok(())
    }

    fn features(&self) -> SwitchFeatures {
        let version = self.session.version();
        let capabilities =
            Capabilities::FLOW_STATS | Capabilities::TABLE_STATS | Capabilities::PORT_STATS;
        let groups = if version > Version::V1_0 {
            Capabilities::GROUP_STATS
        } else {
            Capabilities::ARP_MATCH_IP
        };
        SwitchFeatures {
            datapath_id: self.config.datapath_id,
            n_buffers: u32::try_from(self.config.n_buffers).unwrap_or(u32::MAX),
            n_tables: u8::try_from(self.tables.len()).unwrap_or(u8::MAX),
            auxiliary_id: 0,
            capabilities: capabilities | groups,
            actions: if version == Version::V1_0 { ActionBits(0xfff) } else { ActionBits(0) },
            ports: if SwitchFeatures::has_ports(version) {
                let ports = self.ports.descs(version).into_iter();
                ports.take(ports_max(version)).collect()
            } else {
                vec![]
            },
        }
    }

    /// Executes a `PACKET_OUT`. §7.3.7.
    fn on_packet_out(
        &mut self,
        now: Instant,
        packet_out: sluice_openflow::PacketOut,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let in_port = packet_out.in_port();
        let reserved = [PortNo::ANY, PortNo::CONTROLLER, PortNo::LOCAL];
        if !reserved.contains(&in_port) && !self.ports.contains(in_port) {
            return Err(error_reasons::BAD_REQUESTED_PORT);
        }
        self.check_actions(&packet_out.actions, ActionContext::PacketOut)?;
        self.execute_packet_out(now, in_port, packet_out, out)?;
        self.counters.packet_outs += 1;
        Ok(())
    }
}

/// Maximum number of ports that fit into a `FEATURES_REPLY`.
fn ports_max(version: Version) -> usize {
    let port_len = if version == Version::V1_0 { 48 } else { 64 };
    (usize::from(u16::MAX) - 32) / port_len
}

/// Whether a slave may not send this message. §6.3.6.
fn requires_write_access(message: &Message) -> bool {
    matches!(message, Message::PacketOut(_)) || changes_forwarding(message)
}

/// Whether this message can change where packets go.
fn changes_forwarding(message: &Message) -> bool {
    matches!(
        message,
        Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
    )
}
