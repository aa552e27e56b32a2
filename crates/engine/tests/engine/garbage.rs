//! What no switch says: an `ERROR` where the specification has one, a reason, and others unhurt.

use std::net::Shutdown;

use sluice_base::Rng;
use sluice_openflow::{ErrorCode, ErrorReason, ErrorType, Hello, Message, Version};

use crate::lab::{Lab, wait_until};
use crate::peer::{Peer, bytes};

type Words = Option<ErrorReason>;

const BAD_LEN: Words = Some(ErrorReason::BAD_LEN);
const BAD_TYPE: Words = Some(ErrorReason::BAD_TYPE);
const BAD_VERSION: Words = Some(ErrorReason::BAD_VERSION);
const INCOMPATIBLE: Words = Some(ErrorReason::INCOMPATIBLE);

/// `OFPBMC_BAD_LEN` and `OFPBMC_BAD_VALUE`. §7.4.4.
const BAD_MATCH_LEN: Words = Some(bad_match(1));
const BAD_MATCH_VALUE: Words = Some(bad_match(7));

const fn bad_match(code: u32) -> ErrorReason {
    ErrorReason::Standard { kind: ErrorType::BAD_MATCH, code: ErrorCode(code) }
}

/// How far a peer has come when it says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Greeting,
    Asking,
    Up,
}

use When::{Asking, Greeting, Up};

/// The peer must hear `words` and be hung up on for `reason`, while another switch is served.
fn must_end(when: &[When], garbage: &[u8], words: Words, reason: &str) {
    let lab = Lab::new(|_| {});
    let mut good = Peer::switch(lab.addr, Version::V1_0, 1);
    for (n, when) in (1..).zip(when) {
        let mut peer = Peer::connect(lab.addr);
        match when {
            Greeting => {}
            Asking => _ = peer.greet(Version::V1_3),
            Up => {
                peer.shake_hands(Version::V1_3, 2, usize::MAX);
                peer.must_be_answered();
            }
        }
        peer.send(garbage);
        assert_eq!(peer.last_words(), words, "{when:?}: {garbage:02x?}");
        lab.must_end(n, reason);
        good.must_be_answered();
    }
}

/// The switch must hear `words` and is served on.
fn must_be_forgiven(garbage: &[u8], words: Words) {
    let lab = Lab::new(|_| {});
    let mut switch = Peer::switch(lab.addr, Version::V1_3, 2);
    switch.must_be_answered();
    switch.send(garbage);
    let Some(Message::Error(error)) = switch.hear() else { panic!("no ERROR") };
    assert_eq!(Some(error.reason), words);
    assert_eq!(error.data, &garbage[..garbage.len().min(64)]);
    switch.must_be_answered();
    assert_eq!((lab.count("malformed_messages", ""), lab.ended("")), (1, 0));
}

#[test]
fn a_length_below_the_header_ends_any_conversation() {
    for len in 0..8 {
        must_end(
            &[Greeting, Asking, Up],
            &[4, 0, 0, len, 0, 0, 0, 9],
            BAD_LEN,
            "malformed_message",
        );
    }
}

#[test]
fn a_version_nobody_speaks_is_told_so() {
    must_end(&[Greeting], &[0, 0, 0, 8, 0, 0, 0, 9], INCOMPATIBLE, "no_common_version");
    // One past 1.5, and by the bitmap no other.
    let later = [7, 0, 0, 16, 0, 0, 0, 9, 0, 1, 0, 8, 0, 0, 0, 0x80];
    must_end(&[Greeting], &later, INCOMPATIBLE, "no_common_version");
}

#[test]
fn another_version_after_hello_ends_it() {
    must_end(&[Asking, Up], &[1, 2, 0, 8, 0, 0, 0, 9], BAD_VERSION, "wrong_version");
}

#[test]
fn a_type_out_of_turn_ends_it() {
    must_end(&[Greeting], &[4, 10, 0, 8, 0, 0, 0, 9], BAD_TYPE, "unexpected_message");
    // FLOW_MOD, GET_CONFIG_REQUEST, one that there is not.
    for kind in [14, 7, 99] {
        must_end(&[Asking], &[4, kind, 0, 8, 0, 0, 0, 9], BAD_TYPE, "unexpected_message");
    }
}

#[test]
fn a_type_that_no_switch_says_is_forgiven_a_switch() {
    for kind in [14, 7, 99] {
        must_be_forgiven(&[4, kind, 0, 8, 0, 0, 0, 9], BAD_TYPE);
    }
}

#[test]
fn a_message_cut_off_is_forgiven_a_switch() {
    // PACKET_IN, ERROR, FLOW_REMOVED, PORT_STATUS, MULTIPART_REPLY.
    for kind in [10, 1, 11, 12, 19] {
        must_be_forgiven(&[4, kind, 0, 10, 0, 0, 0, 9, 0, 0], BAD_LEN);
    }
}

/// A match that says it is longer than its message; misaligned and cut off as well.
#[test]
fn lengths_that_contradict_one_another_are_forgiven_a_switch() {
    // The first contradicts nothing but has no room for the ingress port.
    let lengths = [5, 11, 13, 0xff].map(|len| (len, BAD_MATCH_LEN));
    for (len, words) in [(4, BAD_MATCH_VALUE)].into_iter().chain(lengths) {
        let mut bytes = vec![4, 10, 0, 100, 0, 0, 0, 9];
        bytes.resize(100, 0);
        bytes[24..28].copy_from_slice(&[0, 1, 0, len]);
        bytes[28..36].copy_from_slice(&[0x80, 0, 0, 4, 0, 0, 0, 1]);
        must_be_forgiven(&bytes, words);
    }
}

#[test]
fn a_hello_of_the_greatest_length_is_read_to_its_end() {
    let mut long = vec![4, 0, 0xff, 0xff, 0, 0, 0, 9];
    long.resize(65_535, 0xee);
    must_end(&[Greeting], &long, BAD_LEN, "malformed_message");
}

#[test]
fn half_a_message_and_then_nothing_is_a_hang_up() {
    let lab = Lab::new(|_| {});
    let mut good = Peer::switch(lab.addr, Version::V1_0, 1);
    let hello = bytes(Version::V1_3, &Message::Hello(Hello::default()));
    for cut in 0..hello.len() {
        let mut peer = Peer::connect(lab.addr);
        peer.send(&hello[..cut]);
        peer.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(peer.last_words(), None);
        lab.must_end(cut as u64 + 1, "closed_by_peer");
    }
    good.must_be_answered();
}

#[test]
fn random_bytes_end_in_time_and_hurt_nobody() {
    let lab = Lab::new(|_| {});
    let mut good = Peer::switch(lab.addr, Version::V1_3, 1);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut peer = Peer::connect(lab.addr);
        match seed % 3 {
            0 => {}
            1 => _ = peer.greet(Version::V1_3),
            _ => {
                peer.shake_hands(Version::V1_3, 2, usize::MAX);
                peer.must_be_answered();
            }
        }
        // Twice the longest message: whatever length comes out, its message becomes whole.
        let bytes: Vec<_> = (0..16 << 10).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
        peer.send(&bytes);
        while peer.read().is_some() {}
        wait_until("the end", || lab.ended("") == seed + 1);
        good.must_be_answered();
    }
    assert_eq!(lab.ended("echo_timeout") + lab.ended("handshake_timeout"), 0);
}
