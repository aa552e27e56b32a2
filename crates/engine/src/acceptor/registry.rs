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
    /// Sessions that are not being closed.
    by_source: HashMap<SourceNetwork, SourceSessions>,
    counts: SourceCounts,
    /// Number of sessions in `by_source`.
    open_count: usize,
    /// Ports of the sessions in `by_source`, and of connections that claim a datapath id in use or wait for a worker.
    ports: SourceCounts,
    port_count: usize,
    /// Number of switches of each worker.
    switch_counts: Vec<usize>,
}

/// The sessions of a source.
#[derive(Debug, Default)]
struct SourceSessions {
    /// Oldest first.
    by_age: BTreeSet<SessionId>,
    /// Those with the most ports last.
    by_ports: BTreeSet<(usize, SessionId)>,
}

#[derive(Debug, Clone, Copy)]
struct AssignedSession {
    datapath_id: DatapathId,
    source: SourceNetwork,
    worker: usize,
    ports: usize,
    /// The certificate of the switch names the datapath id.
    is_bound: bool,
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

    /// Number of ports of the connected switches, without those that are being closed for another, and of connections that
    /// wait.
    pub(crate) fn port_count(&self) -> usize {
        self.port_count
    }

    /// The connected switches, in any order.
    pub(crate) fn locations(&self) -> impl Iterator<Item = SwitchLocation> {
        self.by_datapath.values().copied()
    }

    /// Assigns a switch to the worker with the fewest switches, of those of the lowest `rank`.
    pub(crate) fn assign<K: Ord>(
        &mut self,
        rank: impl Fn(usize) -> K,
        datapath_id: DatapathId,
        session_id: SessionId,
        source: SourceNetwork,
        ports: usize,
    ) -> SwitchLocation {
        let counts = self.switch_counts.iter().enumerate();
        let least = counts.min_by_key(|&(worker, &count)| (rank(worker), count));
        let worker = least.map_or(0, |(worker, _)| worker);
        if let Some(count) = self.switch_counts.get_mut(worker) {
            *count += 1;
        }
        let location = SwitchLocation { session_id, worker };
        self.by_datapath.insert(datapath_id, location);
        let session = AssignedSession { datapath_id, source, worker, ports, is_bound: false };
        self.sessions.insert(session_id, session);
        let sessions = self.by_source.entry(source).or_default();
        sessions.by_age.insert(session_id);
        sessions.by_ports.insert((ports, session_id));
        self.ports.add(source, ports);
        self.port_count += ports;
        self.counts.add(source, 1);
        self.open_count += 1;
        location
    }

