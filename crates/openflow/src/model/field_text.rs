//! Text form and neutral form of match fields.
//!
//! In the neutral form a match is a map from field names to values, in the order in which they are encoded. A value is a
//! number if its text is a decimal number, otherwise a text; a mask follows a slash. Values of any field can also be
//! hexadecimal numbers: `0x1005/0x1fff`. An unknown field, or one with a header that the version does not have, is called
//! `oxm_8000_99` (class and number; with experimenter ID `oxm_ffff_5_0000abcd`), and its value is bytes in hex.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::field::{Field, FieldFormat, FieldId, FieldRow, VID_PRESENT};
use super::matching::Match;
use super::oxm::{FieldHeader, Oxm};
use super::value::{
    Entries, NeutralForm, Value, ValueError, expect_number, expect_text, hex, unhex,
};
use crate::{MacAddr, PortNo, Version};

/// Names for values of `nw_frag`: name, value, mask.
const FRAG_NAMES: &[(&str, u128, Option<u128>)] = &[
    ("no", 0, None),
    ("yes", 1, Some(1)),
    ("first", 1, None),
    ("later", 3, None),
    ("not_later", 0, Some(2)),
];

impl Field {
    /// Value and mask in the field's text format, `10.0.0.0/24`; hexadecimal if the format cannot express them.
    pub fn value_text(&self) -> String {
        let format = self.id.row().map(|row| row.format);
        format.and_then(|format| self.formatted(format)).unwrap_or_else(|| self.hex_text())
    }

    /// Value and mask as hexadecimal numbers.
    fn hex_text(&self) -> String {
        let digits = match self.id.row() {
            Some(row) if !row.is_variable() => 0,
            _ => usize::from(self.len) * 2,
        };
        let mask = self.mask.map(|mask| format!("/0x{mask:0digits$x}"));
        format!("0x{:0digits$x}{}", self.value, mask.unwrap_or_default())
    }

    /// Value and mask in `format`; `None` if it cannot express them.
    fn formatted(&self, format: FieldFormat) -> Option<String> {
        let (value, mask) = (self.value, self.mask);
        let with_mask = |value: String, mask: Option<String>| match mask {
            Some(mask) => format!("{value}/{mask}"),
            None => value,
        };
        match format {
            FieldFormat::Decimal if mask.is_none() => Some(value.to_string()),
            FieldFormat::Mac => {
                let mac = |n: u128| u64::try_from(n).map(|n| MacAddr::from_u64(n).to_string());
                Some(with_mask(mac(value).ok()?, mask.map(mac).transpose().ok()?))
            }
            FieldFormat::Ipv4 => {
                let ip = |n: u128| u32::try_from(n).map(|n| Ipv4Addr::from(n).to_string());
                let mask_text = |mask: u128| match prefix_len(mask, 32) {
                    Some(bits) => Ok(bits.to_string()),
                    None => ip(mask),
                };
                Some(with_mask(ip(value).ok()?, mask.map(mask_text).transpose().ok()?))
            }
            FieldFormat::Ipv6 => {
                let ip = |n| Ipv6Addr::from_bits(n).to_string();
                let mask_text =
                    |m| prefix_len(m, 128).map_or_else(|| ip(m), |bits| bits.to_string());
                Some(with_mask(ip(value), mask.map(mask_text)))
            }
            FieldFormat::Port if mask.is_none() => Some(self.port_text()),
            FieldFormat::Vlan => match (value, mask) {
                (0, None) => Some("none".into()),
                (VID_PRESENT, Some(VID_PRESENT)) => Some("any".into()),
                (vid, None) if vid & !0xfff == VID_PRESENT => Some((vid & 0xfff).to_string()),
                _ => None,
            },
            FieldFormat::Flags(names) => self.flags_text(names),
            FieldFormat::PacketType if mask.is_none() => {
                Some(format!("({},{:#x})", value >> 16, value & 0xffff))
            }
            FieldFormat::Frag => {
                let row = FRAG_NAMES.iter().find(|row| row.1 == value && row.2 == mask);
                row.map(|row| row.0.into())
            }
            FieldFormat::Decimal
            | FieldFormat::Hex
            | FieldFormat::Port
            | FieldFormat::PacketType => None,
        }
    }

