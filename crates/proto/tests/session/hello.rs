//! From the connection to the version that both speak.

use sluice_openflow::{
    ErrorReason, Hello, HelloElement, Message, MessageType, ParseErrorKind, Version, Versions,
};
use sluice_proto::{Config, SessionError};

use crate::peer::{Peer, bitmap, echo_request, error, flow_mod, kinds, packet_in};

/// Two versions with a gap between them.
fn some() -> Config {
    Config { versions: Versions::of(&[Version::V1_0, Version::V1_3]), ..Config::default() }
}

#[test]
fn hello_is_said_at_once_with_all_versions() {
    let mut peer = Peer::connect(&Config::default());
    assert_eq!(peer.tx[0], Version::V1_5.0);
    let all = HelloElement::VersionBitmap { bitmaps: vec![Versions::SPOKEN.0] };
    assert_eq!(peer.told(), [Message::Hello(Hello { elements: vec![all], extra: vec![] })]);
}

#[test]
fn without_a_bitmap_the_lower_version_is_spoken() {
    for (theirs, agreed) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 6), (99, 6)] {
        let mut peer = Peer::connect(&Config::default());
        peer.greets(Version(theirs), None).unwrap();
        assert_eq!(peer.session.version(), Version(agreed));
    }
    for (theirs, agreed) in [(1, 1), (4, 4), (5, 4), (6, 4), (99, 4)] {
        let mut peer = Peer::connect(&some());
        peer.greets(Version(theirs), None).unwrap();
        assert_eq!(peer.session.version(), Version(agreed));
    }
}

#[test]
fn with_a_bitmap_the_highest_common_version_is_spoken() {
    let all = Config::default();
    for (cfg, theirs, agreed) in [
        (&all, 0b10, 1),
        (&all, 0b1_0010, 4),
        (&all, 0b110_0010, 6),
        (&all, 0b1100_1000, 6),
        (&all, 0b1000_1100, 3),
        (&some(), 0b1_0010, 4),
        (&some(), 0b110_0010, 1),
        (&some(), 0b11_0000, 4),
    ] {
        let mut peer = Peer::connect(cfg);
        let highest = Versions(theirs).highest().unwrap();
        peer.greets(highest, Some(Versions(theirs))).unwrap();
        assert_eq!(peer.session.version(), Version(agreed), "{theirs:b}");
    }
}

#[test]
fn no_common_version_is_said_in_one_that_the_peer_may_read() {
    let only_1_5 = Some(Versions::of(&[Version::V1_5]));
    let past_1_5 = Some(Versions(1 << 7));
    let all = Config::default();
    for (cfg, theirs, bitmap, said_in) in [
        (&some(), 2, None, 2),
        (&some(), 3, None, 3),
        (&some(), 6, only_1_5, 4),
        (&all, 0, None, 1),
        (&all, 7, past_1_5, 6),
    ] {
        let mut peer = Peer::connect(cfg);
        peer.tx.clear();
        let fault = peer.greets(Version(theirs), bitmap).unwrap_err();
        assert_eq!(fault, SessionError::NoCommonVersion(Version(theirs)));
        assert_eq!((peer.tx[0], kinds(&peer.tx)), (said_in, vec![(MessageType::ERROR, 99)]));
        assert_eq!(peer.told(), [error(ErrorReason::INCOMPATIBLE, b"no common version")]);
    }
}

#[test]
fn one_version_alone_can_be_offered() {
    let cfg = Config { versions: Versions::of(&[Version::V1_0]), ..Config::default() };
    let mut peer = Peer::connect(&cfg);
    assert_eq!(peer.tx[0], Version::V1_0.0);
    assert_eq!(peer.told(), [Message::Hello(Hello::default())]);
    peer.greets(Version::V1_3, bitmap(Version::V1_3)).unwrap();
    assert_eq!(peer.session.version(), Version::V1_0);
}

#[test]
fn whoever_does_not_begin_with_hello_is_no_switch() {
    let early = [Message::FeaturesRequest, echo_request(&[]), packet_in(), flow_mod()];
    for message in early {
        let mut peer = Peer::connect(&Config::default());
        peer.tx.clear();
        let fault = peer.says(&message).unwrap_err();
        assert!(matches!(fault, SessionError::UnexpectedMessage(_)), "{fault}");
        assert_eq!(peer.told_error(), ErrorReason::BAD_TYPE);
    }
}

#[test]
fn a_hello_that_contradicts_itself_is_refused() {
    let mut peer = Peer::connect(&Config::default());
    peer.tx.clear();
    let odd = [4, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 9];
    let fault = peer.sends(&odd).unwrap_err();
    assert!(
        matches!(fault, SessionError::Malformed(error) if error.why == ParseErrorKind::Length),
        "{fault}"
    );
    let error = peer.told_error_about(&odd);
    assert_eq!(error, ErrorReason::BAD_LEN);
}

/// OpenFlow 1.0.0 §5.5.1: what is behind the header of a `HELLO` is to be passed over.
#[test]
fn an_old_hello_may_have_anything_in_it() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let cfg = Config { versions: Versions::of(&[version]), ..Config::default() };
        let mut peer = Peer::connect(&cfg);
        peer.tx.clear();
        assert_eq!(peer.sends(&[version.0, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 9]), Ok(None));
        assert!(peer.session.is_version_negotiated());
        assert_eq!(kinds(&peer.tx)[0].0, MessageType::FEATURES_REQUEST);
    }
}

#[test]
fn a_refusal_of_our_hello_is_the_end() {
    let mut peer = Peer::connect(&Config::default());
    let fault = peer.says(&error(ErrorReason::INCOMPATIBLE, &[])).unwrap_err();
    assert_eq!(fault, SessionError::HandshakeRejected(ErrorReason::INCOMPATIBLE));
}

#[test]
fn silence_is_ended_in_time() {
    let mut peer = Peer::connect(&Config::default());
    peer.wait(9_999).unwrap();
    assert_eq!(peer.wait(1), Err(SessionError::HandshakeTimeout));
}
