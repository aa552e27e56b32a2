//! Parsing without copying: lets views and owned types be generated from the same layouts.

use super::codec::{Codec, DefaultEncoding, Encoding, JointEncoding, PartialEncoding};
use super::counter_fields::{CountFields, DurationFields, duration, packets_and_bytes};
use super::instruction::{Instruction, PlainActions};
use super::matching::StructOrOxm;
use super::oxs::Counters;
use super::reader::Reader;
use crate::view::Match as MatchView;
use crate::{Result, Version};

/// Parses a value of type `T` that may borrow from the message.
pub(crate) trait ParseBorrowed<'a, T> {
    /// Parses the value at the front of `r`.
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<T>;
}

/// Owned values.
impl<'a, T, A: Encoding<T>> ParseBorrowed<'a, T> for A {
    fn parse_borrowed(r: &mut Reader<'a>) -> Result<T> {
        A::parse(r)
    }
}

/// Parses two values, of which the first may borrow from the message.
pub(crate) trait ParseJoint<'a, A, B> {
    /// Parses both values from the front of `r`.
    fn parse_joint(r: &mut Reader<'a>) -> Result<(A, B)>;
}

/// Owned values.
impl<'a, A, B, J: JointEncoding<A, B>> ParseJoint<'a, A, B> for J {
    fn parse_joint(r: &mut Reader<'a>) -> Result<(A, B)> {
        J::parse(r)
    }
}

/// Parses part of a value of type `T`.
pub(crate) trait ParsePart<T> {
    /// Adds the part at the front of `r` to `value`.
    fn parse_part(value: &mut T, r: &mut Reader<'_>) -> Result<()>;
}

/// Owned values.
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

impl<'a> ParseJoint<'a, MatchView<'a>, bool> for StructOrOxm {
    fn parse_joint(r: &mut Reader<'a>) -> Result<(MatchView<'a>, bool)> {
        MatchView::take_struct_or_oxm(r)
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

/// Bytes of a message, with their position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSpan<'a> {
    version: Version,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteSpan<'a> {
    /// No bytes.
    pub(crate) const NONE: Self = Self { version: Version::V1_0, bytes: &[], at: 0 };

    /// The bytes between two positions of readers of the same message.
    pub(crate) fn between(from: &Reader<'a>, to: &Reader<'a>) -> Self {
        let bytes = from.peek().get(..to.at() - from.at()).unwrap_or_default();
        Self { version: from.version(), bytes, at: from.at() }
    }

    /// The bytes.
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// A reader for the bytes.
    pub(crate) fn reader(self) -> Reader<'a> {
        Reader::new(self.version, self.bytes, self.at)
    }

    /// Takes all unread bytes of `r`.
    fn rest(r: &mut Reader<'a>) -> Self {
        Self { version: r.version(), at: r.at(), bytes: r.rest() }
    }
}

/// Instructions (in 1.0, actions) that have not been parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnparsedInstructions<'a>(pub(crate) ByteSpan<'a>);

impl UnparsedInstructions<'_> {
    /// Parses them.
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
