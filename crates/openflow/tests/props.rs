//! No bytes make a parser panic; what is written is read as it was meant.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_openflow::view::{ErrorMsg, FlowMod, Multipart, PacketIn, PacketOut, flow_stats};
use sluice_openflow::{
    Action, Counters, Elapsed, Encoder, Ethernet, Field, FlowDesc, FlowRemoved, FlowStats, Hello,
    Instruction, Match, Message, MessageType, MultipartFlags, MultipartReply, MultipartType,
    ParseErrorKind, PortNo, PortStatus, RawMessage, RoleRequest, Stat, Stats, SwitchConfig,
    SwitchFeatures, Version, ports, split_message, view,
};

/// Feeds `bytes` to every public parser; all that is asked for is that they return, and agree.
fn hear(bytes: &[u8]) {
    _ = Ethernet::new(bytes);
    for version in 0..=8 {
        _ = ports(Version(version), bytes, 16);
    }
    let Ok(Some((frame, _))) = split_message(bytes) else { return };
    _ = frame.kind().to_string();
    _ = Hello::read(frame);
    _ = Multipart::new(frame);
    _ = SwitchFeatures::read(frame);
    _ = SwitchConfig::read(frame);
    _ = RoleRequest::read(frame);
    _ = FlowRemoved::read(frame);
    _ = PortStatus::read(frame);
    _ = ErrorMsg::new(frame).map(|error| error.request());
    _ = PacketOut::new(frame).map(PacketOut::actions);
    _ = FlowMod::new(frame).map(FlowMod::to_flow_mod);
    let view = PacketIn::new(frame);
    let message = Message::parse_raw(frame);
    agree_on_rules(frame, message.as_ref().map_err(|e| *e));
    if frame.kind() == MessageType::PACKET_IN {
        agree(view, message.as_ref().map_err(|e| *e));
    }
    let Ok(message) = message else { return };
    let (mut tx, mut xid) = (vec![], 1);
    if message.encode(frame.xid(), &mut Encoder::new(&mut tx, frame.version(), &mut xid)).is_ok() {
        assert_eq!(RawMessage::new(&tx).and_then(Message::parse_raw), Ok(message));
    } else {
        assert!(tx.is_empty(), "what cannot be said leaves nothing behind");
    }
}

/// The view and the owned form read the same, or both refuse; a view has an ingress port besides.
fn agree(view: sluice_openflow::Result<PacketIn<'_>>, owned: sluice_openflow::Result<&Message>) {
    match (view, owned) {
        (Ok(view), Ok(Message::PacketIn(owned))) => {
            assert_eq!(
                (view.buffer_id, view.in_port),
                (owned.buffer_id, owned.in_port().unwrap_or(PortNo::ANY))
            );
            assert_eq!((view.cookie, view.table_id), (owned.cookie, owned.table_id));
            assert_eq!((view.reason, view.total_len), (owned.reason, owned.total_len));
            assert_eq!(view.frame, owned.data);
        }
        (Err(_), Ok(Message::PacketIn(owned))) => assert_eq!(owned.in_port(), None),
        (Err(_), Err(_)) => {}
        (view, owned) => panic!("{view:?} is {owned:?}"),
    }
}

