//! Messages of foreign switches and controllers: what we read in them, and that we write them as they do.
//!
//! `make bless` (`SLUICE_BLESS=1`) writes what is read into the files; the diff is the review.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use sluice_openflow::{Encoder, Message, RawMessage, Version};

fn written(message: &Message, version: Version, xid: u32) -> Vec<u8> {
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
fn foreign_messages_are_read_as_the_files_say() {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    for golden in support::all() {
        let debug = match RawMessage::new(&golden.bytes).and_then(Message::parse_raw) {
            Ok(message) => format!("{message:02x?}"),
            Err(error) => format!("refused: {error}"),
        };
        if bless {
            golden.bless(&debug);
        } else {
            assert_eq!(debug, golden.debug, "{}: `make bless` if this is meant", golden.name);
        }
    }
}

#[test]
fn foreign_messages_are_written_as_they_came_or_the_file_says_why_not() {
    let mut wrong = vec![];
    for golden in support::all() {
        let (name, frame) = (&golden.name, RawMessage::new(&golden.bytes).unwrap());
        let differs = match Message::parse_raw(frame) {
            Ok(message) => {
                let again = written(&message, frame.version(), frame.xid());
                // Whatever the bytes, the meaning is the same.
                assert_eq!(
                    RawMessage::new(&again).and_then(Message::parse_raw),
                    Ok(message),
                    "{name}"
                );
                first_difference(&again, &golden.bytes)
            }
            Err(error) => Some(error.to_string()),
        };
        if differs.is_some() != golden.rewritten.is_some() {
            wrong.push(format!("{name}: {}", differs.as_deref().unwrap_or("is the same")));
        }
    }
    assert!(wrong.is_empty(), "a `# rewritten: reason` line tells what differs: {wrong:#?}");
}
