//! The optional feature `serde`: values of the model are serialized as their neutral form, [`Value`].
//!
//! The names are those of [`Message::to_value`](super::Message::to_value) and of `sluice decode --json`, but no version is
//! known here: records have all their fields, and a name that changed between versions is the first one.

/// Implements `Serialize` and `Deserialize` for a type with a neutral form, if the feature `serde` is enabled.
#[cfg(feature = "serde")]
macro_rules! serde_by_value {
    ($($name:ty),* $(,)?) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use $crate::model::serde_impls::ANY_VERSION;
                $crate::model::value::NeutralForm::to_value(self, ANY_VERSION).serialize(to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                use $crate::model::serde_impls::ANY_VERSION;
                let value = <$crate::model::value::Value as serde::Deserialize>::deserialize(from)?;
                $crate::model::value::NeutralForm::from_value(&value, ANY_VERSION)
                    .map_err(serde::de::Error::custom)
            }
        }
    )*};
}

#[cfg(not(feature = "serde"))]
macro_rules! serde_by_value {
    ($($name:ty),* $(,)?) => {};
}

pub(crate) use serde_by_value;

#[cfg(feature = "serde")]
pub(crate) use with_serde::ANY_VERSION;

#[cfg(feature = "serde")]
mod with_serde {
    use core::fmt;
    use std::borrow::Cow;

    use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
    use serde::ser::{Serialize, SerializeMap, Serializer};

    use super::super::*;
    use crate::{DatapathId, MacAddr, PortNo, Version};

    /// No known version, so that the neutral form contains the fields of all versions.
    pub(crate) const ANY_VERSION: Version = Version(0);

    serde_by_value!(
        BitRange,
        ByteString,
        DatapathId,
        Elapsed,
        EmbeddedMessage,
        ErrorMsg,
        FieldHeader,
        FieldId,
        Learn2Action,
        LearnSpec,
        MacAddr,
        Match,
        NatRange,
        Oxm,
        PortNo,
        QueueGetConfigReply,
        Stats,
        TableIds,
    );

    impl Serialize for Value {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self {
                Self::Null => to.serialize_unit(),
                Self::Bool(value) => to.serialize_bool(*value),
                Self::Number(n) => to.serialize_u64(*n),
                Self::Text(text) => to.serialize_str(text),
                Self::List(list) => to.collect_seq(list),
                Self::Map(entries) => {
                    let mut map = to.serialize_map(Some(entries.len()))?;
                    for (name, value) in entries {
                        map.serialize_entry(name, value)?;
                    }
                    map.end()
                }
            }
        }
    }

    /// Keeps the order of names. Needs a self-describing format, such as JSON.
    impl<'de> Deserialize<'de> for Value {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_any(ValueVisitor)
        }
    }

    struct ValueVisitor;

    impl<'de> Visitor<'de> for ValueVisitor {
        type Value = Value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON without fractions and negative numbers")
        }

        fn visit_unit<E: Error>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
            Ok(Value::Bool(value))
        }

        fn visit_u64<E: Error>(self, n: u64) -> Result<Value, E> {
            Ok(Value::Number(n))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
            Ok(Value::text(text))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
            let mut list = Vec::new();
            while let Some(value) = from.next_element()? {
                list.push(value);
            }
            Ok(Value::List(list))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
            let mut entries: Vec<(Cow<'static, str>, Value)> = Vec::new();
            while let Some((name, value)) = from.next_entry::<String, _>()? {
                entries.push((name.into(), value));
            }
            Ok(Value::Map(entries))
        }
    }
}
