//! No input makes a parser panic, and views agree with the owned messages.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_openflow::view::{ErrorMsg, Multipart, PacketIn, PacketOut, flow_stats};
use sluice_openflow::{
    Action, Counters, Elapsed, Encoder, Ethernet, Field, FlowDesc, FlowMod, FlowRemoved, FlowStats,
    Hello, Instruction, Match, Message, MessageType, MultipartFlags, MultipartReply, MultipartType,
    ParseErrorKind, PortNo, PortStatus, RawMessage, RoleRequest, Stat, Stats, SwitchConfig,
    SwitchFeatures, Version, ports, split_message, view,
};

/// Passes `bytes` to every public parser: none panics, and views agree with owned messages.
fn check(bytes: &[u8]) {
    _ = Ethernet::new(bytes);
    for version in 0..=8 {
        _ = ports(Version(version), bytes, 16);
    }
    let Ok(Some((raw, _))) = split_message(bytes) else { return };
    _ = raw.kind().to_string();
    _ = Hello::parse_raw(raw);
    _ = Multipart::new(raw);
    _ = SwitchFeatures::parse_raw(raw);
    _ = SwitchConfig::parse_raw(raw);
    _ = RoleRequest::parse_raw(raw);
    _ = FlowRemoved::parse_raw(raw);
    _ = PortStatus::parse_raw(raw);
    _ = ErrorMsg::new(raw).map(|error| error.request());
    _ = PacketOut::new(raw).map(PacketOut::actions);
    let view = PacketIn::new(raw);
    let message = Message::parse_raw(raw);
    check_flow_views(raw, message.as_ref().map_err(|e| *e));
    if raw.kind() == MessageType::FLOW_MOD {
        check_flow_mod_view(view::FlowMod::new(raw), message.as_ref().map_err(|e| *e));
    }
    if raw.kind() == MessageType::PACKET_IN {
        check_packet_in_view(view, message.as_ref().map_err(|e| *e));
    }
    let Ok(message) = message else { return };
    let (mut tx, mut xid) = (vec![], 1);
    if message.encode(raw.xid(), &mut Encoder::new(&mut tx, raw.version(), &mut xid)).is_ok() {
        assert_eq!(RawMessage::new(&tx).and_then(Message::parse_raw), Ok(message));
    } else {
        assert!(tx.is_empty(), "a message that cannot be encoded leaves the buffer unchanged");
    }
}

/// Checks that view and owned packet-in have the same values, or that both are refused; a view requires an ingress port.
fn check_packet_in_view(
    view: sluice_openflow::Result<PacketIn<'_>>,
    owned: sluice_openflow::Result<&Message>,
) {
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
        (view, owned) => panic!("view {view:?}, owned {owned:?}"),
    }
}

/// Checks that a view of a `FLOW_MOD` and the owned message have the same values, or that both are refused at the same
/// position for the same reason.
fn check_flow_mod_view(
    view: sluice_openflow::Result<view::FlowMod<'_>>,
    owned: sluice_openflow::Result<&Message>,
) {
    let parsed = view.and_then(|view| view.to_flow_mod()).map(Message::FlowMod);
    let expected = owned.as_ref().map(|owned| *owned);
    assert_eq!(parsed.as_ref().map_err(location), expected.map_err(location));
    let (Ok(view), Ok(Message::FlowMod(owned))) = (view, owned) else { return };
    let read = FlowMod {
        command: view.command,
        cookie: view.cookie,
        cookie_mask: view.cookie_mask,
        table_id: view.table_id,
        idle_timeout: view.idle_timeout,
        hard_timeout: view.hard_timeout,
        priority: view.priority,
        buffer_id: view.buffer_id,
        out_port: view.out_port,
        out_group: view.out_group,
        flags: view.flags,
        importance: view.importance,
        matching: view.matching.to_match(),
        instructions: view.instructions().unwrap(),
    };
    assert_eq!(&read, owned);
    let fields = owned.matching.iter().copied().collect::<Vec<_>>();
    assert_eq!(view.matching.iter().collect::<Vec<_>>(), fields);
}

