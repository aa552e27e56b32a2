//! Which switch is where. Known to the front alone.

use std::collections::HashMap;

use sluice_openflow::DatapathId;

use crate::mailbox::SessionId;

/// Which switch is at which worker.
#[derive(Debug, Default)]
pub(crate) struct SwitchRegistry {
    by_id: HashMap<DatapathId, SwitchLocation>,
    by_serial: HashMap<SessionId, DatapathId>,
    loads: Vec<usize>,
}

/// Where a switch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SwitchLocation {
    /// Its connection.
    pub(crate) serial: SessionId,
    /// Its worker.
    pub(crate) worker: usize,
}

impl SwitchRegistry {
    /// Nobody is at any of `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { loads: vec![0; workers], ..Self::default() }
    }

    /// Switches that are there.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Where `id` is.
    pub(crate) fn home(&self, id: DatapathId) -> Option<SwitchLocation> {
        self.by_id.get(&id).copied()
    }

    /// Finds `id` a place with the worker that has the fewest switches.
    pub(crate) fn settle(&mut self, id: DatapathId, serial: SessionId) -> SwitchLocation {
        let least = self.loads.iter().enumerate().min_by_key(|&(_, &load)| load);
        let worker = least.map_or(0, |(worker, _)| worker);
        if let Some(load) = self.loads.get_mut(worker) {
            *load += 1;
        }
        let home = SwitchLocation { serial, worker };
        self.by_id.insert(id, home);
        self.by_serial.insert(serial, id);
        home
    }

    /// Forgets a connection; returns which switch it was.
    pub(crate) fn forget(&mut self, serial: SessionId) -> Option<DatapathId> {
        let id = self.by_serial.remove(&serial)?;
        let home = self.by_id.remove(&id)?;
        if let Some(load) = self.loads.get_mut(home.worker) {
            *load -= 1;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_go_where_the_fewest_are() {
        let mut registry = SwitchRegistry::new(2);
        let at: Vec<_> =
            (0..4).map(|n| registry.settle(DatapathId(n), SessionId(n)).worker).collect();
        assert_eq!(at, [0, 1, 0, 1]);
        assert_eq!(registry.forget(SessionId(1)), Some(DatapathId(1)));
        assert_eq!(registry.forget(SessionId(1)), None);
        assert_eq!(registry.settle(DatapathId(9), SessionId(9)).worker, 1);
        assert_eq!((registry.len(), registry.home(DatapathId(1))), (4, None));
    }
}
