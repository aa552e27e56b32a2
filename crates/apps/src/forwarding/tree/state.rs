//! What all workers know of the spanning tree and of its flow entries in each switch.

use std::sync::Arc;

use sluice_openflow::DatapathId;
use sluice_sdk::view::{AppRecord, NetworkView, SwitchPort};

/// A spanning tree of links, along which switches forward broadcasts by themselves. One worker alone publishes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanningTree {
    /// Number of the tree; each new tree has a greater one.
    pub generation: u64,
    /// Whether its flow entries are being installed, are installed, or are being removed.
    pub phase: TreePhase,
    /// Which frames its flow entries match.
    pub traffic: TreeTraffic,
    /// Its links, each as the two ports that it connects.
    pub links: Arc<[[SwitchPort; 2]]>,
}

/// Where a spanning tree is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreePhase {
    /// Its switches install their flow entries.
    Installing,
    /// All switches have confirmed their flow entries.
    Active,
    /// No more broadcasts are sent into it, since it has a link that is to carry no traffic; its flow entries stay for a moment, so
    /// that those in flight arrive.
    Retiring,
    /// Its switches remove their flow entries.
    Removing,
    /// No switch has flow entries of the tree any more: all have confirmed it, or have been away for long enough.
    Removed,
}

/// Frames that flow entries of a tree can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeTraffic {
    /// Frames to group addresses: broadcast and multicast.
    Groups,
    /// Broadcasts only, where a switch's version has no masks for addresses.
    Broadcast,
}

/// What a switch has confirmed about its flow entries of trees. No record means that it may have entries of any tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchTreeState {
    /// It has no flow entries of trees.
    Clear {
        /// It gets none of this generation or an earlier one.
        generation: u64,
        /// What its flow entries can match; `None` if it must not be part of a tree.
        traffic: Option<TreeTraffic>,
    },
    /// It has the flow entries of the tree with this generation.
    Installed(u64),
}

/// A port from which a switch forwarded broadcasts along a tree of an earlier run of the controller. The switch behind it may
/// have such flow entries still, even if it is not connected. Published by the worker that serves the switch.
#[derive(Debug, Clone, PartialEq)]
pub struct StaleTreePort;

impl SwitchTreeState {
    /// A switch without flow entries that gets none of this generation or an earlier one, and must not be part of a tree.
    pub(super) fn left_out(generation: u64) -> Self {
        Self::Clear { generation, traffic: None }
    }
}

impl AppRecord for SpanningTree {
    type Key = ();
}

impl AppRecord for SwitchTreeState {
    type Key = DatapathId;
}

impl AppRecord for StaleTreePort {
    type Key = SwitchPort;
}

impl SpanningTree {
    /// The tree, if there ever was one.
    pub fn of(view: &NetworkView) -> Option<&Self> {
        view.record(())
    }

    /// Whether it is being installed, is active or is retiring: it is not being removed yet.
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self.phase, TreePhase::Installing | TreePhase::Active | TreePhase::Retiring)
    }

    /// The switches of the tree, some of them several times.
    pub(super) fn members(&self) -> impl Iterator<Item = DatapathId> {
        self.links.iter().flatten().map(|end| end.switch)
    }
}

/// What a switch has confirmed; `None` if it may have flow entries of any tree.
pub(super) fn tree_state(view: &NetworkView, id: DatapathId) -> Option<SwitchTreeState> {
    view.record(id).copied()
}
