//! Matches: `{"in_port": 1, "ipv4_src": "10.0.0.0/24"}`.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};
use sluice_base::sort_by_key;
use sluice_openflow::spec::{FieldFormat, FieldRow};
use sluice_openflow::{Field, FieldId, MacAddr, Match, PortNo, Version};

use super::forms::Form;
use super::input::{ApiResult, Object, invalid, number_up_to, port, whole_number};
use super::literal::integer;
use super::numbers::{port_name, port_number};
use crate::api::error::ApiError;

/// `OFPXMC_OPENFLOW_BASIC`.
const OPENFLOW_BASIC: u16 = 0x8000;
const ETH_TYPE_ARP: u128 = 0x0806;
/// `OFPVID_PRESENT`.
const VLAN_PRESENT: u128 = 0x1000;
/// The VLAN that means "no tag" in OpenFlow 1.0.
const VLAN_NONE_1_0: u128 = 0xffff;

/// Old names of fields. Those of OpenFlow 1.0 that depend on the protocol are in [`PORT_FIELDS`] and [`field_id`].
const OLD_NAMES: [(&str, FieldId); 8] = [
    ("dl_src", FieldId::ETH_SRC),
    ("dl_dst", FieldId::ETH_DST),
    ("dl_type", FieldId::ETH_TYPE),
    ("dl_vlan", FieldId::VLAN_VID),
    ("dl_vlan_pcp", FieldId::VLAN_PCP),
    ("nw_src", FieldId::IPV4_SRC),
    ("nw_dst", FieldId::IPV4_DST),
    ("nw_proto", FieldId::IP_PROTO),
];

/// What `tp_src` and `tp_dst` stand for, by IP protocol.
const PORT_FIELDS: [(u128, FieldId, FieldId); 4] = [
    (1, FieldId::ICMPV4_TYPE, FieldId::ICMPV4_CODE),
    (6, FieldId::TCP_SRC, FieldId::TCP_DST),
    (17, FieldId::UDP_SRC, FieldId::UDP_DST),
    (132, FieldId::SCTP_SRC, FieldId::SCTP_DST),
];

/// Fields whose names in Ryu differ from those in the table of fields.
const RYU_NAMES: [(FieldId, &str); 3] = [
    (FieldId::NW_FRAG, "ip_frag"),
    (FieldId::TUN_SRC, "tun_ipv4_src"),
    (FieldId::TUN_DST, "tun_ipv4_dst"),
];

/// Reads the match in the entry `name`; everything matches if there is none.
pub(super) fn from_entry(of: &Object<'_>, name: &str, version: Version) -> ApiResult<Match> {
    of.object(name)?.map_or_else(|| Ok(Match::default()), |it| from_object(&it, version))
}

fn from_object(it: &Object<'_>, version: Version) -> ApiResult<Match> {
    let mut fields: Vec<Field> = vec![];
    for (name, value) in it.iter() {
        let id = field_id(it, name, version)?;
        if fields.iter().any(|field| field.id == id) {
            let place = it.place(name);
            return Err(ApiError::invalid(format!("{place} is there under another name already")));
        }
        fields.push(field(&it.place(name), name, id, value, version)?);
    }
    // What a field requires must come before it, as in the order of their numbers. §7.2.3.6.
    sort_by_key(&mut fields, |field| (field.id.class != OPENFLOW_BASIC, field.id.number));
    Ok(fields.into_iter().collect())
}

/// The number in the entry `new` or `old`.
fn number_of(it: &Object<'_>, new: &str, old: &str) -> Option<u128> {
    it.get(new).or_else(|| it.get(old)).and_then(whole_number)
}