    /// The name of a reserved port, otherwise the number.
    fn port_text(&self) -> String {
        let port = match self.len {
            2 => u16::try_from(self.value).map(PortNo::from_u16).ok(),
            _ => u32::try_from(self.value).map(PortNo).ok(),
        };
        let name = PortNo::NAMES.iter().find(|row| Some(row.0) == port);
        name.map_or_else(|| self.value.to_string(), |row| row.1.into())
    }

    /// `+syn-ack` with a mask, `syn|ack` without; `None` if a bit has no name.
    fn flags_text(&self, names: &[(&str, u32)]) -> Option<String> {
        let all = names.iter().fold(0, |all, row| all | u128::from(row.1));
        let mask = self.mask.unwrap_or(self.value);
        if (mask | self.value) & !all != 0 || self.value & !mask != 0 {
            return None;
        }
        let matched = names.iter().filter(|row| mask & u128::from(row.1) != 0);
        if self.mask.is_none() {
            let set: Vec<_> = matched.map(|row| row.0).collect();
            return Some(if set.is_empty() { "0".into() } else { set.join("|") });
        }
        let sign = |bit: u32| if self.value & u128::from(bit) == 0 { "-" } else { "+" };
        let text = matched.fold(String::new(), |text, row| text + sign(row.1) + row.0);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Parses a value of the field `id` with an optional mask: the format of [`value_text`](Self::value_text), or numbers.
    ///
    /// # Errors
    /// Text that is not a value of the field, and values that do not fit into the field or into 16 bytes.
    pub fn from_text(id: FieldId, text: &str) -> Result<Self, ValueError> {
        let field = Self::new(id, 0);
        let parsed = match id.row() {
            Some(row) if row.is_variable() => parse_variable(id, text),
            Some(row) => parse_formatted(field, row.format, text),
            None => parse_numbers(field, text),
        };
        let field = parsed.ok_or_else(|| invalid_value(id, text))?;
        if (field.value | field.mask.unwrap_or_default()) & !field.value_bits() != 0 {
            let (name, bytes) = (id.name(), field.len);
            return Err(ValueError::new(format!(
                "`{text}` does not fit into the {bytes} bytes of {name}"
            )));
        }
        Ok(field)
    }
}

fn invalid_value(id: FieldId, text: &str) -> ValueError {
    ValueError::new(format!("invalid value `{text}` for {}", id.name()))
}

fn unknown_field(name: &str) -> ValueError {
    ValueError::new(format!("unknown field `{name}`"))
}

/// Prefix length of a mask for addresses of `width` bits; `None` if it is 0 or the mask is not a prefix.
fn prefix_len(mask: u128, width: u32) -> Option<u32> {
    let ones = mask.count_ones();
    (ones > 0 && ones <= width && prefix_mask(ones, width) == Some(mask)).then_some(ones)
}

/// Mask of a prefix of `ones` bits for addresses of `width` bits.
fn prefix_mask(ones: u32, width: u32) -> Option<u128> {
    let all = u128::MAX >> (128 - width);
    let zeros = width.checked_sub(ones)?;
    Some(all & all.checked_shl(zeros).unwrap_or(0))
}

/// Parses a decimal number, or a hexadecimal number with `0x`.
fn parse_integer(text: &str) -> Option<u128> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u128::from_str_radix(digits, 16).ok(),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// Parses a value, and a mask after a slash.
fn parse_with_mask(
    field: Field,
    text: &str,
    parse_value: impl Fn(&str) -> Option<u128>,
    parse_mask: impl Fn(&str) -> Option<u128>,
) -> Option<Field> {
    match text.split_once('/') {
        Some((value, mask)) => {
            Some(Field { value: parse_value(value)?, mask: Some(parse_mask(mask)?), ..field })
        }
        None => Some(Field { value: parse_value(text)?, mask: None, ..field }),
    }
}

fn parse_numbers(field: Field, text: &str) -> Option<Field> {
    parse_with_mask(field, text, parse_integer, parse_integer)
}

/// Parses a value of variable length; two hex digits are one byte.
fn parse_variable(id: FieldId, text: &str) -> Option<Field> {
    let Oxm::Field(field) = parse_bytes(id, text).ok()? else { return None };
    Some(field)
}

/// Parses value and mask in `format`.
fn parse_formatted(field: Field, format: FieldFormat, text: &str) -> Option<Field> {
    match format {
        FieldFormat::Decimal | FieldFormat::Hex => parse_numbers(field, text),
        FieldFormat::Mac => {
            let mac = |text: &str| match MacAddr::from_text(text) {
                Some(mac) => Some(mac.to_u64().into()),
                None => parse_integer(text).filter(|_| text.starts_with("0x")),
            };
            parse_with_mask(field, text, mac, mac)
        }
        FieldFormat::Ipv4 => {
            let ip = |text: &str| match text.parse::<Ipv4Addr>() {
                Ok(ip) => Some(u32::from(ip).into()),
                Err(_) => parse_integer(text).filter(|_| text.starts_with("0x")),
            };
            let prefix = |text: &str| text.parse().ok().and_then(|ones| prefix_mask(ones, 32));
            parse_with_mask(field, text, ip, |text| prefix(text).or_else(|| ip(text)))
        }
        FieldFormat::Ipv6 => {
            let ip = |text: &str| match text.parse::<Ipv6Addr>() {
                Ok(ip) => Some(ip.to_bits()),
                Err(_) => parse_integer(text).filter(|_| text.starts_with("0x")),
            };
            let prefix = |text: &str| text.parse().ok().and_then(|ones| prefix_mask(ones, 128));
            parse_with_mask(field, text, ip, |text| prefix(text).or_else(|| ip(text)))
        }
        FieldFormat::Port => {
            match PortNo::NAMES.iter().find(|row| row.1.eq_ignore_ascii_case(text)) {
                Some((port, _)) if field.len == 2 => {
                    Some(Field { value: port.to_u16().ok()?.into(), ..field })
                }
                Some((port, _)) => Some(Field { value: port.0.into(), ..field }),
                None => parse_numbers(field, text),
            }
        }
        FieldFormat::Vlan => match text {
            "none" => Some(field),
            "any" => Some(Field { value: VID_PRESENT, ..field }.masked(VID_PRESENT)),
            _ if text.starts_with("0x") => parse_numbers(field, text),
            _ => {
                let vid = text.parse::<u16>().ok().filter(|vid| *vid <= 0xfff)?;
                Some(Field { value: VID_PRESENT | u128::from(vid), ..field })
            }
        },
        FieldFormat::Flags(names) => {
            parse_flags(field, names, text).or_else(|| parse_numbers(field, text))
        }
        FieldFormat::PacketType => {
            let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            let Some((namespace, kind)) = inner.and_then(|text| text.split_once(',')) else {
                return parse_numbers(field, text);
            };
            let half = |text: &str| parse_integer(text.trim()).filter(|n| *n <= 0xffff);
            Some(Field { value: half(namespace)? << 16 | half(kind)?, ..field })
        }
        FieldFormat::Frag => match FRAG_NAMES.iter().find(|row| row.0 == text) {
            Some((_, value, mask)) => Some(Field { value: *value, mask: *mask, ..field }),
            None => parse_numbers(field, text),
        },
    }
}

/// Parses `+syn-ack` or `syn|ack`.
fn parse_flags(field: Field, names: &[(&str, u32)], text: &str) -> Option<Field> {
    let bit = |name: &str| names.iter().find(|row| row.0 == name).map(|row| u128::from(row.1));
    if !text.starts_with(['+', '-']) {
        let set = text.split('|').try_fold(0, |set, name| Some(set | bit(name.trim())?))?;
        return Some(Field { value: set, ..field });
    }
    let (mut rest, mut value, mut mask) = (text, 0, 0);
    while let Some(sign) = rest.chars().next() {
        let name = rest.get(1..)?;
        let end = name.find(['+', '-']).unwrap_or(name.len());
        let flag = bit(name.get(..end)?)?;
        mask |= flag;
        value |= if sign == '+' { flag } else { 0 };
        rest = name.get(end..)?;
    }
    Some(Field { value, ..field }.masked(mask))
}

/// Parses bytes in hex, with or without `0x`, and a mask after a slash.
fn parse_bytes(id: FieldId, text: &str) -> Result<Oxm, ValueError> {
    let bytes = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        unhex(&if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.into() })
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (bytes(value)?, Some(bytes(mask)?)),
        None => (bytes(text)?, None),
    };
    if mask.as_ref().is_some_and(|mask| mask.len() != value.len()) {
        return Err(ValueError::new(format!("value and mask of `{text}` differ in length")));
    }
    let to_number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u128::from(byte));
    let is_variable = id.row().is_some_and(FieldRow::is_variable);
    if value.is_empty() && is_variable {
        return Err(invalid_value(id, text));
    }
    match u8::try_from(value.len()) {
        Ok(len @ 1..=16) if is_variable => Ok(Oxm::Field(Field {
            id,
            len,
            value: to_number(&value),
            mask: mask.as_deref().map(to_number),
        })),
        _ => Ok(Oxm::Wide { id, value, mask }),
    }
}

