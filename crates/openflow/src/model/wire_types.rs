//! Values whose form on the wire is not that of their type.

use super::codec::{Choice, Codec, Encoding, ListItem, UNNAMED};
use super::reader::Reader;
use super::value::{
    Plain, Value, ValueError, list_from_value, list_to_value, number, of_number, text_of,
};
use crate::{
    DatapathId, EncodeError, Encoder, MacAddr, NO_BUFFER, PortNo, Result, Version, buffered,
};

/// 16 bits in 1.0, 32 later.
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

/// A reserved port by its name in lower case, any other by its number.
impl Plain for PortNo {
    fn to_value(&self, _: Version) -> Value {
        let name = Self::NAMES.iter().find(|row| row.0 == *self);
        name.map_or_else(|| of_number(self.0.into()), |row| Value::text(row.1))
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

impl Plain for MacAddr {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let text = text_of(value)?;
        Self::from_text(text).ok_or_else(|| ValueError::new(format!("`{text}` is no MAC address")))
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

/// Sixteen hex digits.
impl Plain for DatapathId {
    fn to_value(&self, _: Version) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value, _: Version) -> Result<Self, ValueError> {
        let Value::Text(text) = value else { return number(value).map(Self) };
        let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
        let id = u64::from_str_radix(&digits, 16).ok().filter(|_| !digits.contains('+'));
        id.map(Self).ok_or_else(|| ValueError::new(format!("`{text}` is no datapath id")))
    }
}

/// The slot of a frame in the switch; all ones stand for none.
pub(crate) struct BufferId;

impl Encoding<Option<u32>> for BufferId {
    fn parse(r: &mut Reader<'_>) -> Result<Option<u32>> {
        r.u32(UNNAMED).map(buffered)
    }

    fn encode(value: &Option<u32>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.unwrap_or(NO_BUFFER).encode(out)
    }
}

/// 16 bits in every version, as Nicira's extensions have them.
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

/// A property that older versions lay out as fields which are always there.
pub(crate) trait FixedFieldsProp: Choice {
    /// The fields; their default says nothing.
    type Fields: Codec + Default + PartialEq;

    /// The property.
    fn from_fields(fields: Self::Fields) -> Self;

    /// The fields, if it is that property.
    fn as_fields(&self) -> Option<&Self::Fields>;
}

/// A list of properties as the fields of one of them; without it the fields say nothing.
pub(crate) struct FixedFields;

impl<T: FixedFieldsProp> Encoding<Vec<T>> for FixedFields {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<T>> {
        let fields = T::Fields::parse(r)?;
        Ok(if fields == T::Fields::default() { vec![] } else { vec![T::from_fields(fields)] })
    }

    fn encode(list: &Vec<T>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (version, mut sole) = (out.version(), None);
        for property in list {
            match property.as_fields() {
                Some(fields) if sole.is_none() => sole = Some(fields),
                _ => {
                    property.code(version)?;
                    return Err(EncodeError {
                        what: T::TYPE_NAME,
                        version,
                        needs: Some(Version::V1_4),
                    });
                }
            }
        }
        let nothing = T::Fields::default();
        sole.unwrap_or(&nothing).encode(out)
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

impl<const N: usize> Plain for [u32; N] {
    fn to_value(&self, version: Version) -> Value {
        list_to_value(self, version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let list = list_from_value(value, version)?;
        list.try_into().map_err(|_| ValueError::new(format!("expected {N} numbers")))
    }
}
