//! Actions on fields as text: `set_field:10.0.0.1->ip_src`, `move:reg0[0..7]->reg1[8..15]`, `push:reg0[]`.

use super::action::MatchContext;
use super::field_value::{self, hex, ones};
use super::matching::{bit_range, field_of, print_value, read_value};
use super::token::{Int, KeyValue, TextError, TextSpan};
use crate::PortNo;
use crate::model::field::{FieldFormat, VID_PRESENT};
use crate::model::{
    Action, BitRange, BundleAction, BundleAlgorithm, BundleLoadAction, Field, FieldHeader, FieldId,
    HashFields, MultipathAction, MultipathAlgorithm, Oxm,
};

/// Fields whose name in actions differs from the field table.
const ACTION_FIELD_NAMES: &[(FieldId, &str)] = &[
    (FieldId::COOKIE, "NXM_NX_COOKIE"), // `cookie` is the flow entry's own
    (FieldId::IPV4_SRC, "ip_src"),
    (FieldId::IPV4_DST, "ip_dst"),
    (FieldId::IPV6_FLABEL, "ipv6_label"),
    (FieldId::IP_PROTO, "nw_proto"),
    (FieldId::IP_ECN, "nw_ecn"),
    (FieldId::TUNNEL_ID, "tun_id"),
    (FieldId::ICMPV4_TYPE, "icmp_type"),
    (FieldId::ICMPV4_CODE, "icmp_code"),
    (FieldId::IPV6_ND_TARGET, "nd_target"),
    (FieldId::IPV6_ND_SLL, "nd_sll"),
    (FieldId::IPV6_ND_TLL, "nd_tll"),
    (FieldId::NW_FRAG, "ip_frag"),
];

/// Keywords of OpenFlow 1.0 that set a field: name, field, number of low bits that must be 0, bits that are always
/// set.
const SET_ACTIONS: &[(&str, FieldId, u32, u128)] = &[
    ("mod_dl_src", FieldId::ETH_SRC, 0, 0),
    ("mod_dl_dst", FieldId::ETH_DST, 0, 0),
    ("mod_nw_src", FieldId::IPV4_SRC, 0, 0),
    ("mod_nw_dst", FieldId::IPV4_DST, 0, 0),
    ("mod_nw_tos", FieldId::IP_DSCP, 2, 0),
    ("mod_nw_ecn", FieldId::IP_ECN, 0, 0),
    ("mod_tp_src", FieldId::TCP_SRC, 0, 0),
    ("mod_tp_dst", FieldId::TCP_DST, 0, 0),
    ("mod_vlan_vid", FieldId::VLAN_VID, 0, VID_PRESENT),
    ("set_vlan_vid", FieldId::VLAN_VID, 0, VID_PRESENT),
    ("mod_vlan_pcp", FieldId::VLAN_PCP, 0, 0),
    ("set_vlan_pcp", FieldId::VLAN_PCP, 0, 0),
    ("set_mpls_label", FieldId::MPLS_LABEL, 0, 0),
    ("set_mpls_tc", FieldId::MPLS_TC, 0, 0),
];

/// Bits of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subfield {
    /// The field, with the header that Nicira's actions use.
    pub(crate) id: FieldId,
    /// First bit.
    pub(crate) first: u32,
    /// Number of bits.
    pub(crate) count: u32,
}

impl Subfield {
    /// Parses `reg0[0..7]`, `reg0[7]`, or `reg0[]` and `reg0` for all bits.
    pub(crate) fn parse(piece: TextSpan<'_>) -> Result<Self, TextError> {
        let piece = piece.trim();
        let (name, range) = match piece.split("[") {
            Some((name, range)) => (name, Some(range)),
            None => (piece, None),
        };
        let id = named(name)?;
        let unknown = || name.error("the size of this field is unknown");
        let bits = id.row().map(|row| u32::from(row.bits)).ok_or_else(unknown)?;
        let (first, count) = range.map_or(Ok((0, bits)), |range| bit_range(range, bits))?;
        Ok(Self { id: id.nxm(), first, count })
    }

    /// Bits of the field of `header`.
    pub(crate) fn new(header: FieldHeader, first: u16, count: u16) -> Self {
        Self { id: header.id, first: first.into(), count: count.into() }
    }

