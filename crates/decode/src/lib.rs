//! Decodes OpenFlow messages from captures, live packets, hex digits, raw bytes and lines of JSON; writes text or JSON.
//!
//! Input is read in pieces and output is written at once, so a million messages need no more memory than one. Decoding
//! continues after a malformed message; the report says what is wrong, at which byte, and with which `ERROR` a switch or
//! controller should answer.

mod batch;
mod capture;
mod connections;
mod counts;
mod hex;
mod input;
mod live;
mod message_stream;
mod pairing;
mod record;
mod report;
mod resync;
mod selection;
mod summary;

use std::io::{self, Read, Write};

pub use counts::{KernelCounts, MessageCounts};
pub use live::LiveDecoder;
pub use report::{Filter, Format, Options, SummaryTable};
pub use selection::Selection;

use report::Reporter;

/// Decodes inputs one after the other and writes their messages to one output.
#[derive(Debug)]
pub struct Decoder<W> {
    report: Reporter<W>,
}

impl<W: Write> Decoder<W> {
    /// A decoder that writes to `out`.
    pub fn new(out: W, options: Options) -> Self {
        Self { report: Reporter::new(out, options) }
    }

    /// Decodes all messages of `input`.
    ///
    /// The first bytes decide the format of the input: a capture (pcap or pcapng), hex digits, or raw messages. The output is
    /// flushed before more input is read, so the messages of a capture that is being written are decoded as they arrive.
    ///
    /// # Errors
    /// Those of reading and writing, and a capture whose structure is corrupt or whose link type is not supported.
    pub fn decode(&mut self, input: impl Read + Send) -> io::Result<()> {
        input::decode(input, &mut self.report)
    }

    /// Reads lines of JSON, `{"hex": "…"}`, and answers each with one line of JSON, in the same order, before it waits for
    /// the next line.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn decode_batch(&mut self, input: impl Read) -> io::Result<()> {
        batch::decode(input, &mut self.report)
    }

    /// Decodes packets of a live capture.
    pub fn follow(self) -> LiveDecoder<W> {
        LiveDecoder::new(self.report)
    }

    /// Writes the table and counts that the options ask for.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> io::Result<MessageCounts> {
        self.report.finish()?;
        Ok(self.report.counts)
    }
}
