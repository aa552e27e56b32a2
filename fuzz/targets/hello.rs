//! Any `HELLO`: its elements never panic, and what is agreed on is a version that both speak.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::{Frame, Hello, Message, Versions};

fuzz_target!(|octets: &[u8]| {
    let mut msg = octets.to_vec();
    let (Ok(len), [_, kind, high, low, ..]) = (u16::try_from(octets.len()), &mut msg[..]) else {
        return;
    };
    *kind = 0;
    [*high, *low] = len.to_be_bytes();
    let Ok(frame) = Frame::new(&msg) else { return };
    let hello = Hello::parse(frame);
    assert_eq!(hello.map(|h| Message::Hello(h.version, h.versions)), Message::parse(frame));
    let Ok(Hello { version, versions }) = hello else { return };
    if let Some(agreed) = Versions::SPOKEN.negotiate(version, versions) {
        assert!(Versions::SPOKEN.contains(agreed));
        assert!(versions.map_or(agreed <= version, |theirs| theirs.contains(agreed)));
    }
});
