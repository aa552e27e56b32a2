//! Switches that have completed the handshake and wait until a worker has time for them.

use std::collections::VecDeque;

use sluice_io::ConnId;

use super::listeners::ListenerGroup;
use super::pending::Origin;
use super::source::SourceNetwork;

/// Identifies a switch among those of its source, increasing with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitingKey(u64);

/// Queues that take turns: the first one is next, and goes to the end if something is left in it. None of them is empty.
type Turns<K, Q> = VecDeque<(K, Q)>;

/// The switches of a source, in the order in which they have come.
type OfSource<C> = VecDeque<(WaitingKey, C)>;

/// Switches that wait until a worker has time for them. Groups of listeners take turns, in each of them sources do, and the switches of each
/// source wait in the order in which they have come. So a switch waits for at most one of each other source that was there before.
///
/// # Cost
/// Linear in the number of sources of the listeners; to remove a switch, also in the number of switches of its source.
#[derive(Debug)]
pub(super) struct WaitingSwitches<C = ConnId> {
    groups: Turns<ListenerGroup, Turns<SourceNetwork, OfSource<C>>>,
    count: usize,
    last_key: u64,
}

impl<C> Default for WaitingSwitches<C> {
    fn default() -> Self {
        Self { groups: VecDeque::new(), count: 0, last_key: 0 }
    }
}

impl<C: Copy> WaitingSwitches<C> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a switch.
    pub(super) fn insert(&mut self, origin: Origin, id: C) -> WaitingKey {
        self.last_key += 1;
        let key = WaitingKey(self.last_key);
        if let Some(sources) = queue_of(&mut self.groups, origin.listeners)
            && let Some(switches) = queue_of(sources, origin.source)
        {
            switches.push_back((key, id));
            self.count += 1;
        }
        key
    }

    /// Removes a switch that was closed.
    pub(super) fn remove(&mut self, origin: Origin, key: WaitingKey) {
        let Some((group, sources)) = find(&mut self.groups, origin.listeners) else { return };
        let Some((source, switches)) = find(sources, origin.source) else { return };
        if let Ok(at) = switches.binary_search_by_key(&key, |&(key, _)| key) {
            switches.remove(at);
            self.count -= 1;
        }
        if switches.is_empty() {
            sources.remove(source);
        }
        if sources.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Removes the switch whose turn it is.
    pub(super) fn pop(&mut self) -> Option<C> {
        let (group, mut sources) = self.groups.pop_front()?;
        let (source, mut switches) = sources.pop_front()?;
        let (_, id) = switches.pop_front()?;
        self.count -= 1;
        if !switches.is_empty() {
            sources.push_back((source, switches));
        }
        if !sources.is_empty() {
            self.groups.push_back((group, sources));
        }
        Some(id)
    }
}

/// The position of a queue, and the queue.
fn find<K: Copy + PartialEq, Q>(turns: &mut Turns<K, Q>, wanted: K) -> Option<(usize, &mut Q)> {
    let at = turns.iter().position(|(key, _)| *key == wanted)?;
    turns.get_mut(at).map(|(_, queue)| (at, queue))
}

/// The queue with this key, which is added at the end if there is none.
fn queue_of<K: Copy + PartialEq, Q: Default>(turns: &mut Turns<K, Q>, wanted: K) -> Option<&mut Q> {
    if !turns.iter().any(|(key, _)| *key == wanted) {
        turns.push_back((wanted, Q::default()));
    }
    find(turns, wanted).map(|(_, queue)| queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(listeners: usize, last: u8) -> Origin {
        let source = SourceNetwork::new([10, 0, 0, last].into());
        Origin { listeners: ListenerGroup(listeners), source }
    }

    fn order(waiting: &mut WaitingSwitches<u32>, n: usize) -> Vec<u32> {
        std::iter::from_fn(|| waiting.pop()).take(n).collect()
    }

    #[test]
    fn sources_take_turns_and_the_switches_of_each_keep_their_order() {
        let mut waiting = WaitingSwitches::default();
        for id in 0..100 {
            waiting.insert(origin(0, 7), id);
        }
        assert_eq!(order(&mut waiting, 2), [0, 1]);
        waiting.insert(origin(0, 9), 200);
        waiting.insert(origin(0, 3), 201);
        waiting.insert(origin(0, 3), 202);
        assert_eq!(order(&mut waiting, 7), [2, 200, 201, 3, 202, 4, 5]);
    }

    /// Whatever the order of their addresses.
    #[test]
    fn a_switch_does_not_wait_for_sources_that_come_later() {
        for victim in [1, 250] {
            let mut waiting = WaitingSwitches::default();
            waiting.insert(origin(0, 100), 0);
            waiting.insert(origin(0, victim), 1);
            let mut served = vec![];
            for n in 101..110 {
                waiting.insert(origin(0, n), n.into());
                served.extend(waiting.pop());
            }
            assert_eq!(served.iter().position(|&id| id == 1), Some(1), "{victim}: {served:?}");
        }
    }

    #[test]
    fn a_switch_at_one_listener_does_not_wait_for_all_sources_of_another() {
        let mut waiting = WaitingSwitches::default();
        for n in 0..100 {
            waiting.insert(origin(0, n), n.into());
        }
        waiting.insert(origin(1, 1), 200);
        assert_eq!(order(&mut waiting, 4), [0, 200, 1, 2]);
    }

    #[test]
    fn nothing_is_kept_of_a_switch_that_was_closed() {
        let mut waiting = WaitingSwitches::default();
        let keys: Vec<_> = (0..3).map(|id| waiting.insert(origin(0, 1), id)).collect();
        waiting.remove(origin(0, 1), keys[0]);
        waiting.remove(origin(0, 1), keys[2]);
        waiting.remove(origin(0, 2), keys[1]);
        assert_eq!((waiting.len(), waiting.is_empty()), (1, false));
        waiting.remove(origin(0, 1), keys[1]);
        assert!(waiting.is_empty() && waiting.groups.is_empty());
        assert_eq!(waiting.pop(), None);
    }
}
