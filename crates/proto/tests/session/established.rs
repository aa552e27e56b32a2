//! A session with a switch.

use std::time::Duration;

use sluice_openflow::{ErrorCode, ErrorReason, ErrorType, Message, MessageType, Version, Versions};
use sluice_proto::{Config, SessionError};

use crate::peer::{
    OwnedEvent, Peer, bitmap, config, echo_reply, echo_request, error, flow_mod, kinds, packet_in,
};

#[test]
fn echo_is_answered_with_its_xid_and_payload() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::up(&Config::default(), version);
        for payload in [vec![], b"hi".to_vec(), vec![9; 65_527]] {
            peer.says_as(77, &echo_request(&payload)).unwrap();
            assert_eq!(kinds(&peer.tx), [(MessageType::ECHO_REPLY, 77)]);
            assert_eq!(peer.told(), [echo_reply(&payload)]);
        }
        assert_eq!(peer.says(&echo_reply(b"unasked")), Ok(None));
        assert_eq!(peer.told(), []);
    }
}

#[test]
fn the_silent_are_asked_once_and_then_given_up() {
    let mut peer = Peer::up(&Config::default(), Version::V1_3);
    peer.wait(4999).unwrap();
    assert_eq!(peer.told(), []);
    peer.wait(1).unwrap();
    assert_eq!(peer.told(), [echo_request(&[])]);
    peer.wait(9999).unwrap();
    assert_eq!(peer.told(), []);
    assert_eq!(peer.wait(1), Err(SessionError::EchoTimeout));
}

#[test]
fn anything_heard_in_between_is_a_sign_of_life() {
    let mut peer = Peer::up(&Config::default(), Version::V1_3);
    for message in [echo_reply(&[]), packet_in(), Message::BarrierReply] {
        peer.wait(5000).unwrap();
        assert_eq!(peer.told(), [echo_request(&[])]);
        peer.wait(9000).unwrap();
        peer.says(&message).unwrap();
        peer.wait(4999).unwrap();
        assert_eq!(peer.told(), []);
        peer.says(&message).unwrap();
    }
}

#[test]
fn others_may_have_it_asked_at_any_time() {
    let mut peer = Peer::up(&Config::default(), Version::V1_0);
    peer.session.probe(peer.now, &mut peer.tx);
    peer.session.probe(peer.now, &mut peer.tx);
    assert_eq!(peer.told(), [echo_request(&[])]);
    let in_10_s = peer.now + Duration::from_secs(10);
    assert_eq!(
        (peer.session.probed_at(), peer.session.deadline(&peer.cfg)),
        (Some(peer.now), in_10_s)
    );
}

/// `OFPBMC_BAD_VALUE`. §7.4.4.
const BAD_VALUE: ErrorCode = ErrorCode(7);

/// A `PACKET_IN` that is wrong in `version`: without its ingress port where that is in a match, too short elsewhere.
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
fn what_is_malformed_is_quoted_and_forgiven_so_often() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::up(&config(|cfg| cfg.malformed_max = 3), version);
        let bytes = malformed_packet_in(version);
        let deserved = match version {
            Version::V1_0 | Version::V1_1 => ErrorReason::BAD_LEN,
            _ => ErrorReason::Standard { kind: ErrorType::BAD_MATCH, code: BAD_VALUE },
        };
        for _ in 0..3 {
            assert_eq!(peer.sends(&bytes), Ok(Some(OwnedEvent::Malformed(MessageType::PACKET_IN))));
            let error = peer.told_error_about(&bytes);
            assert_eq!(error, deserved);
        }
        assert_eq!(peer.says(&packet_in()), Ok(Some(OwnedEvent::PacketIn)), "the session stays");
        assert_eq!(peer.sends(&bytes), Err(SessionError::TooManyMalformed));
        let error = peer.told_error_about(&bytes);
        assert_eq!(error, deserved);
    }
}

#[test]
fn every_kind_can_be_malformed_without_harm() {
    for kind in [1, 11, 12, 19, 25] {
        let mut peer = Peer::up(&Config::default(), Version::V1_3);
        let cut = [4, kind, 0, 11, 0, 0, 0, 9, 0, 0, 0];
        let heard = peer.sends(&cut).unwrap();
        assert_eq!(heard, Some(OwnedEvent::Malformed(MessageType(kind.into()))));
        let error = peer.told_error_about(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}

#[test]
fn another_version_is_the_end() {
    for (version, other) in [(Version::V1_0, 4), (Version::V1_3, 1), (Version::V1_3, 0)] {
        let mut peer = Peer::up(&Config::default(), version);
        let odd = [other, 10, 0, 8, 0, 0, 0, 9];
        assert_eq!(peer.sends(&odd), Err(SessionError::WrongVersion(Version(other))));
        assert_eq!(peer.tx[0], version.0);
        let error = peer.told_error_about(&odd);
        assert_eq!(error, ErrorReason::BAD_VERSION);
    }
}

#[test]
fn what_no_switch_says_is_refused_and_forgiven() {
    for message in
        [flow_mod(), Message::FeaturesRequest, Message::Other { code: 99, body: vec![7] }]
    {
        let mut peer = Peer::up(&Config::default(), Version::V1_3);
        let heard = peer.says(&message).unwrap();
        assert!(matches!(heard, Some(OwnedEvent::Malformed(_))), "{heard:?}");
        assert_eq!(peer.told_error(), ErrorReason::BAD_TYPE);
        assert!(peer.session.is_up());
    }
}

#[test]
fn types_that_1_0_does_not_have_are_unknown_there() {
    let mut peer = Peer::up(&Config::default(), Version::V1_0);
    for byte in 22..=255 {
        let odd = [1, byte, 0, 8, 0, 0, 0, 9];
        assert!(matches!(peer.sends(&odd), Ok(Some(OwnedEvent::Malformed(_)))), "{byte}");
        let error = peer.told_error_about(&odd);
        assert_eq!(error, ErrorReason::BAD_TYPE);
    }
}

#[test]
fn a_second_hello_is_passed_over() {
    let mut peer = Peer::up(&Config::default(), Version::V1_3);
    assert_eq!(peer.greets(Version::V1_3, bitmap(Version::V1_3)), Ok(None));
    assert_eq!(peer.told(), []);
}

#[test]
fn replies_and_errors_come_with_the_xid_of_their_request() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::up(&Config::default(), version);
        assert_eq!(
            peer.says_as(40, &Message::BarrierReply),
            Ok(Some(OwnedEvent::BarrierReply(40)))
        );
        let (kind, code) = (ErrorType::FLOW_MOD_FAILED, ErrorCode(1));
        let table_full = ErrorReason::Standard { kind, code };
        let heard = peer.says_as(41, &error(table_full, &[version.0, 14, 0, 8, 0, 0, 0, 41]));
        assert_eq!(heard, Ok(Some(OwnedEvent::Error(41, table_full, Some(MessageType::FLOW_MOD)))));
    }
}
