//! Nicira extensions other than flows, packets and actions. Open vSwitch, `nicira-ext.h`.

use super::codec::ListItem;
use super::codec::versions::*;
use super::rows::{choice, codes, record, tlv};

codes! {
    /// `NX_ROLE_*`: role of a controller, numbered differently from [`Role`](super::Role).
    pub struct NxRole(u32);
    OTHER = 0, V1_0, "Full access, shared with others.";
    MASTER = 1, V1_0, "Full access; at most one controller is master.";
    SLAVE = 2, V1_0, "Read-only access.";
}

codes! {
    /// `NXFF_*`: format of flow entries in 1.0.
    pub struct NxFlowFormat(u32);
    OPENFLOW10 = 0, V1_0, "Messages of OpenFlow 1.0.";
    NXM = 2, V1_0, "Messages of Nicira, with an extensible match.";
}

codes! {
    /// `NXPIF_*`: format of packet-ins.
    pub struct NxPacketInFormat(u32);
    STANDARD = 0, V1_0, "The standard message of the version.";
    NXT_PACKET_IN = 1, V1_0, "[`NxPacketIn`](super::NxPacketIn).";
    NXT_PACKET_IN2 = 2, V1_0, "[`NxPacketIn2`](super::NxPacketIn2).";
}

codes! {
    /// `NXTTMC_*`: command of an [`NxTlvTableMod`].
    pub struct NxTlvCommand(u16);
    ADD = 0, V1_0, "Add mappings.";
    DELETE = 1, V1_0, "Delete the given mappings.";
    CLEAR = 2, V1_0, "Delete all mappings.";
}

record! {
    /// Maps a tunnel option (TLV) to a field `tun_metadata0` to `tun_metadata63`.
    #[derive(Default)]
    pub struct NxTlvMap: "tlv map" {
        /// Class of the option.
        pub option_class: u16,
        /// Type of the option.
        pub option_type: u8,
        /// Length of the option, bytes; a multiple of 4.
        pub option_len: u8,
        /// Number of the field.
        pub index: u16,
    }
    V1_0.. => [option_class, option_type, option_len, index, pad 2,]
}

impl ListItem for NxTlvMap {}

record! {
    /// Changes the mappings of tunnel options.
    #[derive(Default)]
    pub struct NxTlvTableMod: "tlv_table_mod" {
        /// What to do.
        pub command: NxTlvCommand,
        /// Mappings.
        pub maps: Vec<NxTlvMap>,
    }
    V1_0.. => [command, pad 6, maps,]
}

record! {
    /// The mappings of tunnel options.
    #[derive(Default)]
    pub struct NxTlvTableReply: "tlv_table_reply" {
        /// Maximum total length of the options, bytes.
        pub max_option_space: u32,
        /// Maximum number of fields.
        pub max_fields: u16,
        /// Current mappings.
        pub maps: Vec<NxTlvMap>,
    }
    V1_0.. => [max_option_space, max_fields, pad 10, maps,]
}

choice! {
    /// Property of the packets of a tracked connection.
    pub enum NxCtTupleProp: "ct tuple property" {
        /// Source address.
        Src "src" {
            /// IPv6 address; an IPv4 address as `::ffff:a.b.c.d`.
            addr: [u8; 16],
        } = { V1_0.. => 0 [addr,] };
        /// Destination address.
        Dst "dst" {
            /// IPv6 address; an IPv4 address as `::ffff:a.b.c.d`.
            addr: [u8; 16],
        } = { V1_0.. => 1 [addr,] };
        /// Source port.
        SrcPort "src_port" {
            /// Port number.
            port: u16,
        } = { V1_0.. => 2 [port, pad 2,] };
        /// Destination port.
        DstPort "dst_port" {
            /// Port number.
            port: u16,
        } = { V1_0.. => 3 [port, pad 2,] };
        /// ICMP identifier.
        IcmpId "icmp_id" {
            /// Identifier.
            id: u16,
        } = { V1_0.. => 4 [id, pad 2,] };
        /// ICMP type.
        IcmpType "icmp_type" {
            /// Type.
            icmp_type: u8,
        } = { V1_0.. => 5 [icmp_type,] };
        /// ICMP code.
        IcmpCode "icmp_code" {
            /// Code.
            icmp_code: u8,
        } = { V1_0.. => 6 [icmp_code,] };
    }
}

tlv!(NxCtTupleProp, Outside, Property);

choice! {
    /// Property that selects the tracked connections to flush.
    pub enum NxCtProp: "ct property" {
        /// Packets in the original direction.
        OrigTuple "orig_tuple" {
            /// Properties of the packets.
            tuple: Vec<NxCtTupleProp>,
        } = { V1_0.. => 0 [pad 4, tuple,] };
        /// Packets in the reply direction.
        ReplyTuple "reply_tuple" {
            /// Properties of the packets.
            tuple: Vec<NxCtTupleProp>,
        } = { V1_0.. => 1 [pad 4, tuple,] };
        /// Connection tracking zone.
        ZoneId "zone_id" {
            /// Zone number.
            zone_id: u16,
        } = { V1_0.. => 2 [zone_id, pad 2,] };
        /// Connection mark.
        Mark "mark" {
            /// Mark.
            mark: u32,
        } = { V1_0.. => 3 [mark,] };
        /// Bits of the mark to compare.
        MarkMask "mark_mask" {
            /// Mask.
            mask: u32,
        } = { V1_0.. => 4 [mask,] };
        /// Connection labels.
        Labels "labels" {
            /// Labels.
            labels: [u8; 16],
        } = { V1_0.. => 5 [labels,] };
        /// Bits of the labels to compare.
        LabelsMask "labels_mask" {
            /// Mask.
            mask: [u8; 16],
        } = { V1_0.. => 6 [mask,] };
    }
}

tlv!(NxCtProp, Outside, Property);

record! {
    /// Flushes tracked connections.
    #[derive(Default)]
    pub struct NxCtFlush: "ct_flush" {
        /// IP protocol; 0 is any.
        pub ip_proto: u8,
        /// Which connections; all without properties.
        pub properties: Vec<NxCtProp>,
    }
    V1_0.. => [ip_proto, pad 7, properties,]
}

record! {
    /// Counters of an IPFIX exporter.
    #[derive(Default)]
    pub struct NxIpfixStats: "ipfix stats" {
        /// Flows since start.
        pub total_flows: u64,
        /// Current flows.
        pub current_flows: u64,
        /// Sampled packets.
        pub pkts: u64,
        /// Sampled IPv4 packets.
        pub ipv4_pkts: u64,
        /// Sampled IPv6 packets.
        pub ipv6_pkts: u64,
        /// Packets that could not be sampled.
        pub error_pkts: u64,
        /// IPv4 packets that could not be sampled.
        pub ipv4_error_pkts: u64,
        /// IPv6 packets that could not be sampled.
        pub ipv6_error_pkts: u64,
        /// IPFIX packets sent to collectors.
        pub tx_pkts: u64,
        /// IPFIX packets that could not be sent.
        pub tx_errors: u64,
        /// Collector set.
        pub collector_set_id: u32,
    }
    V1_0.. => [
        total_flows, current_flows, pkts, ipv4_pkts, ipv6_pkts, error_pkts, ipv4_error_pkts, ipv6_error_pkts,
        tx_pkts, tx_errors, collector_set_id, pad 4,
    ]
}

impl ListItem for NxIpfixStats {}
