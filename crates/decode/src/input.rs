//! Detects the format of the input, and decodes hex digits and raw messages.

use std::io::{self, BufRead, Read, Write};

use crate::message_stream::MessageStream;
use crate::report::Reporter;
use crate::{capture, hex};

/// First bytes of a capture: pcap in both byte orders and both time resolutions, pcapng.
const CAPTURE_MAGICS: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Bytes per read.
const READ_LEN: usize = 64 << 10;

/// Decodes `input` and reports its messages.
pub(crate) fn decode<W: Write>(
    mut input: impl Read + Send,
    report: &mut Reporter<W>,
) -> io::Result<()> {
    let mut first = Vec::new();
    input.by_ref().take(4).read_to_end(&mut first)?;
    let input = io::Cursor::new(first.clone()).chain(RetryInterrupted(input));
    if CAPTURE_MAGICS.iter().any(|magic| first == magic) {
        capture::decode(input, report)?;
    } else if !report.selection().has_all_dpids() {
        let error = if first.is_empty() {
            "the input is empty"
        } else {
            "messages cannot be selected by datapath id: this is not a capture"
        };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    } else if first.first().is_none_or(|c| c.is_ascii_hexdigit() || b" \t\r\n#".contains(c)) {
        decode_hex(io::BufReader::new(input), report)?;
    } else {
        decode_raw(input, report)?;
    }
    report.flush()
}

/// Repeats a read that a signal interrupts.
struct RetryInterrupted<R>(R);

impl<R: Read> Read for RetryInterrupted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Decodes messages as they are on the wire.
fn decode_raw<W: Write>(mut input: impl Read, report: &mut Reporter<W>) -> io::Result<()> {
    let (mut messages, mut buffer) = (MessageStream::of_messages(), vec![0; READ_LEN]);
    loop {
        report.flush()?;
        let len = input.read(&mut buffer)?;
        if len == 0 {
            return messages.finish(&mut |event| report.report_event(event, None));
        }
        let bytes = buffer.get(..len).unwrap_or_default();
        messages.push(bytes, &mut |event| report.report_event(event, None))?;
    }
}

/// Decodes hex digits. A `#` starts a comment. Lines may have any length.
fn decode_hex<W: Write>(mut input: impl BufRead, report: &mut Reporter<W>) -> io::Result<()> {
    let mut messages = MessageStream::of_messages();
    let (mut bytes, mut lines) = (Vec::new(), hex::Lines::default());
    loop {
        report.flush()?;
        let piece = input.fill_buf()?;
        let len = piece.len();
        bytes.clear();
        let result = if len == 0 { lines.finish() } else { lines.decode(piece, &mut bytes) };
        input.consume(len);
        messages.push(&bytes, &mut |event| report.report_event(event, None))?;
        if let Err(error) = result {
            return report.report_error(&error, None);
        }
        if len == 0 {
            return messages.finish(&mut |event| report.report_event(event, None));
        }
    }
}
