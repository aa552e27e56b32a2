//! Matches as text: `in_port=1,tcp,nw_dst=10.0.0.0/24,tp_dst=80`.

use super::field_value::{self, hex, ones};
use super::token::{KeyValue, TextError, TextSpan};
use crate::model::field::{FieldFormat, VID_PRESENT};
use crate::model::{Field, FieldId, Match, MatchError, Oxm};

/// Keywords for an ethertype and, where given, an IP protocol.
const PROTOCOLS: &[(&str, u16, Option<u8>)] = &[
    ("ip", 0x0800, None),
    ("icmp", 0x0800, Some(1)),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("ipv6", 0x86dd, None),
    ("ip6", 0x86dd, None),
    ("icmp6", 0x86dd, Some(58)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("sctp6", 0x86dd, Some(132)),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
];

/// Fields printed first, in this order, with their names in a match.
///
/// Fields in neither list are printed after these, under the name in the field table.
const EARLY_FIELDS: &[(FieldId, &str)] = &[
    (FieldId::COOKIE, "NXM_NX_COOKIE"), // `cookie` is the flow entry's own
    (FieldId::PKT_MARK, "pkt_mark"),
    (FieldId::RECIRC_ID, "recirc_id"),
    (FieldId::DP_HASH, "dp_hash"),
    (FieldId::CONJ_ID, "conj_id"),
    (FieldId::ACTSET_OUTPUT, "actset_output"),
    (FieldId::CT_STATE, "ct_state"),
    (FieldId::CT_ZONE, "ct_zone"),
    (FieldId::CT_MARK, "ct_mark"),
    (FieldId::CT_LABEL, "ct_label"),
    (FieldId::CT_NW_SRC, "ct_nw_src"),
    (FieldId::CT_IPV6_SRC, "ct_ipv6_src"),
    (FieldId::CT_NW_DST, "ct_nw_dst"),
    (FieldId::CT_IPV6_DST, "ct_ipv6_dst"),
    (FieldId::CT_NW_PROTO, "ct_nw_proto"),
    (FieldId::CT_TP_SRC, "ct_tp_src"),
    (FieldId::CT_TP_DST, "ct_tp_dst"),
    (FieldId::PACKET_TYPE, "packet_type"),
];

/// Fields printed after protocol keywords, registers and tunnels.
const LATE_FIELDS: &[(FieldId, &str)] = &[
    (FieldId::TUNNEL_ID, "tun_id"),
    (FieldId::TUN_SRC, "tun_src"),
    (FieldId::TUN_DST, "tun_dst"),
    (FieldId::TUN_IPV6_SRC, "tun_ipv6_src"),
    (FieldId::TUN_IPV6_DST, "tun_ipv6_dst"),
    (FieldId::TUN_GBP_ID, "tun_gbp_id"),
    (FieldId::TUN_GBP_FLAGS, "tun_gbp_flags"),
    (FieldId::TUN_FLAGS, "tun_flags"),
    (FieldId::METADATA, "metadata"),
    (FieldId::IN_PORT, "in_port"),
    (FieldId::NXM_IN_PORT, "nxm_in_port"),
    (FieldId::IN_PHY_PORT, "in_phy_port"),
    (FieldId::VLAN_TCI, "vlan_tci"),
    (FieldId::ETH_SRC, "dl_src"),
    (FieldId::ETH_DST, "dl_dst"),
    (FieldId::ETH_TYPE, "dl_type"),
    (FieldId::IPV6_SRC, "ipv6_src"),
    (FieldId::IPV6_DST, "ipv6_dst"),
    (FieldId::IPV6_FLABEL, "ipv6_label"),
    (FieldId::ARP_SPA, "arp_spa"),
    (FieldId::ARP_TPA, "arp_tpa"),
    (FieldId::IPV4_SRC, "nw_src"),
    (FieldId::IPV4_DST, "nw_dst"),
    (FieldId::IP_PROTO, "nw_proto"),
    (FieldId::ARP_OP, "arp_op"),
    (FieldId::ARP_SHA, "arp_sha"),
    (FieldId::ARP_THA, "arp_tha"),
    (FieldId::IP_DSCP, "nw_tos"),
    (FieldId::NW_TOS, "ip_tos"),
    (FieldId::IP_ECN, "nw_ecn"),
    (FieldId::NW_TTL, "nw_ttl"),
    (FieldId::MPLS_LABEL, "mpls_label"),
    (FieldId::MPLS_TC, "mpls_tc"),
    (FieldId::MPLS_TTL, "mpls_ttl"),
    (FieldId::MPLS_BOS, "mpls_bos"),
    (FieldId::NW_FRAG, "nw_frag"),
    (FieldId::ICMPV4_TYPE, "icmp_type"),
    (FieldId::ICMPV4_CODE, "icmp_code"),
    (FieldId::ICMPV6_TYPE, "icmp_type"),
    (FieldId::ICMPV6_CODE, "icmp_code"),
    (FieldId::IPV6_ND_TARGET, "nd_target"),
    (FieldId::IPV6_ND_SLL, "nd_sll"),
    (FieldId::IPV6_ND_TLL, "nd_tll"),
    (FieldId::TCP_SRC, "tp_src"),
    (FieldId::TCP_DST, "tp_dst"),
    (FieldId::UDP_SRC, "tp_src"),
    (FieldId::UDP_DST, "tp_dst"),
    (FieldId::SCTP_SRC, "tp_src"),
    (FieldId::SCTP_DST, "tp_dst"),
    (FieldId::TCP_FLAGS, "tcp_flags"),
];

/// Names whose field depends on ethertype and IP protocol.
const BY_PROTOCOL: &[(&str, u16, Option<u8>, FieldId)] = &[
    ("nw_src", 0x0806, None, FieldId::ARP_SPA),
    ("nw_dst", 0x0806, None, FieldId::ARP_TPA),
    ("nw_proto", 0x0806, None, FieldId::ARP_OP),
    ("nw_src", 0x8035, None, FieldId::ARP_SPA),
    ("nw_dst", 0x8035, None, FieldId::ARP_TPA),
    ("nw_proto", 0x8035, None, FieldId::ARP_OP),
    ("icmp_type", 0x86dd, None, FieldId::ICMPV6_TYPE),
    ("icmp_code", 0x86dd, None, FieldId::ICMPV6_CODE),
    ("tp_src", 0x86dd, Some(58), FieldId::ICMPV6_TYPE),
    ("tp_dst", 0x86dd, Some(58), FieldId::ICMPV6_CODE),
    ("tp_src", 0x0800, Some(1), FieldId::ICMPV4_TYPE),
    ("tp_dst", 0x0800, Some(1), FieldId::ICMPV4_CODE),
    ("tp_src", 0, Some(17), FieldId::UDP_SRC),
    ("tp_dst", 0, Some(17), FieldId::UDP_DST),
    ("tp_src", 0, Some(132), FieldId::SCTP_SRC),
    ("tp_dst", 0, Some(132), FieldId::SCTP_DST),
];

impl Match {
    /// Parses a match in the syntax of `ovs-fields(7)`; an empty line matches all packets.
    ///
    /// Fields are returned in the order of the field table. The prerequisites of each field must be given as well.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn from_text(line: &str) -> Result<Self, TextError> {
        let (mut pairs, mut all) = (TextSpan::of(line).pairs(), Vec::new());
        while let Some(pair) = pairs.next()? {
            all.push(pair);
        }
        read(&all)
    }

    /// The match in the syntax of `ovs-fields(7)`; empty if it matches all packets.
    pub fn to_text(&self) -> String {
        print(self).join(",")
    }
}

