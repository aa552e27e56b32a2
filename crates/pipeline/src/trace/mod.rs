//! What a switch does with a packet, step by step: the [pipeline](crate::run) with tables that a switch has reported.
//!
//! Nothing is sent, and no counter changes. What the switch decides by itself is not guessed: of a select group all buckets that
//! it may choose are followed; meters let everything pass; a match or an action that is not modelled is named.

mod recorder;
mod state;

use std::fmt;
use std::sync::Arc;

use sluice_openflow::{Action, FlowDesc, GroupId, GroupType, Match, PacketInReason, PortNo};

pub use recorder::{TraceLimits, trace};
pub use state::SwitchState;

use crate::execute::DropReason;

/// What a switch does with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchTrace {
    /// In the order in which they happen.
    pub steps: Vec<Step>,
    /// The copies of the packet that leave the pipeline, in that order.
    pub outputs: Vec<TracedOutput>,
}

/// Something that happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number of groups that contain it.
    pub depth: u8,
    /// What happens.
    pub kind: StepKind,
}

/// What happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// A flow entry matches.
    Entry(Arc<FlowDesc>),
    /// No flow entry of the table matches.
    Miss {
        /// The table.
        table_id: u8,
        /// What the configuration of the table does with the packet.
        result: MissResult,
    },
    /// The action set is executed.
    ActionSet,
    /// An action is executed.
    Action(Action),
    /// A copy of the packet passes through a bucket.
    Bucket {
        /// The group.
        group: GroupId,
        /// The type of the group.
        kind: GroupType,
        /// The index of the bucket in the group.
        index: usize,
        /// Whether the switch chooses between this bucket and others.
        is_alternative: bool,
    },
    /// A copy of the packet leaves the pipeline; the index in [`SwitchTrace::outputs`].
    Output(usize),
    /// The packet, or a copy of it, is dropped.
    Dropped(TracedDrop),
    /// Something that the reader should know.
    Note(String),
}

/// What happens to a packet that no flow entry matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissResult {
    /// It is sent to the controller.
    ToController,
    /// It continues with the next table.
    NextTable,
    /// It is dropped.
    Drop,
}

/// A packet that is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedDrop {
    /// Why.
    pub reason: TracedDropReason,
    /// The last flow entry that it has matched.
    pub entry: Option<Arc<FlowDesc>>,
    /// Whether it is one of several things that the switch chooses from.
    pub is_alternative: bool,
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedDropReason {
    /// By the pipeline.
    Pipeline(DropReason),
    /// The output port is down.
    PortDown(PortNo),
    /// The output port does not exist.
    NoSuchPort(PortNo),
    /// The output port is configured not to forward (`NO_FWD`).
    NoForwarding(PortNo),
    /// The input port is configured not to cause packet-ins (`NO_PACKET_IN`).
    NoPacketIn(PortNo),
    /// The input port is down.
    InputPortDown(PortNo),
    /// The input port is configured not to receive (`NO_RECV`).
    NoReceiving(PortNo),
}

/// A copy of a packet that leaves the pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedOutput {
    /// Where it goes.
    pub to: OutputTo,
    /// The packet; copies that do not differ share it.
    pub frame: Arc<[u8]>,
    /// The fields of its headers.
    pub fields: Match,
    /// Whether it is one of several things that the switch chooses from.
    pub is_alternative: bool,
}

/// Where a packet goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTo {
    /// Out of a port that is up.
    Port(PortNo),
    /// To the controller.
    Controller {
        /// The reason of the packet-in, as OpenFlow 1.4 has it.
        reason: PacketInReason,
        /// The table of the flow entry, or the one that has none.
        table_id: u8,
    },
    /// To the switch's own pipeline, which is not that of OpenFlow: `NORMAL`.
    Normal,
    /// Not known: this action is not modelled.
    Unmodelled(Action),
    /// Not known: there were too many steps.
    Limit,
}

impl fmt::Display for TracedDropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipeline(reason) => f.write_str(match reason {
                DropReason::TableMiss => "no flow entry matches",
                DropReason::NoOutput => "the flow entry sends it nowhere",
                DropReason::TtlExpired => "its TTL expires",
                DropReason::InputPort => "the output port is the port where it has arrived",
                DropReason::NoBucket => "the group does not exist or has no live bucket",
                DropReason::TooManyCopies => "groups are nested too deeply or make too many copies",
            }),
            Self::PortDown(port) => write!(f, "port {port} is down"),
            Self::NoSuchPort(port) => write!(f, "there is no port {port}"),
            Self::NoForwarding(port) => write!(f, "port {port} does not forward (no_fwd)"),
            Self::NoPacketIn(port) => write!(f, "port {port} sends no packet-ins (no_packet_in)"),
            Self::InputPortDown(port) => write!(f, "the input port {port} is down"),
            Self::NoReceiving(port) => {
                write!(f, "the input port {port} does not receive (no_recv)")
            }
        }
    }
}
