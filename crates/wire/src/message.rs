//! One owned, version-neutral value for every message, for all who are not in a hurry.

use crate::flow_mod::Rule;
use crate::{
    Action, Command, ErrorCode, ErrorMsg, ErrorType, Features, FlowFlags, FlowMod, FlowModView,
    FlowRemoved, Frame, Hello, Inexpressible, Kind, Multipart, MultipartKind, Out, PacketIn,
    PacketOut, PacketOutView, PortNo, PortStatus, Reason, Result, RoleMsg, SwitchConfig, Version,
    Versions,
};

/// A message of any version, with everything it says but its transaction id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of the view or layout of the same name")]
pub enum Message {
    /// Opens a session; `None` without a bitmap.
    Hello(Version, Option<Versions>),
    /// A request failed.
    Error { kind: ErrorType, code: ErrorCode, data: Vec<u8> },
    /// Are you there?
    EchoRequest(Vec<u8>),
    /// Still here.
    EchoReply(Vec<u8>),
    /// Who are you?
    FeaturesRequest,
    /// Who I am.
    FeaturesReply(Features),
    /// How are you set?
    GetConfigRequest,
    /// How I am set.
    GetConfigReply(SwitchConfig),
    /// Be set so.
    SetConfig(SwitchConfig),
    /// A frame that came up.
    PacketIn {
        buffer_id: Option<u32>,
        in_port: PortNo,
        total_len: u16,
        reason: Reason,
        table_id: u8,
        cookie: u64,
        frame: Vec<u8>,
    },
    /// A rule is gone.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// A frame to send.
    PacketOut { buffer_id: Option<u32>, in_port: PortNo, actions: Vec<Action>, frame: Vec<u8> },
    /// A rule to add, change or delete.
    FlowMod {
        command: Command,
        table_id: u8,
        cookie: u64,
        cookie_mask: u64,
        idle_timeout_s: u16,
        hard_timeout_s: u16,
        priority: u16,
        buffer_id: Option<u32>,
        out_port: PortNo,
        flags: FlowFlags,
        rule: Rule,
    },
    /// Statistics or descriptions asked for.
    MultipartRequest { kind: MultipartKind, more: bool, body: Vec<u8> },
    /// Statistics or descriptions.
    MultipartReply { kind: MultipartKind, more: bool, body: Vec<u8> },
    /// Finish all before.
    BarrierRequest,
    /// All before is finished.
    BarrierReply,
    /// A role asked for.
    RoleRequest(RoleMsg),
    /// A role granted.
    RoleReply(RoleMsg),
    /// A kind we do not model, kept whole so that a recording loses nothing.
    Other(Kind, Vec<u8>),
}

