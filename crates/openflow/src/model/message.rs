//! One owned, version-neutral value for every message.

use super::async_config::{AsyncConfig, AsyncProp, SixMasks};
use super::bundle::{BundleAddMessage, BundleControl, EmbeddedMessage};
use super::codec::versions::*;
use super::codec::{Choice, Codec, experimenter_code, with_field_name};
use super::config::SwitchConfig;
use super::controller_status::ControllerStatus;
use super::error_msg::ErrorMsg;
use super::features::SwitchFeatures;
use super::flow_mod::{FlowMod, NxFlowMod};
use super::flow_removed::{FlowRemoved, NxFlowRemoved};
use super::group::GroupMod;
use super::hello::Hello;
use super::meter::MeterMod;
use super::multipart::{Multipart, MultipartReply, MultipartRequest};
use super::nicira::{
    NxCtFlush, NxFlowFormat, NxPacketInFormat, NxRole, NxTlvTableMod, NxTlvTableReply,
};
use super::packet_in::{NxPacketIn, NxPacketIn2, PacketIn};
use super::packet_out::PacketOut;
use super::port::PortStatus;
use super::port_mod::PortMod;
use super::queue::{QueueGetConfigReply, QueueGetConfigRequest};
use super::reader::Reader;
use super::role::{RoleRequest, RoleStatus};
use super::rows::choice;
use super::table::{TableMod, TableStatus};
use super::value::{NeutralForm, Value, ValueError};
use crate::raw_message::HEADER_LEN;
use crate::{EncodeError, Encoder, MessageType, RawMessage, Result, Version};

