//! What layouts read without a copy, so that views and owned values come from the same rows.

use super::codec::{Adapt, Codec, Own, Share};
use super::flow_counters::{Counts, Duration, duration, packets_and_bytes};
use super::instruction::{ActionsOf10, Instruction};
use super::oxs::Counters;
use super::reader::Reader;
use crate::{MatchView, Result, Version};

/// How a field of type `T` is read; it may point to where it lies.
pub(crate) trait Take<'a, T> {
    /// Takes the field from the front of `r`.
    fn take(r: &mut Reader<'a>) -> Result<T>;
}

/// What is owned.
impl<'a, T, A: Adapt<T>> Take<'a, T> for A {
    fn take(r: &mut Reader<'a>) -> Result<T> {
        A::parse(r)
    }
}

/// How one of the places of a field of type `T` is read.
pub(crate) trait Gather<T> {
    /// Adds to `value` what stands at the front of `r`.
    fn gather(value: &mut T, r: &mut Reader<'_>) -> Result<()>;
}

/// What is owned.
impl<T, S: Share<T>> Gather<T> for S {
    fn gather(value: &mut T, r: &mut Reader<'_>) -> Result<()> {
        S::parse(value, r)
    }
}

impl<'a> Take<'a, MatchView<'a>> for Own {
    fn take(r: &mut Reader<'a>) -> Result<MatchView<'a>> {
        MatchView::take(r)
    }
}

impl<'a> Take<'a, Counters> for Own {
    fn take(r: &mut Reader<'a>) -> Result<Counters> {
        Counters::take(r)
    }
}

impl Gather<Counters> for Duration {
    fn gather(value: &mut Counters, r: &mut Reader<'_>) -> Result<()> {
        value.duration = duration(r)?;
        Ok(())
    }
}

impl Gather<Counters> for Counts {
    fn gather(value: &mut Counters, r: &mut Reader<'_>) -> Result<()> {
        (value.packet_count, value.byte_count) = packets_and_bytes(r)?;
        Ok(())
    }
}

/// Bytes of a message, and where in it they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    version: Version,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Span<'a> {
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
pub(crate) struct Unread<'a>(pub(crate) Span<'a>);

impl Unread<'_> {
    /// Reads them.
    ///
    /// # Errors
    /// As for a list of [`Instruction`]s.
    pub(crate) fn read(self) -> Result<Vec<Instruction>> {
        let mut r = self.0.reader();
        if r.version() == Version::V1_0 { ActionsOf10::parse(&mut r) } else { Vec::parse(&mut r) }
    }
}

impl<'a> Take<'a, Unread<'a>> for Own {
    fn take(r: &mut Reader<'a>) -> Result<Unread<'a>> {
        Ok(Unread(Span::rest(r)))
    }
}

impl<'a> Take<'a, Unread<'a>> for ActionsOf10 {
    fn take(r: &mut Reader<'a>) -> Result<Unread<'a>> {
        Ok(Unread(Span::rest(r)))
    }
}
