//! `sluice decode`: arguments to options of `sluice_decode`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, StdoutLock, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use sluice_decode::{Filter, Format, MessageCounts, Options};

use crate::{EXIT_FAILURE, EXIT_USAGE, output_error, print_error, write_stdout};

const EXAMPLES: &str = "\
Examples:
  sluice decode 0414000800000007                 one message, as hex digits
  sluice decode session.pcapng                   all OpenFlow messages of a capture
  sudo tcpdump -i lo -U -w - port 6653 | sluice decode
  sluice decode --check session.pcapng           only what is malformed; exits with 1

Exit codes: 0, 1 if --check found malformed messages, 2 if an input cannot be read or the output cannot be written.";

/// Decode OpenFlow messages, as text or JSON.
///
/// Decodes all messages of OpenFlow 1.0 to 1.5 and the Nicira extensions. The first
/// bytes decide the format of an input: a capture (pcap or pcapng, any TCP port), hex
/// digits (a `#` starts a comment), or raw messages as on the wire.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = EXAMPLES)]
pub(crate) struct DecodeArgs {
    /// Files, or hex digits; `-` or nothing for standard input.
    #[arg(value_name = "FILE|HEX")]
    inputs: Vec<String>,
    /// Write one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Encode each message again, and compare the bytes.
    #[arg(long)]
    reencode: bool,
    /// Write only malformed messages, each with the error and its position, then the number of messages; exit with 1 if
    /// any is malformed.
    #[arg(long)]
    check: bool,
    /// Read lines of JSON, `{"hex": "..."}`, and write a line of JSON for each; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    batch: Option<String>,
}

impl DecodeArgs {
    pub(crate) fn run(&self) -> ExitCode {
        let mut counts = MessageCounts::default();
        let result = match &self.batch {
            Some(input) => self.decode(input, &mut counts),
            None if self.inputs.is_empty() => self.decode("-", &mut counts),
            None => self.inputs.iter().try_for_each(|input| self.decode(input, &mut counts)),
        };
        let result = result.and_then(|()| {
            let summary = if self.check { self.summary(counts) + "\n" } else { String::new() };
            write_stdout(&summary).map_err(DecodeError::Failed)
        });
        match result {
            Err(DecodeError::Failed(error)) => {
                print_error(&error);
                ExitCode::from(EXIT_USAGE)
            }
            _ if !self.check => ExitCode::SUCCESS,
            Ok(()) if counts.malformed == 0 => ExitCode::SUCCESS,
            // If the reader has closed the pipe, what it did not want was a malformed message.
            Ok(()) | Err(DecodeError::OutputClosed) => ExitCode::from(EXIT_FAILURE),
        }
    }

    /// The last line of `--check`.
    fn summary(&self, counts: MessageCounts) -> String {
        let MessageCounts { well_formed, malformed, other_streams } = counts;
        if self.json || self.batch.is_some() {
            return format!(
                r#"{{"well_formed":{well_formed},"malformed":{malformed},"other_streams":{other_streams}}}"#
            );
        }
        let messages = if well_formed == 1 { "message" } else { "messages" };
        let streams = match other_streams {
            0 => String::new(),
            1 => "; 1 TCP stream is not OpenFlow".to_owned(),
            n => format!("; {n} TCP streams are not OpenFlow"),
        };
        format!("{well_formed} well-formed {messages}, {malformed} malformed{streams}")
    }

    fn options(&self) -> Options {
        Options {
            format: if self.json { Format::Json } else { Format::Text },
            reencode: self.reencode,
            filter: if self.check { Filter::Malformed } else { Filter::All },
        }
    }

    fn decode(&self, input: &str, counts: &mut MessageCounts) -> Result<(), DecodeError> {
        let name = if input == "-" { "standard input" } else { input };
        let cannot_read = |e| DecodeError::Failed(format!("cannot read {name}: {e}"));
        let reader = open(input).map_err(cannot_read)?;
        let mut out = Output { inner: BufWriter::new(stdout().lock()), has_failed: false };
        let decoded = if self.batch.is_some() {
            sluice_decode::decode_batch(reader, &mut out, self.options())
        } else {
            sluice_decode::decode(reader, &mut out, self.options())
        };
        counts.add(decoded.map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe if out.has_failed => DecodeError::OutputClosed,
            _ if out.has_failed => DecodeError::Failed(output_error(&e)),
            _ => cannot_read(e),
        })?);
        Ok(())
    }
}

/// Why decoding ended early.
#[derive(Debug)]
enum DecodeError {
    /// The reader has closed the pipe, as `head` does.
    OutputClosed,
    /// The message of another error.
    Failed(String),
}

/// Standard output, which records whether an error of decoding was one of writing.
struct Output {
    inner: BufWriter<StdoutLock<'static>>,
    has_failed: bool,
}

impl Output {
    fn record<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.has_failed |= result.is_err();
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.record(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.record(result)
    }
}

/// Opens what an argument names: standard input, a file, or else hex digits.
fn open(input: &str) -> io::Result<Box<dyn Read + Send>> {
    if input == "-" {
        return Ok(Box::new(stdin()));
    }
    let is_hex = input.chars().all(|c| c.is_ascii_hexdigit() || c.is_whitespace());
    if is_hex && !input.is_empty() && !Path::new(input).exists() {
        return Ok(Box::new(io::Cursor::new(input.to_owned())));
    }
    Ok(Box::new(File::open(input)?))
}
