//! Test helpers: roundtrips of messages given in hex.

use super::Message;
use super::value::{Value, unhex};
use crate::{EncodeError, Encoder, RawMessage, Result as ParseResult, Version};

/// Checks that `hex`, a whole message, is parsed as `message`, and that this survives a roundtrip through bytes and
/// through the neutral form; returns the neutral form.
pub(crate) fn message_both_ways(hex: &str, message: &Message) -> Value {
    let bytes = unhex(hex).unwrap();
    let raw = RawMessage::new(&bytes).unwrap();
    let (version, xid) = (raw.version(), raw.xid());
    assert_eq!(Message::parse_raw(raw).as_ref(), Ok(message), "parsed in {version}");
    let (mut tx, mut next_xid) = (vec![], 1);
    message.encode(xid, &mut Encoder::new(&mut tx, version, &mut next_xid)).unwrap();
    assert_eq!(tx, bytes, "encoded in {version}");
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(message), "{value:?}");
    value
}

/// Parses the message `hex`.
pub(crate) fn parse(hex: &str) -> ParseResult<Message> {
    RawMessage::new(&unhex(hex).unwrap()).and_then(Message::parse_raw)
}

/// Parses the message `hex`, and checks that it survives a roundtrip.
pub(crate) fn survives(hex: &str) -> Message {
    let message = parse(hex).unwrap();
    message_both_ways(hex, &message);
    message
}

/// Encodes `message` in `version`.
pub(crate) fn written(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
    let (mut tx, mut xid) = (vec![], 1);
    message.encode(1, &mut Encoder::new(&mut tx, version, &mut xid)).map(|()| tx)
}

/// [`message_both_ways`] for a message of type `kind` with the body `hex`.
pub(crate) fn both_ways(version: Version, kind: u8, hex: &str, message: &Message) -> Value {
    let body = unhex(hex).unwrap();
    let length = u16::try_from(8 + body.len()).unwrap();
    let head = format!("{:02x} {kind:02x} {length:04x} 00000001", version.0);
    message_both_ways(&format!("{head} {hex}"), message)
}
