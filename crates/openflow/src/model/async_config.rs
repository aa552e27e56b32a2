//! `GET_ASYNC_REPLY`, `SET_ASYNC`: which events a controller is told of. §7.3.10.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::reader::Reader;
use super::rows::{choice, flags, record, tlv};
use crate::{EncodeError, Encoder, Result, Version};

flags! {
    /// Reasons of `PACKET_IN`s, as bits.
    pub struct PacketInReasons(u32);
    NO_MATCH = 1, V1_0 ..= V1_3, "No rule matched.";
    TABLE_MISS = 1, V1_4, "The table-miss rule matched.";
    ACTION = 2, V1_0 ..= V1_3, "A rule sent it up.";
    APPLY_ACTION = 2, V1_4, "An action of a rule sent it up.";
    INVALID_TTL = 4, V1_0, "Its TTL is invalid.";
    ACTION_SET = 8, V1_4, "The action set sent it up.";
    GROUP = 0x10, V1_4, "A bucket sent it up.";
    PACKET_OUT = 0x20, V1_4, "A `PACKET_OUT` sent it up.";
}

flags! {
    /// Reasons of `PORT_STATUS`es, as bits.
    pub struct PortReasons(u32);
    ADD = 1, V1_0, "A port came.";
    DELETE = 2, V1_0, "A port went.";
    MODIFY = 4, V1_0, "A port changed.";
}

flags! {
    /// Reasons of `FLOW_REMOVED`s, as bits.
    pub struct FlowRemovedReasons(u32);
    IDLE_TIMEOUT = 1, V1_0, "Not used for too long.";
    HARD_TIMEOUT = 2, V1_0, "Its time is over.";
    DELETE = 4, V1_0, "Deleted.";
    GROUP_DELETE = 8, V1_1, "Its group was deleted.";
    METER_DELETE = 0x10, V1_4, "Its meter was deleted.";
    EVICTION = 0x20, V1_4, "Evicted.";
}

flags! {
    /// Reasons of `ROLE_STATUS`es, as bits.
    pub struct RoleReasons(u32);
    MASTER_REQUEST = 1, V1_0, "Another controller asked to be master.";
    CONFIG = 2, V1_0, "The switch was set otherwise.";
    EXPERIMENTER = 4, V1_0, "An experimenter's reason.";
}

flags! {
    /// Reasons of `TABLE_STATUS`es, as bits.
    pub struct TableReasons(u32);
    VACANCY_DOWN = 8, V1_0, "Less room than a threshold.";
    VACANCY_UP = 0x10, V1_0, "More room than a threshold.";
}

flags! {
    /// Requests that are forwarded, as bits.
    pub struct RequestForwardReasons(u32);
    GROUP_MOD = 1, V1_0, "To change groups.";
    METER_MOD = 2, V1_0, "To change meters.";
}

flags! {
    /// Reasons of flow statistics that nobody asked for, as bits. OpenFlow 1.5.0 §7.3.10.
    pub struct FlowStatsReasons(u32);
    STATS_REQUEST = 1, V1_5, "An answer.";
    STAT_TRIGGER = 2, V1_5, "A trigger.";
}

flags! {
    /// Reasons of `CONTROLLER_STATUS`es, as bits. OpenFlow 1.5.0 §7.4.8.
    pub struct ControllerStatusReasons(u32);
    REQUEST = 1, V1_5, "Asked for.";
    CHANNEL_STATUS = 2, V1_5, "The channel came up or went down.";
    ROLE = 4, V1_5, "The role changed.";
    CONTROLLER_ADDED = 8, V1_5, "A controller came.";
    CONTROLLER_REMOVED = 0x10, V1_5, "A controller went.";
    SHORT_ID = 0x20, V1_5, "The short id changed.";
    EXPERIMENTER = 0x40, V1_5, "An experimenter's reason.";
}

