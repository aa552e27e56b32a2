//! The match of a flow entry. §7.2.3.

use core::fmt;

use super::codec::{Codec, Encoding, JointEncoding};
use super::field::{Field, FieldId, KnownHeader, Prerequisite};
use super::match_fixed;
use super::oxm::{Oxm, RawOxm};
use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, PortNo, Result, Version};

/// A match: the field values that a packet must have. Without fields it matches every packet.
///
/// Matches of 1.0 and 1.1 are structs of fixed size. When parsed, their fields get the names of later versions, which
/// depend on the Ethernet type and IP protocol: `nw_src` becomes `ipv4_src` or `arp_spa`, `nw_proto` becomes `ip_proto`
/// or `arp_op`, `tp_src` becomes `tcp_src`, `udp_src`, `sctp_src` or `icmpv4_type`. When encoded, they get the old names
/// again; a field that has no place in the struct is an error.
///
/// ```
/// use sluice_openflow::{Field, Match};
///
/// let http = Match::from([Field::eth_type(0x0800), Field::ip_proto(6), Field::tcp_dst(80)]);
/// assert_eq!(http.to_text(), "tcp,tp_dst=80");
/// assert_eq!(http.check(), Ok(()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// Fields, in the order in which they are encoded in 1.2 and later.
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

/// A field that makes a match invalid although its bytes are well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchError {
    /// The field.
    pub id: FieldId,
    /// What is wrong with it.
    pub why: MatchErrorKind,
}

/// Why a field makes a match invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchErrorKind {
    /// The match has the field twice. `OFPBMC_DUP_FIELD`.
    Duplicate,
    /// The match lacks a field that this one requires. `OFPBMC_BAD_PREREQ`.
    MissingPrerequisite(Prerequisite),
    /// The field has a mask but is not maskable. `OFPBMC_BAD_MASK`.
    MaskNotAllowed,
    /// The value has more bits than the field. `OFPBMC_BAD_VALUE`.
    ValueTooLarge {
        /// The value.
        value: u128,
        /// Width of the field in bits.
        bits: u16,
    },
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.id.name();
        match self.why {
            MatchErrorKind::Duplicate => write!(f, "duplicate field {name}"),
            MatchErrorKind::MissingPrerequisite(need) => write!(f, "{name} requires {need}"),
            MatchErrorKind::MaskNotAllowed => write!(f, "{name} is not maskable"),
            MatchErrorKind::ValueTooLarge { value, bits } => {
                write!(f, "invalid {name} {value:#x} (must fit in {bits} bits)")
            }
        }
    }
}

impl core::error::Error for MatchError {}

impl Match {
    /// The field `id`, under any of its headers; `None` if it is not matched or is longer than 16 bytes.
    pub fn get(&self, id: FieldId) -> Option<&Field> {
        self.iter().find(|field| field.id.same_as(id))
    }

    /// The known fields of up to 16 bytes; [`fields`](Self::fields) has all.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter_map(Oxm::field)
    }

    /// The ingress port, from OpenFlow's field of 32 bits or Nicira's of 16 bits.
    pub fn in_port(&self) -> Option<PortNo> {
        let wide = self.get(FieldId::IN_PORT).and_then(|field| field.value.try_into().ok());
        let narrow =
            || self.get(FieldId::NXM_IN_PORT).and_then(|field| field.value.try_into().ok());
        wide.map(PortNo).or_else(|| narrow().map(PortNo::from_u16))
    }

    /// Checks that the match has no duplicate fields, that the prerequisites of all fields are met, that only maskable
    /// fields have masks, and that values are in range. Masks that only Open vSwitch allows pass. §7.2.3.6.
    ///
    /// # Errors
    /// The first invalid field, and why it is invalid.
    pub fn check(&self) -> Result<(), MatchError> {
        let mut seen = Vec::with_capacity(self.fields.len());
        for oxm in &self.fields {
            let id = oxm.id();
            let invalid = |why| Err(MatchError { id, why });
            if seen.contains(&id.canonical()) {
                return invalid(MatchErrorKind::Duplicate);
            }
            seen.push(id.canonical());
            let Some(row) = id.row() else { continue };
            let unmet = |need: &&Prerequisite| !self.iter().any(|field| need.is_met_by(field));
            if let Some(need) = row.prerequisites.iter().find(unmet) {
                return invalid(MatchErrorKind::MissingPrerequisite(*need));
            }
            if oxm.is_masked() && !row.maskable() {
                return invalid(MatchErrorKind::MaskNotAllowed);
            }
            if let Some(&Field { value, .. }) =
                oxm.field().filter(|field| field.value & !field.significant_bits() != 0)
            {
                return invalid(MatchErrorKind::ValueTooLarge { value, bits: row.bits });
            }
        }
        Ok(())
    }
}

