//! What a rule matches: a list of fields, whichever form the version gives it. §7.2.3.

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Field, FieldId, Frame, Inexpressible, Out, Result, Version, Why, match10};

/// Fields that a packet must have; with none, every packet matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// In the order of the wire.
    pub fields: Vec<Field>,
}

/// `struct ofp_match` of 1.2 and later. §7.2.3.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Oxm {
    kind: U16,
    len: U16,
}

/// `OFPMT_OXM`.
const OFPMT_OXM: u16 = 1;

impl Match {
    /// The field `id`, if it is matched.
    pub fn get(&self, id: FieldId) -> Option<&Field> {
        self.fields.iter().find(|field| field.id == id)
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, field) in self.fields.iter().enumerate() {
            write!(f, "{}{field}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Writes `fields` in the form that the version has, padded.
#[inline]
pub(crate) fn emit(fields: &[Field], out: &mut Out<'_>) -> Result<(), Inexpressible> {
    match out.version() {
        Version::V1_0 => match10::emit(fields, out),
        Version::V1_1 => {
            let version = out.version();
            Err(Inexpressible { what: "match", version, needs: Some(Version::V1_2) })
        }
        _ => {
            let start = out.len();
            out.put(&Oxm { kind: OFPMT_OXM.into(), len: U16::ZERO });
            for field in fields {
                if let Some(row) = field.id.row() {
                    out.needs(row.since, row.name)?;
                }
                field.emit_oxm(out);
            }
            out.patch_len(start, 2)?;
            out.pad_to_8(start);
            Ok(())
        }
    }
}

/// The fields of the match that starts `at` octets into `msg`, in place, and what follows its padding.
///
/// # Errors
/// `Length` if the match overruns the message or is not of the OXM type.
#[inline]
pub(crate) fn oxm_octets(msg: Frame<'_>, at: u16) -> Result<(&[u8], &[u8])> {
    let bad = Error::new("match", at, Why::Length);
    let here = msg.octets().get(usize::from(at)..).ok_or(bad)?;
    let (head, _) = Oxm::ref_from_prefix(here).map_err(|_| bad)?;
    if head.kind.get() != OFPMT_OXM {
        return Err(Error::new("match type", at, Why::Value));
    }
    let len = usize::from(head.len.get());
    let fields = here.get(size_of::<Oxm>()..len).ok_or(bad)?;
    let rest = here.get(len.next_multiple_of(8)..).ok_or(bad)?;
    Ok((fields, rest))
}

/// Reads the TLVs in `octets`, which start `at` octets into the message, one by one.
#[inline]
pub(crate) fn oxm_fields(octets: &[u8], at: u16) -> impl Iterator<Item = Result<Field>> + '_ {
    let (mut rest, len) = (octets, octets.len());
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = len - rest.len();
        let here = at.saturating_add(u16::try_from(read).unwrap_or(u16::MAX));
        let field = Field::parse_oxm(rest, here);
        rest = field.map_or(&[][..], |(_, rest)| rest);
        Some(field.map(|(field, _)| field))
    })
}

/// Reads the match of 1.2 and later that starts `at` octets into `msg`; returns what follows as well.
///
/// # Errors
/// `Length` if the match or a field overruns, `Value` if it is not of the OXM type.
pub(crate) fn parse_oxm(msg: Frame<'_>, at: u16) -> Result<(Match, &[u8])> {
    let (octets, rest) = oxm_octets(msg, at)?;
    let fields = oxm_fields(octets, at + 4).collect::<Result<_>>()?;
    Ok((Match { fields }, rest))
}
