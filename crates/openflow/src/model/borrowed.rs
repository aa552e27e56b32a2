//! What layouts read without a copy, so that views and owned values come from the same rows.

use super::codec::{Codec, DefaultEncoding, Encoding, PartialEncoding};
use super::counter_fields::{CountFields, DurationFields, duration, packets_and_bytes};
use super::instruction::{Instruction, PlainActions};
use super::oxs::Counters;
use super::reader::Reader;
use crate::view::Match as MatchView;
use crate::{Result, Version};

/// How a field of type `T` is read; it may point to where it lies.
pub(crate) trait ParseBorrowed<'a, T> {
    /// Takes the field from the front of `r`.
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<T>;
}

/// What is owned.
impl<'a, T, A: Encoding<T>> ParseBorrowed<'a, T> for A {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<T> {
        A::parse(r)
    }
}

/// How one of the places of a field of type `T` is read.
pub(crate) trait ParsePart<T> {
    /// Adds to `value` what stands at the front of `r`.
    fn parse_part(value: &mut T, r: &mut Reader<'_>) -> Result<()>;
}

/// What is owned.
impl<T, S: PartialEncoding<T>> ParsePart<T> for S {
    fn parse_part(value: &mut T, r: &mut Reader<'_>) -> Result<()> {
        S::parse(value, r)
    }
}

impl<'a> ParseBorrowed<'a, MatchView<'a>> for DefaultEncoding {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<MatchView<'a>> {
        MatchView::take(r)
    }
}

impl<'a> ParseBorrowed<'a, Counters> for DefaultEncoding {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<Counters> {
        Counters::take(r)
    }
}

impl ParsePart<Counters> for DurationFields {
    fn parse_part(value: &mut Counters, r: &mut Reader<'_>) -> Result<()> {
        value.duration = duration(r)?;
        Ok(())
    }
}

impl ParsePart<Counters> for CountFields {
    fn parse_part(value: &mut Counters, r: &mut Reader<'_>) -> Result<()> {
        (value.packet_count, value.byte_count) = packets_and_bytes(r)?;
        Ok(())
    }
}

/// Bytes of a message, and where in it they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSpan<'a> {
    version: Version,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteSpan<'a> {
    /// No bytes.
    pub(crate) const NONE: Self = Self { version: Version::V1_0, bytes: &[], at: 0 };

    /// What `from` had left and `to`, which reads the same, has not.
    pub(crate) fn between(from: &Reader<'a>, to: &Reader<'a>) -> Self {
        let bytes = from.peek().get(..to.at() - from.at()).unwrap_or_default();
        Self { version: from.version(), bytes, at: from.at() }
    }

    /// The bytes.
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the bytes.
    pub(crate) fn reader(self) -> Reader<'a> {
        Reader::new(self.version, self.bytes, self.at)
    }

    /// Takes everything left.
    fn rest(r: &mut Reader<'a>) -> Self {
        Self { version: r.version(), at: r.at(), bytes: r.rest() }
    }
}

/// Instructions, or the actions that 1.0 has in their place, unproved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnparsedInstructions<'a>(pub(crate) ByteSpan<'a>);

impl UnparsedInstructions<'_> {
    /// Reads them.
    ///
    /// # Errors
    /// As for a list of [`Instruction`]s.
    pub(crate) fn parse(self) -> Result<Vec<Instruction>> {
        let mut r = self.0.reader();
        if r.version() == Version::V1_0 { PlainActions::parse(&mut r) } else { Vec::parse(&mut r) }
    }
}

impl<'a> ParseBorrowed<'a, UnparsedInstructions<'a>> for DefaultEncoding {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<UnparsedInstructions<'a>> {
        Ok(UnparsedInstructions(ByteSpan::rest(r)))
    }
}

impl<'a> ParseBorrowed<'a, UnparsedInstructions<'a>> for PlainActions {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<UnparsedInstructions<'a>> {
        Ok(UnparsedInstructions(ByteSpan::rest(r)))
    }
}