impl Oxm {
    /// Name of the field in text and in the neutral form, see [`FieldId::name`].
    pub fn name(&self) -> String {
        match self {
            Self::Field(field) => field.id.name().into_owned(),
            Self::Wide { id, .. } if id.row().is_some_and(FieldRow::is_variable) => {
                id.name().into_owned()
            }
            Self::Wide { id, .. } => id.numeric_name(),
        }
    }

    /// Value and mask in the field's text format; hexadecimal bytes if the field is longer than 16 bytes or unknown.
    pub fn value_text(&self) -> String {
        match self {
            Self::Field(field) => field.value_text(),
            Self::Wide { value, mask, .. } => {
                let mask = mask.as_ref().map(|mask| format!("/0x{}", hex(mask)));
                format!("0x{}{}", hex(value), mask.unwrap_or_default())
            }
        }
    }

    /// Parses a field from one of its [names](FieldId::from_name) and the text of its value.
    ///
    /// # Errors
    /// Unknown names and invalid values.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ValueError> {
        if let Some(id) = FieldId::from_numeric_name(name) {
            let (value, mask) = match parse_bytes(id, text)? {
                Self::Wide { value, mask, .. } => (value, mask),
                // A short value of a field of variable length, by its numeric name.
                field @ Self::Field(_) => return Ok(field),
            };
            return Ok(Self::Wide { id, value, mask });
        }
        let id = FieldId::from_name(name).ok_or_else(|| unknown_field(name))?;
        match id.row() {
            Some(row) if row.is_variable() => parse_bytes(id, text),
            _ => Field::from_text(id, text).map(Self::Field),
        }
    }

    /// Neutral form of value and mask, without the name.
    fn neutral_value(&self) -> Value {
        let text = self.value_text();
        let n: Option<u64> = text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
        n.map_or(Value::Text(text), super::value::number_to_value)
    }

    fn from_neutral_value(name: &str, value: &Value) -> Result<Self, ValueError> {
        let parsed = match value {
            Value::Number(n) => Self::from_text(name, &n.to_string()),
            value => expect_text(value).and_then(|text| Self::from_text(name, text)),
        };
        parsed.map_err(|e| e.under(name))
    }
}

