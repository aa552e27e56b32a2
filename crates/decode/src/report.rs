//! Writes decoded messages as text or JSON, and counts them.

use std::io::{self, Write};

use sluice_openflow::{
    Encoder, ErrorReason, HEADER_LEN, Hello, Message, MessageType, ParseError, RawMessage, Version,
};

use crate::counts::MessageCounts;
use crate::hex;
use crate::message_stream::StreamEvent;
use crate::record::{JsonRecord, MessageOrigin, ReencodedHex, type_name, write_origin};
use crate::selection::Selection;
use crate::summary::Summary;

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
    /// None; all are just counted.
    None,
}

/// Whether the table of messages by type and direction is written at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SummaryTable {
    /// It is not.
    #[default]
    Off,
    /// It is.
    On,
}

/// What is written, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Output format.
    pub format: Format,
    /// Whether to encode each message again and to compare the bytes.
    pub reencode: bool,
    /// Which messages are written.
    pub filter: Filter,
    /// Which messages are written or counted at all.
    pub selection: Selection,
    /// Whether there is a table at the end.
    pub summary: SummaryTable,
}

/// Writes messages to an output, and counts them.
#[derive(Debug)]
pub(crate) struct Reporter<W> {
    out: W,
    options: Options,
    pub(crate) counts: MessageCounts,
    summary: Option<Summary>,
}

impl<W: Write> Reporter<W> {
    pub(crate) fn new(out: W, options: Options) -> Self {
        let summary = (options.summary == SummaryTable::On).then(Summary::default);
        Self { out, options, counts: MessageCounts::default(), summary }
    }

    /// Which messages are written or counted at all.
    pub(crate) fn selection(&self) -> &Selection {
        &self.options.selection
    }

    /// Writes JSON from now on.
    pub(crate) fn set_json(&mut self) {
        self.options.format = Format::Json;
    }

    /// Decodes and reports the message in `bytes`, which may be malformed, if it is selected.
    pub(crate) fn report_message(
        &mut self,
        bytes: &[u8],
        origin: Option<&MessageOrigin>,
    ) -> io::Result<()> {
        self.record_answer(bytes, origin);
        if !self.selects(bytes) {
            return Ok(());
        }
        let direction = origin.map(|origin| origin.direction);
        let raw = RawMessage::new(bytes);
        if let (Some(summary), Ok(raw)) = (&mut self.summary, raw) {
            summary.record(raw, direction);
        }
        match raw.and_then(|raw| Ok((raw, Message::parse_raw(raw)?))) {
            Ok((raw, message)) => self.well_formed(raw, &message, origin),
            Err(error) => {
                if let (Some(summary), Ok(raw)) = (&mut self.summary, raw) {
                    summary.record_malformed(raw.kind(), direction);
                }
                self.malformed(bytes, error, origin)
            }
        }
    }

    /// Reports what a stream contains besides messages.
    pub(crate) fn report_event(
        &mut self,
        event: StreamEvent<'_>,
        origin: Option<&MessageOrigin>,
    ) -> io::Result<()> {
        match event {
            StreamEvent::Message(message) => self.report_message(message.bytes(), origin),
            StreamEvent::InvalidLength(header) => self.report_message(header, origin),
            StreamEvent::Gap { missing } => {
                self.counts.gaps += 1;
                self.counts.missing_bytes += missing;
                let bytes = if missing == 1 { "byte is" } else { "bytes are" };
                self.report_loss(&format!("{missing} {bytes} missing here in the capture"), origin)
            }
            StreamEvent::Resynchronised { skipped } => {
                self.counts.resynchronised += 1;
                self.counts.skipped_bytes += skipped;
                if skipped == 0 {
                    return Ok(());
                }
                self.report_loss(&format!("{skipped} bytes skipped up to the next message"), origin)
            }
            StreamEvent::NotResynchronised { skipped } => {
                self.counts.skipped_bytes += skipped;
                let text = format!("no message found in the {skipped} bytes that follow");
                self.report_loss(&text, origin)
            }
            // The bytes after the last complete message of a file are a truncated message; those of a capture follow later.
            StreamEvent::Incomplete(bytes) if origin.is_none() => self.report_message(bytes, None),
            StreamEvent::Incomplete(_) => {
                self.counts.incomplete_streams += 1;
                self.report_loss("the stream ends within a message", origin)
            }
            StreamEvent::NotOpenFlow => {
                self.counts.other_streams += 1;
                Ok(())
            }
        }
    }

    /// Reports input that is not a message at all.
    pub(crate) fn report_error(
        &mut self,
        error: &str,
        origin: Option<&MessageOrigin>,
    ) -> io::Result<()> {
        self.counts.malformed += 1;
        if self.options.format == Format::Json || self.options.filter == Filter::None {
            return self.report_loss(error, origin);
        }
        write_origin(&mut self.out, origin)?;
        writeln!(self.out, "malformed: {error}")
    }

