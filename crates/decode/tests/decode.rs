//! Every input format, in both output formats.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::io::{self, BufWriter, Cursor, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use etherparse::PacketBuilder;
use serde_json::{Value, json};
use sluice_decode::{Filter, Format, MessageCounts, Options, decode, decode_batch};

const JSON: Options = Options { format: Format::Json, reencode: true, filter: Filter::All };

/// `BARRIER_REQUEST` of 1.3 with the transaction id 7, and one of 1.0 with 8.
const BARRIERS: [&[u8]; 2] = [&[4, 20, 0, 8, 0, 0, 0, 7], &[1, 18, 0, 8, 0, 0, 0, 8]];

fn lines(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn decoded(input: impl Into<Vec<u8>>, options: Options) -> (Vec<Value>, MessageCounts) {
    let mut out = Vec::new();
    let counts = decode(Cursor::new(input.into()), &mut out, options).unwrap();
    (lines(&out), counts)
}

fn barrier(version: &str, xid: u32, hex: &str) -> Value {
    json!({
        "version": version, "type": "barrier_request", "xid": xid, "ok": true,
        "message": {"type": "barrier_request"}, "error": null, "reencoded": hex, "same": true,
    })
}

fn both_barriers() -> Vec<Value> {
    vec![barrier("1.3", 7, "0414000800000007"), barrier("1.0", 8, "0112000800000008")]
}

#[test]
fn raw_messages_are_decoded() {
    let (lines, counts) = decoded(BARRIERS.concat(), JSON);
    assert_eq!(lines, both_barriers());
    assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
}

#[test]
fn hex_digits_with_comments_are_decoded() {
    let text = "# two messages\n0414 0008 00000007 0112 # the second starts here\n000800000008\n";
    assert_eq!(decoded(text, JSON).0, both_barriers());
    let (lines, counts) = decoded("0414\n00zz", JSON);
    assert_eq!(lines[0]["error"], "line 2: column 3: `z` is not a hex digit");
    assert_eq!(counts.malformed, 1);
}

#[test]
fn a_truncated_message_or_an_invalid_length_is_reported_and_ends_the_input() {
    let (lines, counts) = decoded("04140008000000", JSON);
    assert_eq!((lines[0]["ok"].clone(), counts.malformed), (json!(false), 1));
    let (lines, counts) = decoded("0414000400000007 0414000800000007", JSON);
    assert_eq!(lines[0]["offset"], 2, "{}", lines[0]["error"]);
    assert_eq!(lines[0]["openflow_error"], "BAD_REQUEST/BAD_LEN");
    assert_eq!((lines.len(), counts.malformed), (1, 1));
}

#[test]
fn a_check_reports_malformed_messages_only() {
    let options = Options { filter: Filter::Malformed, ..JSON };
    let (lines, counts) = decoded("0414000800000007 041d000c0000000800000000", options);
    assert_eq!((lines.len(), counts.well_formed, counts.malformed), (1, 1, 1));
    assert_eq!((&lines[0]["type"], &lines[0]["xid"]), (&json!("meter_mod"), &json!(8)));
}

/// A packet from port 1000 to port 6653.
fn packet(seq: u32, syn: bool, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let builder = builder.tcp(1000, 6653, seq, 1024);
    let builder = if syn { builder.syn() } else { builder };
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

/// The packets as a pcap file, one second apart.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 1];
    file.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    for (second, packet) in (1u32..).zip(packets) {
        let len = u32::try_from(packet.len()).unwrap();
        file.extend([second, 500_000, len, len].iter().flat_map(|word| word.to_be_bytes()));
        file.extend(packet);
    }
    file
}

/// The packets as a pcapng file.
fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let len = u32::try_from(padded + 12).unwrap();
        file.extend(kind.to_le_bytes());
        file.extend(len.to_le_bytes());
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(len.to_le_bytes());
    };
    let section = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    block(0x0a0d_0d0a, &[&section[..], &[0xff; 8]].concat());
    block(1, &[1, 0, 0, 0, 0xff, 0xff, 0, 0]);
    for (second, packet) in (1u64..).zip(packets) {
        let micros = second * 1_000_000 + 500_000;
        let len = u32::try_from(packet.len()).unwrap().to_le_bytes();
        let high = u32::try_from(micros >> 32).unwrap().to_le_bytes();
        let low = u32::try_from(micros & 0xffff_ffff).unwrap().to_le_bytes();
        block(6, &[&[0; 4][..], &high, &low, &len, &len, packet].concat());
    }
    file
}

