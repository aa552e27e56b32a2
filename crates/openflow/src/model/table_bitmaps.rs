//! What tables of 1.0 to 1.2 can do, as sets of bits in the numbering of the version. §7.3.5.4.
//!
//! A name with a version at its end has another number in other versions.

use super::codec::{Codec, Encoding};
use super::reader::Reader;
use super::rows::flags;
use crate::{EncodeError, Encoder, Result};

flags! {
    /// `OFPIT_*` as bits.
    pub struct TableInstructions(u32);
    GOTO_TABLE = 0x2, V1_1, "On to a later table.";
    WRITE_METADATA = 0x4, V1_1, "Writes metadata.";
    WRITE_ACTIONS = 0x8, V1_1, "Adds to the action set.";
    APPLY_ACTIONS = 0x10, V1_1, "Does something now.";
    CLEAR_ACTIONS = 0x20, V1_1, "Empties the action set.";
}

flags! {
    /// `OFPAT_*` as bits.
    pub struct TableActions(u32);
    OUTPUT = 0x1, V1_1, "Sends out of a port.";
    SET_VLAN_VID = 0x2, V1_1 ..= V1_1, "Sets the VLAN.";
    SET_VLAN_PCP = 0x4, V1_1 ..= V1_1, "Sets the priority in the VLAN.";
    SET_DL_SRC = 0x8, V1_1 ..= V1_1, "Sets the Ethernet source.";
    SET_DL_DST = 0x10, V1_1 ..= V1_1, "Sets the Ethernet destination.";
    SET_NW_SRC = 0x20, V1_1 ..= V1_1, "Sets the IP source.";
    SET_NW_DST = 0x40, V1_1 ..= V1_1, "Sets the IP destination.";
    SET_NW_TOS = 0x80, V1_1 ..= V1_1, "Sets the DSCP.";
    SET_NW_ECN = 0x100, V1_1 ..= V1_1, "Sets the ECN.";
    SET_TP_SRC = 0x200, V1_1 ..= V1_1, "Sets the source port.";
    SET_TP_DST = 0x400, V1_1 ..= V1_1, "Sets the destination port.";
    COPY_TTL_OUT = 0x800, V1_1, "Copies the TTL outwards.";
    COPY_TTL_IN = 0x1000, V1_1, "Copies the TTL inwards.";
    SET_MPLS_LABEL = 0x2000, V1_1 ..= V1_1, "Sets the MPLS label.";
    SET_MPLS_TC = 0x4000, V1_1 ..= V1_1, "Sets the MPLS traffic class.";
    SET_MPLS_TTL = 0x8000, V1_1, "Sets the MPLS TTL.";
    DEC_MPLS_TTL = 0x0001_0000, V1_1, "Takes one from the MPLS TTL.";
    PUSH_VLAN = 0x0002_0000, V1_1, "Puts a VLAN tag on.";
    POP_VLAN = 0x0004_0000, V1_1, "Takes a VLAN tag off.";
    PUSH_MPLS = 0x0008_0000, V1_1, "Puts an MPLS shim on.";
    POP_MPLS = 0x0010_0000, V1_1, "Takes an MPLS shim off.";
    SET_QUEUE = 0x0020_0000, V1_1, "Picks a queue.";
    GROUP = 0x0040_0000, V1_1, "Goes on in a group.";
    SET_NW_TTL = 0x0080_0000, V1_1, "Sets the IP TTL.";
    DEC_NW_TTL = 0x0100_0000, V1_1, "Takes one from the IP TTL.";
    SET_FIELD = 0x0200_0000, V1_2, "Sets a field.";
}

