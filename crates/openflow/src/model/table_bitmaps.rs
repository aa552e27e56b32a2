//! Capabilities of tables in OpenFlow 1.0 to 1.2, as bitmaps. §7.3.5.4.

use super::codec::{Codec, Encoding};
use super::reader::Reader;
use super::rows::flags;
use crate::{EncodeError, Encoder, Result};

flags! {
    /// Bitmap of instructions, one bit for each `OFPIT_*`.
    pub struct TableInstructions(u32);
    GOTO_TABLE = 0x2, V1_1, "Continue in a later table.";
    WRITE_METADATA = 0x4, V1_1, "Write metadata.";
    WRITE_ACTIONS = 0x8, V1_1, "Merge actions into the action set.";
    APPLY_ACTIONS = 0x10, V1_1, "Apply actions immediately.";
    CLEAR_ACTIONS = 0x20, V1_1, "Clear the action set.";
}

flags! {
    /// Bitmap of actions, one bit for each `OFPAT_*`.
    pub struct TableActions(u64 as u32);
    OUTPUT = 0x1, V1_1, "Output to a port.";
    SET_VLAN_VID = 0x2, V1_1 ..= V1_1, "Set the VLAN ID.";
    SET_VLAN_PCP = 0x4, V1_1 ..= V1_1, "Set the VLAN priority.";
    SET_DL_SRC = 0x8, V1_1 ..= V1_1, "Set the Ethernet source address.";
    SET_DL_DST = 0x10, V1_1 ..= V1_1, "Set the Ethernet destination address.";
    SET_NW_SRC = 0x20, V1_1 ..= V1_1, "Set the IP source address.";
    SET_NW_DST = 0x40, V1_1 ..= V1_1, "Set the IP destination address.";
    SET_NW_TOS = 0x80, V1_1 ..= V1_1, "Set the IP DSCP.";
    SET_NW_ECN = 0x100, V1_1 ..= V1_1, "Set the IP ECN.";
    SET_TP_SRC = 0x200, V1_1 ..= V1_1, "Set the TCP/UDP/SCTP source port.";
    SET_TP_DST = 0x400, V1_1 ..= V1_1, "Set the TCP/UDP/SCTP destination port.";
    COPY_TTL_OUT = 0x800, V1_1, "Copy the TTL outwards.";
    COPY_TTL_IN = 0x1000, V1_1, "Copy the TTL inwards.";
    SET_MPLS_LABEL = 0x2000, V1_1 ..= V1_1, "Set the MPLS label.";
    SET_MPLS_TC = 0x4000, V1_1 ..= V1_1, "Set the MPLS traffic class.";
    SET_MPLS_TTL = 0x8000, V1_1, "Set the MPLS TTL.";
    DEC_MPLS_TTL = 0x0001_0000, V1_1, "Decrement the MPLS TTL.";
    PUSH_VLAN = 0x0002_0000, V1_1, "Push a VLAN tag.";
    POP_VLAN = 0x0004_0000, V1_1, "Pop the outermost VLAN tag.";
    PUSH_MPLS = 0x0008_0000, V1_1, "Push an MPLS label.";
    POP_MPLS = 0x0010_0000, V1_1, "Pop the outermost MPLS label.";
    SET_QUEUE = 0x0020_0000, V1_1, "Set the output queue.";
    GROUP = 0x0040_0000, V1_1, "Process with a group.";
    SET_NW_TTL = 0x0080_0000, V1_1, "Set the IP TTL.";
    DEC_NW_TTL = 0x0100_0000, V1_1, "Decrement the IP TTL.";
    SET_FIELD = 0x0200_0000, V1_2, "Set a header field.";
}

