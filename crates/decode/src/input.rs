//! Which form an input has, and messages one after the other in it.

use std::io::{self, BufRead, Read, Write};

use sluice_openflow::{HEADER_LEN, split_message};

use crate::report::{MessageCounts, Options, Reporter};
use crate::{capture, hex};

/// First bytes of a capture: pcap in both byte orders and both precisions, pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Bytes read at once.
const PIECE: usize = 64 << 10;

pub(crate) fn decode(
    mut input: impl Read + Send,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    let mut report = Reporter::new(out, options);
    let mut first = Vec::new();
    input.by_ref().take(4).read_to_end(&mut first)?;
    let whole = io::Cursor::new(first.clone()).chain(input);
    if CAPTURES.iter().any(|magic| first == magic) {
        capture::decode(FullReads(whole), &mut report)?;
    } else if first.first().is_none_or(|c| c.is_ascii_hexdigit() || b" \t\r\n#".contains(c)) {
        hex(io::BufReader::new(whole), &mut report)?;
    } else {
        binary(whole, &mut report)?;
    }
    report.flush()?;
    Ok(report.tally)
}

/// Reads as much as is asked for, unless the input ends: what parses captures takes a short read for the end.
struct FullReads<R>(R);

impl<R: Read> Read for FullReads<R> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while let Some(rest) = place.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest)? {
                0 => break,
                n => len += n,
            }
        }
        Ok(len)
    }
}

/// Messages as they are on the wire.
fn binary<W: Write>(mut input: impl Read, report: &mut Reporter<W>) -> io::Result<()> {
    let (mut held, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let len = input.read(&mut piece)?;
        if len == 0 {
            return rest(&held, report);
        }
        held.extend_from_slice(piece.get(..len).unwrap_or_default());
        if !cut(&mut held, report)? {
            return Ok(());
        }
    }
}

/// The same as hex digits; what follows a `#` is for people.
fn hex<W: Write>(input: impl BufRead, report: &mut Reporter<W>) -> io::Result<()> {
    let mut held = Vec::new();
    for (n, line) in input.lines().enumerate() {
        let line = line?;
        let digits = line.split_once('#').map_or(line.as_str(), |(digits, _)| digits);
        match hex::unhex(digits) {
            Ok(bytes) => held.extend_from_slice(&bytes),
            Err(why) => return report.fault(&format!("line {}: {why}", n + 1), None),
        }
        if !cut(&mut held, report)? {
            return Ok(());
        }
    }
    rest(&held, report)
}

/// Tells the whole messages at the start of `held` and leaves the rest; says whether another can follow.
fn cut<W: Write>(held: &mut Vec<u8>, report: &mut Reporter<W>) -> io::Result<bool> {
    let mut at = 0;
    while let Some(bytes) = held.get(at..) {
        match split_message(bytes) {
            Ok(Some((frame, _))) => {
                report.message(frame.bytes(), None)?;
                at += frame.bytes().len();
            }
            Ok(None) => break,
            Err(_) => {
                // Nobody can tell where the next message begins.
                report.message(bytes.get(..HEADER_LEN).unwrap_or(bytes), None)?;
                return Ok(false);
            }
        }
    }
    held.drain(..at);
    Ok(true)
}

/// Tells what is left behind the last whole message.
fn rest<W: Write>(held: &[u8], report: &mut Reporter<W>) -> io::Result<()> {
    if held.is_empty() { Ok(()) } else { report.message(held, None) }
}
