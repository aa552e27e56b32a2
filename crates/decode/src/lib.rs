//! OpenFlow messages from files, captures and lines of JSON, told as text or as JSON.
//!
//! What comes in is read piece by piece and what is told is written at once, so a million messages need no more
//! memory than one. Nothing in the input can end the work but its end: what is malformed is told with its place and
//! the `ERROR` that it deserves.

mod batch;
mod capture;
mod hex;
mod input;
mod json;
mod reassembly;
mod report;

use std::io::{self, BufRead, Read, Write};

pub use json::{ValueAsJson, ValueFromJson};
pub use report::{Filter, Format, MessageCounts, Options};

/// Reads everything that `input` has and tells it to `out`.
///
/// The form of the input is seen at its first bytes: a capture (pcap or pcapng), hex digits, or messages as they are
/// on the wire.
///
/// # Errors
/// Those of reading and writing, and a capture whose own structure is broken.
pub fn decode(
    input: impl Read + Send,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    input::decode(input, out, options)
}

/// Reads lines of JSON, `{"hex": "…"}`, and answers each with one line, in the same order.
///
/// # Errors
/// Those of reading and writing.
pub fn batch(input: impl BufRead, out: impl Write, options: Options) -> io::Result<MessageCounts> {
    batch::batch(input, out, options)
}
