//! The hosts at one port: which of them are unconfirmed, and how often one of them may be evicted.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use sluice_base::HashSet;
use sluice_sdk::view::HostId;

/// Unconfirmed hosts at a port that is not crowded: a quarter of the default of `hosts.per_port_max`.
const UNCROWDED_MAX: usize = 256;

/// How long a port counts as crowded after it had more unconfirmed hosts: longer than they stay at a crowded port.
const CROWDED_TIME: Duration = Duration::from_secs(60);

/// Hosts that are evicted from a port per second. Each eviction is a fact for all workers, causes deletions of flow entries, and
/// is remembered by the network view for a minute.
const EVICTIONS_PER_S_MAX: u32 = 128;

/// Evictions at once, after a while without any.
const EVICTION_BURST: u32 = 512;

/// Evictions that are kept for new hosts that send a second packet, which made-up hosts rarely do.
const EVICTIONS_RESERVED: u32 = 128;

/// New hosts that are remembered because they were not learned.
const REFUSED_MAX: usize = 4096;

/// The hosts at a port of this worker.
#[derive(Debug, Default)]
pub(super) struct PortHosts {
    pub(super) count: usize,
    /// Hosts without evidence that they exist, in the order in which they are candidates for eviction.
    unconfirmed: BTreeMap<u64, HostId>,
    /// When the port had more than [`UNCROWDED_MAX`] unconfirmed hosts last.
    crowded: Option<Instant>,
    /// Evictions that may follow at once, and when that was computed.
    evictions_left: Option<(u32, Instant)>,
    /// Hosts that were not learned, since there was no room.
    refused: HashSet<HostId>,
}

impl PortHosts {
    pub(super) fn add_unconfirmed(&mut self, order: u64, id: HostId, now: Instant) {
        self.unconfirmed.insert(order, id);
        if self.unconfirmed.len() > UNCROWDED_MAX {
            self.crowded = Some(now);
        }
    }

    pub(super) fn remove_unconfirmed(&mut self, order: u64) {
        self.unconfirmed.remove(&order);
    }

    pub(super) fn unconfirmed_count(&self) -> usize {
        self.unconfirmed.len()
    }

    /// The first candidate for eviction, or the one that follows `after`, with its position in the order.
    pub(super) fn candidate_after(&self, after: Option<u64>) -> Option<(u64, HostId)> {
        let first = after.map_or(Unbounded, Excluded);
        self.unconfirmed.range((first, Unbounded)).next().map(|(&order, &id)| (order, id))
    }

    /// Whether the port has, or had a moment ago, so many unconfirmed hosts that these expire soon.
    pub(super) fn is_crowded(&self, now: Instant) -> bool {
        self.unconfirmed.len() > UNCROWDED_MAX
            || self.crowded.is_some_and(|at| now.saturating_duration_since(at) < CROWDED_TIME)
    }

    /// Whether a host may be evicted for the new host `id`.
    pub(super) fn may_evict_for(&mut self, id: HostId, now: Instant) -> bool {
        let (left, since) = self.evictions_left.unwrap_or((EVICTION_BURST, now));
        let passed = now.saturating_duration_since(since).as_millis();
        let gained = passed * u128::from(EVICTIONS_PER_S_MAX) / 1000;
        let gained = u32::try_from(gained).unwrap_or(EVICTION_BURST);
        let since = if gained > 0 { now } else { since };
        let left = left.saturating_add(gained).min(EVICTION_BURST);
        self.evictions_left = Some((left, since));
        left > EVICTIONS_RESERVED || (left > 0 && self.refused.contains(&id))
    }

    /// Whether the port has no hosts and needs no memory any more. Evictions still count for the rate.
    pub(super) fn is_unused(&mut self) -> bool {
        if self.count == 0 {
            self.refused = HashSet::default();
        }
        self.count == 0 && self.evictions_left.is_none()
    }

    /// Forgets evictions and hosts that were not learned.
    pub(super) fn forget_evictions(&mut self) {
        (self.evictions_left, self.refused) = (None, HashSet::default());
    }

    /// A host was evicted for the new host `id`.
    pub(super) fn on_evicted_for(&mut self, id: HostId) {
        self.refused.remove(&id);
        if let Some((left, _)) = &mut self.evictions_left {
            *left = left.saturating_sub(1);
        }
    }

    /// The new host `id` was not learned, since there was no room.
    pub(super) fn on_refused(&mut self, id: HostId) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.clear();
        }
        self.refused.insert(id);
    }
}
