//! Parses the bytes of one direction of a control connection, as a capture has them, and prints each message as text.
//!
//! `cargo run -p sluice-openflow --example parse_capture`

#![allow(clippy::print_stdout, reason = "an example")]

use sluice_openflow::{Message, ParseError, split_message};

/// What a switch sent: `HELLO`, an `ECHO_REQUEST` with two bytes, and the start of a third message.
const RECEIVED: &[u8] = &[
    4, 0, 0, 8, 0, 0, 0, 1, //
    4, 2, 0, 10, 0, 0, 0, 2, b'h', b'i', //
    4, 20, 0, 8, 0,
];

fn main() -> Result<(), ParseError> {
    let mut rest = RECEIVED;
    while let Some((raw, after)) = split_message(rest)? {
        let message = Message::parse_raw(raw)?;
        println!("{}", message.to_text(raw.version(), raw.xid()));
        rest = after;
    }
    println!("{} bytes of an incomplete message are left", rest.len());
    Ok(())
}
