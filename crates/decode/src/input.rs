//! Detects the format of the input, and decodes hex digits and raw messages.

use std::io::{self, BufRead, Read, Write};

use sluice_openflow::{HEADER_LEN, split_message};

use crate::report::{MessageCounts, Options, Reporter};
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

pub(crate) fn decode(
    mut input: impl Read + Send,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    let mut report = Reporter::new(out, options);
    let mut first = Vec::new();
    input.by_ref().take(4).read_to_end(&mut first)?;
    let input = io::Cursor::new(first.clone()).chain(RetryInterrupted(input));
    if CAPTURE_MAGICS.iter().any(|magic| first == magic) {
        capture::decode(input, &mut report)?;
    } else if first.first().is_none_or(|c| c.is_ascii_hexdigit() || b" \t\r\n#".contains(c)) {
        decode_hex(io::BufReader::new(input), &mut report)?;
    } else {
        decode_raw(input, &mut report)?;
    }
    report.flush()?;
    Ok(report.counts)
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
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; READ_LEN]);
    loop {
        report.flush()?;
        let len = input.read(&mut buffer)?;
        if len == 0 {
            return report_rest(&bytes, report);
        }
        bytes.extend_from_slice(buffer.get(..len).unwrap_or_default());
        if !report_complete(&mut bytes, report)? {
            return Ok(());
        }
    }
}

/// Decodes hex digits. A `#` starts a comment. Lines may have any length.
fn decode_hex<W: Write>(mut input: impl BufRead, report: &mut Reporter<W>) -> io::Result<()> {
    let (mut bytes, mut lines) = (Vec::new(), hex::Lines::default());
    loop {
        report.flush()?;
        let piece = input.fill_buf()?;
        let len = piece.len();
        let result = if len == 0 { lines.finish() } else { lines.decode(piece, &mut bytes) };
        input.consume(len);
        if !report_complete(&mut bytes, report)? {
            return Ok(());
        }
        if let Err(error) = result {
            return report.report_error(&error, None);
        }
        if len == 0 {
            return report_rest(&bytes, report);
        }
    }
}

/// Reports the complete messages at the start of `bytes` and removes them; `false` if the length field of a message is
/// invalid, so that the start of the next one is unknown.
fn report_complete<W: Write>(bytes: &mut Vec<u8>, report: &mut Reporter<W>) -> io::Result<bool> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        match split_message(rest) {
            Ok(Some((msg, _))) => {
                report.report_message(msg.bytes(), None)?;
                at += msg.bytes().len();
            }
            Ok(None) => break,
            Err(_) => {
                report.report_message(rest.get(..HEADER_LEN).unwrap_or(rest), None)?;
                return Ok(false);
            }
        }
    }
    bytes.drain(..at);
    Ok(true)
}

/// Reports the bytes after the last complete message.
fn report_rest<W: Write>(bytes: &[u8], report: &mut Reporter<W>) -> io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { report.report_message(bytes, None) }
}
