//! Writes decoded messages as text or JSON, and counts them.

use std::io::{self, Write};

use serde::Serialize;
use sluice_openflow::value::Value;
use sluice_openflow::{
    Encoder, ErrorReason, HEADER_LEN, Message, MessageType, ParseError, RawMessage, Version,
};

use crate::hex;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Text in the style of `ovs-ofctl`, one paragraph per message.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Which messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filter {
    /// All messages.
    #[default]
    All,
    /// Malformed messages only; the others are just counted.
    Malformed,
}

/// What is written, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Output format.
    pub format: Format,
    /// Whether to encode each message again and to compare the bytes.
    pub reencode: bool,
    /// Which messages are written.
    pub filter: Filter,
}

/// Number of messages decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Well-formed messages.
    pub well_formed: u64,
    /// Malformed messages, and input that is not a message at all.
    pub malformed: u64,
    /// TCP streams of a capture (one per direction) that are not OpenFlow.
    pub other_streams: u64,
}

impl MessageCounts {
    /// Adds the counts of another input.
    pub fn add(&mut self, other: Self) {
        self.well_formed += other.well_formed;
        self.malformed += other.malformed;
        self.other_streams += other.other_streams;
    }
}

/// Time and endpoints of a message in a capture.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PacketOrigin {
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// Sender: address and port.
    pub(crate) from: String,
    /// Receiver: address and port.
    pub(crate) to: String,
}

/// One line of JSON. `docs/decode.md` documents the fields.
#[derive(Debug, Serialize)]
struct JsonRecord<'a> {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    origin: Option<&'a PacketOrigin>,
    version: Option<String>,
    r#type: Option<String>,
    xid: Option<u32>,
    ok: bool,
    message: Option<&'a Value>,
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    openflow_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reencoded: Option<ReencodedHex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
}

/// The message encoded again, as hex digits; null if it is malformed or cannot be encoded.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ReencodedHex(Option<String>);

/// Writes messages to an output, and counts them.
#[derive(Debug)]
pub(crate) struct Reporter<W> {
    out: W,
    options: Options,
    pub(crate) counts: MessageCounts,
}

impl<W: Write> Reporter<W> {
    pub(crate) fn new(out: W, options: Options) -> Self {
        Self { out, options, counts: MessageCounts::default() }
    }

    /// Decodes and reports the message in `bytes`, which may be malformed.
    pub(crate) fn report_message(
        &mut self,
        bytes: &[u8],
        origin: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        match RawMessage::new(bytes).and_then(|raw| Ok((raw, Message::parse_raw(raw)?))) {
            Ok((raw, message)) => self.well_formed(raw, &message, origin),
            Err(error) => self.malformed(bytes, error, origin),
        }
    }

