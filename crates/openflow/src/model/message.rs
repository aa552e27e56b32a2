//! The enum of all messages, the same for every version.

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
    /// A message of any version: its type and body, without version and transaction ID.
    ///
    /// Parse one with [`Message::parse`], encode it with [`Message::to_vec`] or into an [`Encoder`] with
    /// [`Message::encode`]. Variants whose names begin with `Nx` are Nicira's extensions, which Open vSwitch implements.
    pub enum Message: "message" {
        /// `OFPT_HELLO`: opens a connection and announces versions. §7.5.1.
        Hello "hello" (Hello) = { V1_0.. => 0 };
        /// `OFPT_ERROR`: a request failed. §7.4.4.
        Error "error" (ErrorMsg) = { V1_0.. => 1 };
        /// `OFPT_ECHO_REQUEST`: asks whether the peer is alive. §7.5.2.
        EchoRequest "echo_request" {
            /// Data that the reply must contain.
            data: Vec<u8>,
        } = { V1_0.. => 2 [data,] };
        /// `OFPT_ECHO_REPLY`: answers an echo request. §7.5.3.
        EchoReply "echo_reply" {
            /// Data of the request.
            data: Vec<u8>,
        } = { V1_0.. => 3 [data,] };
        /// `OFPT_EXPERIMENTER` (`OFPT_VENDOR` in 1.0): an extension that has no variant of its own. §7.5.4.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type; in 1.0 part of the data.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0 => 4 [experimenter, data,], V1_1.. => 4 [experimenter, exp_type, data,] };
        /// `OFPT_FEATURES_REQUEST`: asks for the switch's datapath ID and capabilities. §7.3.1.
        FeaturesRequest "features_request" = { V1_0.. => 5 };
        /// `OFPT_FEATURES_REPLY`: datapath ID and capabilities of the switch. §7.3.1.
        FeaturesReply "features_reply" (SwitchFeatures) = { V1_0.. => 6 };
        /// `OFPT_GET_CONFIG_REQUEST`: asks for the switch's configuration. §7.3.2.
        GetConfigRequest "get_config_request" = { V1_0.. => 7 };
        /// `OFPT_GET_CONFIG_REPLY`: configuration of the switch. §7.3.2.
        GetConfigReply "get_config_reply" (SwitchConfig) = { V1_0.. => 8 };
        /// `OFPT_SET_CONFIG`: configures the switch. §7.3.2.
        SetConfig "set_config" (SwitchConfig) = { V1_0.. => 9 };
        /// `OFPT_BARRIER_REQUEST`: asks for a reply once all earlier messages have been processed. §7.3.8.
        BarrierRequest "barrier_request" = { V1_0.. => 20 };
        /// `OFPT_BARRIER_REPLY`: all messages before the barrier request have been processed. §7.3.8.
        BarrierReply "barrier_reply" = { V1_0.. => 21 };
        /// `OFPT_MULTIPART_REQUEST` (`OFPT_STATS_REQUEST` before 1.3): asks for statistics or descriptions. §7.3.5.
        MultipartRequest "multipart_request" (Multipart<MultipartRequest>) = { V1_0.. => 18 };
        /// `OFPT_MULTIPART_REPLY` (`OFPT_STATS_REPLY` before 1.3): statistics or descriptions. §7.3.5.
        MultipartReply "multipart_reply" (Multipart<MultipartReply>) = { V1_0.. => 19 };
        /// `OFPT_PORT_STATUS`: a port was added, removed or modified. §7.4.3.
        PortStatus "port_status" (PortStatus) = { V1_0.. => 12 };
        /// `OFPT_PORT_MOD`: configures a port. §7.3.4.3.
        PortMod "port_mod" (PortMod) = { V1_0.. => 16 };
        /// `OFPT_TABLE_MOD`: configures a flow table. §7.3.3.
        TableMod "table_mod" (TableMod) = { V1_1.. => 17 };
        /// `OFPT_QUEUE_GET_CONFIG_REQUEST`: asks for the queues of a port; since 1.4 a multipart request. §7.3.6.
        QueueGetConfigRequest "queue_get_config_request" (QueueGetConfigRequest) = { V1_0..=V1_3 => 22 };
        /// `OFPT_QUEUE_GET_CONFIG_REPLY`: queues of a port; since 1.4 a multipart reply. §7.3.6.
        QueueGetConfigReply "queue_get_config_reply" (QueueGetConfigReply) = { V1_0..=V1_3 => 23 };
        /// `OFPT_TABLE_STATUS`: the state of a flow table changed. OpenFlow 1.4.0 §7.4.5.
        TableStatus "table_status" (TableStatus) = { V1_4.. => 31 };
        /// `OFPT_PACKET_IN`: a packet sent to the controller. §7.4.1.
        PacketIn "packet_in" (PacketIn) = { V1_0.. => 10 };
        /// `NXT_PACKET_IN`: a packet sent to the controller, with its pipeline fields as a match. Nicira.
        NxPacketIn "nx_packet_in" (NxPacketIn) = { V1_0.. => 0x2320_0000_0011 };
        /// `NXT_PACKET_IN2`: a packet sent to the controller, as a list of properties. Nicira.
        NxPacketIn2 "nx_packet_in2" (NxPacketIn2) = { V1_0.. => 0x2320_0000_001e };
        /// `NXT_RESUME`: continues processing a packet that an action `controller(pause)` stopped. Nicira.
        NxResume "nx_resume" (NxPacketIn2) = { V1_0.. => 0x2320_0000_001c };
        /// `OFPT_FLOW_REMOVED`: a flow entry expired or was deleted. §7.4.2.
        FlowRemoved "flow_removed" (FlowRemoved) = { V1_0.. => 11 };
        /// `NXT_FLOW_REMOVED`: a flow entry expired or was deleted; its match is a list of OXM fields. Nicira.
        NxFlowRemoved "nx_flow_removed" (NxFlowRemoved) = { V1_0.. => 0x2320_0000_000e };
        /// `OFPT_PACKET_OUT`: applies actions to a packet, usually to send it. §7.3.7.
        PacketOut "packet_out" (PacketOut) = { V1_0.. => 13 };
        /// `OFPT_FLOW_MOD`: adds, modifies or deletes flow entries. §7.3.4.1.
        FlowMod "flow_mod" (FlowMod) = { V1_0.. => 14 };
        /// `NXT_FLOW_MOD`: adds, modifies or deletes flow entries; its match is a list of OXM fields. Nicira.
        NxFlowMod "nx_flow_mod" (NxFlowMod) = { V1_0.. => 0x2320_0000_000d };
        /// Cancels a flow monitor; since 1.4 a multipart request. Nicira; in 1.3 ONF.
        FlowMonitorCancel "flow_monitor_cancel" {
            /// The monitor's ID, chosen by the controller.
            monitor_id: u32,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0015 [monitor_id,],
            V1_3 => 0x4f4e_4600_0000_074e [monitor_id,],
        };
        /// The switch pauses flow updates because its send buffer is full; since 1.4 part of a multipart reply. Nicira;
        /// in 1.3 ONF.
        FlowMonitorPaused "flow_monitor_paused" = {
            V1_0..=V1_2 => 0x2320_0000_0016,
            V1_3 => 0x4f4e_4600_0000_074f,
        };
        /// The switch resumes flow updates; since 1.4 part of a multipart reply. Nicira; in 1.3 ONF.
        FlowMonitorResumed "flow_monitor_resumed" = {
            V1_0..=V1_2 => 0x2320_0000_0017,
            V1_3 => 0x4f4e_4600_0000_0750,
        };
        /// `OFPT_GROUP_MOD`: adds, modifies or deletes groups. §7.3.4.2. In 1.0 Nicira.
        GroupMod "group_mod" (GroupMod) = { V1_0 => 0x2320_0000_001f, V1_1.. => 15 };
        /// `OFPT_METER_MOD`: adds, modifies or deletes meters. §7.3.4.4.
        MeterMod "meter_mod" (MeterMod) = { V1_3.. => 29 };
        /// `OFPT_ROLE_REQUEST`: requests a controller role. §7.3.9.
        RoleRequest "role_request" (RoleRequest) = { V1_2.. => 24 };
        /// `OFPT_ROLE_REPLY`: the controller's current role. §7.3.9.
        RoleReply "role_reply" (RoleRequest) = { V1_2.. => 25 };
        /// `OFPT_GET_ASYNC_REQUEST`: asks which asynchronous messages are enabled. §7.3.10.
        GetAsyncRequest "get_async_request" = { V1_3.. => 26 };
        /// `OFPT_GET_ASYNC_REPLY`: which asynchronous messages are enabled. §7.3.10.
        GetAsyncReply "get_async_reply" (AsyncConfig) = { V1_3.. => 27 };
        /// `OFPT_SET_ASYNC`: selects the asynchronous messages that the switch sends. §7.3.10.
        SetAsync "set_async" (AsyncConfig) = { V1_3.. => 28 };
        /// `OFPT_ROLE_STATUS`: the controller's role changed. OpenFlow 1.4.0 §7.4.4. In 1.3 ONF.
        RoleStatus "role_status" (RoleStatus) = { V1_3 => 0x4f4e_4600_0000_0777, V1_4.. => 30 };
        /// `OFPT_REQUESTFORWARD`: a request of another controller that changed groups or meters. OpenFlow 1.4.0 §7.4.6.
        /// Before 1.3 Nicira, in 1.3 ONF.
        RequestForward "requestforward" {
            /// The forwarded request.
            request: EmbeddedMessage,
        } = {
            V1_0..=V1_2 => 0x2320_0000_0084 [request,],
            V1_3 => 0x4f4e_4600_0000_092e [request,],
            V1_4.. => 32 [request,],
        };
        /// `OFPT_BUNDLE_CONTROL`: opens, closes, commits or discards a bundle. OpenFlow 1.4.0 §7.3.9.2. In 1.3 ONF.
        BundleControl "bundle_control" (BundleControl) = {
            V1_3 => 0x4f4e_4600_0000_08fc, V1_4.. => 33,
        };
        /// `OFPT_BUNDLE_ADD_MESSAGE`: adds a request to a bundle. OpenFlow 1.4.0 §7.3.9.6. In 1.3 ONF.
        BundleAddMessage "bundle_add_message" (BundleAddMessage) = {
            V1_3 => 0x4f4e_4600_0000_08fd, V1_4.. => 34,
        };
        /// `OFPT_CONTROLLER_STATUS`: the state of a controller connection changed. OpenFlow 1.5.0 §7.4.8.
        ControllerStatus "controller_status" (ControllerStatus) = { V1_5.. => 35 };
        /// `NXT_ROLE_REQUEST`: requests a controller role. Nicira.
        NxRoleRequest "nx_role_request" {
            /// Role of this controller.
            role: NxRole,
        } = { V1_0.. => 0x2320_0000_000a [role,] };
        /// `NXT_ROLE_REPLY`: the controller's current role. Nicira.
        NxRoleReply "nx_role_reply" {
            /// Role of this controller.
            role: NxRole,
        } = { V1_0.. => 0x2320_0000_000b [role,] };
        /// `NXT_SET_FLOW_FORMAT`: selects the message format for flow entries. Nicira, only in 1.0.
        NxSetFlowFormat "nx_set_flow_format" {
            /// Requested format.
            format: NxFlowFormat,
        } = { V1_0 => 0x2320_0000_000c [format,] };
        /// `NXT_FLOW_MOD_TABLE_ID`: whether the upper byte of the command of a `FLOW_MOD` of 1.0 is the table ID. Nicira.
        NxFlowModTableId "nx_flow_mod_table_id" {
            /// 1 to enable, 0 to disable.
            set: u8,
        } = { V1_0.. => 0x2320_0000_000f [set, pad 7,] };
        /// `NXT_SET_PACKET_IN_FORMAT`: selects the message format for packet-ins. Nicira.
        NxSetPacketInFormat "nx_set_packet_in_format" {
            /// Requested format.
            format: NxPacketInFormat,
        } = { V1_0.. => 0x2320_0000_0010 [format,] };
        /// `NXT_FLOW_AGE`: asks for idle and hard ages in flow statistics. Nicira.
        NxFlowAge "nx_flow_age" = { V1_0.. => 0x2320_0000_0012 };
        /// `NXT_SET_ASYNC_CONFIG`: selects asynchronous messages by the masks of 1.3. Nicira.
        NxSetAsyncConfig "nx_set_async_config" {
            /// All six masks.
            properties: Vec<AsyncProp>,
        } = { V1_0.. => 0x2320_0000_0013 [properties as SixMasks,] };
        /// `NXT_SET_CONTROLLER_ID`: sets the ID by which actions address this controller. Nicira.
        NxSetControllerId "nx_set_controller_id" {
            /// Controller ID; 0 by default.
            controller_id: u16,
        } = { V1_0.. => 0x2320_0000_0014 [pad 6, controller_id,] };
        /// `NXT_TLV_TABLE_MOD`: changes the mapping of tunnel options to match fields. Nicira.
        NxTlvTableMod "nx_tlv_table_mod" (NxTlvTableMod) = { V1_0.. => 0x2320_0000_0018 };
        /// `NXT_TLV_TABLE_REQUEST`: asks for the mapping of tunnel options. Nicira.
        NxTlvTableRequest "nx_tlv_table_request" = { V1_0.. => 0x2320_0000_0019 };
        /// `NXT_TLV_TABLE_REPLY`: the mapping of tunnel options. Nicira.
        NxTlvTableReply "nx_tlv_table_reply" (NxTlvTableReply) = { V1_0.. => 0x2320_0000_001a };
        /// `NXT_SET_ASYNC_CONFIG2`: selects asynchronous messages by the properties of 1.4. Nicira.
        NxSetAsyncConfig2 "nx_set_async_config2" {
            /// One mask for each message type and role.
            properties: Vec<AsyncProp>,
        } = { V1_0..=V1_3 => 0x2320_0000_001b [properties,] };
        /// `NXT_CT_FLUSH_ZONE`: deletes the tracked connections of a zone. Nicira.
        NxCtFlushZone "nx_ct_flush_zone" {
            /// Connection tracking zone.
            zone_id: u16,
        } = { V1_0.. => 0x2320_0000_001d [pad 6, zone_id,] };
        /// `NXT_CT_FLUSH`: deletes the tracked connections that match. Nicira.
        NxCtFlush "nx_ct_flush" (NxCtFlush) = { V1_0.. => 0x2320_0000_0020 };
    }
}

