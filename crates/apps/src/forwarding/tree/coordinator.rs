//! One worker decides about the spanning tree. It never starts a new one while flow entries of an older tree may be
//! left in any switch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::NetworkView;

use super::Flooding;
use super::flow_entries::LIFETIME;
use super::forest::{drained_count, has_all_links, is_usable, spanning_forest};
use super::state::{SpanningTree, SwitchTreeState, TreePhase, TreeTraffic, tree_state};

/// The worker that decides.
const COORDINATOR: usize = 0;

/// Time after which a switch that is disconnected, or does not confirm the deletion, has no flow entries of a tree left: they
/// expire after [`LIFETIME`], and messages to the switch may have been in flight for the rest of this time.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Time between two decisions that are not urgent: each visits all switches.
const DECISION_INTERVAL: Duration = Duration::from_millis(100);

/// How long the flow entries of a tree stay that is replaced although all of it works: broadcasts in flight have arrived by then, and
/// all workers have learned of it.
const RETIRING_TIME: Duration = Duration::from_secs(1);

const _: () = assert!(LIFETIME.as_secs() < FORGET_AFTER.as_secs());

/// State of the worker that decides.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// Disconnected switches of the tree that is being removed, and since when.
    lost: BTreeMap<DatapathId, Instant>,
    /// Since when the tree is retiring.
    retiring_since: Option<Instant>,
    /// Whether a tree is active.
    is_active: bool,
    decided_at: Option<Instant>,
    /// What the last decision depends on, except the time.
    basis: Option<DecisionBasis>,
}

/// What a decision depends on, except the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DecisionBasis {
    is_wanted: bool,
    /// Numbers of changes of what paths depend on, of the tree, and of what the switches have confirmed.
    path_version: (u64, u64),
    tree_version: u64,
    states_version: u64,
}

impl DecisionBasis {
    fn new(is_wanted: bool, view: &NetworkView) -> Self {
        Self {
            is_wanted,
            path_version: view.path_version(),
            tree_version: view.records_version::<SpanningTree>(),
            states_version: view.records_version::<SwitchTreeState>(),
        }
    }
}

impl Coordinator {
    /// As [`decide`](Self::decide), but not before [`DECISION_INTERVAL`] has passed since the last time.
    pub(super) fn decide_soon(&mut self, flooding: Flooding, now: Instant, network: &mut Network) {
        if !self.has_something_to_decide(flooding, network) {
            return;
        }
        match self.decided_at.map(|at| at + DECISION_INTERVAL).filter(|&due| now < due) {
            Some(due) => network.defer_work_until(due),
            None => self.decide(flooding, now, network),
        }
    }

    /// Publishes the next phase of the tree, or the next tree, if it is time.
    ///
    /// # Cost
    /// Visits all switches if something has changed, and all links if a tree may be started or extended.
    pub(super) fn decide(&mut self, flooding: Flooding, now: Instant, network: &mut Network) {
        if !self.has_something_to_decide(flooding, network) {
            return;
        }
        self.decided_at = Some(now);
        let is_wanted = flooding.wants_tree(network.view());
        while let Some(next) = self.next(is_wanted, now, network.view()) {
            network.publish_record(now, (), Some(next));
        }
        self.basis = Some(DecisionBasis::new(is_wanted, network.view()));
        self.is_active =
            SpanningTree::of(network.view()).is_some_and(|tree| tree.phase == TreePhase::Active);
        if depends_on_time(network.view()) {
            network.defer_work_until(now + DECISION_INTERVAL);
        }
    }

    /// Whether this is the worker that decides, and something has changed or only the time is missing.
    fn has_something_to_decide(&self, flooding: Flooding, network: &Network) -> bool {
        if network.worker() != COORDINATOR {
            return false;
        }
        let view = network.view();
        let basis = DecisionBasis::new(flooding.wants_tree(view), view);
        self.basis != Some(basis) || depends_on_time(view)
    }

