//! Spanning forests: links that connect switches without a loop, one tree for each connected part of the network.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Cable, Link, NetworkView, PortRole, SwitchPort};

use super::state::{SpanningTree, SwitchTreeState, TreePhase, tree_state};

/// Links of one switch to those below it in a tree, unless the search finds no other way to them. A switch with *n* links of the tree
/// gets *n* flow entries with outputs to the others, 16 bytes in a message per output: 64 KiB for this many, and 16 MB for 1,000.
const CHILDREN_MAX: usize = 64;

/// The links of a spanning forest over the switches that `may_join`. In each connected part of the network the root is the
/// switch with the lowest datapath id. The search is breadth-first, but takes at most [`CHILDREN_MAX`] switches below one at first: the
/// others may be found below another switch. Links that are to carry no traffic are used only where there are no others, and those that are
/// held down are not used.
pub(super) fn spanning_forest(
    view: &NetworkView,
    held_down: &[Cable],
    may_join: impl Fn(DatapathId) -> bool,
) -> Vec<[SwitchPort; 2]> {
    limited_forest(view, held_down, may_join, CHILDREN_MAX)
}

/// As [`spanning_forest`], with another limit.
fn limited_forest(
    view: &NetworkView,
    held_down: &[Cable],
    may_join: impl Fn(DatapathId) -> bool,
    children_max: usize,
) -> Vec<[SwitchPort; 2]> {
    let mut forest = Forest {
        view,
        held_down,
        may_join,
        children_max,
        seen: BTreeSet::new(),
        links: vec![],
        next: VecDeque::new(),
        crowded: BinaryHeap::new(),
        drained: VecDeque::new(),
    };
    for (root, _) in view.switches() {
        if !(forest.may_join)(root) || forest.seen.contains(&root) {
            continue;
        }
        forest.add(root);
        loop {
            while let Some(id) = forest.next.pop_front() {
                forest.add_links_of(id);
            }
            if !forest.add_crowded() && !forest.add_drained() {
                break;
            }
        }
    }
    forest.links
}

/// A spanning forest as far as it is known.
struct Forest<'v, F> {
    view: &'v NetworkView,
    held_down: &'v [Cable],
    may_join: F,
    children_max: usize,
    /// Its switches.
    seen: BTreeSet<DatapathId>,
    links: Vec<[SwitchPort; 2]>,
    /// Its switches whose links are to be looked at.
    next: VecDeque<DatapathId>,
    /// Switches with more links than were added at first; first the one with the fewest switches below it.
    crowded: BinaryHeap<Reverse<CrowdedSwitch>>,
    /// Links that are to carry no traffic.
    drained: VecDeque<Link>,
}

/// A switch of which some links wait. The order is that in which the next one gets a link.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CrowdedSwitch {
    children: usize,
    id: DatapathId,
    /// The links that wait, as pairs of ports, the first one last.
    waiting: Vec<[SwitchPort; 2]>,
}

impl<F: Fn(DatapathId) -> bool> Forest<'_, F> {
    fn add(&mut self, id: DatapathId) {
        self.seen.insert(id);
        self.next.push_back(id);
    }

    /// Adds a link and the switch to which it leads, unless that belongs to the forest. Returns whether it was added.
    fn add_link(&mut self, [from, to]: [SwitchPort; 2]) -> bool {
        let is_new = !self.seen.contains(&to.switch);
        if is_new {
            self.links.push([from, to]);
            self.add(to.switch);
        }
        is_new
    }

    /// Adds the links of a switch for which there is room, and has the others wait.
    fn add_links_of(&mut self, id: DatapathId) {
        let is_new = |to| !self.seen.contains(&to) && (self.may_join)(to);
        let links = self.view.links_to_some(id, is_new);
        let is_usable = |link: &&Link| {
            has_link_ports(self.view, link) && !self.held_down.contains(&Cable::from(*link))
        };
        let links = links.filter(is_usable);
        let links: Vec<_> = links.copied().collect();
        let (mut children, mut waiting) = (0, vec![]);
        for link in links {
            if self.view.is_drained(Cable::from(&link)) {
                self.drained.push_back(link);
            } else if children == self.children_max {
                waiting.push([link.from, link.to]);
            } else {
                children += usize::from(self.add_link([link.from, link.to]));
            }
        }
        if !waiting.is_empty() {
            waiting.reverse();
            self.crowded.push(Reverse(CrowdedSwitch { children, id, waiting }));
        }
    }

    /// Adds one of the links that wait, if there are any to new switches.
    fn add_crowded(&mut self) -> bool {
        while let Some(Reverse(mut switch)) = self.crowded.pop() {
            while let Some(link) = switch.waiting.pop() {
                if self.add_link(link) {
                    switch.children += 1;
                    self.crowded.push(Reverse(switch));
                    return true;
                }
            }
        }
        false
    }

    /// Adds one of the links that are to carry no traffic, if there are any to new switches.
    fn add_drained(&mut self) -> bool {
        while let Some(link) = self.drained.pop_front() {
            if self.add_link([link.from, link.to]) {
                return true;
            }
        }
        false
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
    tree.links.iter().all(|&[a, b]| view.is_link(a, b))
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
    use std::time::Duration;

    use sluice_base::Rng;
    use sluice_sdk::view::DrainedLink;

    use super::super::super::Config;
    use super::super::super::test_network::{TestLinks, TestNetwork};
    use super::*;

    fn forest_of(net: &TestNetwork) -> Vec<[SwitchPort; 2]> {
        spanning_forest(net.workers[0].network.view(), &[], |_| true)
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
        let count = |parts: &[u64]| parts.iter().collect::<BTreeSet<_>>().len();
        let mut used_drained = 0;
        for (seed, children_max) in (0..100).zip([1, 2, 3].into_iter().cycle()) {
            let mut rng = Rng::new(seed);
            // Two networks, and a switch without links.
            let (a, more) = (2 + u64::from(rng.below(20)), u64::from(rng.below(30)));
            let mut links = TestLinks::random(&mut rng, a, more);
            (0..10).for_each(|_| links.add(a + 1 + u64::from(rng.below(5)), a + 6));
            links.switches = a + 7;
            let mut net = network(&links);
            let (drained, others): (Vec<[SwitchPort; 2]>, Vec<_>) =
                links.pairs.iter().copied().partition(|_| rng.below(3) == 0);
            for [a, b] in drained {
                let record = DrainedLink { requested_at: Duration::ZERO };
                net.workers[0].network.publish_record(net.now, Cable::new(a, b), Some(record));
            }
            let view = net.workers[0].network.view();
            let forest = limited_forest(view, &[], |_| true, children_max);
            let expected = parts(links.switches, &links.pairs);
            let found = parts(links.switches, &forest);
            for (x, y) in (0..expected.len()).flat_map(|x| (0..x).map(move |y| (x, y))) {
                assert_eq!(expected[x] == expected[y], found[x] == found[y], "{x} {y} {seed}");
            }
            assert_eq!(forest.len(), found.len() - count(&found), "no loops, seed {seed}");
            // As many drained links as there are parts without them that must be connected.
            let without = parts(links.switches, &others);
            let needed = count(&without) - count(&expected);
            assert_eq!(drained_count(view, &forest), needed, "seed {seed}");
            used_drained += needed;
        }
        assert!(used_drained > 100, "{used_drained}");
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
