//! The documents that traces and paths are answered with: a contract with other programs, described in `docs/trace.md`.

use std::fmt::Write as _;

use serde::Serialize;
use sluice_openflow::{DatapathId, FlowDesc, Match};
use utoipa::ToSchema;

use crate::api::ApiState;
use crate::api::documents::{HostDocument, PlaceDocument, flow_text};

/// A trace through the network.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct TraceDocument {
    /// What becomes of the packet in the end.
    pub(super) outcome: Outcome,
    /// The same in a sentence.
    pub(super) summary: String,
    /// In the order in which they are passed, one branch after the other.
    pub(super) hops: Vec<HopDocument>,
    /// The ends of all branches, in the order in which they are reached.
    pub(super) ends: Vec<EndDocument>,
}

/// What becomes of a packet.
#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::api) enum Outcome {
    /// It leaves the network at a port to which it is addressed.
    Delivered,
    /// It leaves the network at another port.
    Left,
    /// It is sent to the controller.
    Controller,
    /// It comes back as it was to a port where it has been.
    Loop,
    /// It is dropped.
    Dropped,
    /// It cannot be known.
    Unknown,
    /// There are too many hops, steps or copies.
    Limit,
}

/// A packet arrives at a switch, which processes it.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct HopDocument {
    pub(super) hop: usize,
    /// The hop at which it was sent.
    pub(super) after: Option<usize>,
    pub(super) at: PlaceDocument,
    pub(super) packet: PacketDocument,
    pub(super) steps: Vec<StepDocument>,
}

/// A packet.
#[derive(Serialize, ToSchema)]
#[schema(as = TracePacketDocument)]
pub(in crate::api) struct PacketDocument {
    /// Its fields in the syntax of `ovs-ofctl`.
    pub(super) text: String,
    /// Its bytes.
    pub(super) hex: String,
}

/// Something that happens at a switch.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct StepDocument {
    /// The number of groups that contain it.
    pub(super) depth: u8,
    #[serde(flatten)]
    pub(super) step: StepKindDocument,
}

#[derive(Serialize, ToSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(in crate::api) enum StepKindDocument {
    /// A flow entry matches.
    Entry(EntryDocument),
    /// No flow entry matches.
    Miss { table: u8, result: &'static str },
    /// An action.
    Action { text: String },
    /// The action set is executed.
    ActionSet,
    /// A copy passes through a bucket of a group.
    Bucket { group: u32, kind: &'static str, bucket: usize, one_of: bool },
    /// A copy is sent to another switch.
    Forward { port: PlaceDocument, to: PlaceDocument, hop: Option<usize>, packet: PacketDocument },
    /// The branch ends; the index in `ends`.
    End { end: usize },
    /// A remark.
    Note { text: String },
}

/// A flow entry.
#[derive(Serialize, Clone, ToSchema)]
#[schema(as = TraceEntryDocument)]
pub(in crate::api) struct EntryDocument {
    pub(super) table: u8,
    pub(super) priority: u16,
    pub(super) cookie: u64,
    /// The application that has written it; `null` if none has.
    pub(super) owner: Option<&'static str>,
    /// The name of the static entry that it is.
    pub(super) static_entry: Option<String>,
    /// In the syntax of `ovs-ofctl add-flow`.
    pub(super) text: String,
}

/// The end of a branch.
#[derive(Serialize, ToSchema)]
#[schema(as = TraceEndDocument)]
pub(in crate::api) struct EndDocument {
    pub(super) outcome: Outcome,
    /// The hop at which it is.
    pub(super) hop: usize,
    /// What has happened, in a sentence.
    pub(super) text: String,
    /// Whether a switch chooses between this and other branches.
    pub(super) one_of: bool,
    /// The port at which the packet leaves.
    pub(super) port: Option<PlaceDocument>,
    /// The hosts to which it is delivered, at most some.
    pub(super) hosts: Vec<HostDocument>,
    /// The flow entry that has dropped it.
    pub(super) entry: Option<EntryDocument>,
    /// The packet.
    pub(super) packet: Option<PacketDocument>,
}

/// The paths between two hosts.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct PathsDocument {
    pub(super) from: HostDocument,
    pub(super) to: HostDocument,
    /// As the flow tables are now: the path of a ping.
    pub(super) installed: InstalledPathDocument,
    /// The shortest paths, of which `forwarding` chooses one for each flow.
    pub(super) computed: ComputedPathsDocument,
    /// Whether the installed path is one of the computed ones; `null` if none is installed.
    pub(super) agrees: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub(in crate::api) struct InstalledPathDocument {
    pub(super) outcome: Outcome,
    pub(super) summary: String,
    pub(super) path: Vec<PathHopDocument>,
}

#[derive(Serialize, ToSchema)]
pub(in crate::api) struct ComputedPathsDocument {
    /// Number of switches of each.
    pub(super) switches: Option<usize>,
    pub(super) paths: Vec<Vec<PathHopDocument>>,
    /// Whether there are more.
    pub(super) is_truncated: bool,
}

/// A switch of a path.
#[derive(Serialize, PartialEq, Eq, ToSchema)]
pub(in crate::api) struct PathHopDocument {
    pub(super) dpid: String,
    pub(super) switch: Option<String>,
    pub(super) in_port: u32,
    pub(super) out_port: Option<u32>,
}

impl PacketDocument {
    pub(super) fn new(fields: &Match, frame: &[u8]) -> Self {
        let mut hex = String::with_capacity(2 * frame.len());
        for byte in frame {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self { text: fields.to_text(), hex }
    }
}

impl EntryDocument {
    pub(super) fn new(at: DatapathId, entry: &FlowDesc, state: &ApiState) -> Self {
        Self {
            table: entry.table_id,
            priority: entry.priority,
            cookie: entry.cookie,
            owner: state.owners.owner_of(entry.cookie, entry.priority),
            static_entry: state.static_entry(at, entry),
            text: flow_text(entry),
        }
    }
}
