//! Switches that have completed the handshake and wait until a worker has time for them.

use std::collections::BTreeMap;

use sluice_io::ConnId;

use super::source::SourceNetwork;

/// The place of a switch among those of its source, increasing with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitingKey(u64);

/// Switches that wait until a worker has time for them. Sources take turns, and the switches of each wait in the order in which they have
/// come: one source, however many connections it opens, has the switch of another one wait for one of its own.
///
/// # Cost
/// Logarithmic in the number of switches.
#[derive(Debug)]
pub(super) struct WaitingSwitches<C = ConnId> {
    by_source: BTreeMap<(SourceNetwork, WaitingKey), C>,
    last_key: u64,
    /// The source that had the last turn.
    last_source: Option<SourceNetwork>,
}

impl<C> Default for WaitingSwitches<C> {
    fn default() -> Self {
        Self { by_source: BTreeMap::new(), last_key: 0, last_source: None }
    }
}

impl<C: Copy> WaitingSwitches<C> {
    pub(super) fn len(&self) -> usize {
        self.by_source.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_source.is_empty()
    }

    /// Adds a switch.
    pub(super) fn insert(&mut self, source: SourceNetwork, id: C) -> WaitingKey {
        self.last_key += 1;
        let key = WaitingKey(self.last_key);
        self.by_source.insert((source, key), id);
        key
    }

    /// Removes a switch that was closed.
    pub(super) fn remove(&mut self, source: SourceNetwork, key: WaitingKey) {
        self.by_source.remove(&(source, key));
    }

    /// Removes the switch whose turn it is: the first of the next source.
    pub(super) fn pop(&mut self) -> Option<C> {
        let end = WaitingKey(u64::MAX);
        let after = self.last_source.and_then(|last| self.by_source.range((last, end)..).next());
        let (&key, &id) = after.or_else(|| self.by_source.first_key_value())?;
        self.by_source.remove(&key);
        self.last_source = Some(key.0);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> SourceNetwork {
        SourceNetwork::new([10, 0, 0, last].into())
    }

    #[test]
    fn sources_take_turns_and_the_switches_of_each_keep_their_order() {
        let mut waiting = WaitingSwitches::default();
        for id in 0..100 {
            waiting.insert(source(7), id);
        }
        assert_eq!([waiting.pop(), waiting.pop()], [Some(0), Some(1)]);
        waiting.insert(source(9), 200);
        waiting.insert(source(3), 201);
        waiting.insert(source(3), 202);
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).take(6).collect();
        assert_eq!(order, [200, 201, 2, 202, 3, 4]);
    }

    #[test]
    fn nothing_is_kept_of_a_switch_that_was_closed() {
        let mut waiting = WaitingSwitches::default();
        let keys: Vec<_> = (0..3).map(|id| waiting.insert(source(1), id)).collect();
        waiting.remove(source(1), keys[0]);
        waiting.remove(source(1), keys[2]);
        assert_eq!((waiting.len(), waiting.pop(), waiting.pop()), (1, Some(1), None));
        assert!(waiting.is_empty());
    }
}
