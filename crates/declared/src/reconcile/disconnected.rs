//! What is remembered of switches that are not connected. Datapath ids are chosen by peers, so that there is a limit.

use std::collections::{BTreeMap, VecDeque};

use sluice_base::{HashMap, HashSet};
use sluice_openflow::DatapathId;

use super::Owned;
use super::switch::Switch;
use crate::form::Slot;

/// Switches whose groups and meters are remembered.
const OWNED_MAX: usize = 16_384;

/// Switches that are remembered as unreliable.
const UNRELIABLE_MAX: usize = 1024;

/// Switches that are not connected; beyond the limits, those that have disconnected first are forgotten.
#[derive(Debug, Default)]
pub(super) struct DisconnectedSwitches {
    /// Groups and meters that were installed, and the number of the disconnection.
    owned: HashMap<DatapathId, (u64, HashSet<Slot>)>,
    by_age: BTreeMap<u64, DatapathId>,
    disconnections: u64,
    /// Those that have answered no reading in their last session.
    unreliable: VecDeque<DatapathId>,
}

impl DisconnectedSwitches {
    /// A switch has disconnected. Returns the groups and meters that are forgotten.
    pub(super) fn insert(&mut self, switch: Switch) -> Vec<Owned> {
        let id = switch.id();
        if switch.has_never_answered() {
            self.insert_unreliable(id);
        }
        self.insert_owned(id, switch.owned)
    }

    fn insert_unreliable(&mut self, id: DatapathId) {
        if self.unreliable.len() == UNRELIABLE_MAX {
            self.unreliable.pop_front();
        }
        self.unreliable.push_back(id);
    }

    /// Remembers the groups and meters of a switch. Returns those that are forgotten.
    pub(super) fn insert_owned(&mut self, id: DatapathId, slots: HashSet<Slot>) -> Vec<Owned> {
        if slots.is_empty() {
            return vec![];
        }
        self.disconnections += 1;
        self.owned.insert(id, (self.disconnections, slots));
        self.by_age.insert(self.disconnections, id);
        if self.owned.len() <= OWNED_MAX {
            return vec![];
        }
        let Some((_, oldest)) = self.by_age.pop_first() else { return vec![] };
        let (_, forgotten) = self.owned.remove(&oldest).unwrap_or_default();
        forgotten.iter().filter_map(|slot| Owned::new(oldest, slot)).collect()
    }

    /// The groups and meters of a switch that has connected.
    pub(super) fn take_owned(&mut self, id: DatapathId) -> HashSet<Slot> {
        let Some((disconnection, slots)) = self.owned.remove(&id) else {
            return HashSet::default();
        };
        self.by_age.remove(&disconnection);
        slots
    }

    /// Whether a switch that has connected has answered no reading in its last session.
    pub(super) fn take_unreliable(&mut self, id: DatapathId) -> bool {
        let position = self.unreliable.iter().position(|it| *it == id);
        position.and_then(|at| self.unreliable.remove(at)).is_some()
    }
}