/// Ethertype and IP protocol that a match requires.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Protocol {
    eth_type: Option<u16>,
    /// IP protocol.
    pub(crate) ip_proto: Option<u8>,
}

impl Protocol {
    /// Determines the protocols from a match that has not been parsed.
    pub(crate) fn of(pairs: &[KeyValue<'_>]) -> Self {
        let mut protocol = Self::default();
        for pair in pairs {
            if let Some(row) = PROTOCOLS.iter().find(|row| row.0 == pair.name()) {
                protocol.eth_type = Some(row.1);
                protocol.ip_proto = row.2.or(protocol.ip_proto);
            }
            match pair.name() {
                "dl_type" | "eth_type" => protocol.eth_type = pair.int().ok(),
                "nw_proto" | "ip_proto" => protocol.ip_proto = pair.int().ok(),
                _ => {}
            }
        }
        protocol
    }

    /// The field that `name` means for these protocols.
    fn field(self, name: &str) -> Option<FieldId> {
        let fits = |row: &&(&str, u16, Option<u8>, FieldId)| {
            row.0 == name
                && (row.1 == 0 || self.eth_type == Some(row.1))
                && (row.2.is_none() || self.ip_proto == row.2)
        };
        let id = BY_PROTOCOL.iter().find(fits).map(|row| row.3);
        id.or_else(|| field_of(name)).map(FieldId::canonical)
    }
}

/// The field with this name: its name in the field table, an alias of `ovs-ofctl`, a header name, or class and
/// number. Case-sensitive, so that a misspelled keyword is not taken for a field.
pub(crate) fn field_of(name: &str) -> Option<FieldId> {
    let spelled = |id: &FieldId| {
        id.row().is_some_and(|row| {
            let header = |of: &str| of == name || of.to_ascii_lowercase() == name;
            row.name == name
                || row.aliases.contains(&name)
                || row.headers.iter().any(|it| header(it.name))
        })
    };
    FieldId::from_name(name).filter(spelled).or_else(|| FieldId::from_numeric_name(name))
}

/// A match while it is parsed: fields, each with the key that set it.
#[derive(Default)]
struct MatchParser<'a> {
    fields: Vec<(Oxm, TextSpan<'a>)>,
}

/// Parses a match.
pub(crate) fn read(pairs: &[KeyValue<'_>]) -> Result<Match, TextError> {
    let (protocol, mut reading) = (Protocol::of(pairs), MatchParser::default());
    for pair in pairs {
        reading.pair(pair, protocol)?;
    }
    reading.finish()
}

impl<'a> MatchParser<'a> {
    fn pair(&mut self, pair: &KeyValue<'a>, protocol: Protocol) -> Result<(), TextError> {
        if let Some(row) = PROTOCOLS.iter().find(|row| row.0 == pair.name()) {
            pair.no_value()?;
            self.add(Field::eth_type(row.1), pair.key)?;
            return row.2.map_or(Ok(()), |proto| self.add(Field::ip_proto(proto), pair.key));
        }
        match pair.name() {
            "eth" => {
                pair.no_value()?;
                return self.add(Field::new(FieldId::PACKET_TYPE, 0), pair.key);
            }
            "dl_vlan" => {
                let value = pair.required()?;
                let vid = value.number(0xffff)?;
                return match vid {
                    0xffff => self.add(Field::untagged(), pair.key),
                    0..=0xfff => {
                        self.add(Field::new(FieldId::VLAN_VID, VID_PRESENT | vid), pair.key)
                    }
                    _ => Err(value.error("VLAN ID above 4095 (0xffff matches untagged packets)")),
                };
            }
            "dl_vlan_pcp" | "vlan_pcp" => {
                self.add(Field::new(FieldId::VLAN_PCP, pair.required()?.number(7)?), pair.key)?;
                // A priority implies a tag.
                if !self.fields.iter().any(|(oxm, _)| oxm.id() == FieldId::VLAN_VID) {
                    self.fields.push((Field::tagged().into(), pair.key));
                }
                return Ok(());
            }
            "nw_tos" => {
                let value = pair.required()?;
                let tos = value.number(0xff)?;
                if tos & 3 != 0 {
                    return Err(value.error("the lower two bits must be 0; use `nw_ecn` for them"));
                }
                return self.add(Field::new(FieldId::IP_DSCP, tos >> 2), pair.key);
            }
            _ => {}
        }
        let (name, range) = match pair.key.split("[") {
            Some((name, range)) => (name, Some(range)),
            None => (pair.key, None),
        };
        let id = protocol.field(name.text()).ok_or_else(|| pair.unknown("field or keyword"))?;
        match range {
            Some(range) => self.part(id, range, pair),
            None => self.whole(id, pair),
        }
    }

    /// Adds a field, unless its mask is empty.
    fn add(&mut self, field: Field, key: TextSpan<'a>) -> Result<(), TextError> {
        if field.mask == Some(0) {
            return Ok(());
        }
        self.add_any(field.into(), key)
    }

    fn add_any(&mut self, oxm: Oxm, key: TextSpan<'a>) -> Result<(), TextError> {
        let same = self.fields.iter_mut().find(|(other, _)| other.id() == oxm.id());
        match same {
            None => self.fields.push((oxm, key)),
            Some((other, _)) if *other == oxm => {}
            // The requirement of a tag was only implied by a priority.
            Some((other, _)) if *other == Oxm::Field(Field::tagged()) => *other = oxm,
            Some(_) if oxm == Oxm::Field(Field::tagged()) => {}
            Some(_) => {
                return Err(key.error(format!("conflicting values for `{}`", oxm.id().name())));
            }
        }
        Ok(())
    }

    /// Parses `name=value` or `name=value/mask`.
    fn whole(&mut self, id: FieldId, pair: &KeyValue<'a>) -> Result<(), TextError> {
        match read_value(id, if pair.parens { pair.value } else { pair.required()? })? {
            Oxm::Field(field) => self.add(field, pair.key),
            wide @ Oxm::Wide { .. } => self.add_any(wide, pair.key),
        }
    }

    /// Parses `name[a..b]=value`.
    fn part(
        &mut self,
        id: FieldId,
        range: TextSpan<'a>,
        pair: &KeyValue<'a>,
    ) -> Result<(), TextError> {
        let row = id.row().filter(|row| !row.is_variable());
        let row = row.ok_or_else(|| pair.key.error("this field does not support bit ranges"))?;
        let bits = u32::from(row.bits);
        let (first, count) = bit_range(range, bits)?;
        let value = pair.required()?;
        let (value, mask) = field_value::parse(FieldFormat::Hex, count, value)?;
        let (value, mask) = (value << first, mask.unwrap_or_else(|| ones(count)) << first);
        // Several ranges of one field are combined.
        let same = self.fields.iter_mut().find(|(other, _)| other.id() == id);
        let Some((Oxm::Field(field), _)) = same else {
            let mask = Some(mask).filter(|&mask| mask != ones(bits));
            return self.add(Field { mask, ..Field::new(id, value) }, pair.key);
        };
        let before = field.mask.unwrap_or_else(|| ones(bits));
        if before & mask & (field.value ^ value) != 0 {
            return Err(pair.key.error("conflicts with an earlier value of the same field"));
        }
        let both = before | mask;
        (field.value, field.mask) = (field.value | value, Some(both).filter(|&m| m != ones(bits)));
        Ok(())
    }

    /// Splits `vlan_tci=0x1005/0x1fff` into VLAN ID and priority. It is left as it is if it covers only some bits of
    /// the priority, or the priority without requiring a tag.
    fn split_tci(&mut self) -> Result<(), TextError> {
        let is_tci = |(oxm, _): &(Oxm, _)| oxm.id() == FieldId::VLAN_TCI;
        let Some(at) = self.fields.iter().position(is_tci) else { return Ok(()) };
        let Some(&(Oxm::Field(Field { value: tci, mask, .. }), key)) = self.fields.get(at) else {
            return Ok(());
        };
        let mask = mask.unwrap_or(0xffff);
        let priority = match mask & 0xe000 {
            0 => None,
            0xe000 if tci & mask & VID_PRESENT != 0 => Some(tci >> 13),
            // Without a tag there is no priority to match.
            0xe000 if mask & VID_PRESENT != 0 && tci & 0xe000 == 0 => None,
            _ => return Ok(()),
        };
        self.fields.remove(at);
        if mask & 0x1fff != 0 {
            let vid_mask = Some(mask & 0x1fff).filter(|&mask| mask != 0x1fff);
            let vid = Field { mask: vid_mask, ..Field::new(FieldId::VLAN_VID, tci & 0x1fff) };
            self.add(vid, key)?;
        }
        let priority = priority.map(|n| self.add(Field::new(FieldId::VLAN_PCP, n), key));
        priority.unwrap_or(Ok(()))
    }

    /// Sorts the fields in the order of the field table, and checks their prerequisites.
    fn finish(mut self) -> Result<Match, TextError> {
        self.split_tci()?;
        let place = |id: FieldId| {
            let at = FieldId::ROWS.iter().position(|row| row.id == id);
            at.unwrap_or(usize::MAX)
        };
        self.fields.sort_by_key(|(oxm, _)| place(oxm.id()));
        let fields = self.fields.iter().map(|(oxm, _)| oxm.clone()).collect();
        let matching = Match { fields };
        match matching.check() {
            Ok(()) => Ok(matching),
            Err(error) => Err(self.locate(error)),
        }
    }

    /// The error at the key that set the invalid field.
    fn locate(&self, error: MatchError) -> TextError {
        let entry = self.fields.iter().find(|(oxm, _)| oxm.id() == error.id);
        let key = entry.map_or_else(|| TextSpan::of(""), |(_, key)| *key);
        key.error(error.to_string())
    }
}

/// Parses a value of the field `id`, optionally with a mask.
pub(crate) fn read_value(id: FieldId, piece: TextSpan<'_>) -> Result<Oxm, TextError> {
    let Some(row) = id.row().filter(|row| !row.is_variable()) else { return bytes(id, piece) };
    let form = if id == FieldId::VLAN_VID { FieldFormat::Hex } else { row.format };
    let (value, mask) = field_value::parse(form, row.bits.into(), piece)?;
    Ok(Field { mask, ..Field::new(id, value) }.into())
}

/// Parses `0..7]`, `7]` or `]` (all bits) into first bit and number of bits.
pub(crate) fn bit_range(piece: TextSpan<'_>, bits: u32) -> Result<(u32, u32), TextError> {
    let end = piece.text().strip_suffix(']');
    let inside = end.ok_or_else(|| piece.error_after("missing `]`"))?;
    let inside = piece.sub(0, inside.len()).trim();
    if inside.is_empty() {
        return Ok((0, bits));
    }
    let (first, last) = inside.split("..").unwrap_or((inside, inside));
    let bit = |piece: TextSpan<'_>| {
        let bit: u32 = piece.trim().int()?;
        let beyond = || match bits.checked_sub(1) {
            Some(last) => piece.trim().error(format!("bit out of range (last bit is {last})")),
            None => piece.trim().error("the size of this field is unknown"),
        };
        if bit < bits { Ok(bit) } else { Err(beyond()) }
    };
    let (first, last) = (bit(first)?, bit(last)?);
    if last < first {
        return Err(inside.error("the last bit is less than the first"));
    }
    Ok((first, last.saturating_sub(first).saturating_add(1)))
}

/// Maximum bytes of an unknown field, so that value, mask and experimenter ID fit into the length of a header.
/// §7.2.3.2.
const UNKNOWN_BYTES_MAX: u8 = (u8::MAX - 4) / 2;

/// Parses a value given as bytes, `0x00ff` or `0x00ff/0xffff`.
fn bytes(id: FieldId, piece: TextSpan<'_>) -> Result<Oxm, TextError> {
    let read = |piece: TextSpan<'_>| {
        let zero = Some(piece).filter(|piece| piece.text() == "0");
        let digits = piece.strip("0x").or(zero);
        let digits = digits.ok_or_else(|| piece.error("expected `0x` and hex digits"))?;
        let odd = digits.text().len() % 2 == 1;
        let padded = format!("{}{}", if odd { "0" } else { "" }, digits.text());
        let bytes = TextSpan::of(&padded).bytes();
        bytes.map_err(|_| digits.error("expected hex digits"))
    };
    let (value, mask) = piece.split("/").map_or((piece, None), |(v, m)| (v, Some(m)));
    let (mut value, mut mask) = (read(value)?, mask.map(read).transpose()?);
    let len = value.len().max(mask.as_ref().map_or(0, Vec::len));
    if len == 0 && id.row().is_some() {
        return Err(piece.error("expected `0x` and hex digits"));
    }
    let most = id.row().map_or(UNKNOWN_BYTES_MAX, |row| row.bytes);
    if len > usize::from(most) {
        return Err(piece.error(format!("value of {len} bytes is too long (maximum {most})")));
    }
    let widen = |bytes: &mut Vec<u8>| {
        bytes.splice(0..0, core::iter::repeat_n(0, len.saturating_sub(bytes.len())));
    };
    widen(&mut value);
    mask.iter_mut().for_each(widen);
    if let Some(mask) = &mask {
        value.iter_mut().zip(mask).for_each(|(value, mask)| *value &= mask);
    }
    if id.row().is_some() && len <= 16 {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u128::from(*byte));
        let len = u8::try_from(len).unwrap_or(16);
        let mask = mask.as_deref().map(number);
        return Ok(Oxm::Field(Field { id, len, value: number(&value), mask }));
    }
    Ok(Oxm::Wide { id, value, mask })
}

