//! Messages that are truncated, extended, or have wrong lengths: they are refused with an error inside the message, or
//! parsed to something that can be encoded again; parsing never panics.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::BTreeSet;

use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    ErrorContext, Message, MessageType, ParseError, ParseErrorKind, RawMessage, Version,
};
use support::golden_message::{GoldenMessage, encoded, golden_messages, hex};

/// Bytes of a message in which each 16-bit word is replaced; later bytes are more records of the same kinds.
const BYTES_TRIED_MAX: usize = 320;

/// Golden messages of `version`: all with actions or fields, of the others one of each type and length.
fn golden(version: Version) -> Vec<GoldenMessage> {
    let mut seen = BTreeSet::new();
    let mut all = golden_messages();
    all.retain(|golden| {
        let key =
            (golden.bytes[1], golden.bytes.len(), golden.bytes.get(8..16).map(<[u8]>::to_vec));
        let is_part = ["actions", "fields"].iter().any(|file| golden.origin.starts_with(file));
        golden.version() == version && (is_part || seen.insert(key))
    });
    assert!(all.len() > 50, "{} messages of {version}", all.len());
    all
}

/// Sets the length in the header to the actual length.
fn correct_length(bytes: &mut [u8]) {
    let len = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
}

/// Parses `bytes`; checks that a parsed message survives a roundtrip, and that an error is inside the message.
fn check(origin: &str, bytes: &[u8]) {
    let Ok(raw) = RawMessage::new(bytes) else { return };
    let parsed = Message::parse_raw(raw);
    check_view(origin, raw, &parsed);
    match parsed {
        Ok(message) => {
            let reencoded = encoded(&message, raw.version(), raw.xid());
            let reencoded =
                reencoded.unwrap_or_else(|| panic!("{origin}: cannot be encoded: {}", hex(bytes)));
            let again = RawMessage::new(&reencoded).and_then(Message::parse_raw);
            assert_eq!(again.as_ref(), Ok(&message), "{origin}: {}", hex(bytes));
        }
        Err(error) => {
            assert!(usize::from(error.at) <= bytes.len(), "{origin}: {error}: {}", hex(bytes));
            assert!(!error.what.is_empty(), "{origin}: {error}");
        }
    }
}

/// Checks that the view of a packet-in is valid if and only if the message is.
fn check_view(origin: &str, raw: RawMessage<'_>, parsed: &Result<Message, ParseError>) {
    if raw.kind() != MessageType::PACKET_IN || matches!(parsed, Ok(Message::Other { .. })) {
        return;
    }
    let view = PacketIn::new(raw);
    // The view requires an ingress port (§7.4.1), the owned message does not.
    if matches!(view, Err(ParseError { what: "in_port", why: ParseErrorKind::Missing, .. })) {
        return;
    }
    // The view skips the fields after the ingress port without validating them.
    if view.is_ok() && matches!(parsed, Err(ParseError { part: ErrorContext::Match, .. })) {
        return;
    }
    let bytes = || hex(raw.bytes());
    assert_eq!(parsed.is_ok(), view.is_ok(), "{origin}: {parsed:?}, {view:?}: {}", bytes());
}

fn truncate_and_extend(version: Version) {
    for golden in golden(version) {
        check(&golden.origin, &golden.bytes);
        for end in 8..golden.bytes.len() {
            let mut cut = golden.bytes[..end].to_vec();
            correct_length(&mut cut);
            check(&golden.origin, &cut);
        }
        for more in 1..=8 {
            for byte in [0, 0xff] {
                let mut longer = golden.bytes.clone();
                longer.resize(golden.bytes.len() + more, byte);
                correct_length(&mut longer);
                check(&golden.origin, &longer);
            }
        }
    }
}

/// Replaces each 16-bit word that could be a length.
fn replace_lengths(version: Version) {
    for golden in golden(version) {
        for at in (8..golden.bytes.len().min(BYTES_TRIED_MAX) - 1).step_by(2) {
            let now = u16::from_be_bytes([golden.bytes[at], golden.bytes[at + 1]]);
            let near = [now.wrapping_sub(1), now.wrapping_add(1)];
            for word in [0, 1, 4, 8, 0x7fff, 0xffff].into_iter().chain(near) {
                let mut bytes = golden.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
                check(&golden.origin, &bytes);
            }
        }
    }
}

macro_rules! versions {
    ($($name:ident $version:ident;)*) => {$(
        mod $name {
            use sluice_openflow::Version;

            #[test]
            fn truncated_and_extended_messages_do_not_panic() {
                super::truncate_and_extend(Version::$version);
            }

            #[test]
            fn messages_with_wrong_lengths_do_not_panic() {
                super::replace_lengths(Version::$version);
            }
        }
    )*};
}

versions! {
    of_1_0 V1_0;
    of_1_1 V1_1;
    of_1_2 V1_2;
    of_1_3 V1_3;
    of_1_4 V1_4;
    of_1_5 V1_5;
}

#[test]
fn a_wrong_length_in_the_header_is_refused() {
    for golden in golden_messages() {
        let len = u16::try_from(golden.bytes.len()).unwrap();
        for word in [0, 1, 4, 7, len - 1, len + 1, 0x7fff, 0xffff] {
            let mut bytes = golden.bytes.clone();
            bytes[2..4].copy_from_slice(&word.to_be_bytes());
            assert!(RawMessage::new(&bytes).is_err(), "{}", golden.origin);
        }
    }
}

/// A `PACKET_OUT` of 1.3 with nested actions `clone` of Nicira.
fn nested_clones(depth: usize) -> Vec<u8> {
    let mut bytes = vec![4, 13, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd];
    let words = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
    bytes.extend(words(16 * depth));
    bytes.extend([0; 6]);
    for left in (1..=depth).rev() {
        bytes.extend([0xff, 0xff]);
        bytes.extend(words(16 * left));
        bytes.extend([0, 0, 0x23, 0x20, 0, 42, 0, 0, 0, 0, 0, 0]);
    }
    correct_length(&mut bytes);
    bytes
}

/// Nested `BUNDLE_ADD_MESSAGE`s of 1.4.
fn nested_bundles(depth: usize) -> Vec<u8> {
    let mut bytes = vec![5, 20, 0, 8, 0, 0, 0, 7];
    for _ in 0..depth {
        let head = [5, 34, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0];
        bytes = [&head[..], &bytes].concat();
        correct_length(&mut bytes);
    }
    bytes
}

#[test]
fn messages_nested_too_deeply_are_refused_before_most_of_them_is_parsed() {
    for nested in [nested_clones, nested_bundles] {
        check("nested", &nested(1));
        assert!(Message::parse_raw(RawMessage::new(&nested(2)).unwrap()).is_ok());
        for depth in [20, 200, 2000, 4000] {
            let bytes = nested(depth);
            let error = Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap_err();
            assert_eq!(error.why, ParseErrorKind::TooDeep, "{error}");
            assert!(error.at < 500, "{error}: refused too late");
        }
    }
}