flags! {
    /// Bitmap of fields, numbered as in OpenFlow 1.2: one bit for each `OFPXMT_OFB_*`. On the wire, 1.0 and 1.1 have the
    /// bits of `OFPFW_*` and `OFPFMF_*`, some of which stand for several fields of 1.2.
    pub struct TableFields(u128 as u64);
    IN_PORT = 0x1, V1_0..=V1_2, "Ingress port.";
    IN_PHY_PORT = 0x2, V1_2..=V1_2, "Physical ingress port.";
    METADATA = 0x4, V1_1..=V1_1 => 0x8000 | V1_2..=V1_2, "Metadata.";
    ETH_DST = 0x8, V1_0..=V1_0 | V1_1..=V1_1 => 0x1000 | V1_2..=V1_2, "Ethernet destination address.";
    ETH_SRC = 0x10, V1_0..=V1_0 => 0x4 | V1_1..=V1_1 => 0x800 | V1_2..=V1_2, "Ethernet source address.";
    ETH_TYPE = 0x20, V1_0..=V1_0 => 0x10 | V1_1..=V1_1 => 0x8 | V1_2..=V1_2, "Ethertype.";
    VLAN_VID = 0x40, V1_0..=V1_0 => 0x2 | V1_1..=V1_1 => 0x2 | V1_2..=V1_2, "VLAN ID.";
    VLAN_PCP = 0x80, V1_0..=V1_0 => 0x0010_0000 | V1_1..=V1_1 => 0x4 | V1_2..=V1_2, "VLAN priority.";
    IP_DSCP = 0x100, V1_0..=V1_0 => 0x0020_0000 | V1_1..=V1_1 => 0x10 | V1_2..=V1_2, "IP DSCP; in 1.0 the type of service.";
    IP_ECN = 0x200, V1_2..=V1_2, "IP ECN.";
    IP_PROTO = 0x400, V1_0..=V1_0 => 0x20 | V1_1..=V1_1 => 0x20 | V1_2..=V1_2, "IP protocol; before 1.2 also the ARP operation.";
    IPV4_SRC = 0x800, V1_0..=V1_0 => 0x3f00 | V1_1..=V1_1 => 0x2000 | V1_2..=V1_2, "IPv4 source address; before 1.2 also the ARP sender address.";
    IPV4_DST = 0x1000, V1_0..=V1_0 => 0x000f_c000 | V1_1..=V1_1 => 0x4000 | V1_2..=V1_2, "IPv4 destination address; before 1.2 also the ARP target address.";
    TCP_SRC = 0x2000, V1_2..=V1_2, "TCP source port.";
    TCP_DST = 0x4000, V1_2..=V1_2, "TCP destination port.";
    UDP_SRC = 0x8000, V1_2..=V1_2, "UDP source port.";
    UDP_DST = 0x0001_0000, V1_2..=V1_2, "UDP destination port.";
    SCTP_SRC = 0x0002_0000, V1_2..=V1_2, "SCTP source port.";
    SCTP_DST = 0x0004_0000, V1_2..=V1_2, "SCTP destination port.";
    ICMPV4_TYPE = 0x0008_0000, V1_2..=V1_2, "ICMP type.";
    ICMPV4_CODE = 0x0010_0000, V1_2..=V1_2, "ICMP code.";
    ARP_OP = 0x0020_0000, V1_2..=V1_2, "ARP operation.";
    ARP_SPA = 0x0040_0000, V1_2..=V1_2, "ARP sender IPv4 address.";
    ARP_TPA = 0x0080_0000, V1_2..=V1_2, "ARP target IPv4 address.";
    ARP_SHA = 0x0100_0000, V1_2..=V1_2, "ARP sender Ethernet address.";
    ARP_THA = 0x0200_0000, V1_2..=V1_2, "ARP target Ethernet address.";
    IPV6_SRC = 0x0400_0000, V1_2..=V1_2, "IPv6 source address.";
    IPV6_DST = 0x0800_0000, V1_2..=V1_2, "IPv6 destination address.";
    IPV6_FLABEL = 0x1000_0000, V1_2..=V1_2, "IPv6 flow label.";
    ICMPV6_TYPE = 0x2000_0000, V1_2..=V1_2, "Type of ICMP for IPv6.";
    ICMPV6_CODE = 0x4000_0000, V1_2..=V1_2, "Code of ICMP for IPv6.";
    IPV6_ND_TARGET = 0x8000_0000, V1_2..=V1_2, "Target address in neighbor discovery.";
    IPV6_ND_SLL = 0x0001_0000_0000, V1_2..=V1_2, "Source link-layer address in neighbor discovery.";
    IPV6_ND_TLL = 0x0002_0000_0000, V1_2..=V1_2, "Target link-layer address in neighbor discovery.";
    MPLS_LABEL = 0x0004_0000_0000, V1_1..=V1_1 => 0x100 | V1_2..=V1_2, "MPLS label.";
    MPLS_TC = 0x0008_0000_0000, V1_1..=V1_1 => 0x200 | V1_2..=V1_2, "MPLS traffic class.";
    TP_SRC = 0x0010_0000_0000, V1_0..=V1_1 => 0x40, "Source port of any transport protocol; also the ICMP type.";
    TP_DST = 0x0020_0000_0000, V1_0..=V1_1 => 0x80, "Destination port of any transport protocol; also the ICMP code.";
    MATCH_TYPE = 0x0040_0000_0000, V1_1..=V1_1 => 0x400, "Type of the match.";
}

/// [`TableFields`] in the 32 bits of OpenFlow 1.0 and 1.1.
pub(crate) struct TableFields32;

impl Encoding<TableFields> for TableFields32 {
    fn parse(r: &mut Reader<'_>) -> Result<TableFields> {
        u32::parse(r).map(|bits| TableFields::from_wire(bits.into(), r.version()))
    }

    fn encode(value: &TableFields, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let unsupported = EncodeError::new("unknown TableFields", out.version(), None);
        let bits = value.to_wire(out.version())?;
        u32::try_from(bits).map_err(|_| unsupported)?.encode(out)
    }
}
