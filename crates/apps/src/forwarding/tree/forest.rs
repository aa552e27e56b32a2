//! Spanning forests: links that connect switches without a loop.

use std::collections::{BTreeSet, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// Links that connect all switches which `may_join` a tree as far as possible, without a loop: in each connected
/// part, shortest paths from the switch with the lowest datapath id.
pub(super) fn spanning_forest(
    view: &NetworkView,
    may_join: impl Fn(DatapathId) -> bool,
) -> Vec<[SwitchPort; 2]> {
    let (mut seen, mut links, mut next) = (BTreeSet::new(), Vec::new(), VecDeque::new());
    for (root, _) in view.switches().filter(|&(id, _)| may_join(id)) {
        if !seen.insert(root) {
            continue;
        }
        next.push_back(root);
        while let Some(id) = next.pop_front() {
            for link in view.links_of(id).filter(|link| is_confirmed(view, link)) {
                if may_join(link.to.switch) && seen.insert(link.to.switch) {
                    links.push([link.from, link.to]);
                    next.push_back(link.to.switch);
                }
            }
        }
    }
    links
}

/// Whether both ends are known to have no hosts.
fn is_confirmed(view: &NetworkView, link: &Link) -> bool {
    [link.from, link.to].iter().all(|&at| view.port_role(at) == PortRole::Link)
}

/// Whether all links of a tree exist in both directions.
pub(super) fn has_all_links(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is_link = |from, to| view.link_from(from).is_some_and(|link| link.to == to);
    tree.links.iter().all(|&[a, b]| is_link(a, b) && is_link(b, a))
}

/// Whether broadcasts reach all switches of a tree: it is active, and its switches and links are up.
pub(super) fn is_usable(view: &NetworkView, tree: &SpanningTree) -> bool {
    let has_entries = |id| {
        view.switch(id).is_some()
            && tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
    };
    tree.phase == TreePhase::Active && tree.members().all(has_entries) && has_all_links(view, tree)
}
