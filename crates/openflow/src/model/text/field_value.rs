//! Values of match fields as text.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::token::{TextError, TextSpan};
use crate::model::field::FieldFormat;
use crate::{MacAddr, PortNo};

/// Values of `nw_frag`: name, value, mask. Bit 0 is set on every fragment, bit 1 on all but the first.
/// `ovs-fields(7)`.
const FRAGS: &[(&str, u128, u128)] =
    &[("no", 0, 3), ("yes", 1, 1), ("first", 1, 3), ("later", 3, 3), ("not_later", 0, 2)];

/// The lowest `bits` set, at most 128.
pub(crate) const fn ones(bits: u32) -> u128 {
    match u128::MAX.checked_shr(128_u32.saturating_sub(bits)) {
        Some(ones) => ones,
        None => 0,
    }
}

/// A number in hexadecimal; 0 without a prefix, as `ovs-ofctl` prints it.
pub(crate) fn hex(n: u128) -> String {
    if n == 0 { "0".into() } else { format!("{n:#x}") }
}

/// Parses a port name or number.
///
/// # Errors
/// Neither a name nor a number.
pub(crate) fn port(piece: TextSpan<'_>) -> Result<PortNo, TextError> {
    let text = piece.text().trim_matches('"');
    if let Some(row) = PortNo::NAMES.iter().find(|row| row.1.eq_ignore_ascii_case(text)) {
        return Ok(row.0);
    }
    if text.eq_ignore_ascii_case("none") {
        return Ok(PortNo::ANY);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(piece.error(format!("unknown port `{text}`")));
    }
    let n: u32 = piece.int()?;
    // 16-bit numbers of reserved ports are those of OpenFlow 1.0; real ports do not have them in practice.
    Ok(u16::try_from(n).map_or(PortNo(n), PortNo::from_u16))
}

/// Parses a value with an optional mask in `format`, for a field of `bits`. The returned mask is `None` if it covers all
/// bits.
///
/// # Errors
/// An invalid value, or one that does not fit.
pub(crate) fn parse(
    format: FieldFormat,
    bits: u32,
    piece: TextSpan<'_>,
) -> Result<(u128, Option<u128>), TextError> {
    let all_ones = ones(bits);
    let (value, mask) = match format {
        FieldFormat::Frag if piece.text().starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let row = FRAGS.iter().find(|row| row.0.eq_ignore_ascii_case(piece.text()));
            let row =
                row.ok_or_else(|| piece.error("expected no, yes, first, later or not_later"))?;
            (row.1, row.2)
        }
        FieldFormat::Flags(names) => flags(names, all_ones, piece)?,
        FieldFormat::PacketType => (packet_type(piece)?, all_ones),
        _ => match piece.split("/") {
            None => (parse_value(format, bits, piece)?, all_ones),
            Some((value, mask)) => {
                // With a mask, the number is a bit pattern, not a reserved port of OpenFlow 1.0.
                let format = if format == FieldFormat::Port { FieldFormat::Hex } else { format };
                (parse_value(format, bits, value)?, parse_mask(format, bits, mask)?)
            }
        },
    };
    Ok((value & mask, Some(mask).filter(|&mask| mask != all_ones)))
}

/// Parses a value without a mask.
fn parse_value(format: FieldFormat, bits: u32, piece: TextSpan<'_>) -> Result<u128, TextError> {
    let text = piece.text();
    match format {
        FieldFormat::Mac => MacAddr::from_text(text)
            .map(|addr| addr.to_u64().into())
            .ok_or_else(|| piece.error(format!("invalid MAC address `{text}`"))),
        FieldFormat::Ipv4 => text
            .parse()
            .map(|addr: Ipv4Addr| u32::from(addr).into())
            .map_err(|_| piece.error(format!("invalid IPv4 address `{text}`"))),
        FieldFormat::Ipv6 => text
            .parse()
            .map(|addr: Ipv6Addr| addr.into())
            .map_err(|_| piece.error(format!("invalid IPv6 address `{text}`"))),
        FieldFormat::Port => match port(piece)? {
            port if bits > u16::BITS => Ok(port.0.into()),
            port => port
                .to_u16()
                .map(u128::from)
                .map_err(|_| piece.error(format!("port {port} does not fit into {bits} bits"))),
        },
        _ => piece.number(ones(bits)),
    }
}

