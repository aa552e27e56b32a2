//! The handshake after both `HELLO`s.

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    ErrorCode, ErrorReason, ErrorType, FlowModCommand, Message, MessageType, MultipartFlags,
    MultipartRequest, MultipartType, Port, PortDescRequest, PortNo, PortReason, PortState,
    PortStatus, RawMessage, Role, RoleRequest, SwitchConfig, Version, Versions,
};
use sluice_proto::{Config, ControllerSession, SessionError};

use crate::test_switch::{
    OwnedEvent, TestSwitch, config, echo_reply, echo_request, error, flow_mod, packet_in,
    port_desc_part, port_desc_reply, types_and_xids,
};

#[test]
fn all_requests_of_the_handshake_are_sent_at_once() {
    let set_config =
        Message::SetConfig(SwitchConfig { miss_send_len: 128, ..SwitchConfig::default() });
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_0);
    assert_eq!(switch.received()[..2], [Message::FeaturesRequest, set_config.clone()]);
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
    let (flags, body) =
        (MultipartFlags::default(), MultipartRequest::PortDesc(PortDescRequest::default()));
    let port_desc = Message::MultipartRequest(sluice_openflow::Multipart { flags, body });
    assert_eq!(switch.received(), [Message::FeaturesRequest, port_desc, set_config]);
}

/// It makes Open vSwitch revalidate its cached decisions and deletes nothing.
#[test]
fn a_flow_entry_that_no_switch_has_is_deleted_before_1_3() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let cfg = config(|cfg| cfg.versions = Versions::of(&[version]));
        let received = TestSwitch::negotiated(&cfg, version).received();
        let Some(Message::FlowMod(deletion)) = received.last() else { panic!("{received:?}") };
        assert_eq!(deletion.command, FlowModCommand::DELETE_STRICT);
        assert_eq!(deletion.matching.fields.len(), 3, "{deletion:?}");
    }
    let received = TestSwitch::negotiated(&Config::default(), Version::V1_3).received();
    assert!(!received.iter().any(|message| matches!(message, Message::FlowMod(_))), "{received:?}");
}

/// A switch is connected one round trip after its `HELLO`.
#[test]
fn nothing_is_sent_after_the_replies_of_the_handshake() {
    for version in Versions::SUPPORTED.iter() {
        let cfg = config(|cfg| cfg.versions = Versions::of(&[version]));
        let mut switch = TestSwitch::negotiated(&cfg, version);
        switch.tx.clear();
        let features = switch.send_as(switch.features_xid, &switch.features()).unwrap();
        let up = match version {
            Version::V1_0 | Version::V1_1 | Version::V1_2 => features,
            _ => switch.send_as(switch.ports_xid, &port_desc_reply(2)).unwrap(),
        };
        assert!(matches!(up, Some(OwnedEvent::SwitchConnected(_))), "{version}: {up:?}");
        assert_eq!(switch.received(), [], "{version}");
    }
}

#[test]
fn a_configured_role_is_requested_from_1_2_on() {
    let cfg = Config { role: Some(Role::MASTER), generation_id: 7, ..Config::default() };
    let role =
        Message::RoleRequest(RoleRequest { role: Role::MASTER, short_id: 0, generation_id: 7 });
    assert_eq!(TestSwitch::negotiated(&cfg, Version::V1_3).received().last(), Some(&role));
    assert!(!TestSwitch::negotiated(&cfg, Version::V1_0).received().contains(&role));
}

#[test]
fn the_reply_to_a_role_request_does_not_affect_the_handshake() {
    let cfg = Config { role: Some(Role::MASTER), ..Config::default() };
    let mut switch = TestSwitch::negotiated(&cfg, Version::V1_3);
    let role = RoleRequest { role: Role::MASTER, ..RoleRequest::default() };
    let granted = Message::RoleReply(role);
    assert_eq!(switch.send(&granted), Ok(None));
    let (kind, code) = (ErrorType::ROLE_REQUEST_FAILED, ErrorCode(0));
    let stale = ErrorReason::Standard { kind, code };
    let event = switch.send(&error(stale, &[4, 24, 0, 24, 0, 0, 0, 9]));
    assert_eq!(event, Ok(Some(OwnedEvent::Error(99, stale, Some(MessageType::ROLE_REQUEST)))));
    let mut switch = TestSwitch::established(&cfg, Version::V1_3);
    assert_eq!(switch.send(&granted), Ok(Some(OwnedEvent::RoleReply)));
}

