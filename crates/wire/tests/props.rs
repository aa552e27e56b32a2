//! No octets make a parser panic; what is written is read as it was meant.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_wire::{
    ErrorMsg, Ethernet, Features, FlowModView, FlowRemoved, Frame, Hello, Kind, Message, Multipart,
    Out, PacketIn, PacketOutView, PortNo, PortStatus, RoleRequest, SwitchConfig, Version, ports,
    split,
};

/// Feeds `octets` to every public parser; all that is asked for is that they return, and agree.
fn hear(octets: &[u8]) {
    _ = Ethernet::new(octets);
    for version in 0..=8 {
        _ = ports(Version(version), octets, 16);
    }
    let Ok(Some((frame, _))) = split(octets) else { return };
    _ = frame.kind().to_string();
    _ = Hello::read(frame);
    _ = Multipart::new(frame);
    _ = Features::read(frame);
    _ = SwitchConfig::read(frame);
    _ = RoleRequest::read(frame);
    _ = FlowRemoved::read(frame);
    _ = PortStatus::read(frame);
    _ = ErrorMsg::new(frame).map(|error| error.request());
    _ = PacketOutView::new(frame).map(PacketOutView::actions);
    _ = FlowModView::new(frame).map(FlowModView::to_flow_mod);
    let view = PacketIn::new(frame);
    let message = Message::parse(frame);
    if frame.kind() == Kind::PACKET_IN {
        agree(view, message.as_ref().map_err(|e| *e));
    }
    let Ok(message) = message else { return };
    let (mut tx, mut xid) = (vec![], 1);
    if message.emit(frame.xid(), &mut Out::new(&mut tx, frame.version(), &mut xid)).is_ok() {
        assert_eq!(Frame::new(&tx).and_then(Message::parse), Ok(message));
    } else {
        assert!(tx.is_empty(), "what cannot be said leaves nothing behind");
    }
}

/// The view and the owned form read the same, or both refuse; a view has an ingress port besides.
fn agree(view: sluice_wire::Result<PacketIn<'_>>, owned: sluice_wire::Result<&Message>) {
    match (view, owned) {
        (Ok(view), Ok(Message::PacketIn(owned))) => {
            assert_eq!(
                (view.buffer_id, view.in_port),
                (owned.buffer_id, owned.in_port().unwrap_or(PortNo::ANY))
            );
            assert_eq!((view.cookie, view.table_id), (owned.cookie, owned.table_id));
            assert_eq!((view.reason, view.total_len), (owned.reason, owned.total_len));
            assert_eq!(view.frame, owned.data);
        }
        (Err(_), Ok(Message::PacketIn(owned))) => assert_eq!(owned.in_port(), None),
        (Err(_), Err(_)) => {}
        (view, owned) => panic!("{view:?} is {owned:?}"),
    }
}

/// Sets the length in the header to what is there.
fn with_true_length(mut octets: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(octets.len()).unwrap();
    octets[2..4].copy_from_slice(&len.to_be_bytes());
    octets
}

#[test]
fn golden_messages_cut_and_lengthened_panic_nowhere() {
    for golden in support::all() {
        for end in 0..golden.octets.len() {
            hear(&golden.octets[..end]);
            if end >= 8 {
                hear(&with_true_length(golden.octets[..end].to_vec()));
            }
        }
        for more in 1..=40 {
            let mut longer = golden.octets.clone();
            longer.resize(golden.octets.len() + more, 0xff);
            hear(&longer);
            hear(&with_true_length(longer));
        }
    }
}

/// Every pair of octets is taken for a length once, since every length field is such a pair.
#[test]
fn golden_messages_with_false_lengths_panic_nowhere() {
    for golden in support::all() {
        for at in 2..golden.octets.len() - 1 {
            let len = u16::try_from(golden.octets.len()).unwrap();
            for false_len in [0, 1, 3, 4, 7, 8, len - 1, len, len + 1, 0x7fff, 0xfff8, 0xffff] {
                let mut octets = golden.octets.clone();
                octets[at..at + 2].copy_from_slice(&u16::to_be_bytes(false_len));
                hear(&octets);
            }
            for octet in [0, 1, 0x7f, 0xff] {
                let mut octets = golden.octets.clone();
                octets[at] = octet;
                hear(&octets);
            }
        }
    }
}

#[test]
fn golden_messages_claimed_to_be_of_another_version_panic_nowhere() {
    for golden in support::all() {
        for version in (0..=8).chain([0x81, 0x84, 0xff]) {
            for kind in 0..=40 {
                let mut octets = golden.octets.clone();
                (octets[0], octets[1]) = (version, kind);
                hear(&octets);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_octets_panic_nowhere(octets in vec(any::<u8>(), 0..200)) {
        hear(&octets);
    }

    #[test]
    fn random_bodies_of_every_kind_panic_nowhere(
        version in any::<u8>(),
        kind in 0..40u8,
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..200),
    ) {
        let mut octets = vec![version, kind, 0, 0, 0, 0, 0, 1];
        octets.extend(body);
        for version in [octets[0], octets[0] % 8] {
            octets[0] = version;
            hear(&with_true_length(octets.clone()));
        }
    }
}
