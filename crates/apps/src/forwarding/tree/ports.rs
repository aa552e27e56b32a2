//! The ports of the switches of a tree at its links.

use std::collections::BTreeMap;

use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::SwitchPort;

use super::state::SpanningTree;

/// The ports of each switch of a tree at its links.
#[derive(Debug, Default)]
pub(in super::super) struct TreePorts {
    generation: u64,
    ports: BTreeMap<DatapathId, Vec<PortNo>>,
}

impl TreePorts {
    /// Takes the ports of a tree. The links of a generation never change.
    pub(super) fn follow(&mut self, tree: &SpanningTree) {
        if self.generation == tree.generation {
            return;
        }
        (self.generation, self.ports) = (tree.generation, BTreeMap::new());
        for end in tree.links.iter().flatten() {
            self.ports.entry(end.switch).or_default().push(end.port);
        }
    }

    /// The ports of a switch; none if it does not belong to the tree.
    pub(super) fn of(&self, id: DatapathId) -> &[PortNo] {
        self.ports.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Whether a port is at one end of one of the links.
    pub(in super::super) fn contains(&self, at: SwitchPort) -> bool {
        self.of(at.switch).contains(&at.port)
    }
}
