//! The fixed match of 1.0. OpenFlow 1.0.0 §5.2.3.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::field::{VID_PRESENT, lacks};
use crate::{Field, FieldId, Inexpressible, MacAddr, Match, Out, PortNo, Version, VlanId};

/// `struct ofp_match`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Match10 {
    wildcards: U32,
    in_port: U16,
    dl_src: MacAddr,
    dl_dst: MacAddr,
    dl_vlan: U16,
    dl_vlan_pcp: u8,
    pad: u8,
    dl_type: U16,
    nw_tos: u8,
    nw_proto: u8,
    pad2: [u8; 2],
    nw_src: U32,
    nw_dst: U32,
    tp_src: U16,
    tp_dst: U16,
}

const _: () = assert!(size_of::<Match10>() == 40);

mod wild {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const DL_VLAN: u32 = 1 << 1;
    pub(super) const DL_SRC: u32 = 1 << 2;
    pub(super) const DL_DST: u32 = 1 << 3;
    pub(super) const DL_TYPE: u32 = 1 << 4;
    pub(super) const NW_PROTO: u32 = 1 << 5;
    pub(super) const TP_SRC: u32 = 1 << 6;
    pub(super) const TP_DST: u32 = 1 << 7;
    pub(super) const NW_SRC_SHIFT: u32 = 8;
    pub(super) const NW_DST_SHIFT: u32 = 14;
    pub(super) const DL_VLAN_PCP: u32 = 1 << 20;
    pub(super) const NW_TOS: u32 = 1 << 21;
    pub(super) const ALL: u32 = (1 << 22) - 1;
}

/// `OFP_VLAN_NONE`: no tag.
const VLAN_NONE: u16 = 0xffff;

/// Writes `fields` as a fixed match.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a field's value has the width of its row")]
pub(crate) fn emit(fields: &[Field], out: &mut Out<'_>) -> Result<(), Inexpressible> {
    let mut m = EMPTY;
    let mut wildcards = wild::ALL;
    for field in fields {
        let (value, whole) = (field.value, field.mask.is_none());
        match field.id {
            FieldId::IPV4_SRC | FieldId::ARP_SPA => {
                m.nw_src = (value as u32).into();
                wildcards = prefix(wildcards, wild::NW_SRC_SHIFT, field)?;
                continue;
            }
            FieldId::IPV4_DST | FieldId::ARP_TPA => {
                m.nw_dst = (value as u32).into();
                wildcards = prefix(wildcards, wild::NW_DST_SHIFT, field)?;
                continue;
            }
            _ if !whole => return Err(masked(field)),
            _ => {}
        }
        wildcards &= !match field.id {
            FieldId::IN_PORT => {
                m.in_port = PortNo(value as u32).to_u16()?.into();
                wild::IN_PORT
            }
            FieldId::ETH_DST => {
                m.dl_dst = MacAddr::from_u64(value as u64);
                wild::DL_DST
            }
            FieldId::ETH_SRC => {
                m.dl_src = MacAddr::from_u64(value as u64);
                wild::DL_SRC
            }
            FieldId::VLAN_VID => {
                let vid = value as u16;
                m.dl_vlan = if vid & VID_PRESENT == 0 { VLAN_NONE } else { vid & 0x0fff }.into();
                wild::DL_VLAN
            }
            _ => rest(&mut m, field)?,
        };
    }
    m.wildcards = wildcards.into();
    out.put(&m);
    Ok(())
}

const EMPTY: Match10 = Match10 {
    wildcards: U32::ZERO,
    in_port: U16::ZERO,
    dl_src: MacAddr([0; 6]),
    dl_dst: MacAddr([0; 6]),
    dl_vlan: U16::ZERO,
    dl_vlan_pcp: 0,
    pad: 0,
    dl_type: U16::ZERO,
    nw_tos: 0,
    nw_proto: 0,
    pad2: [0; 2],
    nw_src: U32::ZERO,
    nw_dst: U32::ZERO,
    tp_src: U16::ZERO,
    tp_dst: U16::ZERO,
};

/// Sets a field that no hot path uses; returns its wildcard bit.
#[expect(clippy::cast_possible_truncation, reason = "a field's value has the width of its row")]
fn rest(m: &mut Match10, field: &Field) -> Result<u32, Inexpressible> {
    let value = field.value;
    Ok(match field.id {
        FieldId::VLAN_PCP => {
            m.dl_vlan_pcp = value as u8;
            wild::DL_VLAN_PCP
        }
        FieldId::ETH_TYPE => {
            m.dl_type = (value as u16).into();
            wild::DL_TYPE
        }
        FieldId::IP_DSCP => {
            m.nw_tos = (value as u8) << 2;
            wild::NW_TOS
        }
        FieldId::ARP_OP if value > 0xff => {
            let (version, needs) = (Version::V1_0, Some(Version::V1_2));
            return Err(Inexpressible { what: "arp_op over 255", version, needs });
        }
        FieldId::IP_PROTO | FieldId::ARP_OP => {
            m.nw_proto = value as u8;
            wild::NW_PROTO
        }
        FieldId::TCP_SRC | FieldId::UDP_SRC | FieldId::ICMPV4_TYPE => {
            m.tp_src = (value as u16).into();
            wild::TP_SRC
        }
        FieldId::TCP_DST | FieldId::UDP_DST | FieldId::ICMPV4_CODE => {
            m.tp_dst = (value as u16).into();
            wild::TP_DST
        }
        id => return Err(lacks(id, Version::V1_0)),
    })
}

