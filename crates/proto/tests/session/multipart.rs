//! Multipart replies of more than one part.

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    ErrorReason, GroupDesc, GroupId, Message, MessageType, MultipartReply, MultipartType, Version,
    Versions,
};
use sluice_proto::{Config, ReassemblyBudget, SessionError, SourceId};

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

/// Groups in OpenFlow 1.0 are an extension of Nicira, whose header is in each message.
#[test]
fn the_messages_of_a_reply_of_nicira_are_one_list_of_groups() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_0);
    let group = |group_id| GroupDesc { group_id: GroupId(group_id), ..GroupDesc::default() };
    let body = |group_id| {
        let reply = MultipartReply::GroupDesc { groups: vec![group(group_id)] };
        let message = Message::MultipartReply(sluice_openflow::Multipart::single(reply));
        // Without the header, type and flags.
        message.to_vec(Version::V1_0, 7).unwrap().split_off(12)
    };
    let (first, second) = (body(1), body(2));
    let kind = MultipartType::EXPERIMENTER;
    assert_eq!(switch.send_part(7, Multipart { kind, more: true, body: &first }), Ok(None));
    let event = switch.send_part(7, Multipart { kind, more: false, body: &second });
    let Ok(Some(OwnedEvent::MultipartReply(7, _, whole))) = event else { panic!("{event:?}") };
    let groups = vec![group(1), group(2)];
    assert_eq!(
        MultipartReply::parse_body(Version::V1_0, kind, &whole),
        Ok(MultipartReply::GroupDesc { groups })
    );
}

#[test]
fn a_reply_that_exceeds_the_limit_is_discarded_and_the_session_goes_on() {
    for version in Versions::SUPPORTED.iter() {
        let mut switch =
            TestSwitch::established(&config(|cfg| cfg.multipart_bytes_max = 100_000), version);
        let zeros = vec![0; 60_000];
        for _ in 0..1000 {
            assert_eq!(switch.send_part(99, part(true, &zeros)), Ok(None));
        }
        assert_eq!(switch.send_part(1, part(true, &zeros)), Ok(None));
        let too_large = OwnedEvent::MultipartReplyTooLarge(99, FLOW);
        assert_eq!(switch.send_part(99, part(false, b"the end")), Ok(Some(too_large)));
        let whole = OwnedEvent::MultipartReply(1, FLOW, zeros);
        assert_eq!(switch.send_part(1, part(false, b"")), Ok(Some(whole)));
    }
}

#[test]
fn of_all_incomplete_replies_that_exceed_the_limit_together_the_longest_is_discarded() {
    let mut switch =
        TestSwitch::established(&config(|cfg| cfg.multipart_bytes_max = 100_000), Version::V1_3);
    for (xid, len) in [(0, 20_000), (1, 50_000), (2, 20_000), (3, 20_000)] {
        assert_eq!(switch.send_part(xid, part(true, &vec![0; len])), Ok(None));
    }
    let too_large = OwnedEvent::MultipartReplyTooLarge(1, FLOW);
    assert_eq!(switch.send_part(1, part(false, b"")), Ok(Some(too_large)));
    for xid in [0, 2, 3] {
        let whole = OwnedEvent::MultipartReply(xid, FLOW, vec![0; 20_000]);
        assert_eq!(switch.send_part(xid, part(false, b"")), Ok(Some(whole)));
    }
}

#[test]
fn too_many_incomplete_replies_end_the_session() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_3);
    for xid in 0..8 {
        assert_eq!(switch.send_part(xid, part(true, b"")), Ok(None));
    }
    let too_many = Err(SessionError::TooManyMultipartReplies);
    assert_eq!(switch.send_part(8, part(true, b"")), too_many);
}

/// Thirty-six sessions hold as much as one may; others get what they need, and those that lost their parts end.
#[test]
fn sessions_that_fill_the_shared_budget_lose_their_parts_and_others_do_not() {
    let cfg = config(|cfg| {
        (cfg.multipart_bytes_max, cfg.multipart_total_bytes_max) = (60_000, 16 * 60_000);
    });
    let budget = ReassemblyBudget::default();
    let session_of = |source| {
        let mut switch = TestSwitch::established(&cfg, Version::V1_3);
        switch.session.set_reassembly_budget(&budget, SourceId(source));
        switch
    };
    let mut good = session_of(1);
    assert_eq!(good.send_part(99, part(true, b"good")), Ok(None));
    let zeros = vec![0; 60_000];
    let mut hoarding: Vec<_> = (0..36).map(|_| session_of(2)).collect();
    for switch in &mut hoarding {
        assert_eq!(switch.send_part(99, part(true, &zeros)), Ok(None));
        assert!(budget.used_bytes() <= cfg.multipart_total_bytes_max);
    }
    let mut late = session_of(3);
    assert_eq!(late.send_part(99, part(true, &zeros)), Ok(None));
    for switch in [&mut good, &mut late] {
        let whole = switch.send_part(99, part(false, b"")).unwrap();
        assert!(matches!(whole, Some(OwnedEvent::MultipartReply(99, ..))), "{whole:?}");
    }
    let lost = Err(SessionError::MultipartBudgetExceeded);
    let first = &mut hoarding[0];
    assert_eq!(first.session.handle_timeouts(&cfg, first.now, &mut Vec::new()), lost);
    assert_eq!(hoarding[1].send_part(99, part(false, b"")).map(|_| ()), lost);
    assert_eq!(hoarding[35].send_part(99, part(false, b"")).map(|_| ()), Ok(()));
    hoarding.clear();
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_reply_that_is_not_continued_ends_the_session() {
    let cfg = config(|cfg| cfg.echo_interval = 2 * cfg.multipart_timeout);
    let mut switch = TestSwitch::established(&cfg, Version::V1_3);
    assert_eq!(switch.send_part(1, part(true, b"a")), Ok(None));
    let deadline = switch.now + cfg.multipart_timeout;
    assert_eq!(switch.session.deadline(&cfg), deadline);
    let expired = switch.session.handle_timeouts(&cfg, deadline, &mut switch.tx);
    assert_eq!(expired, Err(SessionError::MultipartTimeout));
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
