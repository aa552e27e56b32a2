//! Views of flow entries do not allocate.

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

/// Flow entries in one reply.
const ENTRIES: u32 = 200;

fn encoded(message: &Message, version: Version) -> Vec<u8> {
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

fn flow_removed(version: Version) -> Vec<u8> {
    let (matching, stats) = (matching(), stats());
    encoded(
        &Message::FlowRemoved(FlowRemoved { matching, stats, ..FlowRemoved::default() }),
        version,
    )
}

/// A multipart reply of type `kind` with [`ENTRIES`] flow entries and their counters.
fn flow_reply(version: Version, kind: MultipartType) -> Vec<u8> {
    let n = ENTRIES as usize;
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
    encoded(&Message::MultipartReply(Multipart { flags, body }), version)
}

/// Iterates over all views; returns the number of flow entries and the sum of their packet counts.
fn sum_counters(flow_removed: &[u8], flow_reply: &[u8], kind: MultipartType) -> (u32, u64) {
    let removed = view::FlowRemoved::new(RawMessage::new(flow_removed).unwrap()).unwrap();
    let reply = RawMessage::new(flow_reply).unwrap();
    let part = view::Multipart::new(reply).unwrap();
    let (mut entries, mut packets) = (1, removed.stats.packet_count.unwrap());
    for entry in flow_stats(reply.version(), kind, part.body, 16) {
        entries += 1;
        packets += entry.unwrap().stats.packet_count.unwrap();
    }
    (entries, packets)
}

/// Allocations are counted for the whole process, so this is a program without the test harness, whose main thread allocates
/// while a test starts.
fn main() {
    views_of_flow_removed_and_flow_statistics_do_not_allocate();
}

fn views_of_flow_removed_and_flow_statistics_do_not_allocate() {
    let flow = (1..=6).map(|n| (Version(n), MultipartType::FLOW));
    for (version, kind) in flow.chain([(Version::V1_5, MultipartType::FLOW_STATS)]) {
        let (flow_removed, flow_reply) = (flow_removed(version), flow_reply(version, kind));
        let region = Region::new(ALLOCATOR);
        let sums = sum_counters(&flow_removed, &flow_reply, kind);
        let change = region.change();
        assert_eq!(sums, (ENTRIES + 1, 3 * u64::from(ENTRIES + 1)), "{version}");
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{version}, {kind:?}");
    }
}
