//! The connected switches, and the worker of each. Owned by the acceptor.

use sluice_base::HashMap;
use sluice_openflow::DatapathId;

use crate::messages::{SessionId, SwitchLocation};

/// The connected switches, and the worker of each.
#[derive(Debug, Default)]
pub(crate) struct SwitchRegistry {
    by_datapath: HashMap<DatapathId, SwitchLocation>,
    by_session: HashMap<SessionId, DatapathId>,
    /// Number of switches of each worker.
    switch_counts: Vec<usize>,
}

impl SwitchRegistry {
    pub(crate) fn new(workers: usize) -> Self {
        Self { switch_counts: vec![0; workers], ..Self::default() }
    }

    /// Number of connected switches.
    pub(crate) fn len(&self) -> usize {
        self.by_datapath.len()
    }

    pub(crate) fn lookup(&self, id: DatapathId) -> Option<SwitchLocation> {
        self.by_datapath.get(&id).copied()
    }

    /// Assigns a switch to the worker with the fewest switches.
    pub(crate) fn assign(&mut self, id: DatapathId, session_id: SessionId) -> SwitchLocation {
        let least = self.switch_counts.iter().enumerate().min_by_key(|&(_, &count)| count);
        let worker = least.map_or(0, |(worker, _)| worker);
        if let Some(count) = self.switch_counts.get_mut(worker) {
            *count += 1;
        }
        let location = SwitchLocation { session_id, worker };
        self.by_datapath.insert(id, location);
        self.by_session.insert(session_id, id);
        location
    }

    /// Records that a session has moved to another worker.
    pub(crate) fn relocate(&mut self, session_id: SessionId, worker: usize) {
        let Some(id) = self.by_session.get(&session_id) else { return };
        let Some(location) = self.by_datapath.get_mut(id) else { return };
        let from = std::mem::replace(&mut location.worker, worker);
        if let Ok([from, to]) = self.switch_counts.get_disjoint_mut([from, worker]) {
            *from -= 1;
            *to += 1;
        }
    }

    /// Removes a session; returns the datapath id of its switch.
    pub(crate) fn remove(&mut self, session_id: SessionId) -> Option<DatapathId> {
        let id = self.by_session.remove(&session_id)?;
        let location = self.by_datapath.remove(&id)?;
        if let Some(count) = self.switch_counts.get_mut(location.worker) {
            *count -= 1;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_assigned_to_the_worker_with_the_fewest() {
        let mut registry = SwitchRegistry::new(2);
        let workers: Vec<_> =
            (0..4).map(|n| registry.assign(DatapathId(n), SessionId(n)).worker).collect();
        assert_eq!(workers, [0, 1, 0, 1]);
        assert_eq!(registry.remove(SessionId(1)), Some(DatapathId(1)));
        assert_eq!(registry.remove(SessionId(1)), None);
        assert_eq!(registry.assign(DatapathId(9), SessionId(9)).worker, 1);
        assert_eq!((registry.len(), registry.lookup(DatapathId(1))), (4, None));
        registry.relocate(SessionId(0), 1);
        registry.relocate(SessionId(2), 1);
        assert_eq!(registry.lookup(DatapathId(0)).unwrap().worker, 1);
        assert_eq!(registry.assign(DatapathId(5), SessionId(10)).worker, 0);
    }
}