/// Neutral form: a map with one entry, the name and the value.
impl NeutralForm for Oxm {
    fn to_value(&self, _: Version) -> Value {
        Value::Map(vec![(self.name().into(), self.neutral_value())])
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        match value {
            Value::Map(entries) => match entries.as_slice() {
                [(name, value)] => Self::from_neutral_value(name, value),
                more => Err(ValueError::new(format!("expected one field, found {}", more.len()))),
            },
            other => Err(ValueError::new(format!("expected an object, found {}", other.kind()))),
        }
    }
}

impl NeutralForm for Match {
    fn to_value(&self, _: Version) -> Value {
        let entry = |oxm: &Oxm| (oxm.name().into(), oxm.neutral_value());
        Value::Map(self.fields.iter().map(entry).collect())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let Value::Map(entries) = value else {
            return Err(ValueError::new(format!("expected an object, found {}", value.kind())));
        };
        let fields = entries.iter().map(|(name, value)| Oxm::from_neutral_value(name, value));
        Ok(Self { fields: fields.collect::<Result<_, _>>()? })
    }
}

/// Neutral form: the name.
impl NeutralForm for FieldId {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.name().into_owned())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let name = expect_text(value)?;
        let id = Self::from_name(name).or_else(|| Self::from_numeric_name(name));
        id.ok_or_else(|| unknown_field(name))
    }
}

