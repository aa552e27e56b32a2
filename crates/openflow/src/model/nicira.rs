//! What Nicira added beside rules and packets: `nicira-ext.h` of Open vSwitch.

use super::codec::ListItem;
use super::codec::versions::*;
use super::rows::{choice, codes, record, tlv};

codes! {
    /// `NX_ROLE_*`: what a controller may do, numbered otherwise than since 1.2.
    pub struct NxRole(u32);
    OTHER = 0, V1_0, "Everything, like others.";
    MASTER = 1, V1_0, "Everything; at most one controller.";
    SLAVE = 2, V1_0, "Reading only.";
}

codes! {
    /// `NXFF_*`: how rules are told in 1.0.
    pub struct NxFlowFormat(u32);
    OPENFLOW10 = 0, V1_0, "As 1.0 does.";
    NXM = 2, V1_0, "With Nicira's match.";
}

codes! {
    /// `NXPIF_*`: how packets are told.
    pub struct NxPacketInFormat(u32);
    STANDARD = 0, V1_0, "As the version does.";
    NXT_PACKET_IN = 1, V1_0, "As Nicira's first form.";
    NXT_PACKET_IN2 = 2, V1_0, "As Nicira's second form.";
}

codes! {
    /// `NXTTMC_*`: what becomes of mappings of tunnel options.
    pub struct NxTlvCommand(u16);
    ADD = 0, V1_0, "New ones.";
    DELETE = 1, V1_0, "Those named go.";
    CLEAR = 2, V1_0, "All go.";
}

record! {
    /// An option of a tunnel, and the field `tun_metadata` that it is.
    #[derive(Default)]
    pub struct NxTlvMap: "tlv map" {
        /// Class of the option.
        pub option_class: u16,
        /// Type of the option.
        pub option_type: u8,
        /// Bytes of the option, a multiple of 4.
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
        /// What becomes of them.
        pub command: NxTlvCommand,
        /// Which.
        pub maps: Vec<NxTlvMap>,
    }
    V1_0.. => [command, pad 6, maps,]
}

record! {
    /// The mappings of tunnel options.
    #[derive(Default)]
    pub struct NxTlvTableReply: "tlv_table_reply" {
        /// Bytes of options that there is room for.
        pub max_option_space: u32,
        /// Fields that there are.
        pub max_fields: u16,
        /// Those in use.
        pub maps: Vec<NxTlvMap>,
    }
    V1_0.. => [max_option_space, max_fields, pad 10, maps,]
}

choice! {
    /// A part of a tracked connection.
    pub enum NxCtTupleProp: "ct tuple property" {
        /// Source address, of IPv4 as `::ffff:a.b.c.d`.
        Src "src" {
            /// The address.
            addr: [u8; 16],
        } = { V1_0.. => 0 [addr,] };
        /// Destination address, of IPv4 as `::ffff:a.b.c.d`.
        Dst "dst" {
            /// The address.
            addr: [u8; 16],
        } = { V1_0.. => 1 [addr,] };
        /// Source port.
        SrcPort "src_port" {
            /// The port.
            port: u16,
        } = { V1_0.. => 2 [port, pad 2,] };
        /// Destination port.
        DstPort "dst_port" {
            /// The port.
            port: u16,
        } = { V1_0.. => 3 [port, pad 2,] };
        /// Identifier of ICMP.
        IcmpId "icmp_id" {
            /// The identifier.
            id: u16,
        } = { V1_0.. => 4 [id, pad 2,] };
        /// Type of ICMP.
        IcmpType "icmp_type" {
            /// The type.
            icmp_type: u8,
        } = { V1_0.. => 5 [icmp_type,] };
        /// Code of ICMP.
        IcmpCode "icmp_code" {
            /// The code.
            icmp_code: u8,
        } = { V1_0.. => 6 [icmp_code,] };
    }
}

tlv!(NxCtTupleProp, Outside, Property);

choice! {
    /// What tracked connections must have to be forgotten.
    pub enum NxCtProp: "ct property" {
        /// How they began.
        OrigTuple "orig_tuple" {
            /// Its parts.
            tuple: Vec<NxCtTupleProp>,
        } = { V1_0.. => 0 [pad 4, tuple,] };
        /// How they are answered.
        ReplyTuple "reply_tuple" {
            /// Its parts.
            tuple: Vec<NxCtTupleProp>,
        } = { V1_0.. => 1 [pad 4, tuple,] };
        /// Zone.
        ZoneId "zone_id" {
            /// The zone.
            zone_id: u16,
        } = { V1_0.. => 2 [zone_id, pad 2,] };
        /// Mark.
        Mark "mark" {
            /// The mark.
            mark: u32,
        } = { V1_0.. => 3 [mark,] };
        /// Bits of the mark that count.
        MarkMask "mark_mask" {
            /// The bits.
            mask: u32,
        } = { V1_0.. => 4 [mask,] };
        /// Labels.
        Labels "labels" {
            /// The labels.
            labels: [u8; 16],
        } = { V1_0.. => 5 [labels,] };
        /// Bits of the labels that count.
        LabelsMask "labels_mask" {
            /// The bits.
            mask: [u8; 16],
        } = { V1_0.. => 6 [mask,] };
    }
}

tlv!(NxCtProp, Outside, Property);

record! {
    /// Makes the switch forget tracked connections.
    #[derive(Default)]
    pub struct NxCtFlush: "ct_flush" {
        /// Protocol over IP; 0 for any.
        pub ip_proto: u8,
        /// What they must have.
        pub properties: Vec<NxCtProp>,
    }
    V1_0.. => [ip_proto, pad 7, properties,]
}

record! {
    /// What an exporter of IPFIX counted.
    #[derive(Default)]
    pub struct NxIpfixStats: "ipfix stats" {
        /// Flows ever.
        pub total_flows: u64,
        /// Flows now.
        pub current_flows: u64,
        /// Packets sampled.
        pub pkts: u64,
        /// Of them IPv4.
        pub ipv4_pkts: u64,
        /// Of them IPv6.
        pub ipv6_pkts: u64,
        /// Packets that could not be sampled.
        pub error_pkts: u64,
        /// Of them IPv4.
        pub ipv4_error_pkts: u64,
        /// Of them IPv6.
        pub ipv6_error_pkts: u64,
        /// Packets sent to collectors.
        pub tx_pkts: u64,
        /// Packets that could not be sent.
        pub tx_errors: u64,
        /// Which set of collectors.
        pub collector_set_id: u32,
    }
    V1_0.. => [
        total_flows, current_flows, pkts, ipv4_pkts, ipv6_pkts, error_pkts, ipv4_error_pkts, ipv6_error_pkts,
        tx_pkts, tx_errors, collector_set_id, pad 4,
    ]
}

impl ListItem for NxIpfixStats {}