    /// Writes that bytes are missing or were skipped, which is no fault of a message.
    fn report_loss(&mut self, text: &str, origin: Option<&MessageOrigin>) -> io::Result<()> {
        if self.options.filter == Filter::None {
            return Ok(());
        }
        if self.options.format == Format::Json {
            let reencoded = self.options.reencode.then_some(ReencodedHex(None));
            let error = Some(text);
            return self.write_record(&JsonRecord { error, reencoded, ..JsonRecord::new(origin) });
        }
        write_origin(&mut self.out, origin)?;
        writeln!(self.out, "{text}")
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the table and the counts that the options ask for.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let is_json = self.options.format == Format::Json;
        match (&self.summary, self.options.filter) {
            (Some(summary), _) if is_json => {
                serde_json::to_writer(&mut self.out, &summary.to_json(&self.counts))?;
                writeln!(self.out)?;
            }
            (Some(summary), _) => write!(self.out, "{summary}{}", self.counts)?,
            (None, Filter::Malformed) if is_json => {
                serde_json::to_writer(&mut self.out, &self.counts)?;
                writeln!(self.out)?;
            }
            (None, Filter::Malformed) => write!(self.out, "{}", self.counts)?,
            (None, Filter::All | Filter::None) => {}
        }
        self.out.flush()
    }

    /// Counts the latency of the request that a message answers, if request or reply is selected.
    fn record_answer(&mut self, reply: &[u8], origin: Option<&MessageOrigin>) {
        let (Some(summary), Some(origin)) = (&mut self.summary, origin) else { return };
        let (Some(answered), Ok(reply)) = (origin.answered, RawMessage::new(reply)) else { return };
        let selection = &self.options.selection;
        let has_type = selection.has_type(answered.request) || selection.has_type(reply.kind());
        if has_type && selection.has_xid(reply.xid()) {
            summary.record_answer(answered, origin.direction.opposite());
        }
    }

    /// Whether a message is selected by its type and transaction id; if it has none, by no more than their absence.
    fn selects(&self, bytes: &[u8]) -> bool {
        let Selection { types, xids, .. } = self.selection();
        if types.is_empty() && xids.is_empty() {
            return true;
        }
        let PartialHeader { message_type, xid, .. } = PartialHeader::of(bytes);
        message_type.map_or(types.is_empty(), |kind| self.selection().has_type(kind))
            && xid.map_or(xids.is_empty(), |xid| self.selection().has_xid(xid))
    }

    fn write_record(&mut self, record: &JsonRecord<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    fn well_formed(
        &mut self,
        raw: RawMessage<'_>,
        message: &Message,
        origin: Option<&MessageOrigin>,
    ) -> io::Result<()> {
        self.counts.well_formed += 1;
        if self.options.filter != Filter::All {
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
        origin: Option<&MessageOrigin>,
    ) -> io::Result<()> {
        self.counts.malformed += 1;
        if self.options.filter == Filter::None {
            return Ok(());
        }
        let (mut text, header) = (error.to_string(), PartialHeader::of(bytes));
        let version = header.version.unwrap_or(Version::V1_0);
        let mut openflow_error = Some(ErrorReason::for_parse_error(error, version).to_string());
        if is_hello_without_padding(bytes) {
            text += "; the last element lacks its padding, which `sluice run` accepts";
            openflow_error = None;
        }
        if self.options.format == Format::Json {
            return self.write_record(&JsonRecord {
                version: header.version.map(|v| v.to_string()),
                r#type: header.message_type.map(type_name),
                xid: header.xid,
                error: Some(&text),
                offset: Some(error.at),
                openflow_error,
                reencoded: self.options.reencode.then_some(ReencodedHex(None)),
                ..JsonRecord::new(origin)
            });
        }
        write_origin(&mut self.out, origin)?;
        write!(self.out, "malformed")?;
        if let (Some(version), Some(message_type)) = (header.version, header.message_type) {
            write!(self.out, " {message_type} (OF{version})")?;
        }
        match openflow_error {
            Some(error) => writeln!(self.out, ": {text}; the reply is ERROR {error}"),
            None => writeln!(self.out, ": {text}"),
        }
    }
}

/// Whether a malformed message is a `HELLO` of which only the padding after the last element is missing.
fn is_hello_without_padding(bytes: &[u8]) -> bool {
    RawMessage::new(bytes).is_ok_and(|raw| {
        raw.kind() == MessageType::HELLO && Hello::parse_without_padding(raw).is_ok()
    })
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

/// Encodes a message in the version and with the transaction id that it was received with.
fn reencode(message: &Message, version: Version, xid: u32) -> Result<Vec<u8>, String> {
    let (mut bytes, mut next_xid) = (Vec::new(), xid);
    let result = message.encode(xid, &mut Encoder::new(&mut bytes, version, &mut next_xid));
    result.map(|()| bytes).map_err(|e| e.to_string())
}