/// `OFPMT_OXM`.
const OFPMT_OXM: u16 = 1;

/// 40 bytes in 1.0, 88 bytes in 1.1; since 1.2 type, length, fields, and padding to a multiple of eight bytes.
///
/// Parsing refuses matches of another type than the version's, duplicate fields, and the fields that [`Oxm`] refuses.
/// §7.2.3.1, §7.2.3.6.
impl Codec for Match {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        match r.version() {
            Version::V1_0 | Version::V1_1 => Ok(match_fixed::parse_fields(r)?.collect()),
            _ => BareMatch::parse(&mut oxm_fields(r)?),
        }
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        match out.version() {
            Version::V1_0 => match_fixed::encode_1_0(self, out),
            Version::V1_1 => match_fixed::encode_1_1(self, out),
            _ => encode_oxm(self, out),
        }
    }
}

/// Appends a match of type `OFPMT_OXM`, with its padding.
fn encode_oxm(it: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
    let start = out.len();
    OFPMT_OXM.encode(out)?;
    out.put(&[0u8; 2]);
    BareMatch::encode(it, out)?;
    out.patch_len(start, 2)?;
    out.pad_to_8(start);
    Ok(())
}

/// Whether the match at the start of `bytes`, of a message of 1.1 or later, has the type `OFPMT_OXM`.
pub(crate) fn is_oxm(bytes: &[u8]) -> bool {
    bytes.starts_with(&OFPMT_OXM.to_be_bytes())
}

/// The match of 1.1: the struct, or (`true`) a match of type `OFPMT_OXM`, which Open vSwitch sends in flow statistics.
pub(crate) struct StructOrOxm;

impl JointEncoding<Match, bool> for StructOrOxm {
    fn parse(r: &mut Reader<'_>) -> Result<(Match, bool)> {
        if is_oxm(r.peek()) {
            return Ok((BareMatch::parse(&mut oxm_fields(r)?)?, true));
        }
        Ok((Match::parse(r)?, false))
    }

    fn encode(matching: &Match, is_oxm: &bool, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if *is_oxm { encode_oxm(matching, out) } else { matching.encode(out) }
    }
}

/// Takes a match of 1.2 or later with its padding from `r`; returns a reader for its fields.
///
/// # Errors
/// Another type of match, or an invalid length.
pub(crate) fn oxm_fields<'a>(r: &mut Reader<'a>) -> Result<Reader<'a>> {
    let mut head = r.nested("match", ErrorContext::Match)?;
    let (at, kind, len) = (head.at(), head.u16("match")?, head.u16("match")?);
    let len = usize::from(len);
    if kind != OFPMT_OXM {
        let error = head.error_at(at, "match type", ParseErrorKind::UnknownType);
        return Err(error.with_value(kind.into(), Expected::Exactly(OFPMT_OXM)));
    }
    let (left, context) = (head.len() + 4, head.context());
    let too_short = || head.length_error(at + 2, "match", len, Expected::AtLeast(4));
    let inner_len = len.checked_sub(4).ok_or_else(too_short)?;
    let inner = head.sub("match", inner_len)?;
    r.take("match", len.next_multiple_of(8)).map_err(|_| {
        let at_most = Expected::saturating(Expected::AtMost, left / 8 * 8);
        r.length_error(at + 2, "match", len, at_most).within(context)
    })?;
    Ok(inner)
}

/// Maximum number of unknown fields in a match; limits the cost of the search for duplicates.
const UNKNOWN_FIELDS_MAX: usize = 32;

/// Number of 64-bit words with one bit for each row of the field table.
const WORDS: usize = FieldId::ROWS.len().div_ceil(64);