    /// Whether a tree is active, if this is the worker that decides.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    fn next(&mut self, is_wanted: bool, now: Instant, view: &NetworkView) -> Option<SpanningTree> {
        let Some(tree) = SpanningTree::of(view) else { return next_tree(is_wanted, 0, view) };
        let phase = match tree.phase {
            TreePhase::Installing
                if !is_wanted || !can_complete(view, tree) || has_avoidable_links(view, tree) =>
            {
                TreePhase::Removing
            }
            TreePhase::Installing => {
                let is_done = tree.members().all(|id| {
                    tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
                });
                is_done.then_some(TreePhase::Active)?
            }
            TreePhase::Active => {
                let is_usable_and_complete =
                    is_wanted && is_usable(view, tree) && !can_extend(view, tree);
                if !is_usable_and_complete {
                    TreePhase::Removing
                } else if has_avoidable_links(view, tree) {
                    self.retiring_since = Some(now);
                    TreePhase::Retiring
                } else {
                    return None;
                }
            }
            TreePhase::Retiring => {
                let since = *self.retiring_since.get_or_insert(now);
                let is_over = now.saturating_duration_since(since) >= RETIRING_TIME;
                (is_over || !has_all_links(view, tree)).then_some(TreePhase::Removing)?
            }
            TreePhase::Removing => {
                self.is_removed(view, tree, now).then_some(TreePhase::Removed)?
            }
            TreePhase::Removed => return next_tree(is_wanted, tree.generation, view),
        };
        Some(SpanningTree { phase, ..tree.clone() })
    }

    /// Whether no switch has flow entries of the tree any more.
    fn is_removed(&mut self, view: &NetworkView, tree: &SpanningTree, now: Instant) -> bool {
        let mut is_removed = true;
        for id in tree.members() {
            if is_clear(view, id, tree.generation) {
                continue;
            }
            if view.switch(id).is_some() {
                self.lost.remove(&id);
                is_removed = false;
                continue;
            }
            let since = *self.lost.entry(id).or_insert(now);
            is_removed &= now.saturating_duration_since(since) >= FORGET_AFTER;
        }
        if is_removed {
            self.lost.clear();
        }
        is_removed
    }
}

/// Whether the next phase begins after some time.
fn depends_on_time(view: &NetworkView) -> bool {
    let phase = SpanningTree::of(view).map(|tree| tree.phase);
    matches!(phase, Some(TreePhase::Retiring | TreePhase::Removing))
}

/// Whether a switch has confirmed that it has no flow entries of a tree, and gets none of this generation or an
/// earlier one.
fn is_clear(view: &NetworkView, id: DatapathId, generation: u64) -> bool {
    let state = tree_state(view, id);
    matches!(state, Some(SwitchTreeState::Clear { generation: clear, .. }) if clear >= generation)
}

/// What the flow entries of a switch without any can match; `None` if it must not be part of a tree.
fn traffic(view: &NetworkView, id: DatapathId) -> Option<TreeTraffic> {
    match tree_state(view, id) {
        Some(SwitchTreeState::Clear { traffic, .. }) => traffic,
        _ => None,
    }
}

/// The tree after `generation`, if all switches are ready for it and there is a link.
fn next_tree(is_wanted: bool, generation: u64, view: &NetworkView) -> Option<SpanningTree> {
    if !is_wanted || !view.switches().all(|(id, _)| is_clear(view, id, generation)) {
        return None;
    }
    let links = spanning_forest(view, |id| traffic(view, id).is_some());
    let mut ends = links.iter().flatten().map(|end| end.switch);
    let all_match_groups = ends.all(|id| traffic(view, id) == Some(TreeTraffic::Groups));
    let traffic = if all_match_groups { TreeTraffic::Groups } else { TreeTraffic::Broadcast };
    let has_links = !links.is_empty();
    has_links.then(|| SpanningTree {
        generation: generation + 1,
        phase: TreePhase::Installing,
        traffic,
        links: links.into(),
    })
}

/// Whether a tree can still become active.
fn can_complete(view: &NetworkView, tree: &SpanningTree) -> bool {
    let can_join = |id| {
        view.switch(id).is_some()
            && match tree_state(view, id) {
                Some(SwitchTreeState::Clear { generation, traffic }) => {
                    generation < tree.generation && traffic.is_some()
                }
                Some(SwitchTreeState::Installed(generation)) => generation == tree.generation,
                None => false,
            }
    };
    tree.members().all(can_join) && has_all_links(view, tree)
}

