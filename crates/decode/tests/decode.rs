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
use sluice_decode::{Decoder, MessageCounts, Options, Selection};

mod support;

use support::{as_json, decoded, json_check, lines, pcap_header, text_of};

/// `BARRIER_REQUEST` of 1.3 with the transaction id 7, and one of 1.0 with 8.
const BARRIERS: [&[u8]; 2] = [&[4, 20, 0, 8, 0, 0, 0, 7], &[1, 18, 0, 8, 0, 0, 0, 8]];

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
    let (lines, counts) = decoded(BARRIERS.concat(), as_json());
    assert_eq!(lines, both_barriers());
    assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
}

#[test]
fn hex_digits_with_comments_are_decoded() {
    let text = "# two messages\n0414 0008 00000007 0112 # the second starts here\n000800000008\n";
    assert_eq!(decoded(text, as_json()).0, both_barriers());
    let (lines, counts) = decoded("0414\n00zz", as_json());
    assert_eq!(lines[0]["error"], "line 2: column 3: `z` is not a hex digit");
    assert_eq!(counts.malformed, 1);
}

#[test]
fn a_truncated_message_is_reported() {
    let (lines, counts) = decoded("04140008000000", as_json());
    assert_eq!((lines[0]["ok"].clone(), counts.malformed), (json!(false), 1));
}

#[test]
fn an_invalid_length_is_reported_and_decoding_continues_at_the_next_messages() {
    let hex = "0414000400000007 ffffff 0414000800000007 0414000800000007";
    let raw = [4, 20, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff];
    let raw = [&raw[..], BARRIERS[0], BARRIERS[0]].concat();
    for (name, input) in [("hex digits", hex.as_bytes().to_vec()), ("raw", raw)] {
        let (lines, counts) = decoded(input, as_json());
        assert_eq!(lines[0]["offset"], 2, "{name}: {}", lines[0]["error"]);
        assert_eq!(lines[0]["openflow_error"], "BAD_REQUEST/BAD_LEN");
        assert_eq!(lines[1]["error"], "3 bytes skipped up to the next message", "{name}");
        assert_eq!((lines.len(), counts.malformed, counts.well_formed), (4, 1, 2), "{name}");
    }
}

#[test]
fn bytes_after_an_invalid_length_that_are_no_messages_are_reported() {
    let (lines, counts) = decoded("0414000400000007 ffffffff", as_json());
    assert_eq!(lines[1]["error"], "no message found in the 4 bytes that follow");
    assert_eq!((lines.len(), counts.malformed, counts.skipped_bytes), (2, 1, 4));
}

#[test]
fn a_hello_whose_last_element_lacks_its_padding_is_reported() {
    let hello = "04000014000000000001000c0000001000000000";
    let text = text_of(hello, Options::default());
    assert!(text.starts_with("malformed HELLO (OF1.3): "), "{text}");
    let note = "; the last element lacks its padding, which `sluice run` accepts\n";
    assert!(text.ends_with(note), "{text}");
    let (lines, counts) = decoded(hello, json_check());
    assert_eq!((&lines[0]["ok"], &lines[0]["type"]), (&json!(false), &json!("hello")));
    assert_eq!((counts.well_formed, counts.malformed), (0, 1));
    // With its padding it is well-formed.
    let (_, counts) = decoded("04000018000000000001000c000000100000000000000000", json_check());
    assert_eq!((counts.well_formed, counts.malformed), (1, 0));
}

#[test]
fn a_check_reports_malformed_messages_and_counts_all() {
    let (lines, counts) = decoded("0414000800000007 041d000c0000000800000000", json_check());
    assert_eq!((lines.len(), counts.well_formed, counts.malformed), (2, 1, 1));
    assert_eq!((&lines[0]["type"], &lines[0]["xid"]), (&json!("meter_mod"), &json!(8)));
    assert_eq!((&lines[1]["well_formed"], &lines[1]["malformed"]), (&json!(1), &json!(1)));
}

