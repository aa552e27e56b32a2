//! The connected switches: the worker of each, and the source that it takes a place from.

use std::collections::BTreeSet;

use sluice_base::hash::HashMap;
use sluice_openflow::DatapathId;

use super::source::{SourceCounts, SourceNetwork};
use crate::messages::{SessionId, SwitchLocation};

/// The connected switches, and the worker of each.
#[derive(Debug, Default)]
pub(crate) struct SwitchRegistry {
    by_datapath: HashMap<DatapathId, SwitchLocation>,
    sessions: HashMap<SessionId, AssignedSession>,
    /// Sessions that are not being closed, oldest first.
    by_source: HashMap<SourceNetwork, BTreeSet<SessionId>>,
    counts: SourceCounts,
    /// Number of sessions in `by_source`.
    open_count: usize,
    /// Number of switches of each worker.
    switch_counts: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct AssignedSession {
    datapath_id: DatapathId,
    source: SourceNetwork,
    worker: usize,
}

impl SwitchRegistry {
    pub(crate) fn new(workers: usize) -> Self {
        Self { switch_counts: vec![0; workers], ..Self::default() }
    }

    /// Number of connected switches, without those that are being closed for another.
    pub(crate) fn len(&self) -> usize {
        self.open_count
    }

    pub(crate) fn lookup(&self, id: DatapathId) -> Option<SwitchLocation> {
        self.by_datapath.get(&id).copied()
    }

    /// The connected switches, in any order.
    pub(crate) fn locations(&self) -> impl Iterator<Item = SwitchLocation> {
        self.by_datapath.values().copied()
    }

    /// Assigns a switch to the worker with the fewest switches.
    pub(crate) fn assign(
        &mut self,
        datapath_id: DatapathId,
        session_id: SessionId,
        source: SourceNetwork,
    ) -> SwitchLocation {
        let least = self.switch_counts.iter().enumerate().min_by_key(|&(_, &count)| count);
        let worker = least.map_or(0, |(worker, _)| worker);
        if let Some(count) = self.switch_counts.get_mut(worker) {
            *count += 1;
        }
        let location = SwitchLocation { session_id, worker };
        self.by_datapath.insert(datapath_id, location);
        self.sessions.insert(session_id, AssignedSession { datapath_id, source, worker });
        self.by_source.entry(source).or_default().insert(session_id);
        self.counts.add(source);
        self.open_count += 1;
        location
    }

    /// The session to close for a new one from `source` when there are too many: the newest of the source with the most, if that
    /// has more than `source` would have then. `None` if the new one must be refused.
    pub(crate) fn eviction_candidate(&self, source: SourceNetwork) -> Option<SwitchLocation> {
        let sessions = self.by_source.get(&self.counts.larger_than(source)?)?;
        let session_id = *sessions.last()?;
        Some(SwitchLocation { session_id, worker: self.sessions.get(&session_id)?.worker })
    }

    /// Stops counting a session that is being closed. Its datapath id is free after [`remove`](Self::remove) only.
    pub(crate) fn stop_counting(&mut self, session_id: SessionId) {
        let Some(&AssignedSession { source, .. }) = self.sessions.get(&session_id) else { return };
        let Some(sessions) = self.by_source.get_mut(&source) else { return };
        if sessions.remove(&session_id) {
            self.counts.remove(source);
            self.open_count -= 1;
        }
        if sessions.is_empty() {
            self.by_source.remove(&source);
        }
    }

    /// Records that a session has moved to another worker.
    pub(crate) fn relocate(&mut self, session_id: SessionId, worker: usize) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let from = std::mem::replace(&mut session.worker, worker);
        if let Some(location) = self.by_datapath.get_mut(&session.datapath_id) {
            location.worker = worker;
        }
        if let Ok([from, to]) = self.switch_counts.get_disjoint_mut([from, worker]) {
            *from -= 1;
            *to += 1;
        }
    }

    /// Removes a session; returns the datapath id of its switch.
    pub(crate) fn remove(&mut self, session_id: SessionId) -> Option<DatapathId> {
        self.stop_counting(session_id);
        let AssignedSession { datapath_id, worker, .. } = self.sessions.remove(&session_id)?;
        self.by_datapath.remove(&datapath_id);
        if let Some(count) = self.switch_counts.get_mut(worker) {
            *count -= 1;
        }
        Some(datapath_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> SourceNetwork {
        SourceNetwork::new([10, 0, 0, last].into())
    }

    #[test]
    fn a_switch_is_assigned_to_the_worker_with_the_fewest() {
        let mut registry = SwitchRegistry::new(2);
        let assign = |registry: &mut SwitchRegistry, n| {
            registry.assign(DatapathId(n), SessionId(n), source(1)).worker
        };
        let workers: Vec<_> = (0..4).map(|n| assign(&mut registry, n)).collect();
        assert_eq!(workers, [0, 1, 0, 1]);
        assert_eq!(registry.remove(SessionId(1)), Some(DatapathId(1)));
        assert_eq!(registry.remove(SessionId(1)), None);
        assert_eq!(assign(&mut registry, 9), 1);
        assert_eq!((registry.len(), registry.lookup(DatapathId(1))), (4, None));
        registry.relocate(SessionId(0), 1);
        registry.relocate(SessionId(2), 1);
        assert_eq!(registry.lookup(DatapathId(0)).unwrap().worker, 1);
        assert_eq!(assign(&mut registry, 10), 0);
    }

    #[test]
    fn the_newest_session_of_the_largest_source_makes_room_for_another_source() {
        let mut registry = SwitchRegistry::new(1);
        registry.assign(DatapathId(0), SessionId(0), source(1));
        for n in 1..6 {
            registry.assign(DatapathId(n), SessionId(n), source(2));
        }
        assert_eq!(registry.eviction_candidate(source(2)), None);
        for (newest, source) in [(5, source(1)), (4, source(3))] {
            let evicted = registry.eviction_candidate(source).unwrap();
            assert_eq!(evicted, SwitchLocation { session_id: SessionId(newest), worker: 0 });
            registry.stop_counting(evicted.session_id);
            registry.assign(DatapathId(newest + 10), SessionId(newest + 10), source);
        }
        assert_eq!(registry.len(), 6);
        assert!(registry.lookup(DatapathId(5)).is_some(), "until it has disconnected");
        assert_eq!(registry.remove(SessionId(5)), Some(DatapathId(5)));
        assert_eq!((registry.len(), registry.lookup(DatapathId(5))), (6, None));
    }
}
