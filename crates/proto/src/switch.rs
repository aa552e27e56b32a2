//! The switch's end of one connection, as the bench and model switches play it.

use sluice_openflow::view::{ErrorMsg, FlowMod, Multipart, PacketOut};
use sluice_openflow::{
    ActionBits, AggregateStats, Capabilities, DatapathId, Encoder, ErrorReason, EthernetPort,
    GroupFeatures, Hello, MacAddr, Message, MessageType, MeterFeatureFlags, MeterFeatures,
    MultipartFlags, MultipartReply, MultipartType, Port, PortFeatures, PortNo, PortProp,
    RawMessage, Stat, Stats, SwitchConfig, SwitchDesc, SwitchFeatures, Version, Versions,
};

use crate::SessionError;

/// What a switch says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchProfile {
    /// Its identity.
    pub datapath_id: DatapathId,
    /// The one version it speaks.
    pub version: Version,
    /// Its ports, numbered from 1.
    pub n_ports: u16,
    /// Frames it says it can keep.
    pub n_buffers: u32,
}

/// The switch's end of one connection. §6.3.
///
/// ```text
///            HELLO           FEATURES_REQUEST
///  Greeting ───────▶ Waiting ────────────────▶ Known
/// ```
///
/// It answers what a controller asks, and hands rules and frames to its owner.
#[derive(Debug)]
pub struct SwitchSession {
    plan: SwitchProfile,
    phase: Phase,
    next_xid: u32,
    config: SwitchConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    Waiting,
    Ready,
}

