//! Errors of parsing and encoding: what is wrong, the offending value, and what was expected.

use core::fmt;

use crate::{ErrorCode, ErrorType, Version};

/// Result of parsing.
pub type Result<T, E = ParseError> = core::result::Result<T, E>;

/// Why bytes are not a valid message: which part, where, what is wrong with it, and what was expected.
///
/// ```
/// use sluice_openflow::Message;
///
/// let echo_request_with_a_length_of_4 = [4, 2, 0, 4, 0, 0, 0, 7];
/// let error = Message::parse(&echo_request_with_a_length_of_4).unwrap_err();
/// assert_eq!(error.to_string(), "header at byte 2: invalid length 4 (must be at least 8)");
/// assert_eq!((error.at, error.value), (2, Some(4)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// Name of the part, as in the specification.
    pub what: &'static str,
    /// Where the part starts, in bytes from the start of the message.
    pub at: u16,
    /// What is wrong with it.
    pub why: ParseErrorKind,
    /// What kind of structure contains the part.
    pub part: ErrorContext,
    /// The offending value, if it is a number of up to 32 bits. For `Truncated`, the number of bytes left.
    pub value: Option<u32>,
    /// What was expected instead of `value`.
    pub expected: Expected,
}

/// The kind of structure that an error is in. It determines the type of the `ERROR` message in reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ErrorContext {
    /// None of the below.
    #[default]
    Request,
    /// An action.
    Action,
    /// The field of a `set_field` action.
    SetField,
    /// An instruction.
    Instruction,
    /// A match.
    Match,
    /// A property.
    Property,
    /// Table features.
    TableFeatures,
}

const _: () = assert!(size_of::<ParseError>() <= 32);

/// What is wrong with a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The message ends before the part does.
    Truncated,
    /// A length contradicts another one, or is not a multiple of what it must be.
    Length,
    /// A part that the specification requires is missing.
    Missing,
    /// A value that the specification does not allow.
    Value,
    /// A version of OpenFlow that is not supported, or not the version of the session.
    Version,
    /// An unknown type, for example of message or multipart body.
    UnknownType,
    /// Structures are nested too deeply.
    TooDeep,
    /// A part occurs twice that may occur once.
    Duplicate,
    /// A value has bits that its mask does not have.
    OutsideMask,
}

/// What was expected instead of the offending value of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Expected {
    /// Not stated.
    #[default]
    Unstated,
    /// This number.
    Exactly(u16),
    /// This number or more.
    AtLeast(u16),
    /// This number or less.
    AtMost(u16),
    /// A multiple of this number.
    MultipleOf(u16),
    /// A number in this range, both ends included.
    Between(u8, u8),
    /// This many bytes more than there are.
    Bytes(u16),
    /// No more bytes: the part should have ended.
    End,
}

impl Expected {
    /// The variant `of` with `n`, or with the highest number there is if `n` is larger.
    pub(crate) fn saturating(of: fn(u16) -> Self, n: usize) -> Self {
        of(u16::try_from(n).unwrap_or(u16::MAX))
    }
}

/// In parentheses, with a space before; nothing if it is not stated.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstated | Self::Bytes(_) | Self::End => Ok(()),
            Self::Exactly(n) => write!(f, " (must be {n})"),
            Self::AtLeast(n) => write!(f, " (must be at least {n})"),
            Self::AtMost(n) => write!(f, " (must be at most {n})"),
            Self::MultipleOf(n) => write!(f, " (must be a multiple of {n})"),
            Self::Between(min, max) => write!(f, " (must be from {min} to {max})"),
        }
    }
}

impl ParseError {
    /// An error in the part `what`, which starts `at` bytes from the start of the message.
    pub const fn new(what: &'static str, at: u16, why: ParseErrorKind) -> Self {
        let (part, value, expected) = (ErrorContext::Request, None, Expected::Unstated);
        Self { what, at, why, part, value, expected }
    }

    /// The same error, with the offending value and what was expected instead.
    #[must_use]
    pub const fn with_value(self, value: u32, expected: Expected) -> Self {
        Self { value: Some(value), expected, ..self }
    }

    /// The same error, inside of a structure of kind `part`.
    #[must_use]
    pub const fn within(self, part: ErrorContext) -> Self {
        Self { part, ..self }
    }

