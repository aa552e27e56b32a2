//! The fixed matches of 1.0 (40 bytes) and 1.1 (88). OpenFlow 1.0.0 §5.2.3, OpenFlow 1.1.0 §A.2.3.

use super::field::{Field, FieldId, VID_PRESENT};
use super::matching::Match;
use super::oxm::unsupported_field;
use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, MacAddr, ParseErrorKind, PortNo, Result, Version, VlanId};

/// `OFPFW_*` of 1.0.
mod wild_1_0 {
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

/// `OFPFW_*` of 1.1.
mod wild_1_1 {
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

/// `OFP_VLAN_NONE`, `OFPVID_NONE`: no tag.
const VLAN_NONE: u16 = 0xffff;
/// `OFPVID_ANY` of 1.1: a tag, whichever.
const VLAN_ANY: u16 = 0xfffe;

const ARP: u16 = 0x0806;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// A value and the bits of it that count.
type Masked<T> = (T, T);

/// What the places of a fixed match hold; `None` and no bits at all are wild.
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

fn masked<T: Into<u128>>(id: FieldId, (value, mask): Masked<T>, all: T) -> Option<Field> {
    let (value, mask, all) = (value.into(), mask.into(), all.into());
    let field = Field::new(id, value & mask);
    let field = if mask == all { field } else { field.masked(mask) };
    (mask != 0).then_some(field)
}

impl FixedMatch {
    /// The fields of all that is not wild.
    fn fields(&self) -> impl Iterator<Item = Field> {
        let arp = self.dl_type == Some(ARP);
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
        let proto = if arp { FieldId::ARP_OP } else { FieldId::IP_PROTO };
        let (src, dst) = if arp {
            (FieldId::ARP_SPA, FieldId::ARP_TPA)
        } else {
            (FieldId::IPV4_SRC, FieldId::IPV4_DST)
        };
        [
            self.in_port.map(Field::in_port),
            masked(FieldId::METADATA, self.metadata, u64::MAX),
            masked(FieldId::ETH_DST, self.dl_dst, MAC_BITS),
            masked(FieldId::ETH_SRC, self.dl_src, MAC_BITS),
            self.dl_type.map(Field::eth_type),
            self.dl_vlan.map(vlan),
            self.dl_vlan_pcp.and_then(|pcp| new(FieldId::VLAN_PCP, pcp.into())),
            self.nw_tos.map(tos),
            self.nw_proto.and_then(|n| new(proto, n.into())),
            masked(src, self.nw_src, u32::MAX),
            masked(dst, self.nw_dst, u32::MAX),
            self.tp_src.and_then(|n| new(self.of_transport(n).0, n.into())),
            self.tp_dst.and_then(|n| new(self.of_transport(n).1, n.into())),
            self.mpls_label.and_then(|n| new(FieldId::MPLS_LABEL, n.into())),
            self.mpls_tc.and_then(|n| new(FieldId::MPLS_TC, n.into())),
        ]
        .into_iter()
        .flatten()
    }

    /// What `tp_src` and `tp_dst` are when they hold `n`.
    fn of_transport(&self, n: u16) -> (FieldId, FieldId) {
        let proto = self.nw_proto.filter(|_| self.dl_type != Some(ARP));
        match proto {
            Some(ICMP) if n <= 0xff => (FieldId::ICMPV4_TYPE, FieldId::ICMPV4_CODE),
            Some(UDP) => (FieldId::UDP_SRC, FieldId::UDP_DST),
            Some(SCTP) => (FieldId::SCTP_SRC, FieldId::SCTP_DST),
            _ => (FieldId::TCP_SRC, FieldId::TCP_DST),
        }
    }

