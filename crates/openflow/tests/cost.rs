//! What views cost: nothing is allocated for them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;

use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    Action, Elapsed, Encoder, Field, FlowDesc, FlowRemoved, FlowStats, Instruction, MacAddr, Match,
    Message, Multipart, MultipartFlags, MultipartReply, MultipartType, PortNo, RawMessage, Stat,
    Stats, Version, view,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rules in one reply.
const RULES: u32 = 200;

fn written(message: &Message, version: Version) -> Vec<u8> {
    let (mut tx, mut xid) = (vec![], 1);
    message.encode(1, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
    tx
}

fn matching() -> Match {
    [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9]))].into()
}

fn stats() -> Stats {
    let duration = Stat::Duration(Elapsed { sec: 1, nsec: 2 });
    Stats { fields: vec![duration, Stat::PacketCount(3), Stat::ByteCount(4)] }
}

fn gone(version: Version) -> Vec<u8> {
    let (matching, stats) = (matching(), stats());
    written(
        &Message::FlowRemoved(FlowRemoved { matching, stats, ..FlowRemoved::default() }),
        version,
    )
}

/// Rules with their counters in the form of `kind`.
fn told(version: Version, kind: MultipartType) -> Vec<u8> {
    let n = RULES as usize;
    let body = if kind == MultipartType::FLOW_STATS {
        let it = FlowStats { matching: matching(), stats: stats(), ..FlowStats::default() };
        MultipartReply::FlowStats { flows: vec![it; n] }
    } else {
        let instructions = vec![Instruction::apply([Action::output(PortNo(2))])];
        let (matching, stats) = (matching(), stats());
        let it = FlowDesc { matching, stats, instructions, ..FlowDesc::default() };
        MultipartReply::FlowDesc { flows: vec![it; n] }
    };
    let flags = MultipartFlags::default();
    written(&Message::MultipartReply(Multipart { flags, body }), version)
}

/// Proves and walks over all of them; gives back how many rules and packets they tell.
fn walk(gone: &[u8], told: &[u8], kind: MultipartType) -> (u32, u64) {
    let removed = view::FlowRemoved::new(RawMessage::new(gone).unwrap()).unwrap();
    let reply = RawMessage::new(told).unwrap();
    let part = view::Multipart::new(reply).unwrap();
    let (mut rules, mut packets) = (1, removed.stats.packet_count.unwrap());
    for rule in flow_stats(reply.version(), kind, part.body, 16) {
        rules += 1;
        packets += rule.unwrap().stats.packet_count.unwrap();
    }
    (rules, packets)
}

/// One test, since it counts for the whole process.
#[test]
fn rules_that_are_gone_and_rules_that_are_counted_allocate_nothing() {
    let of = |version| (version, MultipartType::FLOW);
    let forms = (1..=6).map(|n| of(Version(n)));
    for (version, kind) in forms.chain([(Version::V1_5, MultipartType::FLOW_STATS)]) {
        let (gone, told) = (gone(version), told(version, kind));
        let region = Region::new(ALLOCATOR);
        let walked = walk(&gone, &told, kind);
        let change = region.change();
        assert_eq!(walked, (RULES + 1, 3 * u64::from(RULES + 1)), "{version}");
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{version}, {kind:?}");
    }
}
