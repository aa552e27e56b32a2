//! Links without a ring among them.

use std::collections::{BTreeSet, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// Links through which all switches that `may` be in a tree are joined as far as they can be, without a ring: from the
/// switch with the lowest number of each part by as few links as possible.
pub(super) fn forest(view: &NetworkView, may: impl Fn(DatapathId) -> bool) -> Vec<[SwitchPort; 2]> {
    let (mut seen, mut links, mut next) = (BTreeSet::new(), Vec::new(), VecDeque::new());
    for (root, _) in view.switches().filter(|&(id, _)| may(id)) {
        if !seen.insert(root) {
            continue;
        }
        next.push_back(root);
        while let Some(id) = next.pop_front() {
            for link in view.links_of(id).filter(|link| is_sure(view, link)) {
                if may(link.to.switch) && seen.insert(link.to.switch) {
                    links.push([link.from, link.to]);
                    next.push_back(link.to.switch);
                }
            }
        }
    }
    links
}

/// Whether both ends are known to lead to no host.
fn is_sure(view: &NetworkView, link: &Link) -> bool {
    [link.from, link.to].iter().all(|&at| view.port_role(at) == PortRole::Link)
}

/// Whether all links of a tree are there in both directions.
pub(super) fn is_alive(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is = |from, to| view.link_from(from).is_some_and(|link| link.to == to);
    tree.links.iter().all(|&[a, b]| is(a, b) && is(b, a))
}

/// Whether frames get everywhere along a tree.
pub(super) fn is_whole(view: &NetworkView, tree: &SpanningTree) -> bool {
    let holds = |id| {
        view.switch(id).is_some()
            && tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
    };
    tree.phase == TreePhase::Active && tree.members().all(holds) && is_alive(view, tree)
}
