//! From the version to the proof that the peer is a switch.

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    ErrorCode, ErrorReason, ErrorType, FlowModCommand, Message, MessageType, MultipartFlags,
    MultipartRequest, MultipartType, PortDescRequest, Role, RoleRequest, SwitchConfig, Version,
    Versions,
};
use sluice_proto::{Config, SessionError};

use crate::peer::{
    OwnedEvent, Peer, config, echo_reply, echo_request, error, flow_mod, packet_in, ports,
    some_ports,
};

#[test]
fn everything_is_asked_at_once() {
    let set_config =
        Message::SetConfig(SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() });
    let mut peer = Peer::greeted(&Config::default(), Version::V1_0);
    assert_eq!(peer.told()[..2], [Message::FeaturesRequest, set_config.clone()]);
    let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
    let (flags, body) =
        (MultipartFlags::default(), MultipartRequest::PortDesc(PortDescRequest::default()));
    let ports = Message::MultipartRequest(sluice_openflow::Multipart { flags, body });
    assert_eq!(peer.told(), [Message::FeaturesRequest, ports, set_config]);
}

/// Open vSwitch looks at its rules again because of it. Strict, and what it names is so narrow that nothing goes.
#[test]
fn a_rule_that_nobody_has_is_deleted_before_1_3_with_the_questions() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let cfg = config(|cfg| cfg.versions = Versions::of(&[version]));
        let told = Peer::greeted(&cfg, version).told();
        let Some(Message::FlowMod(rule)) = told.last() else { panic!("{told:?}") };
        assert_eq!(rule.command, FlowModCommand::DELETE_STRICT);
        assert_eq!(rule.matching.fields.len(), 3, "{rule:?}");
    }
    let told = Peer::greeted(&Config::default(), Version::V1_3).told();
    assert!(!told.iter().any(|message| matches!(message, Message::FlowMod(_))), "{told:?}");
}

/// Whatever it answers, nothing more is said to it: a switch is up one round trip after its `HELLO`.
#[test]
fn nothing_is_asked_after_the_first_answers() {
    for version in Versions::SPOKEN.iter() {
        let cfg = config(|cfg| cfg.versions = Versions::of(&[version]));
        let mut peer = Peer::greeted(&cfg, version);
        peer.tx.clear();
        let features = peer.says_as(peer.features_xid, &peer.features()).unwrap();
        let up = match version {
            Version::V1_0 | Version::V1_1 | Version::V1_2 => features,
            _ => peer.says_as(peer.ports_xid, &ports(2)).unwrap(),
        };
        assert!(matches!(up, Some(OwnedEvent::SwitchConnected(_))), "{version}: {up:?}");
        assert_eq!(peer.told(), [], "{version}");
    }
}

#[test]
fn a_role_is_asked_for_where_there_are_roles() {
    let cfg = Config { role: Some(Role::MASTER), generation_id: 7, ..Config::default() };
    let role =
        Message::RoleRequest(RoleRequest { role: Role::MASTER, short_id: 0, generation_id: 7 });
    assert_eq!(Peer::greeted(&cfg, Version::V1_3).told().last(), Some(&role));
    assert!(!Peer::greeted(&cfg, Version::V1_0).told().contains(&role));
}

#[test]
fn a_role_that_is_granted_or_refused_says_nothing_about_being_a_switch() {
    let cfg = Config { role: Some(Role::MASTER), ..Config::default() };
    let mut peer = Peer::greeted(&cfg, Version::V1_3);
    let role = RoleRequest { role: Role::MASTER, ..RoleRequest::default() };
    let granted = Message::RoleReply(role);
    assert_eq!(peer.says(&granted), Ok(None));
    let (kind, code) = (ErrorType::ROLE_REQUEST_FAILED, ErrorCode(0));
    let stale = ErrorReason::Standard { kind, code };
    let heard = peer.says(&error(stale, &[4, 24, 0, 24, 0, 0, 0, 9]));
    assert_eq!(heard, Ok(Some(OwnedEvent::Error(99, stale, Some(MessageType::ROLE_REQUEST)))));
    let mut peer = Peer::up(&cfg, Version::V1_3);
    assert_eq!(peer.says(&granted), Ok(Some(OwnedEvent::RoleReply)));
}

#[test]
fn a_switch_is_up_when_all_is_answered_whatever_comes_first() {
    for features_first in [true, false] {
        let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
        let features = (peer.features_xid, peer.features());
        let ports = (peer.ports_xid, ports(2));
        let [first, last] = if features_first { [features, ports] } else { [ports, features] };
        assert_eq!(peer.says_as(first.0, &first.1), Ok(None));
        assert!(!peer.session.is_up());
        let up = peer.says_as(last.0, &last.1);
        assert!(
            matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 2),
            "{up:?}"
        );
        assert!(peer.session.is_up());
    }
}

