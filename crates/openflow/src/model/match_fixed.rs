//! The match structs of fixed size: 1.0 (40 bytes) and 1.1 (88 bytes). OpenFlow 1.0.0 §5.2.3, OpenFlow 1.1.0 §A.2.3.

use super::field::{Field, FieldId, VID_PRESENT};
use super::matching::Match;
use super::oxm::unsupported_field;
use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{
    EncodeError, Encoder, Expected, MacAddr, ParseErrorKind, PortNo, Result, Version, VlanId,
};

/// Wildcard bits `OFPFW_*` of 1.0.
mod wildcards_1_0 {
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
}

/// Wildcard bits `OFPFW_*` of 1.1.
mod wildcards_1_1 {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const DL_VLAN: u32 = 1 << 1;
    pub(super) const DL_VLAN_PCP: u32 = 1 << 2;
    pub(super) const DL_TYPE: u32 = 1 << 3;
    pub(super) const NW_TOS: u32 = 1 << 4;
    pub(super) const NW_PROTO: u32 = 1 << 5;
    pub(super) const TP_SRC: u32 = 1 << 6;
    pub(super) const TP_DST: u32 = 1 << 7;
    pub(super) const MPLS_LABEL: u32 = 1 << 8;
    pub(super) const MPLS_TC: u32 = 1 << 9;
}

/// `OFP_VLAN_NONE`, `OFPVID_NONE`: untagged packets.
const VLAN_NONE: u16 = 0xffff;
/// `OFPVID_ANY` of 1.1: packets with any VLAN tag.
const VLAN_ANY: u16 = 0xfffe;

const ETHERTYPE_ARP: u16 = 0x0806;
const PROTO_ICMP: u8 = 1;
const PROTO_UDP: u8 = 17;
const PROTO_SCTP: u8 = 132;

/// A value and its mask, with ones for the bits to match.
type Masked<T> = (T, T);

/// The fields of both structs; `None` and mask 0 are wildcards.
#[derive(Debug, Clone, Copy, Default)]
struct FixedMatch {
    in_port: Option<PortNo>,
    metadata: Masked<u64>,
    dl_dst: Masked<u64>,
    dl_src: Masked<u64>,
    dl_type: Option<u16>,
    dl_vlan: Option<u16>,
    dl_vlan_pcp: Option<u8>,
    nw_tos: Option<u8>,
    nw_proto: Option<u8>,
    nw_src: Masked<u32>,
    nw_dst: Masked<u32>,
    tp_src: Option<u16>,
    tp_dst: Option<u16>,
    mpls_label: Option<u32>,
    mpls_tc: Option<u8>,
}

const MAC_BITS: u64 = 0xffff_ffff_ffff;

/// The field `id`, unless its mask is 0; `all` is the mask of an exact match.
fn masked_field<T: Into<u128>>(id: FieldId, (value, mask): Masked<T>, all: T) -> Option<Field> {
    let (value, mask, all) = (value.into(), mask.into(), all.into());
    let field = Field::new(id, value & mask);
    let field = if mask == all { field } else { field.masked(mask) };
    (mask != 0).then_some(field)
}

