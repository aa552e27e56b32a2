//! Asynchronous message configuration: which events a switch sends to a controller. §7.3.10.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::reader::Reader;
use super::rows::{choice, flags, record, tlv};
use crate::{EncodeError, Encoder, Result, Version};

flags! {
    /// Bitmap of packet-in reasons: one bit for each [`PacketInReason`](super::PacketInReason). §7.3.10.
    pub struct PacketInReasons(u64 as u32);
    NO_MATCH = 1, V1_0 ..= V1_3, "No matching flow entry.";
    TABLE_MISS = 1, V1_4, "Table-miss flow entry.";
    ACTION = 2, V1_0 ..= V1_3, "Output to the controller by an action.";
    APPLY_ACTION = 2, V1_4, "Output to the controller by an applied action.";
    INVALID_TTL = 4, V1_0, "Invalid TTL.";
    ACTION_SET = 8, V1_4, "Output to the controller by the action set.";
    GROUP = 0x10, V1_4, "Output to the controller by a group bucket.";
    PACKET_OUT = 0x20, V1_4, "Output to the controller by a `PACKET_OUT`.";
}

flags! {
    /// Bitmap of port-status reasons: one bit for each [`PortReason`](super::PortReason). §7.3.10.
    pub struct PortReasons(u32);
    ADD = 1, V1_0, "Port added.";
    DELETE = 2, V1_0, "Port removed.";
    MODIFY = 4, V1_0, "Port changed.";
}

flags! {
    /// Bitmap of flow-removed reasons: one bit for each [`FlowRemovedReason`](super::FlowRemovedReason). §7.3.10.
    pub struct FlowRemovedReasons(u32);
    IDLE_TIMEOUT = 1, V1_0, "Idle timeout exceeded.";
    HARD_TIMEOUT = 2, V1_0, "Hard timeout exceeded.";
    DELETE = 4, V1_0, "Deleted by a `FLOW_MOD`.";
    GROUP_DELETE = 8, V1_0, "Its group was deleted.";
    METER_DELETE = 0x10, V1_0, "Its meter was deleted.";
    EVICTION = 0x20, V1_0, "Evicted to make room in the table.";
}

flags! {
    /// Bitmap of role-status reasons: one bit for each [`RoleReason`](super::RoleReason). OpenFlow 1.4.0 §7.3.10.
    pub struct RoleReasons(u32);
    MASTER_REQUEST = 1, V1_0, "Another controller became master.";
    CONFIG = 2, V1_0, "The configuration of the switch changed.";
    EXPERIMENTER = 4, V1_0, "Experimenter-defined reason.";
}

flags! {
    /// Bitmap of table-status reasons: one bit for each [`TableReason`](super::TableReason). OpenFlow 1.4.0 §7.3.10.
    pub struct TableReasons(u32);
    VACANCY_DOWN = 8, V1_0, "Vacancy fell below its threshold.";
    VACANCY_UP = 0x10, V1_0, "Vacancy rose above its threshold.";
}

flags! {
    /// Bitmap of requests of other controllers that are forwarded. OpenFlow 1.4.0 §7.3.10.
    pub struct RequestForwardReasons(u32);
    GROUP_MOD = 1, V1_0, "`GROUP_MOD` requests.";
    METER_MOD = 2, V1_0, "`METER_MOD` requests.";
}

flags! {
    /// Bitmap of flow-statistics reasons: one bit for each [`FlowStatsReason`](super::FlowStatsReason). OpenFlow
    /// 1.5.0 §7.3.10.
    pub struct FlowStatsReasons(u32);
    STATS_REQUEST = 1, V1_5, "Reply to a request.";
    STAT_TRIGGER = 2, V1_5, "A statistics trigger fired.";
}

flags! {
    /// Bitmap of controller-status reasons. OpenFlow 1.5.0 §7.4.8.
    pub struct ControllerStatusReasons(u32);
    REQUEST = 1, V1_5, "Reply to a request.";
    CHANNEL_STATUS = 2, V1_5, "The control channel came up or went down.";
    ROLE = 4, V1_5, "The controller's role changed.";
    CONTROLLER_ADDED = 8, V1_5, "A controller was added.";
    CONTROLLER_REMOVED = 0x10, V1_5, "A controller was removed.";
    SHORT_ID = 0x20, V1_5, "The controller's short ID changed.";
    EXPERIMENTER = 0x40, V1_5, "Experimenter-defined reason.";
}

