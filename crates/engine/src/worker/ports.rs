//! The ports of a switch, kept current with its `PORT_STATUS` messages.

use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{Port, PortNo, PortReason, PortStatus};

use crate::config::PORTS_PER_SWITCH_MAX;

/// How long a deleted port still counts: for as long, the network views of all workers remember it.
const DELETED_KEPT: Duration = Duration::from_secs(60);

/// Shortest time between two searches for deleted ports that count no longer.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Where each port of a switch is in the list of its ports.
///
/// There are at most [`PORTS_PER_SWITCH_MAX`], with those that were deleted a moment ago. Further ones are ignored.
///
/// # Cost
/// None until the first change of a port; then a search in a hash table for each change.
#[derive(Debug, Default)]
pub(super) struct PortIndex {
    entries: HashMap<PortNo, PortEntry>,
    /// When deleted ports were searched for last.
    cleaned_up_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum PortEntry {
    /// Position in the list.
    At(usize),
    Deleted(Instant),
}

/// What becomes of a `PORT_STATUS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortChange {
    Recorded,
    /// The port that was deleted is not known.
    Unknown,
    /// The switch has too many ports.
    TooMany,
}

impl PortIndex {
    /// Changes `ports` as `status` says.
    pub(super) fn record(
        &mut self,
        ports: &mut Vec<Port>,
        status: &PortStatus,
        now: Instant,
    ) -> PortChange {
        if self.entries.is_empty() {
            let numbers = ports.iter().map(|port| port.port_no);
            self.entries = numbers.zip((0..).map(PortEntry::At)).collect();
        }
        let no = status.port.port_no;
        let entry = self.entries.get(&no).copied();
        if status.reason == PortReason::DELETE {
            let Some(PortEntry::At(n)) = entry else { return PortChange::Unknown };
            ports.swap_remove(n);
            if let Some(moved) = ports.get(n) {
                self.entries.insert(moved.port_no, PortEntry::At(n));
            }
            self.entries.insert(no, PortEntry::Deleted(now));
            return PortChange::Recorded;
        }
        if let Some(PortEntry::At(n)) = entry {
            if let Some(port) = ports.get_mut(n) {
                port.clone_from(&status.port);
            }
            return PortChange::Recorded;
        }
        if entry.is_none() && !self.has_room(now) {
            return PortChange::TooMany;
        }
        self.entries.insert(no, PortEntry::At(ports.len()));
        ports.push(status.port.clone());
        PortChange::Recorded
    }

    /// Number of ports, with those that were deleted a moment ago; `None` if no port has changed.
    pub(super) fn count(&self) -> Option<usize> {
        Some(self.entries.len()).filter(|&count| count > 0)
    }

    /// Whether there is room for another port.
    fn has_room(&mut self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        if self.entries.len() >= PORTS_PER_SWITCH_MAX
            && self.cleaned_up_at.is_none_or(|at| since(at) >= CLEANUP_INTERVAL)
        {
            self.cleaned_up_at = Some(now);
            self.entries.retain(|_, entry| match entry {
                PortEntry::At(_) => true,
                PortEntry::Deleted(at) => since(*at) <= DELETED_KEPT,
            });
        }
        self.entries.len() < PORTS_PER_SWITCH_MAX
    }
}

/// Removes ports with the number of an earlier one, and those beyond the limit. Returns how many.
pub(crate) fn limit_ports(ports: &mut Vec<Port>) -> usize {
    let count = ports.len();
    ports.sort_by_key(|port| port.port_no);
    ports.dedup_by_key(|port| port.port_no);
    ports.truncate(PORTS_PER_SWITCH_MAX);
    count - ports.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(reason: PortReason, no: u32) -> PortStatus {
        PortStatus { reason, port: Port { port_no: PortNo(no), ..Port::default() } }
    }

    fn numbers(ports: &[Port]) -> Vec<u32> {
        let mut numbers: Vec<_> = ports.iter().map(|port| port.port_no.0).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn ports_are_added_changed_and_deleted() {
        let (mut index, now) = (PortIndex::default(), sluice_io::clock::now());
        let mut ports: Vec<_> =
            (1..=4).map(|no| Port { port_no: PortNo(no), ..Port::default() }).collect();
        assert_eq!(index.count(), None);
        let mut record = |reason, no| index.record(&mut ports, &status(reason, no), now);
        assert_eq!(record(PortReason::DELETE, 2), PortChange::Recorded);
        assert_eq!(record(PortReason::DELETE, 2), PortChange::Unknown);
        assert_eq!(record(PortReason::DELETE, 9), PortChange::Unknown);
        assert_eq!(record(PortReason::ADD, 7), PortChange::Recorded);
        assert_eq!(record(PortReason::MODIFY, 4), PortChange::Recorded);
        assert_eq!(record(PortReason::DELETE, 4), PortChange::Recorded);
        assert_eq!(record(PortReason::ADD, 2), PortChange::Recorded);
        assert_eq!(numbers(&ports), [1, 2, 3, 7]);
        assert_eq!(index.count(), Some(5));
    }

    #[test]
    fn a_switch_has_no_more_ports_than_the_limit_with_those_deleted_in_the_last_minute() {
        let (mut index, start) = (PortIndex::default(), sluice_io::clock::now());
        let (mut ports, mut ignored) = (Vec::new(), 0);
        for no in 1..=300_000 {
            let change = index.record(&mut ports, &status(PortReason::ADD, no), start);
            ignored += usize::from(change == PortChange::TooMany);
            if no % 2 == 0 {
                index.record(&mut ports, &status(PortReason::DELETE, no), start);
            }
        }
        assert_eq!(ports.len(), PORTS_PER_SWITCH_MAX / 2);
        assert_eq!(index.count(), Some(PORTS_PER_SWITCH_MAX));
        assert_eq!(ignored, 300_000 - PORTS_PER_SWITCH_MAX);
        let later = start + DELETED_KEPT + Duration::from_secs(1);
        let change = index.record(&mut ports, &status(PortReason::ADD, 1_000_000), later);
        assert_eq!(change, PortChange::Recorded);
        assert_eq!(index.count(), Some(PORTS_PER_SWITCH_MAX / 2 + 1));
    }

    #[test]
    fn ports_of_a_handshake_are_limited_and_differ_in_their_numbers() {
        let numbers = [3, 1, 3, 2].into_iter().chain(10..10_000);
        let mut ports: Vec<_> =
            numbers.map(|no| Port { port_no: PortNo(no), ..Port::default() }).collect();
        let count = ports.len();
        assert_eq!(limit_ports(&mut ports), count - PORTS_PER_SWITCH_MAX);
        assert!(ports.is_sorted_by(|a, b| a.port_no < b.port_no));
    }
}
