//! Flow entries and their counters: requests and replies. §7.3.5.2, §7.3.5.3.

use super::codec::ListItem;
use super::codec::versions::*;
use super::counter_fields::{AggregateFields, CountFields, DurationFields};
use super::flow_mod::FlowModFlags;
use super::flow_removed::PlusOne;
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{BareMatch, Match, StructOrOxm};
use super::oxs::Stats;
use super::rows::{codes, record};
use super::wire_types::Port16;
use crate::PortNo;
use crate::view::FlowStats as FlowStatsView;

/// `OFPTT_ALL`.
const TABLE_ALL: u8 = 0xff;

record! {
    /// Requests flow entries, or their counters. §7.3.5.2.
    pub struct FlowStatsRequest: "flow_stats request" {
        /// Only flow entries of this table; 255 is all tables.
        pub table_id: u8,
        /// Only flow entries with an output to this port; [`PortNo::ANY`] does not restrict.
        pub out_port: PortNo,
        /// Only flow entries that use this group; [`GroupId::ANY`] does not restrict. Since 1.1.
        pub out_group: GroupId,
        /// Only flow entries whose cookie equals this in the bits of `cookie_mask`. Since 1.1.
        pub cookie: u64,
        /// Bits of `cookie` to compare; 0 does not restrict. Since 1.1.
        pub cookie_mask: u64,
        /// Only flow entries whose match is equal or more specific.
        pub matching: Match,
    }
    V1_0 => [matching, table_id, pad 1, out_port,]
    V1_1.. => [table_id, pad 3, out_port, out_group, pad 4, cookie, cookie_mask, matching,]
}

impl Default for FlowStatsRequest {
    fn default() -> Self {
        Self {
            table_id: TABLE_ALL,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
        }
    }
}

record! {
    /// Requests flow entries, with Nicira's extensible match.
    pub struct NxFlowStatsRequest: "nx_flow request" {
        /// Only flow entries with an output to this port; [`PortNo::ANY`] does not restrict.
        pub out_port: PortNo,
        /// Only flow entries of this table; 255 is all tables.
        pub table_id: u8,
        /// Only flow entries whose match is equal or more specific.
        pub matching: Match,
    }
    V1_0.. => [out_port as Port16, sized, table_id, pad 3, matching in sized as BareMatch, align 0,]
}

impl Default for NxFlowStatsRequest {
    fn default() -> Self {
        Self { out_port: PortNo::ANY, table_id: TABLE_ALL, matching: Match::default() }
    }
}

record! {
    /// A flow entry with its counters: `OFPMP_FLOW` before 1.5, `OFPMP_FLOW_DESC` in 1.5. §7.3.5.2.
    #[derive(Default)]
    pub struct FlowDesc: "flow_desc", viewed by FlowStatsView::take_desc {
        /// Table of the flow entry.
        pub table_id: u8,
        /// Priority.
        pub priority: u16,
        /// Seconds without a matching packet after which the flow entry expires; 0 is never.
        pub idle_timeout: u16,
        /// Seconds after which the flow entry expires; 0 is never.
        pub hard_timeout: u16,
        /// Options. Since 1.3.
        pub flags: FlowModFlags,
        /// Eviction precedence: less important flow entries are evicted first. Since 1.4.
        pub importance: u16,
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Match.
        pub matching: Match,
        /// Whether the match is encoded as in 1.2, as Open vSwitch does. Only 1.1.
        pub oxm_match: bool,
        /// Duration, packet count and byte count; in 1.5 further statistics are possible.
        pub stats: Stats,
        /// Instructions.
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        length, table_id, pad 1, matching, stats by DurationFields, priority, idle_timeout, hard_timeout,
        pad 6, cookie, stats by CountFields, instructions as PlainActions,
    ]
    V1_1 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout, pad 6,
        cookie, stats by CountFields, matching and oxm_match as StructOrOxm, instructions,
    ]
    V1_2 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout, pad 6,
        cookie, stats by CountFields, matching, instructions,
    ]
    V1_3 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout,
        flags, pad 4, cookie, stats by CountFields, matching, instructions,
    ]
    V1_4 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout,
        flags, importance, pad 2, cookie, stats by CountFields, matching, instructions,
    ]
    V1_5.. => [
        length, pad 2, table_id, pad 1, priority, idle_timeout, hard_timeout, flags,
        importance, cookie, matching, stats, instructions,
    ]
}

impl ListItem for FlowDesc {}

record! {
    /// A flow entry with its counters, with Nicira's extensible match.
    #[derive(Default)]
    pub struct NxFlowStats: "nx_flow" {
        /// Table of the flow entry.
        pub table_id: u8,
        /// Priority.
        pub priority: u16,
        /// Seconds without a matching packet after which the flow entry expires; 0 is never.
        pub idle_timeout: u16,
        /// Seconds after which the flow entry expires; 0 is never.
        pub hard_timeout: u16,
        /// Seconds since the last matching packet, if known.
        pub idle_age: Option<u16>,
        /// Seconds since the flow entry was last modified, if known.
        pub hard_age: Option<u16>,
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Match.
        pub matching: Match,
        /// Duration, packet count and byte count.
        pub stats: Stats,
        /// At most one [`Instruction::ApplyActions`].
        pub instructions: Vec<Instruction>,
    }
    V1_0.. => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout, sized,
        idle_age as PlusOne, hard_age as PlusOne, cookie, stats by CountFields,
        matching in sized as BareMatch, align 0, instructions as PlainActions,
    ]
}

impl ListItem for NxFlowStats {}

codes! {
    /// `OFPFSR_*`: why flow statistics are sent. OpenFlow 1.5.0 §7.3.5.2.
    pub struct FlowStatsReason(u8);
    STATS_REQUEST = 0, V1_5, "Reply to a request.";
    STAT_TRIGGER = 1, V1_5, "A statistics trigger fired.";
}

record! {
    /// Counters of one flow entry. OpenFlow 1.5.0 §7.3.5.3.
    #[derive(Default)]
    pub struct FlowStats: "flow_stats", viewed by FlowStatsView::take_stats {
        /// Table of the flow entry.
        pub table_id: u8,
        /// Why they are sent.
        pub reason: FlowStatsReason,
        /// Priority.
        pub priority: u16,
        /// Match.
        pub matching: Match,
        /// Counters.
        pub stats: Stats,
    }
    V1_5.. => [length, pad 2, table_id, reason, priority, matching, stats,]
}

impl ListItem for FlowStats {}

record! {
    /// Counters summed over flow entries. §7.3.5.3.
    #[derive(Default)]
    pub struct AggregateStats: "aggregate_stats" {
        /// Number of flow entries, packet count and byte count; in 1.5 further statistics are possible.
        pub stats: Stats,
    }
    V1_0..=V1_4 => [stats as AggregateFields, pad 4,]
    V1_5.. => [stats,]
}