    /// Records that the certificate of a switch names its datapath id.
    pub(crate) fn bind(&mut self, session_id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.is_bound = true;
        }
    }

    /// Whether the certificate of a switch names its datapath id, and the configuration requires that of some switches.
    pub(crate) fn is_bound(&self, session_id: SessionId) -> bool {
        self.sessions.get(&session_id).is_some_and(|session| session.is_bound)
    }

    /// Records that the configuration requires of no switch that its certificate names the datapath id.
    pub(crate) fn unbind_all(&mut self) {
        self.sessions.values_mut().for_each(|session| session.is_bound = false);
    }

    /// The session to close for a new one from `source` when there are too many: the newest of the source with the most, if that
    /// has more than `source` would have then. `None` if the new one must be refused.
    pub(crate) fn eviction_candidate(&self, source: SourceNetwork) -> Option<SwitchLocation> {
        let sessions = self.by_source.get(&self.counts.larger_than(source, 1)?)?;
        self.location(*sessions.by_age.last()?)
    }

    /// The source that must give up ports for `ports` more of `source` when there are too many: the one with the most, if that has
    /// more than `source` would have then. `None` if the new ones must be refused.
    pub(crate) fn source_with_more_ports(
        &self,
        source: SourceNetwork,
        ports: usize,
    ) -> Option<SourceNetwork> {
        self.ports.larger_than(source, ports)
    }

    /// The source that has the most ports.
    pub(crate) fn source_with_most_ports(&self) -> Option<SourceNetwork> {
        self.ports.largest()
    }

    /// The session of a source that has the most ports.
    pub(crate) fn session_with_most_ports(&self, source: SourceNetwork) -> Option<SwitchLocation> {
        let &(ports, session_id) = self.by_source.get(&source)?.by_ports.last()?;
        self.location(session_id).filter(|_| ports > 0)
    }

    fn location(&self, session_id: SessionId) -> Option<SwitchLocation> {
        Some(SwitchLocation { session_id, worker: self.sessions.get(&session_id)?.worker })
    }

    /// Counts the ports of a connection that claims a datapath id in use, or waits for a worker.
    pub(crate) fn count_waiting_ports(&mut self, source: SourceNetwork, ports: usize) {
        self.ports.add(source, ports);
        self.port_count += ports;
    }

    /// Stops counting the ports of a connection that has waited.
    pub(crate) fn uncount_waiting_ports(&mut self, source: SourceNetwork, ports: usize) {
        self.ports.remove(source, ports);
        self.port_count -= ports;
    }

    /// Records the number of ports that a switch has now.
    pub(crate) fn set_ports(&mut self, session_id: SessionId, ports: usize) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let before = std::mem::replace(&mut session.ports, ports);
        let source = session.source;
        let Some(sessions) = self.by_source.get_mut(&source) else { return };
        if sessions.by_ports.remove(&(before, session_id)) {
            sessions.by_ports.insert((ports, session_id));
            self.ports.remove(source, before);
            self.ports.add(source, ports);
            self.port_count = self.port_count + ports - before;
        }
    }

    /// Stops counting a session that is being closed. Its datapath id is free after [`remove`](Self::remove) only.
    pub(crate) fn stop_counting(&mut self, session_id: SessionId) {
        let Some(&AssignedSession { source, ports, .. }) = self.sessions.get(&session_id) else {
            return;
        };
        let Some(sessions) = self.by_source.get_mut(&source) else { return };
        if sessions.by_age.remove(&session_id) {
            sessions.by_ports.remove(&(ports, session_id));
            self.counts.remove(source, 1);
            self.open_count -= 1;
            self.ports.remove(source, ports);
            self.port_count -= ports;
        }
        if sessions.by_age.is_empty() {
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
            registry.assign(|_| false, DatapathId(n), SessionId(n), source(1), 4).worker
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
        registry.assign(|_| false, DatapathId(0), SessionId(0), source(1), 4);
        for n in 1..6 {
            registry.assign(|_| false, DatapathId(n), SessionId(n), source(2), 4);
        }
        assert_eq!(registry.eviction_candidate(source(2)), None);
        for (newest, source) in [(5, source(1)), (4, source(3))] {
            let evicted = registry.eviction_candidate(source).unwrap();
            assert_eq!(evicted, SwitchLocation { session_id: SessionId(newest), worker: 0 });
            registry.stop_counting(evicted.session_id);
            registry.assign(|_| false, DatapathId(newest + 10), SessionId(newest + 10), source, 4);
        }
        assert_eq!(registry.len(), 6);
        assert!(registry.lookup(DatapathId(5)).is_some(), "until it has disconnected");
        assert_eq!(registry.remove(SessionId(5)), Some(DatapathId(5)));
        assert_eq!((registry.len(), registry.lookup(DatapathId(5))), (6, None));
    }

    #[test]
    fn the_source_with_the_most_ports_gives_up_its_largest_session() {
        let mut registry = SwitchRegistry::new(1);
        registry.assign(|_| false, DatapathId(0), SessionId(0), source(1), 400);
        for (n, ports) in [(1, 300), (2, 900), (3, 100)] {
            registry.assign(|_| false, DatapathId(n), SessionId(n), source(2), ports);
        }
        registry.count_waiting_ports(source(2), 50);
        assert_eq!(registry.port_count(), 1750);
        assert_eq!(registry.source_with_more_ports(source(2), 1), None);
        assert_eq!(registry.source_with_more_ports(source(1), 949), Some(source(2)));
        assert_eq!(
            registry.source_with_more_ports(source(1), 950),
            None,
            "it would be the largest"
        );
        let largest = |registry: &SwitchRegistry| registry.session_with_most_ports(source(2));
        assert_eq!(largest(&registry).unwrap().session_id, SessionId(2));
        registry.set_ports(SessionId(3), 2000);
        assert_eq!(largest(&registry).unwrap().session_id, SessionId(3));
        registry.stop_counting(SessionId(3));
        registry.set_ports(SessionId(3), 3000);
        registry.uncount_waiting_ports(source(2), 50);
        assert_eq!(registry.port_count(), 1600);
        for n in 0..4 {
            registry.remove(SessionId(n));
        }
        assert_eq!((registry.port_count(), registry.source_with_most_ports()), (0, None));
    }
}
