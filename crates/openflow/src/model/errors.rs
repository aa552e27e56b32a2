//! Error types and codes of all versions, and those of Nicira and the ONF, by name. §7.4.4.

use core::fmt;

use super::codec::versions::*;
use super::codec::{NICIRA, ONF, unsupported};
use super::rows::codes;
use crate::{EncodeError, ErrorContext, ParseError, Version};

codes! {
    /// `OFPET_*`: type of an error, numbered as in OpenFlow 1.1 and later. §7.4.4.
    pub struct ErrorType(u32 as u16);
    HELLO_FAILED = 0, V1_0, "Version negotiation failed.";
    BAD_REQUEST = 1, V1_0, "The request was not understood.";
    BAD_ACTION = 2, V1_0, "Error in an action.";
    BAD_INSTRUCTION = 3, V1_1, "Error in an instruction.";
    BAD_MATCH = 4, V1_1, "Error in a match.";
    FLOW_MOD_FAILED = 5, V1_0..=V1_0 => 3 | V1_1, "Modifying flow entries failed.";
    GROUP_MOD_FAILED = 6, V1_1, "Modifying a group failed.";
    PORT_MOD_FAILED = 7, V1_0..=V1_0 => 4 | V1_1, "Configuring a port failed.";
    TABLE_MOD_FAILED = 8, V1_1, "Configuring a table failed.";
    QUEUE_OP_FAILED = 9, V1_0..=V1_0 => 5 | V1_1, "A queue operation failed.";
    SWITCH_CONFIG_FAILED = 10, V1_1, "Configuring the switch failed.";
    ROLE_REQUEST_FAILED = 11, V1_2, "A role request failed.";
    METER_MOD_FAILED = 12, V1_3, "Modifying a meter failed.";
    TABLE_FEATURES_FAILED = 13, V1_3, "Setting table features failed.";
    BAD_PROPERTY = 14, V1_4, "Error in a property.";
    ASYNC_CONFIG_FAILED = 15, V1_4, "The asynchronous configuration failed.";
    FLOW_MONITOR_FAILED = 16, V1_4, "Setting a flow monitor failed.";
    BUNDLE_FAILED = 17, V1_4, "A bundle operation failed.";
    EXPERIMENTER = 0xffff, V1_2, "Experimenter error.";
}

/// Added to codes that the version of the message does not define, while another version does.
const UNDEFINED: u32 = 0x1_0000;

/// The lower 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
const fn low(n: u32) -> u16 {
    n as u16
}

/// Code of an error within its [`ErrorType`]; [`ErrorRow`]s have the names. An open set.
///
/// Codes are numbered as in the newest version that has them. Numbers from 65536 on are codes that the version of the message
/// does not define, while another version does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub u32);

/// What went wrong, independent of the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReason {
    /// An error of the specification.
    Standard {
        /// Type.
        kind: ErrorType,
        /// Code.
        code: ErrorCode,
    },
    /// An experimenter error. Since 1.2; Nicira's can be encoded in 1.0 and 1.1 too.
    Experimenter {
        /// Experimenter ID.
        experimenter: u32,
        /// Experimenter-defined type.
        exp_type: u16,
    },
    /// A vendor error of 1.0 or 1.1, in Nicira's encoding, without a row of its own.
    Vendor {
        /// Vendor ID.
        vendor: u32,
        /// Vendor-defined type.
        kind: u16,
        /// Vendor-defined code.
        code: u16,
    },
}

impl Default for ErrorReason {
    fn default() -> Self {
        Self::Standard { kind: ErrorType::default(), code: ErrorCode::default() }
    }
}

/// Numbers of an [`ErrorReason`] in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorNumbers {
    /// Type and code.
    Standard(u16, u16),
    /// Vendor ID, type and code of an `NXVC_VENDOR_ERROR`; 1.0 and 1.1 only.
    Vendor(u32, u16, u16),
    /// Experimenter ID and type; since 1.2.
    Experimenter(u32, u16),
}

/// An error: its name, and its numbers in every version.
#[derive(Debug, Clone, Copy)]
pub struct ErrorRow {
    /// The error.
    pub reason: ErrorReason,
    /// Name in the newest version that has it, without the prefix of its type.
    pub name: &'static str,
    old_name: fn(u8) -> Option<&'static str>,
    numbers: fn(u8) -> Option<ErrorNumbers>,
}

