//! The neutral form of the model, from which JSON and text are made and into which they are read.

use core::fmt;
use std::borrow::Cow;

use super::codec::{Codec, UNNAMED};
use super::reader::Reader;
use crate::{EncodeError, Encoder, Version};

/// A message or part of one as a tree of names and plain values.
///
/// Shapes: numbers up to 2^53 are numbers, larger ones texts `0x…`; bytes are texts of hex digits; addresses are
/// texts as people write them; codes are their names in lower case, or numbers where they have none; sets of flags
/// are lists of such; what is absent is null. An alternative (an action, a property, a message) is a map whose
/// `type` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
    /// One after the other.
    List(Vec<Self>),
    /// By name, in order.
    Map(Vec<(Cow<'static, str>, Self)>),
}

/// Why a [`Value`] is not what was expected: where in it, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// Names and indices from the outermost, with points between.
    pub path: String,
    /// What is wrong there.
    pub what: String,
}

impl ValueError {
    /// A fault right here.
    pub fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    /// The same, seen from outside of `name`.
    #[must_use]
    pub fn under(mut self, name: &str) -> Self {
        self.path =
            if self.path.is_empty() { name.into() } else { format!("{name}.{}", self.path) };
        self
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.what);
        }
        write!(f, "{}: {}", self.path, self.what)
    }
}

impl core::error::Error for ValueError {}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// What it is, for messages to people.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }

    /// The entry `name` of a map.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

/// Larger numbers are written as texts: what reads JSON may hold them as floating-point numbers.
const NUMBER_MAX: u64 = 1 << 53;

/// What has a neutral form.
pub(crate) trait NeutralForm: Sized {
    /// The neutral form, in the words of `version`.
    fn to_value(&self, version: Version) -> Value;

    /// Reads the neutral form.
    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError>;
}

/// The value of a number or of a text that is one, decimal or `0x…`.
pub(crate) fn expect_number(value: &Value) -> Result<u64, ValueError> {
    let wrong = || ValueError::new(format!("expected a number, found {}", value.kind()));
    match value {
        Value::Number(n) => Ok(*n),
        Value::Text(text) => {
            let parsed = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            let parsed = parsed.ok().filter(|_| !text.contains('+'));
            parsed.ok_or_else(|| ValueError::new(format!("`{text}` is not a number")))
        }
        _ => Err(wrong()),
    }
}

/// A number as [`Value::Number`] or, if it is large, as a text.
pub(crate) fn number_to_value(n: u64) -> Value {
    if n > NUMBER_MAX { Value::Text(format!("{n:#x}")) } else { Value::Number(n) }
}

/// The text that a value must be.
pub(crate) fn expect_text(value: &Value) -> Result<&str, ValueError> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(ValueError::new(format!("expected a text, found {}", other.kind()))),
    }
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hex digits, with or without blanks between them.
///
/// # Errors
/// Names what is no digit, or the odd one.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        let digit =
            c.to_digit(16).ok_or_else(|| ValueError::new(format!("`{c}` is no hex digit")))?;
        #[expect(clippy::cast_possible_truncation, reason = "two digits of four bits")]
        match high.take() {
            Some(h) => bytes.push((h << 4 | digit) as u8),
            None => high = Some(digit),
        }
    }
    if high.is_some() {
        return Err(ValueError::new("an odd number of hex digits"));
    }
    Ok(bytes)
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl NeutralForm for $t {
            fn to_value(&self, _: Version) -> Value {
                number_to_value(u64::from(*self))
            }

            fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
                let n = expect_number(value)?;
                Self::try_from(n).map_err(|_| ValueError::new(format!("{n} is over {}", Self::MAX)))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl NeutralForm for bool {
    fn to_value(&self, _: Version) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        match value {
            Value::Bool(yes) => Ok(*yes),
            other => {
                Err(ValueError::new(format!("expected true or false, found {}", other.kind())))
            }
        }
    }
}