choice! {
    /// Which events of one kind are sent to a controller in one role. OpenFlow 1.4.0 §7.3.10.
    ///
    /// Properties for the role master apply to the role equal too.
    pub enum AsyncProp: "async property" {
        /// Packet-ins, for slaves.
        PacketInSlave "packet_in_slave" {
            /// Reasons that are enabled.
            mask: PacketInReasons,
        } = { V1_0.. => 0 [mask,] };
        /// Packet-ins, for master and equal.
        PacketInMaster "packet_in_master" {
            /// Reasons that are enabled.
            mask: PacketInReasons,
        } = { V1_0.. => 1 [mask,] };
        /// Port-status messages, for slaves.
        PortStatusSlave "port_status_slave" {
            /// Reasons that are enabled.
            mask: PortReasons,
        } = { V1_0.. => 2 [mask,] };
        /// Port-status messages, for master and equal.
        PortStatusMaster "port_status_master" {
            /// Reasons that are enabled.
            mask: PortReasons,
        } = { V1_0.. => 3 [mask,] };
        /// Flow-removed messages, for slaves.
        FlowRemovedSlave "flow_removed_slave" {
            /// Reasons that are enabled.
            mask: FlowRemovedReasons,
        } = { V1_0.. => 4 [mask,] };
        /// Flow-removed messages, for master and equal.
        FlowRemovedMaster "flow_removed_master" {
            /// Reasons that are enabled.
            mask: FlowRemovedReasons,
        } = { V1_0.. => 5 [mask,] };
        /// Role-status messages, for slaves.
        RoleStatusSlave "role_status_slave" {
            /// Reasons that are enabled.
            mask: RoleReasons,
        } = { V1_0.. => 6 [mask,] };
        /// Role-status messages, for master and equal.
        RoleStatusMaster "role_status_master" {
            /// Reasons that are enabled.
            mask: RoleReasons,
        } = { V1_0.. => 7 [mask,] };
        /// Table-status messages, for slaves.
        TableStatusSlave "table_status_slave" {
            /// Reasons that are enabled.
            mask: TableReasons,
        } = { V1_0.. => 8 [mask,] };
        /// Table-status messages, for master and equal.
        TableStatusMaster "table_status_master" {
            /// Reasons that are enabled.
            mask: TableReasons,
        } = { V1_0.. => 9 [mask,] };
        /// Forwarded requests, for slaves.
        RequestForwardSlave "requestforward_slave" {
            /// Reasons that are enabled.
            mask: RequestForwardReasons,
        } = { V1_0.. => 10 [mask,] };
        /// Forwarded requests, for master and equal.
        RequestForwardMaster "requestforward_master" {
            /// Reasons that are enabled.
            mask: RequestForwardReasons,
        } = { V1_0.. => 11 [mask,] };
        /// Flow statistics, for slaves.
        FlowStatsSlave "flow_stats_slave" {
            /// Reasons that are enabled.
            mask: FlowStatsReasons,
        } = { V1_5.. => 12 [mask,] };
        /// Flow statistics, for master and equal.
        FlowStatsMaster "flow_stats_master" {
            /// Reasons that are enabled.
            mask: FlowStatsReasons,
        } = { V1_5.. => 13 [mask,] };
        /// Controller-status messages, for slaves.
        ContStatusSlave "cont_status_slave" {
            /// Reasons that are enabled.
            mask: ControllerStatusReasons,
        } = { V1_5.. => 14 [mask,] };
        /// Controller-status messages, for master and equal.
        ContStatusMaster "cont_status_master" {
            /// Reasons that are enabled.
            mask: ControllerStatusReasons,
        } = { V1_5.. => 15 [mask,] };
        /// Experimenter property, for slaves.
        ExperimenterSlave "experimenter_slave" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0.. => 0xfffe [experimenter, exp_type, data,] };
        /// Experimenter property, for master and equal.
        ExperimenterMaster "experimenter_master" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_0.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(AsyncProp, Outside, Property);

record! {
    /// Which events a switch sends to a controller. §7.3.10.
    ///
    /// OpenFlow 1.3 encodes six masks: packet-in, port-status and flow-removed reasons, each for master and for
    /// slave. They are six properties here; in 1.3 exactly these can be encoded. Since 1.4, events without a property
    /// keep their configuration.
    #[derive(Default)]
    pub struct AsyncConfig: "async_config" {
        /// One property for each kind of event and role.
        pub properties: Vec<AsyncProp>,
    }
    V1_3 => [properties as SixMasks,]
    V1_4.. => [properties,]
}

/// Packet-in, port-status and flow-removed masks, each for master and for slave, as OpenFlow 1.3 encodes them.
pub(crate) struct SixMasks;

impl Encoding<Vec<AsyncProp>> for SixMasks {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<AsyncProp>> {
        let packet_ins = (Codec::parse(r)?, Codec::parse(r)?);
        let port_status = (Codec::parse(r)?, Codec::parse(r)?);
        let flow_removed = (Codec::parse(r)?, Codec::parse(r)?);
        Ok(vec![
            AsyncProp::PacketInSlave { mask: packet_ins.1 },
            AsyncProp::PacketInMaster { mask: packet_ins.0 },
            AsyncProp::PortStatusSlave { mask: port_status.1 },
            AsyncProp::PortStatusMaster { mask: port_status.0 },
            AsyncProp::FlowRemovedSlave { mask: flow_removed.1 },
            AsyncProp::FlowRemovedMaster { mask: flow_removed.0 },
        ])
    }

    fn encode(value: &Vec<AsyncProp>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (version, mut masks) = (out.version(), [None; 6]);
        let unsupported = |what| {
            let needs = Some(Version::V1_4).filter(|&needs| needs > version);
            EncodeError::new(what, version, needs)
        };
        for property in value {
            let (at, mask) = match property {
                AsyncProp::PacketInMaster { mask } => (0, mask.to_wire(version)?),
                AsyncProp::PacketInSlave { mask } => (1, mask.to_wire(version)?),
                AsyncProp::PortStatusMaster { mask } => (2, mask.to_wire(version)?),
                AsyncProp::PortStatusSlave { mask } => (3, mask.to_wire(version)?),
                AsyncProp::FlowRemovedMaster { mask } => (4, mask.to_wire(version)?),
                AsyncProp::FlowRemovedSlave { mask } => (5, mask.to_wire(version)?),
                _ => return Err(unsupported("async property without a mask")),
            };
            let free = masks.get_mut(at).filter(|mask| mask.is_none());
            *free.ok_or_else(|| unsupported("duplicate async property"))? = Some(mask);
        }
        for mask in masks {
            mask.ok_or_else(|| unsupported("partial async configuration"))?.encode(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::codec::Choice;
    use crate::model::roundtrip::{message_both_ways, survives, written};

    fn six_properties() -> Vec<AsyncProp> {
        vec![
            AsyncProp::PacketInSlave { mask: PacketInReasons(2) },
            AsyncProp::PacketInMaster { mask: PacketInReasons(5) },
            AsyncProp::PortStatusSlave { mask: PortReasons(3) },
            AsyncProp::PortStatusMaster { mask: PortReasons(7) },
            AsyncProp::FlowRemovedSlave { mask: FlowRemovedReasons(0) },
            AsyncProp::FlowRemovedMaster { mask: FlowRemovedReasons(15) },
        ]
    }

    #[test]
    fn the_six_masks_of_1_3_are_six_properties() {
        let config = AsyncConfig { properties: six_properties() };
        let masks = "00000005 00000002 00000007 00000003 0000000f 00000000";
        message_both_ways(&format!("041c002000000001 {masks}"), &Message::SetAsync(config.clone()));
        message_both_ways(
            &format!("041b002000000001 {masks}"),
            &Message::GetAsyncReply(config.clone()),
        );
        message_both_ways("041a000800000001", &Message::GetAsyncRequest);
        let properties = "0000000800000002 0001000800000005 0002000800000003 0003000800000007 \
                          0004000800000000 000500080000000f";
        for version in ["05", "06"] {
            let set = format!("{version}1c003800000001 {properties}");
            message_both_ways(&set, &Message::SetAsync(config.clone()));
            let reply = format!("{version}1b003800000001 {properties}");
            message_both_ways(&reply, &Message::GetAsyncReply(config.clone()));
            message_both_ways(&format!("{version}1a000800000001"), &Message::GetAsyncRequest);
        }
        let in_1_0 = format!("0104002800000000 00002320 00000013 {masks}");
        message_both_ways(&in_1_0, &Message::NxSetAsyncConfig { properties: six_properties() });
    }

    #[test]
    fn version_1_3_encodes_exactly_the_six_properties() {
        let set_async = |properties| Message::SetAsync(AsyncConfig { properties });
        let partial = six_properties().split_off(1);
        let error = written(&set_async(partial), Version::V1_3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "partial async configuration requires OpenFlow 1.4; this session speaks 1.3"
        );
        let duplicate = [six_properties(), six_properties()].concat();
        assert!(written(&set_async(duplicate), Version::V1_3).is_err());
        let without_mask = vec![AsyncProp::RoleStatusSlave { mask: RoleReasons(1) }];
        assert!(written(&set_async(without_mask), Version::V1_3).is_err());
    }

    #[test]
    fn every_property_survives_a_roundtrip() {
        for version in [Version::V1_4, Version::V1_5] {
            for row in AsyncProp::ROWS {
                let Some(code) = (row.code)(version) else { continue };
                let bytes = if code >= 0xfffe {
                    format!(
                        "{:02x}1c001800000001 {code:04x}000d 00000055 00000001 aa000000",
                        version.0
                    )
                } else {
                    format!("{:02x}1c001000000001 {code:04x}0008 00000003", version.0)
                };
                let Message::SetAsync(config) = survives(&bytes) else { panic!("{bytes}") };
                assert_eq!(config.properties[0].name(), row.name);
            }
        }
        survives("051c001000000001 000e0008 00000003");
    }
}
