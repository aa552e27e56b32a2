//! Decodes OpenFlow messages from captures, hex digits, raw bytes and lines of JSON; writes text or JSON.
//!
//! Input is read in pieces and output is written at once, so a million messages need no more memory than one. Decoding
//! continues after a malformed message; the report says what is wrong, at which byte, and with which `ERROR` a switch or
//! controller should answer.

mod batch;
mod capture;
mod hex;
mod input;
mod reassembly;
mod report;

use std::io::{self, Read, Write};

pub use report::{Filter, Format, MessageCounts, Options};

/// Decodes all messages of `input` and writes them to `out`.
///
/// The first bytes decide the format of the input: a capture (pcap or pcapng), hex digits, or raw messages. The output is
/// flushed before more input is read, so the messages of a live capture are written as they arrive.
///
/// # Errors
/// Those of reading and writing, and a capture whose structure is corrupt.
pub fn decode(
    input: impl Read + Send,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    input::decode(input, out, options)
}

/// Reads lines of JSON, `{"hex": "…"}`, and answers each with one line of JSON, in the same order, before it waits for
/// the next line.
///
/// # Errors
/// Those of reading and writing.
pub fn decode_batch(
    input: impl Read,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    batch::decode(input, out, options)
}
