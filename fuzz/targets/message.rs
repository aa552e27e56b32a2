//! A stream of any messages: nothing panics, and what is read is written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_openflow::view::Multipart;
use sluice_openflow::{Encoder, Message, MessageType, RawMessage, Version, ports, split_message};

fuzz_target!(|stream: &[u8]| {
    let mut rest = stream;
    while let Ok(Some((frame, after))) = split_message(rest) {
        read_write_read(frame);
        rest = after;
    }
});

fn read_write_read(frame: RawMessage<'_>) {
    if frame.kind() == MessageType::MULTIPART_REPLY {
        _ = Multipart::new(frame).map(|part| ports(frame.version(), part.body, 16));
    }
    let Ok(message) = Message::parse_raw(frame) else { return };
    let (mut tx, mut xid) = (Vec::new(), 1);
    let said = message.encode(frame.xid(), &mut Encoder::new(&mut tx, frame.version(), &mut xid));
    match said {
        Ok(()) => {
            let again = RawMessage::new(&tx).expect("one whole message is written");
            assert_eq!((again.kind(), again.xid()), (frame.kind(), frame.xid()));
            assert_eq!(Message::parse_raw(again), Ok(message));
        }
        Err(no) => {
            assert!(tx.is_empty(), "nothing is written of a message that cannot be encoded");
            let spoken = [Version::V1_0, Version::V1_3].contains(&frame.version());
            assert!(!spoken, "{no}: what a version said, it can say again");
        }
    }
}
