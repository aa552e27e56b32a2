//! Finds the flow entry for a packet: one hash table per priority and mask (tuple space search).

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_base::HashMap;

use sluice_pipeline::{FieldMask, NormalizedMatch, PacketFields};

/// Most empty subtables that are kept: flow entries that come and go usually have the same few masks.
const EMPTY_SUBTABLES_MAX: usize = 16;

/// Indices of the entries with one priority and mask, by the values of their matched bits.
#[derive(Debug)]
struct Subtable {
    priority: u16,
    mask: FieldMask,
    entries: HashMap<Arc<[u128]>, usize>,
}

/// Indices of flow entries by priority, mask and value.
///
/// A lookup costs one hash per pair of priority and mask down to the matching entry, however many entries there are. If
/// entries of equal priority match, which the specification leaves undefined, the first in the order of masks is used.
#[derive(Debug, Default)]
pub(crate) struct FlowLookup {
    /// In descending order of priority, then in the order of masks.
    subtables: Vec<Subtable>,
    scratch: Vec<u128>,
}

impl FlowLookup {
    /// The subtable with this priority and mask, or the position at which it belongs.
    fn position(&self, priority: u16, mask: &FieldMask) -> Result<usize, usize> {
        // Entries of one form share the mask of the first.
        let is_same = |it: &Subtable| it.priority == priority && it.mask.is_shared_with(mask);
        if let Some(at) = self.subtables.iter().position(is_same) {
            return Ok(at);
        }
        self.subtables.binary_search_by(|it| {
            Reverse(it.priority).cmp(&Reverse(priority)).then_with(|| it.mask.cmp(mask))
        })
    }

    /// The index of the entry with this `priority` and `pattern`; if there is none, it becomes `new`.
    pub(crate) fn get_or_insert(
        &mut self,
        priority: u16,
        pattern: &NormalizedMatch,
        new: usize,
    ) -> usize {
        let at = self.position(priority, &pattern.mask).unwrap_or_else(|at| {
            let mask = pattern.mask.clone();
            self.subtables.insert(at, Subtable { priority, mask, entries: HashMap::default() });
            at
        });
        match self.subtables.get_mut(at) {
            Some(subtable) => *subtable.entries.entry(Arc::clone(&pattern.values)).or_insert(new),
            None => new,
        }
    }

    /// Removes the entry with `priority` and `pattern`.
    pub(crate) fn remove(&mut self, priority: u16, pattern: &NormalizedMatch) {
        let Ok(at) = self.position(priority, &pattern.mask) else { return };
        let Some(subtable) = self.subtables.get_mut(at) else { return };
        subtable.entries.remove(&pattern.values);
        if subtable.entries.is_empty() {
            let is_empty = |it: &&Subtable| it.entries.is_empty();
            if self.subtables.iter().filter(is_empty).count() > EMPTY_SUBTABLES_MAX {
                self.subtables.retain(|it| !it.entries.is_empty());
            }
        }
    }

    /// The entry with exactly this priority and match.
    pub(crate) fn exact(&self, priority: u16, pattern: &NormalizedMatch) -> Option<usize> {
        let subtable = self.subtables.get(self.position(priority, &pattern.mask).ok()?)?;
        subtable.entries.get(&pattern.values).copied()
    }

    /// The matching entry with the highest priority.
    pub(crate) fn find(&mut self, fields: &PacketFields) -> Option<usize> {
        let Self { subtables, scratch } = self;
        subtables.iter().filter(|it| !it.entries.is_empty()).find_map(|it| {
            if it.mask.extract(fields, scratch) {
                it.entries.get(scratch.as_slice()).copied()
            } else {
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sluice_openflow::{Field, FieldId, Match, Version};

    use super::*;

    /// A pattern of one or two fields, each with one of a few masks and values.
    fn any_pattern() -> impl Strategy<Value = NormalizedMatch> {
        let field = |id: FieldId| {
            proptest::option::of((0..4u128, 1..4u128)).prop_map(move |it| {
                it.map(|(value, mask)| Field::new(id, value & mask).masked(mask))
            })
        };
        (field(FieldId::ETH_DST), field(FieldId::METADATA)).prop_map(|(a, b)| {
            let matching: Match = a.into_iter().chain(b).collect();
            NormalizedMatch::new(&matching, Version::V1_3, &[]).unwrap()
        })
    }

    proptest! {
        /// The subtables and a list of entries agree on every lookup after any insertions and removals.
        #[test]
        fn a_lookup_agrees_with_a_search_of_all_entries(
            steps in vec((any::<bool>(), 0..3u16, any_pattern()), 1..80),
            packets in vec((0..4u128, proptest::option::of(0..4u128)), 1..8),
        ) {
            let mut lookup = FlowLookup::default();
            let mut list: Vec<(u16, NormalizedMatch, usize)> = vec![];
            for (index, (is_added, priority, pattern)) in steps.into_iter().enumerate() {
                let known = list.iter().position(|it| it.0 == priority && it.1 == pattern);
                if is_added {
                    let expected = known.map_or(index, |at| list[at].2);
                    prop_assert_eq!(lookup.get_or_insert(priority, &pattern, index), expected);
                    if known.is_none() {
                        list.push((priority, pattern.clone(), index));
                    }
                } else {
                    lookup.remove(priority, &pattern);
                    known.map(|at| list.remove(at));
                }
                let exact = list.iter().find(|it| it.0 == priority && it.1 == pattern);
                prop_assert_eq!(lookup.exact(priority, &pattern), exact.map(|it| it.2));
                for &(dst, metadata) in &packets {
                    let mut fields = PacketFields::NONE;
                    fields.set(FieldId::ETH_DST, dst);
                    if let Some(value) = metadata {
                        fields.set(FieldId::METADATA, value);
                    }
                    let matching: Vec<_> = list.iter().filter(|it| it.1.matches(&fields)).collect();
                    let highest = matching.iter().map(|it| it.0).max();
                    let found = lookup.find(&fields);
                    let is_right =
                        matching.iter().any(|it| Some(it.0) == highest && Some(it.2) == found);
                    prop_assert!(is_right || (found.is_none() && matching.is_empty()));
                }
            }
        }
    }
}
