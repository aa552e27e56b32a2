//! Messages that no switch sends: the peer receives the ERROR of the specification, and other switches are unaffected.

use std::net::Shutdown;

use sluice_base::Rng;
use sluice_openflow::{ErrorCode, ErrorReason, ErrorType, Hello, Message, Version};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, bytes};

const BAD_LEN: Option<ErrorReason> = Some(ErrorReason::BAD_LEN);
const BAD_TYPE: Option<ErrorReason> = Some(ErrorReason::BAD_TYPE);
const BAD_VERSION: Option<ErrorReason> = Some(ErrorReason::BAD_VERSION);
const INCOMPATIBLE: Option<ErrorReason> = Some(ErrorReason::INCOMPATIBLE);

/// `OFPBMC_BAD_LEN` and `OFPBMC_BAD_VALUE`. §7.4.4.
const BAD_MATCH_LEN: Option<ErrorReason> = Some(bad_match(1));
const BAD_MATCH_VALUE: Option<ErrorReason> = Some(bad_match(7));

const fn bad_match(code: u32) -> ErrorReason {
    ErrorReason::Standard { kind: ErrorType::BAD_MATCH, code: ErrorCode(code) }
}

/// State of the session in which the message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionStage {
    Connected,
    HelloExchanged,
    Established,
}

use SessionStage::{Connected, Established, HelloExchanged};

/// Sends `message` in each of the stages. The peer must receive `error` and be disconnected for `reason`, and another switch
/// must not be affected.
fn expect_disconnect(
    stages: &[SessionStage],
    message: &[u8],
    error: Option<ErrorReason>,
    reason: &str,
) {
    let test = TestEngine::new(|_| {});
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_0, 1);
    for (n, stage) in (1..).zip(stages) {
        let mut peer = TestPeer::connect(test.addr);
        match stage {
            Connected => {}
            HelloExchanged => _ = peer.exchange_hello(Version::V1_3),
            Established => {
                peer.complete_handshake(Version::V1_3, 2, usize::MAX);
                peer.expect_reply();
            }
        }
        peer.send_bytes(message);
        assert_eq!(peer.expect_close(), error, "{stage:?}: {message:02x?}");
        test.expect_closed(n, reason);
        good.expect_reply();
    }
}

/// Sends `message` from a connected switch, which must receive `error` and stay connected.
fn expect_error(message: &[u8], reason: Option<ErrorReason>) {
    let test = TestEngine::new(|_| {});
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 2);
    switch.expect_reply();
    switch.send_bytes(message);
    let Some(Message::Error(error)) = switch.receive() else { panic!("no ERROR") };
    assert_eq!(Some(error.reason), reason);
    assert_eq!(error.data, &message[..message.len().min(64)]);
    switch.expect_reply();
    assert_eq!((test.metric("malformed_messages", ""), test.closed("")), (1, 0));
}

#[test]
fn a_length_below_the_header_disconnects_in_every_stage() {
    for len in 0..8 {
        expect_disconnect(
            &[Connected, HelloExchanged, Established],
            &[4, 0, 0, len, 0, 0, 0, 9],
            BAD_LEN,
            "malformed_message",
        );
    }
}

#[test]
fn an_unsupported_version_is_answered_with_an_error_and_disconnected() {
    expect_disconnect(&[Connected], &[0, 0, 0, 8, 0, 0, 0, 9], INCOMPATIBLE, "no_common_version");
    // Version byte 7, and no other in the bitmap.
    let later = [7, 0, 0, 16, 0, 0, 0, 9, 0, 1, 0, 8, 0, 0, 0, 0x80];
    expect_disconnect(&[Connected], &later, INCOMPATIBLE, "no_common_version");
}

#[test]
fn another_version_after_hello_disconnects() {
    expect_disconnect(
        &[HelloExchanged, Established],
        &[1, 2, 0, 8, 0, 0, 0, 9],
        BAD_VERSION,
        "wrong_version",
    );
}

#[test]
fn an_unexpected_type_in_the_handshake_disconnects() {
    expect_disconnect(&[Connected], &[4, 10, 0, 8, 0, 0, 0, 9], BAD_TYPE, "unexpected_message");
    // FLOW_MOD, GET_CONFIG_REQUEST, an unassigned type.
    for kind in [14, 7, 99] {
        expect_disconnect(
            &[HelloExchanged],
            &[4, kind, 0, 8, 0, 0, 0, 9],
            BAD_TYPE,
            "unexpected_message",
        );
    }
}

#[test]
fn an_unexpected_type_from_a_connected_switch_is_answered_with_an_error() {
    for kind in [14, 7, 99] {
        expect_error(&[4, kind, 0, 8, 0, 0, 0, 9], BAD_TYPE);
    }
}

#[test]
fn a_truncated_message_from_a_connected_switch_is_answered_with_an_error() {
    // PACKET_IN, ERROR, FLOW_REMOVED, PORT_STATUS, MULTIPART_REPLY.
    for kind in [10, 1, 11, 12, 19] {
        expect_error(&[4, kind, 0, 10, 0, 0, 0, 9, 0, 0], BAD_LEN);
    }
}

/// The match is longer than its message, or has another invalid length.
#[test]
fn inconsistent_lengths_from_a_connected_switch_are_answered_with_an_error() {
    // The first length is consistent, but leaves no room for the ingress port.
    let lengths = [5, 11, 13, 0xff].map(|len| (len, BAD_MATCH_LEN));
    for (len, reason) in [(4, BAD_MATCH_VALUE)].into_iter().chain(lengths) {
        let mut bytes = vec![4, 10, 0, 100, 0, 0, 0, 9];
        bytes.resize(100, 0);
        bytes[24..28].copy_from_slice(&[0, 1, 0, len]);
        bytes[28..36].copy_from_slice(&[0x80, 0, 0, 4, 0, 0, 0, 1]);
        expect_error(&bytes, reason);
    }
}

#[test]
fn a_hello_of_the_maximum_length_is_read_to_its_end() {
    let mut long = vec![4, 0, 0xff, 0xff, 0, 0, 0, 9];
    long.resize(65_535, 0xee);
    expect_disconnect(&[Connected], &long, BAD_LEN, "malformed_message");
}

#[test]
fn a_connection_that_ends_within_a_message_is_closed_by_peer() {
    let test = TestEngine::new(|_| {});
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_0, 1);
    let hello = bytes(Version::V1_3, &Message::Hello(Hello::default()));
    for cut in 0..hello.len() {
        let mut peer = TestPeer::connect(test.addr);
        peer.send_bytes(&hello[..cut]);
        peer.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(peer.expect_close(), None);
        test.expect_closed(cut as u64 + 1, "closed_by_peer");
    }
    good.expect_reply();
}

#[test]
fn random_bytes_disconnect_and_do_not_affect_others() {
    let test = TestEngine::new(|_| {});
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut peer = TestPeer::connect(test.addr);
        match seed % 3 {
            0 => {}
            1 => _ = peer.exchange_hello(Version::V1_3),
            _ => {
                peer.complete_handshake(Version::V1_3, 2, usize::MAX);
                peer.expect_reply();
            }
        }
        // Twice the longest message, so that a message of any length is complete.
        let bytes: Vec<_> = (0..16 << 10).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
        peer.send_bytes(&bytes);
        while peer.receive_bytes().is_some() {}
        wait_until("the connection to be closed", || test.closed("") == seed + 1);
        good.expect_reply();
    }
    assert_eq!(test.closed("echo_timeout") + test.closed("handshake_timeout"), 0);
}