/// Sets the count of ignored low bits that stands at `shift`.
fn prefix(wildcards: u32, shift: u32, field: &Field) -> Result<u32, Inexpressible> {
    #[expect(clippy::cast_possible_truncation, reason = "an address has 32 bits")]
    let mask = field.mask.map_or(u32::MAX, |mask| mask as u32);
    let ignored = mask.trailing_zeros();
    if mask.leading_ones() + ignored != 32 {
        return Err(masked(field));
    }
    Ok(wildcards & !(63 << shift) | ignored << shift)
}

fn masked(field: &Field) -> Inexpressible {
    let what = field.id.row().map_or("mask", |row| match row.id {
        FieldId::ETH_DST => "mask of eth_dst",
        FieldId::ETH_SRC => "mask of eth_src",
        FieldId::VLAN_VID => "mask of vlan_vid",
        _ => "mask that is no prefix",
    });
    Inexpressible { what, version: Version::V1_0, needs: Some(Version::V1_2) }
}

impl Match10 {
    /// The fields that are not wild.
    pub(crate) fn to_match(self) -> Match {
        let wildcards = self.wildcards.get();
        let counts = |bit: u32| wildcards & bit == 0;
        let (ethertype, proto) = (self.dl_type.get(), self.nw_proto);
        let arp = counts(wild::DL_TYPE) && ethertype == 0x0806;
        let mut fields = Vec::new();
        let mut add = |bit: u32, field: Field| {
            if counts(bit) {
                fields.push(field);
            }
        };
        add(wild::IN_PORT, Field::in_port(PortNo::from_u16(self.in_port.get())));
        add(wild::DL_DST, Field::eth_dst(self.dl_dst));
        add(wild::DL_SRC, Field::eth_src(self.dl_src));
        add(wild::DL_TYPE, Field::eth_type(ethertype));
        let vlan = match self.dl_vlan.get() {
            VLAN_NONE => Field::untagged(),
            vid => Field::vlan(VlanId(vid & 0x0fff)),
        };
        add(wild::DL_VLAN, vlan);
        add(wild::DL_VLAN_PCP, small(FieldId::VLAN_PCP, 1, self.dl_vlan_pcp));
        add(wild::NW_TOS, small(FieldId::IP_DSCP, 1, self.nw_tos >> 2));
        let id = if arp { FieldId::ARP_OP } else { FieldId::IP_PROTO };
        add(wild::NW_PROTO, small(id, if arp { 2 } else { 1 }, proto));
        let (src, dst) = if arp {
            (FieldId::ARP_SPA, FieldId::ARP_TPA)
        } else {
            (FieldId::IPV4_SRC, FieldId::IPV4_DST)
        };
        fields.extend(address(src, self.nw_src.get(), wildcards >> wild::NW_SRC_SHIFT & 63));
        fields.extend(address(dst, self.nw_dst.get(), wildcards >> wild::NW_DST_SHIFT & 63));
        let proto = (counts(wild::NW_PROTO) && !arp).then_some(proto);
        let (src, dst, len) = match proto {
            Some(1) => (FieldId::ICMPV4_TYPE, FieldId::ICMPV4_CODE, 1),
            Some(17) => (FieldId::UDP_SRC, FieldId::UDP_DST, 2),
            _ => (FieldId::TCP_SRC, FieldId::TCP_DST, 2),
        };
        for (bit, id, value) in [(wild::TP_SRC, src, self.tp_src), (wild::TP_DST, dst, self.tp_dst)]
        {
            if counts(bit) {
                fields.push(Field { id, len, value: value.get().into(), mask: None });
            }
        }
        Match { fields }
    }
}

fn small(id: FieldId, len: u8, value: u8) -> Field {
    Field { id, len, value: value.into(), mask: None }
}

/// An address of which the low `ignored` bits are wild; `None` if all are.
fn address(id: FieldId, value: u32, ignored: u32) -> Option<Field> {
    let mask = u32::MAX.checked_shl(ignored)?;
    let mask = (ignored > 0).then_some(mask.into());
    Some(Field { id, len: 4, value: value.into(), mask })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn round(fields: &[Field]) -> Result<Vec<Field>, Inexpressible> {
        let (mut tx, mut xid) = (vec![], 1);
        emit(fields, &mut Out::new(&mut tx, Version::V1_0, &mut xid))?;
        Ok(Match10::read_from_bytes(&tx).unwrap().to_match().fields)
    }

    #[test]
    fn fields_come_back_from_the_fixed_match() {
        let fields = [
            Field::in_port(PortNo::LOCAL),
            Field::eth_dst(MacAddr([1, 2, 3, 4, 5, 6])),
            Field::eth_src(MacAddr([6, 5, 4, 3, 2, 1])),
            Field::eth_type(0x0800),
            Field::vlan(VlanId(7)),
            Field::ipv4_src(Ipv4Addr::new(10, 0, 0, 1)),
            Field { mask: Some(0xffff_ff00), ..Field::ipv4_dst(Ipv4Addr::new(10, 1, 2, 0)) },
        ];
        assert_eq!(round(&fields).unwrap(), fields);
        assert_eq!(round(&[]).unwrap(), []);
        assert_eq!(round(&[Field::untagged()]).unwrap(), [Field::untagged()]);
    }

    #[test]
    fn what_the_fixed_match_lacks_is_named() {
        let ipv6 = round(&[Field::ipv6_dst(1u128.into())]).unwrap_err();
        assert_eq!((ipv6.what, ipv6.needs), ("ipv6_dst", Some(Version::V1_2)));
        let masked = Field { mask: Some(1), ..Field::eth_dst(MacAddr::BROADCAST) };
        assert_eq!(round(&[masked]).unwrap_err().what, "mask of eth_dst");
    }
}
