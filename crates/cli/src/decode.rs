//! `sluice decode`: arguments to options of `sluice_decode`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write as _, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use sluice_decode::{Filter, Format, MessageCounts, Options};

use crate::{EXIT_FAILURE, EXIT_USAGE, print_error};

const EXAMPLES: &str = "\
Examples:
  sluice decode 0414000800000007                 one message, as hex digits
  sluice decode session.pcapng                   all OpenFlow messages of a capture
  sudo tcpdump -i lo -U -w - port 6653 | sluice decode
  sluice decode --check session.pcapng           only what is malformed; exits with 1

Exit codes: 0, 1 if --check found malformed messages, 2 if an input cannot be read.";

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
        match result {
            Ok(()) => {}
            // The reader has closed the pipe, as `head` does.
            Err((_, error)) if error.kind() == ErrorKind::BrokenPipe => {}
            Err((input, error)) => {
                print_error(&format!("cannot read {input}: {error}"));
                return ExitCode::from(EXIT_USAGE);
            }
        }
        if !self.check {
            return ExitCode::SUCCESS;
        }
        // If it cannot be written, the exit code still shows the result.
        let _ = writeln!(stdout(), "{}", self.summary(counts));
        if counts.malformed == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) }
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

    fn decode(&self, input: &str, counts: &mut MessageCounts) -> Result<(), (String, io::Error)> {
        let name = |error| (if input == "-" { "standard input" } else { input }.to_owned(), error);
        let reader = open(input).map_err(name)?;
        let out = BufWriter::new(stdout().lock());
        let decoded = if self.batch.is_some() {
            sluice_decode::decode_batch(BufReader::new(reader), out, self.options())
        } else {
            sluice_decode::decode(reader, out, self.options())
        };
        counts.add(decoded.map_err(name)?);
        Ok(())
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
