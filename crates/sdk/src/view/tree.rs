//! The tree along which frames for all go, as one worker decides it and all others confirm it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::DatapathId;

use super::{KEPT, Stamp, SwitchPort};

/// Links without a ring among them, through which switches pass on frames for all by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its number; a later tree has a greater one.
    pub nth: u64,
    /// What is done about it.
    pub stage: Stage,
    /// Which frames go along it.
    pub groups: Groups,
    /// Its links, by the ports at their ends.
    pub links: Arc<[[SwitchPort; 2]]>,
}

/// What is done about a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its switches get their rules.
    Growing,
    /// All switches have confirmed theirs.
    Standing,
    /// The rules go.
    Going,
    /// All switches have confirmed that they are gone, or are gone themselves.
    Gone,
}

/// Frames that rules can tell from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// Those to all groups.
    All,
    /// Broadcasts only: the version has no masks for addresses.
    Broadcast,
}

/// How far a switch is with trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It has confirmed that it has rules of no tree, and gets none of this one or an earlier one.
    Bare {
        /// The number of that tree.
        after: u64,
        /// What its rules can tell apart; `None` for a switch that is to get none.
        groups: Option<Groups>,
    },
    /// It has confirmed that it has those of this tree.
    Holds(u64),
}

/// What is known of trees.
#[derive(Debug, Default)]
pub(super) struct Trees {
    tree: Option<(Stamp, Tree)>,
    stands: BTreeMap<DatapathId, (Stamp, Option<Stand>)>,
    /// The worker of the switch says so, and takes it back.
    old: BTreeSet<SwitchPort>,
    version: u64,
}

impl Tree {
    /// Whether a port is at an end of one of its links.
    ///
    /// # Cost
    /// Looks at all links.
    pub fn has_end(&self, at: SwitchPort) -> bool {
        self.links.iter().flatten().any(|&end| end == at)
    }
}

impl Trees {
    pub(super) fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref().map(|(_, tree)| tree)
    }

    pub(super) fn stand(&self, id: DatapathId) -> Option<Stand> {
        self.stands.get(&id)?.1
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn tree_stamp(&self) -> Option<Stamp> {
        self.tree.as_ref().map(|&(stamp, _)| stamp)
    }

    pub(super) fn stand_stamp(&self, id: DatapathId) -> Option<Stamp> {
        self.stands.get(&id).map(|&(stamp, _)| stamp)
    }

    pub(super) fn set_tree(&mut self, stamp: Stamp, new: &Tree) -> bool {
        let is_old = |&(old_stamp, ref old): &(Stamp, Tree)| stamp < old_stamp || old == new;
        if self.tree.as_ref().is_some_and(is_old) {
            return false;
        }
        self.tree = Some((stamp, new.clone()));
        self.version += 1;
        true
    }

    pub(super) fn set_stand(&mut self, stamp: Stamp, id: DatapathId, new: Option<Stand>) -> bool {
        let (old_stamp, old) = self.stands.entry(id).or_insert((stamp, None));
        if stamp < *old_stamp || *old == new {
            return false;
        }
        (*old_stamp, *old) = (stamp, new);
        self.version += 1;
        true
    }

    pub(super) fn set_old(&mut self, at: SwitchPort, is_old: bool) -> bool {
        let is_news = if is_old { self.old.insert(at) } else { self.old.remove(&at) };
        self.version += u64::from(is_news);
        is_news
    }

    pub(super) fn is_old(&self, at: SwitchPort) -> bool {
        self.old.contains(&at)
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.stands.retain(|_, (stamp, stand)| stand.is_some() || stamp.is_within(KEPT, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_word_about_a_tree_and_about_a_switch_holds() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let stamp = |ms| Stamp::new(now + std::time::Duration::from_millis(ms), 0);
        let tree = |nth, stage| Tree { nth, stage, groups: Groups::All, links: [].into() };
        let (mut trees, id) = (Trees::default(), DatapathId(1));
        assert!(trees.set_tree(stamp(1), &tree(1, Stage::Growing)));
        assert!(trees.set_tree(stamp(3), &tree(1, Stage::Going)));
        assert!(!trees.set_tree(stamp(2), &tree(1, Stage::Standing)));
        assert_eq!(trees.tree().map(|tree| tree.stage), Some(Stage::Going));
        assert!(trees.set_stand(stamp(5), id, Some(Stand::Holds(1))));
        assert!(!trees.set_stand(stamp(4), id, None));
        assert!(trees.set_stand(stamp(6), id, None));
        assert!(!trees.set_stand(stamp(7), id, None));
        assert_eq!((trees.stand(id), trees.version()), (None, 4));
        trees.sweep(now + KEPT * 2);
        assert_eq!(trees.stand_stamp(id), None);
    }
}
