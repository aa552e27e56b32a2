//! Names of numbers and flags: which versions have them, and their numbers on the wire there.

use super::value::{
    Value, ValueError, code_from_value, code_to_value, flags_from_value, flags_to_value,
};
use crate::{EncodeError, Expected, Version};

/// A named number or flag, and its number on the wire in each version that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedRow {
    /// Value in the model, the same in all versions.
    pub(crate) value: u128,
    /// Name in the specification.
    pub(crate) name: &'static str,
    /// Path of the constant, for errors.
    pub(crate) constant: &'static str,
    /// First version, last version, and the number on the wire in these.
    pub(crate) wire: &'static [(Version, Version, u128)],
}

impl NamedRow {
    /// The number on the wire in `version`; `None` if the version does not have the row.
    pub(crate) const fn in_version(&self, version: Version) -> Option<u128> {
        let mut rest = self.wire;
        while let [(first, last, number), after @ ..] = rest {
            if first.0 <= version.0 && version.0 <= last.0 {
                return Some(*number);
            }
            rest = after;
        }
        None
    }
}

/// The named numbers or flags of an open set.
///
/// Values of the model mean the same in all versions. Numbers and bits on the wire that no version defines have the same
/// value in the model. Those that the version of the message does not define, while another version does, get a value
/// that no name has: a number is increased by 2 to the power of `wire_bits`, and bits are shifted left by as many. So
/// they are encoded as they were parsed, but do not pass for what they mean elsewhere.
///
/// A value can be encoded if parsing would return it. Anything else is refused by name: rows that the version does not have,
/// and numbers that were undefined in the version of their message but are defined in this one.
#[derive(Debug)]
pub(crate) struct NameTable {
    /// Description of a value without a name, for errors.
    pub(crate) unknown: &'static str,
    /// All rows.
    pub(crate) rows: &'static [NamedRow],
    /// Whether the values are sets of bits, not numbers.
    pub(crate) is_flags: bool,
    /// Bits of a value on the wire.
    pub(crate) wire_bits: u32,
    /// Bits of a value in the model: as many if all versions in which the type occurs have all rows.
    pub(crate) bits: u32,
}

impl NameTable {
    /// Whether everything is encoded as itself in every version.
    pub(crate) const fn is_identity(&self) -> bool {
        let mut version = Version::V1_0;
        while version.0 <= Version::V1_5.0 {
            let is_same = if self.is_flags {
                self.same_bits_in(version) == self.wire_mask()
            } else {
                let (first, last) = self.different_numbers_in(version);
                first > last
            };
            if !is_same {
                return false;
            }
            version = Version(version.0 + 1);
        }
        self.bits == self.wire_bits
    }

    /// The lowest and the highest number that is not encoded as itself, in each version.
    ///
    /// If there is none, the lowest is above the highest.
    pub(crate) const fn different_numbers(&self) -> [(u128, u128); 6] {
        [
            self.different_numbers_in(Version::V1_0),
            self.different_numbers_in(Version::V1_1),
            self.different_numbers_in(Version::V1_2),
            self.different_numbers_in(Version::V1_3),
            self.different_numbers_in(Version::V1_4),
            self.different_numbers_in(Version::V1_5),
        ]
    }

    const fn different_numbers_in(&self, version: Version) -> (u128, u128) {
        let (mut different, mut rest) = ((u128::MAX, 0), self.rows);
        while let [row, after @ ..] = rest {
            match row.in_version(version) {
                Some(number) if number == row.value => {}
                Some(number) => different = including(including(different, number), row.value),
                None if self.has_as_itself(row.value, version) => {}
                None => different = including(different, row.value),
            }
            rest = after;
        }
        different
    }

    /// Whether a row of `version` has `value`, perhaps under another name, as its number too.
    const fn has_as_itself(&self, value: u128, version: Version) -> bool {
        let mut rest = self.rows;
        while let [row, after @ ..] = rest {
            if row.value == value && matches!(row.in_version(version), Some(it) if it == value) {
                return true;
            }
            rest = after;
        }
        false
    }

    /// The bits that are encoded as themselves, in each version.
    pub(crate) const fn same_bits(&self) -> [u128; 6] {
        [
            self.same_bits_in(Version::V1_0),
            self.same_bits_in(Version::V1_1),
            self.same_bits_in(Version::V1_2),
            self.same_bits_in(Version::V1_3),
            self.same_bits_in(Version::V1_4),
            self.same_bits_in(Version::V1_5),
        ]
    }

    const fn same_bits_in(&self, version: Version) -> u128 {
        let (mut same, mut others, mut rest) = (0, 0, self.rows);
        while let [row, after @ ..] = rest {
            match row.in_version(version) {
                Some(number) if number == row.value => same |= number,
                Some(number) => others |= number | row.value,
                None => others |= row.value,
            }
            rest = after;
        }
        (same | !others) & self.wire_mask()
    }

    /// The highest number on the wire.
    pub(crate) const fn wire_mask(&self) -> u128 {
        (1 << self.wire_bits) - 1
    }

    /// Parses the number or bits `n`.
    #[cold]
    pub(crate) fn parse(&self, n: u128, version: Version) -> u128 {
        if self.is_flags { self.parse_flags(n, version) } else { self.parse_code(n, version) }
    }

    fn parse_code(&self, n: u128, version: Version) -> u128 {
        if let Some(row) = self.rows.iter().find(|row| row.in_version(version) == Some(n)) {
            return row.value;
        }
        let is_defined_elsewhere = self.rows.iter().any(|row| row.value == n);
        n + if is_defined_elsewhere && self.bits > self.wire_bits { 1 << self.wire_bits } else { 0 }
    }

