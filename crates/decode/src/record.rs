//! The JSON form of a message, and where it comes from.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use sluice_openflow::value::Value;
use sluice_openflow::{DatapathId, MessageType, RawMessage};

use crate::pairing::AnsweredRequest;

/// Direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    ToSwitch,
    ToController,
}

impl Direction {
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::ToSwitch => Self::ToController,
            Self::ToController => Self::ToSwitch,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ToSwitch => "to switch",
            Self::ToController => "to controller",
        }
    }
}

/// Time and connection of a message in a capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageOrigin {
    /// Time since 1970.
    pub(crate) time: Duration,
    /// Sender.
    pub(crate) from: SocketAddr,
    /// Receiver.
    pub(crate) to: SocketAddr,
    pub(crate) direction: Direction,
    /// Datapath id of the switch, once known.
    pub(crate) dpid: Option<DatapathId>,
    /// The request that the message answers.
    pub(crate) answered: Option<AnsweredRequest>,
}

/// Fields of the [`JsonRecord`].
impl Serialize for MessageOrigin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("time", &self.time.as_secs_f64())?;
        fields.serialize_entry("from", &self.from)?;
        fields.serialize_entry("to", &self.to)?;
        if let Some(dpid) = self.dpid {
            fields.serialize_entry("dpid", &dpid.to_string())?;
        }
        if let Some(AnsweredRequest { request, latency }) = self.answered {
            fields.serialize_entry("request", &type_name(request))?;
            fields.serialize_entry("latency_us", &microseconds(latency))?;
        }
        fields.end()
    }
}

/// The name of a type in JSON: `flow_mod`, or `type_99` if it has none.
pub(crate) fn type_name(message_type: MessageType) -> String {
    let name = message_type.name().map(str::to_ascii_lowercase);
    name.unwrap_or_else(|| format!("type_{}", message_type.0 & 0xff))
}

/// A time in microseconds, with up to three decimals.
#[expect(clippy::cast_precision_loss, reason = "exact to the nanosecond for 100 days")]
pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// One line of JSON. `docs/decode.md` documents the fields.
#[derive(Debug, Serialize)]
pub(crate) struct JsonRecord<'a> {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<&'a MessageOrigin>,
    pub(crate) version: Option<String>,
    pub(crate) r#type: Option<String>,
    pub(crate) xid: Option<u32>,
    pub(crate) ok: bool,
    pub(crate) message: Option<&'a Value>,
    pub(crate) error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) openflow_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reencoded: Option<ReencodedHex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) same: Option<bool>,
}

/// The message encoded again, as hex digits; null if it is malformed or cannot be encoded.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ReencodedHex(pub(crate) Option<String>);

impl<'a> JsonRecord<'a> {
    pub(crate) fn new(origin: Option<&'a MessageOrigin>) -> Self {
        Self {
            origin,
            version: None,
            r#type: None,
            xid: None,
            ok: false,
            message: None,
            error: None,
            offset: None,
            openflow_error: None,
            reencoded: None,
            same: None,
        }
    }

    pub(crate) fn of(raw: RawMessage<'_>, origin: Option<&'a MessageOrigin>) -> Self {
        Self {
            version: Some(raw.version().to_string()),
            r#type: Some(type_name(raw.kind())),
            xid: Some(raw.xid()),
            ..Self::new(origin)
        }
    }
}

/// Writes what precedes a message in the text form.
pub(crate) fn write_origin(out: &mut impl Write, origin: Option<&MessageOrigin>) -> io::Result<()> {
    let Some(MessageOrigin { time, from, to, dpid, answered, .. }) = origin else { return Ok(()) };
    write!(out, "{}.{:06} {from} > {to} ", time.as_secs(), time.subsec_micros())?;
    let latency = answered.map(|answered| answered.latency.as_secs_f64() * 1e3);
    match (dpid, latency) {
        (None, None) => Ok(()),
        (Some(dpid), None) => write!(out, "[dpid={dpid}] "),
        (None, Some(latency)) => write!(out, "[latency={latency:.3}ms] "),
        (Some(dpid), Some(latency)) => write!(out, "[dpid={dpid} latency={latency:.3}ms] "),
    }
}