choice! {
    /// A message of any version, with everything it says but its transaction id.
    ///
    /// Numbers are those of [`MessageType`]; of a message of Nicira or the ONF its type under their identity.
    pub enum Message: "message" {
        /// Opens a session. §7.5.1.
        Hello "hello" (Hello) = { V1_0.. => 0 };
        /// A request failed. §7.4.4.
        Error "error" (ErrorMsg) = { V1_0.. => 1 };
        /// Are you there? §7.5.2.
        EchoRequest "echo_request" {
            /// To be sent back.
            data: Vec<u8>,
        } = { V1_0.. => 2 [data,] };
        /// Still here. §7.5.3.
        EchoReply "echo_reply" {
            /// What came with the request.
            data: Vec<u8>,
        } = { V1_0.. => 3 [data,] };
        /// What an experimenter added and has no row here. §7.5.4.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Their own number; in 1.0 it is part of the data, if there is one.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0 => 4 [experimenter, data,], V1_1.. => 4 [experimenter, exp_type, data,] };
        /// Who are you? §7.3.1.
        FeaturesRequest "features_request" = { V1_0.. => 5 };
        /// Who a switch is. §7.3.1.
        FeaturesReply "features_reply" (SwitchFeatures) = { V1_0.. => 6 };
        /// How are you set? §7.3.2.
        GetConfigRequest "get_config_request" = { V1_0.. => 7 };
        /// How a switch is set. §7.3.2.
        GetConfigReply "get_config_reply" (SwitchConfig) = { V1_0.. => 8 };
        /// Be set so. §7.3.2.
        SetConfig "set_config" (SwitchConfig) = { V1_0.. => 9 };
        /// Finish all before. §7.3.8.
        BarrierRequest "barrier_request" = { V1_0.. => 20 };
        /// All before is finished. §7.3.8.
        BarrierReply "barrier_reply" = { V1_0.. => 21 };
        /// Statistics or descriptions asked for. §7.3.5.
        MultipartRequest "multipart_request" (Multipart<MultipartRequest>) = { V1_0.. => 18 };
        /// Statistics or descriptions. §7.3.5.
        MultipartReply "multipart_reply" (Multipart<MultipartReply>) = { V1_0.. => 19 };
        /// A port came, went or changed. §7.4.3.
        PortStatus "port_status" (PortStatus) = { V1_0.. => 12 };
        /// A port to set. §7.3.4.3.
        PortMod "port_mod" (PortMod) = { V1_0.. => 16 };
        /// A table to set. §7.3.3.
        TableMod "table_mod" (TableMod) = { V1_1.. => 17 };
        /// What the queues of a port are, asked for; a multipart since 1.4. §7.3.6.
        QueueGetConfigRequest "queue_get_config_request" (QueueGetConfigRequest) = { V1_0..=V1_3 => 22 };
        /// What the queues of a port are; a multipart since 1.4. §7.3.6.
        QueueGetConfigReply "queue_get_config_reply" (QueueGetConfigReply) = { V1_0..=V1_3 => 23 };
        /// A table changed. OpenFlow 1.4.0 §7.4.5.
        TableStatus "table_status" (TableStatus) = { V1_4.. => 31 };
        /// A frame the switch sends up. §7.4.1.
        PacketIn "packet_in" (PacketIn) = { V1_0.. => 10 };
        /// A frame the switch sends up, in Nicira's first form.
        NxPacketIn "nx_packet_in" (NxPacketIn) = { V1_0.. => 0x2320_0000_0011 };
        /// A frame the switch sends up, in Nicira's second form.
        NxPacketIn2 "nx_packet_in2" (NxPacketIn2) = { V1_0.. => 0x2320_0000_001e };
        /// A frame that the switch stopped at and shall go on with. Nicira's.
        NxResume "nx_resume" (NxPacketIn2) = { V1_0.. => 0x2320_0000_001c };
        /// A rule is gone. §7.4.2.
        FlowRemoved "flow_removed" (FlowRemoved) = { V1_0.. => 11 };
        /// A rule is gone, in Nicira's form.
        NxFlowRemoved "nx_flow_removed" (NxFlowRemoved) = { V1_0.. => 0x2320_0000_000e };
        /// A frame the switch shall send. §7.3.7.
        PacketOut "packet_out" (PacketOut) = { V1_0.. => 13 };
        /// Rules to add, change or delete. §7.3.4.1.
        FlowMod "flow_mod" (FlowMod) = { V1_0.. => 14 };
        /// Rules to add, change or delete, in Nicira's form.
        NxFlowMod "nx_flow_mod" (NxFlowMod) = { V1_0.. => 0x2320_0000_000d };
        /// A monitor of rules goes; a multipart since 1.4. Nicira's, in 1.3 the ONF's.
        FlowMonitorCancel "flow_monitor_cancel" {
            /// Number of the monitor.
            monitor_id: u32,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0015 [monitor_id,],
            V1_3 => 0x4f4e_4600_0000_074e [monitor_id,],
        };
        /// Changes of rules come too fast and are not told for a while; in a multipart since 1.4. Nicira's, in 1.3
        /// the ONF's.
        FlowMonitorPaused "flow_monitor_paused" = {
            V1_0..=V1_2 => 0x2320_0000_0016,
            V1_3 => 0x4f4e_4600_0000_074f,
        };
        /// Changes of rules are told again; in a multipart since 1.4. Nicira's, in 1.3 the ONF's.
        FlowMonitorResumed "flow_monitor_resumed" = {
            V1_0..=V1_2 => 0x2320_0000_0017,
            V1_3 => 0x4f4e_4600_0000_0750,
        };
        /// A group to add, change or delete. §7.3.4.2. In 1.0 it is Nicira's.
        GroupMod "group_mod" (GroupMod) = { V1_0 => 0x2320_0000_001f, V1_1.. => 15 };
        /// A meter to add, change or delete. §7.3.4.4.
        MeterMod "meter_mod" (MeterMod) = { V1_3.. => 29 };
        /// A role asked for. §7.3.9.
        RoleRequest "role_request" (RoleRequest) = { V1_2.. => 24 };
        /// The role that is held. §7.3.9.
        RoleReply "role_reply" (RoleRequest) = { V1_2.. => 25 };
        /// Which events are on? §7.3.10.
        GetAsyncRequest "get_async_request" = { V1_3.. => 26 };
        /// Events that are on. §7.3.10.
        GetAsyncReply "get_async_reply" (AsyncConfig) = { V1_3.. => 27 };
        /// Events to be on. §7.3.10.
        SetAsync "set_async" (AsyncConfig) = { V1_3.. => 28 };
        /// The role changed. OpenFlow 1.4.0 §7.4.4. In 1.3 it is the ONF's.
        RoleStatus "role_status" (RoleStatus) = { V1_3 => 0x4f4e_4600_0000_0777, V1_4.. => 30 };
        /// What another controller asked. OpenFlow 1.4.0 §7.4.6. Before 1.3 it is Nicira's, in 1.3 the ONF's.
        RequestForward "requestforward" {
            /// It.
            request: EmbeddedMessage,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0084 [request,],
            V1_3 => 0x4f4e_4600_0000_092e [request,],
            V1_4.. => 32 [request,],
        };
        /// A bundle to open, close, commit or discard. OpenFlow 1.4.0 §7.3.9.2. In 1.3 it is the ONF's.
        BundleControl "bundle_control" (BundleControl) = {
            V1_3 => 0x4f4e_4600_0000_08fc, V1_4.. => 33,
        };
        /// A request for a bundle. OpenFlow 1.4.0 §7.3.9.6. In 1.3 it is the ONF's.
        BundleAddMessage "bundle_add_message" (BundleAddMessage) = {
            V1_3 => 0x4f4e_4600_0000_08fd, V1_4.. => 34,
        };
        /// A controller came, went or changed. OpenFlow 1.5.0 §7.4.8.
        ControllerStatus "controller_status" (ControllerStatus) = { V1_5.. => 35 };
        /// A role asked for, in Nicira's way.
        NxRoleRequest "nx_role_request" {
            /// Which.
            role: NxRole,
        } = { V1_0.. => 0x2320_0000_000a [role,] };
        /// The role that is held, in Nicira's way.
        NxRoleReply "nx_role_reply" {
            /// Which.
            role: NxRole,
        } = { V1_0.. => 0x2320_0000_000b [role,] };
        /// How rules shall be told. Nicira's, in 1.0 only.
        NxSetFlowFormat "nx_set_flow_format" {
            /// How.
            format: NxFlowFormat,
        } = { V1_0 => 0x2320_0000_000c [format,] };
        /// Whether the command of a `FLOW_MOD` of 1.0 has the table in its upper byte. Nicira's.
        NxFlowModTableId "nx_flow_mod_table_id" {
            /// 1 if it has.
            set: u8,
        } = { V1_0.. => 0x2320_0000_000f [set, pad 7,] };
        /// How packets shall be told. Nicira's.
        NxSetPacketInFormat "nx_set_packet_in_format" {
            /// How.
            format: NxPacketInFormat,
        } = { V1_0.. => 0x2320_0000_0010 [format,] };
        /// Age shall be told with rules. Nicira's.
        NxFlowAge "nx_flow_age" = { V1_0.. => 0x2320_0000_0012 };
        /// Events to be on, in masks as 1.3 has them. Nicira's.
        NxSetAsyncConfig "nx_set_async_config" {
            /// All six of them.
            properties: Vec<AsyncProp>,
        } = { V1_0.. => 0x2320_0000_0013 [properties as SixMasks,] };
        /// What the controller shall be called. Nicira's.
        NxSetControllerId "nx_set_controller_id" {
            /// Its number.
            controller_id: u16,
        } = { V1_0.. => 0x2320_0000_0014 [pad 6, controller_id,] };
        /// Mappings of tunnel options to change. Nicira's.
        NxTlvTableMod "nx_tlv_table_mod" (NxTlvTableMod) = { V1_0.. => 0x2320_0000_0018 };
        /// Which tunnel options are mapped? Nicira's.
        NxTlvTableRequest "nx_tlv_table_request" = { V1_0.. => 0x2320_0000_0019 };
        /// Tunnel options that are mapped. Nicira's.
        NxTlvTableReply "nx_tlv_table_reply" (NxTlvTableReply) = { V1_0.. => 0x2320_0000_001a };
        /// Events to be on, as 1.4 says it. Nicira's.
        NxSetAsyncConfig2 "nx_set_async_config2" {
            /// By kind and role.
            properties: Vec<AsyncProp>,
        } = { V1_0..=V1_3 => 0x2320_0000_001b [properties,] };
        /// Tracked connections of a zone to forget. Nicira's.
        NxCtFlushZone "nx_ct_flush_zone" {
            /// Which.
            zone_id: u16,
        } = { V1_0.. => 0x2320_0000_001d [pad 6, zone_id,] };
        /// Tracked connections to forget. Nicira's.
        NxCtFlush "nx_ct_flush" (NxCtFlush) = { V1_0.. => 0x2320_0000_0020 };
    }
}

