//! What is done with a packet that a rule matches. §7.2.4.

use super::action::Action;
use super::codec::versions::*;
use super::rows::{choice, tlv};

choice! {
    /// An instruction of a rule.
    pub enum Instruction: "instruction" {
        /// Goes on in a later table.
        GotoTable "goto_table" {
            /// Which.
            table_id: u8,
        } = { V1_1.. => 1 [table_id, pad 3,] };
        /// Does something now.
        ApplyActions "apply_actions" {
            /// What.
            actions: Vec<Action>,
        } = { V1_1.. => 4 [pad 4, actions,] };
    }
}

tlv!(Instruction, Inside, Instruction, extended);