/// The field that `name` stands for.
fn field_id(it: &Object<'_>, name: &str, version: Version) -> ApiResult<FieldId> {
    let is_arp = number_of(it, "eth_type", "dl_type") == Some(ETH_TYPE_ARP);
    let protocol = number_of(it, "ip_proto", "nw_proto");
    let unknown =
        || ApiError::invalid(format!("{} is not the name of a match field", it.place(name)));
    Ok(match name {
        "nw_src" | "ipv4_src" if is_arp => FieldId::ARP_SPA,
        "nw_dst" | "ipv4_dst" if is_arp => FieldId::ARP_TPA,
        // One field of OpenFlow 1.0 for both.
        "nw_proto" if is_arp => FieldId::ARP_OP,
        "nw_tos" => FieldId::IP_DSCP,
        "tp_src" | "tp_dst" => {
            let row = PORT_FIELDS.iter().find(|row| Some(row.0) == protocol);
            let (src, dst) = match row {
                Some(&(_, src, dst)) => (src, dst),
                None if version < Version::V1_2 => (FieldId::TCP_SRC, FieldId::TCP_DST),
                None => {
                    let place = it.place(name);
                    let message =
                        format!("{place} requires nw_proto (or ip_proto) 1, 6, 17 or 132");
                    return Err(ApiError::invalid(message));
                }
            };
            if name == "tp_src" { src } else { dst }
        }
        name => {
            let old = OLD_NAMES.iter().find(|row| row.0 == name).map(|row| row.1);
            let ryu = || RYU_NAMES.iter().find(|row| row.1 == name).map(|row| row.0);
            let nicira = || name.strip_suffix("_nxm").and_then(FieldId::from_name);
            let known = old.or_else(ryu).or_else(|| FieldId::from_name(name)).or_else(nicira);
            known.filter(|id| id.row().is_some_and(|row| !row.is_variable())).ok_or_else(unknown)?
        }
    })
}

/// The field that an action `SET_FIELD` sets.
pub(super) fn to_set(action: &Object<'_>, name: &str, version: Version) -> ApiResult<Field> {
    let (place, value) = (action.place("value"), action.required("value")?);
    let none = Value::Object(Map::new());
    let id = field_id(&Object::new("", &none)?, name, version.max(Version::V1_2));
    let unknown = |_| invalid(&action.place("field"), &name.into(), "the name of a match field");
    let id = id.map_err(unknown)?;
    if id == FieldId::VLAN_VID && !value.as_str().is_some_and(|text| text.contains('/')) {
        // The value of the field, to which the bit OFPVID_PRESENT belongs: scripts leave it out, too.
        let vlan = number_up_to(&place, value, 0x1fff)?;
        return Ok(Field::new(id, vlan | VLAN_PRESENT));
    }
    field(&place, name, id, value, version)
}

/// The field that an action of OpenFlow 1.0 sets, without a mask.
pub(super) fn to_set_1_0(place: &str, name: &str, id: FieldId, value: &Value) -> ApiResult<Field> {
    let field = field(place, name, id, value, Version::V1_0)?;
    match field.mask {
        None => Ok(field),
        Some(_) => Err(invalid(place, value, "a value without a mask")),
    }
}

/// The field `id` with what `value` says.
fn field(
    place: &str,
    name: &str,
    id: FieldId,
    value: &Value,
    version: Version,
) -> ApiResult<Field> {
    let Some(row) = id.row() else {
        return Err(ApiError::invalid(format!("{place} is not the name of a match field")));
    };
    if name == "nw_tos" {
        let tos = number_up_to(place, value, 0xff)?;
        if tos & 3 != 0 {
            return Err(invalid(place, value, "a type of service, a multiple of 4"));
        }
        return Ok(Field::new(id, tos >> 2));
    }
    match row.format {
        FieldFormat::Vlan => vlan(place, value, version),
        FieldFormat::Port if id == FieldId::IN_PORT => {
            Ok(Field::in_port(port(place, value, version)?))
        }
        FieldFormat::PacketType => packet_type(place, id, value),
        _ => masked(place, row, value),
    }
}

/// A VLAN. Decimal numbers are VLAN ids; hexadecimal texts and masks are values of the field, with the bit `OFPVID_PRESENT`.
fn vlan(place: &str, value: &Value, version: Version) -> ApiResult<Field> {
    let bits = |n: u128| Field::new(FieldId::VLAN_VID, n);
    let bad = || {
        invalid(
            place,
            value,
            "a VLAN id from 0 to 4095, or the field's value in hexadecimal digits",
        )
    };
    if version == Version::V1_0 {
        return match whole_number(value) {
            Some(VLAN_NONE_1_0) => Ok(Field::untagged()),
            Some(n @ 0..=0x1fff) => Ok(bits(n | VLAN_PRESENT)),
            _ => Err(bad()),
        };
    }
    match value {
        Value::String(text) if text.contains('/') => {
            let field = FieldId::VLAN_VID.row().and_then(|row| masked(place, row, value).ok());
            field.ok_or_else(bad)
        }
        Value::String(text) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = integer(text).and_then(|n| n.try_into().ok()).filter(|n| *n <= 0x1fff);
            number.map(bits).ok_or_else(bad)
        }
        value => {
            let number = whole_number(value).filter(|n| *n <= 0x1fff);
            number.map(|n| bits(n | VLAN_PRESENT)).ok_or_else(bad)
        }
    }
}