    /// Type and code of the `ERROR` message to reply with in the newest version;
    /// [`ErrorReason::for_parse_error`](crate::ErrorReason::for_parse_error) gives those of any version. §7.4.4.
    pub(crate) const fn newest_code(self) -> (ErrorType, ErrorCode) {
        let (kind, [unknown, len, value]) = match self.part {
            ErrorContext::Request => (ErrorType::BAD_REQUEST, [1, 6, 6]),
            ErrorContext::Action => (ErrorType::BAD_ACTION, [0, 1, 5]),
            ErrorContext::SetField => (ErrorType::BAD_ACTION, [13, 14, 15]),
            ErrorContext::Instruction => (ErrorType::BAD_INSTRUCTION, [0, 7, 7]),
            ErrorContext::Match => (ErrorType::BAD_MATCH, [0, 1, 7]),
            ErrorContext::Property => (ErrorType::BAD_PROPERTY, [0, 1, 2]),
            ErrorContext::TableFeatures => (ErrorType::TABLE_FEATURES_FAILED, [2, 3, 4]),
        };
        let code = match self.why {
            ParseErrorKind::Version => return (ErrorType::BAD_REQUEST, ErrorCode(0)),
            ParseErrorKind::Duplicate if matches!(self.part, ErrorContext::Match) => 10,
            ParseErrorKind::Duplicate if matches!(self.part, ErrorContext::Instruction) => 9,
            ParseErrorKind::OutsideMask if matches!(self.part, ErrorContext::Match) => 5,
            ParseErrorKind::OutsideMask if matches!(self.part, ErrorContext::SetField) => 16,
            ParseErrorKind::UnknownType => unknown,
            ParseErrorKind::Truncated | ParseErrorKind::Length | ParseErrorKind::TooDeep => len,
            ParseErrorKind::Missing
            | ParseErrorKind::Value
            | ParseErrorKind::Duplicate
            | ParseErrorKind::OutsideMask => value,
        };
        (kind, ErrorCode(code))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.what, self.at)?;
        match (self.why, self.value, self.expected) {
            (ParseErrorKind::Truncated, Some(left), Expected::Bytes(needed)) => {
                return write!(f, "truncated (needs {needed} bytes, {left} left)");
            }
            (ParseErrorKind::Length, Some(left), Expected::End) => {
                return write!(f, "invalid length ({left} bytes too many)");
            }
            _ => {}
        }
        f.write_str(match self.why {
            ParseErrorKind::Truncated => "truncated",
            ParseErrorKind::Length => "invalid length",
            ParseErrorKind::Missing => "missing",
            ParseErrorKind::Value => "invalid value",
            ParseErrorKind::Version => "unsupported version",
            ParseErrorKind::UnknownType => "unknown type",
            ParseErrorKind::TooDeep => "nested too deeply: level",
            ParseErrorKind::Duplicate => "duplicate",
            ParseErrorKind::OutsideMask => "value has bits outside of its mask",
        })?;
        match self.value {
            Some(n) if n > 0xffff => write!(f, " {n:#x}")?,
            Some(n) => write!(f, " {n}")?,
            None => {}
        }
        write!(f, "{}", self.expected)
    }
}

impl core::error::Error for ParseError {}

/// Something that the requested version of OpenFlow cannot express.
///
/// ```
/// use sluice_openflow::{Field, FlowMod, Version};
///
/// let flow = FlowMod::drop([Field::ipv6_dst("2001:db8::1".parse()?)]);
/// let error = flow.to_vec(Version::V1_0, 1).unwrap_err();
/// assert_eq!(error.to_string(), "ipv6_dst requires OpenFlow 1.2; this session speaks 1.0");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeError {
    /// Name of the part that has no encoding.
    pub what: &'static str,
    /// The version to encode in.
    pub version: Version,
    /// The first later version that has an encoding for it; `None` if there is none.
    pub needs: Option<Version>,
    /// The offending value, if it is a number of up to 32 bits.
    pub value: Option<u32>,
    /// What was expected instead of `value`.
    pub expected: Expected,
}

const _: () = assert!(size_of::<EncodeError>() <= 32);

impl EncodeError {
    /// The error that `version` cannot express `what`; `needs` is the first later version that can.
    pub const fn new(what: &'static str, version: Version, needs: Option<Version>) -> Self {
        Self { what, version, needs, value: None, expected: Expected::Unstated }
    }

    /// The same error, with the offending value and what was expected instead.
    #[must_use]
    pub const fn with_value(self, value: u32, expected: Expected) -> Self {
        Self { value: Some(value), expected, ..self }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.value {
            Some(n) if n > 0x00ff_ffff => write!(f, " {n:#x}")?,
            Some(n) => write!(f, " {n}")?,
            None => {}
        }
        let version = self.version;
        match self.needs {
            Some(needs) => {
                write!(f, " requires OpenFlow {needs}; this session speaks {version}")?;
            }
            None => write!(f, " cannot be encoded in OpenFlow {version}")?,
        }
        write!(f, "{}", self.expected)
    }
}

impl core::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parse_error_states_part_place_value_and_expectation() {
        let error = ParseError::new("match", 24, ParseErrorKind::Length);
        assert_eq!(error.to_string(), "match at byte 24: invalid length");
        assert_eq!(error.newest_code(), (ErrorType::BAD_REQUEST, ErrorCode(6)));
        let error = error.with_value(12, Expected::MultipleOf(8));
        let text = "match at byte 24: invalid length 12 (must be a multiple of 8)";
        assert_eq!(error.to_string(), text);
        let short = ParseError::new("flags", 10, ParseErrorKind::Truncated);
        let short = short.with_value(1, Expected::Bytes(2));
        assert_eq!(short.to_string(), "flags at byte 10: truncated (needs 2 bytes, 1 left)");
        let long = ParseError::new("port", 16, ParseErrorKind::Length);
        let long = long.with_value(3, Expected::End);
        assert_eq!(long.to_string(), "port at byte 16: invalid length (3 bytes too many)");
        let version = ParseError::new("version", 0, ParseErrorKind::Version);
        let version = version.with_value(9, Expected::Between(1, 6));
        let text = "version at byte 0: unsupported version 9 (must be from 1 to 6)";
        assert_eq!(version.to_string(), text);
    }

    #[test]
    fn an_encode_error_states_the_version_that_is_required() {
        let error = EncodeError::new("goto_table", Version::V1_0, Some(Version::V1_1));
        let text = "goto_table requires OpenFlow 1.1; this session speaks 1.0";
        assert_eq!(error.to_string(), text);
        let error = EncodeError::new("length", Version::V1_3, None);
        let error = error.with_value(70_000, Expected::AtMost(u16::MAX));
        let text = "length 70000 cannot be encoded in OpenFlow 1.3 (must be at most 65535)";
        assert_eq!(error.to_string(), text);
    }
}
