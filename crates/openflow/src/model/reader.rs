//! Sequential access to the bytes of a message; remembers the position for errors.

use crate::error::ErrorContext;
use crate::{Expected, ParseError, ParseErrorKind, Result, Version};

/// Maximum nesting of messages, actions and properties.
pub(crate) const DEPTH_MAX: u8 = 8;

/// A length as the value of an error.
pub(crate) fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The unread part of a message.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    version: Version,
    part: ErrorContext,
    depth: u8,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which begin `at` bytes into a message of `version`.
    pub(crate) fn new(version: Version, bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, version, part: ErrorContext::Request, depth: 0 }
    }

    /// Version of the message.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Position: bytes since the start of the message.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The kind of structure that errors belong to.
    pub(crate) fn context(&self) -> ErrorContext {
        self.part
    }

    /// Number of unread bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all bytes have been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The unread bytes.
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.bytes
    }

    /// An error about `what` at the current position.
    pub(crate) fn error(&self, what: &'static str, why: ParseErrorKind) -> ParseError {
        self.error_at(self.at, what, why)
    }

    /// An error about `what`, `at` bytes from the start of the message.
    pub(crate) fn error_at(
        &self,
        at: usize,
        what: &'static str,
        why: ParseErrorKind,
    ) -> ParseError {
        let at = u16::try_from(at).unwrap_or(u16::MAX);
        ParseError::new(what, at, why).within(self.part)
    }

    /// The error that `what` needs `n` bytes, more than there are.
    #[cold]
    fn truncated(&self, what: &'static str, n: usize) -> ParseError {
        let error = self.error(what, ParseErrorKind::Truncated);
        error.with_value(number(self.len()), Expected::saturating(Expected::Bytes, n))
    }

    /// The error that `what`, which starts at `at`, has the invalid length `len`.
    pub(crate) fn length_error(
        &self,
        at: usize,
        what: &'static str,
        len: usize,
        expected: Expected,
    ) -> ParseError {
        self.error_at(at, what, ParseErrorKind::Length).with_value(number(len), expected)
    }

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// `Truncated` if there are fewer.
    pub(crate) fn take(&mut self, what: &'static str, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(n).ok_or_else(|| self.truncated(what, n))?;
        self.bytes = rest;
        self.at += n;
        Ok(taken)
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    /// `Truncated` if there are fewer.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (taken, rest) =
            self.bytes.split_first_chunk().ok_or_else(|| self.truncated(what, N))?;
        self.bytes = rest;
        self.at += N;
        Ok(*taken)
    }

    /// Takes a 16-bit number.
    ///
    /// # Errors
    /// `Truncated` if there are fewer bytes.
    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Takes a 32-bit number.
    ///
    /// # Errors
    /// `Truncated` if there are fewer bytes.
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Takes all unread bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.at += rest.len();
        self.bytes = &[];
        rest
    }

    /// Takes `n` bytes as a reader of their own.
    ///
    /// # Errors
    /// `Length` if there are fewer.
    pub(crate) fn sub(&mut self, what: &'static str, n: usize) -> Result<Self> {
        let (at, left) = (self.at, self.len());
        let too_long = |error: ParseError| ParseError {
            why: ParseErrorKind::Length,
            ..error.with_value(number(n), Expected::saturating(Expected::AtMost, left))
        };
        let bytes = self.take(what, n).map_err(too_long)?;
        Ok(Self { bytes, at, ..*self })
    }

    /// The same bytes, one nesting level deeper; errors belong to `part`.
    ///
    /// Before 1.4, properties have no error type of their own (table features have one, since 1.3); since 1.4 table
    /// features are reported as properties.
    ///
    /// # Errors
    /// `TooDeep` at [`DEPTH_MAX`].
    pub(crate) fn nested(&self, what: &'static str, part: ErrorContext) -> Result<Self> {
        if self.depth == DEPTH_MAX {
            let error = self.error(what, ParseErrorKind::TooDeep);
            return Err(
                error.with_value(u32::from(DEPTH_MAX) + 1, Expected::AtMost(u16::from(DEPTH_MAX)))
            );
        }
        let part = match part {
            ErrorContext::TableFeatures if self.version >= Version::V1_4 => ErrorContext::Property,
            ErrorContext::Property if self.version < Version::V1_4 => ErrorContext::Request,
            part => part,
        };
        Ok(Self { part, depth: self.depth + 1, ..*self })
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// `Length` if bytes are left.
    pub(crate) fn finish(&self, what: &'static str) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let error = self.error(what, ParseErrorKind::Length);
        Err(error.with_value(number(self.len()), Expected::End))
    }
}
