//! One worker decides which tree there is; it never begins one while rules of another may be left anywhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::NetworkView;

use super::Flooding;
use super::forest::{forest, is_alive, is_whole};
use super::rules::LIFE;
use super::state::{SpanningTree, SwitchTreeState, TreePhase, TreeTraffic, tree_state};

/// The worker that decides.
const COORDINATOR: usize = 0;

/// After which a switch that is not connected has no rules of a tree left: they live for [`LIFE`], and what was written to
/// it last may have been on its way for as long as the rest of this.
const GONE_AFTER: Duration = Duration::from_secs(120);

const _: () = assert!(LIFE.as_secs() < GONE_AFTER.as_secs());

/// What only the one who decides knows.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// Switches of the tree that goes which are not connected, and since when.
    lost: BTreeMap<DatapathId, Instant>,
    /// Whether a tree stands.
    stands: bool,
}

impl Coordinator {
    /// Looks whether there is something to be decided.
    ///
    /// # Cost
    /// Looks at all switches, and at all links where a tree stands or may be begun.
    pub(super) fn look(&mut self, flooding: Flooding, now: Instant, network: &mut Network) {
        if network.worker() != COORDINATOR {
            return;
        }
        while let Some(next) = self.next(flooding, now, network.view()) {
            network.publish_record(now, (), Some(next));
        }
        self.stands =
            SpanningTree::of(network.view()).is_some_and(|tree| tree.phase == TreePhase::Active);
    }

    /// Whether a tree stands, and this is the worker that says so.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    fn next(
        &mut self,
        flooding: Flooding,
        now: Instant,
        view: &NetworkView,
    ) -> Option<SpanningTree> {
        let is_wanted = flooding == Flooding::Tree;
        let Some(tree) = SpanningTree::of(view) else { return begin(is_wanted, 0, view) };
        let phase = match tree.phase {
            TreePhase::Installing if !is_wanted || !can_grow(view, tree) => TreePhase::Removing,
            TreePhase::Installing => {
                let is_done = tree.members().all(|id| {
                    tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
                });
                is_done.then_some(TreePhase::Active)?
            }
            TreePhase::Active => {
                let is_fine = is_wanted && is_whole(view, tree) && !can_be_larger(view, tree);
                (!is_fine).then_some(TreePhase::Removing)?
            }
            TreePhase::Removing => self.is_over(view, tree, now).then_some(TreePhase::Removed)?,
            TreePhase::Removed => return begin(is_wanted, tree.generation, view),
        };
        Some(SpanningTree { phase, ..tree.clone() })
    }

    /// Whether no switch has rules of a tree that goes any more.
    fn is_over(&mut self, view: &NetworkView, tree: &SpanningTree, now: Instant) -> bool {
        let mut is_over = true;
        for id in tree.members() {
            if is_bare(view, id, tree.generation) {
                continue;
            }
            if view.switch(id).is_some() {
                self.lost.remove(&id);
                is_over = false;
                continue;
            }
            let since = *self.lost.entry(id).or_insert(now);
            is_over &= now.saturating_duration_since(since) >= GONE_AFTER;
        }
        if is_over {
            self.lost.clear();
        }
        is_over
    }
}

/// Whether a switch has confirmed that it has no rules, and will get none of the `nth` tree.
fn is_bare(view: &NetworkView, id: DatapathId, nth: u64) -> bool {
    matches!(tree_state(view, id), Some(SwitchTreeState::Clear { generation, .. }) if generation >= nth)
}

/// What a switch without rules can tell apart, if it may get some.
fn traffic(view: &NetworkView, id: DatapathId) -> Option<TreeTraffic> {
    match tree_state(view, id) {
        Some(SwitchTreeState::Clear { traffic, .. }) => traffic,
        _ => None,
    }
}

/// The tree after the `nth`, if all switches wait for it and there is a link.
fn begin(is_wanted: bool, nth: u64, view: &NetworkView) -> Option<SpanningTree> {
    if !is_wanted || !view.switches().all(|(id, _)| is_bare(view, id, nth)) {
        return None;
    }
    let links = forest(view, |id| traffic(view, id).is_some());
    let mut ends = links.iter().flatten().map(|end| end.switch);
    let all = ends.all(|id| traffic(view, id) == Some(TreeTraffic::Groups));
    let traffic = if all { TreeTraffic::Groups } else { TreeTraffic::Broadcast };
    let is_any = !links.is_empty();
    is_any.then(|| SpanningTree {
        generation: nth + 1,
        phase: TreePhase::Installing,
        traffic,
        links: links.into(),
    })
}

/// Whether a tree can still come to stand.
fn can_grow(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is_willing = |id| {
        view.switch(id).is_some()
            && match tree_state(view, id) {
                Some(SwitchTreeState::Clear { generation, traffic }) => {
                    generation < tree.generation && traffic.is_some()
                }
                Some(SwitchTreeState::Installed(nth)) => nth == tree.generation,
                None => false,
            }
    };
    tree.members().all(is_willing) && is_alive(view, tree)
}

/// Whether there are links to switches that a tree does not reach, and nothing is in motion.
fn can_be_larger(view: &NetworkView, tree: &SpanningTree) -> bool {
    let is_calm = |id| {
        tree_state(view, id) == Some(SwitchTreeState::Installed(tree.generation))
            || is_bare(view, id, tree.generation)
    };
    let may = |id| match tree_state(view, id) {
        Some(SwitchTreeState::Clear { traffic, .. }) => traffic.is_some(),
        Some(SwitchTreeState::Installed(_)) => true,
        None => false,
    };
    view.switches().all(|(id, _)| is_calm(id)) && forest(view, may).len() > tree.links.len()
}