#[test]
fn a_capture_in_either_format_is_reassembled_on_any_port() {
    let bytes = BARRIERS.concat();
    let packets = [
        packet(99, true, &[]),
        packet(108, false, &bytes[8..]),
        packet(100, false, &bytes[..3]),
        packet(100, false, &bytes[..3]),
        packet(102, false, &bytes[2..8]),
    ];
    for file in [pcap(&packets), pcapng(&packets)] {
        let (lines, counts) = decoded(file, JSON);
        let mut expected = both_barriers();
        for line in &mut expected {
            line["time"] = json!(5.5);
            line["from"] = json!("10.0.0.1:1000");
            line["to"] = json!("10.0.0.2:6653");
        }
        assert_eq!(lines, expected);
        assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
    }
}

/// Sends what is written to a channel.
struct ChannelWriter(mpsc::Sender<Vec<u8>>);

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first message in each input format, and the bytes that follow it with the second.
fn inputs_in_two_parts() -> [(&'static str, Vec<u8>, Vec<u8>); 4] {
    let packets = [packet(100, false, BARRIERS[0]), packet(108, false, BARRIERS[1])];
    let in_two_parts = |format, first: Vec<u8>, mut both: Vec<u8>| {
        let second = both.split_off(first.len());
        (format, first, second)
    };
    [
        in_two_parts("pcap", pcap(&packets[..1]), pcap(&packets)),
        in_two_parts("pcapng", pcapng(&packets[..1]), pcapng(&packets)),
        ("hex digits", b"0414000800000007\n".to_vec(), b"0112000800000008\n".to_vec()),
        ("raw messages", BARRIERS[0].to_vec(), BARRIERS[1].to_vec()),
    ]
}

#[test]
fn messages_are_written_before_the_input_ends() {
    for (format, first, second) in inputs_in_two_parts() {
        let (input, mut pipe) = io::pipe().unwrap();
        let (sender, output) = mpsc::channel();
        let decoder =
            thread::spawn(move || decode(input, BufWriter::new(ChannelWriter(sender)), JSON));
        for (part, xid) in [(first, 7), (second, 8)] {
            pipe.write_all(&part).unwrap();
            let out = output.recv_timeout(Duration::from_secs(20));
            let lines = lines(&out.unwrap_or_else(|e| panic!("{format}, message {xid}: {e}")));
            assert_eq!((lines.len(), &lines[0]["xid"]), (1, &json!(xid)), "{format}");
        }
        drop(pipe);
        let counts = decoder.join().unwrap().unwrap();
        assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
    }
}

#[test]
fn a_batch_line_is_answered_before_the_next_one_is_sent() {
    let (input, mut pipe) = io::pipe().unwrap();
    let (sender, output) = mpsc::channel();
    let decoder =
        thread::spawn(move || decode_batch(input, BufWriter::new(ChannelWriter(sender)), JSON));
    for xid in [7, 8] {
        writeln!(pipe, "{{\"hex\": \"041400080000000{xid}\"}}").unwrap();
        let lines = lines(&output.recv_timeout(Duration::from_secs(20)).unwrap());
        assert_eq!((lines.len(), &lines[0]["xid"]), (1, &json!(xid)));
    }
    drop(pipe);
    assert_eq!(decoder.join().unwrap().unwrap().well_formed, 2);
}

/// Reads one byte at a time, with an interrupted read before each.
struct SlowReader {
    bytes: Cursor<Vec<u8>>,
    is_interrupted: bool,
}

impl Read for SlowReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = buffer.len().min(1);
        self.bytes.read(&mut buffer[..len])
    }
}

#[test]
fn reads_may_be_short_or_interrupted() {
    for (format, first, second) in inputs_in_two_parts() {
        let file = [first, second].concat();
        let mut out = Vec::new();
        let input = SlowReader { bytes: Cursor::new(file.clone()), is_interrupted: false };
        decode(input, &mut out, JSON).unwrap();
        assert_eq!((lines(&out), lines(&out).len()), (decoded(file, JSON).0, 2), "{format}");
    }
}