impl<T: NeutralForm + crate::model::codec::ListItem> NeutralForm for Vec<T> {
    fn to_value(&self, version: Version) -> Value {
        list_to_value(self, version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        list_from_value(value, version)
    }
}

impl<T: NeutralForm> NeutralForm for Option<T> {
    fn to_value(&self, version: Version) -> Value {
        self.as_ref().map_or(Value::Null, |it| it.to_value(version))
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        if *value == Value::Null { Ok(None) } else { T::from_value(value, version).map(Some) }
    }
}

impl<T: NeutralForm> NeutralForm for Box<T> {
    fn to_value(&self, version: Version) -> Value {
        (**self).to_value(version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        T::from_value(value, version).map(Self::new)
    }
}

/// Bytes.
impl NeutralForm for Vec<u8> {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(hex(self))
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        unhex(expect_text(value)?)
    }
}

/// Bytes.
impl<const N: usize> NeutralForm for [u8; N] {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(hex(self))
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let bytes = unhex(expect_text(value)?)?;
        bytes.try_into().map_err(|_| ValueError::new(format!("expected {N} bytes")))
    }
}

/// A text in a place of `N` bytes, filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedString<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for FixedString<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> From<&str> for FixedString<N> {
    /// What is too long for the place is cut.
    fn from(text: &str) -> Self {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        Self(bytes)
    }
}

impl<const N: usize> fmt::Display for FixedString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&c| c == 0).unwrap_or(N);
        f.write_str(&String::from_utf8_lossy(self.0.get(..end).unwrap_or_default()))
    }
}

impl<const N: usize> Codec for FixedString<N> {
    fn parse(r: &mut Reader<'_>) -> Result<Self, crate::ParseError> {
        r.array(UNNAMED).map(Self)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        out.put(self.0.as_slice());
        Ok(())
    }
}

/// What is no text is a map with its bytes as `hex`.
impl<const N: usize> NeutralForm for FixedString<N> {
    fn to_value(&self, _: Version) -> Value {
        let bytes = self.0;
        let end = bytes.iter().rposition(|&c| c != 0).map_or(0, |last| last + 1);
        match core::str::from_utf8(bytes.get(..end).unwrap_or_default()) {
            Ok(text) if !text.contains('\0') => Value::text(text),
            _ => Value::Map(vec![("hex".into(), Value::Text(hex(&bytes)))]),
        }
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let bytes = match value.get("hex") {
            Some(digits) => unhex(expect_text(digits)?)?,
            None => expect_text(value)?.as_bytes().to_vec(),
        };
        let too_long = || ValueError::new(format!("longer than {N} bytes"));
        let mut place = [0; N];
        place.get_mut(..bytes.len()).ok_or_else(too_long)?.copy_from_slice(&bytes);
        Ok(Self(place))
    }
}

/// A text of any length, to the end of what it is in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByteString(pub Vec<u8>);

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Codec for ByteString {
    fn parse(r: &mut Reader<'_>) -> Result<Self, crate::ParseError> {
        Codec::parse(r).map(Self)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.0.encode(out)
    }
}

/// What is no text is a map with its bytes as `hex`.
impl NeutralForm for ByteString {
    fn to_value(&self, _: Version) -> Value {
        match core::str::from_utf8(&self.0) {
            Ok(text) => Value::text(text),
            Err(_) => Value::Map(vec![("hex".into(), Value::Text(hex(&self.0)))]),
        }
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        Ok(Self(match value.get("hex") {
            Some(digits) => unhex(expect_text(digits)?)?,
            None => expect_text(value)?.as_bytes().to_vec(),
        }))
    }
}

/// Things of one sort, one after the other.
pub(crate) fn list_to_value<T: NeutralForm>(list: &[T], version: Version) -> Value {
    Value::List(list.iter().map(|it| it.to_value(version)).collect())
}

/// Reads a list.
///
/// # Errors
/// Those of its things, with their index.
pub(crate) fn list_from_value<T: NeutralForm>(
    value: &Value,
    version: Version,
) -> Result<Vec<T>, ValueError> {
    let Value::List(list) = value else {
        return Err(ValueError::new(format!("expected a list, found {}", value.kind())));
    };
    let read =
        |(n, it): (usize, &Value)| T::from_value(it, version).map_err(|e| e.under(&n.to_string()));
    list.iter().enumerate().map(read).collect()
}

/// The entries of a map that is read by name, so that what is left over can be refused.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    entries: Vec<(&'a str, &'a Value)>,
}

