//! `PACKET_IN` of any version: the view and the owned message agree, and what is read is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Encoder, FieldId, Message, MessageType, PortNo, RawMessage, Result, Version,
};

fuzz_target!(|bytes: &[u8]| {
    let mut msg = bytes.to_vec();
    let (Ok(len), [version, kind, high, low, ..]) = (u16::try_from(bytes.len()), &mut msg[..])
    else {
        return;
    };
    // Every input is a packet-in of a version that there is: the rest of the header is not looked for here.
    *version = *version % 6 + 1;
    *kind = MessageType::PACKET_IN.to_wire(Version(*version));
    [*high, *low] = len.to_be_bytes();
    let Ok(frame) = RawMessage::new(&msg) else { return };
    let view = PacketIn::new(frame);
    agree(view, Message::parse_raw(frame));
    let Ok(view) = view else { return };
    assert!(frame.bytes().ends_with(view.frame));
    let (mut tx, mut xid) = (Vec::new(), 1);
    view.encode(&mut Encoder::new(&mut tx, frame.version(), &mut xid))
        .expect("what was said can be");
    let again = PacketIn::new(RawMessage::new(&tx).expect("one whole message"));
    assert_eq!(again, Ok(view));
});

/// Both read the same, or both refuse, perhaps because of different faults; a view has an ingress port besides.
fn agree(view: Result<PacketIn<'_>>, owned: Result<Message>) {
    match (view, owned) {
        (Ok(view), Ok(Message::PacketIn(owned))) => {
            let in_port = owned.in_port().unwrap_or(PortNo::ANY);
            assert_eq!((view.buffer_id, view.in_port), (owned.buffer_id, in_port));
            assert_eq!((view.cookie, view.table_id), (owned.cookie, owned.table_id));
            assert_eq!((view.reason, view.total_len), (owned.reason, owned.total_len));
            assert_eq!(view.frame, owned.data);
        }
        // Nicira's form of the port is not the field that §7.4.1 demands.
        (Err(_), Ok(Message::PacketIn(owned))) => {
            assert_eq!(owned.matching.get(FieldId::IN_PORT), None);
        }
        (Err(_), Err(_)) => {}
        (view, owned) => panic!("{view:?} is {owned:?}"),
    }
}
