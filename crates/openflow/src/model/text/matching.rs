//! Matches as text: `in_port=1,tcp,nw_dst=10.0.0.0/24,tp_dst=80`.

use super::field_value::{self, hex, ones};
use super::token::{Pair, Piece, TextError};
use crate::model::field::{FieldFormat, VID_PRESENT};
use crate::model::{Field, FieldId, Match, MatchError, Oxm};

/// Words for an ethertype, and for a protocol of IP above it.
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

/// Fields in the order in which they are written, with what they are called in a match.
///
/// Those that are not here are called as their row says and stand before `in_port`.
const WRITTEN: &[(FieldId, &str)] = &[
    (FieldId::COOKIE, "NXM_NX_COOKIE"), // `cookie` is the rule's own
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

/// The same for those behind the words for protocols, registers and tunnels.
const WRITTEN_LATE: &[(FieldId, &str)] = &[
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

/// Names that mean another field of some protocols: of which (ethertype, protocol), which.
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
    /// The match that `line` says, in the syntax of `ovs-fields(7)`; all packets for none.
    ///
    /// Fields come in the order of their table. What another field needs has to be there as well.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn from_text(line: &str) -> Result<Self, TextError> {
        let (mut pairs, mut all) = (Piece::of(line).pairs(), Vec::new());
        while let Some(pair) = pairs.next()? {
            all.push(pair);
        }
        read(&all)
    }

    /// The match in the syntax of `ovs-fields(7)`; nothing for all packets.
    pub fn to_text(&self) -> String {
        print(self).join(",")
    }
}

/// What packets are, as far as words for protocols and their fields say it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Protocol {
    eth_type: Option<u16>,
    /// Above IP.
    pub(crate) ip_proto: Option<u8>,
}