impl FixedMatch {
    /// The fields that are not wildcards, under the names of later versions.
    fn fields(self) -> [Option<Field>; 15] {
        let is_arp = self.dl_type == Some(ETHERTYPE_ARP);
        let new = |id, value: u128| Some(Field::new(id, value));
        let vlan = |vlan| match vlan {
            VLAN_NONE => Field::untagged(),
            VLAN_ANY => Field::tagged(),
            vid => Field::vlan(VlanId(vid)),
        };
        let tos = |tos: u8| match tos & 3 {
            0 => Field::new(FieldId::IP_DSCP, (tos >> 2).into()),
            _ => Field::new(FieldId::NW_TOS, tos.into()),
        };
        let proto = if is_arp { FieldId::ARP_OP } else { FieldId::IP_PROTO };
        let (src, dst) = if is_arp {
            (FieldId::ARP_SPA, FieldId::ARP_TPA)
        } else {
            (FieldId::IPV4_SRC, FieldId::IPV4_DST)
        };
        [
            self.in_port.map(Field::in_port),
            masked_field(FieldId::METADATA, self.metadata, u64::MAX),
            masked_field(FieldId::ETH_DST, self.dl_dst, MAC_BITS),
            masked_field(FieldId::ETH_SRC, self.dl_src, MAC_BITS),
            self.dl_type.map(Field::eth_type),
            self.dl_vlan.map(vlan),
            self.dl_vlan_pcp.and_then(|pcp| new(FieldId::VLAN_PCP, pcp.into())),
            self.nw_tos.map(tos),
            self.nw_proto.and_then(|n| new(proto, n.into())),
            masked_field(src, self.nw_src, u32::MAX),
            masked_field(dst, self.nw_dst, u32::MAX),
            self.tp_src.and_then(|n| new(self.port_fields(n).0, n.into())),
            self.tp_dst.and_then(|n| new(self.port_fields(n).1, n.into())),
            self.mpls_label.and_then(|n| new(FieldId::MPLS_LABEL, n.into())),
            self.mpls_tc.and_then(|n| new(FieldId::MPLS_TC, n.into())),
        ]
    }

    /// The fields that `tp_src` and `tp_dst` stand for, for the value `n`.
    fn port_fields(&self, n: u16) -> (FieldId, FieldId) {
        let proto = self.nw_proto.filter(|_| self.dl_type != Some(ETHERTYPE_ARP));
        match proto {
            Some(PROTO_ICMP) if n <= 0xff => (FieldId::ICMPV4_TYPE, FieldId::ICMPV4_CODE),
            Some(PROTO_UDP) => (FieldId::UDP_SRC, FieldId::UDP_DST),
            Some(PROTO_SCTP) => (FieldId::SCTP_SRC, FieldId::SCTP_DST),
            _ => (FieldId::TCP_SRC, FieldId::TCP_DST),
        }
    }

    /// Converts `it` to the struct of `version`.
    ///
    /// # Errors
    /// The first field that the struct lacks, or that would be parsed as a different field.
    fn from_match(it: &Match, version: Version) -> Result<Self, EncodeError> {
        let unsupported = |what, needs| Err(EncodeError::new(what, version, needs));
        let mut fixed = Self::default();
        for (n, oxm) in it.fields.iter().enumerate() {
            let field =
                oxm.field().ok_or_else(|| unsupported_field(oxm.id(), version))?.normalized();
            if it.fields.iter().take(n).any(|before| before.id().canonical() == field.id) {
                return unsupported("duplicate field", None);
            }
            if field.mask != Some(0) && !fixed.set(&field, version) {
                return Err(unsupported_field(field.id, version));
            }
        }
        // What would be parsed again must be the same fields.
        let parsed_again = fixed.fields();
        for field in it.iter().map(Field::normalized).filter(|field| field.mask != Some(0)) {
            if !parsed_again.contains(&Some(field)) {
                let what = field.id.row().map_or("field", |row| row.name);
                let needs = if field == Field::tagged() { Version::V1_1 } else { Version::V1_2 };
                return unsupported(what, Some(needs));
            }
        }
        Ok(fixed)
    }

