//! Reading values of requests: each error names the entry.

use serde_json::{Map, Value};
use sluice_openflow::{PortNo, Version};

use super::literal::integer;
use super::numbers::{Names, PORTS, port_of};
use crate::api::error::ApiError;

pub(super) type ApiResult<T> = Result<T, ApiError>;

/// An object of a request: entries by name, and its own place in the request.
#[derive(Debug, Clone)]
pub(super) struct Object<'v> {
    entries: &'v Map<String, Value>,
    place: String,
}

/// How a value is called in errors.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        value => {
            let mut text = value.to_string();
            if let Some((at, _)) = text.char_indices().nth(64) {
                text.truncate(at);
                text += "…";
            }
            text
        }
    }
}

/// An error about the value at `place`.
pub(super) fn invalid(place: &str, value: &Value, expected: &str) -> ApiError {
    ApiError::invalid(format!("{place} is {}: expected {expected}", kind(value)))
}

/// The whole number in `value`, which may be a text in any notation of Python.
pub(super) fn whole_number(value: &Value) -> Option<u128> {
    match value {
        Value::Number(n) => n.as_u64().map(Into::into),
        Value::String(text) => integer(text).and_then(|n| n.try_into().ok()),
        _ => None,
    }
}

/// A number of up to `max`.
pub(super) fn number_up_to(place: &str, value: &Value, max: u128) -> ApiResult<u128> {
    let number = whole_number(value).filter(|n| *n <= max);
    number.ok_or_else(|| invalid(place, value, &format!("a number from 0 to {max}")))
}

/// A number, or one of `names`.
pub(super) fn named_number(place: &str, value: &Value, names: &Names) -> ApiResult<u64> {
    let number = match value {
        Value::String(text) => names.number(text),
        value => whole_number(value).and_then(|n| n.try_into().ok()),
    };
    number.ok_or_else(|| invalid(place, value, &format!("a number or one of {}", names.known())))
}

/// A port, by number or name.
pub(super) fn port(place: &str, value: &Value, version: Version) -> ApiResult<PortNo> {
    let number = match value {
        // Names are the same in all versions, numbers are not.
        Value::String(text) if integer(text).is_none() => {
            PORTS.number(text).and_then(|n| n.try_into().ok()).map(PortNo)
        }
        value => port_of(named_number(place, value, &PORTS)?, version),
    };
    let bits = if version == Version::V1_0 { 16 } else { 32 };
    number.ok_or_else(|| {
        let expected = format!("a port number of {bits} bits or one of {}", PORTS.known());
        invalid(place, value, &expected)
    })
}

impl<'v> Object<'v> {
    pub(super) fn new(place: &str, value: &'v Value) -> ApiResult<Self> {
        match value {
            Value::Object(entries) => Ok(Self { entries, place: place.into() }),
            value => {
                Err(invalid(if place.is_empty() { "the body" } else { place }, value, "an object"))
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'v Value> {
        self.entries.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'v String, &'v Value)> {
        self.entries.iter()
    }

    /// The place of the entry `name` in the request.
    pub(super) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.into() } else { format!("{}.{name}", self.place) }
    }

    pub(super) fn required(&self, name: &str) -> ApiResult<&'v Value> {
        let missing = || ApiError::invalid(format!("{} is missing", self.place(name)));
        self.get(name).ok_or_else(missing)
    }

    /// A number of up to 64 bits that fits into `T`.
    pub(super) fn number<T: TryFrom<u64>>(&self, name: &str, default: T) -> ApiResult<T> {
        self.get(name).map_or(Ok(default), |value| self.convert(name, value))
    }

    pub(super) fn required_number<T: TryFrom<u64>>(&self, name: &str) -> ApiResult<T> {
        self.convert(name, self.required(name)?)
    }

    fn convert<T: TryFrom<u64>>(&self, name: &str, value: &Value) -> ApiResult<T> {
        let number = whole_number(value).and_then(|n| u64::try_from(n).ok());
        let fitting = number.and_then(|n| T::try_from(n).ok());
        fitting.ok_or_else(|| {
            let bits = 8 * size_of::<T>();
            invalid(&self.place(name), value, &format!("a number of {bits} bits"))
        })
    }

    /// A number, or one of `names`.
    pub(super) fn named<T: TryFrom<u64>>(
        &self,
        name: &str,
        names: &Names,
        default: T,
    ) -> ApiResult<T> {
        let Some(value) = self.get(name) else { return Ok(default) };
        self.named_value(name, value, names)
    }

    pub(super) fn required_named<T: TryFrom<u64>>(
        &self,
        name: &str,
        names: &Names,
    ) -> ApiResult<T> {
        self.named_value(name, self.required(name)?, names)
    }

    fn named_value<T: TryFrom<u64>>(
        &self,
        name: &str,
        value: &Value,
        names: &Names,
    ) -> ApiResult<T> {
        let place = self.place(name);
        let number = T::try_from(named_number(&place, value, names)?).ok();
        let expected = || format!("a number of {} bits", 8 * size_of::<T>());
        number.ok_or_else(|| invalid(&place, value, &expected()))
    }

    pub(super) fn port(&self, name: &str, version: Version, default: PortNo) -> ApiResult<PortNo> {
        let read = |value| port(&self.place(name), value, version);
        self.get(name).map_or(Ok(default), read)
    }

    pub(super) fn text(&self, name: &str) -> ApiResult<Option<&'v str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value) => Err(invalid(&self.place(name), value, "a text")),
        }
    }

    /// The entry `name`, in which an object may be.
    pub(super) fn object(&self, name: &str) -> ApiResult<Option<Self>> {
        self.get(name).map(|value| Self::new(&self.place(name), value)).transpose()
    }

    /// The objects in the list `name`; none if there is no list.
    pub(super) fn objects(&self, name: &str) -> ApiResult<Vec<Self>> {
        let items = match self.get(name) {
            None => return Ok(vec![]),
            Some(Value::Array(items)) => items,
            Some(value) => return Err(invalid(&self.place(name), value, "a list")),
        };
        let object = |(n, item)| Self::new(&self.place(&format!("{name}[{n}]")), item);
        items.iter().enumerate().map(object).collect()
    }

    /// Bytes: the entry `data`, as text or, by `data_type`, as base64.
    pub(super) fn data(&self) -> ApiResult<Vec<u8>> {
        let text = self.text("data")?.unwrap_or_default();
        match self.text("data_type")?.unwrap_or("ascii") {
            "ascii" => {
                let bytes = text.chars().map(|c| u8::try_from(u32::from(c)));
                let expected = "bytes: for others, data_type is \"base64\"";
                let bad = |_| invalid(&self.place("data"), &Value::from(text), expected);
                bytes.collect::<Result<_, _>>().map_err(bad)
            }
            "base64" => super::bytes::from_base64(text)
                .ok_or_else(|| invalid(&self.place("data"), &Value::from(text), "base64")),
            other => {
                let expected = "\"ascii\" or \"base64\"";
                Err(invalid(&self.place("data_type"), &Value::from(other), expected))
            }
        }
    }
}
