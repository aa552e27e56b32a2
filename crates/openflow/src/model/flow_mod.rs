//! `FLOW_MOD`: adds, changes or deletes rules. §7.3.4.1.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::group::GroupId;
use super::instruction::{Instruction, PlainActions};
use super::matching::{Match, Nxm};
use super::reader::Reader;
use super::rows::{codes, flags, record};
use super::wire_types::{BufferId, Port16};
use crate::{EncodeError, Encoder, PortNo, Result, Version};

codes! {
    /// What a `FLOW_MOD` does.
    pub struct FlowModCommand(u8);
    ADD = 0, V1_0, "A new rule, in place of an identical one.";
    MODIFY = 1, V1_0, "Other instructions for all rules that the match covers.";
    MODIFY_STRICT = 2, V1_0, "Other instructions for the rule with just this match and priority.";
    DELETE = 3, V1_0, "All rules that the match covers go.";
    DELETE_STRICT = 4, V1_0, "The rule with just this match and priority goes.";
}

flags! {
    /// `OFPFF_*`: how a rule is kept. [`EMERG`](Self::EMERG), which has the number of
    /// [`RESET_COUNTS`](Self::RESET_COUNTS) in 1.0, stands outside of the 16 bits of the wire here.
    pub struct FlowModFlags(u32);
    SEND_FLOW_REM = 1, V1_0, "The switch says so when the rule is gone.";
    CHECK_OVERLAP = 2, V1_0, "Refused if it overlaps a rule of the same priority.";
    RESET_COUNTS = 4, V1_2, "Counters start again.";
    NO_PKT_COUNTS = 8, V1_3, "Packets are not counted.";
    NO_BYT_COUNTS = 16, V1_3, "Bytes are not counted.";
    EMERG = 0x1_0000, V1_0 ..= V1_0, "Holds while there is no controller.";
}

/// The 16 bits that flags have on the wire.
pub(crate) struct Flags16;

impl Flags16 {
    const EMERG_IN_1_0: u16 = 4;
}

impl Encoding<FlowModFlags> for Flags16 {
    fn parse(r: &mut Reader<'_>) -> Result<FlowModFlags> {
        let bits = r.u16("flags")?;
        if r.version() == Version::V1_0 && bits & Self::EMERG_IN_1_0 != 0 {
            let others = FlowModFlags(u32::from(bits & !Self::EMERG_IN_1_0));
            return Ok(others | FlowModFlags::EMERG);
        }
        Ok(FlowModFlags(bits.into()))
    }

    fn encode(value: &FlowModFlags, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (version, FlowModFlags(mut bits)) = (out.version(), *value);
        if version == Version::V1_0 {
            if value.contains(FlowModFlags::RESET_COUNTS) {
                return out.needs(Version::V1_2, "reset_counts");
            }
            if value.contains(FlowModFlags::EMERG) {
                bits = bits & !FlowModFlags::EMERG.0 | u32::from(Self::EMERG_IN_1_0);
            }
        }
        let emerg = EncodeError { what: "emerg", version, needs: None };
        u16::try_from(bits).map_err(|_| emerg)?.encode(out)
    }
}

record! {
    /// A rule, and what to do with it. §7.3.4.1.
    pub struct FlowMod: "flow_mod" {
        /// What to do.
        pub command: FlowModCommand,
        /// The controller's own mark.
        pub cookie: u64,
        /// Restricts changes and deletions to rules whose cookie agrees in these bits. Not in 1.0.
        pub cookie_mask: u64,
        /// In which table; since 1.2, 255 for all, in deletions. In 1.0 it is 0, or Nicira's, from whom a switch must have heard
        /// that it stands there.
        pub table_id: u8,
        /// Seconds without a packet after which the rule goes; 0 never.
        pub idle_timeout: u16,
        /// Seconds after which the rule goes; 0 never.
        pub hard_timeout: u16,
        /// The highest that matches wins.
        pub priority: u16,
        /// A frame in the switch that the new rule is applied to.
        pub buffer_id: Option<u32>,
        /// Restricts deletions to rules that output here; [`PortNo::ANY`] for all.
        pub out_port: PortNo,
        /// Restricts deletions to rules that send to this group; [`GroupId::ANY`] for all. Not in 1.0.
        pub out_group: GroupId,
        /// How it is kept.
        pub flags: FlowModFlags,
        /// The least important goes first where tables are full. Since 1.4.
        pub importance: u16,
        /// What a packet must have.
        pub matching: Match,
        /// What is done with it. In 1.0 one list of actions to apply at most.
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        matching, cookie, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, flags as Flags16, instructions as PlainActions,
    ]
    V1_1..=V1_3 => [
        cookie, cookie_mask, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, out_group, flags as Flags16, pad 2, matching, instructions,
    ]
    V1_4.. => [
        cookie, cookie_mask, table_id, command, idle_timeout, hard_timeout, priority,
        buffer_id as BufferId, out_port, out_group, flags as Flags16, importance, matching,
        instructions,
    ]
}

impl FlowMod {
    /// `OFPTT_ALL`: every table.
    pub const TABLE_ALL: u8 = 0xff;
    /// `OFP_DEFAULT_PRIORITY`.
    pub const PRIORITY_DEFAULT: u16 = 0x8000;
}

impl Default for FlowMod {
    /// Adds a rule to table 0 that matches everything and drops it.
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
    /// `NXT_FLOW_MOD`: the same in Nicira's form, whose match has the fields of later versions.
    pub struct NxFlowMod: "nx_flow_mod" {
        /// What to do.
        pub command: FlowModCommand,
        /// The controller's own mark.
        pub cookie: u64,
        /// In which table, if the switch has heard that it stands here.
        pub table_id: u8,
        /// Seconds without a packet after which the rule goes; 0 never.
        pub idle_timeout: u16,
        /// Seconds after which the rule goes; 0 never.
        pub hard_timeout: u16,
        /// The highest that matches wins.
        pub priority: u16,
        /// A frame in the switch that the new rule is applied to.
        pub buffer_id: Option<u32>,
        /// Restricts deletions to rules that output here; [`PortNo::ANY`] for all.
        pub out_port: PortNo,
        /// How it is kept.
        pub flags: FlowModFlags,
        /// What a packet must have.
        pub matching: Match,
        /// What is done with it. In 1.0 one list of actions to apply at most.
        pub instructions: Vec<Instruction>,
    }
    V1_0 => [
        cookie, table_id, command, idle_timeout, hard_timeout, priority, buffer_id as BufferId,
        out_port as Port16, flags as Flags16, sized, pad 6, matching in sized as Nxm, align 0,
        instructions as PlainActions,
    ]
    V1_1.. => [
        cookie, table_id, command, idle_timeout, hard_timeout, priority, buffer_id as BufferId,
        out_port as Port16, flags as Flags16, sized, pad 6, matching in sized as Nxm, align 0,
        instructions,
    ]
}

impl Default for NxFlowMod {
    /// Adds a rule to table 0 that matches everything and drops it.
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