/// Parses a mask or, for addresses, a prefix length.
fn parse_mask(format: FieldFormat, bits: u32, piece: TextSpan<'_>) -> Result<u128, TextError> {
    let text = piece.text();
    if text == "-1" {
        return Ok(ones(bits));
    }
    let prefix = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if matches!(format, FieldFormat::Ipv4 | FieldFormat::Ipv6) && prefix {
        let len = u32::try_from(piece.number(bits.into())?).unwrap_or(bits);
        return Ok(ones(bits) & !ones(bits.saturating_sub(len)));
    }
    parse_value(format, bits, piece)
}

/// A value of a field of `bits` with its optional mask, as text.
pub(crate) fn print(format: FieldFormat, bits: u32, value: u128, mask: Option<u128>) -> String {
    let Some(mask) = mask.filter(|&mask| mask != ones(bits)) else {
        return print_value(format, bits, value);
    };
    match format {
        FieldFormat::Frag
            if let Some(row) = FRAGS.iter().find(|row| (row.1, row.2) == (value, mask)) =>
        {
            row.0.into()
        }
        FieldFormat::Flags(names) => print_flags(names, value, mask),
        FieldFormat::Mac => format!("{}/{}", mac(value), mac(mask)),
        FieldFormat::Ipv4 | FieldFormat::Ipv6 => {
            let zeros = mask.trailing_zeros().min(bits);
            let value = print_value(format, bits, value);
            if mask == ones(bits) & !ones(zeros) {
                return format!("{value}/{}", bits.saturating_sub(zeros));
            }
            format!("{value}/{}", print_value(format, bits, mask))
        }
        _ => format!("{}/{}", hex(value), hex(mask)),
    }
}

/// A value without a mask, as text.
fn print_value(format: FieldFormat, bits: u32, value: u128) -> String {
    let frag = |row: &&(&str, u128, u128)| (row.1, row.2) == (value, ones(bits));
    match format {
        FieldFormat::Frag if let Some(row) = FRAGS.iter().find(frag) => row.0.into(),
        FieldFormat::Decimal | FieldFormat::Frag | FieldFormat::Vlan => value.to_string(),
        FieldFormat::Hex => hex(value),
        FieldFormat::Mac => mac(value),
        FieldFormat::Ipv4 => Ipv4Addr::from(low32(value)).to_string(),
        FieldFormat::Ipv6 => Ipv6Addr::from(value).to_string(),
        FieldFormat::Port if bits <= u16::BITS => PortNo::from_u16(low16(value)).to_string(),
        // Without a mask these numbers would be parsed as reserved ports of OpenFlow 1.0.
        FieldFormat::Port if (0xff00..=0xffff).contains(&value) => {
            format!("{}/{}", hex(value), hex(ones(bits)))
        }
        FieldFormat::Port => PortNo(low32(value)).to_string(),
        FieldFormat::Flags(names) => {
            let set = names.iter().filter(|(_, bit)| value & u128::from(*bit) != 0);
            let mut words: Vec<_> = set.map(|(name, _)| (*name).to_owned()).collect();
            let rest = value & !named_bits(names);
            if rest != 0 || value == 0 {
                words.push(hex(rest));
            }
            words.join("|")
        }
        FieldFormat::PacketType => format!("({},{})", value >> 16, hex(value & 0xffff)),
    }
}

/// The bits that have names.
fn named_bits(names: &[(&str, u32)]) -> u128 {
    names.iter().fold(0, |bits, (_, bit)| bits | u128::from(*bit))
}