    fn parse_flags(&self, bits: u128, version: Version) -> u128 {
        let (mut value, mut defined) = (0, 0);
        for row in self.rows {
            match row.in_version(version) {
                Some(number) if number == row.value => {
                    value |= bits & number;
                    defined |= number;
                }
                Some(number) if bits & number == number => {
                    value |= row.value;
                    defined |= number;
                }
                _ => {}
            }
        }
        let named = self.rows.iter().fold(0, |bits, row| bits | row.value);
        let undefined = bits & !defined;
        let shift = if self.bits > self.wire_bits { self.wire_bits } else { 0 };
        value | undefined & !named | (undefined & named) << shift
    }

    /// The number or bits of `value` on the wire.
    ///
    /// # Errors
    /// Names a row that `version` does not have, or states the number that the version does not have room for.
    #[cold]
    pub(crate) fn encode(&self, value: u128, version: Version) -> Result<u128, EncodeError> {
        let number = if self.is_flags {
            self.encode_flags(value, version)?
        } else {
            self.encode_code(value, version)?
        };
        if number <= self.wire_mask() && self.parse(number, version) == value {
            return Ok(number);
        }
        let error = EncodeError::new(self.unknown, version, None);
        let low = u32::try_from(number & self.wire_mask()).ok();
        Err(low.map_or(error, |low| error.with_value(low, Expected::Unstated)))
    }

    fn encode_code(&self, value: u128, version: Version) -> Result<u128, EncodeError> {
        let mut named = self.rows.iter().filter(|row| row.value == value);
        match named.clone().find_map(|row| row.in_version(version)) {
            Some(number) => Ok(number),
            None => match named.next() {
                Some(row) => Err(self.unsupported(row, version)),
                None => Ok(value & self.wire_mask()),
            },
        }
    }

    fn encode_flags(&self, value: u128, version: Version) -> Result<u128, EncodeError> {
        let (mut bits, mut encoded) = (0, 0);
        for row in self.rows {
            match row.in_version(version) {
                Some(number) if number == row.value => {
                    bits |= value & number;
                    encoded |= number;
                }
                Some(number) if value & row.value == row.value => {
                    bits |= number;
                    encoded |= row.value;
                }
                _ => {}
            }
        }
        let left = value & !encoded;
        let is_whole = |row: &&NamedRow| value & row.value == row.value;
        let mut missing = self.rows.iter().filter(|row| left & row.value != 0);
        match missing.clone().find(is_whole).or_else(|| missing.next()) {
            Some(row) => Err(self.unsupported(row, version)),
            None => Ok(bits | left & self.wire_mask() | left >> self.wire_bits),
        }
    }

    /// The error that `version` does not have `row`, with the first later version that has its value.
    #[cold]
    fn unsupported(&self, row: &NamedRow, version: Version) -> EncodeError {
        super::codec::unsupported(row.constant, version, &|later| {
            let has = |it: &NamedRow| it.in_version(Version(later)).is_some();
            self.rows.iter().any(|it| it.value == row.value && has(it))
        })
    }

    /// Rows of `version` first, then all.
    fn preferring(&self, version: Version) -> impl Iterator<Item = (&'static str, u128)> + Clone {
        let here = self.rows.iter().filter(move |row| row.in_version(version).is_some());
        here.chain(self.rows).map(|row| (row.name, row.value))
    }

    /// Name of the number `value` in `version`, or else in another version.
    pub(crate) fn name_in(&self, value: u128, version: Version) -> Option<&'static str> {
        self.preferring(version).find(|row| row.1 == value).map(|row| row.0)
    }

    /// The neutral form: names, and numbers as on the wire of `version` if it has them.
    pub(crate) fn to_value(&self, value: u128, version: Version) -> Value {
        let number =
            |value| if version.known().is_ok() { self.encode(value, version) } else { Ok(value) };
        if self.is_flags {
            let rows = self.preferring(version);
            return flags_to_value(value, rows, |left| number(left).unwrap_or(left));
        }
        code_to_value(self.name_in(value, version), number(value).unwrap_or(value))
    }

    /// The value of a neutral form.
    ///
    /// # Errors
    /// A name that no row has, a number that is too large, or another kind of value.
    pub(crate) fn parse_value(&self, value: &Value, version: Version) -> Result<u128, ValueError> {
        let number = |n: u128| {
            let is_wire = n <= self.wire_mask() && version.known().is_ok();
            if is_wire { self.parse(n, version) } else { n }
        };
        let rows = self.preferring(version);
        let n = if self.is_flags {
            flags_from_value(value, &rows, number)?
        } else {
            code_from_value(value, rows, number)?
        };
        let max = if self.bits == u128::BITS { u128::MAX } else { (1 << self.bits) - 1 };
        if n > max {
            return Err(ValueError::new(format!("{n} is over {max}")));
        }
        Ok(n)
    }
}

/// The range from `first` to `last`, extended to `n`.
const fn including((first, last): (u128, u128), n: u128) -> (u128, u128) {
    (if n < first { n } else { first }, if n > last { n } else { last })
}

/// A type with a [`NameTable`].
pub(crate) trait Named: Copy {
    /// Names and versions.
    const TABLE: &'static NameTable;

    /// The value as a number.
    fn number(self) -> u128;

    /// The value of a number.
    fn from_number(n: u128) -> Self;
}
