//! What has a form on the wire, and the functions that the code made from [rows](super::rows) calls.

use super::reader::Reader;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, ParseError, ParseErrorKind, Result, Version};

/// Wire numbers of the versions, for patterns.
pub(crate) mod versions {
    pub(crate) const V1_0: u8 = 1;
    pub(crate) const V1_1: u8 = 2;
    pub(crate) const V1_2: u8 = 3;
    pub(crate) const V1_3: u8 = 4;
    pub(crate) const V1_4: u8 = 5;
    pub(crate) const V1_5: u8 = 6;
}

/// What a part is called that the field it stands in names.
pub(crate) const UNNAMED: &str = "";

/// Gives a fault of an [`UNNAMED`] part the name of the field that it is in.
pub(crate) fn with_field_name<T>(name: &'static str, read: Result<T>) -> Result<T> {
    read.map_err(
        |error| if error.what == UNNAMED { ParseError { what: name, ..error } } else { error },
    )
}

/// What has a form on the wire.
pub(crate) trait Codec: Sized {
    /// Reads it.
    fn parse(r: &mut Reader<'_>) -> Result<Self>;

    /// Writes it.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// Another form on the wire for values of `T` than their own.
pub(crate) trait Encoding<T> {
    /// Reads a value.
    fn parse(r: &mut Reader<'_>) -> Result<T>;

    /// Writes a value.
    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// One of the places on the wire that a value of `T` is spread over.
pub(crate) trait PartialEncoding<T> {
    /// Adds to `value` what stands here.
    fn parse(value: &mut T, r: &mut Reader<'_>) -> Result<()>;

    /// Writes what of `value` stands here.
    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// Two values that have one form on the wire together.
pub(crate) trait JointEncoding<A, B> {
    /// Reads them.
    fn parse(r: &mut Reader<'_>) -> Result<(A, B)>;

    /// Writes them.
    fn encode(a: &A, b: &B, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// The form on the wire that values have by themselves.
pub(crate) struct DefaultEncoding;

impl<T: Codec> Encoding<T> for DefaultEncoding {
    fn parse(r: &mut Reader<'_>) -> Result<T> {
        T::parse(r)
    }

    fn encode(value: &T, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.encode(out)
    }
}

/// Reads `n` items.
pub(crate) fn parse_counted<T, A: Encoding<T>>(r: &mut Reader<'_>, n: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    for _ in 0..n {
        list.push(A::parse(r)?);
    }
    Ok(list)
}

/// Writes items, and how many they are in the 16 bits at `count_at`.
pub(crate) fn encode_counted<T, A: Encoding<T>>(
    list: &[T],
    count_at: usize,
    out: &mut Encoder<'_>,
) -> Result<(), EncodeError> {
    list.iter().try_for_each(|item| A::encode(item, out))?;
    out.patch(count_at, list.len())
}

/// What may stand in a list that goes on to the end of what it is in.
pub(crate) trait ListItem: Codec {
    /// Writes a list.
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

/// Alternatives told apart by a number.
pub(crate) trait Choice: Sized {
    /// What they are called in errors.
    const TYPE_NAME: &'static str;

    /// Every variant that has a row: its name, and its number in a version if it has one there.
    const ROWS: &'static [ChoiceRow];

    /// Reads the variant numbered `code`; what has no row is kept whole.
    fn parse_variant(code: u64, r: &mut Reader<'_>) -> Result<Self>;

    /// The name of the row; `other` if it has none.
    fn name(&self) -> &'static str;

    /// The number in `version`.
    fn code(&self, version: Version) -> Result<u64, EncodeError>;

    /// Writes what stands behind the number.
    fn encode_body(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError>;
}

/// One variant of a set of alternatives.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceRow {
    /// Name in the neutral form.
    pub name: &'static str,
    /// Its number in a version, if it has one there.
    pub code: fn(Version) -> Option<u64>,
}

impl ChoiceRow {
    /// The first version that has the variant.
    pub fn since(&self) -> Option<Version> {
        (1..=6).map(Version).find(|&version| (self.code)(version).is_some())
    }
}

/// What `version` lacks and a later one perhaps `has`.
pub(crate) fn unsupported(
    what: &'static str,
    version: Version,
    has: impl Fn(u8) -> bool,
) -> EncodeError {
    let needs = (1..=6).find(|&v| v > version.0 && has(v)).map(Version);
    EncodeError { what, version, needs }
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

/// Bytes that a length claims behind those that were read.
pub(crate) fn limit_to_length<'a>(
    r: &mut Reader<'a>,
    what: &'static str,
    start: usize,
    len: u16,
) -> Result<Reader<'a>, ParseError> {
    let left = usize::from(len).checked_sub(r.at() - start);
    let wrong = r.error_at(start, what, ParseErrorKind::Length);
    r.sub(what, left.ok_or(wrong)?).map_err(|_| wrong)
}

/// Where the zeros stand that fill a type-length-value up to eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Counted by the length.
    Inside,
    /// Behind what the length counts.
    Outside,
    /// Nowhere.
    None,
}

/// The type that says that an experimenter's identity and its own type follow.
const EXPERIMENTER: u16 = 0xffff;

/// Experimenters whose types have rows: Nicira, the Open Networking Foundation, Netronome.
pub(crate) const NICIRA: u32 = 0x2320;
pub(crate) const ONF: u32 = 0x4f4e_4600;
pub(crate) const NETRONOME: u32 = 0x1540;

/// The number of an alternative is its type.
#[expect(clippy::unnecessary_wraps, reason = "one shape with `extended`")]
pub(crate) fn plain_type(kind: u16, _: &mut Reader<'_>) -> Result<u64> {
    Ok(kind.into())
}

/// The number of an alternative is its type; of one of [`NICIRA`] or [`ONF`] it is the identity over 16 bits of the
/// type that they gave it.
pub(crate) fn extended_type(kind: u16, r: &mut Reader<'_>) -> Result<u64> {
    let id = r.peek().first_chunk().map(|id| u32::from_be_bytes(*id));
    let Some(id) = id.filter(|id| kind == EXPERIMENTER && [NICIRA, ONF].contains(id)) else {
        return Ok(kind.into());
    };
    r.u32("experimenter")?;
    Ok(u64::from(id) << 16 | u64::from(r.u16("subtype")?))
}

/// Reads one type-length-value; `code` makes its number.
pub(crate) fn parse_tlv<T: Choice>(
    r: &mut Reader<'_>,
    padding: Padding,
    part: ErrorContext,
    code: fn(u16, &mut Reader<'_>) -> Result<u64>,
) -> Result<T> {
    parse_tlv_with(r, T::TYPE_NAME, padding, part, code, T::parse_variant)
}

/// Reads one type-length-value, its number as `code` makes it, its value as `body` does.
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
    if len < 4 || (padding == Padding::Inside && len % 8 != 0) {
        return Err(head.error_at(start, what, ParseErrorKind::Length));
    }
    let too_long = head.error_at(start, what, ParseErrorKind::Length);
    let mut inner = head.sub(what, len - 4).map_err(|_| too_long)?;
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

/// Writes one type-length-value.
pub(crate) fn encode_tlv<T: Choice>(
    it: &T,
    out: &mut Encoder<'_>,
    padding: Padding,
) -> Result<(), EncodeError> {
    encode_tlv_with(it.code(out.version())?, out, padding, |out| it.encode_body(out))
}

/// Writes one type-length-value numbered `code`, its value as `body` does.
#[expect(clippy::cast_possible_truncation, reason = "16 bits under the identity, 32 of it above")]
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

/// The number of what says `kind`, and perhaps that an experimenter's identity and type of 32 bits each follow.
///
/// Where `T` has a row for the number of [`NICIRA`], [`ONF`] or [`NETRONOME`], `identity << 32 | type`, both are taken
/// from `r`, with the `pad` bytes behind them. All else is left to the row of experimenters.
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
