//! A range of bits within a field, as Nicira's actions use it.

use core::fmt;

use super::codec::Codec;
use super::reader::Reader;
use super::value::{NeutralForm, Value, ValueError, expect_text};
use crate::{EncodeError, Encoder, Result, Version};

/// Bits of a field, of which the lowest is bit 0. As text `[first..last]`, or `[bit]` for one bit.
///
/// Encoded as `ofs_nbits`: offset in the upper ten bits, number of bits less one in the lower six.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitRange {
    /// 0 to 1023.
    offset: u16,
    /// 1 to 64.
    n_bits: u16,
}

/// Bit 0 alone.
impl Default for BitRange {
    fn default() -> Self {
        Self { offset: 0, n_bits: 1 }
    }
}

impl BitRange {
    /// `n_bits` bits from bit `offset` on; `None` if that cannot be encoded: `offset` is 0 to 1023, `n_bits` 1 to 64.
    pub const fn new(offset: u16, n_bits: u16) -> Option<Self> {
        match (offset, n_bits) {
            (0..=0x3ff, 1..=0x40) => Some(Self { offset, n_bits }),
            _ => None,
        }
    }

    /// First bit, 0 to 1023.
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// Number of bits, 1 to 64.
    pub const fn n_bits(self) -> u16 {
        self.n_bits
    }

    /// A number with as many low bits set as the range has.
    pub(crate) fn low_bits(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.n_bits))
    }

    /// Parses `[first..last]` or `[bit]`; `None` if that is no range that can be encoded.
    pub fn from_text(text: &str) -> Option<Self> {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        let (from, to) = inside.split_once("..").unwrap_or((inside, inside));
        let (offset, last): (u16, u16) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        let n_bits = last.checked_sub(offset)?.checked_add(1)?;
        Self::new(offset, n_bits)
    }

    /// The value of `ofs_nbits`.
    const fn to_wire(self) -> u16 {
        self.offset << 6 | (self.n_bits - 1)
    }

    const fn from_wire(ofs_nbits: u16) -> Self {
        Self { offset: ofs_nbits >> 6, n_bits: (ofs_nbits & 0x3f) + 1 }
    }
}

impl fmt::Display for BitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, n_bits } = *self;
        match n_bits {
            1 => write!(f, "[{offset}]"),
            _ => write!(f, "[{offset}..{}]", u32::from(offset) + u32::from(n_bits) - 1),
        }
    }
}

impl Codec for BitRange {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        r.u16("ofs_nbits").map(Self::from_wire)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.to_wire().encode(out)
    }
}

/// Neutral form: text, `[first..last]`.
impl NeutralForm for BitRange {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let text = expect_text(value)?;
        Self::from_text(text).ok_or_else(|| {
            ValueError::new(format!("invalid bit range `{text}` (expected `[0..7]`)"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoded_range_survives_a_roundtrip_through_text() {
        for wire in 0..=u16::MAX {
            let range = BitRange::from_wire(wire);
            assert_eq!(range.to_wire(), wire);
            assert_eq!(BitRange::new(range.offset(), range.n_bits()), Some(range));
            assert_eq!(BitRange::from_text(&range.to_string()), Some(range));
        }
        assert_eq!(BitRange::from_wire(0x0145).to_string(), "[5..10]");
        assert_eq!(BitRange::new(3, 1).unwrap().to_string(), "[3]");
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for text in ["", "[", "[]", "[5..4]", "[0..64]", "[1024]", "[a]", "0..5"] {
            assert_eq!(BitRange::from_text(text), None, "{text}");
        }
        for (offset, n_bits) in [(1024, 1), (0, 0), (0, 65), (u16::MAX, u16::MAX)] {
            assert_eq!(BitRange::new(offset, n_bits), None, "{offset} {n_bits}");
        }
    }
}
