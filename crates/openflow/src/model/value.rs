//! The neutral form of messages: a tree of values, from which JSON and other formats are made and parsed.

use core::fmt;
use std::borrow::Cow;

use super::codec::{Codec, UNNAMED};
use super::reader::Reader;
use crate::{EncodeError, Encoder, Version};

/// A message, or part of one, in the neutral form: a tree like that of JSON.
///
/// | in the message | in the neutral form |
/// | --- | --- |
/// | number | number up to 2^53, larger ones text `0x…` |
/// | bytes | text of hex digits |
/// | address | text, such as `02:00:00:00:00:01` or `10.0.0.0/24` |
/// | code | its name in lower case, otherwise the number |
/// | flags | list of names, with a number for the bits that have no name |
/// | message, action, property or other alternative | map whose entry `type` is its name |
/// | absent optional value | null |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Absent optional value.
    Null,
    /// True or false.
    Bool(bool),
    /// Number without sign.
    Number(u64),
    /// Text.
    Text(String),
    /// Ordered values.
    List(Vec<Self>),
    /// Named values, in order.
    Map(Vec<(Cow<'static, str>, Self)>),
}

/// Why a [`Value`] could not be converted: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// Names and indices from the outermost inwards, separated by dots: `body.flows.0.priority`.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

impl ValueError {
    /// An error in the value itself.
    pub fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    /// The same error in the entry `name` of an enclosing map or list.
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
    /// A [`Text`](Self::Text).
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Name of the kind of value, for error messages: `a number`, `an object`.
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

    /// The entry `name`; `None` if there is none or the value is not a map.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

/// Larger numbers are texts, because many JSON parsers convert numbers to floating point.
const NUMBER_MAX: u64 = 1 << 53;

/// Conversion from and to the neutral form.
pub(crate) trait NeutralForm: Sized {
    /// Converts to the neutral form, with the names that `version` uses.
    fn to_value(&self, version: Version) -> Value;

    /// Converts from the neutral form.
    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError>;
}

/// The number in `value`, which may be a text, decimal or `0x…`.
pub(crate) fn expect_number(value: &Value) -> Result<u64, ValueError> {
    let n = expect_wide_number(value)?;
    u64::try_from(n).map_err(|_| ValueError::new(format!("{n} is over {}", u64::MAX)))
}

/// The number of up to 128 bits in `value`, which may be a text, decimal or `0x…`.
pub(crate) fn expect_wide_number(value: &Value) -> Result<u128, ValueError> {
    match value {
        Value::Number(n) => Ok((*n).into()),
        Value::Text(text) => {
            let parsed = match text.strip_prefix("0x") {
                Some(digits) => u128::from_str_radix(digits, 16),
                None => text.parse(),
            };
            let parsed = parsed.ok().filter(|_| !text.contains('+'));
            parsed.ok_or_else(|| ValueError::new(format!("`{text}` is not a number")))
        }
        other => Err(ValueError::new(format!("expected a number, found {}", other.kind()))),
    }
}

/// Appends an entry to the entries of a map. The code that is generated for each field calls it, so it is not inlined.
#[inline(never)]
pub(crate) fn push_entry(
    map: &mut Vec<(Cow<'static, str>, Value)>,
    name: &'static str,
    value: Value,
) {
    map.push((name.into(), value));
}

/// A number, as text if it is larger than [`NUMBER_MAX`].
pub(crate) fn number_to_value(n: impl Into<u128>) -> Value {
    let n = n.into();
    let small = u64::try_from(n).ok().filter(|&n| n <= NUMBER_MAX);
    small.map_or_else(|| Value::Text(format!("{n:#x}")), Value::Number)
}

/// The text in `value`.
pub(crate) fn expect_text(value: &Value) -> Result<&str, ValueError> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(ValueError::new(format!("expected a text, found {}", other.kind()))),
    }
}

/// Encodes bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes hex digits; white space is ignored.
///
/// # Errors
/// Characters other than hex digits, and an odd number of digits.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        let digit =
            c.to_digit(16).ok_or_else(|| ValueError::new(format!("`{c}` is not a hex digit")))?;
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
                number_to_value(*self)
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
            Value::Bool(value) => Ok(*value),
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

/// Neutral form: hex digits.
impl NeutralForm for Vec<u8> {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(hex(self))
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        unhex(expect_text(value)?)
    }
}

/// Neutral form: hex digits.
impl<const N: usize> NeutralForm for [u8; N] {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(hex(self))
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let bytes = unhex(expect_text(value)?)?;
        bytes.try_into().map_err(|_| ValueError::new(format!("expected {N} bytes")))
    }
}

/// Text in a field of `N` bytes, padded with zeros. Not necessarily UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedString<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for FixedString<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> From<&str> for FixedString<N> {
    /// Text longer than `N` bytes is truncated.
    fn from(text: &str) -> Self {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(text.bytes()).for_each(|(target, byte)| *target = byte);
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

/// Neutral form: text; bytes that are not UTF-8 are a map with the entry `hex`.
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
        let mut padded = [0; N];
        padded.get_mut(..bytes.len()).ok_or_else(too_long)?.copy_from_slice(&bytes);
        Ok(Self(padded))
    }
}

/// Text that extends to the end of the enclosing structure. Not necessarily UTF-8.
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

/// Neutral form: text; bytes that are not UTF-8 are a map with the entry `hex`.
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

