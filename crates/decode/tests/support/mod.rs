//! Captures made in memory, and what is decoded from them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by several tests, which use a part each and fail by panicking"
)]

use std::io::Cursor;
use std::time::Duration;

use etherparse::PacketBuilder;
use serde_json::Value;
use sluice_decode::{Decoder, Filter, Format, MessageCounts, Options};

/// JSON with everything.
pub(crate) fn as_json() -> Options {
    Options { format: Format::Json, reencode: true, ..Options::default() }
}

/// JSON of what is malformed, and the counts.
pub(crate) fn json_check() -> Options {
    Options { filter: Filter::Malformed, ..as_json() }
}

pub(crate) fn lines(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of JSON and the counts for an input.
pub(crate) fn decoded(input: impl Into<Vec<u8>>, options: Options) -> (Vec<Value>, MessageCounts) {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(&mut out, options);
    decoder.decode(Cursor::new(input.into())).unwrap();
    let counts = decoder.finish().unwrap();
    (lines(&out), counts)
}

/// The text for an input.
pub(crate) fn text_of(input: impl Into<Vec<u8>>, options: Options) -> String {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(&mut out, options);
    decoder.decode(Cursor::new(input.into())).unwrap();
    decoder.finish().unwrap();
    String::from_utf8(out).unwrap()
}

/// A TCP segment and the time at which it is captured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    pub(crate) time: Duration,
    /// Number of the switch, which decides its address.
    pub(crate) switch: u16,
    pub(crate) is_from_controller: bool,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) is_syn: bool,
    pub(crate) is_fin: bool,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    /// The packet, from its Ethernet header on. The controller is 10.0.0.2:6653.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let [high, low] = self.switch.to_be_bytes();
        let (switch, controller) = ([10, 1, high, low], [10, 0, 0, 2]);
        let (from, to, from_port, to_port) = if self.is_from_controller {
            (controller, switch, 6653, 1000)
        } else {
            (switch, controller, 1000, 6653)
        };
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from, to, 64);
        let mut builder = builder.tcp(from_port, to_port, self.seq, 1024);
        if let Some(ack) = self.ack {
            builder = builder.ack(ack);
        }
        if self.is_syn {
            builder = builder.syn();
        }
        if self.is_fin {
            builder = builder.fin();
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &self.payload).unwrap();
        bytes
    }
}

/// The segments as a pcap file with nanoseconds.
pub(crate) fn capture(segments: &[Segment]) -> Vec<u8> {
    let mut file = pcap_header(0xa1b2_3c4d, 1);
    for segment in segments {
        let packet = segment.packet();
        let seconds = u32::try_from(segment.time.as_secs()).unwrap();
        let len = u32::try_from(packet.len()).unwrap();
        let words = [seconds, segment.time.subsec_nanos(), len, len];
        file.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        file.extend(packet);
    }
    file
}

/// The header of a pcap file with this magic number and link type.
pub(crate) fn pcap_header(magic: u32, link: u32) -> Vec<u8> {
    let words = [magic, 0x0002_0004, 0, 0, 65_535, link];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
