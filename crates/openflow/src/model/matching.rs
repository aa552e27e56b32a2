//! What a rule matches. §7.2.3.

use core::fmt;

use super::codec::{Codec, Encoding};
use super::field::{Field, FieldId, Prerequisite};
use super::match_fixed;
use super::oxm::{Oxm, RawOxm};
use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, ParseErrorKind, PortNo, Result, Version};

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

/// What is wrong with a field of a match, beyond its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchError {
    /// Which field.
    pub id: FieldId,
    /// In which way.
    pub why: MatchErrorKind,
}

/// In which way a field is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchErrorKind {
    /// It stands there twice. `OFPBMC_DUP_FIELD`.
    Duplicate,
    /// Something else must be matched too, and is not. `OFPBMC_BAD_PREREQ`.
    MissingPrerequisite(Prerequisite),
    /// No mask may come with it. `OFPBMC_BAD_MASK`.
    MaskNotAllowed,
    /// It has bits that its row has not. `OFPBMC_BAD_VALUE`.
    ValueTooLarge,
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.id.name();
        match self.why {
            MatchErrorKind::Duplicate => write!(f, "{name} stands there twice"),
            MatchErrorKind::MissingPrerequisite(need) => write!(f, "{name} needs {need}"),
            MatchErrorKind::MaskNotAllowed => write!(f, "{name} takes no mask"),
            MatchErrorKind::ValueTooLarge => write!(f, "{name} has a value that cannot be"),
        }
    }
}

impl core::error::Error for MatchError {}

impl Match {
    /// The field `id`, under whichever of its headers, if it is matched and has 16 bytes at most.
    pub fn get(&self, id: FieldId) -> Option<&Field> {
        self.iter().find(|field| field.id.same_as(id))
    }

    /// The fields of 16 bytes at most.
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
    pub fn check(&self) -> Result<(), MatchError> {
        let mut seen = Vec::with_capacity(self.fields.len());
        for oxm in &self.fields {
            let id = oxm.id();
            let wrong = |why| Err(MatchError { id, why });
            if seen.contains(&id.canonical()) {
                return wrong(MatchErrorKind::Duplicate);
            }
            seen.push(id.canonical());
            let Some(row) = id.row() else { continue };
            let unmet = |need: &&Prerequisite| !self.iter().any(|field| need.is_met_by(field));
            if let Some(need) = row.prerequisites.iter().find(unmet) {
                return wrong(MatchErrorKind::MissingPrerequisite(*need));
            }
            if oxm.is_masked() && !row.maskable() {
                return wrong(MatchErrorKind::MaskNotAllowed);
            }
            if oxm.field().is_some_and(|field| field.value & !field.significant_bits() != 0) {
                return wrong(MatchErrorKind::ValueTooLarge);
            }
        }
        Ok(())
    }
}

/// `OFPMT_OXM`.
const OFPMT_OXM: u16 = 1;

/// The form that the version has: 40 bytes in 1.0, 88 in 1.1, then type, length, fields and zeros up to eight bytes.
///
/// Refused when read: besides what [`Oxm`] says, another type of match than the version's, and a field that is there
/// twice. §7.2.3.1, §7.2.3.6.
impl Codec for Match {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        match r.version() {
            Version::V1_0 => match_fixed::parse_1_0(r),
            Version::V1_1 => match_fixed::parse_1_1(r),
            _ => BareMatch::parse(&mut list(r)?),
        }
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        match out.version() {
            Version::V1_0 => match_fixed::encode_1_0(self, out),
            Version::V1_1 => match_fixed::encode_1_1(self, out),
            _ => {
                let start = out.len();
                OFPMT_OXM.encode(out)?;
                out.put(&[0u8; 2]);
                BareMatch::encode(self, out)?;
                out.patch_len(start, 2)?;
                out.pad_to_8(start);
                Ok(())
            }
        }
    }
}

/// The fields of a match of 1.2 or later, which is taken from `r` with its padding.
///
/// # Errors
/// Another type of match, a length that cannot be.
fn list<'a>(r: &mut Reader<'a>) -> Result<Reader<'a>> {
    let mut head = r.nested("match", ErrorContext::Match)?;
    let (at, kind, len) = (head.at(), head.u16("match")?, head.u16("match")?);
    let len = usize::from(len);
    if kind != OFPMT_OXM {
        return Err(head.error_at(at, "match type", ParseErrorKind::UnknownType));
    }
    let bad_len = head.error_at(at + 2, "match", ParseErrorKind::Length);
    let inner = head.sub("match", len.checked_sub(4).ok_or(bad_len)?)?;
    r.take("match", len.next_multiple_of(8)).map_err(|_| bad_len)?;
    Ok(inner)
}