/// The set of fields that a match has.
#[derive(Debug)]
struct FieldSet {
    rows: [u64; WORDS],
    unknown: [FieldId; UNKNOWN_FIELDS_MAX],
    unknown_len: usize,
}

impl FieldSet {
    const NONE: Self = {
        let none = FieldId { class: 0, number: 0, experimenter: 0 };
        Self { rows: [0; WORDS], unknown: [none; UNKNOWN_FIELDS_MAX], unknown_len: 0 }
    };

    /// Adds `id`; `known` is what the field table has about it.
    ///
    /// # Errors
    /// `Duplicate` if the set has it already, `Length` for more than [`UNKNOWN_FIELDS_MAX`] unknown fields.
    fn insert(&mut self, id: FieldId, known: Option<KnownHeader>) -> Result<(), ParseErrorKind> {
        if let Some(KnownHeader { row_index: n, .. }) = known {
            let word = self.rows.get_mut(n / 64).ok_or(ParseErrorKind::Length)?;
            let before = *word;
            *word |= 1 << (n % 64);
            return if before == *word { Err(ParseErrorKind::Duplicate) } else { Ok(()) };
        }
        if self.unknown.iter().take(self.unknown_len).any(|&seen| seen == id) {
            return Err(ParseErrorKind::Duplicate);
        }
        *self.unknown.get_mut(self.unknown_len).ok_or(ParseErrorKind::Length)? = id;
        self.unknown_len += 1;
        Ok(())
    }
}

/// Parses the fields in `r`, refuses duplicates, and calls `visit` for each field. Does not allocate.
fn for_each_field<'a>(r: &mut Reader<'a>, mut visit: impl FnMut(RawOxm<'a>)) -> Result<()> {
    let mut seen = FieldSet::NONE;
    while !r.is_empty() {
        let at = r.at();
        let raw = RawOxm::take(r)?;
        let id = raw.id();
        seen.insert(id, id.known()).map_err(|why| r.error_at(at, "field", why))?;
        visit(raw);
    }
    Ok(())
}

/// Takes and validates the match of 1.2 or later at the front of `r`.
pub(crate) fn validate(r: &mut Reader<'_>) -> Result<()> {
    for_each_field(&mut oxm_fields(r)?, |_| {})
}

/// Takes and validates the match of 1.2 or later at the front of `r`; returns its ingress port.
pub(crate) fn validate_in_port(r: &mut Reader<'_>) -> Result<Option<PortNo>> {
    let mut port = None;
    for_each_field(&mut oxm_fields(r)?, |raw| {
        if raw.id() == FieldId::IN_PORT {
            port = raw.value().first_chunk().map(|port| PortNo(u32::from_be_bytes(*port)));
        }
    })?;
    Ok(port)
}

/// The encoding of matches in Nicira's messages: only the fields; their length is elsewhere in the message.
pub(crate) struct BareMatch;

impl Encoding<Match> for BareMatch {
    fn parse(r: &mut Reader<'_>) -> Result<Match> {
        let mut inner = r.nested("match", ErrorContext::Match)?;
        let mut fields = vec![];
        for_each_field(&mut inner, |raw| fields.push(raw.into()))?;
        r.rest();
        Ok(Match { fields })
    }

