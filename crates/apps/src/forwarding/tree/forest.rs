//! Spanning forests: links that connect switches without a loop, one tree for each connected part of the network.

use std::collections::{BTreeSet, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Cable, Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// Links of one switch to those below it in a tree, unless there is no other way to them. A switch with *n* links of the tree gets
/// *n* flow entries with as many outputs each, 16 bytes in a message per output: 64 KiB for this many, and 16 MiB for 1,000.
const CHILDREN_MAX: usize = 64;

/// The links of a spanning forest over the switches that `may_join`. In each connected part of the network the root is the
/// switch with the lowest datapath id, and the tree consists of shortest paths from it, as far as no switch has more than
/// [`CHILDREN_MAX`] below it. Links that are to carry no traffic are used only where there are no others.
pub(super) fn spanning_forest(
    view: &NetworkView,
    may_join: impl Fn(DatapathId) -> bool,
) -> Vec<[SwitchPort; 2]> {
    let mut forest = Forest { view, may_join, seen: BTreeSet::new(), links: vec![] };
    let (mut crowded, mut drained) = (VecDeque::new(), VecDeque::new());
    for (root, _) in view.switches() {
        if !(forest.may_join)(root) || !forest.seen.insert(root) {
            continue;
        }
        let mut next = VecDeque::from([root]);
        loop {
            while let Some(id) = next.pop_front() {
                let mut children = 0;
                for link in forest.links_to_new(id) {
                    if view.is_drained(Cable::from(&link)) {
                        drained.push_back(link);
                    } else if children >= CHILDREN_MAX {
                        crowded.push_back(link);
                    } else if forest.add(&link) {
                        children += 1;
                        next.push_back(link.to.switch);
                    }
                }
            }
            let others = crowded.pop_front().or_else(|| drained.pop_front());
            let Some(link) = others else { break };
            if forest.add(&link) {
                next.push_back(link.to.switch);
            }
        }
    }
    forest.links
}

/// A spanning forest as far as it is known.
struct Forest<'v, F> {
    view: &'v NetworkView,
    may_join: F,
    /// Its switches.
    seen: BTreeSet<DatapathId>,
    links: Vec<[SwitchPort; 2]>,
}

impl<F: Fn(DatapathId) -> bool> Forest<'_, F> {
    /// The links from a switch to those that may be added.
    fn links_to_new(&self, id: DatapathId) -> Vec<Link> {
        let is_new = |to| !self.seen.contains(&to) && (self.may_join)(to);
        let links = self.view.links_to_some(id, is_new);
        links.filter(|link| has_link_ports(self.view, link)).copied().collect()
    }

    /// Adds a link and the switch to which it leads, unless that belongs to the forest. Returns whether it was added.
    fn add(&mut self, link: &Link) -> bool {
        let is_new = self.seen.insert(link.to.switch);
        if is_new {
            self.links.push([link.from, link.to]);
        }
        is_new
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::Config;
    use super::super::super::test_network::{TestLinks, TestNetwork};
    use super::*;

    /// The number of links of a forest in a network of `switches`, and the most links that one switch has in it.
    fn forest_of(links: &TestLinks) -> (usize, usize) {
        let net = TestNetwork::new(&Config::default(), links, 1);
        let forest = spanning_forest(net.workers[0].network.view(), |_| true);
        let mut degrees = BTreeMap::<_, usize>::new();
        for end in forest.iter().flatten() {
            *degrees.entry(end.switch).or_default() += 1;
        }
        (forest.len(), degrees.into_values().max().unwrap_or_default())
    }

    #[test]
    fn a_switch_has_few_links_of_a_tree_where_others_have_room() {
        let (links, degree) = forest_of(&TestLinks::leaf_spine(2, 100));
        assert_eq!((links, degree), (101, CHILDREN_MAX));
        let (links, degree) = forest_of(&TestLinks::leaf_spine(2, CHILDREN_MAX as u64));
        assert_eq!((links, degree), (CHILDREN_MAX + 1, CHILDREN_MAX));
    }

    #[test]
    fn a_switch_has_many_links_of_a_tree_where_there_is_no_other_way() {
        assert_eq!(forest_of(&TestLinks::leaf_spine(1, 100)), (100, 100));
        // The spines have room for 128 leaves, and the rest has no other way.
        let (links, degree) = forest_of(&TestLinks::leaf_spine(2, 140));
        assert_eq!(links, 141);
        assert!(degree > CHILDREN_MAX && degree < 140, "{degree}");
    }
}