    /// The bits as text: `NXM_NX_REG0[0..7]`, or `NXM_NX_REG0[]` for all bits.
    pub(crate) fn text(self) -> String {
        let id = self.id.nxm();
        let name = id.header_name().map_or_else(|| id.name().into_owned(), str::to_owned);
        let bits = id.row().map_or(0, |row| u32::from(row.bits));
        match (self.first, self.count) {
            (0, count) if count == bits => format!("{name}[]"),
            (first, 1) => format!("{name}[{first}]"),
            (first, count) => {
                let end = first.saturating_add(count);
                format!("{name}[{first}..{}]", end.saturating_sub(1))
            }
        }
    }

    pub(crate) fn header(self) -> FieldHeader {
        self.id.into()
    }

    /// First bit and number of bits, as actions encode them.
    pub(crate) fn numbers(self) -> (u16, u16) {
        let small = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        (small(self.first), small(self.count))
    }

    /// The bits as a [`BitRange`], which has at most 64.
    pub(crate) fn bits(self, piece: TextSpan<'_>) -> Result<BitRange, TextError> {
        let (offset, n_bits) = self.numbers();
        BitRange::new(offset, n_bits).ok_or_else(|| {
            piece.error(format!("range of {n_bits} bits cannot be encoded (1 to 64)"))
        })
    }
}

/// The field with this name.
fn named(name: TextSpan<'_>) -> Result<FieldId, TextError> {
    field_of(name.text()).ok_or_else(|| name.error(format!("unknown field `{}`", name.text())))
}

/// Name of the field in actions; a header for which that name would not be parsed again is named itself.
pub(crate) fn name_of(id: FieldId) -> String {
    if let Some(name) = id.header_name().filter(|_| id.nxm() != id.canonical().nxm()) {
        return name.to_owned();
    }
    let called = ACTION_FIELD_NAMES.iter().find(|row| row.0 == id.canonical());
    called.map_or_else(|| id.canonical().name().into_owned(), |row| row.1.to_owned())
}

/// Parses the action `name`, other than `load`; `None` if it is not one of this module.
pub(crate) fn parse(
    name: &str,
    pair: &KeyValue<'_>,
    context: MatchContext,
) -> Option<Result<Action, TextError>> {
    if let Some(row) = SET_ACTIONS.iter().find(|row| row.0 == name) {
        return Some(set(row, pair, context));
    }
    Some(match name {
        "set_field" => set_field(pair),
        "move" => reg_move(pair),
        "push" => {
            stack(pair).map(|(offset, field, n_bits)| Action::StackPush { offset, field, n_bits })
        }
        "pop" => {
            stack(pair).map(|(offset, field, n_bits)| Action::StackPop { offset, field, n_bits })
        }
        "multipath" => multipath(pair),
        "bundle" => bundle(pair),
        "bundle_load" => bundle_load(pair),
        "check_pkt_larger" => check_pkt_larger(pair),
        "delete_field" => {
            let id = pair.required().and_then(named);
            id.map(|id| Action::DeleteField { field: id.nxm().into() })
        }
        _ => return None,
    })
}