impl ErrorRow {
    /// All errors with a name.
    pub const fn all() -> &'static [Self] {
        super::error_table::ROWS
    }

    /// The row of `reason`.
    pub fn by_reason(reason: ErrorReason) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.reason == reason)
    }

    /// The row with these numbers in `version`.
    pub fn by_numbers(numbers: ErrorNumbers, version: Version) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.numbers(version) == Some(numbers))
    }

    /// The row of type `kind` with the given name in `version` or in a later one; case-insensitive.
    pub fn by_name(kind: ErrorType, name: &str, version: Version) -> Option<&'static Self> {
        let mut rows = Self::all().iter().filter(|row| row.reason.kind() == kind);
        rows.find(|row| {
            [row.name, row.name_in(version)].iter().any(|n| n.eq_ignore_ascii_case(name))
        })
    }

    /// The numbers in `version`; `None` if the version does not have the error.
    pub fn numbers(&self, version: Version) -> Option<ErrorNumbers> {
        (self.numbers)(version.0)
    }

    /// The name in `version`.
    pub fn name_in(&self, version: Version) -> &'static str {
        (self.old_name)(version.0).unwrap_or(self.name)
    }

    pub(super) const fn new(
        reason: ErrorReason,
        name: &'static str,
        old_name: fn(u8) -> Option<&'static str>,
        numbers: fn(u8) -> Option<ErrorNumbers>,
    ) -> Self {
        Self { reason, name, old_name, numbers }
    }
}

impl ErrorReason {
    /// No common version.
    pub const INCOMPATIBLE: Self = Self::standard(ErrorType::HELLO_FAILED, 0);
    /// Permission denied.
    pub const NOT_ALLOWED: Self = Self::standard(ErrorType::HELLO_FAILED, 1);
    /// Unsupported version in a header.
    pub const BAD_VERSION: Self = Self::standard(ErrorType::BAD_REQUEST, 0);
    /// Unknown or unexpected message type.
    pub const BAD_TYPE: Self = Self::standard(ErrorType::BAD_REQUEST, 1);
    /// Unknown multipart type.
    pub const BAD_MULTIPART: Self = Self::standard(ErrorType::BAD_REQUEST, 2);
    /// Unknown experimenter.
    pub const BAD_EXPERIMENTER: Self = Self::standard(ErrorType::BAD_REQUEST, 3);
    /// Wrong length.
    pub const BAD_LEN: Self = Self::standard(ErrorType::BAD_REQUEST, 6);

    /// Its type.
    pub const fn kind(self) -> ErrorType {
        match self {
            Self::Standard { kind, .. } => kind,
            Self::Experimenter { .. } | Self::Vendor { .. } => ErrorType::EXPERIMENTER,
        }
    }

