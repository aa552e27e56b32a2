//! Rules and their counters, asked for and told. §7.3.5.2, §7.3.5.3.

use super::codec::ListItem;
use super::codec::versions::*;
use super::counter_fields::{AggregateFields, CountFields, DurationFields};
use super::flow_mod::{Flags16, FlowModFlags};
use super::flow_removed::PlusOne;
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{Match, Nxm};
use super::oxs::Stats;
use super::rows::{codes, record};
use super::wire_types::Port16;
use crate::{FlowStatsView, PortNo};

/// `OFPTT_ALL`.
const TABLE_ALL: u8 = 0xff;

record! {
    /// Which rules are asked for. §7.3.5.2.
    pub struct FlowStatsRequest: "flow_stats request" {
        /// Those of a table; 255 for all.
        pub table_id: u8,
        /// Those that output here; [`PortNo::ANY`] for all.
        pub out_port: PortNo,
        /// Those that send to this group; [`GroupId::ANY`] for all. Not in 1.0.
        pub out_group: GroupId,
        /// Those with this mark, where `cookie_mask` is set. Not in 1.0.
        pub cookie: u64,
        /// The bits of the mark that count. Not in 1.0.
        pub cookie_mask: u64,
        /// Those that this covers.
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
    /// Which rules are asked for, in Nicira's form.
    pub struct NxFlowStatsRequest: "nx_flow request" {
        /// Those that output here; [`PortNo::ANY`] for all.
        pub out_port: PortNo,
        /// Those of a table; 255 for all.
        pub table_id: u8,
        /// Those that this covers.
        pub matching: Match,
    }
    V1_0.. => [out_port as Port16, sized, table_id, pad 3, matching in sized as Nxm, align 0,]
}

impl Default for NxFlowStatsRequest {
    fn default() -> Self {
        Self { out_port: PortNo::ANY, table_id: TABLE_ALL, matching: Match::default() }
    }
}

record! {
    /// One rule with its counters: `FLOW` before 1.5, `FLOW_DESC` there. §7.3.5.2.
    #[derive(Default)]
    pub struct FlowDesc: "flow_desc", in place by FlowStatsView::take_desc {
        /// Its table.
        pub table_id: u8,
        /// Its priority.
        pub priority: u16,
        /// Seconds without a packet after which it goes; 0 never.
        pub idle_timeout: u16,
        /// Seconds after which it goes; 0 never.
        pub hard_timeout: u16,
        /// How it is kept. Since 1.3.
        pub flags: FlowModFlags,
        /// The least important goes first where tables are full. Since 1.4.
        pub importance: u16,
        /// The controller's own mark.
        pub cookie: u64,
        /// What it matches.
        pub matching: Match,
        /// How long it has been there, and how many packets and bytes it matched. Before 1.5 just these.
        pub stats: Stats,
        /// What it does.
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        length, table_id, pad 1, matching, stats by DurationFields, priority, idle_timeout, hard_timeout,
        pad 6, cookie, stats by CountFields, instructions as PlainActions,
    ]
    V1_1 | V1_2 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout, pad 6,
        cookie, stats by CountFields, matching, instructions,
    ]
    V1_3 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout,
        flags as Flags16, pad 4, cookie, stats by CountFields, matching, instructions,
    ]
    V1_4 => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout,
        flags as Flags16, importance, pad 2, cookie, stats by CountFields, matching, instructions,
    ]
    V1_5.. => [
        length, pad 2, table_id, pad 1, priority, idle_timeout, hard_timeout, flags as Flags16,
        importance, cookie, matching, stats, instructions,
    ]
}

impl ListItem for FlowDesc {}

record! {
    /// One rule with its counters, in Nicira's form.
    #[derive(Default)]
    pub struct NxFlowStats: "nx_flow" {
        /// Its table.
        pub table_id: u8,
        /// Its priority.
        pub priority: u16,
        /// Seconds without a packet after which it goes; 0 never.
        pub idle_timeout: u16,
        /// Seconds after which it goes; 0 never.
        pub hard_timeout: u16,
        /// Seconds since its last packet, if the switch tells.
        pub idle_age: Option<u16>,
        /// Seconds since it was last changed, if the switch tells.
        pub hard_age: Option<u16>,
        /// The controller's own mark.
        pub cookie: u64,
        /// What it matches.
        pub matching: Match,
        /// How long it has been there, and how many packets and bytes it matched.
        pub stats: Stats,
        /// What it does: one list of actions to apply at most.
        pub instructions: Vec<Instruction>,
    }
    V1_0.. => [
        length, table_id, pad 1, stats by DurationFields, priority, idle_timeout, hard_timeout, sized,
        idle_age as PlusOne, hard_age as PlusOne, cookie, stats by CountFields,
        matching in sized as Nxm, align 0, instructions as PlainActions,
    ]
}

impl ListItem for NxFlowStats {}

codes! {
    /// Why counters of a rule are told. OpenFlow 1.5.0 §7.3.5.2.
    pub struct FlowStatsReason(u8);
    STATS_REQUEST = 0, V1_5, "They were asked for.";
    STAT_TRIGGER = 1, V1_5, "They came to a threshold.";
}

record! {
    /// The counters of one rule. OpenFlow 1.5.0 §7.3.5.3.
    #[derive(Default)]
    pub struct FlowStats: "flow_stats", in place by FlowStatsView::take_stats {
        /// Its table.
        pub table_id: u8,
        /// Why they are told.
        pub reason: FlowStatsReason,
        /// Its priority.
        pub priority: u16,
        /// What it matches.
        pub matching: Match,
        /// The counters.
        pub stats: Stats,
    }
    V1_5.. => [length, pad 2, table_id, reason, priority, matching, stats,]
}

impl ListItem for FlowStats {}

record! {
    /// Counters of rules, summed. §7.3.5.3.
    #[derive(Default)]
    pub struct AggregateStats: "aggregate_stats" {
        /// How many packets and bytes they matched, how many they are. Before 1.5 just these.
        pub stats: Stats,
    }
    V1_0..=V1_4 => [stats as AggregateFields, pad 4,]
    V1_5.. => [stats,]
}
