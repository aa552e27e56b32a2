//! Fields that rules match and set: one row each. §7.2.3.7.

use core::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Inexpressible, MacAddr, Out, PortNo, Result, Version, VlanId, Why};

/// A field's class and number within it. An open set. §7.2.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId {
    /// `OFPXMC_*`.
    pub class: u16,
    /// Number within the class, 7 bits.
    pub number: u8,
}

/// What the specification says of one field.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Class and number.
    pub id: FieldId,
    /// Name as in `OFPXMT_OFB_*`, in lower case.
    pub name: &'static str,
    /// Significant bits.
    pub bits: u8,
    /// Whether a mask may come with it.
    pub maskable: bool,
    /// The version that brought it; 1.0 and 1.1 have it in their fixed match.
    pub since: Version,
    /// What must be matched as well, in words of this table.
    pub prerequisite: &'static str,
}

/// `OFPXMC_OPENFLOW_BASIC`.
const BASIC: u16 = 0x8000;

macro_rules! fields {
    ($($konst:ident = $number:literal, $name:literal, $bits:literal, $mask:literal, $since:ident, $pre:literal;)*) => {
        impl FieldId {
            /// Every field of `OFPXMC_OPENFLOW_BASIC`, in the order of its numbers. §7.2.3.7, table 11.
            pub const ROWS: &[Row] = ROWS;

            $(#[doc = concat!("`", $name, "`, ", stringify!($bits), " bits.")]
            pub const $konst: Self = Self { class: BASIC, number: $number };)*
        }

        /// Every field of `OFPXMC_OPENFLOW_BASIC`, in the order of its numbers. §7.2.3.7, table 11.
        const ROWS: &[Row] = &[$(Row {
            id: FieldId::$konst,
            name: $name,
            bits: $bits,
            maskable: $mask,
            since: Version::$since,
            prerequisite: $pre,
        }),*];
    };
}

fields! {
    IN_PORT        =  0, "in_port",         32, false, V1_0, "";
    IN_PHY_PORT    =  1, "in_phy_port",     32, false, V1_2, "in_port";
    METADATA       =  2, "metadata",        64, true,  V1_1, "";
    ETH_DST        =  3, "eth_dst",         48, true,  V1_0, "";
    ETH_SRC        =  4, "eth_src",         48, true,  V1_0, "";
    ETH_TYPE       =  5, "eth_type",        16, false, V1_0, "";
    VLAN_VID       =  6, "vlan_vid",        13, true,  V1_0, "";
    VLAN_PCP       =  7, "vlan_pcp",         3, false, V1_0, "vlan_vid";
    IP_DSCP        =  8, "ip_dscp",          6, false, V1_0, "eth_type=0x0800|0x86dd";
    IP_ECN         =  9, "ip_ecn",           2, false, V1_2, "eth_type=0x0800|0x86dd";
    IP_PROTO       = 10, "ip_proto",         8, false, V1_0, "eth_type=0x0800|0x86dd";
    IPV4_SRC       = 11, "ipv4_src",        32, true,  V1_0, "eth_type=0x0800";
    IPV4_DST       = 12, "ipv4_dst",        32, true,  V1_0, "eth_type=0x0800";
    TCP_SRC        = 13, "tcp_src",         16, false, V1_0, "ip_proto=6";
    TCP_DST        = 14, "tcp_dst",         16, false, V1_0, "ip_proto=6";
    UDP_SRC        = 15, "udp_src",         16, false, V1_0, "ip_proto=17";
    UDP_DST        = 16, "udp_dst",         16, false, V1_0, "ip_proto=17";
    SCTP_SRC       = 17, "sctp_src",        16, false, V1_1, "ip_proto=132";
    SCTP_DST       = 18, "sctp_dst",        16, false, V1_1, "ip_proto=132";
    ICMPV4_TYPE    = 19, "icmpv4_type",      8, false, V1_0, "ip_proto=1";
    ICMPV4_CODE    = 20, "icmpv4_code",      8, false, V1_0, "ip_proto=1";
    ARP_OP         = 21, "arp_op",          16, false, V1_0, "eth_type=0x0806";
    ARP_SPA        = 22, "arp_spa",         32, true,  V1_0, "eth_type=0x0806";
    ARP_TPA        = 23, "arp_tpa",         32, true,  V1_0, "eth_type=0x0806";
    ARP_SHA        = 24, "arp_sha",         48, true,  V1_2, "eth_type=0x0806";
    ARP_THA        = 25, "arp_tha",         48, true,  V1_2, "eth_type=0x0806";
    IPV6_SRC       = 26, "ipv6_src",       128, true,  V1_2, "eth_type=0x86dd";
    IPV6_DST       = 27, "ipv6_dst",       128, true,  V1_2, "eth_type=0x86dd";
    IPV6_FLABEL    = 28, "ipv6_flabel",     20, true,  V1_2, "eth_type=0x86dd";
    ICMPV6_TYPE    = 29, "icmpv6_type",      8, false, V1_2, "ip_proto=58";
    ICMPV6_CODE    = 30, "icmpv6_code",      8, false, V1_2, "ip_proto=58";
    IPV6_ND_TARGET = 31, "ipv6_nd_target", 128, false, V1_2, "icmpv6_type=135|136";
    IPV6_ND_SLL    = 32, "ipv6_nd_sll",     48, false, V1_2, "icmpv6_type=135";
    IPV6_ND_TLL    = 33, "ipv6_nd_tll",     48, false, V1_2, "icmpv6_type=136";
    MPLS_LABEL     = 34, "mpls_label",      20, false, V1_1, "eth_type=0x8847|0x8848";
    MPLS_TC        = 35, "mpls_tc",          3, false, V1_1, "eth_type=0x8847|0x8848";
    MPLS_BOS       = 36, "mpls_bos",         1, false, V1_3, "eth_type=0x8847|0x8848";
    PBB_ISID       = 37, "pbb_isid",        24, true,  V1_3, "eth_type=0x88e7";
    TUNNEL_ID      = 38, "tunnel_id",       64, true,  V1_3, "";
    IPV6_EXTHDR    = 39, "ipv6_exthdr",      9, true,  V1_3, "eth_type=0x86dd";
}