/// The items of a match as text.
pub(crate) fn print(it: &Match) -> Vec<String> {
    let whole = |id| it.get(id).filter(|field| field.mask.is_none()).map(|field| field.value);
    let (eth_type, ip_proto) = (whole(FieldId::ETH_TYPE), whole(FieldId::IP_PROTO));
    let best = PROTOCOLS.iter().filter(|row| {
        Some(u128::from(row.1)) == eth_type && row.2.is_none_or(|p| Some(u128::from(p)) == ip_proto)
    });
    // Of two keywords for the same, the first is printed; one that includes the IP protocol is preferred.
    let best = best.reduce(|a, b| if b.2.is_some() && a.2.is_none() { b } else { a });
    let said = |id: FieldId| match best {
        Some(row) => id == FieldId::ETH_TYPE || (id == FieldId::IP_PROTO && row.2.is_some()),
        None => false,
    };
    let mut parts: Vec<(usize, String)> = vec![];
    let late = EARLY_FIELDS.len() + 2;
    for oxm in &it.fields {
        let id = oxm.id().canonical();
        if said(id) || id == FieldId::VLAN_VID || id == FieldId::VLAN_PCP {
            continue;
        }
        let early = EARLY_FIELDS.iter().position(|row| row.0 == id);
        let place =
            early.or_else(|| LATE_FIELDS.iter().position(|row| row.0 == id).map(|at| at + late));
        parts.push((place.unwrap_or(late - 1), print_field(oxm, it)));
    }
    parts.extend(best.map(|row| (EARLY_FIELDS.len(), row.0.to_owned())));
    let vlan = LATE_FIELDS.iter().position(|row| row.0 == FieldId::VLAN_TCI).unwrap_or(0);
    parts.extend(print_vlan(it).map(|text| (late + vlan, text)));
    parts.sort_by_key(|part| part.0);
    parts.into_iter().map(|part| part.1).collect()
}

