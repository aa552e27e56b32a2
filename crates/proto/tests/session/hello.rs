//! Version negotiation.

use sluice_openflow::{
    ErrorReason, Hello, HelloElement, Message, MessageType, ParseErrorKind, Version, Versions,
};
use sluice_proto::{Config, SessionError};

use crate::test_switch::{
    TestSwitch, bitmap, echo_request, error, flow_mod, packet_in, types_and_xids,
};

/// Two versions with a gap between them.
fn some() -> Config {
    Config { versions: Versions::of(&[Version::V1_0, Version::V1_3]), ..Config::default() }
}

#[test]
fn hello_is_sent_at_once_without_bitmap_if_all_versions_up_to_the_highest_are_offered() {
    let mut switch = TestSwitch::connect(&Config::default());
    assert_eq!(switch.tx, [Version::V1_5.0, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(switch.received(), [Message::Hello(Hello::default())]);
    for only in Versions::SUPPORTED.iter() {
        let cfg = Config { versions: Versions::of(&[only]), ..Config::default() };
        assert_eq!(TestSwitch::connect(&cfg).tx, [only.0, 0, 0, 8, 0, 0, 0, 0]);
    }
}

#[test]
fn hello_has_a_bitmap_if_versions_are_left_out() {
    let up_to_1_3 = Versions(Versions::SUPPORTED.0 & 0b1_1110);
    for versions in [some().versions, up_to_1_3] {
        let mut switch = TestSwitch::connect(&Config { versions, ..Config::default() });
        let bitmap = HelloElement::VersionBitmap { bitmaps: vec![versions.0] };
        let hello = Hello { elements: vec![bitmap], extra: vec![] };
        assert_eq!(switch.received(), [Message::Hello(hello)]);
    }
}

#[test]
fn without_a_bitmap_the_lower_version_is_chosen() {
    for (theirs, agreed) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 6), (99, 6)] {
        let mut switch = TestSwitch::connect(&Config::default());
        switch.send_hello(Version(theirs), None).unwrap();
        assert_eq!(switch.session.version(), Version(agreed));
    }
    for (theirs, agreed) in [(1, 1), (4, 4), (5, 4), (6, 4), (99, 4)] {
        let mut switch = TestSwitch::connect(&some());
        switch.send_hello(Version(theirs), None).unwrap();
        assert_eq!(switch.session.version(), Version(agreed));
    }
}

#[test]
fn with_a_bitmap_the_highest_common_version_is_chosen() {
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
        let mut switch = TestSwitch::connect(cfg);
        let highest = Versions(theirs).highest().unwrap();
        switch.send_hello(highest, Some(Versions(theirs))).unwrap();
        assert_eq!(switch.session.version(), Version(agreed), "{theirs:b}");
    }
}

#[test]
fn the_error_without_a_common_version_has_a_version_that_the_peer_can_parse() {
    let only_1_5 = Some(Versions::of(&[Version::V1_5]));
    let past_1_5 = Some(Versions(1 << 7));
    let all = Config::default();
    for (cfg, theirs, bitmap, error_version) in [
        (&some(), 2, None, 2),
        (&some(), 3, None, 3),
        (&some(), 6, only_1_5, 4),
        (&all, 0, None, 1),
        (&all, 7, past_1_5, 6),
    ] {
        let mut switch = TestSwitch::connect(cfg);
        switch.tx.clear();
        let failure = switch.send_hello(Version(theirs), bitmap).unwrap_err();
        assert_eq!(failure, SessionError::NoCommonVersion(Version(theirs)));
        assert_eq!(
            (switch.tx[0], types_and_xids(&switch.tx)),
            (error_version, vec![(MessageType::ERROR, 99)])
        );
        assert_eq!(switch.received(), [error(ErrorReason::INCOMPATIBLE, b"no common version")]);
    }
}

#[test]
fn a_single_version_can_be_offered() {
    let cfg = Config { versions: Versions::of(&[Version::V1_0]), ..Config::default() };
    let mut switch = TestSwitch::connect(&cfg);
    assert_eq!(switch.tx[0], Version::V1_0.0);
    assert_eq!(switch.received(), [Message::Hello(Hello::default())]);
    switch.send_hello(Version::V1_3, bitmap(Version::V1_3)).unwrap();
    assert_eq!(switch.session.version(), Version::V1_0);
}

#[test]
fn a_first_message_other_than_hello_ends_the_session() {
    let early = [Message::FeaturesRequest, echo_request(&[]), packet_in(), flow_mod()];
    for message in early {
        let mut switch = TestSwitch::connect(&Config::default());
        switch.tx.clear();
        let error = switch.send(&message).unwrap_err();
        assert!(matches!(error, SessionError::UnexpectedMessage(_)), "{error}");
        assert_eq!(switch.received_error(), ErrorReason::BAD_TYPE);
    }
}

#[test]
fn a_hello_with_an_invalid_element_length_ends_the_session() {
    let mut switch = TestSwitch::connect(&Config::default());
    switch.tx.clear();
    let message = [4, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 9];
    let error = switch.send_bytes(&message).unwrap_err();
    assert!(
        matches!(error, SessionError::Malformed(error) if error.why == ParseErrorKind::Length),
        "{error}"
    );
    let error = switch.received_error_quoting(&message);
    assert_eq!(error, ErrorReason::BAD_LEN);
}

#[test]
fn a_hello_whose_last_element_lacks_its_padding_is_accepted() {
    let mut switch = TestSwitch::connect(&Config::default());
    switch.tx.clear();
    let message = [4, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 12, 0, 0, 0, 0x10, 0, 0, 0, 0];
    assert_eq!(switch.send_bytes(&message), Ok(None));
    assert_eq!(switch.session.version(), Version::V1_3);
}

/// OpenFlow 1.0.0 §5.5.1: the body of a `HELLO` is ignored.
#[test]
fn the_body_of_a_hello_is_ignored_before_1_3() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let cfg = Config { versions: Versions::of(&[version]), ..Config::default() };
        let mut switch = TestSwitch::connect(&cfg);
        switch.tx.clear();
        assert_eq!(switch.send_bytes(&[version.0, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 9]), Ok(None));
        assert!(switch.session.is_version_negotiated());
        assert_eq!(types_and_xids(&switch.tx)[0].0, MessageType::FEATURES_REQUEST);
    }
}

#[test]
fn an_error_instead_of_hello_ends_the_session() {
    let mut switch = TestSwitch::connect(&Config::default());
    let error = switch.send(&error(ErrorReason::INCOMPATIBLE, &[])).unwrap_err();
    assert_eq!(error, SessionError::HandshakeRejected(ErrorReason::INCOMPATIBLE));
}

#[test]
fn a_silent_peer_runs_into_the_handshake_timeout() {
    let mut switch = TestSwitch::connect(&Config::default());
    switch.advance_ms(9_999).unwrap();
    assert_eq!(switch.advance_ms(1), Err(SessionError::HandshakeTimeout));
}