/// Fields without a row that a match can have. It bounds the search for those that are there twice.
const UNKNOWN_MAX: usize = 32;

/// Words that have a bit for each row.
const WORDS: usize = FieldId::ROWS.len().div_ceil(64);

/// Which fields a match has.
#[derive(Debug)]
struct Seen {
    rows: [u64; WORDS],
    unknown: [FieldId; UNKNOWN_MAX],
    unknown_len: usize,
}

impl Seen {
    const NONE: Self = {
        let none = FieldId { class: 0, number: 0, experimenter: 0 };
        Self { rows: [0; WORDS], unknown: [none; UNKNOWN_MAX], unknown_len: 0 }
    };

    /// Notes `id`.
    ///
    /// # Errors
    /// `Duplicate` if it is there already, `Length` for more unknown ones than anyone means.
    fn add(&mut self, id: FieldId) -> Result<(), ParseErrorKind> {
        if let Some(n) = id.row_index() {
            let word = self.rows.get_mut(n / 64).ok_or(ParseErrorKind::Length)?;
            let had = *word;
            *word |= 1 << (n % 64);
            return if had == *word { Err(ParseErrorKind::Duplicate) } else { Ok(()) };
        }
        if self.unknown.iter().take(self.unknown_len).any(|&seen| seen == id) {
            return Err(ParseErrorKind::Duplicate);
        }
        *self.unknown.get_mut(self.unknown_len).ok_or(ParseErrorKind::Length)? = id;
        self.unknown_len += 1;
        Ok(())
    }
}

/// Hands the fields in `r` to `found`, one by one, each proved, none twice. Allocates nothing.
fn each<'a>(r: &mut Reader<'a>, mut found: impl FnMut(RawOxm<'a>)) -> Result<()> {
    let mut seen = Seen::NONE;
    while !r.is_empty() {
        let at = r.at();
        let raw = RawOxm::take(r)?;
        seen.add(raw.id()).map_err(|why| r.error_at(at, "field", why))?;
        found(raw);
    }
    Ok(())
}

/// Proves the match of 1.2 or later at the start of `r`, and takes it.
pub(crate) fn validate(r: &mut Reader<'_>) -> Result<()> {
    each(&mut list(r)?, |_| {})
}

/// The same; gives back the port that it has.
pub(crate) fn validate_in_port(r: &mut Reader<'_>) -> Result<Option<PortNo>> {
    let mut port = None;
    each(&mut list(r)?, |raw| {
        if raw.id() == FieldId::IN_PORT {
            port = raw.value().first_chunk().map(|port| PortNo(u32::from_be_bytes(*port)));
        }
    })?;
    Ok(port)
}

/// Fields without anything around them, up to the end: the match of Nicira's messages, whose length stands elsewhere.
pub(crate) struct BareMatch;

