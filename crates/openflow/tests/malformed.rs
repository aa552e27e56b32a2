//! Messages that are cut, lengthened, or lie about their lengths: an error that has a place, or something that can be
//! said again; never a panic.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::HashSet;

use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    ErrorContext, Message, MessageType, ParseError, ParseErrorKind, RawMessage, Version,
};
use support::said::{Said, hex, written};

/// Bytes of a message in which every word is taken for a length; behind them are more records of the same kinds.
const LOOKED_AT: usize = 320;

/// The golden messages of `version`, of whole ones one of each kind and length.
fn golden(version: Version) -> Vec<Said> {
    let mut seen = HashSet::new();
    let mut all = support::said::all();
    all.retain(|said| {
        let key = (said.bytes[1], said.bytes.len(), said.bytes.get(8..16).map(<[u8]>::to_vec));
        let is_part = ["actions", "fields"].iter().any(|file| said.origin.starts_with(file));
        said.version() == version && (is_part || seen.insert(key))
    });
    assert!(all.len() > 50, "{} messages of {version}", all.len());
    all
}

/// Sets the length in the header to what is there.
fn with_true_length(bytes: &mut [u8]) {
    let len = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
}

/// Reads `bytes`; what is read is said again and read again, what is not has its fault inside.
fn hear(origin: &str, bytes: &[u8]) {
    let Ok(frame) = RawMessage::new(bytes) else { return };
    let read = Message::parse_raw(frame);
    view_agrees(origin, frame, &read);
    match read {
        Ok(message) => {
            let again = written(&message, frame.version(), frame.xid());
            let again =
                again.unwrap_or_else(|| panic!("{origin}: cannot be said again: {}", hex(bytes)));
            let same = RawMessage::new(&again).and_then(Message::parse_raw);
            assert_eq!(same.as_ref(), Ok(&message), "{origin}: {}", hex(bytes));
        }
        Err(error) => {
            assert!(usize::from(error.at) <= bytes.len(), "{origin}: {error}: {}", hex(bytes));
            assert!(!error.what.is_empty(), "{origin}: {error}");
        }
    }
}

/// What the switch sends up is well-formed to the view if it is to the model.
fn view_agrees(origin: &str, frame: RawMessage<'_>, read: &Result<Message, ParseError>) {
    if frame.kind() != MessageType::PACKET_IN || matches!(read, Ok(Message::Other { .. })) {
        return;
    }
    let view = PacketIn::new(frame);
    // The view cannot do without the port that §7.4.1 demands; the model keeps what is there.
    if matches!(view, Err(ParseError { what: "in_port", why: ParseErrorKind::Missing, .. })) {
        return;
    }
    // Behind the port the view skips the match by its length, and does not look into its fields.
    if view.is_ok() && matches!(read, Err(ParseError { part: ErrorContext::Match, .. })) {
        return;
    }
    let bytes = || hex(frame.bytes());
    assert_eq!(read.is_ok(), view.is_ok(), "{origin}: {read:?}, {view:?}: {}", bytes());
}

fn cut_and_lengthened(version: Version) {
    for said in golden(version) {
        hear(&said.origin, &said.bytes);
        for end in 8..said.bytes.len() {
            let mut cut = said.bytes[..end].to_vec();
            with_true_length(&mut cut);
            hear(&said.origin, &cut);
        }
        for more in 1..=8 {
            for byte in [0, 0xff] {
                let mut longer = said.bytes.clone();
                longer.resize(said.bytes.len() + more, byte);
                with_true_length(&mut longer);
                hear(&said.origin, &longer);
            }
        }
    }
}

/// Every pair of bytes that may be a length is taken for one.
fn false_lengths(version: Version) {
    for said in golden(version) {
        for at in (8..said.bytes.len().min(LOOKED_AT) - 1).step_by(2) {
            let now = u16::from_be_bytes([said.bytes[at], said.bytes[at + 1]]);
            let near = [now.wrapping_sub(1), now.wrapping_add(1)];
            for word in [0, 1, 4, 8, 0x7fff, 0xffff].into_iter().chain(near) {
                let mut bytes = said.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
                hear(&said.origin, &bytes);
            }
        }
    }
}

macro_rules! versions {
    ($($name:ident $version:ident;)*) => {$(
        mod $name {
            use sluice_openflow::Version;

            #[test]
            fn messages_cut_and_lengthened_panic_nowhere() {
                super::cut_and_lengthened(Version::$version);
            }

            #[test]
            fn messages_with_false_lengths_panic_nowhere() {
                super::false_lengths(Version::$version);
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
fn the_header_lies_about_the_length() {
    for said in support::said::all() {
        let len = u16::try_from(said.bytes.len()).unwrap();
        for word in [0, 1, 4, 7, len - 1, len + 1, 0x7fff, 0xffff] {
            let mut bytes = said.bytes.clone();
            bytes[2..4].copy_from_slice(&word.to_be_bytes());
            assert!(RawMessage::new(&bytes).is_err(), "{}", said.origin);
        }
    }
}

/// `clone`s of Nicira, one in the other, in a `PACKET_OUT` of 1.3.
fn clones(depth: usize) -> Vec<u8> {
    let mut bytes = vec![4, 13, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd];
    let words = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
    bytes.extend(words(16 * depth));
    bytes.extend([0; 6]);
    for left in (1..=depth).rev() {
        bytes.extend([0xff, 0xff]);
        bytes.extend(words(16 * left));
        bytes.extend([0, 0, 0x23, 0x20, 0, 42, 0, 0, 0, 0, 0, 0]);
    }
    with_true_length(&mut bytes);
    bytes
}

/// Messages in a bundle in messages in a bundle, of 1.4.
fn bundles(depth: usize) -> Vec<u8> {
    let mut bytes = vec![5, 20, 0, 8, 0, 0, 0, 7];
    for _ in 0..depth {
        let head = [5, 34, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0];
        bytes = [&head[..], &bytes].concat();
        with_true_length(&mut bytes);
    }
    bytes
}

#[test]
fn what_is_nested_too_deep_is_refused_before_it_costs() {
    for nested in [clones, bundles] {
        hear("nested", &nested(1));
        assert!(Message::parse_raw(RawMessage::new(&nested(2)).unwrap()).is_ok());
        for depth in [20, 200, 2000, 4000] {
            let bytes = nested(depth);
            let error = Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap_err();
            assert_eq!(error.why, ParseErrorKind::TooDeep, "{error}");
            assert!(error.at < 500, "{error}: before all of it is looked at");
        }
    }
}
