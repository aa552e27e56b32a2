//! Spanning forests: links that connect switches without a loop, one tree for each connected part of the network.

use std::collections::{BTreeSet, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Cable, Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// The links of a spanning forest over the switches that `may_join`. In each connected part of the network the root is the
/// switch with the lowest datapath id, and the tree consists of shortest paths from it. Links that are to carry no traffic are used
/// only where there are no others.
pub(super) fn spanning_forest(
    view: &NetworkView,
    may_join: impl Fn(DatapathId) -> bool,
) -> Vec<[SwitchPort; 2]> {
    let (mut seen, mut links, mut next) = (BTreeSet::new(), Vec::new(), VecDeque::new());
    // Links out of switches in `seen`.
    let mut drained = VecDeque::new();
    for (root, _) in view.switches().filter(|&(id, _)| may_join(id)) {
        if !seen.insert(root) {
            continue;
        }
        next.push_back(root);
        loop {
            while let Some(id) = next.pop_front() {
                for link in view.links_of(id).filter(|link| has_link_ports(view, link)) {
                    if !may_join(link.to.switch) {
                        continue;
                    }
                    if view.is_drained(Cable::from(link)) {
                        drained.push_back(*link);
                    } else if seen.insert(link.to.switch) {
                        links.push([link.from, link.to]);
                        next.push_back(link.to.switch);
                    }
                }
            }
            let Some(link) = drained.pop_front() else { break };
            if seen.insert(link.to.switch) {
                links.push([link.from, link.to]);
                next.push_back(link.to.switch);
            }
        }
    }
    links
}

/// The number of links of a forest that are to carry no traffic.
pub(super) fn drained_count(view: &NetworkView, links: &[[SwitchPort; 2]]) -> usize {
    links.iter().filter(|&&[a, b]| view.is_drained(Cable::new(a, b))).count()
}

/// Whether both ends have the role [`PortRole::Link`]: no hosts are connected there.
fn has_link_ports(view: &NetworkView, link: &Link) -> bool {
    [link.from, link.to].iter().all(|&at| view.port_role(at) == PortRole::Link)
}

/// Whether all links of a tree exist in both directions.
pub(super) fn has_all_links(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is_link = |from, to| view.link_from(from).is_some_and(|link| link.to == to);
    tree.links.iter().all(|&[a, b]| is_link(a, b) && is_link(b, a))
}

/// Whether broadcasts reach all switches of a tree: it is active, all its switches are connected and have installed it, and
/// all its links exist.
pub(super) fn is_usable(view: &NetworkView, tree: &SpanningTree) -> bool {
    let has_entries = |id| {
        view.switch(id).is_some()
            && tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
    };
    tree.phase == TreePhase::Active && tree.members().all(has_entries) && has_all_links(view, tree)
}
