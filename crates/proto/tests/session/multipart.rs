//! Replies that come in parts.

use sluice_openflow::view::Multipart;
use sluice_openflow::{ErrorReason, MessageType, MultipartType, Version, Versions};
use sluice_proto::{Config, ReassemblyBudget, SessionError};

use crate::peer::{OwnedEvent, Peer, config};

const FLOW: MultipartType = MultipartType::FLOW;

fn part(more: bool, body: &[u8]) -> Multipart<'_> {
    Multipart { kind: FLOW, more, body }
}

#[test]
fn parts_of_replies_that_overlap_come_together() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::up(&Config::default(), version);
        for (xid, body) in [(1, b"a"), (2, b"x"), (1, b"b")] {
            assert_eq!(peer.says_part(xid, part(true, body)), Ok(None));
        }
        for (xid, body, whole) in [(1, b"c", &b"abc"[..]), (2, b"y", b"xy"), (3, b"z", b"z")] {
            let heard = peer.says_part(xid, part(false, body));
            assert_eq!(heard, Ok(Some(OwnedEvent::MultipartReply(xid, FLOW, whole.to_vec()))));
        }
    }
}

#[test]
fn a_reply_without_end_is_the_end() {
    for version in Versions::SPOKEN.iter() {
        let mut peer = Peer::up(&config(|cfg| cfg.multipart_bytes_max = 100_000), version);
        let zeros = vec![0; 60_000];
        let most = part(true, &zeros);
        assert_eq!(peer.says_part(99, most), Ok(None));
        assert_eq!(peer.says_part(99, most), Err(SessionError::MultipartReplyTooLarge));
    }
}

/// The limit is for all that one session holds, not for each reply.
#[test]
fn many_replies_without_end_are_the_end_too() {
    let mut peer = Peer::up(&config(|cfg| cfg.multipart_bytes_max = 100_000), Version::V1_3);
    for xid in 0..5 {
        assert_eq!(peer.says_part(xid, part(true, &vec![0; 20_000])), Ok(None));
    }
    assert_eq!(
        peer.says_part(5, part(true, b"one more")),
        Err(SessionError::MultipartReplyTooLarge)
    );
}

/// A hundred switches with half a reply each are no more than one with too much.
#[test]
fn what_all_switches_hold_together_is_bounded() {
    let (cfg, pool) =
        (config(|cfg| cfg.multipart_total_bytes_max = 100_000), ReassemblyBudget::default());
    let mut peers: Vec<_> = (0..6).map(|_| Peer::up(&cfg, Version::V1_3)).collect();
    let zeros = vec![0; 20_000];
    let half = part(true, &zeros);
    for (n, peer) in peers.iter_mut().enumerate() {
        peer.session.set_reassembly_budget(&pool);
        let expected = if n < 5 { Ok(None) } else { Err(SessionError::MultipartBudgetExceeded) };
        assert_eq!(peer.says_part(99, half), expected);
    }
    // Whole ones need no room, and who goes gives back what it held.
    assert!(peers[0].says_part(7, part(false, b"whole")).unwrap().is_some());
    peers.drain(1..);
    assert_eq!((pool.used_bytes(), peers[0].says_part(99, half)), (20_000, Ok(None)));
}

#[test]
fn a_part_cut_off_is_malformed() {
    for (version, kind, len) in [(1, 17, 11), (4, 19, 15)] {
        let mut peer = Peer::up(&Config::default(), Version(version));
        let mut cut = vec![version, kind, 0, len, 0, 0, 0, 9];
        cut.resize(len.into(), 0);
        assert_eq!(peer.sends(&cut), Ok(Some(OwnedEvent::Malformed(MessageType::MULTIPART_REPLY))));
        let error = peer.told_error_about(&cut);
        assert_eq!(error, ErrorReason::BAD_LEN);
    }
}