    /// Its code, or the experimenter- or vendor-defined number.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Standard { code, .. } => code,
            Self::Experimenter { exp_type, .. } => ErrorCode(exp_type.into()),
            Self::Vendor { code, .. } => ErrorCode(code.into()),
        }
    }

    /// The error with these numbers in `version`.
    pub fn from_numbers(numbers: ErrorNumbers, version: Version) -> Self {
        if let Some(row) = ErrorRow::by_numbers(numbers, version) {
            return row.reason;
        }
        match numbers {
            ErrorNumbers::Standard(kind, code) => {
                let (kind, code) = (ErrorType::from_wire(kind, version), u32::from(code));
                let taken =
                    ErrorRow::by_reason(Self::Standard { kind, code: ErrorCode(code) }).is_some();
                let code = ErrorCode(code | if taken { UNDEFINED } else { 0 });
                Self::Standard { kind, code }
            }
            ErrorNumbers::Vendor(vendor, kind, code) => Self::Vendor { vendor, kind, code },
            ErrorNumbers::Experimenter(experimenter, exp_type) => {
                Self::Experimenter { experimenter, exp_type }
            }
        }
    }

    /// The numbers in `version`.
    ///
    /// # Errors
    /// Names the error if the version cannot encode it.
    pub fn numbers(self, version: Version) -> Result<ErrorNumbers, EncodeError> {
        let row = ErrorRow::by_reason(self);
        if let Some(numbers) = row.and_then(|row| row.numbers(version)) {
            return Ok(numbers);
        }
        let what = row.map_or("error", |row| row.name);
        let none = |needs: u8| unsupported(what, version, &|v| v >= needs);
        match self {
            Self::Standard { kind, code } => {
                if let Some(row) = row {
                    return Err(unsupported(what, version, &|v| row.numbers(Version(v)).is_some()));
                }
                if code.0 >= 2 * UNDEFINED || kind == ErrorType::EXPERIMENTER {
                    return Err(unsupported("error code", version, &|_| false));
                }
                Ok(ErrorNumbers::Standard(kind.to_wire(version)?, low(code.0)))
            }
            Self::Vendor { .. } if version > Version::V1_1 => Err(none(u8::MAX)),
            Self::Vendor { vendor, kind, code } => Ok(ErrorNumbers::Vendor(vendor, kind, code)),
            Self::Experimenter { .. } if version < Version::V1_2 => Err(none(V1_2)),
            Self::Experimenter { experimenter, exp_type } => {
                Ok(ErrorNumbers::Experimenter(experimenter, exp_type))
            }
        }
    }

    /// The error to reply with when parsing fails, in `version`: the type for the malformed part if the version has
    /// one, otherwise `BAD_REQUEST`. §7.4.4.
    pub fn for_parse_error(error: ParseError, version: Version) -> Self {
        let (kind, code) = error.newest_code();
        let reason = Self::standard(kind, code.0);
        if matches!(reason.numbers(version), Ok(ErrorNumbers::Standard(..))) {
            return reason;
        }
        let of_request = ParseError { part: ErrorContext::Request, ..error };
        let (kind, code) = match error.part {
            ErrorContext::TableFeatures if version > Version::V1_3 => {
                ParseError { part: ErrorContext::Property, ..error }.newest_code()
            }
            ErrorContext::SetField => {
                ParseError { part: ErrorContext::Action, ..error }.newest_code()
            }
            _ => of_request.newest_code(),
        };
        Self::standard(kind, code.0)
    }

    pub(super) const fn standard(kind: ErrorType, code: u32) -> Self {
        Self::Standard { kind, code: ErrorCode(code) }
    }

    pub(super) const fn nicira(exp_type: u16) -> Self {
        Self::Experimenter { experimenter: NICIRA, exp_type }
    }
}

/// `TYPE/CODE` by name, or by number without a name.
impl fmt::Display for ErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind().name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "type {}", self.kind().0)?,
        }
        match (ErrorRow::by_reason(*self), self) {
            (Some(row), _) => write!(f, "/{}", row.name),
            (None, Self::Standard { code, .. }) => write!(f, "/code {}", code.0),
            (None, Self::Experimenter { experimenter, exp_type }) => {
                write!(f, "/{exp_type} of {experimenter:#x}")
            }
            (None, Self::Vendor { vendor, kind, code }) => {
                write!(f, "/{kind}/{code} of {vendor:#x}")
            }
        }
    }
}

/// A standard type and code.
pub(super) const fn of(kind: u16, code: u16) -> ErrorNumbers {
    ErrorNumbers::Standard(kind, code)
}

/// A Nicira type and code in 1.0 and 1.1.
pub(super) const fn nx10(kind: u16, code: u16) -> ErrorNumbers {
    ErrorNumbers::Vendor(NICIRA, kind, code)
}

/// A Nicira experimenter type since 1.2.
pub(super) const fn nx(exp_type: u16) -> ErrorNumbers {
    ErrorNumbers::Experimenter(NICIRA, exp_type)
}

