//! What is told of one message: as JSON, or as text.

use std::io::{self, Write};

use serde::Serialize;
use sluice_openflow::{
    Encoder, ErrorReason, HEADER_LEN, Message, MessageType, ParseError, RawMessage, Version,
};

use crate::bytes::hex;
use crate::json::Json;

/// How messages are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// For people, a message a paragraph.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Which messages are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tell {
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
    pub form: Form,
    /// Whether the bytes as we would write them are told as well.
    pub reencode: bool,
    /// Which messages.
    pub tell: Tell,
}

/// How many messages were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Well-formed ones.
    pub good: u64,
    /// Malformed ones, and what should have been one.
    pub malformed: u64,
    /// Streams of a capture that were something else than OpenFlow.
    pub foreign: u64,
}

impl Tally {
    /// Adds what another input had.
    pub fn add(&mut self, other: Self) {
        self.good += other.good;
        self.malformed += other.malformed;
        self.foreign += other.foreign;
    }
}

/// Where in a capture a message was.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Place {
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// Sender: address and port.
    pub(crate) from: String,
    /// Receiver: address and port.
    pub(crate) to: String,
}

/// One line of JSON. `docs/decode.md` is its contract.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    place: Option<&'a Place>,
    version: Option<String>,
    r#type: Option<String>,
    xid: Option<u32>,
    ok: bool,
    message: Option<Json<'a>>,
    error: Option<Fault<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deserves: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reencoded: Option<Again>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
}

/// The bytes as we write them, as digits; null for what is malformed or cannot be written.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Again(Option<String>);

/// Why something is not told as a message.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Fault<'a>(&'a str);

/// Tells messages to an output, and counts them.
#[derive(Debug)]
pub(crate) struct Reporter<W> {
    out: W,
    options: Options,
    pub(crate) tally: Tally,
}

impl<W: Write> Reporter<W> {
    pub(crate) fn new(out: W, options: Options) -> Self {
        Self { out, options, tally: Tally::default() }
    }

    /// Tells the message in `bytes`, which may be none.
    pub(crate) fn message(&mut self, bytes: &[u8], place: Option<&Place>) -> io::Result<()> {
        match RawMessage::new(bytes).and_then(|frame| Ok((frame, Message::parse(frame)?))) {
            Ok((frame, message)) => self.good(frame, &message, place),
            Err(error) => self.malformed(bytes, error, place),
        }
    }

    /// Tells that something is not even a message.
    pub(crate) fn fault(&mut self, why: &str, place: Option<&Place>) -> io::Result<()> {
        self.tally.malformed += 1;
        if self.options.form == Form::Json {
            let reencoded = self.options.reencode.then_some(Again(None));
            return self.line(&Line { error: Some(Fault(why)), reencoded, ..Line::empty(place) });
        }
        prefix(&mut self.out, place)?;
        writeln!(self.out, "malformed: {why}")
    }

    /// Hands on what is held back.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }

    fn good(
        &mut self,
        frame: RawMessage<'_>,
        message: &Message,
        place: Option<&Place>,
    ) -> io::Result<()> {
        self.tally.good += 1;
        if self.options.tell == Tell::Malformed {
            return Ok(());
        }
        let (version, xid) = (frame.version(), frame.xid());
        let again = self.options.reencode.then(|| written(message, version, xid));
        if self.options.form == Form::Json {
            let value = message.to_value(version);
            let (reencoded, error) = match &again {
                Some(Ok(bytes)) => (Some(Again(Some(hex(bytes)))), None),
                Some(Err(why)) => (Some(Again(None)), Some(Fault(why))),
                None => (None, None),
            };
            let same = again.as_ref().map(|bytes| bytes.as_deref() == Ok(frame.bytes()));
            let (message, ok) = (Some(Json(&value)), true);
            let line = Line { ok, message, error, reencoded, same, ..Line::of(frame, place) };
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
        place: Option<&Place>,
    ) -> io::Result<()> {
        self.tally.malformed += 1;
        let (why, head) = (error.to_string(), Head::of(bytes));
        let version = head.version.unwrap_or(Version::V1_0);
        let deserves = ErrorReason::deserved(error, version).to_string();
        if self.options.form == Form::Json {
            let line = Line {
                version: head.version.map(|v| v.to_string()),
                r#type: head.kind.and_then(MessageType::name).map(str::to_ascii_lowercase),
                xid: head.xid,
                error: Some(Fault(&why)),
                at: Some(error.at),
                deserves: Some(deserves),
                reencoded: self.options.reencode.then_some(Again(None)),
                ..Line::empty(place)
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

impl<'a> Line<'a> {
    fn empty(place: Option<&'a Place>) -> Self {
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

    fn of(frame: RawMessage<'_>, place: Option<&'a Place>) -> Self {
        let name = frame.kind().name().map(str::to_ascii_lowercase);
        Self {
            version: Some(frame.version().to_string()),
            r#type: name.or_else(|| Some(format!("type_{}", frame.type_byte()))),
            xid: Some(frame.xid()),
            ..Self::empty(place)
        }
    }
}

fn prefix(out: &mut impl Write, place: Option<&Place>) -> io::Result<()> {
    match place {
        Some(Place { time, from, to }) => write!(out, "{time:.6} {from} > {to} "),
        None => Ok(()),
    }
}

/// The message in the bytes that we give it.
fn written(message: &Message, version: Version, xid: u32) -> Result<Vec<u8>, String> {
    let (mut bytes, mut next_xid) = (Vec::new(), xid);
    let said = message.emit(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid));
    said.map(|()| bytes).map_err(|no| no.to_string())
}