impl Row {
    /// Octets of a value on the wire: as few as hold its bits, but four for a label of 20. §7.2.3.7.
    pub const fn octets(&self) -> u8 {
        if self.bits == 20 { 4 } else { self.bits.div_ceil(8) }
    }
}

impl FieldId {
    /// What the specification says of it, `None` for what it does not define.
    pub fn row(self) -> Option<&'static Row> {
        ROWS.get(usize::from(self.number)).filter(|row| row.id == self)
    }
}

/// One field with its value, and a mask if only part of it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    /// Which field.
    pub id: FieldId,
    /// Octets of the value on the wire, 16 at most.
    pub len: u8,
    /// The value, in the low bits.
    pub value: u128,
    /// The bits that count; `None` if all do.
    pub mask: Option<u128>,
}

/// `vlan_vid` bit that says that there is a tag. §7.2.3.7.
pub(crate) const VID_PRESENT: u16 = 0x1000;

impl Field {
    const fn exact(id: FieldId, len: u8, value: u128) -> Self {
        Self { id, len, value, mask: None }
    }

    /// Frames that came in at `port`.
    #[inline]
    pub const fn in_port(port: PortNo) -> Self {
        Self::exact(FieldId::IN_PORT, 4, port.0 as u128)
    }

    /// Frames to `addr`.
    #[inline]
    pub const fn eth_dst(addr: MacAddr) -> Self {
        Self::exact(FieldId::ETH_DST, 6, addr.to_u64() as u128)
    }

    /// Frames from `addr`.
    #[inline]
    pub const fn eth_src(addr: MacAddr) -> Self {
        Self::exact(FieldId::ETH_SRC, 6, addr.to_u64() as u128)
    }

    /// Frames that carry `ethertype`.
    pub const fn eth_type(ethertype: u16) -> Self {
        Self::exact(FieldId::ETH_TYPE, 2, ethertype as u128)
    }

    /// Frames with a tag for `vlan`.
    #[inline]
    pub const fn vlan(vlan: VlanId) -> Self {
        Self::exact(FieldId::VLAN_VID, 2, (VID_PRESENT | vlan.0) as u128)
    }

    /// Frames without a tag.
    #[inline]
    pub const fn untagged() -> Self {
        Self::exact(FieldId::VLAN_VID, 2, 0)
    }

