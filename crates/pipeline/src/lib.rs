//! How an OpenFlow switch processes a packet: the fields of a frame, matches, actions and action sets, groups, rewriting. §5.
//!
//! [`run`] takes a packet through the tables of a [`Datapath`]: an emulated switch, which sends what comes out, or a
//! [`SwitchState`](trace::SwitchState), tables as a real switch reports them, which records each step
//! ([`trace`]). [`frames`] makes a frame with given fields. No I/O, no clocks.

mod action_set;
pub mod buckets;
mod execute;
mod fields;
pub mod frames;
mod instruction_set;
mod packet;
pub mod trace;

pub use action_set::ActionSet;
pub use execute::{
    ActionHandling, ActionOrigin, Datapath, DropReason, FloodScope, SelectedBucket, TableResult,
    apply_actions, run,
};
pub use fields::{
    FieldMask, FlowKey, NormalizedMatch, PacketFields, UnusableMatch, field_bits, field_slot,
};
pub use instruction_set::InstructionSet;
pub use packet::{PacketInPipeline, TtlHeader, can_set};
