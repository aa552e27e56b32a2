//! What is done with a packet that a rule matches. §7.2.4; OpenFlow 1.5.1 §7.2.5.

use super::action::Action;
use super::codec::versions::{V1_1, V1_3, V1_4};
use super::codec::{Adapt, Choice, Codec};
use super::reader::Reader;
use super::rows::{choice, tlv};
use crate::{Inexpressible, Out, Result, Version};

choice! {
    /// An instruction of a rule. 1.0 has none but a list of actions, which is
    /// [`ApplyActions`](Self::ApplyActions).
    pub enum Instruction: "instruction" {
        /// Goes on in a later table.
        GotoTable "goto_table" {
            /// Which.
            table_id: u8,
        } = { V1_1.. => 1 [table_id, pad 3,] };
        /// Writes bits of the metadata, for later tables.
        WriteMetadata "write_metadata" {
            /// The bits.
            metadata: u64,
            /// Which of them count.
            metadata_mask: u64,
        } = { V1_1.. => 2 [pad 4, metadata, metadata_mask,] };
        /// Adds to what is done at the end.
        WriteActions "write_actions" {
            /// What.
            actions: Vec<Action>,
        } = { V1_1.. => 3 [pad 4, actions,] };
        /// Does something now.
        ApplyActions "apply_actions" {
            /// What.
            actions: Vec<Action>,
        } = { V1_1.. => 4 [pad 4, actions,] };
        /// Forgets what was to be done at the end.
        ClearActions "clear_actions" = { V1_1.. => 5 [pad 4,] };
        /// Counts and limits by a meter; since 1.5 an action does.
        Meter "meter" {
            /// Which.
            meter_id: u32,
        } = { V1_3..=V1_4 => 6 [meter_id,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// The rest, padding included.
            data: Vec<u8>,
        } = { V1_1.. => 0xffff [experimenter, data,] };
    }
}

tlv!(Instruction, Inside, Instruction, extended);

/// The bare list of actions that rules of 1.0 have, as one [`Instruction::ApplyActions`]; none if it is empty.
pub(crate) struct ActionsOf10;

impl Adapt<Vec<Instruction>> for ActionsOf10 {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<Instruction>> {
        let actions = Vec::parse(r)?;
        if actions.is_empty() {
            return Ok(vec![]);
        }
        Ok(vec![Instruction::ApplyActions { actions }])
    }

    fn emit(value: &Vec<Instruction>, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        value.iter().try_for_each(|instruction| match instruction {
            Instruction::ApplyActions { actions } => actions.emit(out),
            other => {
                other.code(out.version())?;
                out.needs(Version::V1_1, Instruction::WHAT)
            }
        })
    }
}
