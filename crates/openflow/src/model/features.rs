//! `FEATURES_REPLY`: who a switch is and what it can do. §7.3.1.

use super::codec::versions::*;
use super::port::Port;
use super::rows::{flags, record};
use crate::DatapathId;

flags! {
    /// `OFPC_*`: what a switch can do. §7.3.1.
    pub struct Capabilities(u32);
    FLOW_STATS = 1, V1_0, "Counts per rule.";
    TABLE_STATS = 2, V1_0, "Counts per table.";
    PORT_STATS = 4, V1_0, "Counts per port.";
    STP = 8, V1_0 ..= V1_0, "Speaks the spanning tree protocol.";
    GROUP_STATS = 8, V1_1, "Counts per group.";
    IP_REASM = 0x20, V1_0, "Puts fragments of IP together.";
    QUEUE_STATS = 0x40, V1_0, "Counts per queue.";
    ARP_MATCH_IP = 0x80, V1_0 ..= V1_1, "Matches addresses in ARP.";
    PORT_BLOCKED = 0x100, V1_2, "Blocks ports that make loops.";
    BUNDLES = 0x200, V1_4, "Takes bundles.";
    FLOW_MONITORING = 0x400, V1_4, "Tells of changes of rules.";
}

flags! {
    /// `OFPAT_*` as bits: the actions that a switch of 1.0 can do. OpenFlow 1.0.0 §5.3.1.
    pub struct ActionBits(u32);
    OUTPUT = 1, V1_0, "Sends out of a port.";
    SET_VLAN_VID = 2, V1_0, "Sets the VLAN.";
    SET_VLAN_PCP = 4, V1_0, "Sets the priority in the VLAN.";
    STRIP_VLAN = 8, V1_0, "Takes the tag away.";
    SET_DL_SRC = 0x10, V1_0, "Sets the Ethernet source.";
    SET_DL_DST = 0x20, V1_0, "Sets the Ethernet destination.";
    SET_NW_SRC = 0x40, V1_0, "Sets the IP source.";
    SET_NW_DST = 0x80, V1_0, "Sets the IP destination.";
    SET_NW_TOS = 0x100, V1_0, "Sets the type of service.";
    SET_TP_SRC = 0x200, V1_0, "Sets the source port.";
    SET_TP_DST = 0x400, V1_0, "Sets the destination port.";
    ENQUEUE = 0x800, V1_0, "Sends to a queue of a port.";
}

record! {
    /// Who a switch is and what it can do. §7.3.1.
    #[derive(Default)]
    pub struct SwitchFeatures: "features_reply" {
        /// Its identity.
        pub datapath_id: DatapathId,
        /// Packets that it can keep.
        pub n_buffers: u32,
        /// Its tables.
        pub n_tables: u8,
        /// Which of its connections this is, 0 for the main one.
        pub auxiliary_id: u8,
        /// What it can do.
        pub capabilities: Capabilities,
        /// Actions that it can do; only 1.0 tells.
        pub actions: ActionBits,
        /// Its ports; since 1.3 a `PORT_DESC` tells them.
        pub ports: Vec<Port>,
    }
    V1_0 => [datapath_id, n_buffers, n_tables, pad 3, capabilities, actions, ports,]
    V1_1..=V1_2 => [datapath_id, n_buffers, n_tables, pad 3, capabilities, pad 4, ports,]
    V1_3.. => [datapath_id, n_buffers, n_tables, auxiliary_id, pad 2, capabilities, pad 4,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::model::Message;
    use crate::model::roundtrip::{message_both_ways, parse, survives, written};
    use crate::model::value::Value;

    fn of_ovs() -> SwitchFeatures {
        SwitchFeatures {
            datapath_id: DatapathId(0x0000_5054_0000_0001),
            n_buffers: 256,
            n_tables: 2,
            capabilities: Capabilities(0x87),
            ..SwitchFeatures::default()
        }
    }

    // Bytes of `tests/ofp-print.at` of Open vSwitch.
    #[test]
    fn ports_stand_in_it_before_1_3() {
        let Message::FeaturesReply(read) = survives(
            "0106 0050 00000001 0000505400000001 00000100 02000000 00000087 00000fff \
             fffe 505400000001 62723000000000000000000000000000 00000001 00000001 \
             00000000 00000000 00000000 00000000",
        ) else {
            panic!("no features_reply")
        };
        assert_eq!((read.actions, read.ports.len()), (ActionBits(0xfff), 1));
        for version in ["02", "03"] {
            let Message::FeaturesReply(read) = survives(&format!(
                "{version}06 0060 00000001 0000505400000001 00000100 02000000 00000087 00000000 \
                 fffffffe 00000000 505400000001 0000 62723000000000000000000000000000 00000001 \
                 00000001 00000000 00000000 00000000 00000000 00000000 00000000"
            )) else {
                panic!("no features_reply")
            };
            assert_eq!(read.ports.len(), 1);
        }
    }

    #[test]
    fn since_1_3_a_connection_has_a_number() {
        let features = Message::FeaturesReply(SwitchFeatures { auxiliary_id: 1, ..of_ovs() });
        for version in ["04", "05", "06"] {
            let bytes = format!(
                "{version}06 0020 00000001 0000505400000001 00000100 02010000 00000087 00000000"
            );
            message_both_ways(&bytes, &features);
        }
        let no = written(&features, Version::V1_2).unwrap_err();
        assert_eq!(no.to_string(), "auxiliary_id needs 1.3, this is 1.2");
    }

    #[test]
    fn one_bit_has_two_names() {
        let bit =
            Message::FeaturesReply(SwitchFeatures { capabilities: Capabilities(8), ..of_ovs() });
        for (version, name) in [(Version::V1_0, "stp"), (Version::V1_4, "group_stats")] {
            let value = bit.to_value(version);
            let names = value.get("capabilities").unwrap();
            assert_eq!(names, &Value::List(vec![Value::text(name)]));
            assert_eq!(Message::from_value(&value, version), Ok(bit.clone()));
        }
    }

    #[test]
    fn a_fault_names_the_field() {
        let cut = parse("0406 0012 00000001 0000505400000001 0000").unwrap_err();
        assert_eq!(cut.to_string(), "n_buffers at byte 16 is cut off");
    }
}