/// Name of a field within the match `it`.
fn name_in(id: FieldId, it: &Match) -> String {
    let written = EARLY_FIELDS.iter().chain(LATE_FIELDS).find(|row| row.0 == id);
    let unmet = || {
        let needs = id.row().map(|row| row.prerequisites).unwrap_or_default();
        needs.iter().any(|need| !it.iter().any(|field| need.is_met_by(field)))
    };
    match written {
        // These names stand for the field only if its prerequisites are matched.
        Some((_, "tp_src" | "tp_dst" | "icmp_type" | "icmp_code")) if unmet() => id.name().into(),
        Some((_, name)) => (*name).into(),
        None => id.name().into(),
    }
}

fn print_field(oxm: &Oxm, it: &Match) -> String {
    let name = name_in(oxm.id().canonical(), it);
    let value = match (oxm.id().canonical(), oxm.field()) {
        (FieldId::ETH_TYPE, Some(field)) if field.mask.is_none() => format!("{:#06x}", field.value),
        (FieldId::IPV6_FLABEL, Some(field)) if field.mask.is_none() => {
            format!("{:#07x}", field.value)
        }
        (FieldId::IP_DSCP, Some(field)) if field.mask.is_none() => (field.value << 2).to_string(),
        (FieldId::RECIRC_ID, Some(field)) if field.mask.is_none() => hex(field.value),
        (FieldId::CT_ZONE, Some(field)) if field.mask.is_none() => field.value.to_string(),
        _ => print_value(oxm),
    };
    format!("{name}={value}")
}

