//! `FEATURES_REPLY`: datapath ID and capabilities of a switch. §7.3.1.

use super::codec::versions::*;
use super::port::Port;
use super::rows::{flags, record};
use crate::DatapathId;

flags! {
    /// `OFPC_*`: capabilities of a switch. §7.3.1.
    pub struct Capabilities(u64 as u32);
    FLOW_STATS = 1, V1_0, "Flow statistics.";
    TABLE_STATS = 2, V1_0, "Table statistics.";
    PORT_STATS = 4, V1_0, "Port statistics.";
    STP = 0x1_0000_0000, V1_0..=V1_0 => 8, "802.1D spanning tree.";
    GROUP_STATS = 8, V1_1, "Group statistics.";
    IP_REASM = 0x20, V1_0, "Can reassemble IP fragments.";
    QUEUE_STATS = 0x40, V1_0, "Queue statistics.";
    ARP_MATCH_IP = 0x80, V1_0 ..= V1_1, "Matches IP addresses in ARP packets.";
    PORT_BLOCKED = 0x100, V1_2, "Blocks looping ports.";
    BUNDLES = 0x200, V1_4, "Supports bundles.";
    FLOW_MONITORING = 0x400, V1_4, "Supports flow monitors.";
}

flags! {
    /// Actions that a switch supports, one bit for each `OFPAT_*`. OpenFlow 1.0.0 §5.3.1.
    pub struct ActionBits(u32);
    OUTPUT = 1, V1_0, "Output to a port.";
    SET_VLAN_VID = 2, V1_0, "Set the VLAN ID.";
    SET_VLAN_PCP = 4, V1_0, "Set the VLAN priority.";
    STRIP_VLAN = 8, V1_0, "Remove the VLAN tag.";
    SET_DL_SRC = 0x10, V1_0, "Set the Ethernet source address.";
    SET_DL_DST = 0x20, V1_0, "Set the Ethernet destination address.";
    SET_NW_SRC = 0x40, V1_0, "Set the IP source address.";
    SET_NW_DST = 0x80, V1_0, "Set the IP destination address.";
    SET_NW_TOS = 0x100, V1_0, "Set the IP type of service.";
    SET_TP_SRC = 0x200, V1_0, "Set the TCP/UDP source port.";
    SET_TP_DST = 0x400, V1_0, "Set the TCP/UDP destination port.";
    ENQUEUE = 0x800, V1_0, "Output to a queue.";
}

record! {
    /// Datapath ID, capabilities and (before 1.3) ports of a switch. §7.3.1.
    #[derive(Default)]
    pub struct SwitchFeatures: "features_reply" {
        /// Datapath ID.
        pub datapath_id: DatapathId,
        /// Maximum number of packets buffered at once.
        pub n_buffers: u32,
        /// Number of flow tables.
        pub n_tables: u8,
        /// Number of an auxiliary connection; 0 is the main connection. Since 1.3.
        pub auxiliary_id: u8,
        /// Capabilities.
        pub capabilities: Capabilities,
        /// Supported actions. Only 1.0.
        pub actions: ActionBits,
        /// Ports. Since 1.3 they are requested with [`PortDesc`](super::MultipartRequest::PortDesc).
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
            capabilities: Capabilities(7),
            ..SwitchFeatures::default()
        }
    }

    // Bytes from Open vSwitch, tests/ofp-print.at.
    #[test]
    fn the_ports_are_part_of_the_features_before_1_3() {
        let Message::FeaturesReply(features) = survives(
            "0106 0050 00000001 0000505400000001 00000100 02000000 00000087 00000fff \
             fffe 505400000001 62723000000000000000000000000000 00000001 00000001 \
             00000000 00000000 00000000 00000000",
        ) else {
            panic!("no features_reply")
        };
        assert_eq!((features.actions, features.ports.len()), (ActionBits(0xfff), 1));
        for version in ["02", "03"] {
            let Message::FeaturesReply(features) = survives(&format!(
                "{version}06 0060 00000001 0000505400000001 00000100 02000000 00000087 00000000 \
                 fffffffe 00000000 505400000001 0000 62723000000000000000000000000000 00000001 \
                 00000001 00000000 00000000 00000000 00000000 00000000 00000000"
            )) else {
                panic!("no features_reply")
            };
            assert_eq!(features.ports.len(), 1);
        }
    }

    #[test]
    fn auxiliary_connections_have_an_id_since_1_3() {
        let features = Message::FeaturesReply(SwitchFeatures { auxiliary_id: 1, ..of_ovs() });
        for version in ["04", "05", "06"] {
            let bytes = format!(
                "{version}06 0020 00000001 0000505400000001 00000100 02010000 00000007 00000000"
            );
            message_both_ways(&bytes, &features);
        }
        let error = written(&features, Version::V1_2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "auxiliary_id requires OpenFlow 1.3; this session speaks 1.2"
        );
    }

    #[test]
    fn capability_bit_8_has_a_different_name_in_1_0() {
        for (version, capabilities, name) in [
            (Version::V1_0, Capabilities::STP, "stp"),
            (Version::V1_4, Capabilities::GROUP_STATS, "group_stats"),
        ] {
            let bit = Message::FeaturesReply(SwitchFeatures { capabilities, ..of_ovs() });
            assert_eq!(written(&bit, version).unwrap()[24..28], [0, 0, 0, 8], "{version}");
            let value = bit.to_value(version);
            let names = value.get("capabilities").unwrap();
            assert_eq!(names, &Value::List(vec![Value::text(name)]));
            assert_eq!(Message::from_value(&value, version), Ok(bit.clone()));
        }
    }

    #[test]
    fn an_error_names_the_truncated_field() {
        let error = parse("0406 0012 00000001 0000505400000001 0000").unwrap_err();
        assert_eq!(error.to_string(), "n_buffers at byte 16: truncated (needs 4 bytes, 2 left)");
    }
}
