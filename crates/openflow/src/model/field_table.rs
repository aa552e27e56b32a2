//! The field table: one row for each match field.
//!
//! The columns are those of [`FieldRow`](super::FieldRow): constant, name, significant bits `in` bytes, text format,
//! masks, first version whose match can contain the field, prerequisites, headers (the canonical one first, each with
//! its number and the first version that has it), aliases, and where the field is specified (`meta-flow` is
//! `lib/meta-flow.xml` of Open vSwitch 3.7).
//!
//! Open vSwitch accepts Nicira's headers (classes 0 and 1) in every OXM match, therefore fields that have only such a
//! header exist since 1.2. In 1.0 it uses `tp_src` and `tp_dst` for SCTP too.

use super::field::{FieldFormat, FieldId, MaskSupport, Prerequisite, Prerequisites, fields};
use crate::Version;

/// `OFPIEH_*`: bits of `OXM_OF_IPV6_EXTHDR`. §7.2.3.7.
const IPV6_EXTHDR_FLAGS: &[(&str, u32)] = &[
    ("nonext", 1),
    ("esp", 2),
    ("auth", 4),
    ("dest", 8),
    ("frag", 0x10),
    ("router", 0x20),
    ("hop", 0x40),
    ("unrep", 0x80),
    ("unseq", 0x100),
];

/// Flags of the TCP header. RFC 9293 §3.1, RFC 3168, RFC 3540.
const TCP_FLAGS: &[(&str, u32)] = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ece", 0x40),
    ("cwr", 0x80),
    ("ns", 0x100),
];

/// Connection tracking state of a packet.
const CT_STATE_FLAGS: &[(&str, u32)] = &[
    ("new", 1),
    ("est", 2),
    ("rel", 4),
    ("rpl", 8),
    ("inv", 0x10),
    ("trk", 0x20),
    ("snat", 0x40),
    ("dnat", 0x80),
];

/// Flags of a tunnel header.
const TUNNEL_FLAGS: &[(&str, u32)] = &[("oam", 1)];

const NONE: Prerequisites = &[];
const IN_PORT: Prerequisites = &[Prerequisite::Present(FieldId::IN_PORT)];
const VLAN: Prerequisites = &[Prerequisite::Bits(FieldId::VLAN_VID, 0x1000)];
const IP: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x0800, 0x86dd])];
const IPV4: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x0800])];
const IPV6: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x86dd])];
const ARP: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x0806, 0x8035])];
const MPLS: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x8847, 0x8848])];
const PBB: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x88e7])];
const NSH: Prerequisites = &[Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x894f])];
const TCP: Prerequisites = &[Prerequisite::OneOf(FieldId::IP_PROTO, &[6])];
const UDP: Prerequisites = &[Prerequisite::OneOf(FieldId::IP_PROTO, &[17])];
const SCTP: Prerequisites = &[Prerequisite::OneOf(FieldId::IP_PROTO, &[132])];
const ICMP: Prerequisites = &[
    Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x0800]),
    Prerequisite::OneOf(FieldId::IP_PROTO, &[1]),
];
const ICMPV6: Prerequisites = &[
    Prerequisite::OneOf(FieldId::ETH_TYPE, &[0x86dd]),
    Prerequisite::OneOf(FieldId::IP_PROTO, &[58]),
];
const ND: Prerequisites = &[Prerequisite::OneOf(FieldId::ICMPV6_TYPE, &[135, 136])];
const ND_SOLICIT: Prerequisites = &[Prerequisite::OneOf(FieldId::ICMPV6_TYPE, &[135])];
const ND_ADVERT: Prerequisites = &[Prerequisite::OneOf(FieldId::ICMPV6_TYPE, &[136])];
const CT: Prerequisites = &[Prerequisite::Bits(FieldId::CT_STATE, 0x20)];

