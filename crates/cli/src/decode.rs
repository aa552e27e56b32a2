//! `sluice decode`: tells what OpenFlow messages say.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write as _, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use sluice_decode::{Filter, Format, MessageCounts, Options};

use crate::{EXIT_FAILURE, EXIT_USAGE, print_error};

/// Tells what OpenFlow messages of any version, 1.0 to 1.5, say: from hex digits, files, captures or standard input.
///
/// The form of an input is seen at its first bytes: a capture (pcap or pcapng, any port), hex digits (what follows a
/// `#` is for people), or messages as they are on the wire.
#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// Files, or hex digits; `-` or nothing for standard input.
    #[arg(value_name = "FILE|HEX")]
    inputs: Vec<String>,
    /// Tells one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Adds the bytes as we write them again, and whether they are the same.
    #[arg(long)]
    reencode: bool,
    /// Tells only what is malformed: what, where, and which ERROR it deserves. Exits with 1 if anything is.
    #[arg(long)]
    check: bool,
    /// Reads lines of JSON, `{"hex": "..."}`, and answers each with a line of JSON; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    batch: Option<String>,
}

impl Decode {
    pub(crate) fn run(&self) -> ExitCode {
        let mut tally = MessageCounts::default();
        let done = match &self.batch {
            Some(input) => self.tell(input, &mut tally),
            None if self.inputs.is_empty() => self.tell("-", &mut tally),
            None => self.inputs.iter().try_for_each(|input| self.tell(input, &mut tally)),
        };
        match done {
            Ok(()) => {}
            // A reader that has gone is content with what it has.
            Err((_, error)) if error.kind() == ErrorKind::BrokenPipe => {}
            Err((input, error)) => {
                print_error(&format!("{input}: {error}"));
                return ExitCode::from(EXIT_USAGE);
            }
        }
        if !self.check {
            return ExitCode::SUCCESS;
        }
        let MessageCounts { good, malformed, foreign } = tally;
        // If nobody hears it, the exit code still says it.
        let _ = writeln!(
            stderr(),
            "{good} well-formed, {malformed} malformed; {foreign} streams are no OpenFlow"
        );
        if malformed == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) }
    }

    fn options(&self) -> Options {
        Options {
            form: if self.json { Format::Json } else { Format::Text },
            reencode: self.reencode,
            tell: if self.check { Filter::Malformed } else { Filter::All },
        }
    }

    fn tell(&self, input: &str, tally: &mut MessageCounts) -> Result<(), (String, io::Error)> {
        let of = |error| (if input == "-" { "standard input" } else { input }.to_owned(), error);
        let from = open(input).map_err(of)?;
        let out = BufWriter::new(stdout().lock());
        let told = if self.batch.is_some() {
            sluice_decode::batch(BufReader::new(from), out, self.options())
        } else {
            sluice_decode::decode(from, out, self.options())
        };
        tally.add(told.map_err(of)?);
        Ok(())
    }
}

/// What an argument names: standard input, a file, or else digits.
fn open(input: &str) -> io::Result<Box<dyn Read + Send>> {
    if input == "-" {
        return Ok(Box::new(stdin()));
    }
    let digits = input.chars().all(|c| c.is_ascii_hexdigit() || c.is_whitespace());
    if digits && !input.is_empty() && !Path::new(input).exists() {
        return Ok(Box::new(io::Cursor::new(input.to_owned())));
    }
    Ok(Box::new(File::open(input)?))
}
