//! Traits for values with an encoding, and the functions that code generated from [rows](super::rows) calls.

use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, Expected, ParseError, ParseErrorKind, Result, Version};

/// Wire numbers of the versions, for use in patterns.
pub(crate) mod versions {
    pub(crate) const V1_0: u8 = 1;
    pub(crate) const V1_1: u8 = 2;
    pub(crate) const V1_2: u8 = 3;
    pub(crate) const V1_3: u8 = 4;
    pub(crate) const V1_4: u8 = 5;
    pub(crate) const V1_5: u8 = 6;
}

/// Placeholder replaced by the name of the enclosing field.
pub(crate) const UNNAMED: &str = "";

/// Replaces the placeholder [`UNNAMED`] in an error by the name of the field.
pub(crate) fn with_field_name<T>(name: &'static str, read: Result<T>) -> Result<T> {
    read.map_err(
        |error| if error.what == UNNAMED { ParseError { what: name, ..error } } else { error },
    )
}

/// A value with an encoding of its own.
pub(crate) trait Codec: Sized {
    /// Parses a value from the front of `r`.
    fn parse(r: &mut Reader<'_>) -> Result<Self>;

    /// Appends the value to `out`.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// An encoding for values of type `T` other than that of [`Codec`].
pub(crate) trait Encoding<T> {
    /// Parses a value from the front of `r`.
    fn parse(r: &mut Reader<'_>) -> Result<T>;

    /// Appends `value` to `out`.
    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// An encoding for part of a value of type `T`, whose parts are in several places of a message.
pub(crate) trait PartialEncoding<T> {
    /// Adds the part at the front of `r` to `value`.
    fn parse(value: &mut T, r: &mut Reader<'_>) -> Result<()>;

    /// Appends the part of `value` to `out`.
    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// One encoding for two values.
pub(crate) trait JointEncoding<A, B> {
    /// Parses both values from the front of `r`.
    fn parse(r: &mut Reader<'_>) -> Result<(A, B)>;

    /// Appends both values to `out`.
    fn encode(a: &A, b: &B, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// The encoding of the type's own [`Codec`].
pub(crate) struct DefaultEncoding;

impl<T: Codec> Encoding<T> for DefaultEncoding {
    fn parse(r: &mut Reader<'_>) -> Result<T> {
        T::parse(r)
    }

    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.encode(out)
    }
}

/// Parses `n` items.
pub(crate) fn parse_counted<T, A: Encoding<T>>(r: &mut Reader<'_>, n: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    for _ in 0..n {
        list.push(A::parse(r)?);
    }
    Ok(list)
}

/// Appends the items, and writes their number into the 16 bits at `count_at`.
pub(crate) fn encode_counted<T, A: Encoding<T>>(
    list: &[T],
    count_at: usize,
    out: &mut Encoder<'_>,
) -> Result<(), EncodeError> {
    list.iter().try_for_each(|item| A::encode(item, out))?;
    out.patch(count_at, list.len())
}

/// An item of lists that extend to the end of the enclosing structure.
pub(crate) trait ListItem: Codec {
    /// Appends all items.
    fn encode_list(list: &[Self], out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        list.iter().try_for_each(|item| item.encode(out))
    }
}

impl<T: ListItem> Codec for Vec<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut list = Self::new();
        while !r.is_empty() {
            let (at, item) = (r.at(), T::parse(r)?);
            if r.at() == at {
                return Err(r.error(UNNAMED, ParseErrorKind::Length));
            }
            list.push(item);
        }
        Ok(list)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        T::encode_list(self, out)
    }
}

impl Codec for Vec<u8> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.rest().to_vec())
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        out.put(self.as_slice());
        Ok(())
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        r.array(UNNAMED)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        out.put(self.as_slice());
        Ok(())
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Codec for $t {
            fn parse(r: &mut Reader<'_>) -> Result<Self> {
                r.array(UNNAMED).map(Self::from_be_bytes)
            }

            fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
                out.put(&self.to_be_bytes());
                Ok(())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl ListItem for u16 {}

impl<T: Codec> Codec for Box<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        T::parse(r).map(Self::new)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        (**self).encode(out)
    }
}

/// A set of alternatives distinguished by a number: a tagged union, generated by [`choice!`](super::rows).
pub(crate) trait Choice: Sized {
    /// Name of the set in errors.
    const TYPE_NAME: &'static str;

    /// All alternatives that have a row.
    const ROWS: &'static [ChoiceRow];

    /// Parses the body of alternative `code`; one without a row is kept unparsed.
    fn parse_variant(code: u64, r: &mut Reader<'_>) -> Result<Self>;

    /// Name of the alternative; `other` if it has no row.
    fn name(&self) -> &'static str;

    /// Number of the alternative in `version`.
    fn code(&self, version: Version) -> Result<u64, EncodeError>;

    /// Appends the body, which follows the number.
    fn encode_body(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// An alternative of a set, such as an action or a property.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceRow {
    /// Name in the neutral form.
    pub name: &'static str,
    /// Number in a version; `None` if the version does not have the alternative.
    pub code: fn(Version) -> Option<u64>,
}

impl ChoiceRow {
    /// First version that has the alternative.
    pub fn since(&self) -> Option<Version> {
        (1..=6).map(Version).find(|&version| (self.code)(version).is_some())
    }
}

/// The error that `version` does not have `what`, with the first later version for which `has` is true.
///
/// Not generic, since there are hundreds of callers and each would be compiled with its own copy.
#[cold]
pub(crate) fn unsupported(
    what: &'static str,
    version: Version,
    has: &dyn Fn(u8) -> bool,
) -> EncodeError {
    let needs = (1..=6).find(|&v| v > version.0 && has(v)).map(Version);
    EncodeError::new(what, version, needs)
}

/// Whether `name` is among the tokens of a layout.
pub(crate) const fn layout_contains(layout: &[&str], name: &str) -> bool {
    let mut rest = layout;
    while let [token, after @ ..] = rest {
        if bytes_equal(token.as_bytes(), name.as_bytes()) {
            return true;
        }
        rest = after;
    }
    false
}

const fn bytes_equal(mut a: &[u8], mut b: &[u8]) -> bool {
    loop {
        match (a, b) {
            ([x, after_a @ ..], [y, after_b @ ..]) if *x == *y => (a, b) = (after_a, after_b),
            ([], []) => return true,
            _ => return false,
        }
    }
}

/// A reader for the rest of a structure of `len` bytes that began at `start`.
pub(crate) fn limit_to_length<'a>(
    r: &mut Reader<'a>,
    what: &'static str,
    start: usize,
    len: u16,
) -> Result<Reader<'a>, ParseError> {
    let (len, before) = (usize::from(len), r.at() - start);
    let all = before + r.len();
    let at_least = Expected::saturating(Expected::AtLeast, before);
    let left = len.checked_sub(before).ok_or_else(|| r.length_error(start, what, len, at_least))?;
    let at_most = Expected::saturating(Expected::AtMost, all);
    r.sub(what, left).map_err(|_| r.length_error(start, what, len, at_most))
}

/// Where a type-length-value structure is padded with zeros to a multiple of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// The length counts the padding.
    Inside,
    /// The length does not count the padding.
    Outside,
    /// No padding.
    None,
}

/// Type that is followed by an experimenter ID and the experimenter's own type.
const EXPERIMENTER: u16 = 0xffff;

/// Experimenter ID of Nicira.
pub(crate) const NICIRA: u32 = 0x2320;
/// Experimenter ID of the Open Networking Foundation.
pub(crate) const ONF: u32 = 0x4f4e_4600;
/// Experimenter ID of Netronome.
pub(crate) const NETRONOME: u32 = 0x1540;

/// Uses the type as the number of the alternative.
#[expect(clippy::unnecessary_wraps, reason = "same signature as `extended_type`")]
pub(crate) fn plain_type(kind: u16, _: &mut Reader<'_>) -> Result<u64> {
    Ok(kind.into())
}

/// Uses the type as the number of the alternative; for [`NICIRA`] and [`ONF`], the experimenter ID followed by their
/// own 16-bit type.
pub(crate) fn extended_type(kind: u16, r: &mut Reader<'_>) -> Result<u64> {
    let id = r.peek().first_chunk().map(|id| u32::from_be_bytes(*id));
    let Some(id) = id.filter(|id| kind == EXPERIMENTER && [NICIRA, ONF].contains(id)) else {
        return Ok(kind.into());
    };
    r.u32("experimenter")?;
    Ok(u64::from(id) << 16 | u64::from(r.u16("subtype")?))
}

/// Parses a type-length-value structure; `code` determines the number of the alternative.
pub(crate) fn parse_tlv<T: Choice>(
    r: &mut Reader<'_>,
    padding: Padding,
    part: ErrorContext,
    code: fn(u16, &mut Reader<'_>) -> Result<u64>,
) -> Result<T> {
    parse_tlv_with(r, T::TYPE_NAME, padding, part, code, T::parse_variant)
}

/// Parses a type-length-value structure; `code` determines its number, `body` parses its value.
pub(crate) fn parse_tlv_with<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    padding: Padding,
    part: ErrorContext,
    code: fn(u16, &mut Reader<'_>) -> Result<u64>,
    body: impl FnOnce(u64, &mut Reader<'_>) -> Result<T>,
) -> Result<T> {
    let mut head = r.nested(what, part)?;
    let (start, kind, len) = (head.at(), head.u16(what)?, usize::from(head.u16(what)?));
    let wrong = |expected| r.length_error(start, what, len, expected);
    if len < 4 {
        return Err(wrong(Expected::AtLeast(4)).within(head.context()));
    }
    if padding == Padding::Inside && len % 8 != 0 {
        return Err(wrong(Expected::MultipleOf(8)).within(head.context()));
    }
    let at_most = Expected::saturating(Expected::AtMost, r.len());
    let context = head.context();
    let mut inner = head.sub(what, len - 4).map_err(|_| wrong(at_most).within(context))?;
    let code = code(kind, &mut inner)?;
    let read = body(code, &mut inner)?;
    if padding != Padding::Inside || inner.len() >= 8 {
        inner.finish(what)?;
    }
    let pad = if padding == Padding::Outside { len.next_multiple_of(8) - len } else { 0 };
    r.take(what, len)?;
    r.sub(what, pad)?;
    Ok(read)
}

/// Appends a type-length-value structure.
pub(crate) fn encode_tlv<T: Choice>(
    it: &T,
    out: &mut Encoder<'_>,
    padding: Padding,
) -> Result<(), EncodeError> {
    encode_tlv_with(it.code(out.version())?, out, padding, |out| it.encode_body(out))
}

/// Appends a type-length-value structure numbered `code`, whose value `body` appends.
#[expect(clippy::cast_possible_truncation, reason = "32-bit experimenter ID above a 16-bit type")]
pub(crate) fn encode_tlv_with(
    code: u64,
    out: &mut Encoder<'_>,
    padding: Padding,
    body: impl FnOnce(&mut Encoder<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let kind = u16::try_from(code).unwrap_or(EXPERIMENTER);
    out.put(&kind.to_be_bytes());
    out.put(&[0u8; 2]);
    if code > u64::from(u16::MAX) {
        out.put(&((code >> 16) as u32).to_be_bytes());
        out.put(&(code as u16).to_be_bytes());
    }
    body(out)?;
    if padding == Padding::Inside {
        out.pad_to_8(start);
    }
    out.patch_len(start, 2)?;
    if padding == Padding::Outside {
        out.pad_to_8(start);
    }
    Ok(())
}

/// Determines the number of an alternative of type `kind`.
///
/// If it is an experimenter's, and `T` has a row for the 32-bit experimenter ID of [`NICIRA`], [`ONF`] or [`NETRONOME`]
/// and the 32-bit type that follow, these and `pad` bytes are taken from `r`; the number is the ID in the upper and the
/// type in the lower 32 bits. Otherwise the number is `kind`, which leaves the rest to the generic experimenter row.
pub(crate) fn experimenter_code<T: Choice>(
    kind: u16,
    is_experimenter: bool,
    pad: usize,
    r: &mut Reader<'_>,
) -> Result<u64> {
    let version = r.version();
    let code = r.peek().first_chunk().map(|head| u64::from_be_bytes(*head));
    let has_row = |&code: &u64| {
        let id = code >> 32;
        [NICIRA, ONF, NETRONOME].map(u64::from).contains(&id)
            && r.len() >= 8 + pad
            && T::ROWS.iter().any(|row| (row.code)(version) == Some(code))
    };
    let Some(code) = code.filter(|code| is_experimenter && has_row(code)) else {
        return Ok(kind.into());
    };
    r.take("experimenter", 8 + pad)?;
    Ok(code)
}
