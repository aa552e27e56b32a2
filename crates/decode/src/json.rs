//! Conversion of the codec's [`Value`] to and from JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use sluice_openflow::value::Value;

/// A value that serializes as JSON.
#[derive(Debug, Clone, Copy)]
pub struct ValueAsJson<'a>(pub &'a Value);

impl Serialize for ValueAsJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::Number(n) => to.serialize_u64(*n),
            Value::Text(text) => to.serialize_str(text),
            Value::List(list) => to.collect_seq(list.iter().map(ValueAsJson)),
            Value::Map(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    map.serialize_entry(name, &ValueAsJson(value))?;
                }
                map.end()
            }
        }
    }
}

/// A value that deserializes from JSON; keeps the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueFromJson(pub Value);

impl<'de> Deserialize<'de> for ValueFromJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ValueFromJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions and negative numbers")
    }

    fn visit_unit<E: Error>(self) -> Result<ValueFromJson, E> {
        Ok(ValueFromJson(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<ValueFromJson, E> {
        Ok(ValueFromJson(Value::Bool(value)))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<ValueFromJson, E> {
        Ok(ValueFromJson(Value::Number(n)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ValueFromJson, E> {
        Ok(ValueFromJson(Value::text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<ValueFromJson, A::Error> {
        let mut list = Vec::new();
        while let Some(ValueFromJson(value)) = from.next_element()? {
            list.push(value);
        }
        Ok(ValueFromJson(Value::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<ValueFromJson, A::Error> {
        let mut entries: Vec<(Cow<'static, str>, Value)> = Vec::new();
        while let Some((name, ValueFromJson(value))) = from.next_entry::<String, _>()? {
            entries.push((name.into(), value));
        }
        Ok(ValueFromJson(Value::Map(entries)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_order_through_json() {
        let text = r#"{"type":"flow_mod","b":[1,null,true,"x"],"a":{"z":9007199254740992,"y":[]}}"#;
        let ValueFromJson(value) = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&ValueAsJson(&value)).unwrap(), text);
    }

    #[test]
    fn a_negative_number_is_rejected_with_its_position() {
        let error = serde_json::from_str::<ValueFromJson>(r#"{"a": -1}"#).unwrap_err();
        assert_eq!((error.line(), error.column()), (1, 8));
    }
}