/// Whether a tree has links that are to carry no traffic, and others would do.
fn has_avoidable_links(view: &NetworkView, tree: &SpanningTree) -> bool {
    let drained = drained_count(view, &tree.links);
    if drained == 0 {
        return false;
    }
    let members: BTreeSet<_> = tree.members().collect();
    drained > drained_count(view, &spanning_forest(view, |id| members.contains(&id)))
}

/// Whether there are links to switches that a tree does not include, and no switch is changing its flow entries.
fn can_extend(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is_idle = |id| {
        tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
            || is_clear(view, id, tree.generation)
    };
    let may_join = |id| match tree_state(view, id) {
        Some(SwitchTreeState::Clear { traffic, .. }) => traffic.is_some(),
        Some(SwitchTreeState::Installed(_)) => true,
        None => false,
    };
    let may_have_more_links = || {
        // A forest over m switches has at most m - 1 links.
        let joinable = view.switches().filter(|&(id, _)| may_join(id)).count();
        joinable > tree.links.len() + 1
    };
    view.switches().all(|(id, _)| is_idle(id))
        && may_have_more_links()
        && spanning_forest(view, may_join).len() > tree.links.len()
}

#[cfg(test)]
mod tests {
    use super::super::super::Config;
    use super::super::super::test_network::{TestLinks, TestNetwork};
    use super::*;

    fn phase(network: &Network) -> Option<TreePhase> {
        SpanningTree::of(network.view()).map(|tree| tree.phase)
    }

    #[test]
    fn what_changes_nothing_delays_no_decision() {
        let mut net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(1, 1), 1);
        let start = net.now + Duration::from_secs(1);
        let network = &mut net.workers[0].network;
        network.begin_iteration(start);
        let mut coordinator = Coordinator::default();
        coordinator.decide_soon(Flooding::Tree, start, network);
        coordinator.decide_soon(Flooding::Tree, start + DECISION_INTERVAL, network);
        let clear = SwitchTreeState::Clear { generation: 0, traffic: Some(TreeTraffic::Groups) };
        for id in [1, 2].map(DatapathId) {
            network.publish_record(start, id, Some(clear));
        }
        let soon = start + DECISION_INTERVAL + Duration::from_millis(10);
        coordinator.decide_soon(Flooding::Tree, soon, network);
        assert_eq!(phase(network), Some(TreePhase::Installing));
    }

    #[test]
    fn decisions_that_are_not_urgent_wait_for_each_other() {
        let mut net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(1, 1), 1);
        let start = net.now + Duration::from_secs(1);
        let network = &mut net.workers[0].network;
        network.begin_iteration(start);
        let mut coordinator = Coordinator::default();
        let after = |ms| start + Duration::from_millis(ms);
        let clear = SwitchTreeState::Clear { generation: 0, traffic: Some(TreeTraffic::Groups) };
        coordinator.decide_soon(Flooding::Tree, after(0), network);
        assert_eq!(phase(network), None, "the switches may have entries");
        for id in [1, 2].map(DatapathId) {
            network.publish_record(start, id, Some(clear));
            coordinator.decide_soon(Flooding::Tree, after(10), network);
        }
        assert_eq!((phase(network), network.deferred_until()), (None, Some(after(100))));
        network.begin_iteration(after(100));
        coordinator.decide_soon(Flooding::Tree, after(100), network);
        assert_eq!(phase(network), Some(TreePhase::Installing));
        // Urgent.
        network.publish_record::<SwitchTreeState>(start, DatapathId(1), None);
        coordinator.decide_soon(Flooding::Tree, after(110), network);
        assert_eq!(phase(network), Some(TreePhase::Installing));
        coordinator.decide(Flooding::Tree, after(110), network);
        assert_eq!(phase(network), Some(TreePhase::Removing));
        // The end of the removal may be a matter of time.
        network.begin_iteration(after(200));
        coordinator.decide(Flooding::Tree, after(205), network);
        assert_eq!(network.deferred_until(), Some(after(305)));
    }
}