flags! {
    /// Fields as bits: `OFPFW_*` of 1.0 and 1.1, the numbers of `OXM_OF_*` in 1.2.
    pub struct TableFields(u64);
    IN_PORT = 0x1, V1_0 ..= V1_2, "The port it came in at.";
    IN_PHY_PORT = 0x2, V1_2 ..= V1_2, "The port below that.";
    METADATA = 0x4, V1_2 ..= V1_2, "Metadata.";
    ETH_DST = 0x8, V1_2 ..= V1_2, "Ethernet destination.";
    ETH_SRC = 0x10, V1_2 ..= V1_2, "Ethernet source.";
    ETH_TYPE = 0x20, V1_2 ..= V1_2, "Type of what Ethernet carries.";
    VLAN_VID = 0x40, V1_2 ..= V1_2, "VLAN.";
    VLAN_PCP = 0x80, V1_2 ..= V1_2, "Priority in the VLAN.";
    IP_DSCP = 0x100, V1_2 ..= V1_2, "DSCP.";
    IP_ECN = 0x200, V1_2 ..= V1_2, "ECN.";
    IP_PROTO = 0x400, V1_2 ..= V1_2, "Protocol above IP.";
    IPV4_SRC = 0x800, V1_2 ..= V1_2, "IPv4 source.";
    IPV4_DST = 0x1000, V1_2 ..= V1_2, "IPv4 destination.";
    TCP_SRC = 0x2000, V1_2 ..= V1_2, "TCP source.";
    TCP_DST = 0x4000, V1_2 ..= V1_2, "TCP destination.";
    UDP_SRC = 0x8000, V1_2 ..= V1_2, "UDP source.";
    UDP_DST = 0x0001_0000, V1_2 ..= V1_2, "UDP destination.";
    SCTP_SRC = 0x0002_0000, V1_2 ..= V1_2, "SCTP source.";
    SCTP_DST = 0x0004_0000, V1_2 ..= V1_2, "SCTP destination.";
    ICMPV4_TYPE = 0x0008_0000, V1_2 ..= V1_2, "ICMP type.";
    ICMPV4_CODE = 0x0010_0000, V1_2 ..= V1_2, "ICMP code.";
    ARP_OP = 0x0020_0000, V1_2 ..= V1_2, "ARP operation.";
    ARP_SPA = 0x0040_0000, V1_2 ..= V1_2, "ARP sender.";
    ARP_TPA = 0x0080_0000, V1_2 ..= V1_2, "ARP target.";
    ARP_SHA = 0x0100_0000, V1_2 ..= V1_2, "ARP sender, Ethernet.";
    ARP_THA = 0x0200_0000, V1_2 ..= V1_2, "ARP target, Ethernet.";
    IPV6_SRC = 0x0400_0000, V1_2 ..= V1_2, "IPv6 source.";
    IPV6_DST = 0x0800_0000, V1_2 ..= V1_2, "IPv6 destination.";
    IPV6_FLABEL = 0x1000_0000, V1_2 ..= V1_2, "IPv6 flow label.";
    ICMPV6_TYPE = 0x2000_0000, V1_2 ..= V1_2, "Type of ICMP over IPv6.";
    ICMPV6_CODE = 0x4000_0000, V1_2 ..= V1_2, "Code of ICMP over IPv6.";
    IPV6_ND_TARGET = 0x8000_0000, V1_2 ..= V1_2, "Target of neighbour discovery.";
    IPV6_ND_SLL = 0x0001_0000_0000, V1_2 ..= V1_2, "Its source, Ethernet.";
    IPV6_ND_TLL = 0x0002_0000_0000, V1_2 ..= V1_2, "Its target, Ethernet.";
    MPLS_LABEL = 0x0004_0000_0000, V1_2 ..= V1_2, "MPLS label.";
    MPLS_TC = 0x0008_0000_0000, V1_2 ..= V1_2, "MPLS traffic class.";
    DL_VLAN = 0x2, V1_0 ..= V1_1, "VLAN.";
    DL_SRC = 0x4, V1_0 ..= V1_0, "Ethernet source.";
    DL_DST = 0x8, V1_0 ..= V1_0, "Ethernet destination.";
    DL_TYPE_1_0 as "DL_TYPE" = 0x10, V1_0 ..= V1_0, "Type of what Ethernet carries.";
    NW_PROTO = 0x20, V1_0 ..= V1_1, "Protocol above IP.";
    TP_SRC = 0x40, V1_0 ..= V1_1, "Source port.";
    TP_DST = 0x80, V1_0 ..= V1_1, "Destination port.";
    NW_SRC = 0x3f00, V1_0 ..= V1_0, "All bits of the IP source.";
    NW_DST = 0x000f_c000, V1_0 ..= V1_0, "All bits of the IP destination.";
    DL_VLAN_PCP_1_0 as "DL_VLAN_PCP" = 0x0010_0000, V1_0 ..= V1_0, "Priority in the VLAN.";
    NW_TOS_1_0 as "NW_TOS" = 0x0020_0000, V1_0 ..= V1_0, "Type of service.";
    DL_VLAN_PCP_1_1 as "DL_VLAN_PCP" = 0x4, V1_1 ..= V1_1, "Priority in the VLAN.";
    DL_TYPE_1_1 as "DL_TYPE" = 0x8, V1_1 ..= V1_1, "Type of what Ethernet carries.";
    NW_TOS_1_1 as "NW_TOS" = 0x10, V1_1 ..= V1_1, "DSCP.";
    MPLS_LABEL_1_1 as "MPLS_LABEL" = 0x100, V1_1 ..= V1_1, "MPLS label.";
    MPLS_TC_1_1 as "MPLS_TC" = 0x200, V1_1 ..= V1_1, "MPLS traffic class.";
}

/// Fields in the 32 bits that 1.0 and 1.1 have for them.
pub(crate) struct TableFields32;

impl Encoding<TableFields> for TableFields32 {
    fn parse(r: &mut Reader<'_>) -> Result<TableFields> {
        u32::parse(r).map(|bits| TableFields(bits.into()))
    }

    fn encode(value: &TableFields, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let lacking = EncodeError { what: "set of fields", version: out.version(), needs: None };
        u32::try_from(value.0).map_err(|_| lacking)?.encode(out)
    }
}