/// A packet type: a list of namespace and type, or both in one number.
fn packet_type(place: &str, id: FieldId, value: &Value) -> ApiResult<Field> {
    match value {
        Value::Array(pair) => match pair.as_slice() {
            [namespace, kind] => {
                let namespace = number_up_to(place, namespace, 0xffff)?;
                Ok(Field::new(id, namespace << 16 | number_up_to(place, kind, 0xffff)?))
            }
            _ => Err(invalid(place, value, "a list of namespace and type")),
        },
        value => Ok(Field::new(id, number_up_to(place, value, u32::MAX.into())?)),
    }
}

/// A value with an optional mask behind a slash.
fn masked(place: &str, row: &FieldRow, value: &Value) -> ApiResult<Field> {
    let all = u128::MAX >> (128 - u32::from(row.bits).min(128));
    let (what, is_address) = match row.format {
        FieldFormat::Mac => ("an Ethernet address, with a mask after \"/\" if any", true),
        FieldFormat::Ipv4 => {
            ("an IPv4 address, with a prefix length or a mask after \"/\" if any", true)
        }
        FieldFormat::Ipv6 => {
            ("an IPv6 address, with a prefix length or a mask after \"/\" if any", true)
        }
        _ => ("a number", false),
    };
    let expected = if is_address {
        what.to_owned()
    } else {
        format!("{what} from 0 to {all}, with a mask after \"/\" if any")
    };
    let bad = || invalid(place, value, &expected);
    let part = |text: &str| part_of_value(row, text).filter(|n| n & !all == 0);
    let (number, mask) = match value {
        Value::String(text) => match text.split_once('/') {
            None => (part(text), None),
            Some((number, mask)) => {
                let mask = prefix_mask(row, mask.trim(), all).or_else(|| part(mask));
                (part(number), Some(mask.ok_or_else(bad)?))
            }
        },
        value if !is_address => (whole_number(value).filter(|n| n & !all == 0), None),
        _ => (None, None),
    };
    let number = number.ok_or_else(bad)?;
    Ok(match mask.filter(|mask| *mask != all) {
        Some(mask) => Field::new(row.id, number & mask).masked(mask),
        None => Field::new(row.id, number),
    })
}

fn part_of_value(row: &FieldRow, text: &str) -> Option<u128> {
    let text = text.trim();
    match row.format {
        FieldFormat::Mac => MacAddr::from_text(text).map(|mac| mac.to_u64().into()),
        FieldFormat::Ipv4 => text.parse().ok().map(|addr: Ipv4Addr| addr.to_bits().into()),
        FieldFormat::Ipv6 => text.parse().ok().map(|addr: Ipv6Addr| addr.to_bits()),
        _ => integer(text).and_then(|n| n.try_into().ok()),
    }
}

/// The mask of a prefix length.
fn prefix_mask(row: &FieldRow, text: &str, all: u128) -> Option<u128> {
    let is_ip = matches!(row.format, FieldFormat::Ipv4 | FieldFormat::Ipv6);
    let bits: u32 = text.parse().ok().filter(|bits| is_ip && *bits <= row.bits.into())?;
    Some(all & !all.checked_shr(bits).unwrap_or(0))
}

/// The match as Ryu writes it for `version`.
pub(super) fn to_json(it: &Match, version: Version) -> Value {
    let form = Form::of(version);
    let mut entries = Map::new();
    for oxm in &it.fields {
        let Some(field) = oxm.field() else {
            entries.insert(oxm.name(), oxm.value_text().into());
            continue;
        };
        let name = field_name(field.id);
        let (name, value) = match form {
            Form::V1_0 => (old_name_1_0(&name).unwrap_or(&name).to_owned(), value_1_0(field)),
            Form::Strings => (old_name(&name).unwrap_or(&name).to_owned(), value(field, version)),
            Form::Objects => (name, value(field, version)),
        };
        entries.entry(name).or_insert(value);
    }
    Value::Object(entries)
}