choice! {
    /// Which events of a kind a controller is told of while it has a role. OpenFlow 1.4.0 §7.3.10.
    ///
    /// What is said of a master holds for equals too.
    pub enum AsyncProp: "async property" {
        /// Packets, to a slave.
        PacketInSlave "packet_in_slave" {
            /// Which.
            mask: PacketInReasons,
        } = { V1_0.. => 0 [mask,] };
        /// Packets, to a master.
        PacketInMaster "packet_in_master" {
            /// Which.
            mask: PacketInReasons,
        } = { V1_0.. => 1 [mask,] };
        /// Ports, to a slave.
        PortStatusSlave "port_status_slave" {
            /// Which.
            mask: PortReasons,
        } = { V1_0.. => 2 [mask,] };
        /// Ports, to a master.
        PortStatusMaster "port_status_master" {
            /// Which.
            mask: PortReasons,
        } = { V1_0.. => 3 [mask,] };
        /// Rules that are gone, to a slave.
        FlowRemovedSlave "flow_removed_slave" {
            /// Which.
            mask: FlowRemovedReasons,
        } = { V1_0.. => 4 [mask,] };
        /// Rules that are gone, to a master.
        FlowRemovedMaster "flow_removed_master" {
            /// Which.
            mask: FlowRemovedReasons,
        } = { V1_0.. => 5 [mask,] };
        /// Roles, to a slave.
        RoleStatusSlave "role_status_slave" {
            /// Which.
            mask: RoleReasons,
        } = { V1_0.. => 6 [mask,] };
        /// Roles, to a master.
        RoleStatusMaster "role_status_master" {
            /// Which.
            mask: RoleReasons,
        } = { V1_0.. => 7 [mask,] };
        /// Tables, to a slave.
        TableStatusSlave "table_status_slave" {
            /// Which.
            mask: TableReasons,
        } = { V1_0.. => 8 [mask,] };
        /// Tables, to a master.
        TableStatusMaster "table_status_master" {
            /// Which.
            mask: TableReasons,
        } = { V1_0.. => 9 [mask,] };
        /// Requests of others, to a slave.
        RequestForwardSlave "requestforward_slave" {
            /// Which.
            mask: RequestForwardReasons,
        } = { V1_0.. => 10 [mask,] };
        /// Requests of others, to a master.
        RequestForwardMaster "requestforward_master" {
            /// Which.
            mask: RequestForwardReasons,
        } = { V1_0.. => 11 [mask,] };
        /// Statistics of rules, to a slave.
        FlowStatsSlave "flow_stats_slave" {
            /// Which.
            mask: FlowStatsReasons,
        } = { V1_5.. => 12 [mask,] };
        /// Statistics of rules, to a master.
        FlowStatsMaster "flow_stats_master" {
            /// Which.
            mask: FlowStatsReasons,
        } = { V1_5.. => 13 [mask,] };
        /// Controllers, to a slave.
        ContStatusSlave "cont_status_slave" {
            /// Which.
            mask: ControllerStatusReasons,
        } = { V1_5.. => 14 [mask,] };
        /// Controllers, to a master.
        ContStatusMaster "cont_status_master" {
            /// Which.
            mask: ControllerStatusReasons,
        } = { V1_5.. => 15 [mask,] };
        /// An experimenter's own, to a slave.
        ExperimenterSlave "experimenter_slave" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_0.. => 0xfffe [experimenter, exp_type, data,] };
        /// An experimenter's own, to a master.
        ExperimenterMaster "experimenter_master" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_0.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(AsyncProp, Outside, Property);

record! {
    /// Which events a controller is told of. §7.3.10.
    ///
    /// 1.3 has two masks, for a master and for a slave, of each of three kinds of events, and always all of them: they
    /// are six properties here, and it cannot say other ones or fewer. Since 1.4 what is not named stays as it is.
    #[derive(Default)]
    pub struct AsyncConfig: "async_config" {
        /// By kind and role.
        pub properties: Vec<AsyncProp>,
    }
    V1_3 => [properties as SixMasks,]
    V1_4.. => [properties,]
}

/// Masks of packets, ports and rules that are gone, for a master and for a slave each.
pub(crate) struct SixMasks;

impl SixMasks {
    /// The place of a property among the masks, and its mask.
    fn place(property: &AsyncProp) -> Option<(usize, u32)> {
        Some(match property {
            AsyncProp::PacketInMaster { mask } => (0, mask.0),
            AsyncProp::PacketInSlave { mask } => (1, mask.0),
            AsyncProp::PortStatusMaster { mask } => (2, mask.0),
            AsyncProp::PortStatusSlave { mask } => (3, mask.0),
            AsyncProp::FlowRemovedMaster { mask } => (4, mask.0),
            AsyncProp::FlowRemovedSlave { mask } => (5, mask.0),
            _ => return None,
        })
    }
}

impl Encoding<Vec<AsyncProp>> for SixMasks {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<AsyncProp>> {
        let mut masks = [[0; 2]; 3];
        for mask in masks.as_flattened_mut() {
            *mask = u32::parse(r)?;
        }
        let [packet_in, port_status, flow_removed] = masks;
        Ok(vec![
            AsyncProp::PacketInSlave { mask: PacketInReasons(packet_in[1]) },
            AsyncProp::PacketInMaster { mask: PacketInReasons(packet_in[0]) },
            AsyncProp::PortStatusSlave { mask: PortReasons(port_status[1]) },
            AsyncProp::PortStatusMaster { mask: PortReasons(port_status[0]) },
            AsyncProp::FlowRemovedSlave { mask: FlowRemovedReasons(flow_removed[1]) },
            AsyncProp::FlowRemovedMaster { mask: FlowRemovedReasons(flow_removed[0]) },
        ])
    }

    fn encode(value: &Vec<AsyncProp>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (version, mut masks) = (out.version(), [None; 6]);
        let lacks = |what| {
            let needs = Some(Version::V1_4).filter(|&needs| needs > version);
            EncodeError { what, version, needs }
        };
        for property in value {
            let place = Self::place(property);
            let (place, mask) = place.ok_or_else(|| lacks("async property without a mask"))?;
            let free = masks.get_mut(place).filter(|known| known.is_none());
            *free.ok_or_else(|| lacks("async property twice"))? = Some(mask);
        }
        for mask in masks {
            mask.ok_or_else(|| lacks("events left as they are"))?.encode(out)?;
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

    fn six() -> Vec<AsyncProp> {
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
    fn six_masks_are_six_properties() {
        let config = AsyncConfig { properties: six() };
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
            let told = format!("{version}1b003800000001 {properties}");
            message_both_ways(&told, &Message::GetAsyncReply(config.clone()));
            message_both_ways(&format!("{version}1a000800000001"), &Message::GetAsyncRequest);
        }
        let in_1_0 = format!("0104002800000000 00002320 00000013 {masks}");
        message_both_ways(&in_1_0, &Message::NxSetAsyncConfig { properties: six() });
    }

    #[test]
    fn masks_are_all_or_nothing() {
        let some = |properties| Message::SetAsync(AsyncConfig { properties });
        let no = written(&some(six().split_off(1)), Version::V1_3).unwrap_err();
        assert_eq!(no.to_string(), "events left as they are needs 1.4, this is 1.3");
        let twice = [six(), six()].concat();
        assert!(written(&some(twice), Version::V1_3).is_err());
        let more = vec![AsyncProp::RoleStatusSlave { mask: RoleReasons(1) }];
        assert!(written(&some(more), Version::V1_3).is_err());
    }

    #[test]
    fn every_property_has_bytes_and_comes_back() {
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
