//! How far a frame gets along the tree.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};

use super::forest::is_whole;
use super::state::{SpanningTree, version};

/// Switches that a tree joins, and their ports at its links.
#[derive(Debug, Default)]
pub(in super::super) struct Part(BTreeMap<DatapathId, Vec<PortNo>>);

impl Part {
    /// Whether a switch is one of them.
    pub(in super::super) fn has(&self, id: DatapathId) -> bool {
        self.0.contains_key(&id)
    }

    /// The ports of a switch at links of the tree.
    pub(in super::super) fn ports(&self, id: DatapathId) -> &[PortNo] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// The parts of the tree, kept until it or the view is another.
#[derive(Debug, Default)]
pub(super) struct Reach {
    versions: Option<(u64, u64)>,
    parts: BTreeMap<DatapathId, Arc<Part>>,
}

impl Reach {
    /// The part of the tree in which `id` is; `None` if it is in none, or not all of the tree is known to work.
    ///
    /// # Cost
    /// Looks at the whole tree, unless that was done since anything changed.
    pub(super) fn of(&mut self, view: &NetworkView, id: DatapathId) -> Option<Arc<Part>> {
        let versions = version(view);
        if self.versions != Some(versions) {
            self.versions = Some(versions);
            self.parts.clear();
            let tree = SpanningTree::of(view).filter(|tree| is_whole(view, tree));
            if let Some(tree) = tree {
                self.parts = parts(&tree.links);
            }
        }
        self.parts.get(&id).cloned()
    }
}

fn parts(links: &[[SwitchPort; 2]]) -> BTreeMap<DatapathId, Arc<Part>> {
    let mut neighbours = BTreeMap::<_, Vec<(PortNo, DatapathId)>>::new();
    for &[a, b] in links {
        neighbours.entry(a.switch).or_default().push((a.port, b.switch));
        neighbours.entry(b.switch).or_default().push((b.port, a.switch));
    }
    let mut parts = BTreeMap::new();
    for &root in neighbours.keys() {
        if parts.contains_key(&root) {
            continue;
        }
        let (mut part, mut next) = (Part::default(), VecDeque::from([root]));
        while let Some(id) = next.pop_front() {
            let there = neighbours.get(&id).map_or(&[][..], Vec::as_slice);
            let at_links = there.iter().map(|&(port, _)| port).collect();
            if part.0.insert(id, at_links).is_none() {
                next.extend(there.iter().map(|&(_, other)| other).filter(|&o| !part.has(o)));
            }
        }
        let part = Arc::new(part);
        parts.extend(part.0.keys().map(|&id| (id, part.clone())));
    }
    parts
}
