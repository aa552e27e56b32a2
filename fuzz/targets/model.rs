//! A stream of any messages: what the model reads is written and read again the same, by bytes and in neutral form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_openflow::{Encoder, Message, RawMessage, split_message};

fuzz_target!(|stream: &[u8]| {
    let mut rest = stream;
    while let Ok(Some((frame, after))) = split_message(rest) {
        read_write_read(frame);
        rest = after;
    }
});

fn read_write_read(frame: RawMessage<'_>) {
    let version = frame.version();
    let message = match Message::parse_raw(frame) {
        Ok(message) => message,
        Err(error) => {
            assert!(usize::from(error.at) <= frame.bytes().len(), "{error} is outside");
            return;
        }
    };
    let (mut tx, mut xid) = (Vec::new(), 1);
    message
        .encode(frame.xid(), &mut Encoder::new(&mut tx, version, &mut xid))
        .expect("what was said can be");
    let again = RawMessage::new(&tx).expect("one whole message is written");
    assert_eq!((again.kind(), again.xid()), (frame.kind(), frame.xid()));
    assert_eq!(Message::parse_raw(again).as_ref(), Ok(&message));
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(&message), "{value:?}");
    assert!(!message.to_text(version, frame.xid()).is_empty());
}
