//! One worker decides about the spanning tree. It never starts a new one while flow entries of an older tree may be
//! left in any switch.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::NetworkView;

use super::Flooding;
use super::exclusions::{Exclusions, FailedParts};
use super::flow_entries::LIFETIME;
use super::forest::{drained_count, has_all_links, is_usable, spanning_forest};
use super::state::{SpanningTree, SwitchTreeState, TreePhase, TreeTraffic, tree_state};

/// The worker that decides.
const COORDINATOR: usize = 0;

/// Time after which a switch that is disconnected, or does not confirm the deletion, has no flow entries of a tree left: they
/// expire after [`LIFETIME`], and messages to the switch may have been in flight for the rest of this time. It begins when the last of
/// them may have been sent, so that no switch can prolong it by reconnecting.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Time between two decisions that are not urgent: each visits all switches.
const DECISION_INTERVAL: Duration = Duration::from_millis(100);

/// How long the next tree waits for switches that have not confirmed that they have no flow entries, although they cannot have any.
/// Otherwise, it would soon be replaced by one that includes them.
pub(super) const WAIT_FOR_SWITCHES: Duration = Duration::from_secs(10);

/// How long the flow entries of a tree stay that is replaced although all of it works: broadcasts in flight have arrived by then, and
/// all workers have learned of it.
const RETIRING_TIME: Duration = Duration::from_secs(1);

const _: () = assert!(LIFETIME.as_secs() < FORGET_AFTER.as_secs());

/// State of the worker that decides.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// When it decided first: flow entries of an earlier process were sent before.
    started: Option<Instant>,
    /// Since when the tree is retiring.
    retiring_since: Option<Instant>,
    /// The removal of the last tree.
    removal: Option<Removal>,
    /// Since when a decision has waited for switches to confirm that they have no flow entries, whichever these are.
    waiting_since: Option<Instant>,
    failed: FailedParts,
    /// When a decision is due although nothing has changed.
    due: Option<Instant>,
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

/// The removal of a tree.
#[derive(Debug)]
struct Removal {
    /// When it began: the flow entries of the tree were sent before.
    since: Instant,
    /// The switches that have confirmed it. They get no entries of this tree any more, whatever becomes of their links.
    confirmed: BTreeSet<DatapathId>,
    /// A tree was wanted all the time.
    is_wanted: bool,
}

impl Removal {
    fn new(now: Instant) -> Self {
        Self { since: now, confirmed: BTreeSet::new(), is_wanted: true }
    }
}