/// The action as text; `None` if it is not one of this module.
pub(crate) fn print(action: &Action) -> Option<String> {
    let bits = |range: &BitRange, header: &FieldHeader| {
        Subfield::new(*header, range.offset(), range.n_bits()).text()
    };
    Some(match action {
        Action::SetField { field } | Action::RegLoad2 { field } => print_set_field(field),
        Action::RegLoad { bits: range, dst, value } => {
            format!("load:{}->{}", hex((*value).into()), bits(range, dst))
        }
        Action::RegMove { n_bits, src_ofs, dst_ofs, src, dst }
        | Action::CopyField { n_bits, src_offset: src_ofs, dst_offset: dst_ofs, src, dst } => {
            let (src, dst) =
                (Subfield::new(*src, *src_ofs, *n_bits), Subfield::new(*dst, *dst_ofs, *n_bits));
            format!("move:{}->{}", src.text(), dst.text())
        }
        Action::StackPush { offset, field, n_bits } => {
            format!("push:{}", Subfield::new(*field, *offset, *n_bits).text())
        }
        Action::StackPop { offset, field, n_bits } => {
            format!("pop:{}", Subfield::new(*field, *offset, *n_bits).text())
        }
        Action::OutputReg { bits: range, src, .. }
        | Action::OutputReg2 { bits: range, src, .. } => {
            format!("output:{}", bits(range, src))
        }
        Action::Multipath(it) => {
            let hash = hash_name(it.fields);
            let algorithm = word(it.algorithm.name(), it.algorithm.0);
            let links = u32::from(it.max_link).saturating_add(1);
            let dst = bits(&it.bits, &it.dst);
            format!("multipath({hash},{},{algorithm},{links},{},{dst})", it.basis, it.arg)
        }
        Action::Bundle(it) => {
            let (hash, algorithm) =
                (hash_name(it.fields), word(it.algorithm.name(), it.algorithm.0));
            format!("bundle({hash},{},{algorithm},ofport,members:{})", it.basis, ports(&it.members))
        }
        Action::BundleLoad(it) => {
            let (hash, algorithm) =
                (hash_name(it.fields), word(it.algorithm.name(), it.algorithm.0));
            let (dst, members) = (bits(&it.bits, &it.dst), ports(&it.members));
            format!("bundle_load({hash},{},{algorithm},ofport,{dst},members:{members})", it.basis)
        }
        Action::CheckPktLarger { pkt_len, offset, dst } => {
            format!("check_pkt_larger({pkt_len})->{}", Subfield::new(*dst, *offset, 1).text())
        }
        Action::DeleteField { field } => format!("delete_field:{}", name_of(field.id)),
        _ => return None,
    })
}

/// A code by its name in lower case, or its number.
fn word(name: Option<&str>, code: u16) -> String {
    name.map_or_else(|| code.to_string(), str::to_ascii_lowercase)
}

fn ports(members: &[PortNo]) -> String {
    members.iter().map(PortNo::to_string).collect::<Vec<_>>().join(",")
}

/// `mod_nw_src:10.0.0.1` and its like.
fn set(
    &(_, id, shift, always): &(&str, FieldId, u32, u128),
    pair: &KeyValue<'_>,
    context: MatchContext,
) -> Result<Action, TextError> {
    let id = match (id, context.ip_proto) {
        (FieldId::TCP_SRC, Some(17)) => FieldId::UDP_SRC,
        (FieldId::TCP_DST, Some(17)) => FieldId::UDP_DST,
        (FieldId::TCP_SRC, Some(132)) => FieldId::SCTP_SRC,
        (FieldId::TCP_DST, Some(132)) => FieldId::SCTP_DST,
        _ => id,
    };
    let value = pair.required()?;
    let Some(row) = id.row() else { return Err(pair.unknown("action")) };
    let (form, bits) = match id {
        FieldId::VLAN_VID => (FieldFormat::Decimal, 12),
        _ => (row.format, u32::from(row.bits).saturating_add(shift)),
    };
    let (n, mask) = field_value::parse(form, bits, value)?;
    if mask.is_some() {
        return Err(value.error("a mask is not allowed here; use `set_field`"));
    }
    if n & ones(shift) != 0 {
        return Err(value.error(format!("the lowest {shift} bits must be 0")));
    }
    Ok(Action::SetField { field: Field::new(id, n >> shift | always).into() })
}

/// Splits `VALUE->FIELD`.
fn arrow<'a>(pair: &KeyValue<'a>) -> Result<(TextSpan<'a>, TextSpan<'a>), TextError> {
    let value = pair.required()?;
    let parts = value.split("->");
    let (from, to) = parts.ok_or_else(|| value.error_after("missing `->` and a field"))?;
    if from.is_empty() {
        return Err(from.error("missing value before `->`"));
    }
    if to.is_empty() {
        return Err(to.error("missing field after `->`"));
    }
    Ok((from.trim(), to.trim()))
}

fn set_field(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let (value, name) = arrow(pair)?;
    let id = named(name)?.canonical();
    let field = read_value(id, value)?;
    Ok(if field.is_masked() { Action::RegLoad2 { field } } else { Action::SetField { field } })
}

