//! `sluice decode`: arguments to options of `sluice_decode`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, StdoutLock, Write, stdin, stdout};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;
use sluice_decode::{
    Decoder, Filter, Format, KernelCounts, MessageCounts, Options, Selection, SummaryTable,
};
use sluice_io::packet_socket::PacketSocket;
use sluice_io::{clock, poll};
use sluice_openflow::{DatapathId, MessageType};

use crate::{EXIT_FAILURE, EXIT_USAGE, output_error, print_error, signals};

const EXAMPLES: &str = "\
Examples:
  sluice decode 0414000800000007                 one message, as hex digits
  sluice decode session.pcapng                   all OpenFlow messages of a capture
  sudo sluice decode --follow -i lo              what controller and switches send now
  sluice decode --type flow_mod,error --dpid 2a session.pcapng
  sluice decode --summary session.pcapng         counts and latencies by type
  sluice decode --check session.pcapng           only what is malformed; exits with 1

Exit codes: 0, 1 if --check found malformed messages, 2 if an input cannot be read or the output cannot be written.";

/// Interval at which a live capture that is idle looks for connections that wait for lost packets.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Packets after which a live capture that is never idle writes its output.
const PACKETS_PER_FLUSH: usize = 1024;

/// Decode OpenFlow messages, as text or JSON.
///
/// Decodes all messages of OpenFlow 1.0 to 1.5 and the Nicira extensions. The first
/// bytes decide the format of an input: a capture (pcap or pcapng, any TCP port), hex
/// digits (a `#` starts a comment), or raw messages as on the wire.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
#[command(verbatim_doc_comment, after_help = EXAMPLES)]
pub(crate) struct DecodeArgs {
    /// Files, or hex digits; `-` or nothing for standard input.
    #[arg(value_name = "FILE|HEX")]
    inputs: Vec<String>,
    /// Decode what an interface sends and receives, until SIGINT; needs root or `CAP_NET_RAW`.
    #[arg(long, requires = "interface", conflicts_with_all = ["inputs", "batch"])]
    follow: bool,
    /// Network interface of --follow; `any` for all.
    #[arg(short, long, value_name = "NAME", requires = "follow")]
    interface: Option<String>,
    /// Only messages of these switches: datapath ids in hex, separated by commas. Captures only.
    #[arg(long, value_name = "DPID", value_delimiter = ',', value_parser = parse_dpid)]
    dpid: Vec<DatapathId>,
    /// Only these message types, separated by commas: `flow_mod`, `packet_in`, `error`, ...
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = parse_type)]
    types: Vec<MessageType>,
    /// Only these transaction ids, separated by commas: decimal, or hex with 0x.
    #[arg(long, value_name = "XID", value_delimiter = ',', value_parser = parse_xid)]
    xid: Vec<u32>,
    /// Write a table at the end instead of messages: counts, errors and latencies by type and direction.
    #[arg(long)]
    summary: bool,
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["inputs", "dpid", "types", "xid", "summary", "check"])]
    batch: Option<String>,
}

impl DecodeArgs {
    pub(crate) fn run(&self) -> ExitCode {
        let mut out = Output { inner: BufWriter::new(stdout().lock()), has_failed: false };
        let result = match &self.interface {
            Some(interface) => self.follow(interface, &mut out),
            None => self.decode_inputs(&mut out).inspect(|counts| self.print_if_empty(counts)),
        };
        match result {
            Err(DecodeError::Failed(error)) => {
                print_error(&error);
                ExitCode::from(EXIT_USAGE)
            }
            _ if !self.check => ExitCode::SUCCESS,
            Ok(counts) if counts.malformed == 0 => ExitCode::SUCCESS,
            // If the reader has closed the pipe, what it did not want was a malformed message.
            Ok(_) | Err(DecodeError::OutputClosed) => ExitCode::from(EXIT_FAILURE),
        }
    }

    fn options(&self) -> Options {
        Options {
            format: if self.json { Format::Json } else { Format::Text },
            reencode: self.reencode,
            filter: match (self.check, self.summary) {
                (true, _) => Filter::Malformed,
                (false, true) => Filter::None,
                (false, false) => Filter::All,
            },
            selection: Selection {
                dpids: self.dpid.clone(),
                types: self.types.clone(),
                xids: self.xid.clone(),
            },
            summary: if self.summary { SummaryTable::On } else { SummaryTable::Off },
        }
    }

    fn decode_inputs(&self, out: &mut Output) -> Result<MessageCounts, DecodeError> {
        let mut decoder = Decoder::new(&mut *out, self.options());
        let standard_input = ["-".to_owned()];
        let inputs = match &self.batch {
            Some(input) => std::slice::from_ref(input),
            None if self.inputs.is_empty() => &standard_input,
            None => &self.inputs,
        };
        for input in inputs {
            let result = open(input).and_then(|reader| match self.batch {
                Some(_) => decoder.decode_batch(reader),
                None => decoder.decode(reader),
            });
            if let Err(error) = result {
                drop(decoder);
                if out.has_failed {
                    return Err(DecodeError::of_output(&error));
                }
                // What has been decoded before the error is written.
                out.flush().map_err(|error| DecodeError::of_output(&error))?;
                let name = if input == "-" { "standard input" } else { input };
                return Err(DecodeError::Failed(format!("cannot read {name}: {error}")));
            }
        }
        decoder.finish().map_err(|error| DecodeError::of_output(&error))
    }