#[test]
fn the_replies_of_the_handshake_may_come_in_any_order() {
    for features_first in [true, false] {
        let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
        let features = (switch.features_xid, switch.features());
        let ports = (switch.ports_xid, port_desc_reply(2));
        let [first, last] = if features_first { [features, ports] } else { [ports, features] };
        assert_eq!(switch.send_as(first.0, &first.1), Ok(None));
        assert!(!switch.session.is_up());
        let up = switch.send_as(last.0, &last.1);
        assert!(
            matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 2),
            "{up:?}"
        );
        assert!(switch.session.is_up());
    }
}

#[test]
fn in_1_0_the_features_reply_completes_the_handshake() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_0);
    let up = switch.send_as(switch.features_xid, &switch.features());
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 2),
        "{up:?}"
    );
}

#[test]
fn a_reply_with_an_unknown_transaction_id_is_ignored() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::negotiated(&Config::default(), version);
        assert_eq!(switch.send_as(switch.features_xid + 50, &switch.features()), Ok(None));
        assert!(!switch.session.is_up());
    }
}

/// A port may change after the switch has described it.
#[test]
fn changes_of_ports_during_the_handshake_are_applied_to_the_list() {
    for version in Versions::SUPPORTED.iter() {
        for late in [true, false] {
            let mut switch = TestSwitch::negotiated(&Config::default(), version);
            let ports_are_separate = version >= Version::V1_3;
            let (first, last) = (switch.features(), port_desc_reply(2));
            let (xid, ports_xid) = (switch.features_xid, switch.ports_xid);
            if late && ports_are_separate {
                assert_eq!(switch.send_as(ports_xid, &last), Ok(None));
            }
            let port = |port_no| Port { port_no: PortNo(port_no), ..Port::default() };
            for (reason, port_no) in [
                (PortReason::MODIFY, 1),
                (PortReason::DELETE, 2),
                (PortReason::ADD, 7),
                (PortReason::ADD, 8),
                (PortReason::DELETE, 8),
            ] {
                let mut port = port(port_no);
                port.state = PortState::LINK_DOWN;
                let status = Message::PortStatus(PortStatus { reason, port });
                assert_eq!(switch.send(&status), Ok(None));
            }
            let mut up = switch.send_as(xid, &first);
            if !late && ports_are_separate {
                up = switch.send_as(ports_xid, &last);
            }
            let Ok(Some(OwnedEvent::SwitchConnected(features))) = up else { panic!("{up:?}") };
            let ports: Vec<_> = features.ports.iter().map(|p| (p.port_no.0, p.is_up())).collect();
            assert_eq!(ports, [(1, false), (7, false)], "{version}");
        }
    }
}

#[test]
fn a_malformed_change_of_a_port_does_not_end_the_handshake() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_0);
    let malformed = switch.send_bytes(&[1, 12, 0, 9, 0, 0, 0, 9, 0]);
    assert_eq!(malformed, Ok(Some(OwnedEvent::Malformed(MessageType::PORT_STATUS))));
    assert!(switch.send_as(switch.features_xid, &switch.features()).unwrap().is_some());
}

/// A peer that cannot read what it is sent cannot complete the handshake.
#[test]
fn the_transaction_ids_of_the_requests_follow_from_the_first() {
    let mut ids = vec![];
    for first in [1, 77, u32::MAX] {
        let mut tx = Vec::new();
        let cfg = Config::default();
        let mut session =
            ControllerSession::open(&cfg, first, TestSwitch::connect(&cfg).now, &mut tx);
        tx.clear();
        let hello = RawMessage::new(&[4, 0, 0, 8, 0, 0, 0, 9]).unwrap();
        session.on_message(&cfg, hello, &mut tx).unwrap();
        ids.push(types_and_xids(&tx)[..2].iter().map(|(_, xid)| *xid).collect::<Vec<_>>());
    }
    assert_eq!(ids, [[1, 2], [77, 78], [u32::MAX, 0]]);
}