    /// The places that say `it`.
    ///
    /// # Errors
    /// The first field for which there is no place in `version`, or that would be another one in its place.
    fn of(it: &Match, version: Version) -> Result<Self, EncodeError> {
        let no = |what, needs| Err(EncodeError { what, version, needs });
        let (mut fixed, mut seen) = (Self::default(), Vec::with_capacity(it.fields.len()));
        for oxm in &it.fields {
            let field =
                oxm.field().ok_or_else(|| unsupported_field(oxm.id(), version))?.normalized();
            if seen.contains(&field.id) {
                return no("field that is there twice", None);
            }
            seen.push(field.id);
            if field.mask != Some(0) && !fixed.set(&field, version) {
                return Err(unsupported_field(field.id, version));
            }
        }
        let told: Vec<Field> = fixed.fields().collect();
        for field in it.iter().map(Field::normalized).filter(|field| field.mask != Some(0)) {
            if !told.contains(&field) {
                let what = field.id.row().map_or("field", |row| row.name);
                let needs = if field == Field::tagged() { Version::V1_1 } else { Version::V1_2 };
                return no(what, Some(needs));
            }
        }
        Ok(fixed)
    }

    /// Puts a field into its place; false if it has none. What does not fit is seen when the places are read again.
    #[expect(clippy::cast_possible_truncation, reason = "what is cut off is seen afterwards")]
    fn set(&mut self, field: &Field, version: Version) -> bool {
        let Field { value, mask, .. } = *field;
        let bits = mask.unwrap_or(u128::MAX);
        let (n, later) = (value as u16, version > Version::V1_0);
        match field.id {
            FieldId::IN_PORT => self.in_port = Some(PortNo(value as u32)),
            FieldId::METADATA if later => self.metadata = (value as u64, bits as u64),
            FieldId::ETH_DST => self.dl_dst = (value as u64, bits as u64 & MAC_BITS),
            FieldId::ETH_SRC => self.dl_src = (value as u64, bits as u64 & MAC_BITS),
            FieldId::ETH_TYPE => self.dl_type = Some(n),
            FieldId::VLAN_VID => {
                self.dl_vlan = Some(match (value, mask) {
                    (VID_PRESENT, Some(VID_PRESENT)) if later => VLAN_ANY,
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
            FieldId::MPLS_LABEL if later => self.mpls_label = Some(value as u32),
            FieldId::MPLS_TC if later => self.mpls_tc = Some(value as u8),
            _ => return false,
        }
        true
    }
}

/// What stands at a place, if `bit` does not make it wild.
fn unless<T>(wildcards: u32, bit: u32, value: T) -> Option<T> {
    (wildcards & bit == 0).then_some(value)
}

/// `bit`, if the place is wild.
const fn wild_if<T: Copy>(value: Option<T>, bit: u32) -> u32 {
    if value.is_none() { bit } else { 0 }
}

fn mac(r: &mut Reader<'_>) -> Result<u64> {
    r.array("match").map(|bytes| MacAddr(bytes).to_u64())
}

fn u8_of(r: &mut Reader<'_>) -> Result<u8> {
    r.array("match").map(|[byte]| byte)
}

/// The vlan, unless it is none that can be.
fn vlan(r: &Reader<'_>, at: usize, vid: Option<u16>) -> Result<Option<u16>> {
    let any = r.version() > Version::V1_0 && vid == Some(VLAN_ANY);
    match vid {
        Some(vid) if vid > 0x0fff && vid != VLAN_NONE && !any => {
            Err(r.error_at(at, "dl_vlan", ParseErrorKind::Value))
        }
        _ => Ok(vid),
    }
}

/// Reads 40 bytes.
///
/// # Errors
/// `Short`, and `Value` for a VLAN that is none.
fn fixed_1_0(r: &mut Reader<'_>) -> Result<FixedMatch> {
    let mut m = r.nested("match", ErrorContext::Match)?;
    let at = m.at();
    r.take("match", 40).map_err(|e| e.within(ErrorContext::Match))?;
    let wildcards = m.u32("match")?;
    let whole = |bit: u32| if wildcards & bit == 0 { MAC_BITS } else { 0 };
    let prefix = |shift: u32| u32::MAX.checked_shl(wildcards >> shift & 63).unwrap_or(0);
    let in_port = unless(wildcards, wild_1_0::IN_PORT, m.u16("match")?);
    let dl_src = (mac(&mut m)?, whole(wild_1_0::DL_SRC));
    let dl_dst = (mac(&mut m)?, whole(wild_1_0::DL_DST));
    let dl_vlan = unless(wildcards, wild_1_0::DL_VLAN, m.u16("match")?);
    let dl_vlan_pcp = unless(wildcards, wild_1_0::DL_VLAN_PCP, u8_of(&mut m)?);
    m.take("match", 1)?;
    let dl_type = unless(wildcards, wild_1_0::DL_TYPE, m.u16("match")?);
    let nw_tos = unless(wildcards, wild_1_0::NW_TOS, u8_of(&mut m)?);
    let nw_proto = unless(wildcards, wild_1_0::NW_PROTO, u8_of(&mut m)?);
    m.take("match", 2)?;
    let fixed = FixedMatch {
        in_port: in_port.map(PortNo::from_u16),
        dl_dst,
        dl_src,
        dl_type,
        dl_vlan: vlan(&m, at + 18, dl_vlan)?,
        dl_vlan_pcp,
        nw_tos,
        nw_proto,
        nw_src: (m.u32("match")?, prefix(wild_1_0::NW_SRC_SHIFT)),
        nw_dst: (m.u32("match")?, prefix(wild_1_0::NW_DST_SHIFT)),
        tp_src: unless(wildcards, wild_1_0::TP_SRC, m.u16("match")?),
        tp_dst: unless(wildcards, wild_1_0::TP_DST, m.u16("match")?),
        ..FixedMatch::default()
    };
    Ok(fixed)
}

/// Reads 40 bytes as fields; see [`fixed_1_0`].
pub(super) fn parse_1_0(r: &mut Reader<'_>) -> Result<Match> {
    Ok(fixed_1_0(r)?.fields().collect())
}

/// Reads 88 bytes as fields; see [`fixed_1_1`].
pub(super) fn parse_1_1(r: &mut Reader<'_>) -> Result<Match> {
    Ok(fixed_1_1(r)?.fields().collect())
}

/// Proves a fixed match, and takes it.
pub(crate) fn validate(r: &mut Reader<'_>) -> Result<()> {
    let read = if r.version() == Version::V1_0 { fixed_1_0(r) } else { fixed_1_1(r) };
    read.map(drop)
}

/// Bits at the low end that do not count.
///
/// # Errors
/// A mask that is no prefix.
fn ignored(mask: u32, what: &'static str) -> Result<u32, EncodeError> {
    let ignored = mask.trailing_zeros();
    if mask.leading_ones() + ignored != 32 {
        let (version, needs) = (Version::V1_0, Some(Version::V1_1));
        return Err(EncodeError { what, version, needs });
    }
    Ok(ignored)
}

/// Writes 40 bytes. An address of which no bit counts ignores 32 bits; other places that are wild hold zeros.
///
/// # Errors
/// What has no place in 1.0, by name.
pub(super) fn encode_1_0(it: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let f = FixedMatch::of(it, Version::V1_0)?;
    let whole = |(_, mask): Masked<u64>, bit, what| match mask {
        0 => Ok(bit),
        MAC_BITS => Ok(0),
        _ => Err(EncodeError { what, version: Version::V1_0, needs: Some(Version::V1_1) }),
    };
    let wildcards = wild_if(f.in_port, wild_1_0::IN_PORT)
        | wild_if(f.dl_vlan, wild_1_0::DL_VLAN)
        | whole(f.dl_src, wild_1_0::DL_SRC, "mask of eth_src")?
        | whole(f.dl_dst, wild_1_0::DL_DST, "mask of eth_dst")?
        | wild_if(f.dl_type, wild_1_0::DL_TYPE)
        | wild_if(f.nw_proto, wild_1_0::NW_PROTO)
        | wild_if(f.tp_src, wild_1_0::TP_SRC)
        | wild_if(f.tp_dst, wild_1_0::TP_DST)
        | ignored(f.nw_src.1, "mask of ipv4_src that is no prefix")? << wild_1_0::NW_SRC_SHIFT
        | ignored(f.nw_dst.1, "mask of ipv4_dst that is no prefix")? << wild_1_0::NW_DST_SHIFT
        | wild_if(f.dl_vlan_pcp, wild_1_0::DL_VLAN_PCP)
        | wild_if(f.nw_tos, wild_1_0::NW_TOS);
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

/// `OFPMT_STANDARD` and the bytes of it.
const STANDARD: (u16, u16) = (0, 88);

/// Reads 88 bytes. Masks have ones where a bit is wild.
///
/// # Errors
/// `Short`; `MessageType` for another type of match, `Length` for another length; `Value` for a VLAN that is none.
fn fixed_1_1(r: &mut Reader<'_>) -> Result<FixedMatch> {
    let mut m = r.nested("match", ErrorContext::Match)?;
    let (at, kind, len) = (m.at(), m.u16("match")?, m.u16("match")?);
    if kind != STANDARD.0 {
        return Err(m.error_at(at, "match type", ParseErrorKind::UnknownType));
    }
    if len != STANDARD.1 {
        return Err(m.error_at(at + 2, "match", ParseErrorKind::Length));
    }
    r.take("match", STANDARD.1.into()).map_err(|e| e.within(ErrorContext::Match))?;
    let in_port = PortNo(m.u32("match")?);
    let wildcards = m.u32("match")?;
    let dl_src = (mac(&mut m)?, !mac(&mut m)? & MAC_BITS);
    let dl_dst = (mac(&mut m)?, !mac(&mut m)? & MAC_BITS);
    let dl_vlan = unless(wildcards, wild_1_1::DL_VLAN, m.u16("match")?);
    let dl_vlan_pcp = unless(wildcards, wild_1_1::DL_VLAN_PCP, u8_of(&mut m)?);
    m.take("match", 1)?;
    let dl_type = unless(wildcards, wild_1_1::DL_TYPE, m.u16("match")?);
    let nw_tos = unless(wildcards, wild_1_1::NW_TOS, u8_of(&mut m)?);
    let nw_proto = unless(wildcards, wild_1_1::NW_PROTO, u8_of(&mut m)?);
    let nw_src = (m.u32("match")?, !m.u32("match")?);
    let nw_dst = (m.u32("match")?, !m.u32("match")?);
    let tp_src = unless(wildcards, wild_1_1::TP_SRC, m.u16("match")?);
    let tp_dst = unless(wildcards, wild_1_1::TP_DST, m.u16("match")?);
    let mpls_label = unless(wildcards, wild_1_1::MPLS_LABEL, m.u32("match")?);
    let mpls_tc = unless(wildcards, wild_1_1::MPLS_TC, u8_of(&mut m)?);
    m.take("match", 3)?;
    let number = |r: &mut Reader<'_>| r.array("match").map(u64::from_be_bytes);
    let metadata = (number(&mut m)?, !number(&mut m)?);
    let fixed = FixedMatch {
        in_port: unless(wildcards, wild_1_1::IN_PORT, in_port),
        metadata,
        dl_dst,
        dl_src,
        dl_type,
        dl_vlan: vlan(&m, at + 36, dl_vlan)?,
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

/// Writes 88 bytes; places that are wild hold zeros.
///
/// # Errors
/// What has no place in 1.1, by name.
pub(super) fn encode_1_1(it: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let f = FixedMatch::of(it, Version::V1_1)?;
    let wildcards = wild_if(f.in_port, wild_1_1::IN_PORT)
        | wild_if(f.dl_vlan, wild_1_1::DL_VLAN)
        | wild_if(f.dl_vlan_pcp, wild_1_1::DL_VLAN_PCP)
        | wild_if(f.dl_type, wild_1_1::DL_TYPE)
        | wild_if(f.nw_tos, wild_1_1::NW_TOS)
        | wild_if(f.nw_proto, wild_1_1::NW_PROTO)
        | wild_if(f.tp_src, wild_1_1::TP_SRC)
        | wild_if(f.tp_dst, wild_1_1::TP_DST)
        | wild_if(f.mpls_label, wild_1_1::MPLS_LABEL)
        | wild_if(f.mpls_tc, wild_1_1::MPLS_TC);
    out.put(&STANDARD.0.to_be_bytes());
    out.put(&STANDARD.1.to_be_bytes());
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
