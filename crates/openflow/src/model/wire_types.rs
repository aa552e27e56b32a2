//! Encodings of types from outside the model, and encodings that differ from a type's own.

use super::codec::{Choice, Codec, Encoding, ListItem, UNNAMED};
use super::reader::Reader;
use super::value::{
    NeutralForm, Value, ValueError, expect_number, expect_text, list_from_value, list_to_value,
    number_to_value,
};
use crate::{
    DatapathId, EncodeError, Encoder, MacAddr, NO_BUFFER, PortNo, Result, Version, buffered,
};

/// 16 bits in 1.0, 32 bits later.
impl Codec for PortNo {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        if r.version() == Version::V1_0 {
            return r.u16(UNNAMED).map(Self::from_u16);
        }
        r.u32(UNNAMED).map(Self)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if out.version() == Version::V1_0 {
            return self.to_u16()?.encode(out);
        }
        self.0.encode(out)
    }
}

impl ListItem for PortNo {}

/// Neutral form: the name of a reserved port in lower case, otherwise the number.
impl NeutralForm for PortNo {
    fn to_value(&self, _: Version) -> Value {
        let name = Self::NAMES.iter().find(|row| row.0 == *self);
        name.map_or_else(|| number_to_value(self.0), |row| Value::text(row.1))
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        if let Value::Text(text) = value
            && let Some(row) = Self::NAMES.iter().find(|row| row.1.eq_ignore_ascii_case(text))
        {
            return Ok(row.0);
        }
        u32::from_value(value, version).map(Self)
    }
}

impl Codec for MacAddr {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        r.array(UNNAMED).map(Self)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.0.encode(out)
    }
}

impl NeutralForm for MacAddr {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let text = expect_text(value)?;
        let invalid = || ValueError::new(format!("invalid MAC address `{text}`"));
        Self::from_text(text).ok_or_else(invalid)
    }
}

impl Codec for DatapathId {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        u64::parse(r).map(Self)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.0.encode(out)
    }
}

/// Neutral form: sixteen hex digits.
impl NeutralForm for DatapathId {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let Value::Text(text) = value else { return expect_number(value).map(Self) };
        let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
        let id = u64::from_str_radix(&digits, 16).ok().filter(|_| !digits.contains('+'));
        let invalid = || {
            ValueError::new(format!("invalid datapath ID `{text}` (expected 1 to 16 hex digits)"))
        };
        id.map(Self).ok_or_else(invalid)
    }
}

/// A buffer ID; `OFP_NO_BUFFER` (all ones) is `None`.
pub(crate) struct BufferId;

impl Encoding<Option<u32>> for BufferId {
    fn parse(r: &mut Reader<'_>) -> Result<Option<u32>> {
        r.u32(UNNAMED).map(buffered)
    }

    fn encode(value: &Option<u32>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.unwrap_or(NO_BUFFER).encode(out)
    }
}

/// A port number in 16 bits in every version, as in Nicira's extensions.
pub(crate) struct Port16;

impl Encoding<PortNo> for Port16 {
    fn parse(r: &mut Reader<'_>) -> Result<PortNo> {
        r.u16("port").map(PortNo::from_u16)
    }

    fn encode(value: &PortNo, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let version = out.version();
        value.to_u16().map_err(|e| EncodeError { version, needs: None, ..e })?.encode(out)
    }
}

/// A property that older versions encode as fixed fields.
pub(crate) trait FixedFieldsProp: Choice {
    /// The fields; their default value stands for an absent property.
    type Fields: Codec + Default + PartialEq;

    /// The property with these fields.
    fn from_fields(fields: Self::Fields) -> Self;

    /// The fields, if it is this property.
    fn as_fields(&self) -> Option<&Self::Fields>;
}

/// A list of properties as the fixed fields of one of them; the default value if the list is empty.
pub(crate) struct FixedFields;

impl<T: FixedFieldsProp> Encoding<Vec<T>> for FixedFields {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<T>> {
        let fields = T::Fields::parse(r)?;
        Ok(if fields == T::Fields::default() { vec![] } else { vec![T::from_fields(fields)] })
    }

    fn encode(list: &Vec<T>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (version, mut found) = (out.version(), None);
        for property in list {
            match property.as_fields() {
                Some(fields) if found.is_none() => found = Some(fields),
                _ => {
                    property.code(version)?;
                    return Err(EncodeError::new(T::TYPE_NAME, version, Some(Version::V1_4)));
                }
            }
        }
        let absent = T::Fields::default();
        found.unwrap_or(&absent).encode(out)
    }
}

impl<const N: usize> Codec for [u32; N] {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut all = [0; N];
        for n in &mut all {
            *n = u32::parse(r)?;
        }
        Ok(all)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.iter().try_for_each(|n| n.encode(out))
    }
}

impl<const N: usize> NeutralForm for [u32; N] {
    fn to_value(&self, version: Version) -> Value {
        list_to_value(self, version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let list = list_from_value(value, version)?;
        list.try_into().map_err(|_| ValueError::new(format!("expected {N} numbers")))
    }
}
