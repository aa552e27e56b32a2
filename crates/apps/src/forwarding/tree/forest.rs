//! Spanning forests: links that connect switches without a loop, one tree for each connected part of the network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Cable, Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// Links of one switch to those below it in a tree, unless the search finds no other way to them. A switch with *n* links of the tree
/// gets *n* flow entries with as many outputs each, 16 bytes in a message per output: 64 KiB for this many, and 16 MiB for 1,000.
const CHILDREN_MAX: usize = 64;

/// The links of a spanning forest over the switches that `may_join`. In each connected part of the network the root is the
/// switch with the lowest datapath id. The search is breadth-first, but takes at most [`CHILDREN_MAX`] switches below one at first: the
/// others may be found below another switch. Links that are to carry no traffic are used only where there are no others.
pub(super) fn spanning_forest(
    view: &NetworkView,
    may_join: impl Fn(DatapathId) -> bool,
) -> Vec<[SwitchPort; 2]> {
    let mut forest = Forest {
        view,
        may_join,
        children: BTreeMap::new(),
        links: vec![],
        next: VecDeque::new(),
        crowded: BinaryHeap::new(),
        drained: VecDeque::new(),
    };
    for (root, _) in view.switches() {
        if !(forest.may_join)(root) || forest.contains(root) {
            continue;
        }
        forest.add(root);
        loop {
            while let Some(id) = forest.next.pop_front() {
                forest.add_links_of(id);
            }
            let Some(link) = forest.take_crowded().or_else(|| forest.drained.pop_front()) else {
                break;
            };
            forest.add_link(&link);
        }
    }
    forest.links
}

/// A spanning forest as far as it is known.
struct Forest<'v, F> {
    view: &'v NetworkView,
    may_join: F,
    /// Its switches, and how many are below each.
    children: BTreeMap<DatapathId, usize>,
    links: Vec<[SwitchPort; 2]>,
    /// Its switches whose links are to be looked at.
    next: VecDeque<DatapathId>,
    /// Links from switches that had [`CHILDREN_MAX`] below them: how many there were, the number of the link, and its ports.
    crowded: BinaryHeap<Reverse<(usize, usize, [SwitchPort; 2])>>,
    /// Links that are to carry no traffic.
    drained: VecDeque<Link>,
}

impl<F: Fn(DatapathId) -> bool> Forest<'_, F> {
    fn contains(&self, id: DatapathId) -> bool {
        self.children.contains_key(&id)
    }

    fn add(&mut self, id: DatapathId) {
        self.children.insert(id, 0);
        self.next.push_back(id);
    }

    /// Adds a link and the switch to which it leads, unless that belongs to the forest.
    fn add_link(&mut self, link: &Link) {
        if !self.contains(link.to.switch) {
            *self.children.entry(link.from.switch).or_default() += 1;
            self.links.push([link.from, link.to]);
            self.add(link.to.switch);
        }
    }

    /// Adds the links of a switch for which there is room, and has the others wait.
    fn add_links_of(&mut self, id: DatapathId) {
        let is_new = |to| !self.contains(to) && (self.may_join)(to);
        let links = self.view.links_to_some(id, is_new);
        let links = links.filter(|link| has_link_ports(self.view, link));
        let links: Vec<_> = links.copied().collect();
        for link in links {
            let children = self.children_of(id);
            if self.view.is_drained(Cable::from(&link)) {
                self.drained.push_back(link);
            } else if children < CHILDREN_MAX {
                self.add_link(&link);
            } else {
                self.crowded.push(Reverse((children, self.crowded.len(), [link.from, link.to])));
            }
        }
    }

    fn children_of(&self, id: DatapathId) -> usize {
        self.children.get(&id).copied().unwrap_or_default()
    }

    /// The first link to a new switch from one with the fewest below it, of those that wait.
    fn take_crowded(&mut self) -> Option<Link> {
        while let Some(Reverse((children, number, [from, to]))) = self.crowded.pop() {
            if self.contains(to.switch) {
                continue;
            }
            let children_now = self.children_of(from.switch);
            if children_now == children {
                return Some(Link { from, to });
            }
            self.crowded.push(Reverse((children_now, number, [from, to])));
        }
        None
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
    use sluice_base::Rng;

    use super::super::super::Config;
    use super::super::super::test_network::{TestLinks, TestNetwork};
    use super::*;

    fn forest_of(net: &TestNetwork) -> Vec<[SwitchPort; 2]> {
        spanning_forest(net.workers[0].network.view(), |_| true)
    }

    fn network(links: &TestLinks) -> TestNetwork {
        TestNetwork::new(&Config::default(), links, 1)
    }

    /// How many links each switch has in a forest, in the order of the datapath ids.
    fn degrees(forest: &[[SwitchPort; 2]]) -> Vec<usize> {
        let mut degrees = BTreeMap::<_, usize>::new();
        for end in forest.iter().flatten() {
            *degrees.entry(end.switch).or_default() += 1;
        }
        degrees.into_values().collect()
    }

    /// The number of the connected part to which each switch belongs, if these links are the only ones.
    fn parts(switches: u64, links: &[[SwitchPort; 2]]) -> Vec<u64> {
        let mut parts: Vec<_> = (0..=switches).collect();
        for [a, b] in
            links.iter().map(|ends| ends.map(|end| usize::try_from(end.switch.0).unwrap()))
        {
            let (old, new) = (parts[b], parts[a]);
            parts.iter_mut().filter(|part| **part == old).for_each(|part| *part = new);
        }
        parts
    }

    #[test]
    fn a_forest_has_no_loops_and_connects_what_links_connect() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            // Two networks, and a switch without links.
            let (a, more) = (2 + u64::from(rng.below(20)), u64::from(rng.below(30)));
            let mut links = TestLinks::random(&mut rng, a, more);
            (0..10).for_each(|_| links.add(a + 1 + u64::from(rng.below(5)), a + 6));
            links.switches = a + 7;
            let forest = forest_of(&network(&links));
            let expected = parts(links.switches, &links.pairs);
            let found = parts(links.switches, &forest);
            for (x, y) in (0..expected.len()).flat_map(|x| (0..x).map(move |y| (x, y))) {
                assert_eq!(expected[x] == expected[y], found[x] == found[y], "{x} {y} {seed}");
            }
            let count =
                |parts: &[u64]| parts.iter().collect::<std::collections::BTreeSet<_>>().len();
            assert_eq!(forest.len(), found.len() - count(&found), "no loops, seed {seed}");
        }
    }

    #[test]
    fn a_switch_has_few_links_of_a_tree_where_others_have_room() {
        let forest = forest_of(&network(&TestLinks::leaf_spine(2, 100)));
        assert_eq!((forest.len(), &degrees(&forest)[..2]), (101, &[64, 37][..]));
        let forest = forest_of(&network(&TestLinks::leaf_spine(2, 64)));
        assert_eq!((forest.len(), &degrees(&forest)[..2]), (65, &[64, 1][..]));
    }

    #[test]
    fn switches_share_the_links_of_a_tree_that_have_no_other_place() {
        let forest = forest_of(&network(&TestLinks::leaf_spine(1, 100)));
        assert_eq!((forest.len(), degrees(&forest)[0]), (100, 100));
        // 128 of 141 have a place at first. The second spine has a link to the first leaf as well.
        let forest = forest_of(&network(&TestLinks::leaf_spine(2, 141)));
        assert_eq!((forest.len(), &degrees(&forest)[..2]), (142, &[71, 71][..]));
    }
}
