//! Why bytes are not a message, and what a version cannot say.

use core::fmt;

use crate::{ErrorCode, ErrorType, Version};

/// Shorthand for results of reading.
pub type Result<T, E = ParseError> = core::result::Result<T, E>;

/// Why bytes are not a message: what, where, and in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// Part at fault, named as in the specification.
    pub what: &'static str,
    /// Where it starts, bytes from the start of the message.
    pub at: u16,
    /// What is wrong with it.
    pub why: ParseErrorKind,
    /// What it is a part of.
    pub part: ErrorContext,
}

/// What of a message a fault is in: it decides which `ERROR` the fault deserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorContext {
    /// The message as such.
    #[default]
    Request,
    /// An action.
    Action,
    /// The field of an action that sets one.
    SetField,
    /// An instruction.
    Instruction,
    /// A match.
    Match,
    /// A property.
    Property,
    /// What tables can do.
    TableFeatures,
}

const _: () = assert!(size_of::<ParseError>() <= 24);

/// In which way a part of a message is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// The message ends before the part does.
    Truncated,
    /// A length inside the message contradicts another, or is no multiple of what it must be.
    Length,
    /// A part that the specification demands is absent.
    Missing,
    /// A value outside of what the specification allows.
    Value,
    /// A version that this session does not speak.
    Version,
    /// A kind of message, or of multipart body, that is not known.
    UnknownType,
    /// Things inside one another, more than anyone means.
    TooDeep,
    /// Something that may stand there once stands there again.
    Duplicate,
    /// Bits that are not under the mask that comes with them.
    OutsideMask,
}

impl ParseError {
    /// Names a fault: `what` is wrong, `at` bytes from the start of the message.
    pub const fn new(what: &'static str, at: u16, why: ParseErrorKind) -> Self {
        Self { what, at, why, part: ErrorContext::Request }
    }

    /// The same as a fault of `part`.
    #[must_use]
    pub const fn within(self, part: ErrorContext) -> Self {
        Self { part, ..self }
    }

    /// The `ERROR` message that this fault deserves. §7.4.4.
    pub const fn code(self) -> (ErrorType, ErrorCode) {
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
        let why = match self.why {
            ParseErrorKind::Truncated => "is cut off",
            ParseErrorKind::Length => "has a length that cannot be",
            ParseErrorKind::Missing => "is missing",
            ParseErrorKind::Value => "has a value that cannot be",
            ParseErrorKind::Version => "is of a version not spoken here",
            ParseErrorKind::UnknownType => "is of an unknown kind",
            ParseErrorKind::TooDeep => "is nested too deep",
            ParseErrorKind::Duplicate => "is one too many",
            ParseErrorKind::OutsideMask => "has bits that its mask has not",
        };
        write!(f, "{} at byte {} {why}", self.what, self.at)
    }
}

impl core::error::Error for ParseError {}

/// What a version of OpenFlow cannot express, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeError {
    /// The part that has no form on the wire.
    pub what: &'static str,
    /// The version it was to be written in.
    pub version: Version,
    /// The first version that can, if one can.
    pub needs: Option<Version>,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.needs {
            Some(needs) => write!(f, "{} needs {needs}, this is {}", self.what, self.version),
            None => write!(f, "{} cannot be said in {}", self.what, self.version),
        }
    }
}

impl core::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why() {
        let error = ParseError::new("match", 24, ParseErrorKind::Length);
        assert_eq!(error.to_string(), "match at byte 24 has a length that cannot be");
        assert_eq!(error.code(), (ErrorType::BAD_REQUEST, ErrorCode(6)));
    }

    #[test]
    fn what_cannot_be_said_is_named_with_the_version_that_can() {
        let no =
            EncodeError { what: "goto_table", version: Version::V1_0, needs: Some(Version::V1_1) };
        assert_eq!(no.to_string(), "goto_table needs 1.1, this is 1.0");
    }
}
