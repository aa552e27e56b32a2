//! Multipart replies of more than one part.

use sluice_openflow::view::Multipart;
use sluice_openflow::{ErrorReason, MessageType, MultipartType, Version, Versions};
use sluice_proto::{Config, ReassemblyBudget, SessionError};

use crate::test_switch::{OwnedEvent, TestSwitch, config};

const FLOW: MultipartType = MultipartType::FLOW;

fn part(more: bool, body: &[u8]) -> Multipart<'_> {
    Multipart { kind: FLOW, more, body }
}

#[test]
fn interleaved_replies_are_reassembled() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestSwitch::established(&Config::default(), version);
        for (xid, body) in [(1, b"a"), (2, b"x"), (1, b"b")] {
            assert_eq!(switch.send_part(xid, part(true, body)), Ok(None));
        }
        for (xid, body, whole) in [(1, b"c", &b"abc"[..]), (2, b"y", b"xy"), (3, b"z", b"z")] {
            let event = switch.send_part(xid, part(false, body));
            assert_eq!(event, Ok(Some(OwnedEvent::MultipartReply(xid, FLOW, whole.to_vec()))));
        }
    }
}

#[test]
fn a_reply_that_exceeds_the_limit_ends_the_session() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch =
            TestSwitch::established(&config(|cfg| cfg.multipart_bytes_max = 100_000), version);
        let zeros = vec![0; 60_000];
        let most = part(true, &zeros);
        assert_eq!(switch.send_part(99, most), Ok(None));
        assert_eq!(switch.send_part(99, most), Err(SessionError::MultipartReplyTooLarge));
    }
}

#[test]
fn the_limit_applies_to_all_incomplete_replies_of_a_session_together() {
    let mut switch =
        TestSwitch::established(&config(|cfg| cfg.multipart_bytes_max = 100_000), Version::V1_3);
    for xid in 0..5 {
        assert_eq!(switch.send_part(xid, part(true, &vec![0; 20_000])), Ok(None));
    }
    assert_eq!(
        switch.send_part(5, part(true, b"one more")),
        Err(SessionError::MultipartReplyTooLarge)
    );
}

#[test]
fn a_shared_budget_limits_the_incomplete_replies_of_all_sessions() {
    let (cfg, budget) =
        (config(|cfg| cfg.multipart_total_bytes_max = 100_000), ReassemblyBudget::default());
    let mut switches: Vec<_> =
        (0..6).map(|_| TestSwitch::established(&cfg, Version::V1_3)).collect();
    let zeros = vec![0; 20_000];
    let half = part(true, &zeros);
    for (n, switch) in switches.iter_mut().enumerate() {
        switch.session.set_reassembly_budget(&budget);
        let expected = if n < 5 { Ok(None) } else { Err(SessionError::MultipartBudgetExceeded) };
        assert_eq!(switch.send_part(99, half), expected);
    }
    // Replies of one part need no memory, and closed sessions release theirs.
    assert!(switches[0].send_part(7, part(false, b"whole")).unwrap().is_some());
    switches.drain(1..);
    assert_eq!((budget.used_bytes(), switches[0].send_part(99, half)), (20_000, Ok(None)));
}

#[test]
fn a_truncated_part_is_malformed() {
    for (version, kind, len) in [(1, 17, 11), (4, 19, 15)] {
        let mut switch = TestSwitch::established(&Config::default(), Version(version));
        let mut cut = vec![version, kind, 0, len, 0, 0, 0, 9];
        cut.resize(len.into(), 0);
        assert_eq!(
            switch.send_bytes(&cut),
            Ok(Some(OwnedEvent::Malformed(MessageType::MULTIPART_REPLY)))
        );
        let error = switch.received_error_quoting(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}
