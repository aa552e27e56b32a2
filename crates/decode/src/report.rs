//! What is told of one message: as JSON, or as text.

use std::io::{self, Write};

use serde::Serialize;
use sluice_openflow::{
    Encoder, ErrorReason, HEADER_LEN, Message, MessageType, ParseError, RawMessage, Version,
};

use crate::hex::hex;
use crate::json::ValueAsJson;

/// How messages are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people, a message a paragraph.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Which messages are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filter {
    /// Every one.
    #[default]
    All,
    /// Those that are malformed; the others are only counted.
    Malformed,
}

/// What is told, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// In which form.
    pub form: Format,
    /// Whether the bytes as we would write them are told as well.
    pub reencode: bool,
    /// Which messages.
    pub tell: Filter,
}

/// How many messages were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Well-formed ones.
    pub good: u64,
    /// Malformed ones, and what should have been one.
    pub malformed: u64,
    /// Streams of a capture that were something else than OpenFlow.
    pub foreign: u64,
}

impl MessageCounts {
    /// Adds what another input had.
    pub fn add(&mut self, other: Self) {
        self.good += other.good;
        self.malformed += other.malformed;
        self.foreign += other.foreign;
    }
}

/// Where in a capture a message was.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PacketOrigin {
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// Sender: address and port.
    pub(crate) from: String,
    /// Receiver: address and port.
    pub(crate) to: String,
}

/// One line of JSON. `docs/decode.md` is its contract.
#[derive(Debug, Serialize)]
struct JsonRecord<'a> {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    place: Option<&'a PacketOrigin>,
    version: Option<String>,
    r#type: Option<String>,
    xid: Option<u32>,
    ok: bool,
    message: Option<ValueAsJson<'a>>,
    error: Option<ErrorText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deserves: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reencoded: Option<ReencodedHex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
}

/// The bytes as we write them, as digits; null for what is malformed or cannot be written.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ReencodedHex(Option<String>);

/// Why something is not told as a message.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ErrorText<'a>(&'a str);

/// Tells messages to an output, and counts them.
#[derive(Debug)]
pub(crate) struct Reporter<W> {
    out: W,
    options: Options,
    pub(crate) tally: MessageCounts,
}

impl<W: Write> Reporter<W> {
    pub(crate) fn new(out: W, options: Options) -> Self {
        Self { out, options, tally: MessageCounts::default() }
    }

    /// Tells the message in `bytes`, which may be none.
    pub(crate) fn message(&mut self, bytes: &[u8], place: Option<&PacketOrigin>) -> io::Result<()> {
        match RawMessage::new(bytes).and_then(|frame| Ok((frame, Message::parse(frame)?))) {
            Ok((frame, message)) => self.good(frame, &message, place),
            Err(error) => self.malformed(bytes, error, place),
        }
    }

    /// Tells that something is not even a message.
    pub(crate) fn fault(&mut self, why: &str, place: Option<&PacketOrigin>) -> io::Result<()> {
        self.tally.malformed += 1;
        if self.options.form == Format::Json {
            let reencoded = self.options.reencode.then_some(ReencodedHex(None));
            return self.line(&JsonRecord {
                error: Some(ErrorText(why)),
                reencoded,
                ..JsonRecord::empty(place)
            });
        }
        prefix(&mut self.out, place)?;
        writeln!(self.out, "malformed: {why}")
    }

    /// Hands on what is held back.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, line: &JsonRecord<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }

    fn good(
        &mut self,
        frame: RawMessage<'_>,
        message: &Message,
        place: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        self.tally.good += 1;
        if self.options.tell == Filter::Malformed {
            return Ok(());
        }
        let (version, xid) = (frame.version(), frame.xid());
        let again = self.options.reencode.then(|| written(message, version, xid));
        if self.options.form == Format::Json {
            let value = message.to_value(version);
            let (reencoded, error) = match &again {
                Some(Ok(bytes)) => (Some(ReencodedHex(Some(hex(bytes)))), None),
                Some(Err(why)) => (Some(ReencodedHex(None)), Some(ErrorText(why))),
                None => (None, None),
            };
            let same = again.as_ref().map(|bytes| bytes.as_deref() == Ok(frame.bytes()));
            let (message, ok) = (Some(ValueAsJson(&value)), true);
            let line =
                JsonRecord { ok, message, error, reencoded, same, ..JsonRecord::of(frame, place) };
            return self.line(&line);
        }
        prefix(&mut self.out, place)?;
        writeln!(self.out, "{}", message.to_text(version, xid).trim_end())?;
        match again {
            None => Ok(()),
            Some(Ok(bytes)) if bytes == frame.bytes() => {
                writeln!(self.out, "  written again: the same")
            }
            Some(Ok(bytes)) => writeln!(self.out, "  written again: {}", hex(&bytes)),
            Some(Err(why)) => writeln!(self.out, "  not written again: {why}"),
        }
    }

    fn malformed(
        &mut self,
        bytes: &[u8],
        error: ParseError,
        place: Option<&PacketOrigin>,
    ) -> io::Result<()> {
        self.tally.malformed += 1;
        let (why, head) = (error.to_string(), Head::of(bytes));
        let version = head.version.unwrap_or(Version::V1_0);
        let deserves = ErrorReason::for_parse_error(error, version).to_string();
        if self.options.form == Format::Json {
            let line = JsonRecord {
                version: head.version.map(|v| v.to_string()),
                r#type: head.kind.and_then(MessageType::name).map(str::to_ascii_lowercase),
                xid: head.xid,
                error: Some(ErrorText(&why)),
                at: Some(error.at),
                deserves: Some(deserves),
                reencoded: self.options.reencode.then_some(ReencodedHex(None)),
                ..JsonRecord::empty(place)
            };
            return self.line(&line);
        }
        prefix(&mut self.out, place)?;
        write!(self.out, "malformed")?;
        if let (Some(version), Some(kind)) = (head.version, head.kind) {
            write!(self.out, " {kind} (OF{version})")?;
        }
        writeln!(self.out, ": {why}; deserves {deserves}")
    }
}

/// What the header says, as far as it is there.
struct Head {
    version: Option<Version>,
    kind: Option<MessageType>,
    xid: Option<u32>,
}

impl Head {
    fn of(bytes: &[u8]) -> Self {
        let version = bytes.first().copied().map(Version);
        let kind = version.zip(bytes.get(1)).map(|(v, &byte)| MessageType::from_wire(v, byte));
        let xid = bytes.get(4..HEADER_LEN).and_then(|xid| xid.first_chunk());
        Self { version, kind, xid: xid.map(|xid| u32::from_be_bytes(*xid)) }
    }
}

impl<'a> JsonRecord<'a> {
    fn empty(place: Option<&'a PacketOrigin>) -> Self {
        Self {
            place,
            version: None,
            r#type: None,
            xid: None,
            ok: false,
            message: None,
            error: None,
            at: None,
            deserves: None,
            reencoded: None,
            same: None,
        }
    }

    fn of(frame: RawMessage<'_>, place: Option<&'a PacketOrigin>) -> Self {
        let name = frame.kind().name().map(str::to_ascii_lowercase);
        Self {
            version: Some(frame.version().to_string()),
            r#type: name.or_else(|| Some(format!("type_{}", frame.type_byte()))),
            xid: Some(frame.xid()),
            ..Self::empty(place)
        }
    }
}

fn prefix(out: &mut impl Write, place: Option<&PacketOrigin>) -> io::Result<()> {
    match place {
        Some(PacketOrigin { time, from, to }) => write!(out, "{time:.6} {from} > {to} "),
        None => Ok(()),
    }
}

/// The message in the bytes that we give it.
fn written(message: &Message, version: Version, xid: u32) -> Result<Vec<u8>, String> {
    let (mut bytes, mut next_xid) = (Vec::new(), xid);
    let said = message.encode(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid));
    said.map(|()| bytes).map_err(|no| no.to_string())
}
