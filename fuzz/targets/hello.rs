//! Any `HELLO`: its elements never panic, and what is agreed on is a version that both speak.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_openflow::{Hello, Message, RawMessage, Versions};

fuzz_target!(|bytes: &[u8]| {
    let mut msg = bytes.to_vec();
    let (Ok(len), [_, kind, high, low, ..]) = (u16::try_from(bytes.len()), &mut msg[..]) else {
        return;
    };
    *kind = 0;
    [*high, *low] = len.to_be_bytes();
    let Ok(frame) = RawMessage::new(&msg) else { return };
    let hello = Hello::parse_raw(frame);
    let owned = Message::parse_raw(frame).map_err(|error| error.why);
    assert_eq!(hello.clone().map(Message::Hello).map_err(|error| error.why), owned);
    let Ok(hello) = hello else { return };
    let (version, versions) = (frame.version(), hello.versions());
    if let Some(agreed) = Versions::SUPPORTED.negotiate(version, versions) {
        assert!(Versions::SUPPORTED.contains(agreed));
        assert!(versions.map_or(agreed <= version, |theirs| theirs.contains(agreed)));
    }
});