/// A value with its mask as text; the inverse of [`read_value`].
pub(crate) fn print_value(oxm: &Oxm) -> String {
    match (oxm, oxm.id().row().filter(|row| !row.is_variable())) {
        (Oxm::Field(field), Some(row)) => {
            let bits = u32::from(row.bits);
            let wide = (field.value | field.mask.unwrap_or(0)) & !ones(bits) != 0;
            let (form, bits) = if wide { (FieldFormat::Hex, 128) } else { (row.format, bits) };
            field_value::print(form, bits, field.value, field.mask)
        }
        (Oxm::Field(Field { len, value, mask, .. }), None) => {
            let digits = usize::from(*len) * 2;
            let mask = mask.map(|mask| format!("/0x{mask:0digits$x}")).unwrap_or_default();
            format!("0x{value:0digits$x}{mask}")
        }
        (Oxm::Wide { value, mask, .. }, _) => {
            let mask = mask.as_ref().map(|mask| format!("/0x{}", crate::model::value::hex(mask)));
            format!("0x{}{}", crate::model::value::hex(value), mask.unwrap_or_default())
        }
    }
}

/// VLAN ID and priority as `dl_vlan=9,dl_vlan_pcp=3`; otherwise as `vlan_tci=…`, or as `vlan_vid=…` if the match has
/// `vlan_tci` as well.
fn print_vlan(it: &Match) -> Option<String> {
    let (vid, pcp) = (it.get(FieldId::VLAN_VID), it.get(FieldId::VLAN_PCP));
    let Some(vid) = vid else { return pcp.map(|pcp| format!("vlan_pcp={}", pcp.value)) };
    let (vid, vid_mask) = (vid.value, vid.mask.unwrap_or(0x1fff));
    let pcp_text = pcp.map(|pcp| format!("dl_vlan_pcp={}", pcp.value));
    if vid & vid_mask & VID_PRESENT != 0 {
        let vid_text = (vid_mask == 0x1fff).then(|| format!("dl_vlan={}", vid & 0xfff));
        if vid_mask == 0x1fff || (vid_mask == VID_PRESENT && pcp.is_some()) {
            return Some([vid_text, pcp_text].into_iter().flatten().collect::<Vec<_>>().join(","));
        }
    }
    if it.get(FieldId::VLAN_TCI).is_some() {
        let vid_text =
            format!("vlan_vid={}", field_value::print(FieldFormat::Hex, 13, vid, Some(vid_mask)));
        return Some(
            [Some(vid_text), pcp_text].into_iter().flatten().collect::<Vec<_>>().join(","),
        );
    }
    let tci = vid | pcp.map_or(0, |pcp| pcp.value << 13);
    let mask = vid_mask | pcp.map_or(0, |_| 0xe000);
    Some(format!("vlan_tci={tci:#06x}/{mask:#06x}"))
}