    /// Reports input that is not a message at all.
    pub(crate) fn report_error(
        &mut self,
        error: &str,
        origin: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        self.counts.malformed += 1;
        if self.options.format == Format::Json {
            let reencoded = self.options.reencode.then_some(ReencodedHex(None));
            let error = Some(error);
            return self.write_record(&JsonRecord { error, reencoded, ..JsonRecord::new(origin) });
        }
        write_origin(&mut self.out, origin)?;
        writeln!(self.out, "malformed: {error}")
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn write_record(&mut self, record: &JsonRecord<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    fn well_formed(
        &mut self,
        raw: RawMessage<'_>,
        message: &Message,
        origin: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        self.counts.well_formed += 1;
        if self.options.filter == Filter::Malformed {
            return Ok(());
        }
        let (version, xid) = (raw.version(), raw.xid());
        let reencoded = self.options.reencode.then(|| reencode(message, version, xid));
        if self.options.format == Format::Json {
            let value = message.to_value(version);
            let same = reencoded.as_ref().map(|bytes| bytes.as_deref() == Ok(raw.bytes()));
            let (hex, error) = match &reencoded {
                Some(Ok(bytes)) => (Some(ReencodedHex(Some(hex::encode(bytes)))), None),
                Some(Err(error)) => (Some(ReencodedHex(None)), Some(error.as_str())),
                None => (None, None),
            };
            return self.write_record(&JsonRecord {
                ok: true,
                message: Some(&value),
                error,
                reencoded: hex,
                same,
                ..JsonRecord::of(raw, origin)
            });
        }
        write_origin(&mut self.out, origin)?;
        writeln!(self.out, "{}", message.to_text(version, xid).trim_end())?;
        match reencoded {
            None => Ok(()),
            Some(Ok(bytes)) if bytes == raw.bytes() => {
                writeln!(self.out, "  re-encoded: the same bytes")
            }
            Some(Ok(bytes)) => writeln!(self.out, "  re-encoded: {}", hex::encode(&bytes)),
            Some(Err(error)) => writeln!(self.out, "  cannot be re-encoded: {error}"),
        }
    }

    fn malformed(
        &mut self,
        bytes: &[u8],
        error: ParseError,
        origin: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        self.counts.malformed += 1;
        let (text, header) = (error.to_string(), PartialHeader::of(bytes));
        let version = header.version.unwrap_or(Version::V1_0);
        let openflow_error = ErrorReason::for_parse_error(error, version).to_string();
        if self.options.format == Format::Json {
            return self.write_record(&JsonRecord {
                version: header.version.map(|v| v.to_string()),
                r#type: header
                    .message_type
                    .and_then(MessageType::name)
                    .map(str::to_ascii_lowercase),
                xid: header.xid,
                error: Some(&text),
                offset: Some(error.at),
                openflow_error: Some(openflow_error),
                reencoded: self.options.reencode.then_some(ReencodedHex(None)),
                ..JsonRecord::new(origin)
            });
        }
        write_origin(&mut self.out, origin)?;
        write!(self.out, "malformed")?;
        if let (Some(version), Some(message_type)) = (header.version, header.message_type) {
            write!(self.out, " {message_type} (OF{version})")?;
        }
        writeln!(self.out, ": {text}; the reply is ERROR {openflow_error}")
    }
}

/// The fields of a message's header, as far as they are there.
struct PartialHeader {
    version: Option<Version>,
    message_type: Option<MessageType>,
    xid: Option<u32>,
}

impl PartialHeader {
    fn of(bytes: &[u8]) -> Self {
        let version = bytes.first().copied().map(Version);
        let message_type =
            version.zip(bytes.get(1)).map(|(v, &byte)| MessageType::from_wire(v, byte));
        let xid = bytes.get(4..HEADER_LEN).and_then(|xid| xid.first_chunk());
        Self { version, message_type, xid: xid.map(|xid| u32::from_be_bytes(*xid)) }
    }
}

impl<'a> JsonRecord<'a> {
    fn new(origin: Option<&'a PacketOrigin>) -> Self {
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

    fn of(raw: RawMessage<'_>, origin: Option<&'a PacketOrigin>) -> Self {
        let name = raw.kind().name().map(str::to_ascii_lowercase);
        Self {
            version: Some(raw.version().to_string()),
            r#type: name.or_else(|| Some(format!("type_{}", raw.type_byte()))),
            xid: Some(raw.xid()),
            ..Self::new(origin)
        }
    }
}

fn write_origin(out: &mut impl Write, origin: Option<&PacketOrigin>) -> io::Result<()> {
    match origin {
        Some(PacketOrigin { time, from, to }) => write!(out, "{time:.6} {from} > {to} "),
        None => Ok(()),
    }
}

/// Encodes a message in the version and with the transaction id that it was received with.
fn reencode(message: &Message, version: Version, xid: u32) -> Result<Vec<u8>, String> {
    let (mut bytes, mut next_xid) = (Vec::new(), xid);
    let result = message.encode(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid));
    result.map(|()| bytes).map_err(|e| e.to_string())
}