impl Message {
    /// Parses the bytes of one whole message of any version.
    ///
    /// The header, with version and transaction id, is what [`RawMessage`] has; see [`parse_raw`](Self::parse_raw).
    ///
    /// ```
    /// use sluice_openflow::{Message, Version};
    ///
    /// let message = Message::parse(&[4, 20, 0, 8, 0, 0, 0, 7])?;
    /// assert_eq!(message, Message::BarrierRequest);
    /// assert_eq!(message.to_vec(Version::V1_3, 7)?, [4, 20, 0, 8, 0, 0, 0, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse_raw`](Self::parse_raw); also if `bytes` are less or more than one message.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_raw(RawMessage::new(bytes)?)
    }

    /// The bytes of the message in `version`, with the transaction id `xid`.
    ///
    /// # Errors
    /// Names what the version cannot express.
    pub fn to_vec(&self, version: Version, xid: u32) -> Result<Vec<u8>, EncodeError> {
        let (mut bytes, mut next_xid) = (Vec::new(), xid);
        self.encode(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid))?;
        Ok(bytes)
    }

    /// Reads `msg`.
    ///
    /// ```
    /// use sluice_openflow::Message;
    /// use sluice_openflow::{RawMessage, Encoder, Version};
    ///
    /// let barrier = [4, 20, 0, 8, 0, 0, 0, 7];
    /// let message = Message::parse_raw(RawMessage::new(&barrier)?)?;
    /// assert_eq!(message, Message::BarrierRequest);
    ///
    /// // The same, for a switch that speaks 1.0, where a barrier has another number.
    /// let (mut tx, mut xid) = (Vec::new(), 1);
    /// message.encode(7, &mut Encoder::new(&mut tx, Version::V1_0, &mut xid))?;
    /// assert_eq!(tx, [1, 18, 0, 8, 0, 0, 0, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with it, and where. `Version` for one before 1.0 or after 1.5, unless it is a `HELLO`, which
    /// every version can read.
    ///
    /// # Cost
    /// Copies everything.
    pub fn parse_raw(msg: RawMessage<'_>) -> Result<Self> {
        let (version, kind) = (msg.version(), msg.kind());
        if kind != MessageType::HELLO || version < Version::V1_0 {
            version.known()?;
        }
        Self::parse_in(&mut Reader::new(version, msg.body(), HEADER_LEN), kind)
    }

    /// Reads the body of a message of `kind`, all that `r` has left.
    pub(crate) fn parse_in(r: &mut Reader<'_>, kind: MessageType) -> Result<Self> {
        let code = experimenter_code::<Self>(kind.0, kind == MessageType::EXPERIMENTER, 0, r)?;
        let read = with_field_name("message", Self::parse_variant(code, r))?;
        r.finish("message")?;
        Ok(read)
    }

    /// Writes the message with the transaction id `xid`; [`parse`](Self::parse) has an example.
    ///
    /// # Errors
    /// Names what the version cannot say; nothing is written then.
    pub fn encode(&self, xid: u32, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let kind = self.kind(out.version())?;
        let code = self.code(out.version())?;
        out.message_with_xid(kind, xid, |out| {
            if code > u64::from(u16::MAX) {
                code.encode(out)?;
            }
            self.encode_body(out)
        })
    }

    /// What it is in `version`: [`MessageType::EXPERIMENTER`] for all that Nicira and the ONF added.
    ///
    /// # Errors
    /// Names the message if the version does not have it.
    pub fn kind(&self, version: Version) -> Result<MessageType, EncodeError> {
        let kind =
            u16::try_from(self.code(version)?).map_or(MessageType::EXPERIMENTER, MessageType);
        if MessageType::from_wire(version, kind.to_wire(version)) == kind {
            return Ok(kind);
        }
        let row = MessageType::ALL.iter().find(|row| row.0 == kind);
        let (what, needs) = row.map_or(("kind of message", None), |row| (row.1, Some(row.2)));
        Err(EncodeError { what, version, needs: needs.filter(|&needs| needs > version) })
    }

    /// Its name in the neutral form, as `flow_mod`; `other` for what is not modelled.
    pub fn name(&self) -> &'static str {
        Choice::name(self)
    }

    /// The neutral form, in the words of `version`.
    pub fn to_value(&self, version: Version) -> Value {
        NeutralForm::to_value(self, version)
    }

    /// Reads the neutral form.
    ///
    /// # Errors
    /// Where in it something is wrong, and what.
    pub fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        NeutralForm::from_value(value, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MeterBand, MeterCommand, MeterFlags, MeterId};
    use crate::{ParseError, ParseErrorKind};

    fn written(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(tx)
    }

    #[test]
    fn a_message_comes_back_from_bytes_and_from_the_neutral_form() {
        let meter = Message::MeterMod(MeterMod {
            command: MeterCommand::ADD,
            flags: MeterFlags::KBPS | MeterFlags::BURST,
            meter_id: MeterId(3),
            bands: vec![MeterBand::DscpRemark { rate: 10, burst_size: 20, prec_level: 1 }],
        });
        let bytes = written(&meter, Version::V1_3).unwrap();
        assert_eq!(Message::parse_raw(RawMessage::new(&bytes).unwrap()), Ok(meter.clone()));
        let value = meter.to_value(Version::V1_3);
        assert_eq!(Message::from_value(&value, Version::V1_3), Ok(meter.clone()));
        let no = written(&meter, Version::V1_2).unwrap_err();
        assert_eq!(no.to_string(), "meter_mod needs 1.3, this is 1.2");
    }

    #[test]
    fn what_a_version_does_not_have_is_kept_whole() {
        let meter_mod_of_1_2 = [3, 29, 0, 10, 0, 0, 0, 7, 1, 2];
        let message = Message::parse_raw(RawMessage::new(&meter_mod_of_1_2).unwrap()).unwrap();
        assert_eq!(message, Message::Other { code: 29, body: vec![1, 2] });
        assert_eq!(written(&message, Version::V1_2).unwrap(), meter_mod_of_1_2);
        let no = written(&message, Version::V1_0).unwrap_err();
        assert_eq!(no.to_string(), "METER_MOD needs 1.3, this is 1.0");

        let multipart_type_77 = [4, 18, 0, 17, 0, 0, 0, 7, 0, 77, 0, 0, 0, 0, 0, 0, 9];
        let message = Message::parse_raw(RawMessage::new(&multipart_type_77).unwrap()).unwrap();
        assert_eq!(written(&message, Version::V1_3).unwrap(), multipart_type_77);
        assert_eq!(message.kind(Version::V1_3), Ok(MessageType::MULTIPART_REQUEST));

        let gone_in_1_0 = [1, 200, 0, 9, 0, 0, 0, 7, 5];
        let message = Message::parse_raw(RawMessage::new(&gone_in_1_0).unwrap()).unwrap();
        assert_eq!(written(&message, Version::V1_0).unwrap(), gone_in_1_0);
        assert!(written(&message, Version::V1_3).is_err());
    }

    #[test]
    fn what_was_kept_whole_is_not_said_where_it_would_mean_something() {
        let kept = |version, bytes: &str| {
            let bytes = crate::model::value::unhex(bytes).unwrap();
            let message = Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap();
            assert_eq!(written(&message, version), Ok(bytes), "{message:?}");
            message
        };
        // Action 23 is nothing in 1.0 and `set_nw_ttl` later.
        let of_1_0 = kept(Version::V1_0, "010d0018000000070000000000000008 0017000807000000");
        let no = written(&of_1_0, Version::V1_1).unwrap_err();
        assert_eq!(no.to_string(), "unknown action cannot be said in 1.1");
        // Action 1 is nothing in 1.3 and `set_vlan_vid` in 1.0, if its value is one.
        let of_1_3 =
            kept(Version::V1_3, "040d002000000007000000000000000000080000000000000001000800050000");
        let no = written(&of_1_3, Version::V1_0).unwrap_err();
        assert_eq!(no.to_string(), "unknown action cannot be said in 1.0");
    }

    #[test]
    fn versions_that_are_not_known_say_nothing_but_hello() {
        for version in [0, 7, 0x99] {
            let barrier = [version, 20, 0, 8, 0, 0, 0, 7];
            let error = Message::parse_raw(RawMessage::new(&barrier).unwrap()).unwrap_err();
            assert_eq!(error, ParseError::new("version", 0, ParseErrorKind::Version));
        }
    }

    #[test]
    fn a_fault_names_the_field_and_its_place() {
        let whole = [4, 29, 0, 28, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3];
        let cut_at = |len: usize| {
            let mut cut = whole[..len].to_vec();
            cut[3] = u8::try_from(len).unwrap();
            Message::parse_raw(RawMessage::new(&cut).unwrap()).unwrap_err().to_string()
        };
        assert_eq!(cut_at(9), "command at byte 8 is cut off");
        assert_eq!(cut_at(11), "flags at byte 10 is cut off");
        assert_eq!(cut_at(14), "meter_id at byte 12 is cut off");
    }
}