    /// Packets from `addr`.
    pub fn ipv4_src(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::IPV4_SRC, 4, u32::from(addr).into())
    }

    /// Packets to `addr`.
    pub fn ipv4_dst(addr: Ipv4Addr) -> Self {
        Self::exact(FieldId::IPV4_DST, 4, u32::from(addr).into())
    }

    /// Packets to `addr`.
    pub fn ipv6_dst(addr: Ipv6Addr) -> Self {
        Self::exact(FieldId::IPV6_DST, 16, addr.into())
    }

    /// A field of the table with `value`, all of it or the bits of `mask`.
    pub fn of(row: &Row, value: u128, mask: Option<u128>) -> Self {
        Self { id: row.id, len: row.octets(), value, mask }
    }

    /// Writes the field as an OXM TLV. §7.2.3.2.
    #[inline]
    pub(crate) fn emit_oxm(&self, out: &mut Out<'_>) {
        debug_assert!(self.len <= 16, "a value has 16 octets at most");
        let has_mask = u8::from(self.mask.is_some());
        out.put(&OxmHeader {
            class: self.id.class.into(),
            number_and_mask: self.id.number << 1 | has_mask,
            len: self.len << has_mask,
        });
        put_low(out, self.value, self.len);
        if let Some(mask) = self.mask {
            put_low(out, mask, self.len);
        }
    }

    /// Reads the OXM TLV at the start of `octets`, which is `at` octets into the message.
    ///
    /// # Errors
    /// `Short` if it is cut off, `Length` if value and mask differ in length, are empty, are longer than 16
    /// octets or do not have the length that the table says.
    #[inline]
    pub(crate) fn parse_oxm(octets: &[u8], at: u16) -> Result<(Self, &[u8])> {
        let bad_len = Error::new("oxm length", at.saturating_add(3), Why::Length);
        let (header, payload, rest) = oxm_tlv(octets, at)?;
        let id = FieldId { class: header.class.get(), number: header.number_and_mask >> 1 };
        let (value, mask) = if header.number_and_mask & 1 == 1 {
            let (value, mask) = payload.split_at(payload.len() / 2);
            if value.len() != mask.len() {
                return Err(bad_len);
            }
            (value, Some(low(mask)))
        } else {
            (payload, None)
        };
        let right = match id.row() {
            Some(row) => value.len() == usize::from(row.octets()),
            None => (1..=16).contains(&value.len()),
        };
        if !right {
            return Err(bad_len);
        }
        #[expect(clippy::cast_possible_truncation, reason = "16 at most, just shown")]
        let len = value.len() as u8;
        Ok((Self { id, len, value: low(value), mask }, rest))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.row() {
            Some(row) => f.write_str(row.name)?,
            None => write!(f, "oxm_{:04x}_{}", self.id.class, self.id.number)?,
        }
        write!(f, "={:#x}", self.value)?;
        self.mask.map_or(Ok(()), |mask| write!(f, "/{mask:#x}"))
    }
}

/// `oxm_class`, `oxm_field`, `oxm_hasmask`, `oxm_length`. §7.2.3.2.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct OxmHeader {
    class: U16,
    number_and_mask: u8,
    len: u8,
}

impl OxmHeader {
    /// Whether it is the field `id` without a mask.
    #[inline]
    pub(crate) fn is_whole(&self, id: FieldId) -> bool {
        self.class.get() == id.class && self.number_and_mask == id.number << 1
    }
}

/// The OXM TLV at the start of `octets`, which is `at` octets into the message: its head, its payload, and what
/// follows.
///
/// # Errors
/// `Short` if it is cut off.
#[inline]
pub(crate) fn oxm_tlv(octets: &[u8], at: u16) -> Result<(&OxmHeader, &[u8], &[u8])> {
    let short = Error::new("oxm", at, Why::Short);
    let (header, rest) = OxmHeader::ref_from_prefix(octets).map_err(|_| short)?;
    let (payload, rest) = rest.split_at_checked(usize::from(header.len)).ok_or(short)?;
    Ok((header, payload, rest))
}

#[inline]
fn put_low(out: &mut Out<'_>, value: u128, len: u8) {
    let octets = value.to_be_bytes();
    out.put(octets.get(16 - usize::from(len.min(16))..).unwrap_or_default());
}

/// The value of up to 16 octets, most significant first.
fn low(octets: &[u8]) -> u128 {
    octets.iter().fold(0, |value, &octet| value << 8 | u128::from(octet))
}

/// What an older version lacks, with the first that has it.
pub(crate) fn lacks(id: FieldId, version: Version) -> Inexpressible {
    match id.row() {
        Some(row) if row.since > version => {
            Inexpressible { what: row.name, version, needs: Some(row.since) }
        }
        Some(row) => Inexpressible { what: row.name, version, needs: None },
        None => {
            Inexpressible { what: "experimental match field", version, needs: Some(Version::V1_2) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_numbers() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(usize::from(row.id.number), at, "{}", row.name);
            assert_eq!(row.id.row().map(|r| r.name), Some(row.name));
        }
    }

    #[test]
    fn a_field_and_its_mask_come_back_as_written() {
        for row in ROWS {
            let ones = u128::MAX >> (128 - u32::from(row.bits));
            for mask in [None, Some(ones >> 1)] {
                let field = Field::of(row, ones, mask);
                let (mut tx, mut xid) = (vec![], 1);
                field.emit_oxm(&mut Out::new(&mut tx, Version::V1_3, &mut xid));
                assert_eq!(Field::parse_oxm(&tx, 0), Ok((field, &[][..])), "{}", row.name);
            }
        }
    }

    #[test]
    fn labels_of_twenty_bits_have_four_octets() {
        for id in [FieldId::IPV6_FLABEL, FieldId::MPLS_LABEL] {
            assert_eq!(id.row().map(Row::octets), Some(4));
        }
        assert_eq!(FieldId::PBB_ISID.row().map(Row::octets), Some(3));
    }

    #[test]
    fn a_length_that_contradicts_the_table_is_refused() {
        let error = Field::parse_oxm(&[0x80, 0, 6, 5, 0, 0, 0, 0, 0], 32).unwrap_err();
        assert_eq!(error, Error::new("oxm length", 35, Why::Length));
    }
}
