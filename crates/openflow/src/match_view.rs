//! A match read in place. §7.2.3.

use core::iter;

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::model::codec::{Codec, JointEncoding};
use crate::model::matching::StructOrOxm;
use crate::model::oxm::RawOxm;
use crate::model::reader::Reader;
use crate::model::{self, match_fixed, matching};
use crate::{
    ErrorContext, Field, FieldId, ParseError, ParseErrorKind, PortNo, RawMessage, Result, Version,
};

/// A checked match, read in place.
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

    /// The known fields of up to 16 bytes.
    pub fn iter(self) -> impl Iterator<Item = Field> + 'a {
        let mut r = Reader::new(self.version, self.bytes, 0);
        let is_oxm = match self.version {
            Version::V1_0 => false,
            Version::V1_1 => matching::is_oxm(self.bytes),
            _ => true,
        };
        let (fixed, mut oxms) = if is_oxm {
            (None, matching::oxm_fields(&mut r).ok())
        } else {
            (match_fixed::parse_fields(&mut r).ok(), None)
        };
        let next = move || RawOxm::take(oxms.as_mut().filter(|r| !r.is_empty())?).ok();
        fixed.into_iter().flatten().chain(iter::from_fn(next).filter_map(RawOxm::field))
    }

    /// The field `id`, under any of its headers; `None` if it is not matched or is longer than 16 bytes.
    pub fn get(self, id: FieldId) -> Option<Field> {
        self.iter().find(|field| field.id.same_as(id))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, FlowMod, MacAddr, view};

    #[test]
    fn the_fields_of_a_view_are_those_of_the_owned_match() {
        let addr = MacAddr([2, 0, 0, 0, 0, 9]);
        let fields = [Field::in_port(PortNo(1)), Field::eth_dst(addr), Field::eth_type(0x0800)];
        for version in (1..=6).map(Version) {
            let (mut tx, mut xid) = (vec![], 1);
            Encoder::new(&mut tx, version, &mut xid).flow_mod(&FlowMod::drop(fields)).unwrap();
            let view = view::FlowMod::new(RawMessage::new(&tx).unwrap()).unwrap();
            let owned = view.matching.to_match();
            assert_eq!(view.matching.iter().collect::<model::Match>(), owned, "{version}");
            let eth_dst = view.matching.get(FieldId::ETH_DST);
            assert_eq!(eth_dst.as_ref(), owned.get(FieldId::ETH_DST), "{version}");
            assert_eq!(view.matching.get(FieldId::VLAN_VID), None, "{version}");
        }
    }
}