fn print_set_field(field: &Oxm) -> String {
    let value = match field {
        Oxm::Field(it) if it.id.canonical() == FieldId::VLAN_VID && it.mask.is_some() => {
            field_value::print(FieldFormat::Hex, 13, it.value, it.mask)
        }
        _ => print_value(field),
    };
    format!("set_field:{value}->{}", name_of(field.id()))
}

/// Parses `load:5->reg0[0..7]`; more than 64 bits become several actions.
pub(crate) fn load(pair: &KeyValue<'_>) -> Result<Vec<Action>, TextError> {
    let (value, place) = arrow(pair)?;
    let dst = Subfield::parse(place)?;
    let number = match value.number(u128::MAX) {
        Ok(number) => number,
        // An address field accepts an address.
        Err(error) => {
            let row = dst.id.row().filter(|row| u32::from(row.bits) == dst.count);
            let read = row.map(|row| field_value::parse(row.format, dst.count, value));
            read.and_then(Result::ok).filter(|read| read.1.is_none()).ok_or(error)?.0
        }
    };
    if number & !ones(dst.count) != 0 {
        return Err(value.error(format!("value does not fit into {} bits", dst.count)));
    }
    let parts = (0..dst.count).step_by(64).map(|from| {
        let (first, count) = (dst.first.saturating_add(from), dst.count.saturating_sub(from));
        let part = Subfield { first, count: count.min(64), ..dst };
        // Bits of the field beyond 128 are set to zero.
        let value = number.checked_shr(from).unwrap_or(0) & ones(part.count);
        let value = u64::of(value).unwrap_or(u64::MAX);
        Ok(Action::RegLoad { bits: part.bits(place)?, dst: dst.header(), value })
    });
    parts.collect()
}

fn reg_move(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let (from, to) = arrow(pair)?;
    let (src, dst) = (Subfield::parse(from)?, Subfield::parse(to)?);
    if src.count != dst.count {
        let message = format!("source has {} bits, destination has {}", src.count, dst.count);
        return Err(to.error(message));
    }
    let ((src_ofs, n_bits), (dst_ofs, _)) = (src.numbers(), dst.numbers());
    Ok(Action::RegMove { n_bits, src_ofs, dst_ofs, src: src.header(), dst: dst.header() })
}

/// Parses `output:reg0[0..15]`.
pub(crate) fn output(value: TextSpan<'_>) -> Result<Action, TextError> {
    let src = Subfield::parse(value).map_err(|error| match field_of(value.text()) {
        None if !value.text().contains('[') => {
            value.error(format!("unknown port or field `{}`", value.text()))
        }
        _ => error,
    })?;
    let (bits, max_len) = (src.bits(value)?, Action::WHOLE);
    if src.id.experimenter != 0 {
        return Ok(Action::OutputReg2 { bits, max_len, src: src.header() });
    }
    Ok(Action::OutputReg { bits, src: src.header(), max_len })
}

fn stack(pair: &KeyValue<'_>) -> Result<(u16, FieldHeader, u16), TextError> {
    let field = Subfield::parse(pair.required()?)?;
    let (offset, n_bits) = field.numbers();
    Ok((offset, field.header(), n_bits))
}

fn check_pkt_larger(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let target = pair.target.ok_or_else(|| pair.whole.error_after("missing `->` and a field"))?;
    let dst = Subfield::parse(target)?;
    if dst.count != 1 {
        return Err(target.error("expected a single bit, such as `reg0[0]`"));
    }
    let (offset, _) = dst.numbers();
    Ok(Action::CheckPktLarger { pkt_len: pair.int()?, offset, dst: dst.header() })
}

/// Name of the fields to hash.
fn hash_name(fields: HashFields) -> String {
    match fields.name() {
        Some("SYMMETRIC_L3L4_UDP") => "symmetric_l3l4+udp".into(),
        name => word(name, fields.0),
    }
}

fn hash_fields(piece: TextSpan<'_>) -> Result<HashFields, TextError> {
    let row = HashFields::ROWS.iter().find(|row| hash_name(row.0) == piece.text());
    row.map(|row| row.0)
        .ok_or_else(|| piece.error(format!("unknown hash fields `{}`", piece.text())))
}