fields! {
    IN_PORT: in_port, 32 in 4, Port, No, V1_0, NONE, [OXM_OF_IN_PORT(0, V1_2)], ["in_port_oxm"], "§7.2.3.7";
    IN_PHY_PORT: in_phy_port, 32 in 4, Port, No, V1_2, IN_PORT, [OXM_OF_IN_PHY_PORT(1, V1_2)], [], "§7.2.3.7";
    METADATA: metadata, 64 in 8, Hex, Any, V1_1, NONE, [OXM_OF_METADATA(2, V1_2)], [], "§7.2.3.7";
    ETH_DST: eth_dst, 48 in 6, Mac, Any, V1_0, NONE, [OXM_OF_ETH_DST(3, V1_2), NXM_OF_ETH_DST(1, V1_0)], ["dl_dst"], "§7.2.3.7";
    ETH_SRC: eth_src, 48 in 6, Mac, Any, V1_0, NONE, [OXM_OF_ETH_SRC(4, V1_2), NXM_OF_ETH_SRC(2, V1_0)], ["dl_src"], "§7.2.3.7";
    ETH_TYPE: eth_type, 16 in 2, Hex, No, V1_0, NONE, [OXM_OF_ETH_TYPE(5, V1_2), NXM_OF_ETH_TYPE(3, V1_0)], ["dl_type"], "§7.2.3.7";
    VLAN_VID: vlan_vid, 13 in 2, Vlan, Any, V1_0, NONE, [OXM_OF_VLAN_VID(6, V1_2)], ["dl_vlan"], "§7.2.3.7";
    VLAN_PCP: vlan_pcp, 3 in 1, Decimal, No, V1_0, VLAN, [OXM_OF_VLAN_PCP(7, V1_2)], ["dl_vlan_pcp"], "§7.2.3.7";
    IP_DSCP: ip_dscp, 6 in 1, Decimal, No, V1_0, IP, [OXM_OF_IP_DSCP(8, V1_2)], [], "§7.2.3.7";
    IP_ECN: ip_ecn, 2 in 1, Decimal, No, V1_2, IP, [OXM_OF_IP_ECN(9, V1_2), NXM_NX_IP_ECN(28, V1_0)], ["nw_ecn"], "§7.2.3.7";
    IP_PROTO: ip_proto, 8 in 1, Decimal, No, V1_0, IP, [OXM_OF_IP_PROTO(10, V1_2), NXM_OF_IP_PROTO(6, V1_0)], ["nw_proto"], "§7.2.3.7";
    IPV4_SRC: ipv4_src, 32 in 4, Ipv4, Any, V1_0, IPV4, [OXM_OF_IPV4_SRC(11, V1_2), NXM_OF_IP_SRC(7, V1_0)], ["ip_src", "nw_src"], "§7.2.3.7";
    IPV4_DST: ipv4_dst, 32 in 4, Ipv4, Any, V1_0, IPV4, [OXM_OF_IPV4_DST(12, V1_2), NXM_OF_IP_DST(8, V1_0)], ["ip_dst", "nw_dst"], "§7.2.3.7";
    TCP_SRC: tcp_src, 16 in 2, Decimal, Nicira, V1_0, TCP, [OXM_OF_TCP_SRC(13, V1_2), NXM_OF_TCP_SRC(9, V1_0)], ["tp_src"], "§7.2.3.7";
    TCP_DST: tcp_dst, 16 in 2, Decimal, Nicira, V1_0, TCP, [OXM_OF_TCP_DST(14, V1_2), NXM_OF_TCP_DST(10, V1_0)], ["tp_dst"], "§7.2.3.7";
    UDP_SRC: udp_src, 16 in 2, Decimal, Nicira, V1_0, UDP, [OXM_OF_UDP_SRC(15, V1_2), NXM_OF_UDP_SRC(11, V1_0)], [], "§7.2.3.7";
    UDP_DST: udp_dst, 16 in 2, Decimal, Nicira, V1_0, UDP, [OXM_OF_UDP_DST(16, V1_2), NXM_OF_UDP_DST(12, V1_0)], [], "§7.2.3.7";
    SCTP_SRC: sctp_src, 16 in 2, Decimal, Nicira, V1_0, SCTP, [OXM_OF_SCTP_SRC(17, V1_2)], [], "§7.2.3.7";
    SCTP_DST: sctp_dst, 16 in 2, Decimal, Nicira, V1_0, SCTP, [OXM_OF_SCTP_DST(18, V1_2)], [], "§7.2.3.7";
    ICMPV4_TYPE: icmpv4_type, 8 in 1, Decimal, No, V1_0, ICMP, [OXM_OF_ICMPV4_TYPE(19, V1_2), NXM_OF_ICMP_TYPE(13, V1_0)], ["icmp_type"], "§7.2.3.7";
    ICMPV4_CODE: icmpv4_code, 8 in 1, Decimal, No, V1_0, ICMP, [OXM_OF_ICMPV4_CODE(20, V1_2), NXM_OF_ICMP_CODE(14, V1_0)], ["icmp_code"], "§7.2.3.7";
    ARP_OP: arp_op, 16 in 2, Decimal, No, V1_0, ARP, [OXM_OF_ARP_OP(21, V1_2), NXM_OF_ARP_OP(15, V1_0)], [], "§7.2.3.7";
    ARP_SPA: arp_spa, 32 in 4, Ipv4, Any, V1_0, ARP, [OXM_OF_ARP_SPA(22, V1_2), NXM_OF_ARP_SPA(16, V1_0)], [], "§7.2.3.7";
    ARP_TPA: arp_tpa, 32 in 4, Ipv4, Any, V1_0, ARP, [OXM_OF_ARP_TPA(23, V1_2), NXM_OF_ARP_TPA(17, V1_0)], [], "§7.2.3.7";
    ARP_SHA: arp_sha, 48 in 6, Mac, Any, V1_2, ARP, [OXM_OF_ARP_SHA(24, V1_2), NXM_NX_ARP_SHA(17, V1_0)], [], "§7.2.3.7";
    ARP_THA: arp_tha, 48 in 6, Mac, Any, V1_2, ARP, [OXM_OF_ARP_THA(25, V1_2), NXM_NX_ARP_THA(18, V1_0)], [], "§7.2.3.7";
    IPV6_SRC: ipv6_src, 128 in 16, Ipv6, Any, V1_2, IPV6, [OXM_OF_IPV6_SRC(26, V1_2), NXM_NX_IPV6_SRC(19, V1_0)], [], "§7.2.3.7";
    IPV6_DST: ipv6_dst, 128 in 16, Ipv6, Any, V1_2, IPV6, [OXM_OF_IPV6_DST(27, V1_2), NXM_NX_IPV6_DST(20, V1_0)], [], "§7.2.3.7";
    IPV6_FLABEL: ipv6_flabel, 20 in 4, Hex, Any, V1_2, IPV6, [OXM_OF_IPV6_FLABEL(28, V1_2), NXM_NX_IPV6_LABEL(27, V1_0)], ["ipv6_label"], "§7.2.3.7";
    ICMPV6_TYPE: icmpv6_type, 8 in 1, Decimal, No, V1_2, ICMPV6, [OXM_OF_ICMPV6_TYPE(29, V1_2), NXM_NX_ICMPV6_TYPE(21, V1_0)], [], "§7.2.3.7";
    ICMPV6_CODE: icmpv6_code, 8 in 1, Decimal, No, V1_2, ICMPV6, [OXM_OF_ICMPV6_CODE(30, V1_2), NXM_NX_ICMPV6_CODE(22, V1_0)], [], "§7.2.3.7";
    IPV6_ND_TARGET: ipv6_nd_target, 128 in 16, Ipv6, Nicira, V1_2, ND, [OXM_OF_IPV6_ND_TARGET(31, V1_2), NXM_NX_ND_TARGET(23, V1_0)], ["nd_target"], "§7.2.3.7";
    IPV6_ND_SLL: ipv6_nd_sll, 48 in 6, Mac, Nicira, V1_2, ND_SOLICIT, [OXM_OF_IPV6_ND_SLL(32, V1_2), NXM_NX_ND_SLL(24, V1_0)], ["nd_sll"], "§7.2.3.7";
    IPV6_ND_TLL: ipv6_nd_tll, 48 in 6, Mac, Nicira, V1_2, ND_ADVERT, [OXM_OF_IPV6_ND_TLL(33, V1_2), NXM_NX_ND_TLL(25, V1_0)], ["nd_tll"], "§7.2.3.7";
    MPLS_LABEL: mpls_label, 20 in 4, Decimal, No, V1_1, MPLS, [OXM_OF_MPLS_LABEL(34, V1_2)], [], "§7.2.3.7";
    MPLS_TC: mpls_tc, 3 in 1, Decimal, No, V1_1, MPLS, [OXM_OF_MPLS_TC(35, V1_2)], [], "§7.2.3.7";
    MPLS_BOS: mpls_bos, 1 in 1, Decimal, No, V1_3, MPLS, [OXM_OF_MPLS_BOS(36, V1_3)], [], "§7.2.3.7";
    PBB_ISID: pbb_isid, 24 in 3, Hex, Any, V1_3, PBB, [OXM_OF_PBB_ISID(37, V1_3)], [], "§7.2.3.7";
    TUNNEL_ID: tunnel_id, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_TUNNEL_ID(38, V1_3), NXM_NX_TUN_ID(16, V1_0)], ["tun_id"], "§7.2.3.7";
    IPV6_EXTHDR: ipv6_exthdr, 9 in 2, Flags(IPV6_EXTHDR_FLAGS), Any, V1_3, IPV6, [OXM_OF_IPV6_EXTHDR(39, V1_3)], [], "§7.2.3.7";
    PBB_UCA: pbb_uca, 1 in 1, Decimal, No, V1_4, PBB, [OXM_OF_PBB_UCA(41, V1_4)], [], "OpenFlow 1.4.0 §7.2.3.7";
    TCP_FLAGS: tcp_flags, 12 in 2, Flags(TCP_FLAGS), Any, V1_3, TCP, [OXM_OF_TCP_FLAGS(42, V1_5), ONFOXM_ET_TCP_FLAGS(42, V1_3), NXM_NX_TCP_FLAGS(34, V1_0)], [], "OpenFlow 1.5.1 §7.2.3.8";
    ACTSET_OUTPUT: actset_output, 32 in 4, Port, No, V1_2, NONE, [OXM_OF_ACTSET_OUTPUT(43, V1_5), ONFOXM_ET_ACTSET_OUTPUT(43, V1_0)], [], "OpenFlow 1.5.1 §7.2.3.8";
    PACKET_TYPE: packet_type, 32 in 4, PacketType, No, V1_5, NONE, [OXM_OF_PACKET_TYPE(44, V1_5)], [], "OpenFlow 1.5.1 §7.2.3.8";
    XREG0: xreg0, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG0(0, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG1: xreg1, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG1(1, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG2: xreg2, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG2(2, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG3: xreg3, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG3(3, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG4: xreg4, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG4(4, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG5: xreg5, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG5(5, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG6: xreg6, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG6(6, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG7: xreg7, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG7(7, V1_3)], [], "OpenFlow 1.5.1 §7.2.3.10";
    XREG8: xreg8, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG8(8, V1_3)], [], "meta-flow";
    XREG9: xreg9, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG9(9, V1_3)], [], "meta-flow";
    XREG10: xreg10, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG10(10, V1_3)], [], "meta-flow";
    XREG11: xreg11, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG11(11, V1_3)], [], "meta-flow";
    XREG12: xreg12, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG12(12, V1_3)], [], "meta-flow";
    XREG13: xreg13, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG13(13, V1_3)], [], "meta-flow";
    XREG14: xreg14, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG14(14, V1_3)], [], "meta-flow";
    XREG15: xreg15, 64 in 8, Hex, Any, V1_3, NONE, [OXM_OF_PKT_REG15(15, V1_3)], [], "meta-flow";
    NXM_IN_PORT: nxm_in_port, 16 in 2, Port, No, V1_2, NONE, [NXM_OF_IN_PORT(0, V1_0)], [], "meta-flow";
    VLAN_TCI: vlan_tci, 16 in 2, Hex, Any, V1_2, NONE, [NXM_OF_VLAN_TCI(4, V1_0)], [], "meta-flow";
    NW_TOS: nw_tos, 8 in 1, Decimal, No, V1_2, IP, [NXM_OF_IP_TOS(5, V1_0)], ["ip_tos"], "meta-flow";
    REG0: reg0, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG0(0, V1_0)], [], "meta-flow";
    REG1: reg1, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG1(1, V1_0)], [], "meta-flow";
    REG2: reg2, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG2(2, V1_0)], [], "meta-flow";
    REG3: reg3, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG3(3, V1_0)], [], "meta-flow";
    REG4: reg4, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG4(4, V1_0)], [], "meta-flow";
    REG5: reg5, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG5(5, V1_0)], [], "meta-flow";
    REG6: reg6, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG6(6, V1_0)], [], "meta-flow";
    REG7: reg7, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG7(7, V1_0)], [], "meta-flow";
    REG8: reg8, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG8(8, V1_0)], [], "meta-flow";
    REG9: reg9, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG9(9, V1_0)], [], "meta-flow";
    REG10: reg10, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG10(10, V1_0)], [], "meta-flow";
    REG11: reg11, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG11(11, V1_0)], [], "meta-flow";
    REG12: reg12, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG12(12, V1_0)], [], "meta-flow";
    REG13: reg13, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG13(13, V1_0)], [], "meta-flow";
    REG14: reg14, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG14(14, V1_0)], [], "meta-flow";
    REG15: reg15, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_REG15(15, V1_0)], [], "meta-flow";
    REG16: reg16, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG16(17, V1_0)], [], "meta-flow";
    REG17: reg17, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG17(18, V1_0)], [], "meta-flow";
    REG18: reg18, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG18(19, V1_0)], [], "meta-flow";
    REG19: reg19, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG19(20, V1_0)], [], "meta-flow";
    REG20: reg20, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG20(21, V1_0)], [], "meta-flow";
    REG21: reg21, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG21(22, V1_0)], [], "meta-flow";
    REG22: reg22, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG22(23, V1_0)], [], "meta-flow";
    REG23: reg23, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG23(24, V1_0)], [], "meta-flow";
    REG24: reg24, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG24(25, V1_0)], [], "meta-flow";
    REG25: reg25, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG25(26, V1_0)], [], "meta-flow";
    REG26: reg26, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG26(27, V1_0)], [], "meta-flow";
    REG27: reg27, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG27(28, V1_0)], [], "meta-flow";
    REG28: reg28, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG28(29, V1_0)], [], "meta-flow";
    REG29: reg29, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG29(30, V1_0)], [], "meta-flow";
    REG30: reg30, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG30(31, V1_0)], [], "meta-flow";
    REG31: reg31, 32 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_REG31(32, V1_0)], [], "meta-flow";
    XXREG0: xxreg0, 128 in 16, Hex, Any, V1_2, NONE, [NXM_NX_XXREG0(111, V1_0)], [], "meta-flow";
    XXREG1: xxreg1, 128 in 16, Hex, Any, V1_2, NONE, [NXM_NX_XXREG1(112, V1_0)], [], "meta-flow";
    XXREG2: xxreg2, 128 in 16, Hex, Any, V1_2, NONE, [NXM_NX_XXREG2(113, V1_0)], [], "meta-flow";
    XXREG3: xxreg3, 128 in 16, Hex, Any, V1_2, NONE, [NXM_NX_XXREG3(114, V1_0)], [], "meta-flow";
    XXREG4: xxreg4, 128 in 16, Hex, Any, V1_2, NONE, [NXOXM_ET_XXREG4(33, V1_0)], [], "meta-flow";
    XXREG5: xxreg5, 128 in 16, Hex, Any, V1_2, NONE, [NXOXM_ET_XXREG5(34, V1_0)], [], "meta-flow";
    XXREG6: xxreg6, 128 in 16, Hex, Any, V1_2, NONE, [NXOXM_ET_XXREG6(35, V1_0)], [], "meta-flow";
    XXREG7: xxreg7, 128 in 16, Hex, Any, V1_2, NONE, [NXOXM_ET_XXREG7(36, V1_0)], [], "meta-flow";
    NW_FRAG: nw_frag, 2 in 1, Frag, Any, V1_2, IP, [NXM_NX_IP_FRAG(26, V1_0)], ["ip_frag"], "meta-flow";
    NW_TTL: nw_ttl, 8 in 1, Decimal, No, V1_2, IP, [NXM_NX_IP_TTL(29, V1_0)], [], "meta-flow";
    MPLS_TTL: mpls_ttl, 8 in 1, Decimal, No, V1_2, MPLS, [NXM_NX_MPLS_TTL(30, V1_0)], [], "meta-flow";
    TUN_SRC: tun_src, 32 in 4, Ipv4, Any, V1_2, NONE, [NXM_NX_TUN_IPV4_SRC(31, V1_0)], ["tun_ipv4_src"], "meta-flow";
    TUN_DST: tun_dst, 32 in 4, Ipv4, Any, V1_2, NONE, [NXM_NX_TUN_IPV4_DST(32, V1_0)], ["tun_ipv4_dst"], "meta-flow";
    PKT_MARK: pkt_mark, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_PKT_MARK(33, V1_0)], [], "meta-flow";
    DP_HASH: dp_hash, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_DP_HASH(35, V1_0), NXOXM_ET_DP_HASH(0, V1_0)], [], "meta-flow";
    RECIRC_ID: recirc_id, 32 in 4, Decimal, No, V1_2, NONE, [NXM_NX_RECIRC_ID(36, V1_0)], [], "meta-flow";
    CONJ_ID: conj_id, 32 in 4, Decimal, No, V1_2, NONE, [NXM_NX_CONJ_ID(37, V1_0)], [], "meta-flow";
    TUN_GBP_ID: tun_gbp_id, 16 in 2, Decimal, Any, V1_2, NONE, [NXM_NX_TUN_GBP_ID(38, V1_0)], [], "meta-flow";
    TUN_GBP_FLAGS: tun_gbp_flags, 8 in 1, Hex, Any, V1_2, NONE, [NXM_NX_TUN_GBP_FLAGS(39, V1_0)], [], "meta-flow";
    TUN_METADATA0: tun_metadata0, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA0(40, V1_0)], [], "meta-flow";
    TUN_METADATA1: tun_metadata1, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA1(41, V1_0)], [], "meta-flow";
    TUN_METADATA2: tun_metadata2, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA2(42, V1_0)], [], "meta-flow";
    TUN_METADATA3: tun_metadata3, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA3(43, V1_0)], [], "meta-flow";
    TUN_METADATA4: tun_metadata4, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA4(44, V1_0)], [], "meta-flow";
    TUN_METADATA5: tun_metadata5, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA5(45, V1_0)], [], "meta-flow";
    TUN_METADATA6: tun_metadata6, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA6(46, V1_0)], [], "meta-flow";
    TUN_METADATA7: tun_metadata7, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA7(47, V1_0)], [], "meta-flow";
    TUN_METADATA8: tun_metadata8, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA8(48, V1_0)], [], "meta-flow";
    TUN_METADATA9: tun_metadata9, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA9(49, V1_0)], [], "meta-flow";
    TUN_METADATA10: tun_metadata10, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA10(50, V1_0)], [], "meta-flow";
    TUN_METADATA11: tun_metadata11, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA11(51, V1_0)], [], "meta-flow";
    TUN_METADATA12: tun_metadata12, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA12(52, V1_0)], [], "meta-flow";
    TUN_METADATA13: tun_metadata13, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA13(53, V1_0)], [], "meta-flow";
    TUN_METADATA14: tun_metadata14, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA14(54, V1_0)], [], "meta-flow";
    TUN_METADATA15: tun_metadata15, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA15(55, V1_0)], [], "meta-flow";
    TUN_METADATA16: tun_metadata16, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA16(56, V1_0)], [], "meta-flow";
    TUN_METADATA17: tun_metadata17, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA17(57, V1_0)], [], "meta-flow";
    TUN_METADATA18: tun_metadata18, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA18(58, V1_0)], [], "meta-flow";
    TUN_METADATA19: tun_metadata19, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA19(59, V1_0)], [], "meta-flow";
    TUN_METADATA20: tun_metadata20, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA20(60, V1_0)], [], "meta-flow";
    TUN_METADATA21: tun_metadata21, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA21(61, V1_0)], [], "meta-flow";
    TUN_METADATA22: tun_metadata22, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA22(62, V1_0)], [], "meta-flow";
    TUN_METADATA23: tun_metadata23, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA23(63, V1_0)], [], "meta-flow";
    TUN_METADATA24: tun_metadata24, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA24(64, V1_0)], [], "meta-flow";
    TUN_METADATA25: tun_metadata25, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA25(65, V1_0)], [], "meta-flow";
    TUN_METADATA26: tun_metadata26, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA26(66, V1_0)], [], "meta-flow";
    TUN_METADATA27: tun_metadata27, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA27(67, V1_0)], [], "meta-flow";
    TUN_METADATA28: tun_metadata28, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA28(68, V1_0)], [], "meta-flow";
    TUN_METADATA29: tun_metadata29, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA29(69, V1_0)], [], "meta-flow";
    TUN_METADATA30: tun_metadata30, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA30(70, V1_0)], [], "meta-flow";
    TUN_METADATA31: tun_metadata31, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA31(71, V1_0)], [], "meta-flow";
    TUN_METADATA32: tun_metadata32, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA32(72, V1_0)], [], "meta-flow";
    TUN_METADATA33: tun_metadata33, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA33(73, V1_0)], [], "meta-flow";
    TUN_METADATA34: tun_metadata34, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA34(74, V1_0)], [], "meta-flow";
    TUN_METADATA35: tun_metadata35, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA35(75, V1_0)], [], "meta-flow";
    TUN_METADATA36: tun_metadata36, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA36(76, V1_0)], [], "meta-flow";
    TUN_METADATA37: tun_metadata37, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA37(77, V1_0)], [], "meta-flow";
    TUN_METADATA38: tun_metadata38, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA38(78, V1_0)], [], "meta-flow";
    TUN_METADATA39: tun_metadata39, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA39(79, V1_0)], [], "meta-flow";
    TUN_METADATA40: tun_metadata40, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA40(80, V1_0)], [], "meta-flow";
    TUN_METADATA41: tun_metadata41, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA41(81, V1_0)], [], "meta-flow";
    TUN_METADATA42: tun_metadata42, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA42(82, V1_0)], [], "meta-flow";
    TUN_METADATA43: tun_metadata43, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA43(83, V1_0)], [], "meta-flow";
    TUN_METADATA44: tun_metadata44, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA44(84, V1_0)], [], "meta-flow";
    TUN_METADATA45: tun_metadata45, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA45(85, V1_0)], [], "meta-flow";
    TUN_METADATA46: tun_metadata46, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA46(86, V1_0)], [], "meta-flow";
    TUN_METADATA47: tun_metadata47, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA47(87, V1_0)], [], "meta-flow";
    TUN_METADATA48: tun_metadata48, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA48(88, V1_0)], [], "meta-flow";
    TUN_METADATA49: tun_metadata49, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA49(89, V1_0)], [], "meta-flow";
    TUN_METADATA50: tun_metadata50, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA50(90, V1_0)], [], "meta-flow";
    TUN_METADATA51: tun_metadata51, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA51(91, V1_0)], [], "meta-flow";
    TUN_METADATA52: tun_metadata52, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA52(92, V1_0)], [], "meta-flow";
    TUN_METADATA53: tun_metadata53, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA53(93, V1_0)], [], "meta-flow";
    TUN_METADATA54: tun_metadata54, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA54(94, V1_0)], [], "meta-flow";
    TUN_METADATA55: tun_metadata55, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA55(95, V1_0)], [], "meta-flow";
    TUN_METADATA56: tun_metadata56, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA56(96, V1_0)], [], "meta-flow";
    TUN_METADATA57: tun_metadata57, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA57(97, V1_0)], [], "meta-flow";
    TUN_METADATA58: tun_metadata58, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA58(98, V1_0)], [], "meta-flow";
    TUN_METADATA59: tun_metadata59, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA59(99, V1_0)], [], "meta-flow";
    TUN_METADATA60: tun_metadata60, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA60(100, V1_0)], [], "meta-flow";
    TUN_METADATA61: tun_metadata61, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA61(101, V1_0)], [], "meta-flow";
    TUN_METADATA62: tun_metadata62, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA62(102, V1_0)], [], "meta-flow";
    TUN_METADATA63: tun_metadata63, 992 in 124, Hex, Any, V1_2, NONE, [NXM_NX_TUN_METADATA63(103, V1_0)], [], "meta-flow";
    TUN_FLAGS: tun_flags, 1 in 2, Flags(TUNNEL_FLAGS), Any, V1_2, NONE, [NXM_NX_TUN_FLAGS(104, V1_0)], [], "meta-flow";
    CT_STATE: ct_state, 32 in 4, Flags(CT_STATE_FLAGS), Any, V1_2, NONE, [NXM_NX_CT_STATE(105, V1_0)], [], "meta-flow";
    CT_ZONE: ct_zone, 16 in 2, Hex, No, V1_2, NONE, [NXM_NX_CT_ZONE(106, V1_0)], [], "meta-flow";
    CT_MARK: ct_mark, 32 in 4, Hex, Any, V1_2, NONE, [NXM_NX_CT_MARK(107, V1_0)], [], "meta-flow";
    CT_LABEL: ct_label, 128 in 16, Hex, Any, V1_2, NONE, [NXM_NX_CT_LABEL(108, V1_0)], [], "meta-flow";
    TUN_IPV6_SRC: tun_ipv6_src, 128 in 16, Ipv6, Any, V1_2, NONE, [NXM_NX_TUN_IPV6_SRC(109, V1_0)], [], "meta-flow";
    TUN_IPV6_DST: tun_ipv6_dst, 128 in 16, Ipv6, Any, V1_2, NONE, [NXM_NX_TUN_IPV6_DST(110, V1_0)], [], "meta-flow";
    CT_NW_PROTO: ct_nw_proto, 8 in 1, Decimal, No, V1_2, CT, [NXM_NX_CT_NW_PROTO(119, V1_0)], [], "meta-flow";
    CT_NW_SRC: ct_nw_src, 32 in 4, Ipv4, Any, V1_2, CT, [NXM_NX_CT_NW_SRC(120, V1_0)], [], "meta-flow";
    CT_NW_DST: ct_nw_dst, 32 in 4, Ipv4, Any, V1_2, CT, [NXM_NX_CT_NW_DST(121, V1_0)], [], "meta-flow";
    CT_IPV6_SRC: ct_ipv6_src, 128 in 16, Ipv6, Any, V1_2, CT, [NXM_NX_CT_IPV6_SRC(122, V1_0)], [], "meta-flow";
    CT_IPV6_DST: ct_ipv6_dst, 128 in 16, Ipv6, Any, V1_2, CT, [NXM_NX_CT_IPV6_DST(123, V1_0)], [], "meta-flow";
    CT_TP_SRC: ct_tp_src, 16 in 2, Decimal, Any, V1_2, CT, [NXM_NX_CT_TP_SRC(124, V1_0)], [], "meta-flow";
    CT_TP_DST: ct_tp_dst, 16 in 2, Decimal, Any, V1_2, CT, [NXM_NX_CT_TP_DST(125, V1_0)], [], "meta-flow";
    TUN_ERSPAN_IDX: tun_erspan_idx, 20 in 4, Hex, Any, V1_2, NONE, [NXOXM_ET_ERSPAN_IDX(11, V1_0)], [], "meta-flow";
    TUN_ERSPAN_VER: tun_erspan_ver, 4 in 1, Decimal, Any, V1_2, NONE, [NXOXM_ET_ERSPAN_VER(12, V1_0)], [], "meta-flow";
    TUN_ERSPAN_DIR: tun_erspan_dir, 1 in 1, Decimal, Any, V1_2, NONE, [NXOXM_ET_ERSPAN_DIR(13, V1_0)], [], "meta-flow";
    TUN_ERSPAN_HWID: tun_erspan_hwid, 6 in 1, Hex, Any, V1_2, NONE, [NXOXM_ET_ERSPAN_HWID(14, V1_0)], [], "meta-flow";
    TUN_GTPU_FLAGS: tun_gtpu_flags, 8 in 1, Hex, Any, V1_2, NONE, [NXOXM_ET_GTPU_FLAGS(15, V1_0)], [], "meta-flow";
    TUN_GTPU_MSGTYPE: tun_gtpu_msgtype, 8 in 1, Decimal, Any, V1_2, NONE, [NXOXM_ET_GTPU_MSGTYPE(16, V1_0)], [], "meta-flow";
    ND_RESERVED: nd_reserved, 32 in 4, Decimal, No, V1_2, ND, [ERICOXM_OF_ICMPV6_ND_RESERVED(1, V1_0)], [], "meta-flow";
    ND_OPTIONS_TYPE: nd_options_type, 8 in 1, Decimal, No, V1_2, ND, [ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE(2, V1_0)], [], "meta-flow";
    NSH_FLAGS: nsh_flags, 8 in 1, Decimal, Any, V1_2, NSH, [NXOXM_NSH_FLAGS(1, V1_0)], [], "meta-flow";
    NSH_MDTYPE: nsh_mdtype, 8 in 1, Decimal, No, V1_2, NSH, [NXOXM_NSH_MDTYPE(2, V1_0)], [], "meta-flow";
    NSH_NP: nsh_np, 8 in 1, Decimal, No, V1_2, NSH, [NXOXM_NSH_NP(3, V1_0)], [], "meta-flow";
    NSH_SPI: nsh_spi, 24 in 4, Hex, No, V1_2, NSH, [NXOXM_NSH_SPI(4, V1_0)], ["nsp"], "meta-flow";
    NSH_SI: nsh_si, 8 in 1, Decimal, No, V1_2, NSH, [NXOXM_NSH_SI(5, V1_0)], ["nsi"], "meta-flow";
    NSH_C1: nsh_c1, 32 in 4, Hex, Any, V1_2, NSH, [NXOXM_NSH_C1(6, V1_0)], ["nshc1"], "meta-flow";
    NSH_C2: nsh_c2, 32 in 4, Hex, Any, V1_2, NSH, [NXOXM_NSH_C2(7, V1_0)], ["nshc2"], "meta-flow";
    NSH_C3: nsh_c3, 32 in 4, Hex, Any, V1_2, NSH, [NXOXM_NSH_C3(8, V1_0)], ["nshc3"], "meta-flow";
    NSH_C4: nsh_c4, 32 in 4, Hex, Any, V1_2, NSH, [NXOXM_NSH_C4(9, V1_0)], ["nshc4"], "meta-flow";
    NSH_TTL: nsh_ttl, 8 in 1, Decimal, No, V1_2, NSH, [NXOXM_NSH_TTL(10, V1_0)], [], "meta-flow";
    COOKIE: cookie, 64 in 8, Hex, Any, V1_2, NONE, [NXM_NX_COOKIE(158, V1_0)], [], "meta-flow";
}