/// Neutral form: the name, followed by `/mask` if the mask bit is set. If the length differs from the field's, a map of
/// `field`, `masked` and `len`.
impl NeutralForm for FieldHeader {
    fn to_value(&self, version: Version) -> Value {
        if *self == Self::from(self.id) {
            return self.id.to_value(version);
        }
        if *self == Self::with_mask(self.id) {
            return Value::Text(format!("{}/mask", self.id.name()));
        }
        Value::Map(vec![
            ("field".into(), self.id.to_value(version)),
            ("masked".into(), Value::Bool(self.masked)),
            ("len".into(), Value::Number(self.len.into())),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let Value::Text(text) = value else {
            let mut entries = Entries::of(value)?;
            let id: Option<FieldId> = entries.read("field", version)?;
            let masked = entries.read("masked", version)?.unwrap_or_default();
            let len = entries.take("len").map(expect_number).transpose()?;
            entries.finish()?;
            let mut header = Self::from(id.ok_or_else(|| ValueError::new("missing `field`"))?);
            let too_long = |_| ValueError::new("is over 255").under("len");
            if let Some(len) = len {
                header.len = u8::try_from(len).map_err(too_long)?;
            }
            return Ok(Self { masked, ..header });
        };
        let field = |name: &str| FieldId::from_value(&Value::text(name), version);
        match text.strip_suffix("/mask") {
            Some(name) => field(name).map(Self::with_mask),
            None => field(text).map(Self::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, text: &str) -> Field {
        let Ok(Oxm::Field(field)) = Oxm::from_text(name, text) else { panic!("{name}={text}") };
        field
    }

    #[test]
    fn values_are_parsed_from_several_formats_and_printed_in_one() {
        for (name, input, printed) in [
            ("dl_dst", "2:0:0:0:0:1", "02:00:00:00:00:01"),
            ("nw_src", "10.0.0.0/255.255.255.0", "10.0.0.0/24"),
            ("nw_src", "10.0.0.0/0xffffff00", "10.0.0.0/24"),
            ("nw_src", "10.0.0.1/255.0.0.255", "10.0.0.1/255.0.0.255"),
            ("ipv6_src", "2001:db8:0::/ffff:ffff::", "2001:db8::/32"),
            ("ipv4_dst", "0.0.0.0/0.0.0.0", "0.0.0.0/0.0.0.0"),
            ("dl_vlan", "0x1007", "7"),
            ("dl_vlan", "0x7", "0x7"),
            ("dl_vlan", "7", "7"),
            ("vlan_vid", "0x1000/0x1000", "any"),
            ("in_port", "LOCAL", "local"),
            ("nxm_in_port", "65534", "local"),
            ("in_port", "0xfffffffe", "local"),
            ("tcp_flags", "18", "syn|ack"),
            ("tcp_flags", "-ack+syn", "+syn-ack"),
            ("tcp_flags", "0x800", "0x800"),
            ("tcp_flags", "0", "0"),
            ("ct_state", "0x21/0x3f", "+new-est-rel-rpl-inv+trk"),
            ("packet_type", "(1, 0x800)", "(1,0x800)"),
            ("packet_type", "0x10800", "(1,0x800)"),
            ("nw_frag", "1/1", "yes"),
            ("ip_proto", "0x6", "6"),
            ("NXM_OF_TCP_DST", "80", "80"),
            ("tun_metadata5", "0xabc", "0x0abc"),
        ] {
            assert_eq!(field(name, input).value_text(), printed, "{name}={input}");
        }
    }

    #[test]
    fn an_invalid_value_is_refused_with_the_name_of_the_field() {
        for (name, text, what) in [
            ("eth_dst", "02:00:00:00:00", "invalid value `02:00:00:00:00` for eth_dst"),
            ("eth_type", "65536", "`65536` does not fit into the 2 bytes of eth_type"),
            ("ipv4_src", "10.0.0.0/33", "invalid value `10.0.0.0/33` for ipv4_src"),
            ("vlan_vid", "4096", "invalid value `4096` for vlan_vid"),
            ("tcp_flags", "+syn+oops", "invalid value `+syn+oops` for tcp_flags"),
            ("ip_proto", "", "invalid value `` for ip_proto"),
            ("ip_proto", "+6", "invalid value `+6` for ip_proto"),
            ("reg0", "0x", "invalid value `0x` for reg0"),
            ("no_such", "1", "unknown field `no_such`"),
            ("oxm_8000_200", "0x00", "unknown field `oxm_8000_200`"),
            ("oxm_8000_99", "0x00/0x0000", "value and mask of `0x00/0x0000` differ in length"),
            ("tun_metadata0", "0x", "invalid value `0x` for tun_metadata0"),
            ("nw_frag", "é", "invalid value `é` for nw_frag"),
            ("tcp_flags", "+é", "invalid value `+é` for tcp_flags"),
        ] {
            assert_eq!(Oxm::from_text(name, text).unwrap_err().what, what);
        }
    }

    #[test]
    fn a_match_is_a_map_of_numbers_and_texts() {
        let it = Match::from([
            Field::in_port(PortNo(3)),
            Field::eth_type(0x800),
            Field::ip_proto(6),
            Field::ipv4_src([10, 0, 0, 0].into()).masked(0xff00_0000),
        ]);
        let value = Value::Map(vec![
            ("in_port".into(), Value::Number(3)),
            ("eth_type".into(), Value::text("0x800")),
            ("ip_proto".into(), Value::Number(6)),
            ("ipv4_src".into(), Value::text("10.0.0.0/8")),
        ]);
        assert_eq!(it.to_value(Version::V1_3), value);
        assert_eq!(Match::from_value(&value, Version::V1_3), Ok(it));
        let wrong = Value::Map(vec![("ip_proto".into(), Value::Null)]);
        let error = Match::from_value(&wrong, Version::V1_3).unwrap_err();
        assert_eq!(error.to_string(), "ip_proto: expected a text, found null");
    }

    #[test]
    fn every_value_of_every_field_survives_a_roundtrip_through_text() {
        // A linear congruential sequence: the same values every time.
        let mut state = 0x5eed_u128;
        let mut next = || {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(0x1405_7b7e_f767_814f);
            state ^ state >> 67
        };
        for row in FieldId::ROWS {
            for round in 0..200 {
                let field = Field::new(row.id, 0);
                let len = if row.is_variable() { round % 16 + 1 } else { field.len };
                let all_bits = Field { len, ..field }.value_bits();
                let shift = next() % 128;
                let value = if next() % 4 == 0 { next() & 3 } else { next() >> shift & all_bits };
                let mask = match next() % 4 {
                    0 => None,
                    1 => Some(all_bits & all_bits << (next() % 128)),
                    2 => Some(field.significant_bits() & all_bits),
                    _ => Some(next() & all_bits),
                };
                let value = value & mask.unwrap_or(all_bits);
                let field = Field { len, value, mask, ..field };
                let text = field.value_text();
                assert_eq!(Field::from_text(row.id, &text), Ok(field), "{}={text}", row.name);
                let oxm = Oxm::Field(field);
                let plain = oxm.to_value(Version::V1_5);
                assert_eq!(Oxm::from_value(&plain, Version::V1_5), Ok(oxm), "{plain:?}");
            }
        }
    }
}