    /// Says on standard error why nothing was written.
    fn print_if_empty(&self, counts: &MessageCounts) {
        let has_counts = self.summary || self.check || self.batch.is_some();
        if has_counts || counts.well_formed + counts.malformed > 0 {
            return;
        }
        let has_selection = !(self.dpid.is_empty() && self.types.is_empty() && self.xid.is_empty());
        let mut text = if has_selection {
            "no OpenFlow message was selected".to_owned()
        } else {
            "no OpenFlow message was found".to_owned()
        };
        if let Some((_, others)) = counts.to_string().trim_end().split_once("; ") {
            text = format!("{text}; {others}");
        }
        if counts.other_streams > 0 {
            text.push_str(" (OpenFlow over TLS cannot be decoded)");
        }
        print_notice(&text);
    }

    /// Decodes the packets of an interface until a signal.
    fn follow(&self, interface: &str, out: &mut Output) -> Result<MessageCounts, DecodeError> {
        let failed = |error: String| DecodeError::Failed(error);
        let stop = signals::stop_flag().map_err(|e| failed(e.to_string()))?;
        let mut socket = PacketSocket::open(interface).map_err(|e| failed(e.to_string()))?;
        let cannot_capture = |e| failed(format!("cannot capture on {interface}: {e}"));
        print_notice(&format!("capturing on {interface} until SIGINT"));
        let mut live = Decoder::new(&mut *out, self.options()).follow();
        let (mut written, mut captured) = (Ok(()), Ok(()));
        while written.is_ok() && captured.is_ok() && !stop.load(Relaxed) {
            let mut is_idle = false;
            for _ in 0..PACKETS_PER_FLUSH {
                let packet = match socket.receive() {
                    Ok(Some(packet)) => packet,
                    Ok(None) => {
                        is_idle = true;
                        break;
                    }
                    // Such as that of an interface that goes down.
                    Err(error) => {
                        captured = Err(error);
                        break;
                    }
                };
                written = live.receive(packet.ether_type, packet.bytes, packet.since_epoch);
                if written.is_err() {
                    break;
                }
            }
            written = written.and_then(|()| live.flush(clock::since_epoch()));
            captured = captured.and_then(|()| socket.counts().map(drop));
            if is_idle && captured.is_ok() {
                let deadline = clock::now() + IDLE_INTERVAL;
                captured = poll::wait_readable([socket.as_fd()], Some(deadline)).map(drop);
            }
        }
        let counts = socket.counts().map_err(cannot_capture)?;
        let kernel =
            KernelCounts { captured_packets: counts.received, dropped_packets: counts.dropped };
        let finished = written.and_then(|()| live.finish(kernel));
        let counts = finished.map_err(|error| DecodeError::of_output(&error))?;
        if !self.summary && !self.check {
            print_notice(counts.to_string().trim_end());
        }
        // What was captured before the error has been written.
        captured.map_err(cannot_capture)?;
        Ok(counts)
    }
}

/// Writes a line about what was read to standard error, apart from the messages.
fn print_notice(text: &str) {
    // If it cannot be written, decoding goes on.
    let _ = writeln!(io::stderr(), "{text}");
}

/// A datapath id: up to 16 hex digits, as in the log, with or without `0x`.
fn parse_dpid(text: &str) -> Result<DatapathId, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
    let dpid = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
    dpid.map(DatapathId).ok_or_else(|| "expected 1 to 16 hex digits".to_owned())
}

/// A message type by its name in lower case.
fn parse_type(text: &str) -> Result<MessageType, String> {
    let row = MessageType::ALL.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(text));
    row.map(|&(message_type, ..)| message_type).ok_or_else(|| {
        let names = MessageType::ALL.iter().map(|(_, name, _)| name.to_ascii_lowercase());
        format!("known types: {}", names.collect::<Vec<_>>().join(", "))
    })
}

/// A transaction id: decimal, or hex with `0x`.
fn parse_xid(text: &str) -> Result<u32, String> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let xid = u32::from_str_radix(digits, radix).ok();
    // A sign is accepted by the standard library only.
    let xid = xid.filter(|_| digits.chars().all(|c| c.is_ascii_hexdigit()));
    xid.ok_or_else(|| "expected a number of 32 bits, such as 7 or 0x1f".to_owned())
}

/// Why decoding ended early.
#[derive(Debug)]
enum DecodeError {
    /// The reader has closed the pipe, as `head` does.
    OutputClosed,
    /// The message of another error.
    Failed(String),
}

impl DecodeError {
    /// What an error of writing means.
    fn of_output(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(output_error(error)),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::parse_xid;

    #[test]
    fn a_transaction_id_is_decimal_or_hex_without_a_sign() {
        assert_eq!((parse_xid("7"), parse_xid("0x1f")), (Ok(7), Ok(31)));
        for text in ["+7", "0x+7", "", "0x", "1f", "4294967296"] {
            assert!(parse_xid(text).is_err(), "{text}");
        }
    }
}