impl Coordinator {
    /// As [`decide`](Self::decide), but not before [`DECISION_INTERVAL`] has passed since the last time.
    pub(super) fn decide_soon(&mut self, flooding: Flooding, now: Instant, network: &mut Network) {
        if !self.has_something_to_decide(flooding, now, network) {
            // The worker may have been woken for something else.
            if let Some(due) = self.due {
                network.defer_work_until(due);
            }
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
        if !self.has_something_to_decide(flooding, now, network) {
            return;
        }
        self.started.get_or_insert(now);
        self.decided_at = Some(now);
        self.due = None;
        let is_wanted = flooding.wants_tree(network.view());
        if let Some(removal) = &mut self.removal {
            removal.is_wanted &= is_wanted;
        }
        while let Some(next) = self.next(is_wanted, now, network.view()) {
            self.waiting_since = None;
            if next.phase == TreePhase::Removing {
                self.removal = Some(Removal::new(now));
                self.failed.add_links(&next, now, network.view());
            }
            if next.phase == TreePhase::Removed {
                self.note_unconfirmed(&next, now, network);
            }
            network.publish_record(now, (), Some(next));
        }
        self.basis = Some(DecisionBasis::new(is_wanted, network.view()));
        self.is_active =
            SpanningTree::of(network.view()).is_some_and(|tree| tree.phase == TreePhase::Active);
        if depends_on_time(network.view()) {
            network.defer_work_until(now + DECISION_INTERVAL);
        }
        if let Some(due) = self.due.into_iter().chain(self.failed.next_end(now)).min() {
            self.due = Some(due);
            network.defer_work_until(due);
        }
    }

    /// Notes which switches of a tree have not confirmed its removal, which has ended without them; not if no tree was wanted meanwhile: then
    /// nobody has waited for them, and they are not asked.
    fn note_unconfirmed(&mut self, tree: &SpanningTree, now: Instant, network: &mut Network) {
        let Some(removal) = self.removal.take().filter(|removal| removal.is_wanted) else { return };
        let members: BTreeSet<_> = tree.members().collect();
        for &id in members.difference(&removal.confirmed) {
            self.failed.add_switch(id, now);
            network.report(|| {
                format!("switch has not confirmed the deletion of flow entries of the spanning tree; it is left out of the tree for a while, and the controller floods to it dpid={id}")
            });
        }
    }

    /// Whether this is the worker that decides, and something has changed or only the time is missing.
    fn has_something_to_decide(&self, flooding: Flooding, now: Instant, network: &Network) -> bool {
        if network.worker() != COORDINATOR {
            return false;
        }
        let view = network.view();
        let basis = DecisionBasis::new(flooding.wants_tree(view), view);
        self.basis != Some(basis) || depends_on_time(view) || self.due.is_some_and(|due| due <= now)
    }

    /// Whether a tree is active, if this is the worker that decides.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    fn next(&mut self, is_wanted: bool, now: Instant, view: &NetworkView) -> Option<SpanningTree> {
        let Some(tree) = SpanningTree::of(view) else {
            return self.next_tree(is_wanted, 0, now, view);
        };
        let exclusions = self.failed.exclusions(now);
        let phase = match tree.phase {
            TreePhase::Installing
                if !is_wanted
                    || !can_complete(view, tree)
                    || has_avoidable_links(view, tree, &exclusions) =>
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
                let is_usable_and_complete = is_wanted
                    && is_usable(view, tree)
                    && !self.can_extend(view, tree, &exclusions, now);
                if !is_usable_and_complete {
                    TreePhase::Removing
                } else if has_avoidable_links(view, tree, &exclusions) {
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
            TreePhase::Removed => return self.next_tree(is_wanted, tree.generation, now, view),
        };
        Some(SpanningTree { phase, ..tree.clone() })
    }

    /// Whether no switch has flow entries of the tree any more: all have confirmed it, or the last ones have expired.
    fn is_removed(&mut self, view: &NetworkView, tree: &SpanningTree, now: Instant) -> bool {
        let removal = self.removal.get_or_insert_with(|| Removal::new(now));
        let clear = tree.members().filter(|id| is_clear(view, *id, tree.generation));
        removal.confirmed.extend(clear);
        now.saturating_duration_since(removal.since) >= FORGET_AFTER
            || tree.members().all(|id| removal.confirmed.contains(&id))
    }

    /// The tree after `generation`, if all switches are ready for it, or have had the time, and there is a link. No switch has flow
    /// entries of an earlier tree.
    fn next_tree(
        &mut self,
        is_wanted: bool,
        generation: u64,
        now: Instant,
        view: &NetworkView,
    ) -> Option<SpanningTree> {
        if !is_wanted {
            self.waiting_since = None;
            return None;
        }
        let is_ready = view.switches().all(|(id, _)| is_clear(view, id, generation));
        if !self.has_waited(is_ready, WAIT_FOR_SWITCHES, now) {
            return None;
        }
        new_tree(generation, &self.failed.exclusions(now), view)
    }

    /// Whether there are links to switches that a tree does not include, and no switch is changing its flow entries, or they have had the
    /// time.
    fn can_extend(
        &mut self,
        view: &NetworkView,
        tree: &SpanningTree,
        exclusions: &Exclusions,
        now: Instant,
    ) -> bool {
        let is_idle = |id| {
            tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
                || is_clear(view, id, tree.generation)
        };
        let is_ready = view.switches().all(|(id, _)| is_idle(id));
        self.has_waited(is_ready, FORGET_AFTER, now) && has_more_links(view, tree, exclusions)
    }

    /// Whether a decision need not wait for switches any more: all are ready, or it has waited for so long. Switches that reconnect in
    /// turn do not prolong that. An entry of an earlier process has expired by then.
    fn has_waited(&mut self, is_ready: bool, wait: Duration, now: Instant) -> bool {
        if is_ready {
            self.waiting_since = None;
            return true;
        }
        let since = *self.waiting_since.get_or_insert(now);
        let started = *self.started.get_or_insert(now);
        let until = (since + wait).max(started + FORGET_AFTER);
        if now < until {
            self.due = Some(until);
        }
        now >= until
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

/// The tree after `generation` over the switches that are ready for it, if there is a link.
fn new_tree(generation: u64, exclusions: &Exclusions, view: &NetworkView) -> Option<SpanningTree> {
    let may_join = |id| {
        is_clear(view, id, generation) && traffic(view, id).is_some() && !exclusions.has_switch(id)
    };
    let links = spanning_forest(view, &exclusions.links, may_join);
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
fn has_avoidable_links(view: &NetworkView, tree: &SpanningTree, exclusions: &Exclusions) -> bool {
    let drained = drained_count(view, &tree.links);
    if drained == 0 {
        return false;
    }
    let members: BTreeSet<_> = tree.members().collect();
    let forest = spanning_forest(view, &exclusions.links, |id| members.contains(&id));
    drained > drained_count(view, &forest)
}

/// Whether there are links to switches that are ready for a tree which does not include them.
fn has_more_links(view: &NetworkView, tree: &SpanningTree, exclusions: &Exclusions) -> bool {
    let may_join = |id| match tree_state(view, id) {
        Some(SwitchTreeState::Clear { traffic, .. }) => {
            traffic.is_some() && !exclusions.has_switch(id)
        }
        Some(SwitchTreeState::Installed(_)) => true,
        None => false,
    };
    let may_have_more_links = || {
        // A forest over m switches has at most m - 1 links.
        let joinable = view.switches().filter(|&(id, _)| may_join(id)).count();
        joinable > tree.links.len() + 1
    };
    may_have_more_links()
        && spanning_forest(view, &exclusions.links, may_join).len() > tree.links.len()
}

#[cfg(test)]
mod tests {
    use sluice_sdk::view::{Fact, SwitchInfo};

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

    /// A coordinator in a network of a spine, switch 1, and three leaves, none of which has been part of a tree.
    struct Decisions {
        coordinator: Coordinator,
        network: Network,
        info: SwitchInfo,
        start: Instant,
        now: Instant,
        flooding: Flooding,
    }

    impl Decisions {
        fn new() -> Self {
            let mut net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(1, 3), 1);
            let (network, now) = (net.workers.remove(0).network, net.now);
            let info = network.view().switch(DatapathId(4)).unwrap().clone();
            let (coordinator, flooding) = (Coordinator::default(), Flooding::Tree);
            let mut decisions = Self { coordinator, network, info, start: now, now, flooding };
            decisions.at(1);
            decisions
        }

        /// A tree of all switches is active, 300 seconds after the start.
        fn active() -> Self {
            let mut decisions = Self::new();
            decisions.confirm_clear(&[1, 2, 3, 4], 0);
            assert_eq!(decisions.at(2), Some(TreePhase::Installing));
            decisions.confirm_installed(&[1, 2, 3, 4], 1);
            assert_eq!(decisions.at(300), Some(TreePhase::Active));
            decisions
        }

        /// Decides so many seconds after the start.
        fn at(&mut self, seconds: u64) -> Option<TreePhase> {
            self.now = self.start + Duration::from_secs(seconds);
            self.network.begin_iteration(self.now);
            self.coordinator.decide_soon(self.flooding, self.now, &mut self.network);
            phase(&self.network)
        }

        /// As [`at`](Self::at), while two switches reconnect in turn every so many seconds and confirm nothing.
        fn with_reconnecting(
            &mut self,
            ids: [u64; 2],
            every: u64,
            until: u64,
        ) -> Option<TreePhase> {
            let from = self.now.duration_since(self.start).as_secs();
            for seconds in from..until {
                if seconds.is_multiple_of(every) {
                    let is_first = (seconds / every).is_multiple_of(2);
                    let [a, b] = if is_first { ids } else { [ids[1], ids[0]] };
                    self.connect(a);
                    self.disconnect(b);
                }
                self.at(seconds);
            }
            self.at(until)
        }

        fn connect(&mut self, id: u64) {
            let info = Some(self.info.clone());
            self.network.publish(self.now, Fact::Switch(DatapathId(id), info));
        }

        fn disconnect(&mut self, id: u64) {
            self.network.publish(self.now, Fact::Switch(DatapathId(id), None));
            self.confirm(id, None);
        }

        fn confirm(&mut self, id: u64, state: Option<SwitchTreeState>) {
            self.network.publish_record(self.now, DatapathId(id), state);
        }

        fn confirm_clear(&mut self, ids: &[u64], generation: u64) {
            let traffic = Some(TreeTraffic::Groups);
            let clear = SwitchTreeState::Clear { generation, traffic };
            for &id in ids {
                self.confirm(id, Some(clear));
            }
        }

        fn confirm_installed(&mut self, ids: &[u64], generation: u64) {
            let installed = SwitchTreeState::Installed(generation);
            for &id in ids {
                self.confirm(id, Some(installed));
            }
        }

        /// The switches of the tree.
        fn members(&self) -> Vec<u64> {
            let tree = SpanningTree::of(self.network.view());
            let members: BTreeSet<_> = tree.into_iter().flat_map(SpanningTree::members).collect();
            members.into_iter().map(|id| id.0).collect()
        }
    }

    /// They may have entries of an earlier process only until two minutes after the start, and then never.
    #[test]
    fn switches_that_reconnect_in_turn_and_confirm_nothing_do_not_prevent_the_tree_of_others() {
        let mut decisions = Decisions::new();
        decisions.confirm_clear(&[1, 2], 0);
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 120), None);
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 121), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2]);
        decisions.confirm_installed(&[1, 2], 1);
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 300), Some(TreePhase::Active));
        // The next tree waits for them for ten seconds.
        decisions.confirm(1, None);
        assert_eq!(decisions.at(301), Some(TreePhase::Removing));
        decisions.confirm_clear(&[1, 2], 1);
        assert_eq!(decisions.at(302), Some(TreePhase::Removed));
        assert_eq!(decisions.with_reconnecting([3, 4], 3, 311), Some(TreePhase::Removed));
        assert_eq!(decisions.with_reconnecting([3, 4], 3, 312), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2]);
    }

    /// As long as it may have entries, it could loop broadcasts of the next tree.
    #[test]
    fn a_switch_of_the_tree_that_reconnects_and_confirms_nothing_delays_the_next_one_for_two_minutes()
     {
        let mut decisions = Decisions::active();
        decisions.disconnect(3);
        decisions.disconnect(4);
        assert_eq!(decisions.at(301), Some(TreePhase::Removing));
        decisions.confirm_clear(&[1, 2], 1);
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 420), Some(TreePhase::Removing));
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 421), Some(TreePhase::Removed));
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 430), Some(TreePhase::Removed));
        assert_eq!(decisions.with_reconnecting([3, 4], 50, 431), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2]);
    }

    #[test]
    fn a_tree_is_extended_in_spite_of_switches_that_reconnect_in_turn_and_confirm_nothing() {
        let mut decisions = Decisions::new();
        decisions.disconnect(2);
        decisions.confirm_clear(&[1, 3], 0);
        decisions.disconnect(4);
        assert_eq!(decisions.at(2), Some(TreePhase::Installing));
        decisions.confirm_installed(&[1, 3], 1);
        assert_eq!(decisions.at(3), Some(TreePhase::Active));
        // Two switches without links, and one with a link to the others.
        assert_eq!(decisions.with_reconnecting([8, 9], 5, 100), Some(TreePhase::Active));
        decisions.connect(4);
        decisions.confirm_clear(&[4], 1);
        assert_eq!(decisions.with_reconnecting([8, 9], 5, 123), Some(TreePhase::Active));
        assert_eq!(decisions.with_reconnecting([8, 9], 5, 130), Some(TreePhase::Removing));
    }

    /// Otherwise, the others would have a tree for seconds out of every two minutes.
    #[test]
    fn a_switch_that_has_the_others_wait_for_two_minutes_is_left_out_longer_each_time() {
        let mut decisions = Decisions::active();
        let mut lost_at = 300;
        for (generation, left_out) in (1..).step_by(2).zip([60, 120, 240, 480]) {
            assert_eq!(decisions.at(lost_at), Some(TreePhase::Active), "{left_out}");
            assert_eq!(decisions.members(), [1, 2, 3, 4], "{left_out}");
            decisions.disconnect(4);
            assert_eq!(decisions.at(lost_at + 1), Some(TreePhase::Removing));
            decisions.confirm_clear(&[1, 2, 3], generation);
            let removed_at = lost_at + 121;
            assert_eq!(decisions.at(removed_at - 1), Some(TreePhase::Removing));
            assert_eq!(decisions.at(removed_at), Some(TreePhase::Installing));
            assert_eq!(decisions.members(), [1, 2, 3], "{left_out}");
            decisions.confirm_installed(&[1, 2, 3], generation + 1);
            // Its worker may be another one, and not know that it has failed.
            decisions.connect(4);
            decisions.confirm_clear(&[4], generation + 1);
            let again_at = removed_at + left_out;
            assert_eq!(decisions.at(removed_at + 1), Some(TreePhase::Active), "{left_out}");
            assert_eq!(decisions.at(again_at - 1), Some(TreePhase::Active), "{left_out}");
            assert_eq!(
                decisions.coordinator.due,
                Some(decisions.start + Duration::from_secs(again_at))
            );
            assert_eq!(decisions.at(again_at), Some(TreePhase::Removing), "{left_out}");
            decisions.confirm_clear(&[1, 2, 3, 4], generation + 1);
            assert_eq!(decisions.at(again_at + 1), Some(TreePhase::Installing), "{left_out}");
            decisions.confirm_installed(&[1, 2, 3, 4], generation + 2);
            lost_at = again_at + 2;
        }
    }

    /// As when its links change shortly before the two minutes are over.
    #[test]
    fn a_switch_that_has_confirmed_the_removal_once_is_not_left_out() {
        let mut decisions = Decisions::active();
        decisions.disconnect(4);
        assert_eq!(decisions.at(301), Some(TreePhase::Removing));
        decisions.confirm_clear(&[1, 2, 3], 1);
        assert_eq!(decisions.at(400), Some(TreePhase::Removing));
        decisions.confirm(2, None);
        assert_eq!(decisions.at(421), Some(TreePhase::Removed));
        decisions.confirm_clear(&[2], 1);
        assert_eq!(decisions.at(422), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2, 3]);
    }

    #[test]
    fn nobody_is_left_out_if_no_tree_was_wanted_during_the_removal() {
        let mut decisions = Decisions::active();
        decisions.flooding = Flooding::Controller;
        assert_eq!(decisions.at(301), Some(TreePhase::Removing));
        decisions.confirm_clear(&[1, 2, 3], 1);
        assert_eq!(decisions.at(421), Some(TreePhase::Removed));
        decisions.flooding = Flooding::Tree;
        decisions.confirm_clear(&[4], 1);
        assert_eq!(decisions.at(422), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2, 3, 4]);
    }

    /// A switch may have confirmed that it has no entries before it learned of the last tree.
    #[test]
    fn a_tree_that_does_not_wait_for_others_has_no_switch_that_does_not_know_of_the_last_one() {
        let mut decisions = Decisions::new();
        decisions.confirm_clear(&[1, 2, 3, 4], 0);
        decisions.disconnect(4);
        assert_eq!(decisions.at(2), Some(TreePhase::Installing));
        decisions.confirm_installed(&[1, 2, 3], 1);
        assert_eq!(decisions.at(300), Some(TreePhase::Active));
        decisions.connect(4);
        decisions.confirm_clear(&[4], 0);
        decisions.confirm(3, None);
        decisions.disconnect(3);
        assert_eq!(decisions.at(301), Some(TreePhase::Removing));
        decisions.confirm_clear(&[1, 2], 1);
        assert_eq!(decisions.at(421), Some(TreePhase::Removed));
        assert_eq!(decisions.at(431), Some(TreePhase::Installing));
        assert_eq!(decisions.members(), [1, 2]);
    }
}