/// The views of rules and their owned forms read the same, or both refuse at the same place for the same reason.
fn agree_on_rules(frame: RawMessage<'_>, owned: sluice_openflow::Result<&Message>) {
    if frame.kind() == MessageType::FLOW_REMOVED {
        let view = view::FlowRemoved::new(frame);
        let read = view.map(|view| Message::FlowRemoved(view.to_flow_removed()));
        assert_eq!(read.as_ref().map_err(place), owned.as_ref().map(|owned| *owned).map_err(place));
        if let (Ok(view), Ok(Message::FlowRemoved(owned))) = (view, owned) {
            assert_eq!(
                (view.cookie, view.priority, view.reason),
                (owned.cookie, owned.priority, owned.reason)
            );
            assert_eq!(
                (view.table_id, view.matching.to_match()),
                (owned.table_id, owned.matching.clone())
            );
            assert_eq!(
                (view.idle_timeout, view.hard_timeout),
                (owned.idle_timeout, owned.hard_timeout)
            );
            assert_eq!(view.stats, counters(&owned.stats));
        }
    }
    let (MessageType::MULTIPART_REPLY, Ok(part)) = (frame.kind(), Multipart::new(frame)) else {
        return;
    };
    let at = u16::try_from(frame.bytes().len() - part.body.len()).unwrap();
    let views = || flow_stats(frame.version(), part.kind, part.body, at);
    let read: sluice_openflow::Result<Vec<_>> =
        views().map(|view| view.and_then(|view| view.to_flow_desc())).collect();
    let told = match owned {
        Ok(Message::MultipartReply(reply)) => match &reply.body {
            MultipartReply::FlowDesc { flows } => flows.clone(),
            MultipartReply::FlowStats { flows } => flows.iter().map(as_desc).collect(),
            _ => return assert!(read.is_err() || part.body.is_empty()),
        },
        Ok(_) => return,
        // What is no rule has no fault.
        Err(_) if part.body.is_empty() => return assert_eq!(read, Ok(vec![])),
        Err(_) if !matches!(part.kind, MultipartType::FLOW | MultipartType::FLOW_STATS) => {
            return assert!(read.is_err());
        }
        Err(error) => return assert_eq!(read.as_ref().map_err(place), Err(place(&error))),
    };
    assert_eq!(read.as_ref(), Ok(&told));
    for (view, told) in views().zip(&told) {
        let view = view.unwrap();
        assert_eq!(
            (view.table_id, view.priority, view.cookie),
            (told.table_id, told.priority, told.cookie)
        );
        assert_eq!((view.idle_timeout, view.hard_timeout), (told.idle_timeout, told.hard_timeout));
        assert_eq!((view.flags, view.importance), (told.flags, told.importance));
        assert_eq!(
            (view.matching.to_match(), view.stats),
            (told.matching.clone(), counters(&told.stats))
        );
        assert_eq!(view.instructions().as_ref(), Ok(&told.instructions));
        assert_eq!(view.instruction_bytes().is_empty(), told.instructions.is_empty());
    }
}

/// Where a fault is and what it is; a name for all that a message holds is given by whoever reads it.
fn place(error: &sluice_openflow::ParseError) -> (u16, ParseErrorKind) {
    (error.at, error.why)
}

/// What a view says of `stats`.
fn counters(stats: &Stats) -> Counters {
    Counters {
        duration: stats.duration(),
        idle_time: stats.idle_time(),
        flow_count: stats.flow_count(),
        packet_count: stats.packet_count(),
        byte_count: stats.byte_count(),
    }
}

/// What `FLOW_STATS` tells of a rule.
fn as_desc(it: &FlowStats) -> FlowDesc {
    let FlowStats { table_id, priority, matching, stats, .. } = it.clone();
    FlowDesc { table_id, priority, matching, stats, ..FlowDesc::default() }
}

/// Sets the length in the header to what is there.
fn with_true_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn golden_messages_cut_and_lengthened_panic_nowhere() {
    for golden in support::all() {
        for end in 0..golden.bytes.len() {
            hear(&golden.bytes[..end]);
            if end >= 8 {
                hear(&with_true_length(golden.bytes[..end].to_vec()));
            }
        }
        for more in 1..=40 {
            let mut longer = golden.bytes.clone();
            longer.resize(golden.bytes.len() + more, 0xff);
            hear(&longer);
            hear(&with_true_length(longer));
        }
    }
}

/// Every pair of bytes is taken for a length once, since every length field is such a pair.
#[test]
fn golden_messages_with_false_lengths_panic_nowhere() {
    for golden in support::all() {
        for at in 2..golden.bytes.len() - 1 {
            let len = u16::try_from(golden.bytes.len()).unwrap();
            for false_len in [0, 1, 3, 4, 7, 8, len - 1, len, len + 1, 0x7fff, 0xfff8, 0xffff] {
                let mut bytes = golden.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&u16::to_be_bytes(false_len));
                hear(&bytes);
            }
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = golden.bytes.clone();
                bytes[at] = byte;
                hear(&bytes);
            }
        }
    }
}

#[test]
fn golden_messages_claimed_to_be_of_another_version_panic_nowhere() {
    for golden in support::all() {
        for version in (0..=8).chain([0x81, 0x84, 0xff]) {
            for kind in 0..=40 {
                let mut bytes = golden.bytes.clone();
                (bytes[0], bytes[1]) = (version, kind);
                hear(&bytes);
            }
        }
    }
}