    /// Sets the field; `false` if the struct of `version` lacks it. Values that do not fit are truncated;
    /// [`from_match`](Self::from_match) notices.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the caller compares the result with the field"
    )]
    fn set(&mut self, field: &Field, version: Version) -> bool {
        let Field { value, mask, .. } = *field;
        let bits = mask.unwrap_or(u128::MAX);
        let (n, is_1_1) = (value as u16, version > Version::V1_0);
        match field.id {
            FieldId::IN_PORT => self.in_port = Some(PortNo(value as u32)),
            FieldId::METADATA if is_1_1 => self.metadata = (value as u64, bits as u64),
            FieldId::ETH_DST => self.dl_dst = (value as u64, bits as u64 & MAC_BITS),
            FieldId::ETH_SRC => self.dl_src = (value as u64, bits as u64 & MAC_BITS),
            FieldId::ETH_TYPE => self.dl_type = Some(n),
            FieldId::VLAN_VID => {
                self.dl_vlan = Some(match (value, mask) {
                    (VID_PRESENT, Some(VID_PRESENT)) if is_1_1 => VLAN_ANY,
                    (0, _) => VLAN_NONE,
                    _ => n & 0x0fff,
                });
            }
            FieldId::VLAN_PCP => self.dl_vlan_pcp = Some(value as u8),
            FieldId::IP_DSCP => self.nw_tos = Some((value as u8) << 2),
            FieldId::NW_TOS => self.nw_tos = Some(value as u8),
            FieldId::IP_PROTO | FieldId::ARP_OP => self.nw_proto = Some(value as u8),
            FieldId::IPV4_SRC | FieldId::ARP_SPA => self.nw_src = (value as u32, bits as u32),
            FieldId::IPV4_DST | FieldId::ARP_TPA => self.nw_dst = (value as u32, bits as u32),
            FieldId::TCP_SRC | FieldId::UDP_SRC | FieldId::SCTP_SRC | FieldId::ICMPV4_TYPE => {
                self.tp_src = Some(n);
            }
            FieldId::TCP_DST | FieldId::UDP_DST | FieldId::SCTP_DST | FieldId::ICMPV4_CODE => {
                self.tp_dst = Some(n);
            }
            FieldId::MPLS_LABEL if is_1_1 => self.mpls_label = Some(value as u32),
            FieldId::MPLS_TC if is_1_1 => self.mpls_tc = Some(value as u8),
            _ => return false,
        }
        true
    }
}

/// `value`, unless the wildcard `bit` is set.
fn unless_wildcard<T>(wildcards: u32, bit: u32, value: T) -> Option<T> {
    (wildcards & bit == 0).then_some(value)
}

/// The wildcard `bit`, if there is no value.
const fn wildcard_if_none<T: Copy>(value: Option<T>, bit: u32) -> u32 {
    if value.is_none() { bit } else { 0 }
}

fn take_mac(r: &mut Reader<'_>) -> Result<u64> {
    r.array("match").map(|bytes| MacAddr(bytes).to_u64())
}

fn take_u8(r: &mut Reader<'_>) -> Result<u8> {
    r.array("match").map(|[byte]| byte)
}

/// Checks the VLAN of a match; `at` is its position in the message.
///
/// # Errors
/// `Value` if it is neither a VLAN ID nor a special value of the version.
fn checked_vlan(r: &Reader<'_>, at: usize, vid: Option<u16>) -> Result<Option<u16>> {
    let is_any = r.version() > Version::V1_0 && vid == Some(VLAN_ANY);
    match vid {
        Some(vid) if vid > 0x0fff && vid != VLAN_NONE && !is_any => {
            let error = r.error_at(at, "dl_vlan", ParseErrorKind::Value);
            Err(error.with_value(vid.into(), Expected::AtMost(0x0fff)))
        }
        _ => Ok(vid),
    }
}