impl Message {
    /// Reads `msg`.
    ///
    /// # Errors
    /// As the view or layout of its kind.
    ///
    /// # Cost
    /// Copies everything.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let body = || msg.body().to_vec();
        Ok(match msg.kind() {
            Kind::HELLO => {
                let hello = Hello::parse(msg)?;
                Self::Hello(hello.version, hello.versions)
            }
            Kind::ERROR => {
                let error = ErrorMsg::new(msg)?;
                Self::Error { kind: error.kind, code: error.code, data: error.data.to_vec() }
            }
            Kind::ECHO_REQUEST => Self::EchoRequest(body()),
            Kind::ECHO_REPLY => Self::EchoReply(body()),
            Kind::FEATURES_REQUEST => Self::FeaturesRequest,
            Kind::FEATURES_REPLY => Self::FeaturesReply(Features::parse(msg)?),
            Kind::GET_CONFIG_REQUEST => Self::GetConfigRequest,
            Kind::GET_CONFIG_REPLY => Self::GetConfigReply(SwitchConfig::parse(msg)?),
            Kind::SET_CONFIG => Self::SetConfig(SwitchConfig::parse(msg)?),
            Kind::PACKET_IN => PacketIn::new(msg)?.into(),
            Kind::FLOW_REMOVED => Self::FlowRemoved(FlowRemoved::parse(msg)?),
            Kind::PORT_STATUS => Self::PortStatus(PortStatus::parse(msg)?),
            Kind::PACKET_OUT => {
                let p = PacketOutView::new(msg)?;
                let (actions, frame) = (p.actions()?, p.frame.to_vec());
                Self::PacketOut { buffer_id: p.buffer_id, in_port: p.in_port, actions, frame }
            }
            Kind::FLOW_MOD => Self::parse_flow_mod(msg)?,
            Kind::MULTIPART_REQUEST => {
                let Multipart { kind, more, body } = Multipart::new(msg)?;
                Self::MultipartRequest { kind, more, body: body.to_vec() }
            }
            Kind::MULTIPART_REPLY => {
                let Multipart { kind, more, body } = Multipart::new(msg)?;
                Self::MultipartReply { kind, more, body: body.to_vec() }
            }
            Kind::BARRIER_REQUEST => Self::BarrierRequest,
            Kind::BARRIER_REPLY => Self::BarrierReply,
            Kind::ROLE_REQUEST => Self::RoleRequest(RoleMsg::parse(msg)?),
            Kind::ROLE_REPLY => Self::RoleReply(RoleMsg::parse(msg)?),
            kind => Self::Other(kind, body()),
        })
    }

    fn parse_flow_mod(msg: Frame<'_>) -> Result<Self> {
        let view = FlowModView::new(msg)?;
        let rule = view.rule()?;
        let f = view.to_flow_mod(&rule);
        Ok(Self::FlowMod {
            command: f.command,
            table_id: f.table_id,
            cookie: f.cookie,
            cookie_mask: f.cookie_mask,
            idle_timeout_s: f.idle_timeout_s,
            hard_timeout_s: f.hard_timeout_s,
            priority: f.priority,
            buffer_id: f.buffer_id,
            out_port: f.out_port,
            flags: f.flags,
            rule,
        })
    }

    /// Writes the message with the transaction id `xid`. A `HELLO` keeps its own version.
    ///
    /// # Errors
    /// Names what the version cannot say; nothing is written then.
    pub fn emit(&self, xid: u32, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        let (mut at, start) = (xid, out.len());
        let mut out = out.numbered(&mut at);
        match self {
            &Self::Hello(version, versions) => _ = out.hello_exact(Hello { version, versions }),
            Self::Error { kind, code, data } => out.error_with(xid, *kind, *code, data)?,
            Self::EchoRequest(payload) => out.raw(Kind::ECHO_REQUEST, xid, payload)?,
            Self::EchoReply(payload) => out.echo_reply(xid, payload)?,
            Self::FeaturesRequest => _ = out.features_request(),
            Self::FeaturesReply(features) => out.features_reply(xid, features)?,
            Self::GetConfigRequest => _ = out.get_config_request(),
            Self::GetConfigReply(config) => out.get_config_reply(xid, *config),
            Self::SetConfig(config) => _ = out.set_config(*config),
            Self::FlowRemoved(removed) => removed.emit(&mut out)?,
            Self::PortStatus(status) => status.emit(&mut out)?,
            Self::MultipartRequest { kind, more, body } => {
                out.multipart(
                    Kind::MULTIPART_REQUEST,
                    xid,
                    Multipart { kind: *kind, more: *more, body },
                )?;
            }
            Self::MultipartReply { kind, more, body } => {
                out.multipart(
                    Kind::MULTIPART_REPLY,
                    xid,
                    Multipart { kind: *kind, more: *more, body },
                )?;
            }
            Self::BarrierRequest => _ = out.barrier_request(),
            Self::BarrierReply => out.barrier_reply(xid),
            Self::RoleRequest(role) => _ = out.role_request(*role)?,
            Self::RoleReply(role) => out.role_reply(xid, *role)?,
            Self::Other(kind, body) => out.raw(*kind, xid, body)?,
            Self::PacketIn { .. } | Self::PacketOut { .. } | Self::FlowMod { .. } => {
                self.emit_bulk(&mut out)?;
            }
        }
        // Asynchronous messages number themselves 0.
        out.renumber(start, xid);
        Ok(())
    }

    /// The kinds for which there is a borrowed form.
    fn emit_bulk(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        match *self {
            Self::PacketIn {
                buffer_id,
                in_port,
                total_len,
                reason,
                table_id,
                cookie,
                ref frame,
            } => PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame }
                .emit(out),
            Self::PacketOut { buffer_id, in_port, ref actions, ref frame } => {
                out.packet_out(&PacketOut { buffer_id, in_port, actions, frame }).map(drop)
            }
            Self::FlowMod {
                command,
                table_id,
                cookie,
                cookie_mask,
                idle_timeout_s,
                hard_timeout_s,
                priority,
                buffer_id,
                out_port,
                flags,
                ref rule,
            } => out
                .flow_mod(&FlowMod {
                    command,
                    table_id,
                    cookie,
                    cookie_mask,
                    idle_timeout_s,
                    hard_timeout_s,
                    priority,
                    buffer_id,
                    out_port,
                    flags,
                    fields: &rule.matching.fields,
                    actions: &rule.actions,
                    goto_table: rule.goto_table,
                })
                .map(drop),
            _ => Ok(()),
        }
    }
}

impl From<PacketIn<'_>> for Message {
    fn from(p: PacketIn<'_>) -> Self {
        Self::PacketIn {
            buffer_id: p.buffer_id,
            in_port: p.in_port,
            total_len: p.total_len,
            reason: p.reason,
            table_id: p.table_id,
            cookie: p.cookie,
            frame: p.frame.to_vec(),
        }
    }
}
