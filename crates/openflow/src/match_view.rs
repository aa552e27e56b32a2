//! A match read in place. §7.2.3.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::model::codec::{Codec, JointEncoding};
use crate::model::matching::StructOrOxm;
use crate::model::reader::Reader;
use crate::model::{self, match_fixed, matching};
use crate::{ErrorContext, ParseError, ParseErrorKind, PortNo, RawMessage, Result, Version};

/// A checked match, read in place; [`to_match`](Self::to_match) copies its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> Match<'a> {
    /// No fields: matches all packets.
    pub(crate) const ALL: Self = Self { version: Version::V1_5, bytes: &[0, 1, 0, 4, 0, 0, 0, 0] };

    /// Takes the match at the front of `r`, with its padding.
    ///
    /// # Errors
    /// As for [`model::Match`].
    pub(crate) fn take(r: &mut Reader<'a>) -> Result<Self> {
        match r.version() {
            Version::V1_0 | Version::V1_1 => Self::validated(r, match_fixed::validate),
            _ => Self::validated(r, matching::validate),
        }
    }

    /// Takes the match of 1.1 at the front of `r`, as [`StructOrOxm`] parses it.
    ///
    /// # Errors
    /// As for [`model::Match`].
    pub(crate) fn take_struct_or_oxm(r: &mut Reader<'a>) -> Result<(Self, bool)> {
        if matching::is_oxm(r.peek()) {
            return Ok((Self::validated(r, matching::validate)?, true));
        }
        Ok((Self::take(r)?, false))
    }

    /// Takes the match at the front of `r` with `validate`.
    fn validated(
        r: &mut Reader<'a>,
        validate: impl FnOnce(&mut Reader<'_>) -> Result<()>,
    ) -> Result<Self> {
        let (version, all) = (r.version(), r.peek());
        validate(r)?;
        let len = all.len() - r.len();
        Ok(Self { version, bytes: all.get(..len).unwrap_or_default() })
    }

    /// The same match, owned.
    ///
    /// # Cost
    /// Allocates the list.
    pub fn to_match(self) -> model::Match {
        let mut r = Reader::new(self.version, self.bytes, 0);
        let read = match self.version {
            Version::V1_1 => StructOrOxm::parse(&mut r).map(|(read, _)| read),
            _ => model::Match::parse(&mut r),
        };
        debug_assert!(read.is_ok(), "a valid view is parsed: {read:?}");
        read.unwrap_or_default()
    }
}

/// A match that contains the ingress port only. §7.2.3.1.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PortOnly {
    kind_and_len: U32,
    header: U32,
    port: U32,
    pad: [u8; 4],
}

impl PortOnly {
    /// `OFPMT_OXM` and 12 bytes.
    const HEAD: u32 = 1 << 16 | 0xc;
    /// `IN_PORT` of `OFPXMC_OPENFLOW_BASIC` without a mask, 4 bytes.
    const IN_PORT: u32 = 0x8000 << 16 | 4;
}

/// The ingress port in the match that starts `at` bytes into `msg`, of 1.2 or later, and the bytes after the match.
///
/// # Errors
/// As for [`model::Match`]; `Missing` without an ingress port.
#[inline]
pub(crate) fn in_port(msg: RawMessage<'_>, at: u16) -> Result<(PortNo, &[u8])> {
    let here = msg.bytes().get(usize::from(at)..).unwrap_or_default();
    match PortOnly::ref_from_prefix(here) {
        Ok((m, rest))
            if m.kind_and_len.get() == PortOnly::HEAD && m.header.get() == PortOnly::IN_PORT =>
        {
            Ok((PortNo(m.port.get()), rest))
        }
        _ => in_port_among_others(msg, at),
    }
}

#[inline(never)]
fn in_port_among_others(msg: RawMessage<'_>, at: u16) -> Result<(PortNo, &[u8])> {
    let here = msg.bytes().get(usize::from(at)..).unwrap_or_default();
    let mut r = Reader::new(msg.version(), here, at.into());
    let found = matching::validate_in_port(&mut r)?;
    let missing =
        ParseError::new("in_port", at, ParseErrorKind::Missing).within(ErrorContext::Match);
    Ok((found.ok_or(missing)?, r.rest()))
}