    fn encode(value: &Match, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (mut seen, version) = (FieldSet::NONE, out.version());
        for oxm in &value.fields {
            let unsupported = |why| {
                let is_duplicate = why == ParseErrorKind::Duplicate;
                let what = if is_duplicate { "duplicate field" } else { "too many unknown fields" };
                EncodeError::new(what, version, None)
            };
            let (id, known) = (oxm.id(), oxm.id().known());
            seen.insert(id, known).map_err(unsupported)?;
            oxm.encode_known(known, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::{NeutralForm, hex, unhex};
    use crate::{ErrorCode, ErrorType, MacAddr, ParseError, VlanId};

    fn parsed(version: Version, bytes: &str) -> Result<Match> {
        let bytes = unhex(bytes).unwrap();
        let mut r = Reader::new(version, &bytes, 8);
        let matching = Match::parse(&mut r)?;
        r.finish("match")?;
        Ok(matching)
    }

    fn parsed_bare(bytes: &str) -> Result<Match> {
        let bytes = unhex(bytes).unwrap();
        let mut r = Reader::new(Version::V1_0, &bytes, 8);
        let matching = BareMatch::parse(&mut r)?;
        assert!(r.is_empty());
        Ok(matching)
    }

    fn encoded(version: Version, it: &Match) -> Result<String, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        it.encode(&mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(hex(&tx))
    }

    fn encoded_bare(it: &Match) -> String {
        let (mut tx, mut xid) = (vec![], 1);
        BareMatch::encode(it, &mut Encoder::new(&mut tx, Version::V1_0, &mut xid)).unwrap();
        hex(&tx)
    }

    fn text(it: &Match) -> String {
        let fields = it.fields.iter().map(|f| format!("{}={}", f.name(), f.value_text()));
        fields.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn matches_of_all_versions_are_parsed_and_encoded_as_open_vswitch_does() {
        let lines = include_str!("../../tests/golden/matches.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split(' ').take(3).collect();
            let [form, bytes, expected] = columns[..] else { panic!("{line}") };
            let bytes = if bytes == "-" { "" } else { bytes };
            let version = Version::from_text(form.trim_end_matches('n')).unwrap();
            let (it, reencoded) = if form.ends_with('n') {
                let it = parsed_bare(bytes).unwrap();
                let reencoded = encoded_bare(&it);
                (it, reencoded)
            } else {
                let it = parsed(version, bytes).unwrap();
                let reencoded = encoded(version, &it).unwrap();
                (it, reencoded)
            };
            assert_eq!(
                if it == Match::default() { "-".into() } else { text(&it) },
                expected,
                "{line}"
            );
            assert_eq!(reencoded, bytes, "{line}");
            assert_eq!(Match::from_value(&it.to_value(version), version), Ok(it.clone()), "{line}");
            // Matches of 1.0 may have a VLAN priority without a VLAN.
            assert!(version < Version::V1_2 || it.check() == Ok(()), "{line}");
        }
    }

    #[test]
    fn unusual_values_of_fixed_matches_survive_a_roundtrip() {
        for (bytes, expected) in [
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
            let it = parsed(Version::V1_0, bytes).unwrap();
            assert_eq!(text(&it), expected);
            assert_eq!(encoded(Version::V1_0, &it).unwrap(), bytes.replace(' ', ""));
        }
    }

    #[test]
    fn wildcarded_fields_of_a_fixed_match_are_ignored() {
        let bytes = "003fffff 0001 020000000001 020000000002 1234 07 01 0800 ff 06 0101 0a000001 0a000002 0050 0051";
        assert_eq!(parsed(Version::V1_0, bytes), Ok(Match::default()));
        let host_bits = "00380a0f 0000 000000000000 000000000000 0000 00 00 0800 00 06 0000 0a0102ff 00000000 0000 0000";
        let it = parsed(Version::V1_0, host_bits).unwrap();
        assert_eq!(it.get(FieldId::IPV4_SRC).map(|f| f.value), Some(0x0a01_0200 & !0x3ff));
    }

    #[test]
    fn encoding_a_field_that_the_version_lacks_names_it() {
        let error = |version, it: &Match| encoded(version, it).unwrap_err().to_string();
        let v6 = Match::from([Field::ipv6_dst(1u128.into())]);
        assert_eq!(
            error(Version::V1_0, &v6),
            "ipv6_dst requires OpenFlow 1.2; this session speaks 1.0"
        );
        assert_eq!(
            error(Version::V1_1, &v6),
            "ipv6_dst requires OpenFlow 1.2; this session speaks 1.1"
        );
        let tagged = Match::from([Field::tagged()]);
        assert_eq!(
            error(Version::V1_0, &tagged),
            "vlan_vid requires OpenFlow 1.1; this session speaks 1.0"
        );
        assert!(encoded(Version::V1_1, &tagged).is_ok());
        let masked = Match::from([Field::eth_dst(MacAddr::BROADCAST).masked(1)]);
        assert_eq!(
            error(Version::V1_0, &masked),
            "mask of eth_dst requires OpenFlow 1.1; this session speaks 1.0"
        );
        let odd = Match::from([Field::ipv4_src([10, 0, 0, 1].into()).masked(0xff00_00ff)]);
        assert_eq!(
            error(Version::V1_0, &odd),
            "non-prefix mask of ipv4_src requires OpenFlow 1.1; this session speaks 1.0"
        );
        let udp = Match::from([Field::new(FieldId::UDP_SRC, 5)]);
        assert_eq!(
            error(Version::V1_0, &udp),
            "udp_src requires OpenFlow 1.2; this session speaks 1.0"
        );
        let op = Match::from([Field::eth_type(0x0806), Field::new(FieldId::ARP_OP, 256)]);
        assert_eq!(
            error(Version::V1_1, &op),
            "arp_op requires OpenFlow 1.2; this session speaks 1.1"
        );
        let port = Match::from([Field::in_port(PortNo(0x1_0000))]);
        assert_eq!(
            error(Version::V1_0, &port),
            "port 65536 requires OpenFlow 1.1; this session speaks 1.0"
        );
        let unknown_field = Oxm::from_text("oxm_8000_99", "0x01").unwrap();
        let unknown = Match { fields: vec![unknown_field] };
        assert_eq!(
            error(Version::V1_0, &unknown),
            "unknown field requires OpenFlow 1.2; this session speaks 1.0"
        );
        let twice = Match::from([Field::untagged(), Field::vlan(VlanId(1))]);
        assert_eq!(
            error(Version::V1_3, &twice),
            "duplicate field cannot be encoded in OpenFlow 1.3"
        );
        assert_eq!(
            error(Version::V1_0, &twice),
            "duplicate field cannot be encoded in OpenFlow 1.0"
        );
    }

    #[test]
    fn malformed_matches_map_to_the_error_codes_of_the_specification() {
        let code = |version, bytes: &str| {
            let error: ParseError = parsed(version, bytes).unwrap_err();
            let (kind, code) = error.newest_code();
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
        let of_1_1 = encoded(Version::V1_1, &Match::default()).unwrap();
        assert_eq!(code(Version::V1_1, &of_1_1.replacen("0000", "0001", 1)), ErrorCode(0));
        assert_eq!(code(Version::V1_1, &of_1_1.replacen("0058", "0059", 1)), ErrorCode(1));
        assert_eq!(code(Version::V1_1, &of_1_1[..100]), ErrorCode(1));
    }

    #[test]
    fn an_invalid_match_says_why() {
        let reason = |it: Match| it.check().unwrap_err().to_string();
        let tcp = Field::new(FieldId::TCP_DST, 80);
        assert_eq!(reason(Match::from([tcp])), "tcp_dst requires ip_proto=6");
        let proto = Field::ip_proto(6);
        assert_eq!(
            reason(Match::from([proto, tcp])),
            "ip_proto requires eth_type=0x800 or eth_type=0x86dd"
        );
        assert_eq!(Match::from([Field::eth_type(0x800), proto, tcp]).check(), Ok(()));
        let pcp = Field::new(FieldId::VLAN_PCP, 3);
        assert_eq!(reason(Match::from([pcp])), "vlan_pcp requires vlan_vid=any");
        assert_eq!(Match::from([Field::tagged(), pcp]).check(), Ok(()));
        let phy = Field::new(FieldId::IN_PHY_PORT, 1);
        assert_eq!(reason(Match::from([phy])), "in_phy_port requires in_port");
        assert_eq!(
            reason(Match::from([Field::eth_type(0x800).masked(0xff00)])),
            "eth_type is not maskable"
        );
        let nine = Field::new(FieldId::VLAN_PCP, 9);
        assert_eq!(
            reason(Match::from([Field::tagged(), nine])),
            "invalid vlan_pcp 0x9 (must fit in 3 bits)"
        );
        let twice = Match::from([Field::untagged(), Field::tagged()]);
        assert_eq!(reason(twice), "duplicate field vlan_vid");
    }

    #[test]
    fn fields_are_found_by_any_of_their_headers() {
        let nicira = FieldId { class: 0, number: 1, experimenter: 0 };
        let it = Match::from([Field::new(nicira, 5), Field::new(FieldId::NXM_IN_PORT, 0xfffe)]);
        assert_eq!(it.get(FieldId::ETH_DST).map(|field| field.value), Some(5));
        assert_eq!(it.in_port(), Some(PortNo::LOCAL));
        assert_eq!(Match::from([Field::in_port(PortNo(7))]).in_port(), Some(PortNo(7)));
    }
}