/// Checks that views of flow entries and owned messages have the same values, or that both are refused at the same
/// position for the same reason.
fn check_flow_views(raw: RawMessage<'_>, owned: sluice_openflow::Result<&Message>) {
    if raw.kind() == MessageType::FLOW_REMOVED {
        let view = view::FlowRemoved::new(raw);
        let parsed = view.map(|view| Message::FlowRemoved(view.to_flow_removed()));
        assert_eq!(
            parsed.as_ref().map_err(location),
            owned.as_ref().map(|owned| *owned).map_err(location)
        );
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
    let (MessageType::MULTIPART_REPLY, Ok(part)) = (raw.kind(), Multipart::new(raw)) else {
        return;
    };
    let at = u16::try_from(raw.bytes().len() - part.body.len()).unwrap();
    let views = || flow_stats(raw.version(), part.kind, part.body, at);
    let parsed: sluice_openflow::Result<Vec<_>> =
        views().map(|view| view.and_then(|view| view.to_flow_desc())).collect();
    let expected = match owned {
        Ok(Message::MultipartReply(reply)) => match &reply.body {
            MultipartReply::FlowDesc { flows } => flows.clone(),
            MultipartReply::FlowStats { flows } => flows.iter().map(as_desc).collect(),
            _ => return assert!(parsed.is_err() || part.body.is_empty()),
        },
        Ok(_) => return,
        // Bodies without flow entries are valid for the view.
        Err(_) if part.body.is_empty() => return assert_eq!(parsed, Ok(vec![])),
        Err(_) if !matches!(part.kind, MultipartType::FLOW | MultipartType::FLOW_STATS) => {
            return assert!(parsed.is_err());
        }
        Err(error) => return assert_eq!(parsed.as_ref().map_err(location), Err(location(&error))),
    };
    assert_eq!(parsed.as_ref(), Ok(&expected));
    for (view, expected) in views().zip(&expected) {
        let view = view.unwrap();
        assert_eq!(
            (view.table_id, view.priority, view.cookie),
            (expected.table_id, expected.priority, expected.cookie)
        );
        assert_eq!(
            (view.idle_timeout, view.hard_timeout),
            (expected.idle_timeout, expected.hard_timeout)
        );
        assert_eq!((view.flags, view.importance), (expected.flags, expected.importance));
        assert_eq!(
            (view.matching.to_match(), view.stats),
            (expected.matching.clone(), counters(&expected.stats))
        );
        assert_eq!(view.instructions().as_ref(), Ok(&expected.instructions));
        assert_eq!(view.instruction_bytes().is_empty(), expected.instructions.is_empty());
    }
}

/// Where an error is and of what kind. The names in errors are not compared: those of a view and of the model differ.
fn location(error: &sluice_openflow::ParseError) -> (u16, ParseErrorKind) {
    (error.at, error.why)
}

/// The counters of a view for `stats`.
fn counters(stats: &Stats) -> Counters {
    Counters {
        duration: stats.duration(),
        idle_time: stats.idle_time(),
        flow_count: stats.flow_count(),
        packet_count: stats.packet_count(),
        byte_count: stats.byte_count(),
    }
}

/// A flow entry as `FLOW_STATS` describes it, without instructions.
fn as_desc(flow: &FlowStats) -> FlowDesc {
    let FlowStats { table_id, priority, matching, stats, .. } = flow.clone();
    FlowDesc { table_id, priority, matching, stats, ..FlowDesc::default() }
}

/// Sets the length in the header to the actual length.
fn with_correct_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn truncated_and_extended_golden_messages_do_not_panic() {
    for golden in support::golden_files() {
        for end in 0..golden.bytes.len() {
            check(&golden.bytes[..end]);
            if end >= 8 {
                check(&with_correct_length(golden.bytes[..end].to_vec()));
            }
        }
        for more in 1..=40 {
            let mut longer = golden.bytes.clone();
            longer.resize(golden.bytes.len() + more, 0xff);
            check(&longer);
            check(&with_correct_length(longer));
        }
    }
}

/// Replaces each pair of bytes, since any pair could be a length.
#[test]
fn golden_messages_with_wrong_lengths_do_not_panic() {
    for golden in support::golden_files() {
        for at in 2..golden.bytes.len() - 1 {
            let len = u16::try_from(golden.bytes.len()).unwrap();
            for wrong_len in [0, 1, 3, 4, 7, 8, len - 1, len, len + 1, 0x7fff, 0xfff8, 0xffff] {
                let mut bytes = golden.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&u16::to_be_bytes(wrong_len));
                check(&bytes);
            }
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = golden.bytes.clone();
                bytes[at] = byte;
                check(&bytes);
            }
        }
    }
}

#[test]
fn golden_messages_with_another_version_and_type_do_not_panic() {
    for golden in support::golden_files() {
        for version in (0..=8).chain([0x81, 0x84, 0xff]) {
            for kind in 0..=40 {
                let mut bytes = golden.bytes.clone();
                (bytes[0], bytes[1]) = (version, kind);
                check(&bytes);
            }
        }
    }
}

/// `FLOW_REMOVED` and flow statistics messages of `version`.
fn flow_messages(version: Version) -> Vec<Vec<u8>> {
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
    let removed = FlowRemoved {
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
    let empty = FlowDesc::default();
    let counted = FlowStats { table_id: 7, priority: 8, matching, stats, ..FlowStats::default() };
    let reply = |body| {
        Message::MultipartReply(sluice_openflow::Multipart { flags: MultipartFlags::MORE, body })
    };
    let mut messages = vec![
        Message::FlowRemoved(removed),
        Message::FlowRemoved(FlowRemoved::default()),
        reply(MultipartReply::FlowDesc { flows: vec![desc.clone(), empty, desc] }),
    ];
    if version == Version::V1_5 {
        messages.push(reply(MultipartReply::FlowStats {
            flows: vec![counted.clone(), FlowStats::default(), counted],
        }));
    }
    let encoded = messages.iter().map(|message| {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(1, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
        tx
    });
    encoded.collect()
}

#[test]
fn flow_views_agree_with_owned_messages_on_corrupted_bytes() {
    for bytes in (1..=6).map(Version).flat_map(flow_messages) {
        check(&bytes);
        for end in 8..bytes.len() {
            check(&with_correct_length(bytes[..end].to_vec()));
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
                check(&bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn random_bodies_of_every_type_do_not_panic(
        version in any::<u8>(),
        kind in 0..40u8,
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..200),
    ) {
        let mut bytes = vec![version, kind, 0, 0, 0, 0, 0, 1];
        bytes.extend(body);
        for version in [bytes[0], bytes[0] % 8] {
            bytes[0] = version;
            check(&with_correct_length(bytes.clone()));
        }
    }

    #[test]
    fn flow_views_agree_with_owned_messages_on_random_bytes(
        version in 1..=6u8,
        which in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..120),
        keep in any::<prop::sample::Index>(),
    ) {
        let messages = flow_messages(Version(version));
        let mut bytes = which.get(&messages).clone();
        for (at, byte) in changes {
            let at = 8 + at.index(bytes.len() - 8);
            bytes[at] = byte;
        }
        check(&bytes);
        bytes.truncate(8 + keep.index(bytes.len() - 8));
        bytes.extend(body);
        check(&with_correct_length(bytes));
    }
}