#[expect(clippy::cast_possible_truncation, reason = "takes the lowest 32 bits")]
const fn low32(n: u128) -> u32 {
    n as u32
}

#[expect(clippy::cast_possible_truncation, reason = "takes the lowest 16 bits")]
const fn low16(n: u128) -> u16 {
    n as u16
}

fn mac(n: u128) -> String {
    let low = n.to_be_bytes().last_chunk().copied();
    MacAddr(low.unwrap_or_default()).to_string()
}

/// Parses `+a-b`, `a|b` or `0x1/0x3` into value and mask.
fn flags(
    names: &[(&str, u32)],
    all_ones: u128,
    piece: TextSpan<'_>,
) -> Result<(u128, u128), TextError> {
    let text = piece.text();
    let bit = |word: TextSpan<'_>| {
        let row = names.iter().find(|row| row.0 == word.text());
        let all = || names.iter().map(|row| row.0).collect::<Vec<_>>().join(", ");
        let none = || word.error(format!("unknown flag `{}` (expected {})", word.text(), all()));
        row.map(|row| u128::from(row.1)).ok_or_else(none)
    };
    if text.starts_with(['+', '-']) {
        let (mut value, mut mask, mut left) = (0, 0, piece);
        while !left.is_empty() {
            let end = left
                .skip(1)
                .text()
                .find(['+', '-'])
                .map_or_else(|| left.text().len(), |end| end.saturating_add(1));
            let one = bit(left.sub(1, end))?;
            if mask & one != 0 {
                return Err(left.error("duplicate flag"));
            }
            mask |= one;
            value |= if left.text().starts_with('+') { one } else { 0 };
            left = left.skip(end);
        }
        return Ok((value, mask));
    }
    if let Some((value, mask)) = piece.split("/") {
        return Ok((value.number(all_ones)?, mask.number(all_ones)?));
    }
    let (mut value, mut left) = (0, Some(piece));
    while let Some(all) = left {
        let (word, rest) = all.split("|").map_or((all, None), |(word, rest)| (word, Some(rest)));
        let number = word.text().starts_with(|c: char| c.is_ascii_digit());
        value |= if number { word.number(all_ones)? } else { bit(word)? };
        left = rest;
    }
    Ok((value, all_ones))
}

fn print_flags(names: &[(&str, u32)], value: u128, mask: u128) -> String {
    if mask & !named_bits(names) != 0 || mask == 0 {
        return format!("{}/{}", hex(value), hex(mask));
    }
    let meant = names.iter().filter(|(_, bit)| mask & u128::from(*bit) != 0);
    let sign = |bit: &u32| if value & u128::from(*bit) != 0 { '+' } else { '-' };
    meant.map(|(name, bit)| sign(bit).to_string() + name).collect()
}

