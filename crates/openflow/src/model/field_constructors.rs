//! More constructors of common fields; the first ones are in [`field`](super::field).

use std::net::Ipv4Addr;

use super::field::{Field, FieldId};

impl Field {
    /// Matches the TCP source port.
    pub const fn tcp_src(port: u16) -> Self {
        Self::exact(FieldId::TCP_SRC, 2, port as u128)
    }

    /// Matches the TCP destination port.
    pub const fn tcp_dst(port: u16) -> Self {
        Self::exact(FieldId::TCP_DST, 2, port as u128)
    }

    /// Matches the UDP source port.
    pub const fn udp_src(port: u16) -> Self {
        Self::exact(FieldId::UDP_SRC, 2, port as u128)
    }

    /// Matches the UDP destination port.
    pub const fn udp_dst(port: u16) -> Self {
        Self::exact(FieldId::UDP_DST, 2, port as u128)
    }

    /// Matches the SCTP source port.
    pub const fn sctp_src(port: u16) -> Self {
        Self::exact(FieldId::SCTP_SRC, 2, port as u128)
    }

    /// Matches the SCTP destination port.
    pub const fn sctp_dst(port: u16) -> Self {
        Self::exact(FieldId::SCTP_DST, 2, port as u128)
    }

    /// Matches the ICMP type.
    pub const fn icmpv4_type(icmp_type: u8) -> Self {
        Self::exact(FieldId::ICMPV4_TYPE, 1, icmp_type as u128)
    }

    /// Matches the ICMP code.
    pub const fn icmpv4_code(code: u8) -> Self {
        Self::exact(FieldId::ICMPV4_CODE, 1, code as u128)
    }

    /// Matches the `ICMPv6` type.
    pub const fn icmpv6_type(icmp_type: u8) -> Self {
        Self::exact(FieldId::ICMPV6_TYPE, 1, icmp_type as u128)
    }

    /// Matches the `ICMPv6` code.
    pub const fn icmpv6_code(code: u8) -> Self {
        Self::exact(FieldId::ICMPV6_CODE, 1, code as u128)
    }

    /// Matches the ARP operation: 1 request, 2 reply.
    pub const fn arp_op(op: u16) -> Self {
        Self::exact(FieldId::ARP_OP, 2, op as u128)
    }

    /// Matches the outermost MPLS label, 20 bits.
    pub const fn mpls_label(label: u32) -> Self {
        Self::exact(FieldId::MPLS_LABEL, 4, label as u128)
    }

    /// Matches the metadata that an earlier table attached.
    pub const fn metadata(metadata: u64) -> Self {
        Self::exact(FieldId::METADATA, 8, metadata as u128)
    }

    /// Matches the key of the tunnel on which the packet was received.
    pub const fn tunnel_id(id: u64) -> Self {
        Self::exact(FieldId::TUNNEL_ID, 8, id as u128)
    }

    /// Matches the sender's IPv4 address in ARP packets.
    pub fn arp_spa(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::ARP_SPA, 4, u32::from(addr).into())
    }

    /// Matches the target's IPv4 address in ARP packets.
    pub fn arp_tpa(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::ARP_TPA, 4, u32::from(addr).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructed_fields_have_the_length_of_their_row() {
        for (field, id) in [
            (Field::tcp_src(7), FieldId::TCP_SRC),
            (Field::tcp_dst(7), FieldId::TCP_DST),
            (Field::udp_src(7), FieldId::UDP_SRC),
            (Field::udp_dst(7), FieldId::UDP_DST),
            (Field::sctp_src(7), FieldId::SCTP_SRC),
            (Field::sctp_dst(7), FieldId::SCTP_DST),
            (Field::icmpv4_type(7), FieldId::ICMPV4_TYPE),
            (Field::icmpv4_code(7), FieldId::ICMPV4_CODE),
            (Field::icmpv6_type(7), FieldId::ICMPV6_TYPE),
            (Field::icmpv6_code(7), FieldId::ICMPV6_CODE),
            (Field::arp_op(7), FieldId::ARP_OP),
            (Field::mpls_label(7), FieldId::MPLS_LABEL),
            (Field::metadata(7), FieldId::METADATA),
            (Field::tunnel_id(7), FieldId::TUNNEL_ID),
            (Field::arp_spa([10, 0, 0, 1].into()), FieldId::ARP_SPA),
            (Field::arp_tpa([10, 0, 0, 1].into()), FieldId::ARP_TPA),
        ] {
            assert_eq!(field, Field::new(id, field.value));
        }
    }
}