impl Protocol {
    /// Reads it off a match that is not taken apart yet.
    pub(crate) fn of(pairs: &[Pair<'_>]) -> Self {
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

    /// The field that `name` means.
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

/// The field called `name`: as its row says, as `ovs-ofctl` says besides, by a header or by numbers. Letters are not
/// changed, so that a keyword in other letters is not taken for the field of the same name.
pub(crate) fn field_of(name: &str) -> Option<FieldId> {
    let spelled = |id: &FieldId| {
        id.row().is_some_and(|row| {
            let header = |of: &str| of == name || of.to_ascii_lowercase() == name;
            row.name == name
                || row.aka.contains(&name)
                || row.headers.iter().any(|it| header(it.name))
        })
    };
    FieldId::from_name(name).filter(spelled).or_else(|| FieldId::from_numbers(name))
}

/// Fields that are read one after the other, each with the place that said it.
#[derive(Default)]
struct Reading<'a> {
    fields: Vec<(Oxm, Piece<'a>)>,
}

/// The match that `pairs` say.
pub(crate) fn read(pairs: &[Pair<'_>]) -> Result<Match, TextError> {
    let (protocol, mut reading) = (Protocol::of(pairs), Reading::default());
    for pair in pairs {
        reading.pair(pair, protocol)?;
    }
    reading.finish()
}

impl<'a> Reading<'a> {
    fn pair(&mut self, pair: &Pair<'a>, protocol: Protocol) -> Result<(), TextError> {
        if let Some(row) = PROTOCOLS.iter().find(|row| row.0 == pair.name()) {
            pair.bare()?;
            self.add(Field::eth_type(row.1), pair.key)?;
            return row.2.map_or(Ok(()), |proto| self.add(Field::ip_proto(proto), pair.key));
        }
        match pair.name() {
            "eth" => {
                pair.bare()?;
                return self.add(Field::new(FieldId::PACKET_TYPE, 0), pair.key);
            }
            "dl_vlan" => {
                let value = pair.needed()?;
                let vid = value.number(0xffff)?;
                return match vid {
                    0xffff => self.add(Field::untagged(), pair.key),
                    0..=0xfff => {
                        self.add(Field::new(FieldId::VLAN_VID, VID_PRESENT | vid), pair.key)
                    }
                    _ => Err(value.fault("a VLAN has a number up to 4095")),
                };
            }
            "dl_vlan_pcp" | "vlan_pcp" => {
                self.add(Field::new(FieldId::VLAN_PCP, pair.needed()?.number(7)?), pair.key)?;
                // Whoever has a priority has a tag.
                if !self.fields.iter().any(|(oxm, _)| oxm.id() == FieldId::VLAN_VID) {
                    self.fields.push((Field::tagged().into(), pair.key));
                }
                return Ok(());
            }
            "nw_tos" => {
                let value = pair.needed()?;
                let tos = value.number(0xff)?;
                if tos & 3 != 0 {
                    return Err(value.fault("the lower two bits are those of `nw_ecn`"));
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

    /// Adds a field; what says nothing of a packet is left out.
    fn add(&mut self, field: Field, key: Piece<'a>) -> Result<(), TextError> {
        if field.mask == Some(0) {
            return Ok(());
        }
        self.add_any(field.into(), key)
    }

    fn add_any(&mut self, oxm: Oxm, key: Piece<'a>) -> Result<(), TextError> {
        let same = self.fields.iter_mut().find(|(other, _)| other.id() == oxm.id());
        match same {
            None => self.fields.push((oxm, key)),
            Some((other, _)) if *other == oxm => {}
            // That there is a tag was only concluded.
            Some((other, _)) if *other == Oxm::Field(Field::tagged()) => *other = oxm,
            Some(_) if oxm == Oxm::Field(Field::tagged()) => {}
            Some(_) => return Err(key.fault(format!("`{}` is matched before", oxm.id().name()))),
        }
        Ok(())
    }

    /// `name=value`, `name=value/mask`.
    fn whole(&mut self, id: FieldId, pair: &Pair<'a>) -> Result<(), TextError> {
        match read_value(id, if pair.parens { pair.value } else { pair.needed()? })? {
            Oxm::Field(field) => self.add(field, pair.key),
            wide @ Oxm::Wide { .. } => self.add_any(wide, pair.key),
        }
    }

    /// `name[a..b]=value`.
    fn part(&mut self, id: FieldId, range: Piece<'a>, pair: &Pair<'a>) -> Result<(), TextError> {
        let row = id.row().filter(|row| !row.is_variable());
        let row = row.ok_or_else(|| pair.key.fault("bits of this field cannot be named"))?;
        let bits = u32::from(row.bits);
        let (first, count) = bit_range(range, bits)?;
        let value = pair.needed()?;
        let (value, mask) = field_value::parse(FieldFormat::Hex, count, value)?;
        let (value, mask) = (value << first, mask.unwrap_or_else(|| ones(count)) << first);
        // Parts of one field that do not overlap say it together.
        let same = self.fields.iter_mut().find(|(other, _)| other.id() == id);
        let Some((Oxm::Field(field), _)) = same else {
            let mask = Some(mask).filter(|&mask| mask != ones(bits));
            return self.add(Field { mask, ..Field::new(id, value) }, pair.key);
        };
        let before = field.mask.unwrap_or_else(|| ones(bits));
        if before & mask & (field.value ^ value) != 0 {
            return Err(pair.key.fault("contradicts what was said before"));
        }
        let both = before | mask;
        (field.value, field.mask) = (field.value | value, Some(both).filter(|&m| m != ones(bits)));
        Ok(())
    }

    /// Takes `vlan_tci=0x1005/0x1fff` apart, which is number, presence and priority in one, unless it is about part of
    /// the priority, or about that of a packet of which it does not say that it has a tag.
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

    /// Sorts the fields as the table has them and proves that what each needs is there.
    fn finish(mut self) -> Result<Match, TextError> {
        self.split_tci()?;
        let place = |id: FieldId| {
            let at = FieldId::ROWS.iter().position(|row| row.id == id);
            at.unwrap_or(usize::MAX)
        };
        self.fields.sort_by_key(|(oxm, _)| place(oxm.id()));
        let fields = self.fields.iter().map(|(oxm, _)| oxm.clone()).collect();
        let read = Match { fields };
        match read.check() {
            Ok(()) => Ok(read),
            Err(unfit) => Err(self.blame(unfit)),
        }
    }

    fn blame(&self, unfit: MatchError) -> TextError {
        let place = self.fields.iter().find(|(oxm, _)| oxm.id() == unfit.id);
        let piece = place.map_or_else(|| Piece::of(""), |(_, piece)| *piece);
        piece.fault(unfit.to_string())
    }
}

/// A value of the field `id`, perhaps with a mask.
pub(crate) fn read_value(id: FieldId, piece: Piece<'_>) -> Result<Oxm, TextError> {
    let Some(row) = id.row().filter(|row| !row.is_variable()) else { return bytes(id, piece) };
    let form = if id == FieldId::VLAN_VID { FieldFormat::Hex } else { row.form };
    let (value, mask) = field_value::parse(form, row.bits.into(), piece)?;
    Ok(Field { mask, ..Field::new(id, value) }.into())
}

/// `0..7]`, `7]`, `]` for all: the first bit and how many.
pub(crate) fn bit_range(piece: Piece<'_>, bits: u32) -> Result<(u32, u32), TextError> {
    let end = piece.text().strip_suffix(']');
    let inside = end.ok_or_else(|| piece.fault_behind("`]` is missing"))?;
    let inside = piece.sub(0, inside.len()).trim();
    if inside.is_empty() {
        return Ok((0, bits));
    }
    let (first, last) = inside.split("..").unwrap_or((inside, inside));
    let bit = |piece: Piece<'_>| {
        let bit: u32 = piece.trim().int()?;
        let beyond = || match bits.checked_sub(1) {
            Some(last) => piece.trim().fault(format!("the field ends at bit {last}")),
            None => piece.trim().fault("the field has no bits that are known"),
        };
        if bit < bits { Ok(bit) } else { Err(beyond()) }
    };
    let (first, last) = (bit(first)?, bit(last)?);
    if last < first {
        return Err(inside.fault("the last bit is before the first"));
    }
    Ok((first, last.saturating_sub(first).saturating_add(1)))
}

/// Bytes of the value of a field without a row, so that a header can count them with their mask and with whose field
/// it is. §7.2.3.2.
const UNKNOWN_BYTES_MAX: u8 = (u8::MAX - 4) / 2;

/// A value that is bytes, `0x00ff` or `0x00ff/0xffff`.
fn bytes(id: FieldId, piece: Piece<'_>) -> Result<Oxm, TextError> {
    let read = |piece: Piece<'_>| {
        let zero = Some(piece).filter(|piece| piece.text() == "0");
        let digits = piece.strip("0x").or(zero);
        let digits = digits.ok_or_else(|| piece.fault("expected hex digits behind `0x`"))?;
        let odd = digits.text().len() % 2 == 1;
        let padded = format!("{}{}", if odd { "0" } else { "" }, digits.text());
        let bytes = Piece::of(&padded).bytes();
        bytes.map_err(|_| digits.fault("expected hex digits"))
    };
    let (value, mask) = piece.split("/").map_or((piece, None), |(v, m)| (v, Some(m)));
    let (mut value, mut mask) = (read(value)?, mask.map(read).transpose()?);
    let len = value.len().max(mask.as_ref().map_or(0, Vec::len));
    if len == 0 && id.row().is_some() {
        return Err(piece.fault("expected hex digits behind `0x`"));
    }
    let most = id.row().map_or(UNKNOWN_BYTES_MAX, |row| row.bytes);
    if len > usize::from(most) {
        return Err(piece.fault(format!("these are {len} bytes, and the field has {most} at most")));
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

/// The parts of the text of a match.
pub(crate) fn print(it: &Match) -> Vec<String> {
    let whole = |id| it.get(id).filter(|field| field.mask.is_none()).map(|field| field.value);
    let (eth_type, ip_proto) = (whole(FieldId::ETH_TYPE), whole(FieldId::IP_PROTO));
    let best = PROTOCOLS.iter().filter(|row| {
        Some(u128::from(row.1)) == eth_type && row.2.is_none_or(|p| Some(u128::from(p)) == ip_proto)
    });
    // Of two words for the same, the first is written; one that says the protocol too says more.
    let best = best.reduce(|a, b| if b.2.is_some() && a.2.is_none() { b } else { a });
    let said = |id: FieldId| match best {
        Some(row) => id == FieldId::ETH_TYPE || (id == FieldId::IP_PROTO && row.2.is_some()),
        None => false,
    };
    let mut parts: Vec<(usize, String)> = vec![];
    let late = WRITTEN.len() + 2;
    for oxm in &it.fields {
        let id = oxm.id().canonical();
        if said(id) || id == FieldId::VLAN_VID || id == FieldId::VLAN_PCP {
            continue;
        }
        let early = WRITTEN.iter().position(|row| row.0 == id);
        let place =
            early.or_else(|| WRITTEN_LATE.iter().position(|row| row.0 == id).map(|at| at + late));
        parts.push((place.unwrap_or(late - 1), print_field(oxm, it)));
    }
    parts.extend(best.map(|row| (WRITTEN.len(), row.0.to_owned())));
    let vlan = WRITTEN_LATE.iter().position(|row| row.0 == FieldId::VLAN_TCI).unwrap_or(0);
    parts.extend(print_vlan(it).map(|text| (late + vlan, text)));
    parts.sort_by_key(|part| part.0);
    parts.into_iter().map(|part| part.1).collect()
}

/// What a field is called in a match of which it is part.
fn name_in(id: FieldId, it: &Match) -> String {
    let written = WRITTEN.iter().chain(WRITTEN_LATE).find(|row| row.0 == id);
    let unmet = || {
        let needs = id.row().map(|row| row.needs).unwrap_or_default();
        needs.iter().any(|need| !it.iter().any(|field| need.met_by(field)))
    };
    match written {
        // These names mean the field only together with what it needs.
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

/// A value with its mask, as [`read_value`] reads it.
pub(crate) fn print_value(oxm: &Oxm) -> String {
    match (oxm, oxm.id().row().filter(|row| !row.is_variable())) {
        (Oxm::Field(field), Some(row)) => {
            let bits = u32::from(row.bits);
            let wide = (field.value | field.mask.unwrap_or(0)) & !ones(bits) != 0;
            let (form, bits) = if wide { (FieldFormat::Hex, 128) } else { (row.form, bits) };
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

/// `dl_vlan=9,dl_vlan_pcp=3`; where that cannot say it `vlan_tci=…`, or `vlan_vid=…` where that is said already.
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