/// Parses the name of an algorithm.
fn code<'r, T>(
    piece: TextSpan<'_>,
    mut rows: impl Iterator<Item = (T, &'r str)>,
) -> Result<T, TextError> {
    let row = rows.find(|row| row.1.eq_ignore_ascii_case(piece.text()));
    row.map(|row| row.0).ok_or_else(|| piece.error(format!("unknown algorithm `{}`", piece.text())))
}

/// Parses `multipath(eth_src,50,modulo_n,1,0,reg0[])`.
fn multipath(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let parts: Vec<_> = pair.required()?.commas().map(TextSpan::trim).collect();
    let [fields, basis, algorithm, links, arg, dst] = parts.as_slice() else {
        return Err(pair
            .value
            .error("expected `multipath(fields,basis,algorithm,n_links,arg,dst)`"));
    };
    let n: u32 = links.int()?;
    let max_link = n.checked_sub(1).and_then(|max| u16::try_from(max).ok());
    let place = Subfield::parse(*dst)?;
    Ok(Action::Multipath(Box::new(MultipathAction {
        fields: hash_fields(*fields)?,
        basis: basis.int()?,
        algorithm: code(*algorithm, MultipathAlgorithm::ROWS.iter().map(|row| (row.0, row.1)))?,
        max_link: max_link
            .ok_or_else(|| links.error("number of links out of range (expected 1 to 65536)"))?,
        arg: arg.int()?,
        bits: place.bits(*dst)?,
        dst: place.header(),
    })))
}

/// Splits the arguments of a bundle action into those before the members, and the members.
fn members<'a>(
    pair: &KeyValue<'a>,
    expected: &str,
) -> Result<(Vec<TextSpan<'a>>, Vec<PortNo>), TextError> {
    let value = pair.required()?;
    let wrong = || value.error(format!("expected `{expected}`"));
    let split = value.split("members").or_else(|| value.split("slaves"));
    let (before, members) = split.ok_or_else(wrong)?;
    let members = members.strip(":").or_else(|| members.strip("=")).ok_or_else(wrong)?;
    let members = members.strip("[").map_or(members, |inside| {
        let len = inside.text().trim_end_matches(']').len();
        inside.sub(0, len)
    });
    let ports: Result<_, _> = members.commas().map(|port| field_value::port(port.trim())).collect();
    let front = before.commas().map(TextSpan::trim).filter(|part| !part.is_empty()).collect();
    Ok((front, ports?))
}

/// Parses the type of the members, which is always `NXM_OF_IN_PORT`.
fn ofport(piece: TextSpan<'_>) -> Result<FieldHeader, TextError> {
    match piece.text() {
        "ofport" | "NXM_OF_IN_PORT" => Ok(FieldId::NXM_IN_PORT.into()),
        _ => Err(piece.error("expected `ofport`")),
    }
}

/// Parses `bundle(eth_src,0,hrw,ofport,members:4,8)`.
fn bundle(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let expected = "bundle(fields,basis,algorithm,ofport,members:…)";
    let (parts, members) = members(pair, expected)?;
    let [fields, basis, algorithm, kind] = parts.as_slice() else {
        return Err(pair.value.error(format!("expected `{expected}`")));
    };
    Ok(Action::Bundle(Box::new(BundleAction {
        algorithm: code(*algorithm, BundleAlgorithm::ROWS.iter().map(|row| (row.0, row.1)))?,
        fields: hash_fields(*fields)?,
        basis: basis.int()?,
        member_type: ofport(*kind)?,
        members,
    })))
}

/// Parses `bundle_load(eth_src,0,hrw,ofport,reg0[],members:4,8)`.
fn bundle_load(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let expected = "bundle_load(fields,basis,algorithm,ofport,dst,members:…)";
    let (parts, members) = members(pair, expected)?;
    let [fields, basis, algorithm, kind, dst] = parts.as_slice() else {
        return Err(pair.value.error(format!("expected `{expected}`")));
    };
    let place = Subfield::parse(*dst)?;
    Ok(Action::BundleLoad(Box::new(BundleLoadAction {
        algorithm: code(*algorithm, BundleAlgorithm::ROWS.iter().map(|row| (row.0, row.1)))?,
        fields: hash_fields(*fields)?,
        basis: basis.int()?,
        member_type: ofport(*kind)?,
        bits: place.bits(*dst)?,
        dst: place.header(),
        members,
    })))
}