/// An ONF experimenter type.
pub(super) const fn onf(exp_type: u16) -> ErrorNumbers {
    ErrorNumbers::Experimenter(ONF, exp_type)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The line of `errors.txt` for `row` in `version`.
    fn line(row: &ErrorRow, version: Version) -> Option<String> {
        let numbers = match row.numbers(version)? {
            ErrorNumbers::Standard(kind, code) => format!("- {kind} {code}"),
            ErrorNumbers::Vendor(NICIRA, kind, code) => format!("nicira {kind} {code}"),
            ErrorNumbers::Experimenter(NICIRA, exp_type) => format!("nicira {exp_type} -"),
            ErrorNumbers::Experimenter(ONF, exp_type) => format!("onf {exp_type} -"),
            other => panic!("{other:?}"),
        };
        let kind = match row.reason {
            ErrorReason::Standard { kind, .. } => kind.name().unwrap().to_owned() + "/",
            _ => String::new(),
        };
        Some(format!("{version} {numbers} {kind}{}", row.name_in(version)))
    }

    #[test]
    fn the_error_table_equals_the_reference_list() {
        let reference = include_str!("../../tests/golden/errors.txt");
        let reference = reference.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        let reference: BTreeSet<_> = reference.collect();
        let versions = || (1..=6).map(Version);
        let rows = ErrorRow::all().iter().flat_map(|row| versions().map(move |v| (row, v)));
        let ours: BTreeSet<_> = rows.filter_map(|(row, version)| line(row, version)).collect();
        let differences: Vec<_> = ours.symmetric_difference(&reference).collect();
        assert!(differences.is_empty(), "{differences:#?}");
        for (version, n) in versions().zip([31, 66, 92, 111, 149, 167]) {
            let own = ours.iter().filter(|line| line.starts_with(&format!("{version} - ")));
            assert_eq!(own.count(), n, "{version}");
        }
        for (version, n) in versions().zip([6, 11, 13, 15, 19, 19]) {
            let kinds = ErrorType::ROWS.iter().filter(|row| row.2.contains(version));
            assert_eq!(kinds.count(), n, "{version}");
        }
    }

    #[test]
    fn every_row_is_found_by_its_numbers_and_by_its_name() {
        for row in ErrorRow::all() {
            assert!(core::ptr::eq(ErrorRow::by_reason(row.reason).unwrap(), row), "{row:?}");
            for version in (1..=6).map(Version) {
                let named =
                    ErrorRow::by_name(row.reason.kind(), row.name_in(version), version).unwrap();
                assert_eq!(named.reason, row.reason);
                let Some(numbers) = row.numbers(version) else {
                    assert!(
                        row.reason.numbers(version).is_err()
                            || row.reason.kind() == ErrorType::EXPERIMENTER
                    );
                    continue;
                };
                assert_eq!(ErrorReason::from_numbers(numbers, version), row.reason, "{version}");
                assert_eq!(row.reason.numbers(version), Ok(numbers));
            }
        }
    }

    #[test]
    fn all_type_and_code_numbers_survive_a_roundtrip() {
        for version in (1..=6).map(Version) {
            for kind in (0..25).chain([0xb0c2, 0xffff]) {
                for code in (0..25).chain([0xffff]) {
                    let numbers = ErrorNumbers::Standard(kind, code);
                    let again = ErrorReason::from_numbers(numbers, version).numbers(version);
                    if kind == 0xffff && version >= Version::V1_2 {
                        assert!(again.is_err());
                    } else {
                        assert_eq!(again, Ok(numbers), "{version}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_parse_error_is_reported_with_a_type_that_the_version_has() {
        let fault =
            ParseError::new("match", 8, crate::ParseErrorKind::Length).within(ErrorContext::Match);
        let for_parse_error =
            |part, version| ErrorReason::for_parse_error(fault.within(part), version);
        let bad_len = ErrorReason::standard(ErrorType::BAD_REQUEST, 6);
        assert_eq!(for_parse_error(ErrorContext::Match, Version::V1_0), bad_len);
        let bad_match = ErrorReason::standard(ErrorType::BAD_MATCH, 1);
        assert_eq!(for_parse_error(ErrorContext::Match, Version::V1_1), bad_match);
        assert_eq!(for_parse_error(ErrorContext::Instruction, Version::V1_1), bad_len);
        assert_eq!(for_parse_error(ErrorContext::Property, Version::V1_3), bad_len);
        let of_tables = ErrorReason::standard(ErrorType::TABLE_FEATURES_FAILED, 3);
        assert_eq!(for_parse_error(ErrorContext::TableFeatures, Version::V1_3), of_tables);
        let of_action = ErrorReason::standard(ErrorType::BAD_ACTION, 1);
        assert_eq!(for_parse_error(ErrorContext::SetField, Version::V1_0), of_action);
        let property = ErrorReason::standard(ErrorType::BAD_PROPERTY, 1);
        assert_eq!(for_parse_error(ErrorContext::TableFeatures, Version::V1_4), property);
    }
}
