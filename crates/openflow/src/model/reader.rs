//! Sequential access to the bytes of a message; remembers the position for errors.

use crate::error::ErrorContext;
use crate::{ParseError, ParseErrorKind, Result, Version};

/// Maximum nesting of messages, actions and properties.
pub(crate) const DEPTH_MAX: u8 = 8;

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

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// `Truncated` if there are fewer.
    pub(crate) fn take(&mut self, what: &'static str, n: usize) -> Result<&'a [u8]> {
        let short = self.error(what, ParseErrorKind::Truncated);
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(short)?;
        self.bytes = rest;
        self.at += n;
        Ok(taken)
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    /// `Truncated` if there are fewer.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let short = self.error(what, ParseErrorKind::Truncated);
        self.take(what, N)?.first_chunk().copied().ok_or(short)
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
        let (at, too_long) = (self.at, self.error(what, ParseErrorKind::Length));
        let bytes = self.take(what, n).map_err(|_| too_long)?;
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
            return Err(self.error(what, ParseErrorKind::TooDeep));
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
        if self.bytes.is_empty() { Ok(()) } else { Err(self.error(what, ParseErrorKind::Length)) }
    }
}
