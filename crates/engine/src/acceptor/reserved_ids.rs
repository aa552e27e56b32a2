//! Datapath ids that only switches with a certificate for them may have.

use std::collections::BTreeMap;

use sluice_base::hash::HashMap;
use sluice_openflow::DatapathId;

/// Datapath ids of switches whose certificates have named them. Of too many, those that were not used for longest are forgotten.
#[derive(Debug, Default)]
pub(crate) struct ReservedIds {
    /// When each was used last, as a number that increases.
    last_uses: HashMap<DatapathId, u64>,
    by_last_use: BTreeMap<u64, DatapathId>,
    latest_use: u64,
}

impl ReservedIds {
    /// Records that a switch with a certificate for `id` has connected or disconnected. At most `count_max` ids are kept.
    pub(crate) fn insert(&mut self, id: DatapathId, count_max: usize) {
        self.latest_use += 1;
        if let Some(before) = self.last_uses.insert(id, self.latest_use) {
            self.by_last_use.remove(&before);
        }
        self.by_last_use.insert(self.latest_use, id);
        while self.last_uses.len() > count_max
            && let Some((_, oldest)) = self.by_last_use.pop_first()
        {
            self.last_uses.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, id: DatapathId) -> bool {
        self.last_uses.contains_key(&id)
    }

    pub(crate) fn clear(&mut self) {
        self.last_uses.clear();
        self.by_last_use.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_ids_the_one_that_was_not_used_for_longest_is_forgotten() {
        let mut reserved = ReservedIds::default();
        for id in [1, 2, 3, 1, 4] {
            reserved.insert(DatapathId(id), 3);
        }
        let is_reserved =
            |reserved: &ReservedIds| [1, 2, 3, 4].map(|id| reserved.contains(DatapathId(id)));
        assert_eq!(is_reserved(&reserved), [true, false, true, true]);
        assert_eq!((reserved.last_uses.len(), reserved.by_last_use.len()), (3, 3));
        reserved.insert(DatapathId(4), 1);
        assert_eq!(is_reserved(&reserved), [false, false, false, true]);
        reserved.clear();
        assert_eq!((reserved.last_uses.len(), reserved.by_last_use.len()), (0, 0));
    }
}