#[test]
fn a_selection_by_datapath_id_needs_a_capture() {
    let selection =
        Selection { dpids: vec![sluice_openflow::DatapathId(1)], ..Selection::default() };
    let mut decoder = Decoder::new(Vec::new(), Options { selection, ..Options::default() });
    let error = decoder.decode(Cursor::new("0414000800000007")).unwrap_err().to_string();
    assert!(error.contains("not a capture"), "{error}");
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
    let mut file = pcap_header(0xa1b2_c3d4, 1);
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
        let (lines, counts) = decoded(file, as_json());
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
        let decoder = thread::spawn(move || {
            let mut decoder = Decoder::new(BufWriter::new(ChannelWriter(sender)), as_json());
            decoder.decode(input)?;
            decoder.finish()
        });
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
    let decoder = thread::spawn(move || {
        let mut decoder = Decoder::new(BufWriter::new(ChannelWriter(sender)), as_json());
        decoder.decode_batch(input)?;
        decoder.finish()
    });
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
        Decoder::new(&mut out, as_json()).decode(input).unwrap();
        assert_eq!((lines(&out), lines(&out).len()), (decoded(file, as_json()).0, 2), "{format}");
    }
}

#[test]
fn a_truncated_capture_is_reported() {
    let file = pcap(&[packet(100, false, BARRIERS[0])]);
    for len in 5..file.len() {
        let _ = Decoder::new(Vec::new(), as_json()).decode(Cursor::new(file[..len].to_vec()));
    }
    let (lines, _) = decoded(&file[..file.len() - 1], as_json());
    assert_eq!(lines[0]["error"], "the capture ends within a packet");
}

#[test]
fn a_corrupt_capture_is_an_error_that_does_not_quote_its_bytes() {
    let mut capture = pcapng(&[packet(0, true, &[]), packet(1, false, BARRIERS[0])]);
    capture.extend([6, 0, 0, 0, 5, 0, 0, 0]);
    capture.resize(capture.len() + 100_000, 0);
    let mut out = Vec::new();
    let error = Decoder::new(&mut out, as_json()).decode(Cursor::new(capture)).unwrap_err();
    assert_eq!(error.to_string(), "corrupt capture: a packet or block is invalid");
    assert_eq!(lines(&out).len(), 1, "the message before it is decoded");
}

#[test]
fn a_capture_of_an_unknown_link_type_is_an_error_that_names_it() {
    let error = |file: Vec<u8>| {
        let decoded = Decoder::new(Vec::new(), as_json()).decode(Cursor::new(file));
        decoded.unwrap_err().to_string()
    };
    let text = "link type 147 of the capture is not supported (supported: Ethernet, Linux cooked, raw IP, BSD loopback)";
    assert_eq!(error(pcap_header(0xa1b2_c3d4, 147)), text);
    let mut file = pcapng(&[packet(100, false, BARRIERS[0])]);
    // The link type is the first field of the second block.
    file[28 + 8] = 147;
    assert_eq!(error(file), text);
}

#[test]
fn packets_of_an_unknown_link_type_beside_others_are_reported() {
    let mut file = pcapng(&[packet(100, false, BARRIERS[0])]);
    // A second interface, and a packet of it.
    file.extend([1, 0, 0, 0, 20, 0, 0, 0, 147, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0]);
    file.extend([6, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0]);
    file.extend([0; 16]);
    file.extend([32, 0, 0, 0]);
    let (lines, counts) = decoded(file, as_json());
    assert_eq!((lines.len(), counts.well_formed, counts.malformed), (2, 1, 1));
    let error = lines[1]["error"].as_str().unwrap();
    assert!(error.starts_with("1 packet was not decoded: link type 147"), "{error}");
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
    let mut decoder = Decoder::new(&mut out, as_json());
    decoder.decode_batch(Cursor::new(input.join("\n"))).unwrap();
    let counts = decoder.finish().unwrap();
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
    let options = Options { reencode: true, ..Options::default() };
    let text = text_of("0414000800000007 041d000c0000000800000000", options);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1], "  re-encoded: the same bytes");
    assert!(lines[2].starts_with("malformed METER_MOD (OF1.3): "), "{text}");
}