/// What a controller's message means to the owner.
#[derive(Debug)]
pub enum SwitchEvent<'a> {
    /// The controller knows who this is: it may send `PACKET_IN` from now on.
    Ready,
    /// A rule.
    FlowMod(FlowMod<'a>),
    /// A frame to send.
    PacketOut(PacketOut<'a>),
    /// The controller did not like something.
    Error(ErrorMsg<'a>),
    /// Something that was answered, or needs no answer.
    Handled,
}

impl SwitchSession {
    /// Opens the conversation: writes `HELLO` to `tx`.
    pub fn open(plan: SwitchProfile, tx: &mut Vec<u8>) -> Self {
        let config = SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() };
        let mut switch = Self { plan, phase: Phase::Greeting, next_xid: 1, config };
        switch.encoder(tx).hello(Versions::of(&[plan.version]));
        switch
    }

    /// A way to write to the controller.
    pub fn encoder<'t>(&'t mut self, tx: &'t mut Vec<u8>) -> Encoder<'t> {
        Encoder::new(tx, self.plan.version, &mut self.next_xid)
    }

    /// Reads one message; answers go to `tx`.
    ///
    /// # Errors
    /// The reason to hang up.
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
            _ => self.on_rare_message(msg, tx),
        }
    }

    fn on_rare_message<'a>(
        &mut self,
        msg: RawMessage<'a>,
        tx: &mut Vec<u8>,
    ) -> Result<SwitchEvent<'a>, SessionError> {
        if self.phase == Phase::Greeting {
            return self.greet(msg);
        }
        let (xid, config, features) =
            (msg.xid(), self.config, msg.kind() == MessageType::FEATURES_REQUEST);
        if features {
            let features = self.features();
            // Its ports fit, and the version has a form for them.
            let _ = self.encoder(tx).features_reply(xid, &features);
            let known = std::mem::replace(&mut self.phase, Phase::Ready) == Phase::Ready;
            return Ok(if known { SwitchEvent::Handled } else { SwitchEvent::Ready });
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
                self.config = SwitchConfig::read(msg).map_err(SessionError::Malformed)?;
            }
            MessageType::MULTIPART_REQUEST => self.tell(msg, tx)?,
            MessageType::ROLE_REQUEST => _ = out.raw(MessageType::ROLE_REPLY, xid, msg.body()),
            MessageType::QUEUE_GET_CONFIG_REQUEST => {
                _ = out.raw(MessageType::QUEUE_GET_CONFIG_REPLY, xid, msg.body());
            }
            MessageType::GET_ASYNC_REQUEST => {
                // Six masks, in which nothing is set; properties, of which there are none, since 1.4.
                let masks: &[u8] = if out.version() < Version::V1_4 { &[0; 24] } else { &[] };
                _ = out.raw(MessageType::GET_ASYNC_REPLY, xid, masks);
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

    fn greet<'a>(&mut self, msg: RawMessage<'a>) -> Result<SwitchEvent<'a>, SessionError> {
        match msg.kind() {
            MessageType::HELLO => {
                let hello = Hello::read(msg).map_err(SessionError::Malformed)?;
                let ours = Versions::of(&[self.plan.version]);
                let agreed = ours.negotiate(msg.version(), hello.versions());
                agreed.ok_or_else(|| SessionError::NoCommonVersion(msg.version()))?;
                self.phase = Phase::Waiting;
                Ok(SwitchEvent::Handled)
            }
            MessageType::ERROR => {
                let error = ErrorMsg::new(msg).map_err(SessionError::Malformed)?;
                Err(SessionError::HandshakeRejected(error.reason))
            }
            kind => Err(SessionError::UnexpectedMessage(kind)),
        }
    }

    /// Answers a request for statistics: with what there is, and else with nothing.
    fn tell(&mut self, msg: RawMessage<'_>, tx: &mut Vec<u8>) -> Result<(), SessionError> {
        let kind = Multipart::new(msg).map_err(SessionError::Malformed)?.kind;
        let (xid, ports, body) = (msg.xid(), self.ports(), self.reply(kind));
        let mut out = self.encoder(tx);
        let told = match body {
            _ if kind == MultipartType::PORT_DESC => out.port_desc_reply(xid, &ports).is_ok(),
            Some(body) => {
                let flags = MultipartFlags::default();
                let reply = Message::MultipartReply(sluice_openflow::Multipart { flags, body });
                reply.encode(xid, &mut out).is_ok()
            }
            None => false,
        };
        if !told {
            // It is not known at all, or not in this version.
            out.error(ErrorReason::BAD_MULTIPART, msg);
        }
        Ok(())
    }

    /// What there is to tell of `kind`. Rules, tables, ports, queues, groups, meters: none, or nothing to tell of them.
    fn reply(&self, kind: MultipartType) -> Option<MultipartReply> {
        let version = self.plan.version;
        Some(match kind {
            MultipartType::DESC => MultipartReply::Desc(Box::new(SwitchDesc {
                mfr: "Sluice".into(),
                hw: "none".into(),
                sw: env!("CARGO_PKG_VERSION").into(),
                serial: self.plan.datapath_id.to_string().as_str().into(),
                dp: "played".into(),
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
            // Earlier these are Nicira's, with other numbers.
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
            datapath_id: self.plan.datapath_id,
            n_buffers: self.plan.n_buffers,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS,
            actions: if self.plan.version == Version::V1_0 {
                ActionBits::OUTPUT
            } else {
                ActionBits::default()
            },
            ports: if SwitchFeatures::has_ports(self.plan.version) { self.ports() } else { vec![] },
        }
    }

    fn ports(&self) -> Vec<Port> {
        let id = self.plan.datapath_id.0;
        let curr = PortFeatures::SPEED_10GB_FD | PortFeatures::COPPER;
        let (curr_speed, max_speed) = match self.plan.version {
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
        (1..=self.plan.n_ports).map(port).collect()
    }

    /// Whether the controller knows who this is.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// What the switch says it is.
    pub fn profile(&self) -> &SwitchProfile {
        &self.plan
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sluice_openflow::split_message;

    use super::*;
    use crate::{Config, ControllerEvent, ControllerSession};

    /// Lets the two ends talk until neither has anything to say; returns what the controller learnt.
    fn handshake(version: Version, n_ports: u16) -> SwitchFeatures {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut to_switch, mut to_controller) = (vec![], vec![]);
        let cfg = Config::default();
        let mut session = ControllerSession::open(&cfg, now, &mut to_switch);
        let datapath_id = DatapathId(7);
        let plan = SwitchProfile { datapath_id, version, n_ports, n_buffers: 256 };
        let mut switch = SwitchSession::open(plan, &mut to_controller);
        for _ in 0..5 {
            let mut heard = std::mem::take(&mut to_controller);
            while let Some((msg, rest)) = split_message(&heard).unwrap() {
                if let Some(ControllerEvent::SwitchConnected(features)) =
                    session.on_message(&cfg, msg, &mut to_switch).unwrap()
                {
                    assert!(session.is_up() && switch.is_ready());
                    assert_eq!(session.version(), version);
                    return *features;
                }
                heard = rest.to_vec();
            }
            let mut heard = std::mem::take(&mut to_switch);
            while let Some((msg, rest)) = split_message(&heard).unwrap() {
                switch.on_message(msg, &mut to_controller).unwrap();
                heard = rest.to_vec();
            }
        }
        panic!("the handshake did not come to an end");
    }

    #[test]
    fn both_ends_agree_and_the_ports_are_complete() {
        for version in Versions::SPOKEN.iter() {
            // As many as one FEATURES_REPLY holds where it tells them: 48 bytes each, and 64 since 1.1.
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

    /// Each reply can be read to its end, and what a version does not ask for is refused.
    #[test]
    fn each_version_has_its_questions_answered() {
        for version in Versions::SPOKEN.iter() {
            let plan =
                SwitchProfile { datapath_id: DatapathId(7), version, n_ports: 4, n_buffers: 0 };
            let (mut tx, mut asked, mut xid) = (vec![], vec![], 1);
            let mut switch = SwitchSession::open(plan, &mut tx);
            let mut out = Encoder::new(&mut asked, version, &mut xid);
            out.hello(Versions::of(&[version]));
            out.features_request();
            for kind in (0..20).map(MultipartType) {
                out.multipart_request(kind, &[]).unwrap();
            }
            let mut rest = &*asked;
            while let Some((msg, after)) = split_message(rest).unwrap() {
                switch.on_message(msg, &mut tx).unwrap();
                rest = after;
            }
            let (mut rest, mut answered) = (&*tx, vec![]);
            while let Some((msg, after)) = split_message(rest).unwrap() {
                let read = Message::parse_raw(msg).unwrap_or_else(|e| panic!("{version}: {e}"));
                if let Message::MultipartReply(_) = read {
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