/// Parses the struct of 1.0.
///
/// # Errors
/// `Truncated`; `Value` for an invalid VLAN.
fn parse_struct_1_0(r: &mut Reader<'_>) -> Result<FixedMatch> {
    let mut m = r.nested("match", ErrorContext::Match)?;
    let at = m.at();
    r.take("match", 40).map_err(|e| e.within(ErrorContext::Match))?;
    let wildcards = m.u32("match")?;
    let mac_mask = |bit: u32| if wildcards & bit == 0 { MAC_BITS } else { 0 };
    let prefix_mask = |shift: u32| u32::MAX.checked_shl(wildcards >> shift & 63).unwrap_or(0);
    let in_port = unless_wildcard(wildcards, wildcards_1_0::IN_PORT, m.u16("match")?);
    let dl_src = (take_mac(&mut m)?, mac_mask(wildcards_1_0::DL_SRC));
    let dl_dst = (take_mac(&mut m)?, mac_mask(wildcards_1_0::DL_DST));
    let dl_vlan = unless_wildcard(wildcards, wildcards_1_0::DL_VLAN, m.u16("match")?);
    let dl_vlan_pcp = unless_wildcard(wildcards, wildcards_1_0::DL_VLAN_PCP, take_u8(&mut m)?);
    m.take("match", 1)?;
    let dl_type = unless_wildcard(wildcards, wildcards_1_0::DL_TYPE, m.u16("match")?);
    let nw_tos = unless_wildcard(wildcards, wildcards_1_0::NW_TOS, take_u8(&mut m)?);
    let nw_proto = unless_wildcard(wildcards, wildcards_1_0::NW_PROTO, take_u8(&mut m)?);
    m.take("match", 2)?;
    let fixed = FixedMatch {
        in_port: in_port.map(PortNo::from_u16),
        dl_dst,
        dl_src,
        dl_type,
        dl_vlan: checked_vlan(&m, at + 18, dl_vlan)?,
        dl_vlan_pcp,
        nw_tos,
        nw_proto,
        nw_src: (m.u32("match")?, prefix_mask(wildcards_1_0::NW_SRC_SHIFT)),
        nw_dst: (m.u32("match")?, prefix_mask(wildcards_1_0::NW_DST_SHIFT)),
        tp_src: unless_wildcard(wildcards, wildcards_1_0::TP_SRC, m.u16("match")?),
        tp_dst: unless_wildcard(wildcards, wildcards_1_0::TP_DST, m.u16("match")?),
        ..FixedMatch::default()
    };
    Ok(fixed)
}

/// Parses the struct of the version of `r`.
///
/// # Errors
/// As for [`parse_struct_1_0`] and [`parse_struct_1_1`].
fn parse_struct(r: &mut Reader<'_>) -> Result<FixedMatch> {
    if r.version() == Version::V1_0 { parse_struct_1_0(r) } else { parse_struct_1_1(r) }
}

/// Takes a match of 1.0 or 1.1; returns its fields.
pub(crate) fn parse_fields(r: &mut Reader<'_>) -> Result<impl Iterator<Item = Field> + use<>> {
    Ok(parse_struct(r)?.fields().into_iter().flatten())
}

/// Takes and validates a match of 1.0 or 1.1.
pub(crate) fn validate(r: &mut Reader<'_>) -> Result<()> {
    parse_struct(r).map(drop)
}

/// Number of low bits that the mask ignores, 0 to 32.
///
/// # Errors
/// `what`, if the mask is not a prefix.
fn ignored_bits(mask: u32, what: &'static str) -> Result<u32, EncodeError> {
    let ignored = mask.trailing_zeros();
    if mask.leading_ones() + ignored != 32 {
        let (version, needs) = (Version::V1_0, Some(Version::V1_1));
        return Err(EncodeError::new(what, version, needs));
    }
    Ok(ignored)
}