#[test]
fn a_gap_in_a_capture_is_reported_and_skipped() {
    let packets = [packet(100, false, BARRIERS[0]), packet(200, false, BARRIERS[1])];
    let (lines, counts) = decoded(pcap(&packets), JSON);
    assert_eq!(lines[1]["error"], "bytes are missing here in the capture");
    assert_eq!((lines.len(), lines[2]["xid"].clone(), counts.well_formed), (3, json!(8), 2));
}

#[test]
fn a_stream_that_is_not_openflow_is_ignored() {
    let packets = [packet(100, false, b"GET / HTTP/1.1\r\n"), packet(116, false, BARRIERS[0])];
    let (lines, counts) = decoded(pcap(&packets), JSON);
    assert_eq!(
        (lines.len(), counts),
        (0, MessageCounts { other_streams: 1, ..MessageCounts::default() })
    );
}

#[test]
fn a_truncated_capture_is_reported() {
    let file = pcap(&[packet(100, false, BARRIERS[0])]);
    for len in 5..file.len() {
        let mut out = Vec::new();
        let _ = decode(Cursor::new(file[..len].to_vec()), &mut out, JSON);
    }
    let (lines, _) = decoded(&file[..file.len() - 1], JSON);
    assert_eq!(lines[0]["error"], "the capture ends within a packet");
}

#[test]
fn a_corrupt_capture_is_an_error_that_does_not_quote_its_bytes() {
    let mut capture = pcapng(&[packet(0, true, &[]), packet(1, false, BARRIERS[0])]);
    capture.extend([6, 0, 0, 0, 5, 0, 0, 0]);
    capture.resize(capture.len() + 100_000, 0);
    let mut out = Vec::new();
    let error = decode(Cursor::new(capture), &mut out, JSON).unwrap_err();
    assert_eq!(error.to_string(), "corrupt capture: a packet or block is invalid");
    assert_eq!(lines(&out).len(), 1, "the message before it is decoded");
}

#[test]
fn packets_of_too_many_streams_are_reported() {
    let mut packets = Vec::new();
    for stream in 0..65_538_u32 {
        let mut packet = packet(1, false, BARRIERS[0]);
        // The source address, since there are not enough ports.
        packet[26..30].copy_from_slice(&(0x0a00_0000 + stream).to_be_bytes());
        packets.push(packet);
    }
    let check = Options { filter: Filter::Malformed, ..JSON };
    let (lines, counts) = decoded(pcap(&packets), check);
    let error = "2 packets were not decoded, since the capture has more than 65536 TCP streams";
    assert_eq!(lines[0]["error"], error);
    assert_eq!((lines.len(), counts.well_formed, counts.malformed), (1, 65_536, 1));
}

#[test]
fn each_line_of_a_batch_is_answered_by_one_line() {
    let long = format!("{{\"hex\": \"{}\"}}", "00".repeat(1 << 20));
    let input = [
        r#"{"hex": "0414000800000007"}"#,
        "no JSON",
        r#"{"hex": "04"}"#,
        &long,
        "",
        r#"{"hex": "0112000800000008"}"#,
    ];
    let mut out = Vec::new();
    let counts = decode_batch(Cursor::new(input.join("\n")), &mut out, JSON).unwrap();
    let lines = lines(&out);
    let ok: Vec<_> = lines.iter().map(|line| line["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [true, false, false, false, true]);
    assert_eq!((&lines[0], &lines[4]), (&both_barriers()[0], &both_barriers()[1]));
    assert_eq!(lines[2]["offset"], 0, "{}", lines[2]["error"]);
    let keys = ["version", "type", "ok", "message", "error", "reencoded"];
    assert!(lines.iter().all(|line| keys.iter().all(|key| line.get(key).is_some())), "{lines:?}");
    assert_eq!(lines[3]["error"], "the line is longer than 1048576 bytes");
    assert_eq!((counts.well_formed, counts.malformed), (2, 3));
}

#[test]
fn text_has_one_paragraph_per_message() {
    let mut out = Vec::new();
    let options = Options { reencode: true, ..Options::default() };
    decode(Cursor::new("0414000800000007 041d000c0000000800000000"), &mut out, options).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1], "  re-encoded: the same bytes");
    assert!(lines[2].starts_with("malformed METER_MOD (OF1.3): "), "{text}");
}