/// Converts a list to the neutral form.
pub(crate) fn list_to_value<T: NeutralForm>(list: &[T], version: Version) -> Value {
    Value::List(list.iter().map(|it| it.to_value(version)).collect())
}

/// Converts a list from the neutral form.
///
/// # Errors
/// As for the items, with their index in the path.
pub(crate) fn list_from_value<T: NeutralForm>(
    value: &Value,
    version: Version,
) -> Result<Vec<T>, ValueError> {
    let Value::List(list) = value else {
        return Err(ValueError::new(format!("expected a list, found {}", value.kind())));
    };
    let convert = |(index, item): (usize, &Value)| {
        T::from_value(item, version).map_err(|e| e.under(&index.to_string()))
    };
    list.iter().enumerate().map(convert).collect()
}

/// The entries of a map. Entries are taken by name; [`finish`](Self::finish) refuses those that are left.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    entries: Vec<(&'a str, &'a Value)>,
}

impl<'a> Entries<'a> {
    /// The entries of `value`.
    ///
    /// # Errors
    /// If `value` is not a map.
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

    /// Takes and converts the entry `name`; `None` if it is absent.
    ///
    /// # Errors
    /// As for the entry's type.
    pub(crate) fn read<T: NeutralForm>(
        &mut self,
        name: &'static str,
        version: Version,
    ) -> Result<Option<T>, ValueError> {
        match self.take(name) {
            Some(value) => T::from_value(value, version).map(Some).map_err(|e| e.under(name)),
            None => Ok(None),
        }
    }

    /// Checks that no entry is left.
    ///
    /// # Errors
    /// Names the first entry that is left.
    pub(crate) fn finish(self) -> Result<(), ValueError> {
        match self.entries.first() {
            None => Ok(()),
            Some((name, _)) => Err(ValueError::new("unknown entry").under(name)),
        }
    }
}

impl Entries<'_> {
    /// Takes the entries that are left, as a map.
    pub(crate) fn rest(&mut self) -> Value {
        let left = core::mem::take(&mut self.entries);
        Value::Map(left.into_iter().map(|(n, v)| (n.to_owned().into(), v.clone())).collect())
    }
}

/// Converts the payload of an alternative from the entries beside its `type`: `rest` as a whole, or its only entry
/// `value`.
///
/// # Errors
/// As for the payload's type.
pub(crate) fn variant_body<T: NeutralForm>(
    rest: &Value,
    version: Version,
) -> Result<T, ValueError> {
    match rest {
        Value::Map(entries) if entries.len() == 1 => {
            let alone = rest.get("value").map(|value| T::from_value(value, version));
            T::from_value(rest, version).or_else(|error| alone.unwrap_or(Err(error)))
        }
        _ => T::from_value(rest, version),
    }
}

/// Takes the entry `type` of an alternative.
///
/// # Errors
/// If it is missing or not a text.
pub(crate) fn take_type<'a>(entries: &mut Entries<'a>) -> Result<&'a str, ValueError> {
    let kind = entries.take("type").ok_or_else(|| ValueError::new("missing `type`"))?;
    expect_text(kind).map_err(|e| e.under("type"))
}

/// A code: its name in lower case, otherwise the number.
pub(crate) fn code_to_value(name: Option<&str>, n: impl Into<u128>) -> Value {
    name.map_or_else(|| number_to_value(n), |name| Value::Text(name.to_ascii_lowercase()))
}

/// The number of a code, which is given by name or as a number, which `number` converts.
///
/// # Errors
/// A name that none of `rows` has.
pub(crate) fn code_from_value<'r>(
    value: &Value,
    mut rows: impl Iterator<Item = (&'r str, u128)>,
    number: impl Fn(u128) -> u128,
) -> Result<u128, ValueError> {
    if let Value::Text(text) = value
        && let Some(row) = rows.find(|row| row.0.eq_ignore_ascii_case(text))
    {
        return Ok(row.1);
    }
    expect_wide_number(value).map(number).map_err(|_| match value {
        Value::Text(text) => ValueError::new(format!("unknown name `{text}`")),
        other => ValueError::new(format!("expected a name or a number, found {}", other.kind())),
    })
}

/// Flags as a list of names; bits without a name are one number at the end, which `number` converts.
pub(crate) fn flags_to_value<'r>(
    bits: u128,
    rows: impl Iterator<Item = (&'r str, u128)>,
    number: impl Fn(u128) -> u128,
) -> Value {
    let (mut left, mut list) = (bits, Vec::new());
    for (name, bit) in rows {
        if left & bit == bit && bit != 0 {
            left &= !bit;
            list.push(Value::Text(name.to_ascii_lowercase()));
        }
    }
    if left != 0 {
        list.push(number_to_value(number(left)));
    }
    Value::List(list)
}

/// The bits of a list of flags, which are given by name or as numbers, which `number` converts; or of a number.
///
/// # Errors
/// A name that none of `rows` has.
pub(crate) fn flags_from_value<'r>(
    value: &Value,
    rows: &(impl Iterator<Item = (&'r str, u128)> + Clone),
    number: impl Fn(u128) -> u128,
) -> Result<u128, ValueError> {
    let Value::List(list) = value else { return expect_wide_number(value).map(number) };
    let read = |flag| code_from_value(flag, rows.clone(), &number);
    list.iter().try_fold(0, |bits, flag| Ok(bits | read(flag)?))
}
