//! `PACKET_IN` of any version: the view and the owned message agree, and what is read is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::{Frame, Kind, Message, Out, PacketIn, Version};

fuzz_target!(|octets: &[u8]| {
    let mut msg = octets.to_vec();
    let (Ok(len), [version, kind, high, low, ..]) = (u16::try_from(octets.len()), &mut msg[..])
    else {
        return;
    };
    // Every input is a packet-in of a version that there is: the rest of the header is not looked for here.
    *version = *version % 6 + 1;
    *kind = Kind::PACKET_IN.to_wire(Version(*version));
    [*high, *low] = len.to_be_bytes();
    let Ok(frame) = Frame::new(&msg) else { return };
    let (view, owned) = (PacketIn::new(frame), Message::parse(frame));
    assert_eq!(view.map(Message::from), owned);
    let Ok(view) = view else { return };
    assert!(frame.octets().ends_with(view.frame));
    let (mut tx, mut xid) = (Vec::new(), 1);
    view.emit(&mut Out::new(&mut tx, frame.version(), &mut xid)).expect("what was said can be");
    let again = PacketIn::new(Frame::new(&tx).expect("one whole message"));
    assert_eq!(again, Ok(view));
});
