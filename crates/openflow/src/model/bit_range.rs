//! Which bits of a field are meant, as Nicira's actions say it.

use core::fmt;

use super::codec::Codec;
use super::reader::Reader;
use super::value::{Plain, Value, ValueError, text_of};
use crate::{EncodeError, Encoder, Result, Version};

/// Bits of a field, the lowest being bit 0: `[a..b]` as text, `[a]` if it is one.
///
/// On the wire `ofs_nbits`: offset in the upper ten of 16 bits, the number of bits less one below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitRange {
    /// The first bit, at most 1023.
    pub offset: u16,
    /// How many, 1 to 64.
    pub n_bits: u16,
}

/// Bit 0.
impl Default for BitRange {
    fn default() -> Self {
        Self { offset: 0, n_bits: 1 }
    }
}

impl BitRange {
    /// The first `n_bits` of a field.
    pub const fn first(n_bits: u16) -> Self {
        Self { offset: 0, n_bits }
    }

    /// Reads `[a..b]` or `[a]`.
    ///
    /// Bits that no range on the wire can have are none.
    pub fn from_text(text: &str) -> Option<Self> {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        let (from, to) = inside.split_once("..").unwrap_or((inside, inside));
        let (offset, last): (u16, u16) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        let n_bits = last.checked_sub(offset)?.checked_add(1)?;
        Some(Self { offset, n_bits }).filter(|range| range.to_wire().is_some())
    }

    /// `ofs_nbits`, `None` if it does not fit there.
    const fn to_wire(self) -> Option<u16> {
        match self {
            Self { offset: 0..=0x3ff, n_bits: 1..=0x40 } => {
                Some(self.offset << 6 | (self.n_bits - 1))
            }
            _ => None,
        }
    }

    const fn from_wire(ofs_nbits: u16) -> Self {
        Self { offset: ofs_nbits >> 6, n_bits: (ofs_nbits & 0x3f) + 1 }
    }
}

impl fmt::Display for BitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, n_bits } = *self;
        match n_bits {
            0 | 1 => write!(f, "[{offset}]"),
            _ => write!(f, "[{offset}..{}]", u32::from(offset) + u32::from(n_bits) - 1),
        }
    }
}

impl Codec for BitRange {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        r.u16("ofs_nbits").map(Self::from_wire)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let version = out.version();
        let wire = self.to_wire();
        wire.ok_or(EncodeError { what: "range of bits", version, needs: None })?.encode(out)
    }
}

/// As text, `[a..b]`.
impl Plain for BitRange {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let text = text_of(value)?;
        Self::from_text(text)
            .ok_or_else(|| ValueError::new(format!("`{text}` is no range of bits")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_on_the_wire_has_a_text_and_comes_back() {
        for wire in 0..=u16::MAX {
            let range = BitRange::from_wire(wire);
            assert_eq!(range.to_wire(), Some(wire));
            assert_eq!(BitRange::from_text(&range.to_string()), Some(range));
        }
        assert_eq!(BitRange::from_wire(0x0145).to_string(), "[5..10]");
        assert_eq!(BitRange { offset: 3, n_bits: 1 }.to_string(), "[3]");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "[", "[]", "[5..4]", "[0..64]", "[1024]", "[a]", "0..5"] {
            assert_eq!(BitRange::from_text(text), None, "{text}");
        }
        assert_eq!(BitRange { offset: 1024, n_bits: 1 }.to_wire(), None);
        assert_eq!(BitRange { offset: 0, n_bits: 0 }.to_wire(), None);
    }
}