impl<'a> Entries<'a> {
    /// Those of `value`.
    ///
    /// # Errors
    /// What is no map.
    pub(crate) fn of(value: &'a Value) -> Result<Self, ValueError> {
        let Value::Map(entries) = value else {
            return Err(ValueError::new(format!("expected an object, found {}", value.kind())));
        };
        Ok(Self { entries: entries.iter().map(|(name, value)| (name.as_ref(), value)).collect() })
    }

    /// Takes the entry `name`.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a Value> {
        let at = self.entries.iter().position(|(n, _)| *n == name)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// Takes and reads the entry `name`; `None` if it is absent.
    ///
    /// # Errors
    /// Those of the entry.
    pub(crate) fn read<T: NeutralForm>(
        &mut self,
        name: &'static str,
        version: Version,
    ) -> Result<Option<T>, ValueError> {
        let read = |value| T::from_value(value, version).map_err(|e| e.under(name));
        self.take(name).map(read).transpose()
    }

    /// Proves that nothing is left.
    ///
    /// # Errors
    /// Names what is.
    pub(crate) fn finish(self) -> Result<(), ValueError> {
        match self.entries.first() {
            None => Ok(()),
            Some((name, _)) => Err(ValueError::new("is not known here").under(name)),
        }
    }
}

impl Entries<'_> {
    /// What is left, as a map of its own.
    pub(crate) fn rest(&mut self) -> Value {
        let left = core::mem::take(&mut self.entries);
        Value::Map(left.into_iter().map(|(n, v)| (n.to_owned().into(), v.clone())).collect())
    }
}

/// What an alternative holds, from what its map has beside the `type`: a map itself, or one `value`.
///
/// # Errors
/// Those of what it holds.
pub(crate) fn variant_body<T: NeutralForm>(
    rest: &Value,
    version: Version,
) -> Result<T, ValueError> {
    match rest {
        Value::Map(entries) if entries.len() == 1 => {
            let alone = rest.get("value").map(|value| T::from_value(value, version));
            T::from_value(rest, version).or_else(|wrong| alone.unwrap_or(Err(wrong)))
        }
        _ => T::from_value(rest, version),
    }
}

/// The `type` of an alternative.
///
/// # Errors
/// Its absence.
pub(crate) fn take_type<'a>(entries: &mut Entries<'a>) -> Result<&'a str, ValueError> {
    let kind = entries.take("type").ok_or_else(|| ValueError::new("has no `type`"))?;
    expect_text(kind).map_err(|e| e.under("type"))
}

/// A code as its name in lower case, or as its number.
pub(crate) fn code_to_value(name: Option<&str>, n: u64) -> Value {
    name.map_or_else(|| number_to_value(n), |name| Value::Text(name.to_ascii_lowercase()))
}

/// The number of a code that is told by name or number.
///
/// # Errors
/// A name that none of `rows` has.
pub(crate) fn code_from_value<'r>(
    value: &Value,
    mut rows: impl Iterator<Item = (&'r str, u64)>,
) -> Result<u64, ValueError> {
    if let Value::Text(text) = value
        && let Some(row) = rows.find(|row| row.0.eq_ignore_ascii_case(text))
    {
        return Ok(row.1);
    }
    expect_number(value).map_err(|_| match value {
        Value::Text(text) => ValueError::new(format!("`{text}` is not a name that is known here")),
        other => ValueError::new(format!("expected a name or a number, found {}", other.kind())),
    })
}

/// A set of flags as a list of names; the bits that have none are one number at the end.
pub(crate) fn flags_to_value<'r>(bits: u64, rows: impl Iterator<Item = (&'r str, u64)>) -> Value {
    let (mut left, mut list) = (bits, Vec::new());
    for (name, bit) in rows {
        if left & bit == bit && bit != 0 {
            left &= !bit;
            list.push(Value::Text(name.to_ascii_lowercase()));
        }
    }
    if left != 0 {
        list.push(number_to_value(left));
    }
    Value::List(list)
}

/// The bits of a list of flags, or of one number.
///
/// # Errors
/// A name that none of `rows` has.
pub(crate) fn flags_from_value<'r>(
    value: &Value,
    rows: &(impl Iterator<Item = (&'r str, u64)> + Clone),
) -> Result<u64, ValueError> {
    let Value::List(list) = value else { return expect_number(value) };
    list.iter().try_fold(0, |bits, flag| Ok(bits | code_from_value(flag, rows.clone())?))
}
