//! Sessions after the handshake.

use std::time::Duration;

use sluice_openflow::{ErrorCode, ErrorReason, ErrorType, Message, MessageType, Version, Versions};
use sluice_proto::{Config, SessionError};

use crate::test_switch::{
    OwnedEvent, TestSwitch, bitmap, config, echo_reply, echo_request, error, flow_mod, packet_in,
    types_and_xids,
};

#[test]
fn an_echo_request_is_answered_with_its_xid_and_payload() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::established(&Config::default(), version);
        for payload in [vec![], b"hi".to_vec(), vec![9; 65_527]] {
            switch.send_as(77, &echo_request(&payload)).unwrap();
            assert_eq!(types_and_xids(&switch.tx), [(MessageType::ECHO_REPLY, 77)]);
            assert_eq!(switch.received(), [echo_reply(&payload)]);
        }
        let other = OwnedEvent::Other(MessageType::ECHO_REPLY);
        assert_eq!(switch.send(&echo_reply(b"unasked")), Ok(Some(other)));
        assert_eq!(switch.received(), []);
    }
}

#[test]
fn a_silent_switch_gets_one_echo_request_and_then_times_out() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
    switch.advance_ms(4999).unwrap();
    assert_eq!(switch.received(), []);
    switch.advance_ms(1).unwrap();
    assert_eq!(switch.received(), [echo_request(&[])]);
    switch.advance_ms(9999).unwrap();
    assert_eq!(switch.received(), []);
    assert_eq!(switch.advance_ms(1), Err(SessionError::EchoTimeout));
}

#[test]
fn any_message_postpones_the_echo_timeout() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
    for message in [echo_reply(&[]), packet_in(), Message::BarrierReply] {
        switch.advance_ms(5000).unwrap();
        assert_eq!(switch.received(), [echo_request(&[])]);
        switch.advance_ms(9000).unwrap();
        switch.send(&message).unwrap();
        switch.advance_ms(4999).unwrap();
        assert_eq!(switch.received(), []);
        switch.send(&message).unwrap();
    }
}

#[test]
fn a_probe_sends_at_most_one_echo_request() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_0);
    switch.session.probe(switch.now, &mut switch.tx);
    switch.session.probe(switch.now, &mut switch.tx);
    assert_eq!(switch.received(), [echo_request(&[])]);
    let in_10_s = switch.now + Duration::from_secs(10);
    assert_eq!(
        (switch.session.probed_at(), switch.session.deadline(&switch.cfg)),
        (Some(switch.now), in_10_s)
    );
}

/// `OFPBMC_BAD_VALUE`. §7.4.4.
const BAD_VALUE: ErrorCode = ErrorCode(7);

/// A malformed `PACKET_IN`: without its ingress port where that is in the match, else too short.
fn malformed_packet_in(version: Version) -> Vec<u8> {
    let (len, match_at): (u8, _) = match version {
        Version::V1_0 => (17, None),
        Version::V1_1 => (23, None),
        Version::V1_2 => (120, Some(16)),
        _ => (120, Some(24)),
    };
    let mut bytes = vec![version.0, 10, 0, len, 0, 0, 0, 9];
    bytes.resize(len.into(), 0);
    if let Some(at) = match_at {
        bytes[at..at + 4].copy_from_slice(&[0, 1, 0, 4]);
    }
    bytes
}

#[test]
fn a_limited_number_of_malformed_messages_is_answered_and_tolerated() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::established(&config(|cfg| cfg.malformed_max = 3), version);
        let bytes = malformed_packet_in(version);
        let expected = match version {
            Version::V1_0 | Version::V1_1 => ErrorReason::BAD_LEN,
            _ => ErrorReason::Standard { kind: ErrorType::BAD_MATCH, code: BAD_VALUE },
        };
        for _ in 0..3 {
            assert_eq!(
                switch.send_bytes(&bytes),
                Ok(Some(OwnedEvent::Malformed(MessageType::PACKET_IN)))
            );
            let error = switch.received_error_quoting(&bytes);
            assert_eq!(error, expected);
        }
        assert_eq!(switch.send(&packet_in()), Ok(Some(OwnedEvent::PacketIn)), "the session stays");
        assert_eq!(switch.send_bytes(&bytes), Err(SessionError::TooManyMalformed));
        let error = switch.received_error_quoting(&bytes);
        assert_eq!(error, expected);
    }
}

#[test]
fn a_truncated_message_of_any_type_is_tolerated() {
    for kind in [1, 11, 12, 19, 25] {
        let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
        let cut = [4, kind, 0, 11, 0, 0, 0, 9, 0, 0, 0];
        let event = switch.send_bytes(&cut).unwrap();
        assert_eq!(event, Some(OwnedEvent::Malformed(MessageType(kind.into()))));
        let error = switch.received_error_quoting(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}

#[test]
fn a_message_of_another_version_ends_the_session() {
    for (version, other) in [(Version::V1_0, 4), (Version::V1_3, 1), (Version::V1_3, 0)] {
        let mut switch = TestSwitch::established(&Config::default(), version);
        let message = [other, 10, 0, 8, 0, 0, 0, 9];
        assert_eq!(switch.send_bytes(&message), Err(SessionError::WrongVersion(Version(other))));
        assert_eq!(switch.tx[0], version.0);
        let error = switch.received_error_quoting(&message);
        assert_eq!(error, ErrorReason::BAD_VERSION);
    }
}

#[test]
fn a_message_that_only_controllers_send_is_rejected_and_tolerated() {
    for message in
        [flow_mod(), Message::FeaturesRequest, Message::Other { code: 99, body: vec![7] }]
    {
        let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
        let event = switch.send(&message).unwrap();
        assert!(matches!(event, Some(OwnedEvent::Malformed(_))), "{event:?}");
        assert_eq!(switch.received_error(), ErrorReason::BAD_TYPE);
        assert!(switch.session.is_up());
    }
}

#[test]
fn message_types_that_1_0_does_not_have_are_rejected_in_1_0() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_0);
    for byte in 22..=255 {
        let message = [1, byte, 0, 8, 0, 0, 0, 9];
        assert!(
            matches!(switch.send_bytes(&message), Ok(Some(OwnedEvent::Malformed(_)))),
            "{byte}"
        );
        let error = switch.received_error_quoting(&message);
        assert_eq!(error, ErrorReason::BAD_TYPE);
    }
}

#[test]
fn a_second_hello_is_ignored() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
    assert_eq!(switch.send_hello(Version::V1_3, bitmap(Version::V1_3)), Ok(None));
    assert_eq!(switch.received(), []);
}

#[test]
fn replies_and_errors_have_the_xid_of_their_request() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::established(&Config::default(), version);
        assert_eq!(
            switch.send_as(40, &Message::BarrierReply),
            Ok(Some(OwnedEvent::BarrierReply(40)))
        );
        let (kind, code) = (ErrorType::FLOW_MOD_FAILED, ErrorCode(1));
        let table_full = ErrorReason::Standard { kind, code };
        let event = switch.send_as(41, &error(table_full, &[version.0, 14, 0, 8, 0, 0, 0, 41]));
        assert_eq!(event, Ok(Some(OwnedEvent::Error(41, table_full, Some(MessageType::FLOW_MOD)))));
    }
}
