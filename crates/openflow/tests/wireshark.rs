//! Wireshark decodes all golden messages of 1.3 and 1.4, encoded by this crate, without errors.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::path::Path;
use std::process::Command;

use sluice_openflow::Version;
use support::golden_message::{encoded, golden_messages, hex};

/// Length of messages that fit into one IP packet.
const BYTES_MAX: usize = 60_000;

/// A capture with one TCP segment per message, from the controller's port.
fn capture(messages: &[(String, Vec<u8>)]) -> Vec<u8> {
    // pcap header: magic, version 2.4, time zone, accuracy, snapshot length, Ethernet; in native byte order.
    let mut file = vec![];
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 0x3ffff, 1] {
        file.extend(word.to_le_bytes());
    }
    for (n, (_, bytes)) in messages.iter().enumerate() {
        let n = u32::try_from(n).unwrap();
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
        ip[2..4].copy_from_slice(&u16::try_from(40 + bytes.len()).unwrap().to_be_bytes());
        // Each message is its own connection, so that an error in one does not affect the others.
        let mut tcp = 6653u16.to_be_bytes().to_vec();
        tcp.extend(u16::try_from(10_000 + n).unwrap().to_be_bytes());
        tcp.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &tcp, bytes].concat();
        let len = u32::try_from(frame.len()).unwrap();
        for word in [n, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Errors that Wireshark 4.0 reports for valid messages: part of the text, reason.
const FALSE_ERRORS: &[(&str, &str)] = &[
    (
        "body.",
        "it does not decode experimenter data and unknown types, and reports that as an error",
    ),
    ("Experimenter", "the same for properties"),
    (
        "Length is too short.",
        "it looks for another property after the last one, in padding or in the next record",
    ),
    ("Malformed Packet: DNS]", "the contained packet is truncated"),
    ("Malformed Packet: Ethernet]", "the contained packet is truncated"),
    ("Malformed Packet: IPv4]", "the contained packet is truncated"),
    ("Malformed Packet: TCP]", "the contained packet is truncated"),
];

/// Whether Wireshark fails for this type of message for other implementations too: for `ERROR`, whose request may be
/// truncated (§7.4.4), and in 1.4 after the last property of a port or queue.
fn is_known_to_fail(bytes: &[u8]) -> bool {
    match bytes {
        [_, 1, ..] | [5, 12, ..] => true,
        [5, 19, _, _, _, _, _, _, 0, what, ..] => [4, 5, 13, 15].contains(what),
        _ => false,
    }
}

fn assert_wireshark_decodes(version: Version, protocol: &str) {
    let mut messages = vec![];
    for golden in golden_messages() {
        let Ok(message) = golden.parse() else { continue };
        if golden.version() == version && golden.bytes.len() < BYTES_MAX {
            let bytes = encoded(&message, version, golden.raw().xid()).unwrap();
            messages.push((golden.origin, bytes));
        }
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("model_{version}.pcap"));
    std::fs::write(&path, capture(&messages)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&path).args(["-T", "fields", "-e", "frame.number"]);
    tshark.args(["-e", "frame.protocols", "-e", "_ws.malformed", "-e", "_ws.expert.message"]);
    let output = tshark.output();
    let output =
        output.unwrap_or_else(|e| panic!("tshark: {e}; run `make setup`, which installs it"));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut wrong = vec![];
    let mut seen = 0;
    for line in text.lines() {
        let (number, rest) = line.split_once('\t').unwrap();
        let (origin, bytes) = &messages[number.parse::<usize>().unwrap() - 1];
        seen += usize::from(rest.contains(protocol));
        let lower = rest.to_lowercase();
        if ["malformed", "invalid", "dissector bug"].iter().any(|w| lower.contains(w)) {
            let known =
                FALSE_ERRORS.iter().any(|row| rest.contains(row.0)) || is_known_to_fail(bytes);
            if !known {
                wrong.push(format!("{origin}: {rest}: {}", hex(bytes)));
            }
        }
    }
    assert_eq!(seen, messages.len(), "messages decoded as {protocol}");
    assert!(wrong.is_empty(), "{} of {seen}: {wrong:#?}", wrong.len());
}

#[test]
fn wireshark_decodes_messages_of_1_3() {
    assert_wireshark_decodes(Version::V1_3, "openflow_v4");
}

#[test]
fn wireshark_decodes_messages_of_1_4() {
    assert_wireshark_decodes(Version::V1_4, "openflow_v5");
}
