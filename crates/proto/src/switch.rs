//! The switch's end of one connection, for switches that the bench and the tests emulate.

use sluice_openflow::view::{ErrorMsg, FlowMod, Multipart, PacketOut};
use sluice_openflow::{
    ActionBits, AggregateStats, Capabilities, DatapathId, Encoder, ErrorReason, EthernetPort,
    GroupFeatures, Hello, MacAddr, Message, MessageType, MeterFeatureFlags, MeterFeatures,
    MultipartFlags, MultipartReply, MultipartType, Port, PortFeatures, PortNo, PortProp,
    RawMessage, Stat, Stats, SwitchConfig, SwitchDesc, SwitchFeatures, Version, Versions,
};

use crate::SessionError;

/// What an emulated switch reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchProfile {
    /// Its datapath id.
    pub datapath_id: DatapathId,
    /// The one OpenFlow version that it supports.
    pub version: Version,
    /// Number of ports; they are numbered from 1.
    pub n_ports: u16,
    /// Number of packets that it claims to buffer.
    pub n_buffers: u32,
}

/// The switch's end of one OpenFlow connection (§6.3), as a state machine without I/O.
///
/// It answers the requests of a controller from its [`SwitchProfile`] and passes flow entries and packet-outs to its
/// owner. It has no flow table: replies about tables, groups and meters are empty.
///
/// ```text
///      open(): send HELLO
///            │
///            ▼
///   ┌──────────────────┐ HELLO: a common version, or the session ends
///   │  awaiting HELLO  │
///   └──────────────────┘
///            │
///            ▼
///   ┌──────────────────┐ FEATURES_REQUEST: send FEATURES_REPLY; Ready
///   │     awaiting     │
///   │ FEATURES_REQUEST │
///   └──────────────────┘
///            │
///            ▼
///   ┌──────────────────┐ any request: send the reply
///   │      ready       │
///   └──────────────────┘
/// ```
#[derive(Debug)]
pub struct SwitchSession {
    profile: SwitchProfile,
    state: State,
    next_xid: u32,
    config: SwitchConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitingHello,
    AwaitingFeaturesRequest,
    Ready,
}