/// Rules that are gone and rules with their counters, as `version` tells them.
fn rules(version: Version) -> Vec<Vec<u8>> {
    let matching =
        Match::from([Field::in_port(PortNo(1)), Field::eth_type(0x0800), Field::untagged()]);
    let mut stats = Stats {
        fields: vec![
            Stat::Duration(Elapsed { sec: 1, nsec: 2 }),
            Stat::PacketCount(3),
            Stat::ByteCount(4),
        ],
    };
    if version == Version::V1_5 {
        stats.fields.insert(1, Stat::IdleTime(Elapsed { sec: 5, nsec: 6 }));
        stats.fields.push(Stat::FlowCount(7));
        stats.fields.push(Stat::Other {
            class: 0xffff,
            number: 2,
            value: vec![0, 0, 0x23, 0x20, 8],
        });
    }
    let gone = FlowRemoved {
        cookie: 9,
        matching: matching.clone(),
        stats: stats.clone(),
        ..FlowRemoved::default()
    };
    let apply = Instruction::apply([Action::output(PortNo(2)), Action::output(PortNo::CONTROLLER)]);
    let mut instructions = vec![apply];
    if version > Version::V1_0 {
        instructions.push(Instruction::WriteMetadata { metadata: 1, metadata_mask: 3 });
        instructions.push(Instruction::GotoTable { table_id: 4 });
    }
    let desc = FlowDesc {
        priority: 5,
        cookie: 6,
        matching: matching.clone(),
        stats: stats.clone(),
        instructions,
        ..FlowDesc::default()
    };
    let silent = FlowDesc::default();
    let counted = FlowStats { table_id: 7, priority: 8, matching, stats, ..FlowStats::default() };
    let reply = |body| {
        Message::MultipartReply(sluice_openflow::Multipart { flags: MultipartFlags::MORE, body })
    };
    let mut messages = vec![
        Message::FlowRemoved(gone),
        Message::FlowRemoved(FlowRemoved::default()),
        reply(MultipartReply::FlowDesc { flows: vec![desc.clone(), silent, desc] }),
    ];
    if version == Version::V1_5 {
        messages.push(reply(MultipartReply::FlowStats {
            flows: vec![counted.clone(), FlowStats::default(), counted],
        }));
    }
    let written = messages.iter().map(|message| {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(1, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
        tx
    });
    written.collect()
}

#[test]
fn views_of_rules_and_their_owned_forms_agree_on_what_is_damaged() {
    for bytes in (1..=6).map(Version).flat_map(rules) {
        hear(&bytes);
        for end in 8..bytes.len() {
            hear(&with_true_length(bytes[..end].to_vec()));
        }
        for at in 2..bytes.len() {
            for byte in [
                0,
                1,
                2,
                3,
                4,
                7,
                8,
                0x7f,
                0x80,
                0xff,
                bytes[at].wrapping_sub(1),
                bytes[at].wrapping_add(1),
            ] {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                hear(&bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_panic_nowhere(bytes in vec(any::<u8>(), 0..200)) {
        hear(&bytes);
    }

    #[test]
    fn random_bodies_of_every_kind_panic_nowhere(
        version in any::<u8>(),
        kind in 0..40u8,
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..200),
    ) {
        let mut bytes = vec![version, kind, 0, 0, 0, 0, 0, 1];
        bytes.extend(body);
        for version in [bytes[0], bytes[0] % 8] {
            bytes[0] = version;
            hear(&with_true_length(bytes.clone()));
        }
    }

    #[test]
    fn views_of_rules_and_their_owned_forms_agree_on_random_bytes(
        version in 1..=6u8,
        which in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..120),
        keep in any::<prop::sample::Index>(),
    ) {
        let rules = rules(Version(version));
        let mut bytes = which.get(&rules).clone();
        for (at, byte) in changes {
            let at = 8 + at.index(bytes.len() - 8);
            bytes[at] = byte;
        }
        hear(&bytes);
        bytes.truncate(8 + keep.index(bytes.len() - 8));
        bytes.extend(body);
        hear(&with_true_length(bytes));
    }
}
