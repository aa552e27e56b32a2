//! What a rule matches. §7.2.3.

use core::fmt;
use std::collections::BTreeSet;

use super::codec::{Adapt, Codec};
use super::field::{Field, FieldId, Need};
use super::match_fixed;
use super::oxm::Oxm;
use super::reader::Reader;
use crate::error::Part;
use crate::{Inexpressible, Out, PortNo, Result, Version, Why};

/// Fields that a packet must have; with none, every packet matches.
///
/// 1.0 and 1.1 have fixed places for their fields: what comes from there has the names of later versions, in the order
/// of the places. `arp_spa` is `nw_src` there, `arp_op` is `nw_proto`, the type of ICMP is `tp_src`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// In the order of the wire.
    pub fields: Vec<Oxm>,
}

impl<const N: usize> From<[Field; N]> for Match {
    fn from(fields: [Field; N]) -> Self {
        fields.into_iter().collect()
    }
}

impl FromIterator<Field> for Match {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self { fields: fields.into_iter().map(Oxm::Field).collect() }
    }
}

/// What is wrong with a field of a match, beyond its octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit {
    /// Which field.
    pub id: FieldId,
    /// In which way.
    pub why: Unfitness,
}

/// In which way a field is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfitness {
    /// It stands there twice. `OFPBMC_DUP_FIELD`.
    Twice,
    /// Something else must be matched too, and is not. `OFPBMC_BAD_PREREQ`.
    Needs(Need),
    /// No mask may come with it. `OFPBMC_BAD_MASK`.
    Mask,
    /// It has bits that its row has not. `OFPBMC_BAD_VALUE`.
    Value,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.id.name();
        match self.why {
            Unfitness::Twice => write!(f, "{name} stands there twice"),
            Unfitness::Needs(need) => write!(f, "{name} needs {need}"),
            Unfitness::Mask => write!(f, "{name} takes no mask"),
            Unfitness::Value => write!(f, "{name} has a value that cannot be"),
        }
    }
}

impl core::error::Error for Unfit {}

impl Match {
    /// The field `id`, under whichever of its headers, if it is matched and has 16 octets at most.
    pub fn get(&self, id: FieldId) -> Option<&Field> {
        self.iter().find(|field| field.id.same_as(id))
    }

    /// The fields of 16 octets at most.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter_map(Oxm::field)
    }

    /// The port that is matched, be it in OpenFlow's form or in Nicira's of 16 bits.
    pub fn in_port(&self) -> Option<PortNo> {
        let wide = self.get(FieldId::IN_PORT).and_then(|field| field.value.try_into().ok());
        let narrow =
            || self.get(FieldId::NXM_IN_PORT).and_then(|field| field.value.try_into().ok());
        wide.map(PortNo).or_else(|| narrow().map(PortNo::from_u16))
    }

    /// Whether a switch by the book would take the match: nothing twice, prerequisites, masks and values as the table of
    /// fields has them. Masks that Open vSwitch takes are fine. §7.2.3.6.
    ///
    /// # Errors
    /// The first field that is wrong, and how.
    pub fn check(&self) -> Result<(), Unfit> {
        let mut seen = Vec::with_capacity(self.fields.len());
        for oxm in &self.fields {
            let id = oxm.id();
            let wrong = |why| Err(Unfit { id, why });
            if seen.contains(&id.canonical()) {
                return wrong(Unfitness::Twice);
            }
            seen.push(id.canonical());
            let Some(row) = id.row() else { continue };
            let unmet = |need: &&Need| !self.iter().any(|field| need.met_by(field));
            if let Some(need) = row.needs.iter().find(unmet) {
                return wrong(Unfitness::Needs(*need));
            }
            if oxm.is_masked() && !row.maskable() {
                return wrong(Unfitness::Mask);
            }
            if oxm.field().is_some_and(|field| field.value & !field.ones() != 0) {
                return wrong(Unfitness::Value);
            }
        }
        Ok(())
    }
}

/// `OFPMT_OXM`.
const OFPMT_OXM: u16 = 1;

