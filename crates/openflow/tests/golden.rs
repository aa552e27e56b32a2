//! Messages of other switches and controllers are parsed as the golden files say, and encoded to the same bytes.
//!
//! `SLUICE_BLESS=1` (`make bless`) rewrites the expected output in the files; review the diff.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use sluice_openflow::{Encoder, Message, RawMessage, Version};

fn encoded(message: &Message, version: Version, xid: u32) -> Vec<u8> {
    let (mut tx, mut next_xid) = (vec![], 1);
    message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid)).unwrap();
    tx
}

fn first_difference(ours: &[u8], theirs: &[u8]) -> Option<String> {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    (ours != theirs)
        .then(|| format!("byte {at}: ours {:02x?}, theirs {:02x?}", &ours[at..], &theirs[at..]))
}

#[test]
fn golden_messages_are_parsed_as_the_files_say() {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    for golden in support::golden_files() {
        let debug = match RawMessage::new(&golden.bytes).and_then(Message::parse_raw) {
            Ok(message) => format!("{message:02x?}"),
            Err(error) => format!("refused: {error}"),
        };
        if bless {
            golden.bless(&debug);
        } else {
            assert_eq!(
                debug, golden.debug,
                "{}: run `make bless` if this is intended",
                golden.name
            );
        }
    }
}

#[test]
fn golden_messages_are_encoded_to_the_same_bytes_unless_the_file_says_why_not() {
    let mut wrong = vec![];
    for golden in support::golden_files() {
        let (name, raw) = (&golden.name, RawMessage::new(&golden.bytes).unwrap());
        let differs = match Message::parse_raw(raw) {
            Ok(message) => {
                let ours = encoded(&message, raw.version(), raw.xid());
                // Even if the bytes differ, the message must be the same.
                assert_eq!(
                    RawMessage::new(&ours).and_then(Message::parse_raw),
                    Ok(message),
                    "{name}"
                );
                first_difference(&ours, &golden.bytes)
            }
            Err(error) => Some(error.to_string()),
        };
        if differs.is_some() != golden.rewritten.is_some() {
            wrong.push(format!(
                "{name}: {}",
                differs.as_deref().unwrap_or("same bytes, despite `# rewritten`")
            ));
        }
    }
    assert!(wrong.is_empty(), "a line `# rewritten: reason` must say why bytes differ: {wrong:#?}");
}
