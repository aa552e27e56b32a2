//! Finding the rule that a packet matches: a hash table for each priority and mask.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::fields::{FieldMask, NormalizedMatch, PacketFields};

/// Places of rules by the values of the bits that count.
type Subtable = HashMap<Arc<[u128]>, usize>;

/// Rules by priority, mask and value, as places in a table.
///
/// A packet costs one hash for each pair of priority and mask above the rule that it matches, however many rules there
/// are. Rules of one priority that both match, which the specification leaves open, are tried in the order of their masks.
#[derive(Debug, Default)]
pub(crate) struct FlowLookup {
    subtables: BTreeMap<(Reverse<u16>, FieldMask), Subtable>,
    scratch: Vec<u128>,
}

impl FlowLookup {
    /// Notes that the rule at `place` has `priority` and `pattern`; no other has.
    pub(crate) fn insert(&mut self, priority: u16, pattern: &NormalizedMatch, place: usize) {
        let key = (Reverse(priority), pattern.mask.clone());
        self.subtables.entry(key).or_default().insert(pattern.values.clone(), place);
    }

    /// Forgets the rule with `priority` and `pattern`.
    pub(crate) fn remove(&mut self, priority: u16, pattern: &NormalizedMatch) {
        let key = (Reverse(priority), pattern.mask.clone());
        if let Some(subtable) = self.subtables.get_mut(&key) {
            subtable.remove(&pattern.values);
            if subtable.is_empty() {
                self.subtables.remove(&key);
            }
        }
    }

    /// The rule with just this priority and pattern.
    pub(crate) fn exact(&self, priority: u16, pattern: &NormalizedMatch) -> Option<usize> {
        let key = (Reverse(priority), pattern.mask.clone());
        self.subtables.get(&key)?.get(&pattern.values).copied()
    }

    /// The rule of the highest priority that matches.
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