/// The form that the version has: 40 octets in 1.0, 88 in 1.1, then type, length, fields and zeros up to eight octets.
///
/// Refused when read: besides what [`Oxm`] says, another type of match than the version's, and a field that is there
/// twice. §7.2.3.1, §7.2.3.6.
impl Codec for Match {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        match r.version() {
            Version::V1_0 => match_fixed::parse_1_0(r),
            Version::V1_1 => match_fixed::parse_1_1(r),
            _ => {
                let mut head = r.nested("match", Part::Match)?;
                let (at, kind, len) = (head.at(), head.u16("match")?, head.u16("match")?);
                let len = usize::from(len);
                if kind != OFPMT_OXM {
                    return Err(head.error_at(at, "match type", Why::Kind));
                }
                let bad_len = head.error_at(at + 2, "match", Why::Length);
                let mut inner = head.sub("match", len.checked_sub(4).ok_or(bad_len)?)?;
                let read = Nxm::parse(&mut inner)?;
                r.take("match", len.next_multiple_of(8)).map_err(|_| bad_len)?;
                Ok(read)
            }
        }
    }

    fn emit(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        match out.version() {
            Version::V1_0 => match_fixed::emit_1_0(self, out),
            Version::V1_1 => match_fixed::emit_1_1(self, out),
            _ => {
                let start = out.len();
                OFPMT_OXM.emit(out)?;
                out.put(&[0u8; 2]);
                Nxm::emit(self, out)?;
                out.patch_len(start, 2)?;
                out.pad_to_8(start);
                Ok(())
            }
        }
    }
}

/// Fields without anything around them, up to the end: the match of Nicira's messages, whose length stands elsewhere.
pub(crate) struct Nxm;

impl Adapt<Match> for Nxm {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let mut inner = r.nested("match", Part::Match)?;
        let (mut fields, mut seen) = (vec![], BTreeSet::new());
        while !inner.is_empty() {
            let twice = inner.error("field", Why::Duplicate);
            let oxm = Oxm::parse(&mut inner)?;
            if !seen.insert(oxm.id().canonical()) {
                return Err(twice);
            }
            fields.push(oxm);
        }
        r.rest();
        Ok(Match { fields })
    }

    fn emit(value: &Match, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        let (mut seen, version) = (BTreeSet::new(), out.version());
        if !value.fields.iter().all(|oxm| seen.insert(oxm.id().canonical())) {
            return Err(Inexpressible { what: "field that is there twice", version, needs: None });
        }
        value.fields.emit(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::{Plain, unhex};

    fn read(version: Version, text: &str) -> Result<Match> {
        let octets = unhex(text).unwrap();
        let mut r = Reader::new(version, &octets, 8);
        let read = Match::parse(&mut r)?;
        r.finish("match")?;
        Ok(read)
    }

    fn written(version: Version, it: &Match) -> Result<String, Inexpressible> {
        let (mut tx, mut xid) = (vec![], 1);
        it.emit(&mut Out::new(&mut tx, version, &mut xid))?;
        Ok(crate::model::value::hex(&tx))
    }

    /// Octets, text and neutral form say the same, and the octets come back.
    fn says(version: Version, octets: &str, text: &str) {
        let it = read(version, octets).unwrap();
        let told: Vec<_> =
            it.fields.iter().map(|f| format!("{}={}", f.name(), f.value_text())).collect();
        assert_eq!(told.join(","), text);
        assert_eq!(written(version, &it).unwrap(), octets.replace([' ', '\n'], ""), "{text}");
        assert_eq!(Match::from_value(&it.to_value(version), version), Ok(it));
    }

    #[test]
    fn a_fixed_match_of_1_0_is_read_as_fields_of_later_versions() {
        // Written by ovs-ofctl 3.1.
        says(
            Version::V1_0,
            "003820cf 0000 000000000000 000000000000 0000 00 00 0800 00 06 0000 00000000 00000000 0000 0000",
            "eth_type=0x800,ip_proto=6",
        );
        says(
            Version::V1_0,
            "00002000 fffe 020000000001 020000000002 ffff 03 00 0806 04 02 0000 00000000 0a000000 0050 0051",
            "in_port=local,eth_dst=02:00:00:00:00:02,eth_src=02:00:00:00:00:01,eth_type=0x806,vlan_vid=none,\
             vlan_pcp=3,ip_dscp=1,arp_op=2,arp_tpa=10.0.0.0,tcp_src=80,tcp_dst=81",
        );
        says(
            Version::V1_0,
            "0010080f 0000 000000000000 000000000000 0000 00 00 0800 05 01 0000 0a010200 0a000001 0003 0100",
            "eth_type=0x800,nw_tos=5,ip_proto=1,ipv4_src=10.1.2.0/24,ipv4_dst=10.0.0.1,icmpv4_type=3,tcp_dst=256",
        );
    }
}
