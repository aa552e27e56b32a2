//! `FLOW_MOD`: adds, modifies or deletes flow entries. §7.3.4.1.

use super::action::Action;
use super::codec::versions::*;
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{BareMatch, Match};
use super::rows::{codes, flags, record};
use super::wire_types::{BufferId, Port16};
use crate::PortNo;
use crate::view::FlowMod as FlowModView;

codes! {
    /// `OFPFC_*`: command of a [`FlowMod`]. §7.3.4.1.
    pub struct FlowModCommand(u8);
    ADD = 0, V1_0, "Add a flow entry; replaces one with the same match and priority.";
    MODIFY = 1, V1_0, "Replace the instructions of all matching flow entries.";
    MODIFY_STRICT = 2, V1_0, "Replace the instructions of the flow entry with exactly this match and priority.";
    DELETE = 3, V1_0, "Delete all matching flow entries.";
    DELETE_STRICT = 4, V1_0, "Delete the flow entry with exactly this match and priority.";
}

flags! {
    /// `OFPFF_*`: options of a flow entry. §7.3.4.1.
    ///
    /// [`EMERG`](Self::EMERG) of OpenFlow 1.0 has the bit of [`RESET_COUNTS`](Self::RESET_COUNTS) on the wire.
    pub struct FlowModFlags(u32 as u16);
    SEND_FLOW_REM = 1, V1_0, "Send a flow-removed message when the flow entry expires or is deleted.";
    CHECK_OVERLAP = 2, V1_0, "Refuse the flow entry if it overlaps one of the same priority.";
    RESET_COUNTS = 4, V1_2, "Reset the counters.";
    NO_PKT_COUNTS = 8, V1_3, "Do not count packets.";
    NO_BYT_COUNTS = 16, V1_3, "Do not count bytes.";
    EMERG = 0x1_0000, V1_0..=V1_0 => 4, "Use the flow entry only while disconnected from the controller.";
}

record! {
    /// Adds, modifies or deletes flow entries. §7.3.4.1.
    pub struct FlowMod: "flow_mod", viewed by FlowModView::take {
        /// What to do.
        pub command: FlowModCommand,
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Restricts modifications and deletions to flow entries whose cookie equals `cookie` in these bits; 0 does
        /// not restrict. Since 1.1.
        pub cookie_mask: u64,
        /// Table of the flow entry; in deletions 255 is all tables (since 1.2).
        ///
        /// In 1.0 it must be 0, unless Nicira's extension that encodes the table in the command has been enabled with
        /// [`NxFlowModTableId`](super::Message::NxFlowModTableId). [`FlowMod::to_vec`] and
        /// [`Encoder::flow_mod`](crate::Encoder::flow_mod) encode deletions from all tables as 0 there.
        pub table_id: u8,
        /// Seconds without a matching packet after which the flow entry expires; 0 is never.
        pub idle_timeout: u16,
        /// Seconds after which the flow entry expires; 0 is never.
        pub hard_timeout: u16,
        /// Priority; the matching flow entry with the highest priority is selected.
        pub priority: u16,
        /// Packet buffered in the switch to which the new flow entry is applied.
        pub buffer_id: Option<u32>,
        /// Restricts deletions to flow entries with an output to this port; [`PortNo::ANY`] does not restrict.
        pub out_port: PortNo,
        /// Restricts deletions to flow entries that use this group; [`GroupId::ANY`] does not restrict. Since 1.1.
        pub out_group: GroupId,
        /// Options.
        pub flags: FlowModFlags,
        /// Eviction precedence: less important flow entries are evicted first. Since 1.4.
        pub importance: u16,
        /// Packets to match. `match` in the specification.
        pub matching: Match,
        /// Instructions for matching packets; in 1.0 at most one [`Instruction::ApplyActions`].
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        matching, cookie, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, flags, instructions as PlainActions,
    ]
    V1_1..=V1_3 => [
        cookie, cookie_mask, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, out_group, flags, pad 2, matching, instructions,
    ]
    V1_4.. => [
        cookie, cookie_mask, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, out_group, flags, importance, matching,
        instructions,
    ]
}

impl FlowMod {
    /// All tables, in deletions. `OFPTT_ALL`.
    pub const TABLE_ALL: u8 = 0xff;
    /// Default priority. `OFP_DEFAULT_PRIORITY`.
    pub const PRIORITY_DEFAULT: u16 = 0x8000;

    /// The table-miss entry that sends packets without a matching flow entry to the controller: up to `max_len` bytes, or whole
    /// and unbuffered with [`Action::WHOLE`]. For 1.3 and later; earlier versions need none. §5.4.
    pub fn table_miss(max_len: u16) -> Self {
        let actions = [Action::Output { port: PortNo::CONTROLLER, max_len }];
        Self { priority: 0, instructions: vec![Instruction::apply(actions)], ..Self::default() }
    }
}

impl Default for FlowMod {
    /// Adds a flow entry to table 0 that matches all packets and drops them.
    fn default() -> Self {
        Self {
            command: FlowModCommand::ADD,
            cookie: 0,
            cookie_mask: 0,
            table_id: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: Self::PRIORITY_DEFAULT,
            buffer_id: None,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowModFlags::default(),
            importance: 0,
            matching: Match::default(),
            instructions: vec![],
        }
    }
}

record! {
    /// `NXT_FLOW_MOD`: adds, modifies or deletes flow entries, with Nicira's extensible match.
    pub struct NxFlowMod: "nx_flow_mod" {
        /// What to do.
        pub command: FlowModCommand,
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Table of the flow entry, if [`NxFlowModTableId`](super::Message::NxFlowModTableId) has enabled it.
        pub table_id: u8,
        /// Seconds without a matching packet after which the flow entry expires; 0 is never.
        pub idle_timeout: u16,
        /// Seconds after which the flow entry expires; 0 is never.
        pub hard_timeout: u16,
        /// Priority; the matching flow entry with the highest priority is selected.
        pub priority: u16,
        /// Packet buffered in the switch to which the new flow entry is applied.
        pub buffer_id: Option<u32>,
        /// Restricts deletions to flow entries with an output to this port; [`PortNo::ANY`] does not restrict.
        pub out_port: PortNo,
        /// Options.
        pub flags: FlowModFlags,
        /// Packets to match. `match` in the specification.
        pub matching: Match,
        /// Instructions for matching packets; in 1.0 at most one [`Instruction::ApplyActions`].
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        cookie, table_id, command, idle_timeout, hard_timeout, priority, buffer_id as BufferId,
        out_port as Port16, flags, sized, pad 6, matching in sized as BareMatch, align 0,
        instructions as PlainActions,
    ]
    V1_1.. => [
        cookie, table_id, command, idle_timeout, hard_timeout, priority, buffer_id as BufferId,
        out_port as Port16, flags, sized, pad 6, matching in sized as BareMatch, align 0,
        instructions,
    ]
}

impl Default for NxFlowMod {
    /// Adds a flow entry to table 0 that matches all packets and drops them.
    fn default() -> Self {
        Self {
            command: FlowModCommand::ADD,
            cookie: 0,
            table_id: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: FlowMod::PRIORITY_DEFAULT,
            buffer_id: None,
            out_port: PortNo::ANY,
            flags: FlowModFlags::default(),
            matching: Match::default(),
            instructions: vec![],
        }
    }
}