/// Encodes the match of 1.0. Wildcarded fields are zero; a wildcarded IPv4 address ignores 32 bits.
///
/// # Errors
/// Names the first field or mask that 1.0 does not support.
pub(super) fn encode_1_0(it: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let f = FixedMatch::from_match(it, Version::V1_0)?;
    let mac_wildcard = |(_, mask): Masked<u64>, bit, what| match mask {
        0 => Ok(bit),
        MAC_BITS => Ok(0),
        _ => Err(EncodeError::new(what, Version::V1_0, Some(Version::V1_1))),
    };
    let wildcards = wildcard_if_none(f.in_port, wildcards_1_0::IN_PORT)
        | wildcard_if_none(f.dl_vlan, wildcards_1_0::DL_VLAN)
        | mac_wildcard(f.dl_src, wildcards_1_0::DL_SRC, "mask of eth_src")?
        | mac_wildcard(f.dl_dst, wildcards_1_0::DL_DST, "mask of eth_dst")?
        | wildcard_if_none(f.dl_type, wildcards_1_0::DL_TYPE)
        | wildcard_if_none(f.nw_proto, wildcards_1_0::NW_PROTO)
        | wildcard_if_none(f.tp_src, wildcards_1_0::TP_SRC)
        | wildcard_if_none(f.tp_dst, wildcards_1_0::TP_DST)
        | ignored_bits(f.nw_src.1, "non-prefix mask of ipv4_src")? << wildcards_1_0::NW_SRC_SHIFT
        | ignored_bits(f.nw_dst.1, "non-prefix mask of ipv4_dst")? << wildcards_1_0::NW_DST_SHIFT
        | wildcard_if_none(f.dl_vlan_pcp, wildcards_1_0::DL_VLAN_PCP)
        | wildcard_if_none(f.nw_tos, wildcards_1_0::NW_TOS);
    let in_port = f.in_port.map_or(Ok(0), PortNo::to_u16)?;
    out.put(&wildcards.to_be_bytes());
    out.put(&in_port.to_be_bytes());
    out.put(&MacAddr::from_u64(f.dl_src.0));
    out.put(&MacAddr::from_u64(f.dl_dst.0));
    out.put(&f.dl_vlan.unwrap_or_default().to_be_bytes());
    out.put(&[f.dl_vlan_pcp.unwrap_or_default(), 0]);
    out.put(&f.dl_type.unwrap_or_default().to_be_bytes());
    out.put(&[f.nw_tos.unwrap_or_default(), f.nw_proto.unwrap_or_default(), 0, 0]);
    out.put(&f.nw_src.0.to_be_bytes());
    out.put(&f.nw_dst.0.to_be_bytes());
    out.put(&f.tp_src.unwrap_or_default().to_be_bytes());
    out.put(&f.tp_dst.unwrap_or_default().to_be_bytes());
    Ok(())
}

/// `OFPMT_STANDARD`, the type of the match of 1.1.
const TYPE_1_1: u16 = 0;

/// Length of the match of 1.1.
const LEN_1_1: u16 = 88;

/// Parses the struct of 1.1, whose masks have ones for bits to ignore.
///
/// # Errors
/// `Truncated`; `UnknownType` for another type of match, `Length` for another length; `Value` for an invalid VLAN.
fn parse_struct_1_1(r: &mut Reader<'_>) -> Result<FixedMatch> {
    let mut m = r.nested("match", ErrorContext::Match)?;
    let (at, kind, len) = (m.at(), m.u16("match")?, m.u16("match")?);
    if kind != TYPE_1_1 {
        let error = m.error_at(at, "match type", ParseErrorKind::UnknownType);
        return Err(error.with_value(kind.into(), Expected::Exactly(TYPE_1_1)));
    }
    if len != LEN_1_1 {
        return Err(m.length_error(at + 2, "match", len.into(), Expected::Exactly(LEN_1_1)));
    }
    r.take("match", LEN_1_1.into()).map_err(|e| e.within(ErrorContext::Match))?;
    let in_port = PortNo(m.u32("match")?);
    let wildcards = m.u32("match")?;
    let dl_src = (take_mac(&mut m)?, !take_mac(&mut m)? & MAC_BITS);
    let dl_dst = (take_mac(&mut m)?, !take_mac(&mut m)? & MAC_BITS);
    let dl_vlan = unless_wildcard(wildcards, wildcards_1_1::DL_VLAN, m.u16("match")?);
    let dl_vlan_pcp = unless_wildcard(wildcards, wildcards_1_1::DL_VLAN_PCP, take_u8(&mut m)?);
    m.take("match", 1)?;
    let dl_type = unless_wildcard(wildcards, wildcards_1_1::DL_TYPE, m.u16("match")?);
    let nw_tos = unless_wildcard(wildcards, wildcards_1_1::NW_TOS, take_u8(&mut m)?);
    let nw_proto = unless_wildcard(wildcards, wildcards_1_1::NW_PROTO, take_u8(&mut m)?);
    let nw_src = (m.u32("match")?, !m.u32("match")?);
    let nw_dst = (m.u32("match")?, !m.u32("match")?);
    let tp_src = unless_wildcard(wildcards, wildcards_1_1::TP_SRC, m.u16("match")?);
    let tp_dst = unless_wildcard(wildcards, wildcards_1_1::TP_DST, m.u16("match")?);
    let mpls_label = unless_wildcard(wildcards, wildcards_1_1::MPLS_LABEL, m.u32("match")?);
    let mpls_tc = unless_wildcard(wildcards, wildcards_1_1::MPLS_TC, take_u8(&mut m)?);
    m.take("match", 3)?;
    let take_u64 = |r: &mut Reader<'_>| r.array("match").map(u64::from_be_bytes);
    let metadata = (take_u64(&mut m)?, !take_u64(&mut m)?);
    let fixed = FixedMatch {
        in_port: unless_wildcard(wildcards, wildcards_1_1::IN_PORT, in_port),
        metadata,
        dl_dst,
        dl_src,
        dl_type,
        dl_vlan: checked_vlan(&m, at + 36, dl_vlan)?,
        dl_vlan_pcp,
        nw_tos,
        nw_proto,
        nw_src,
        nw_dst,
        tp_src,
        tp_dst,
        mpls_label,
        mpls_tc,
    };
    Ok(fixed)
}

