//! When each of many keys is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;
use std::time::Instant;

use sluice_base::hash::HashMap;

/// Outdated entries of the heap are removed when they are more than the current ones and this.
const OUTDATED_MIN: usize = 64;

/// When each of many keys is due, in a heap that is updated lazily.
///
/// # Cost
/// [`set`](Self::set) looks up the key if its deadline moves back, and adds to the heap if it moves forward.
/// [`pop_due`](Self::pop_due) is logarithmic in the number of keys. An owner whose deadlines only move back need not call
/// `set` each time: it can compare with the true deadline when the key is due, and set that then.
#[derive(Debug)]
pub(crate) struct Deadlines<K> {
    by_key: HashMap<K, Deadline>,
    /// Has an entry for each key, not after its deadline, and outdated entries.
    heap: BinaryHeap<Reverse<(Instant, K)>>,
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    due_at: Instant,
    /// The time in the key's entry of the heap.
    queued_at: Instant,
}

impl<K> Default for Deadlines<K>
where
    K: Ord,
{
    fn default() -> Self {
        Self { by_key: HashMap::default(), heap: BinaryHeap::new() }
    }
}

impl<K: Copy + Ord + Hash> Deadlines<K> {
    /// Sets the deadline of `key`, which replaces its earlier one.
    pub(crate) fn set(&mut self, key: K, due_at: Instant) {
        if let Some(deadline) = self.by_key.get_mut(&key).filter(|d| d.queued_at <= due_at) {
            deadline.due_at = due_at;
            return;
        }
        self.by_key.insert(key, Deadline { due_at, queued_at: due_at });
        self.heap.push(Reverse((due_at, key)));
        self.remove_outdated();
    }

    /// Removes the deadline of `key`.
    pub(crate) fn remove(&mut self, key: K) {
        self.by_key.remove(&key);
        self.remove_outdated();
    }

    /// When to call [`pop_due`](Self::pop_due) next: the earliest deadline, or a time before it.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _))| at)
    }

    /// Removes a key whose deadline has come and returns it, the earliest first; `None` if there is no other.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        while let Some(&Reverse((queued_at, key))) = self.heap.peek().filter(|e| e.0.0 <= now) {
            self.heap.pop();
            let Some(deadline) = self.by_key.get_mut(&key).filter(|d| d.queued_at == queued_at)
            else {
                continue;
            };
            if deadline.due_at <= now {
                self.by_key.remove(&key);
                return Some(key);
            }
            deadline.queued_at = deadline.due_at;
            self.heap.push(Reverse((deadline.due_at, key)));
        }
        None
    }

    fn remove_outdated(&mut self) {
        if self.heap.len() > 2 * self.by_key.len() + OUTDATED_MIN {
            let entries = self.by_key.iter().map(|(&key, d)| Reverse((d.queued_at, key)));
            self.heap = entries.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use sluice_base::Rng;

    use super::*;

    fn after(start: Instant, ms: u32) -> Instant {
        start + Duration::from_millis(ms.into())
    }

    #[test]
    fn keys_are_due_in_the_order_of_their_last_deadlines() {
        let (mut deadlines, start) = (Deadlines::default(), sluice_io::clock::now());
        for (key, ms) in [('a', 10), ('b', 20), ('c', 30), ('a', 40), ('c', 5), ('b', 20)] {
            deadlines.set(key, after(start, ms));
        }
        assert_eq!(deadlines.next(), Some(after(start, 5)));
        assert_eq!(deadlines.pop_due(start), None);
        let mut due =
            |ms| -> String { std::iter::from_fn(|| deadlines.pop_due(after(start, ms))).collect() };
        assert_eq!([due(10), due(39), due(40), due(99)], ["c", "b", "a", ""]);
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn a_removed_key_is_not_due_and_may_be_set_again() {
        let (mut deadlines, start) = (Deadlines::default(), sluice_io::clock::now());
        deadlines.set(1, start);
        deadlines.remove(1);
        assert_eq!(deadlines.pop_due(start), None);
        deadlines.set(1, after(start, 5));
        deadlines.remove(1);
        deadlines.set(1, after(start, 5));
        assert_eq!([(); 2].map(|()| deadlines.pop_due(after(start, 5))), [Some(1), None]);
    }

    /// Compares with a map from keys to deadlines.
    #[test]
    fn random_changes_give_the_same_as_a_search_of_all_keys_and_outdated_entries_are_bounded() {
        let (mut rng, start) = (Rng::new(7), sluice_io::clock::now());
        let (mut deadlines, mut model) = (Deadlines::default(), BTreeMap::new());
        let mut now = start;
        for _ in 0..20_000 {
            let (key, at) = (rng.below(50), after(now, rng.below(1000)));
            match rng.below(4) {
                0 => {
                    deadlines.remove(key);
                    model.remove(&key);
                }
                1 => now = after(now, rng.below(20)),
                _ => {
                    deadlines.set(key, at);
                    model.insert(key, at);
                }
            }
            let mut due: Vec<_> = std::iter::from_fn(|| deadlines.pop_due(now)).collect();
            due.sort_unstable();
            let is_due = |&(_, at): &(_, Instant)| at <= now;
            let expected: Vec<_> = model.clone().into_iter().filter(is_due).map(|e| e.0).collect();
            model.retain(|_, at| *at > now);
            assert_eq!(due, expected);
            let is_next = |at| deadlines.next().is_some_and(|next| next <= at);
            assert!(model.values().copied().all(is_next));
            assert!(deadlines.heap.len() <= 2 * model.len() + OUTDATED_MIN + 1);
        }
    }
}