impl Message {
    /// Parses the bytes of one whole message of any version.
    ///
    /// [`RawMessage`] gives access to the header (version, type, transaction ID); see [`parse_raw`](Self::parse_raw).
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
    /// As for [`parse_raw`](Self::parse_raw); also if `bytes` are not exactly one message.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_raw(RawMessage::new(bytes)?)
    }

    /// Encodes the message in `version`, with the transaction ID `xid`.
    ///
    /// # Errors
    /// Names what the version does not support.
    pub fn to_vec(&self, version: Version, xid: u32) -> Result<Vec<u8>, EncodeError> {
        let (mut bytes, mut next_xid) = (Vec::new(), xid);
        self.encode(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid))?;
        Ok(bytes)
    }

    /// Parses a message that has been split from a stream.
    ///
    /// ```
    /// use sluice_openflow::Message;
    /// use sluice_openflow::{RawMessage, Encoder, Version};
    ///
    /// let barrier = [4, 20, 0, 8, 0, 0, 0, 7];
    /// let message = Message::parse_raw(RawMessage::new(&barrier)?)?;
    /// assert_eq!(message, Message::BarrierRequest);
    ///
    /// // The same message for a switch that speaks 1.0, where the barrier has another type number.
    /// let (mut tx, mut xid) = (Vec::new(), 1);
    /// message.encode(7, &mut Encoder::new(&mut tx, Version::V1_0, &mut xid))?;
    /// assert_eq!(tx, [1, 18, 0, 8, 0, 0, 0, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Says what is wrong and where. `Version` for versions before 1.0 or after 1.5, except for `HELLO` messages of
    /// later versions.
    ///
    /// # Cost
    /// Copies and allocates; for messages that arrive in bulk, the module [`view`](crate::view) has views without
    /// allocation.
    pub fn parse_raw(msg: RawMessage<'_>) -> Result<Self> {
        let (version, kind) = (msg.version(), msg.kind());
        if kind != MessageType::HELLO || version < Version::V1_0 {
            version.known()?;
        }
        Self::parse_in(&mut Reader::new(version, msg.body(), HEADER_LEN), kind)
    }

    /// Parses the body of a message of type `kind`, up to the end of `r`.
    pub(crate) fn parse_in(r: &mut Reader<'_>, kind: MessageType) -> Result<Self> {
        let code = experimenter_code::<Self>(kind.0, kind == MessageType::EXPERIMENTER, 0, r)?;
        let message = with_field_name("message", Self::parse_variant(code, r))?;
        r.finish("message")?;
        Ok(message)
    }

    /// Appends the message to `out`, with the transaction ID `xid`; [`parse_raw`](Self::parse_raw) has an example.
    ///
    /// # Errors
    /// Names what the version does not support; `out` is unchanged then.
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

    /// The message type in `version`; [`MessageType::EXPERIMENTER`] for extensions of Nicira and the ONF.
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
        Err(EncodeError::new(what, version, needs.filter(|&needs| needs > version)))
    }

    /// Name in lower case, such as `flow_mod`; `other` for types without a variant.
    pub fn name(&self) -> &'static str {
        Choice::name(self)
    }

    /// Converts to the [neutral form](Value), with the names that `version` uses.
    pub fn to_value(&self, version: Version) -> Value {
        NeutralForm::to_value(self, version)
    }

    /// Converts from the [neutral form](Value).
    ///
    /// # Errors
    /// Says what is wrong and where in the value.
    pub fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        NeutralForm::from_value(value, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseErrorKind;
    use crate::model::{MeterBand, MeterCommand, MeterFlags, MeterId};

    fn encoded(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(tx)
    }

    #[test]
    fn a_message_survives_a_roundtrip_through_bytes_and_the_neutral_form() {
        let meter = Message::MeterMod(MeterMod {
            command: MeterCommand::ADD,
            flags: MeterFlags::KBPS | MeterFlags::BURST,
            meter_id: MeterId(3),
            bands: vec![MeterBand::DscpRemark { rate: 10, burst_size: 20, prec_level: 1 }],
        });
        let bytes = encoded(&meter, Version::V1_3).unwrap();
        assert_eq!(Message::parse_raw(RawMessage::new(&bytes).unwrap()), Ok(meter.clone()));
        let value = meter.to_value(Version::V1_3);
        assert_eq!(Message::from_value(&value, Version::V1_3), Ok(meter.clone()));
        let error = encoded(&meter, Version::V1_2).unwrap_err();
        assert_eq!(error.to_string(), "meter_mod requires OpenFlow 1.3; this session speaks 1.2");
    }

    #[test]
    fn messages_that_the_version_does_not_have_are_kept_unparsed() {
        let meter_mod_of_1_2 = [3, 29, 0, 10, 0, 0, 0, 7, 1, 2];
        let message = Message::parse_raw(RawMessage::new(&meter_mod_of_1_2).unwrap()).unwrap();
        assert_eq!(message, Message::Other { code: 29, body: vec![1, 2] });
        assert_eq!(encoded(&message, Version::V1_2).unwrap(), meter_mod_of_1_2);
        let error = encoded(&message, Version::V1_0).unwrap_err();
        assert_eq!(error.to_string(), "METER_MOD requires OpenFlow 1.3; this session speaks 1.0");

        let multipart_type_77 = [4, 18, 0, 17, 0, 0, 0, 7, 0, 77, 0, 0, 0, 0, 0, 0, 9];
        let message = Message::parse_raw(RawMessage::new(&multipart_type_77).unwrap()).unwrap();
        assert_eq!(encoded(&message, Version::V1_3).unwrap(), multipart_type_77);
        assert_eq!(message.kind(Version::V1_3), Ok(MessageType::MULTIPART_REQUEST));

        let undefined_in_1_0 = [1, 200, 0, 9, 0, 0, 0, 7, 5];
        let message = Message::parse_raw(RawMessage::new(&undefined_in_1_0).unwrap()).unwrap();
        assert_eq!(encoded(&message, Version::V1_0).unwrap(), undefined_in_1_0);
        assert!(encoded(&message, Version::V1_3).is_err());
    }

    #[test]
    fn unparsed_actions_are_not_encoded_in_versions_that_give_them_a_meaning() {
        let parsed = |version, bytes: &str| {
            let bytes = crate::model::value::unhex(bytes).unwrap();
            let message = Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap();
            assert_eq!(encoded(&message, version), Ok(bytes), "{message:?}");
            message
        };
        // Action 23 is undefined in 1.0 and `set_nw_ttl` in later versions.
        let of_1_0 = parsed(Version::V1_0, "010d0018000000070000000000000008 0017000807000000");
        let error = encoded(&of_1_0, Version::V1_1).unwrap_err();
        assert_eq!(error.to_string(), "unknown action cannot be encoded in OpenFlow 1.1");
        // Action 1 is undefined in 1.3 and `set_vlan_vid` in 1.0.
        let of_1_3 = parsed(
            Version::V1_3,
            "040d002000000007000000000000000000080000000000000001000800050000",
        );
        let error = encoded(&of_1_3, Version::V1_0).unwrap_err();
        assert_eq!(error.to_string(), "unknown action cannot be encoded in OpenFlow 1.0");
    }

    #[test]
    fn messages_of_unknown_versions_are_refused() {
        for version in [0, 7, 0x99] {
            let barrier = [version, 20, 0, 8, 0, 0, 0, 7];
            let error = Message::parse_raw(RawMessage::new(&barrier).unwrap()).unwrap_err();
            assert_eq!((error.what, error.at, error.why), ("version", 0, ParseErrorKind::Version));
            assert_eq!(error.value, Some(version.into()));
        }
    }

    #[test]
    fn an_error_names_the_field_and_its_position() {
        let whole = [4, 29, 0, 28, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3];
        let cut_at = |len: usize| {
            let mut cut = whole[..len].to_vec();
            cut[3] = u8::try_from(len).unwrap();
            Message::parse_raw(RawMessage::new(&cut).unwrap()).unwrap_err().to_string()
        };
        assert_eq!(cut_at(9), "command at byte 8: truncated (needs 2 bytes, 1 left)");
        assert_eq!(cut_at(11), "flags at byte 10: truncated (needs 2 bytes, 1 left)");
        assert_eq!(cut_at(14), "meter_id at byte 12: truncated (needs 4 bytes, 2 left)");
    }
}