/// The name of a field in Ryu since OpenFlow 1.2.
pub(super) fn field_name(id: FieldId) -> String {
    let renamed = RYU_NAMES.iter().find(|row| row.0 == id);
    renamed.map_or_else(|| id.name().into_owned(), |row| row.1.into())
}

/// The old name that Ryu uses for a field of OpenFlow 1.2 and 1.3.
fn old_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "tcp_src" | "udp_src" => "tp_src",
        "tcp_dst" | "udp_dst" => "tp_dst",
        "vlan_pcp" => return None,
        name => {
            let id = FieldId::from_name(name)?;
            OLD_NAMES.iter().find(|row| row.1 == id)?.0
        }
    })
}

/// The name of a field in OpenFlow 1.0.
fn old_name_1_0(name: &str) -> Option<&'static str> {
    Some(match name {
        "vlan_pcp" => "dl_vlan_pcp",
        "ip_dscp" => "nw_tos",
        "arp_op" => "nw_proto",
        "arp_spa" => "nw_src",
        "arp_tpa" => "nw_dst",
        "sctp_src" | "icmpv4_type" => "tp_src",
        "sctp_dst" | "icmpv4_code" => "tp_dst",
        name => return old_name(name),
    })
}

fn value_1_0(field: &Field) -> Value {
    match field.id {
        FieldId::VLAN_VID if field.value == 0 => Value::from(0xffff),
        FieldId::VLAN_VID => number(field.value & 0xfff),
        FieldId::IP_DSCP => number(field.value << 2),
        FieldId::IN_PORT => port_value(field, Version::V1_0),
        FieldId::IPV4_SRC | FieldId::IPV4_DST | FieldId::ARP_SPA | FieldId::ARP_TPA => {
            let address = address_text(field.id, field.value);
            let prefix = field.mask.map_or(32, u128::count_ones);
            if prefix == 32 { address.into() } else { format!("{address}/{prefix}").into() }
        }
        _ => plain(field.id, field.value),
    }
}

fn value(field: &Field, version: Version) -> Value {
    match (field.id, field.mask) {
        (FieldId::IN_PORT, _) => port_value(field, version),
        (FieldId::VLAN_VID, Some(mask)) => format!("0x{:04x}/0x{mask:04x}", field.value).into(),
        (FieldId::VLAN_VID, None) if field.value & VLAN_PRESENT != 0 => {
            (field.value & !VLAN_PRESENT).to_string().into()
        }
        (FieldId::VLAN_VID, None) => format!("0x{:04x}", field.value).into(),
        (FieldId::PACKET_TYPE, None) => {
            Value::Array(vec![number(field.value >> 16), number(field.value & 0xffff)])
        }
        (id, Some(mask)) => {
            format!("{}/{}", address_text(id, field.value), address_text(id, mask)).into()
        }
        (id, None) => plain(id, field.value),
    }
}

fn port_value(field: &Field, version: Version) -> Value {
    let port = PortNo(u32::try_from(field.value).unwrap_or(u32::MAX));
    port_name(port, version).map_or_else(|| port_number(port, version).into(), Into::into)
}

/// A value as number or, of an address, as text.
pub(super) fn plain(id: FieldId, value: u128) -> Value {
    match id.row().map(|row| row.format) {
        Some(FieldFormat::Mac | FieldFormat::Ipv4 | FieldFormat::Ipv6) => {
            address_text(id, value).into()
        }
        _ => number(value),
    }
}

/// A number; as text, if JSON parsers would not read it as one of 64 bits.
fn number(value: u128) -> Value {
    u64::try_from(value).map_or_else(|_| value.to_string().into(), Into::into)
}

/// A value as text: an address, or a decimal number.
pub(super) fn address_text(id: FieldId, value: u128) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value of a field has the bits of its row"
    )]
    match id.row().map(|row| row.format) {
        Some(FieldFormat::Mac) => MacAddr::from_u64(value as u64).to_string(),
        Some(FieldFormat::Ipv4) => Ipv4Addr::from_bits(value as u32).to_string(),
        Some(FieldFormat::Ipv6) => Ipv6Addr::from_bits(value).to_string(),
        _ => value.to_string(),
    }
}
