//! The switches that a broadcast reaches along the tree.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};

use super::forest::is_usable;
use super::state::{SpanningTree, SwitchTreeState};

/// Switches that a tree connects, with their ports at its links.
#[derive(Debug, Default)]
pub(in super::super) struct TreePart(BTreeMap<DatapathId, Vec<PortNo>>);

impl TreePart {
    /// Whether a switch is one of them.
    pub(in super::super) fn contains(&self, id: DatapathId) -> bool {
        self.0.contains_key(&id)
    }

    /// The number of switches.
    pub(in super::super) fn switch_count(&self) -> usize {
        self.0.len()
    }

    /// The ports of a switch at links of the tree.
    pub(in super::super) fn ports(&self, id: DatapathId) -> &[PortNo] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// The connected parts of the tree, cached until it changes, or a switch or link does.
#[derive(Debug, Default)]
pub(super) struct TreeParts {
    /// The versions of the links, of the tree and of what the switches have confirmed: all that [`is_usable`] depends on.
    versions: Option<[u64; 3]>,
    parts: BTreeMap<DatapathId, Arc<TreePart>>,
}

impl TreeParts {
    /// The part of the tree that contains `id`; `None` if no part does, or the tree is not usable.
    ///
    /// # Cost
    /// Visits the whole tree, unless the result is cached.
    pub(super) fn part_of(&mut self, view: &NetworkView, id: DatapathId) -> Option<Arc<TreePart>> {
        let versions = [
            view.links_version(),
            view.records_version::<SpanningTree>(),
            view.records_version::<SwitchTreeState>(),
        ];
        if self.versions != Some(versions) {
            self.versions = Some(versions);
            self.parts.clear();
            let tree = SpanningTree::of(view).filter(|tree| is_usable(view, tree));
            if let Some(tree) = tree {
                self.parts = split(&tree.links);
            }
        }
        self.parts.get(&id).cloned()
    }
}

fn split(links: &[[SwitchPort; 2]]) -> BTreeMap<DatapathId, Arc<TreePart>> {
    let mut neighbors = BTreeMap::<_, Vec<(PortNo, DatapathId)>>::new();
    for &[a, b] in links {
        neighbors.entry(a.switch).or_default().push((a.port, b.switch));
        neighbors.entry(b.switch).or_default().push((b.port, a.switch));
    }
    let mut parts = BTreeMap::new();
    for &root in neighbors.keys() {
        if parts.contains_key(&root) {
            continue;
        }
        let (mut part, mut next) = (TreePart::default(), VecDeque::from([root]));
        while let Some(id) = next.pop_front() {
            let adjacent = neighbors.get(&id).map_or(&[][..], Vec::as_slice);
            let link_ports = adjacent.iter().map(|&(port, _)| port).collect();
            if part.0.insert(id, link_ports).is_none() {
                next.extend(
                    adjacent.iter().map(|&(_, other)| other).filter(|&o| !part.contains(o)),
                );
            }
        }
        let part = Arc::new(part);
        parts.extend(part.0.keys().map(|&id| (id, part.clone())));
    }
    parts
}