/// Encodes the match of 1.1. Wildcarded fields are zero.
///
/// # Errors
/// Names the first field that 1.1 does not support.
pub(super) fn encode_1_1(it: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let f = FixedMatch::from_match(it, Version::V1_1)?;
    let wildcards = wildcard_if_none(f.in_port, wildcards_1_1::IN_PORT)
        | wildcard_if_none(f.dl_vlan, wildcards_1_1::DL_VLAN)
        | wildcard_if_none(f.dl_vlan_pcp, wildcards_1_1::DL_VLAN_PCP)
        | wildcard_if_none(f.dl_type, wildcards_1_1::DL_TYPE)
        | wildcard_if_none(f.nw_tos, wildcards_1_1::NW_TOS)
        | wildcard_if_none(f.nw_proto, wildcards_1_1::NW_PROTO)
        | wildcard_if_none(f.tp_src, wildcards_1_1::TP_SRC)
        | wildcard_if_none(f.tp_dst, wildcards_1_1::TP_DST)
        | wildcard_if_none(f.mpls_label, wildcards_1_1::MPLS_LABEL)
        | wildcard_if_none(f.mpls_tc, wildcards_1_1::MPLS_TC);
    out.put(&TYPE_1_1.to_be_bytes());
    out.put(&LEN_1_1.to_be_bytes());
    out.put(&f.in_port.unwrap_or_default().0.to_be_bytes());
    out.put(&wildcards.to_be_bytes());
    for (addr, mask) in [f.dl_src, f.dl_dst] {
        out.put(&MacAddr::from_u64(addr));
        out.put(&MacAddr::from_u64(!mask & MAC_BITS));
    }
    out.put(&f.dl_vlan.unwrap_or_default().to_be_bytes());
    out.put(&[f.dl_vlan_pcp.unwrap_or_default(), 0]);
    out.put(&f.dl_type.unwrap_or_default().to_be_bytes());
    out.put(&[f.nw_tos.unwrap_or_default(), f.nw_proto.unwrap_or_default()]);
    for (addr, mask) in [f.nw_src, f.nw_dst] {
        out.put(&addr.to_be_bytes());
        out.put(&(!mask).to_be_bytes());
    }
    out.put(&f.tp_src.unwrap_or_default().to_be_bytes());
    out.put(&f.tp_dst.unwrap_or_default().to_be_bytes());
    out.put(&f.mpls_label.unwrap_or_default().to_be_bytes());
    out.put(&[f.mpls_tc.unwrap_or_default(), 0, 0, 0]);
    out.put(&f.metadata.0.to_be_bytes());
    out.put(&(!f.metadata.1).to_be_bytes());
    Ok(())
}