/// What a message of a controller means to the owner of the session.
#[derive(Debug)]
pub enum SwitchEvent<'a> {
    /// The controller asked for the features: the switch may send packet-ins from now on.
    Ready,
    /// A change of the flow table.
    FlowMod(FlowMod<'a>),
    /// A packet to send.
    PacketOut(PacketOut<'a>),
    /// The controller rejected a message.
    Error(ErrorMsg<'a>),
    /// The session has handled the message; nothing is left to do.
    Handled,
}

impl SwitchSession {
    /// Starts a session: appends `HELLO` to `tx`.
    pub fn open(profile: SwitchProfile, tx: &mut Vec<u8>) -> Self {
        let config = SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() };
        let mut session = Self { profile, state: State::AwaitingHello, next_xid: 1, config };
        session.encoder(tx).hello(Versions::of(&[profile.version]));
        session
    }

    /// An encoder that appends messages to `tx` with the version and the next transaction ids of this session.
    pub fn encoder<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.profile.version, &mut self.next_xid)
    }

    /// Handles one message of the controller; appends responses to `tx`.
    ///
    /// # Errors
    /// The session must end.
    #[inline]
    pub fn on_message<'a>(
        &mut self,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<SwitchEvent<'a>, SessionError> {
        match msg.kind() {
            MessageType::FLOW_MOD => {
                FlowMod::new(msg).map(SwitchEvent::FlowMod).map_err(SessionError::Malformed)
            }
            MessageType::PACKET_OUT => {
                PacketOut::new(msg).map(SwitchEvent::PacketOut).map_err(SessionError::Malformed)
            }
            _ => self.on_other_message(msg, tx),
        }
    }

    fn on_other_message<'a>(
        &mut self,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<SwitchEvent<'a>, SessionError> {
        if self.state == State::AwaitingHello {
            return self.on_hello(msg);
        }
        let (xid, config, features) =
            (msg.xid(), self.config, msg.kind() == MessageType::FEATURES_REQUEST);
        if features {
            let features = self.features();
            // Cannot fail as long as the owner asks for no more ports than fit into a message.
            let _ = self.encoder(tx).features_reply(xid, &features);
            let was_ready = std::mem::replace(&mut self.state, State::Ready) == State::Ready;
            return Ok(if was_ready { SwitchEvent::Handled } else { SwitchEvent::Ready });
        }
        let mut out = self.encoder(tx);
        match msg.kind() {
            MessageType::ERROR => {
                return ErrorMsg::new(msg).map(SwitchEvent::Error).map_err(SessionError::Malformed);
            }
            MessageType::ECHO_REQUEST => _ = out.echo_reply(xid, msg.body()),
            MessageType::BARRIER_REQUEST => out.barrier_reply(xid),
            MessageType::GET_CONFIG_REQUEST => _ = out.get_config_reply(xid, config),
            MessageType::SET_CONFIG => {
                self.config = SwitchConfig::parse_raw(msg).map_err(SessionError::Malformed)?;
            }
            MessageType::MULTIPART_REQUEST => self.on_multipart_request(msg, tx)?,
            MessageType::ROLE_REQUEST => {
                _ = out.raw_message(MessageType::ROLE_REPLY, xid, msg.body());
            }
            MessageType::QUEUE_GET_CONFIG_REQUEST => {
                _ = out.raw_message(MessageType::QUEUE_GET_CONFIG_REPLY, xid, msg.body());
            }
            MessageType::GET_ASYNC_REQUEST => {
                // Six empty masks; since 1.4 an empty list of properties.
                let masks: &[u8] = if out.version() < Version::V1_4 { &[0; 24] } else { &[] };
                _ = out.raw_message(MessageType::GET_ASYNC_REPLY, xid, masks);
            }
            MessageType::HELLO
            | MessageType::ECHO_REPLY
            | MessageType::PORT_MOD
            | MessageType::GROUP_MOD
            | MessageType::TABLE_MOD
            | MessageType::METER_MOD
            | MessageType::SET_ASYNC => {}
            MessageType::EXPERIMENTER => out.error(ErrorReason::BAD_EXPERIMENTER, msg),
            _ => out.error(ErrorReason::BAD_TYPE, msg),
        }
        Ok(SwitchEvent::Handled)
    }

    fn on_hello<'a>(&mut self, msg: RawMessage<'a>) -> Result<SwitchEvent<'a>, SessionError> {
        match msg.kind() {
            MessageType::HELLO => {
                let hello = Hello::parse_without_padding(msg).map_err(SessionError::Malformed)?;
                let ours = Versions::of(&[self.profile.version]);
                let agreed = ours.negotiate(msg.version(), hello.versions());
                agreed.ok_or_else(|| SessionError::NoCommonVersion(msg.version()))?;
                self.state = State::AwaitingFeaturesRequest;
                Ok(SwitchEvent::Handled)
            }
            MessageType::ERROR => {
                let error = ErrorMsg::new(msg).map_err(SessionError::Malformed)?;
                Err(SessionError::HandshakeRejected(error.reason))
            }
            kind => Err(SessionError::UnexpectedMessage(kind)),
        }
    }

    /// Answers a multipart request.
    fn on_multipart_request(
        &mut self,
        msg: RawMessage<'_>,
        tx: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let kind = Multipart::new(msg).map_err(SessionError::Malformed)?.kind;
        let (xid, ports, body) = (msg.xid(), self.ports(), self.multipart_reply(kind));
        let mut out = self.encoder(tx);
        let is_answered = match body {
            _ if kind == MultipartType::PORT_DESC => out.port_desc_reply(xid, &ports).is_ok(),
            Some(body) => {
                let flags = MultipartFlags::default();
                let reply = Message::MultipartReply(sluice_openflow::Multipart { flags, body });
                reply.encode(xid, &mut out).is_ok()
            }
            None => false,
        };
        if !is_answered {
            // Unknown, or not in this version.
            out.error(ErrorReason::BAD_MULTIPART, msg);
        }
        Ok(())
    }

    /// The reply to a request of this type; the lists in it are empty.
    fn multipart_reply(&self, kind: MultipartType) -> Option<MultipartReply> {
        let version = self.profile.version;
        Some(match kind {
            MultipartType::DESC => MultipartReply::Desc(Box::new(SwitchDesc {
                mfr: "Sluice".into(),
                hw: "none".into(),
                sw: env!("CARGO_PKG_VERSION").into(),
                serial: self.profile.datapath_id.to_string().as_str().into(),
                dp: "emulated switch".into(),
            })),
            MultipartType::FLOW => MultipartReply::FlowDesc { flows: vec![] },
            MultipartType::AGGREGATE => {
                let none = [Stat::PacketCount(0), Stat::ByteCount(0), Stat::FlowCount(0)];
                MultipartReply::AggregateStats(AggregateStats {
                    stats: Stats { fields: none.into() },
                })
            }
            MultipartType::TABLE => MultipartReply::TableStats { tables: vec![] },
            MultipartType::PORT_STATS => MultipartReply::PortStats { ports: vec![] },
            MultipartType(5) => MultipartReply::QueueStats { queues: vec![] },
            // In 1.0, Nicira extensions have these numbers.
            MultipartType(6) if version >= Version::V1_1 => {
                MultipartReply::GroupStats { groups: vec![] }
            }
            MultipartType(7) if version >= Version::V1_1 => {
                MultipartReply::GroupDesc { groups: vec![] }
            }
            MultipartType(8) if version >= Version::V1_2 => {
                MultipartReply::GroupFeatures(GroupFeatures::default())
            }
            MultipartType(9) => MultipartReply::MeterStats { meters: vec![] },
            MultipartType(10) => MultipartReply::MeterDesc { meters: vec![] },
            MultipartType(11) => MultipartReply::MeterFeatures(MeterFeatures {
                features: (version >= Version::V1_5).then(MeterFeatureFlags::default),
                ..MeterFeatures::default()
            }),
            MultipartType(17) => MultipartReply::FlowStats { flows: vec![] },
            _ => return None,
        })
    }

    fn features(&self) -> SwitchFeatures {
        SwitchFeatures {
            datapath_id: self.profile.datapath_id,
            n_buffers: self.profile.n_buffers,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS,
            actions: if self.profile.version == Version::V1_0 {
                ActionBits::OUTPUT
            } else {
                ActionBits::default()
            },
            ports: if SwitchFeatures::has_ports(self.profile.version) {
                self.ports()
            } else {
                vec![]
            },
        }
    }

    fn ports(&self) -> Vec<Port> {
        let id = self.profile.datapath_id.0;
        let curr = PortFeatures::SPEED_10GB_FD | PortFeatures::COPPER;
        let (curr_speed, max_speed) = match self.profile.version {
            Version::V1_0 => (0, 0),
            _ => (10_000_000, 10_000_000),
        };
        let ethernet = EthernetPort { curr, curr_speed, max_speed, ..EthernetPort::default() };
        let port = |n: u16| {
            let addr = 0x0600_0000_0000 | (id & 0xff_ffff) << 16 | u64::from(n);
            Port {
                port_no: PortNo(n.into()),
                hw_addr: MacAddr::from_u64(addr),
                name: format!("port{n}").as_str().into(),
                properties: vec![PortProp::Ethernet(ethernet.clone())],
                ..Port::default()
            }
        };
        (1..=self.profile.n_ports).map(port).collect()
    }

    /// Whether the controller has asked for the features.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// What the switch reports about itself.
    pub fn profile(&self) -> &SwitchProfile {
        &self.profile
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sluice_openflow::split_message;

    use super::*;
    use crate::{Config, ControllerEvent, ControllerSession};

    /// Runs the handshake of two sessions; returns the features that the controller received.
    fn handshake(version: Version, n_ports: u16) -> SwitchFeatures {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut to_switch, mut to_controller) = (vec![], vec![]);
        let cfg = Config::default();
        let mut session = ControllerSession::open(&cfg, 1, now, &mut to_switch);
        let datapath_id = DatapathId(7);
        let profile = SwitchProfile { datapath_id, version, n_ports, n_buffers: 256 };
        let mut switch = SwitchSession::open(profile, &mut to_controller);
        for _ in 0..5 {
            let mut received = std::mem::take(&mut to_controller);
            while let Some((msg, rest)) = split_message(&received).unwrap() {
                if let Some(ControllerEvent::SwitchConnected(features)) =
                    session.on_message(&cfg, msg, &mut to_switch).unwrap()
                {
                    assert!(session.is_up() && switch.is_ready());
                    assert_eq!(session.version(), version);
                    return *features;
                }
                received = rest.to_vec();
            }
            let mut received = std::mem::take(&mut to_switch);
            while let Some((msg, rest)) = split_message(&received).unwrap() {
                switch.on_message(msg, &mut to_controller).unwrap();
                received = rest.to_vec();
            }
        }
        panic!("the handshake did not complete");
    }

    #[test]
    fn the_handshake_completes_with_all_ports_in_every_version() {
        for version in Versions::SUPPORTED.iter() {
            // Up to 1.2 the ports must fit into the FEATURES_REPLY: 48 bytes each in 1.0, then 64.
            let n_ports = match version {
                Version::V1_0 => (u16::MAX - 32) / 48,
                Version::V1_1 | Version::V1_2 => (u16::MAX - 32) / 64,
                _ => 1500,
            };
            let features = handshake(version, n_ports);
            assert_eq!(features.datapath_id, DatapathId(7));
            assert_eq!(features.ports.len(), usize::from(n_ports), "{version}");
            assert_eq!(features.ports[1].name(), "port2");
        }
    }

    /// Every reply can be parsed, and requests that a version does not have are rejected.
    #[test]
    fn every_multipart_request_of_a_version_is_answered() {
        for version in Versions::SUPPORTED.iter() {
            let profile =
                SwitchProfile { datapath_id: DatapathId(7), version, n_ports: 4, n_buffers: 0 };
            let (mut tx, mut requests, mut xid) = (vec![], vec![], 1);
            let mut switch = SwitchSession::open(profile, &mut tx);
            let mut out = Encoder::new(&mut requests, version, &mut xid);
            out.hello(Versions::of(&[version]));
            out.features_request();
            for kind in (0..20).map(MultipartType) {
                out.multipart_request(kind, &[]).unwrap();
            }
            let mut rest = &*requests;
            while let Some((msg, after)) = split_message(rest).unwrap() {
                switch.on_message(msg, &mut tx).unwrap();
                rest = after;
            }
            let (mut rest, mut answered) = (&*tx, vec![]);
            while let Some((msg, after)) = split_message(rest).unwrap() {
                let reply = Message::parse_raw(msg).unwrap_or_else(|e| panic!("{version}: {e}"));
                if let Message::MultipartReply(_) = reply {
                    answered.push(Multipart::new(msg).unwrap().kind.0);
                }
                rest = after;
            }
            let expected: Vec<u16> = match version {
                Version::V1_0 => (0..=5).collect(),
                Version::V1_1 => (0..=7).collect(),
                Version::V1_2 => (0..=8).collect(),
                Version::V1_5 => (0..=11).chain([13, 17]).collect(),
                _ => (0..=11).chain([13]).collect(),
            };
            assert_eq!(answered, expected, "{version}");
        }
    }
}