#[test]
fn the_port_desc_reply_may_have_several_parts() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
    let (features_xid, xid) = (switch.features_xid, switch.ports_xid);
    assert_eq!(switch.send_as(xid, &port_desc_part(40, true)), Ok(None));
    assert_eq!(switch.send_as(features_xid, &switch.features()), Ok(None));
    assert_eq!(switch.send_as(xid, &port_desc_part(40, true)), Ok(None));
    let up = switch.send_as(xid, &port_desc_reply(2));
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.len() == 82),
        "{up:?}"
    );
}

#[test]
fn an_endless_port_desc_reply_ends_the_session() {
    let cfg = config(|cfg| cfg.multipart_bytes_max = 100_000);
    let mut switch = TestSwitch::negotiated(&cfg, Version::V1_3);
    let ports = port_desc_part(1000, true);
    assert_eq!(switch.send_as(switch.ports_xid, &ports), Ok(None));
    assert_eq!(switch.send_as(switch.ports_xid, &ports), Err(SessionError::MultipartReplyTooLarge));
}

#[test]
fn a_switch_without_port_desc_connects_without_ports() {
    for features_first in [true, false] {
        let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
        let rejection = (switch.ports_xid, error(ErrorReason::BAD_MULTIPART, &[4, 18, 0, 16]));
        let features = (switch.features_xid, switch.features());
        let [first, last] =
            if features_first { [features, rejection] } else { [rejection, features] };
        assert_eq!(switch.send_as(first.0, &first.1), Ok(None));
        let up = switch.send_as(last.0, &last.1);
        assert!(
            matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(features))) if features.ports.is_empty())
        );
    }
}

#[test]
fn an_error_instead_of_the_features_reply_ends_the_session() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
    let rejection = error(ErrorReason::BAD_TYPE, &[]);
    let expected = SessionError::HandshakeRejected(ErrorReason::BAD_TYPE);
    assert_eq!(switch.send_as(switch.features_xid, &rejection), Err(expected));
}

#[test]
fn a_truncated_features_reply_ends_the_session() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::negotiated(&Config::default(), version);
        switch.tx.clear();
        let [.., xid] = switch.features_xid.to_be_bytes();
        let cut = [version.0, 6, 0, 12, 0, 0, 0, xid, 0, 0, 0, 0];
        assert!(matches!(switch.send_bytes(&cut), Err(SessionError::Malformed(_))));
        let error = switch.received_error_quoting(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}

#[test]
fn a_truncated_port_ends_the_session() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
    let kind = MultipartType::PORT_DESC;
    let half = Multipart { kind, more: false, body: &[0; 32] };
    assert!(matches!(switch.send_part(switch.ports_xid, half), Err(SessionError::Malformed(_))));
}

#[test]
fn during_the_handshake_other_messages_are_ignored_and_echo_is_answered() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::negotiated(&Config::default(), version);
        switch.tx.clear();
        assert_eq!(switch.send(&packet_in()), Ok(None));
        assert_eq!(switch.send(&echo_request(b"early")), Ok(None));
        assert_eq!(switch.received(), [echo_reply(b"early")]);
    }
}

#[test]
fn a_message_that_only_controllers_send_ends_the_handshake() {
    for message in [flow_mod(), Message::FeaturesRequest, Message::Other { code: 99, body: vec![] }]
    {
        let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
        switch.tx.clear();
        assert!(matches!(switch.send(&message), Err(SessionError::UnexpectedMessage(_))));
        assert_eq!(switch.received_error(), ErrorReason::BAD_TYPE);
    }
}

#[test]
fn a_message_of_another_version_ends_the_handshake() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_0);
    switch.tx.clear();
    let message = [4, 2, 0, 8, 0, 0, 0, 9];
    assert_eq!(switch.send_bytes(&message), Err(SessionError::WrongVersion(Version::V1_3)));
    let error = switch.received_error_quoting(&message);
    assert_eq!(error, ErrorReason::BAD_VERSION);
}

#[test]
fn messages_do_not_postpone_the_handshake_timeout() {
    let mut switch = TestSwitch::negotiated(&Config::default(), Version::V1_3);
    for _ in 0..9 {
        switch.advance_ms(1000).unwrap();
        switch.send(&echo_request(&[])).unwrap();
    }
    switch.advance_ms(999).unwrap();
    assert_eq!(switch.advance_ms(1), Err(SessionError::HandshakeTimeout));
}