#[test]
fn in_1_0_the_features_are_all_it_takes() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_0);
    let up = peer.says_as(peer.features_xid, &peer.features());
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 2),
        "{up:?}"
    );
}

#[test]
fn an_answer_to_another_question_is_passed_over() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::greeted(&Config::default(), version);
        assert_eq!(peer.says_as(peer.features_xid + 50, &peer.features()), Ok(None));
        assert!(!peer.session.is_up());
    }
}

#[test]
fn ports_may_come_in_parts() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
    let (features_xid, xid) = (peer.features_xid, peer.ports_xid);
    assert_eq!(peer.says_as(xid, &some_ports(40, true)), Ok(None));
    assert_eq!(peer.says_as(features_xid, &peer.features()), Ok(None));
    assert_eq!(peer.says_as(xid, &some_ports(40, true)), Ok(None));
    let up = peer.says_as(xid, &ports(2));
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 82),
        "{up:?}"
    );
}

#[test]
fn ports_without_end_are_the_end() {
    let cfg = config(|cfg| cfg.multipart_bytes_max = 100_000);
    let mut peer = Peer::greeted(&cfg, Version::V1_3);
    let ports = some_ports(1000, true);
    assert_eq!(peer.says_as(peer.ports_xid, &ports), Ok(None));
    assert_eq!(peer.says_as(peer.ports_xid, &ports), Err(SessionError::MultipartReplyTooLarge));
}

#[test]
fn a_switch_that_does_not_know_port_desc_is_a_switch() {
    for features_first in [true, false] {
        let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
        let no = (peer.ports_xid, error(ErrorReason::BAD_MULTIPART, &[4, 18, 0, 16]));
        let features = (peer.features_xid, peer.features());
        let [first, last] = if features_first { [features, no] } else { [no, features] };
        assert_eq!(peer.says_as(first.0, &first.1), Ok(None));
        let up = peer.says_as(last.0, &last.1);
        assert!(
            matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.is_empty())
        );
    }
}

#[test]
fn a_switch_that_refuses_to_say_who_it_is_is_none() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
    let no = error(ErrorReason::BAD_TYPE, &[]);
    let fault = SessionError::HandshakeRejected(ErrorReason::BAD_TYPE);
    assert_eq!(peer.says_as(peer.features_xid, &no), Err(fault));
}

#[test]
fn features_cut_off_are_refused() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::greeted(&Config::default(), version);
        peer.tx.clear();
        let [.., xid] = peer.features_xid.to_be_bytes();
        let cut = [version.0, 6, 0, 12, 0, 0, 0, xid, 0, 0, 0, 0];
        assert!(matches!(peer.sends(&cut), Err(SessionError::Malformed(_))));
        let error = peer.told_error_about(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}

#[test]
fn half_a_port_is_refused() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
    let kind = MultipartType::PORT_DESC;
    let half = Multipart { kind, more: false, body: &[0; 32] };
    assert!(matches!(peer.says_part(peer.ports_xid, half), Err(SessionError::Malformed(_))));
}

#[test]
fn what_a_switch_says_early_is_passed_over_but_echo_is_answered() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::greeted(&Config::default(), version);
        peer.tx.clear();
        assert_eq!(peer.says(&packet_in()), Ok(None));
        assert_eq!(peer.says(&echo_request(b"early")), Ok(None));
        assert_eq!(peer.told(), [echo_reply(b"early")]);
    }
}

#[test]
fn a_controller_is_no_switch() {
    for message in [flow_mod(), Message::FeaturesRequest, Message::Other { code: 99, body: vec![] }]
    {
        let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
        peer.tx.clear();
        assert!(matches!(peer.says(&message), Err(SessionError::UnexpectedMessage(_))));
        assert_eq!(peer.told_error(), ErrorReason::BAD_TYPE);
    }
}

#[test]
fn another_version_than_agreed_is_the_end() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_0);
    peer.tx.clear();
    let odd = [4, 2, 0, 8, 0, 0, 0, 9];
    assert_eq!(peer.sends(&odd), Err(SessionError::WrongVersion(Version::V1_3)));
    let error = peer.told_error_about(&odd);
    assert_eq!(error, ErrorReason::BAD_VERSION);
}

#[test]
fn a_slow_handshake_is_ended_however_much_is_said() {
    let mut peer = Peer::greeted(&Config::default(), Version::V1_3);
    for _ in 0..9 {
        peer.wait(1000).unwrap();
        peer.says(&echo_request(&[])).unwrap();
    }
    peer.wait(999).unwrap();
    assert_eq!(peer.wait(1), Err(SessionError::HandshakeTimeout));
}
