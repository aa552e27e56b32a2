//! Finds the flow entry for a packet: one hash table per priority and mask.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_base::HashMap;

use super::fields::{FieldMask, NormalizedMatch, PacketFields};

/// Indices of entries by the values of their matched bits.
type Subtable = HashMap<Arc<[u128]>, usize>;

/// Indices of flow entries by priority, mask and value.
///
/// A lookup costs one hash per pair of priority and mask down to the matching entry, however many entries there are. If
/// entries of equal priority match, which the specification leaves undefined, the first in the order of masks is used.
#[derive(Debug, Default)]
pub(crate) struct FlowLookup {
    subtables: BTreeMap<(Reverse<u16>, FieldMask), Subtable>,
    scratch: Vec<u128>,
}

impl FlowLookup {
    /// Adds the entry at index `index`; no other has this `priority` and `pattern`.
    pub(crate) fn insert(&mut self, priority: u16, pattern: &NormalizedMatch, index: usize) {
        let key = (Reverse(priority), pattern.mask.clone());
        self.subtables.entry(key).or_default().insert(pattern.values.clone(), index);
    }

    /// Removes the entry with `priority` and `pattern`.
    pub(crate) fn remove(&mut self, priority: u16, pattern: &NormalizedMatch) {
        let key = (Reverse(priority), pattern.mask.clone());
        if let Some(subtable) = self.subtables.get_mut(&key) {
            subtable.remove(&pattern.values);
            if subtable.is_empty() {
                self.subtables.remove(&key);
            }
        }
    }

    /// The entry with exactly this priority and match.
    pub(crate) fn exact(&self, priority: u16, pattern: &NormalizedMatch) -> Option<usize> {
        let key = (Reverse(priority), pattern.mask.clone());
        self.subtables.get(&key)?.get(&pattern.values).copied()
    }

    /// The matching entry with the highest priority.
    pub(crate) fn find(&mut self, fields: &PacketFields) -> Option<usize> {
        let Self { subtables, scratch } = self;
        subtables.iter().find_map(|((_, mask), subtable)| {
            if mask.extract(fields, scratch) {
                subtable.get(scratch.as_slice()).copied()
            } else {
                None
            }
        })
    }
}