impl Encoding<Match> for BareMatch {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let mut inner = r.nested("match", ErrorContext::Match)?;
        let mut fields = vec![];
        each(&mut inner, |raw| fields.push(raw.into()))?;
        r.rest();
        Ok(Match { fields })
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (mut seen, version) = (Seen::NONE, out.version());
        for oxm in &value.fields {
            let no = |why| {
                let twice = why == ParseErrorKind::Duplicate;
                let what = if twice { "field that is there twice" } else { "field of too many" };
                EncodeError { what, version, needs: None }
            };
            seen.add(oxm.id()).map_err(no)?;
        }
        value.fields.encode(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::{NeutralForm, hex, unhex};
    use crate::{ErrorCode, ErrorType, MacAddr, ParseError, VlanId};

    fn read(version: Version, bytes: &str) -> Result<Match> {
        let bytes = unhex(bytes).unwrap();
        let mut r = Reader::new(version, &bytes, 8);
        let read = Match::parse(&mut r)?;
        r.finish("match")?;
        Ok(read)
    }

    fn read_alone(bytes: &str) -> Result<Match> {
        let bytes = unhex(bytes).unwrap();
        let mut r = Reader::new(Version::V1_0, &bytes, 8);
        let read = BareMatch::parse(&mut r)?;
        assert!(r.is_empty());
        Ok(read)
    }

    fn written(version: Version, it: &Match) -> Result<String, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        it.encode(&mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(hex(&tx))
    }

    fn written_alone(it: &Match) -> String {
        let (mut tx, mut xid) = (vec![], 1);
        BareMatch::encode(it, &mut Encoder::new(&mut tx, Version::V1_0, &mut xid)).unwrap();
        hex(&tx)
    }

    fn text(it: &Match) -> String {
        let each = it.fields.iter().map(|f| format!("{}={}", f.name(), f.value_text()));
        each.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn matches_of_all_versions_are_read_and_written_as_open_vswitch_does() {
        let lines = include_str!("../../tests/golden/matches.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let said: Vec<_> = line.split(' ').take(3).collect();
            let [form, bytes, told] = said[..] else { panic!("{line}") };
            let bytes = if bytes == "-" { "" } else { bytes };
            let version = Version::from_text(form.trim_end_matches('n')).unwrap();
            let (it, again) = if form.ends_with('n') {
                let it = read_alone(bytes).unwrap();
                let again = written_alone(&it);
                (it, again)
            } else {
                let it = read(version, bytes).unwrap();
                let again = written(version, &it).unwrap();
                (it, again)
            };
            assert_eq!(if it == Match::default() { "-".into() } else { text(&it) }, told, "{line}");
            assert_eq!(again, bytes, "{line}");
            assert_eq!(Match::from_value(&it.to_value(version), version), Ok(it.clone()), "{line}");
            // Those of 1.0 may have a priority without a tag.
            assert!(version < Version::V1_2 || it.check() == Ok(()), "{line}");
        }
    }

    #[test]
    fn the_odd_places_of_a_fixed_match_come_back_too() {
        for (bytes, told) in [
            (
                "00002000 fffe 020000000001 020000000002 ffff 03 00 0806 04 02 0000 00000000 0a000000 0050 0051",
                "in_port=local,eth_dst=02:00:00:00:00:02,eth_src=02:00:00:00:00:01,eth_type=0x806,vlan_vid=none,\
                 vlan_pcp=3,ip_dscp=1,arp_op=2,arp_tpa=10.0.0.0,tcp_src=80,tcp_dst=81",
            ),
            (
                "0010080f 0000 000000000000 000000000000 0000 00 00 0800 05 01 0000 0a010200 0a000001 0003 0100",
                "eth_type=0x800,nw_tos=5,ip_proto=1,ipv4_src=10.1.2.0/24,ipv4_dst=10.0.0.1,icmpv4_type=3,tcp_dst=256",
            ),
        ] {
            let it = read(Version::V1_0, bytes).unwrap();
            assert_eq!(text(&it), told);
            assert_eq!(written(Version::V1_0, &it).unwrap(), bytes.replace(' ', ""));
        }
    }

    #[test]
    fn what_is_wild_in_a_fixed_match_is_not_looked_at() {
        let bytes = "003fffff 0001 020000000001 020000000002 1234 07 01 0800 ff 06 0101 0a000001 0a000002 0050 0051";
        assert_eq!(read(Version::V1_0, bytes), Ok(Match::default()));
        let under = "00380a0f 0000 000000000000 000000000000 0000 00 00 0800 00 06 0000 0a0102ff 00000000 0000 0000";
        let it = read(Version::V1_0, under).unwrap();
        assert_eq!(it.get(FieldId::IPV4_SRC).map(|f| f.value), Some(0x0a01_0200 & !0x3ff));
    }

    #[test]
    fn what_a_version_lacks_is_named() {
        let no = |version, it: &Match| written(version, it).unwrap_err().to_string();
        let v6 = Match::from([Field::ipv6_dst(1u128.into())]);
        assert_eq!(no(Version::V1_0, &v6), "ipv6_dst needs 1.2, this is 1.0");
        assert_eq!(no(Version::V1_1, &v6), "ipv6_dst needs 1.2, this is 1.1");
        let tagged = Match::from([Field::tagged()]);
        assert_eq!(no(Version::V1_0, &tagged), "vlan_vid needs 1.1, this is 1.0");
        assert!(written(Version::V1_1, &tagged).is_ok());
        let masked = Match::from([Field::eth_dst(MacAddr::BROADCAST).masked(1)]);
        assert_eq!(no(Version::V1_0, &masked), "mask of eth_dst needs 1.1, this is 1.0");
        let odd = Match::from([Field::ipv4_src([10, 0, 0, 1].into()).masked(0xff00_00ff)]);
        assert_eq!(
            no(Version::V1_0, &odd),
            "mask of ipv4_src that is no prefix needs 1.1, this is 1.0"
        );
        let udp = Match::from([Field::new(FieldId::UDP_SRC, 5)]);
        assert_eq!(no(Version::V1_0, &udp), "udp_src needs 1.2, this is 1.0");
        let op = Match::from([Field::eth_type(0x0806), Field::new(FieldId::ARP_OP, 256)]);
        assert_eq!(no(Version::V1_1, &op), "arp_op needs 1.2, this is 1.1");
        let port = Match::from([Field::in_port(PortNo(0x1_0000))]);
        assert_eq!(no(Version::V1_0, &port), "port number needs 1.1, this is 1.0");
        let unknown: Oxm = Oxm::from_text("oxm_8000_99", "0x01").unwrap();
        let unknown = Match { fields: vec![unknown] };
        assert_eq!(no(Version::V1_0, &unknown), "unknown field needs 1.2, this is 1.0");
        let twice = Match::from([Field::untagged(), Field::vlan(VlanId(1))]);
        assert_eq!(no(Version::V1_3, &twice), "field that is there twice cannot be said in 1.3");
        assert_eq!(no(Version::V1_0, &twice), "field that is there twice cannot be said in 1.0");
    }

    #[test]
    fn malformed_matches_deserve_the_errors_of_the_specification() {
        let code = |version, bytes: &str| {
            let error: ParseError = read(version, bytes).unwrap_err();
            let (kind, code) = error.code();
            assert_eq!(kind, ErrorType::BAD_MATCH, "{error}");
            code
        };
        let v = Version::V1_3;
        assert_eq!(code(v, "0000 0004 00000000"), ErrorCode(0));
        assert_eq!(code(v, "0001 0003 00000000"), ErrorCode(1));
        assert_eq!(code(v, "0001 0009 8000000400"), ErrorCode(1));
        assert_eq!(code(v, "0001 0004"), ErrorCode(1));
        assert_eq!(code(v, "0001 000c 80001704 0a000001 00000000"), ErrorCode(1));
        assert_eq!(code(v, "0001 0010 80001708 0a000001 ffffff00"), ErrorCode(5));
        assert_eq!(code(v, "0001 0010 80000a02 0800 80000a02 0806"), ErrorCode(10));
        assert_eq!(code(Version::V1_0, "003820ff"), ErrorCode(1));
        let vlan = "003820fd 0000 000000000000 000000000000 1005 00 00 0000 00 00 0000 00000000 00000000 0000 0000";
        assert_eq!(code(Version::V1_0, vlan), ErrorCode(7));
        let of_1_1 = written(Version::V1_1, &Match::default()).unwrap();
        assert_eq!(code(Version::V1_1, &of_1_1.replacen("0000", "0001", 1)), ErrorCode(0));
        assert_eq!(code(Version::V1_1, &of_1_1.replacen("0058", "0059", 1)), ErrorCode(1));
        assert_eq!(code(Version::V1_1, &of_1_1[..100]), ErrorCode(1));
    }

    #[test]
    fn a_match_that_a_switch_would_refuse_says_why() {
        let unfit = |it: Match| it.check().unwrap_err().to_string();
        let tcp = Field::new(FieldId::TCP_DST, 80);
        assert_eq!(unfit(Match::from([tcp])), "tcp_dst needs ip_proto=6");
        let proto = Field::ip_proto(6);
        assert_eq!(
            unfit(Match::from([proto, tcp])),
            "ip_proto needs eth_type=0x800 or eth_type=0x86dd"
        );
        assert_eq!(Match::from([Field::eth_type(0x800), proto, tcp]).check(), Ok(()));
        let pcp = Field::new(FieldId::VLAN_PCP, 3);
        assert_eq!(unfit(Match::from([pcp])), "vlan_pcp needs vlan_vid=any");
        assert_eq!(Match::from([Field::tagged(), pcp]).check(), Ok(()));
        let phy = Field::new(FieldId::IN_PHY_PORT, 1);
        assert_eq!(unfit(Match::from([phy])), "in_phy_port needs in_port");
        assert_eq!(
            unfit(Match::from([Field::eth_type(0x800).masked(0xff00)])),
            "eth_type takes no mask"
        );
        let nine = Field::new(FieldId::VLAN_PCP, 9);
        assert_eq!(
            unfit(Match::from([Field::tagged(), nine])),
            "vlan_pcp has a value that cannot be"
        );
        let twice = Match::from([Field::untagged(), Field::tagged()]);
        assert_eq!(unfit(twice), "vlan_vid stands there twice");
    }

    #[test]
    fn fields_are_found_under_any_of_their_headers() {
        let nicira = FieldId { class: 0, number: 1, experimenter: 0 };
        let it = Match::from([Field::new(nicira, 5), Field::new(FieldId::NXM_IN_PORT, 0xfffe)]);
        assert_eq!(it.get(FieldId::ETH_DST).map(|field| field.value), Some(5));
        assert_eq!(it.in_port(), Some(PortNo::LOCAL));
        assert_eq!(Match::from([Field::in_port(PortNo(7))]).in_port(), Some(PortNo(7)));
    }
}
