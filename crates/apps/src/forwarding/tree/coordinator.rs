//! One worker decides which tree there is; it never begins one while rules of another may be left anywhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, Groups, NetworkView, Stage, Stand, Tree};

use super::Flooding;
use super::forest::{forest, is_alive, is_whole, members};
use super::rules::LIFE;

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
            network.publish(now, Fact::Tree(next));
        }
        self.stands = network.view().tree().is_some_and(|tree| tree.stage == Stage::Standing);
    }

    /// Whether a tree stands, and this is the worker that says so.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    fn next(&mut self, flooding: Flooding, now: Instant, view: &NetworkView) -> Option<Tree> {
        let is_wanted = flooding == Flooding::Tree;
        let Some(tree) = view.tree() else { return begin(is_wanted, 0, view) };
        let stage = match tree.stage {
            Stage::Growing if !is_wanted || !can_grow(view, tree) => Stage::Going,
            Stage::Growing => {
                let is_done =
                    members(tree).all(|id| view.stand(id) == Some(Stand::Holds(tree.nth)));
                is_done.then_some(Stage::Standing)?
            }
            Stage::Standing => {
                let is_fine = is_wanted && is_whole(view, tree) && !can_be_larger(view, tree);
                (!is_fine).then_some(Stage::Going)?
            }
            Stage::Going => self.is_over(view, tree, now).then_some(Stage::Gone)?,
            Stage::Gone => return begin(is_wanted, tree.nth, view),
        };
        Some(Tree { stage, ..tree.clone() })
    }

    /// Whether no switch has rules of a tree that goes any more.
    fn is_over(&mut self, view: &NetworkView, tree: &Tree, now: Instant) -> bool {
        let mut is_over = true;
        for id in members(tree) {
            if is_bare(view, id, tree.nth) {
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
    matches!(view.stand(id), Some(Stand::Bare { after, .. }) if after >= nth)
}

/// What a switch without rules can tell apart, if it may get some.
fn groups(view: &NetworkView, id: DatapathId) -> Option<Groups> {
    match view.stand(id) {
        Some(Stand::Bare { groups, .. }) => groups,
        _ => None,
    }
}

/// The tree after the `nth`, if all switches wait for it and there is a link.
fn begin(is_wanted: bool, nth: u64, view: &NetworkView) -> Option<Tree> {
    if !is_wanted || !view.switches().all(|(id, _)| is_bare(view, id, nth)) {
        return None;
    }
    let links = forest(view, |id| groups(view, id).is_some());
    let mut ends = links.iter().flatten().map(|end| end.switch);
    let all = ends.all(|id| groups(view, id) == Some(Groups::All));
    let groups = if all { Groups::All } else { Groups::Broadcast };
    let is_any = !links.is_empty();
    is_any.then(|| Tree { nth: nth + 1, stage: Stage::Growing, groups, links: links.into() })
}

/// Whether a tree can still come to stand.
fn can_grow(view: &NetworkView, tree: &Tree) -> bool {
    let is_willing = |id| {
        view.switch(id).is_some()
            && match view.stand(id) {
                Some(Stand::Bare { after, groups }) => after < tree.nth && groups.is_some(),
                Some(Stand::Holds(nth)) => nth == tree.nth,
                None => false,
            }
    };
    members(tree).all(is_willing) && is_alive(view, tree)
}

/// Whether there are links to switches that a tree does not reach, and nothing is in motion.
fn can_be_larger(view: &NetworkView, tree: &Tree) -> bool {
    let is_calm =
        |id| view.stand(id) == Some(Stand::Holds(tree.nth)) || is_bare(view, id, tree.nth);
    let may = |id| match view.stand(id) {
        Some(Stand::Bare { groups, .. }) => groups.is_some(),
        Some(Stand::Holds(_)) => true,
        None => false,
    };
    view.switches().all(|(id, _)| is_calm(id)) && forest(view, may).len() > tree.links.len()
}