/// Parses `(1,0x800)` or a number.
fn packet_type(piece: TextSpan<'_>) -> Result<u128, TextError> {
    let Some(inside) = piece.strip("(") else { return piece.number(u32::MAX.into()) };
    let wrong = || piece.error("expected (namespace,type)");
    let (inside, behind) = inside.split(")").ok_or_else(wrong)?;
    if !behind.is_empty() {
        return Err(behind.error("unexpected text after the parenthesis"));
    }
    let (namespace, kind) = inside.split(",").ok_or_else(wrong)?;
    Ok(namespace.trim().number(0xffff)? << 16 | kind.trim().number(0xffff)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP_FLAGS: FieldFormat =
        FieldFormat::Flags(&[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16)]);
    const CT_STATE: FieldFormat = FieldFormat::Flags(&[
        ("new", 1),
        ("est", 2),
        ("rel", 4),
        ("rpl", 8),
        ("inv", 16),
        ("trk", 32),
    ]);

    fn read(
        format: FieldFormat,
        bits: u32,
        text: &str,
    ) -> Result<(u128, Option<u128>), (usize, String)> {
        parse(format, bits, TextSpan::of(text)).map_err(|e| (e.column, e.message))
    }

    #[test]
    fn values_survive_a_roundtrip_through_text() {
        for (format, bits, text) in [
            (FieldFormat::Decimal, 16, "80"),
            (FieldFormat::Decimal, 16, "0x50/0xfff0"),
            (FieldFormat::Hex, 32, "0xdead"),
            (FieldFormat::Hex, 32, "0"),
            (FieldFormat::Mac, 48, "02:00:00:00:00:01"),
            (FieldFormat::Mac, 48, "01:00:00:00:00:00/01:00:00:00:00:00"),
            (FieldFormat::Ipv4, 32, "10.1.2.3"),
            (FieldFormat::Ipv4, 32, "10.0.0.0/8"),
            (FieldFormat::Ipv4, 32, "10.0.0.1/255.0.0.255"),
            (FieldFormat::Ipv6, 128, "2001:db8::/32"),
            (FieldFormat::Ipv6, 128, "2001:db8::1"),
            (FieldFormat::Port, 32, "LOCAL"),
            (FieldFormat::Port, 32, "7"),
            (FieldFormat::Port, 32, "0xff05/0xffffffff"),
            (FieldFormat::Port, 32, "0xff05/0xffff"),
            (FieldFormat::Port, 16, "LOCAL"),
            (FieldFormat::Port, 16, "4294967040"),
            (FieldFormat::Frag, 2, "first"),
            (FieldFormat::Frag, 2, "not_later"),
            (FieldFormat::Frag, 2, "no"),
            (FieldFormat::Frag, 2, "0/0x1"),
            (TCP_FLAGS, 12, "+syn-ack"),
            (TCP_FLAGS, 12, "syn|ack"),
            (TCP_FLAGS, 12, "0"),
            (CT_STATE, 32, "+est-rel+trk"),
            (CT_STATE, 32, "new|trk"),
            (FieldFormat::PacketType, 32, "(1,0x800)"),
        ] {
            let (value, mask) = read(format, bits, text).unwrap();
            assert_eq!(print(format, bits, value, mask), text);
        }
    }

    #[test]
    fn value_bits_outside_the_mask_are_cleared() {
        assert_eq!(read(FieldFormat::Ipv4, 32, "10.1.2.3/8"), Ok((10 << 24, Some(0xff00_0000))));
        assert_eq!(read(FieldFormat::Ipv4, 32, "10.1.2.3/32"), Ok((0x0a01_0203, None)));
        assert_eq!(read(FieldFormat::Hex, 8, "5/-1"), Ok((5, None)));
        assert_eq!(read(FieldFormat::Hex, 8, "5/0"), Ok((0, Some(0))));
    }

    #[test]
    fn an_error_names_its_column() {
        assert_eq!(read(FieldFormat::Ipv4, 32, "10.0.0.0/33"), Err((10, "33 is over 32".into())));
        assert_eq!(read(FieldFormat::Mac, 48, "00:00").unwrap_err().0, 1);
        assert_eq!(read(TCP_FLAGS, 12, "+syn-xyz").unwrap_err().0, 6);
        assert_eq!(read(TCP_FLAGS, 12, "+syn-syn"), Err((5, "duplicate flag".into())));
        assert_eq!(read(TCP_FLAGS, 12, "syn|bad").unwrap_err().0, 5);
        assert_eq!(read(FieldFormat::PacketType, 32, "(1,x)").unwrap_err().0, 4);
        assert_eq!(read(FieldFormat::PacketType, 32, "(1,2)3").unwrap_err().0, 6);
        let beyond = "port 65536 does not fit into 16 bits".to_owned();
        assert_eq!(read(FieldFormat::Port, 16, "65536"), Err((1, beyond)));
    }

    #[test]
    fn ones_sets_the_lowest_bits() {
        let all = [0, 1, 127, 128, 992].map(ones);
        assert_eq!(all, [0, 1, u128::MAX >> 1, u128::MAX, u128::MAX]);
    }
}
