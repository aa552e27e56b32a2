//! Number of hosts in a table, its limit, and detection of address floods.

use super::bucket::{HostBucket, SLOTS, Tick};
use super::changes::Changes;

/// Unconfirmed hosts that a table keeps during a flood: few enough that their buckets stay in the cache of the core
/// for the length of a burst. `lab/throughput` has the measurement.
pub(super) const FLOODED_MAX: usize = 2048;

/// Number of hosts in a table, its limit, and detection of address floods.
///
/// A host is confirmed when a new host sends to it, or when it is seen again in a later second. A full table evicts
/// unconfirmed hosts first, so that forged addresses replace each other and not the hosts that communicate.
///
/// A flood starts when more new addresses arrive within a second than the table can hold. Until it ends, the limit on
/// unconfirmed hosts is low: more of them would only displace buckets from the caches.
#[derive(Debug)]
pub(super) struct Occupancy {
    hosts: usize,
    /// Confirmed hosts among them.
    pub(super) confirmed: usize,
    hosts_max: usize,
    /// The limit in force: lower than `hosts_max` during a flood.
    limit: usize,
    /// Hosts evicted within the current second.
    evicted_this_second: usize,
    /// Hosts evicted in earlier seconds.
    evicted_before: u64,
    is_flooded: bool,
    /// Hosts that have changed since they were last published.
    pub(super) changes: Changes,
}

impl Occupancy {
    pub(super) const fn new(hosts_max: usize) -> Self {
        let (hosts, confirmed, evicted_this_second, evicted_before) = (0, 0, 0, 0);
        let limit = hosts_max;
        Self {
            hosts,
            confirmed,
            hosts_max,
            limit,
            evicted_this_second,
            evicted_before,
            is_flooded: false,
            changes: Changes::Ignored,
        }
    }

    pub(super) const fn set_max(&mut self, hosts_max: usize) {
        self.hosts_max = hosts_max;
        self.update_limit();
    }

    /// Counts a host that was inserted.
    pub(super) const fn add_host(&mut self) {
        self.hosts += 1;
    }

    /// Confirms the host in a slot.
    #[cold]
    pub(super) const fn confirm(&mut self, bucket: &mut HostBucket, slot: usize) {
        bucket.confirm(slot);
        self.confirmed += 1;
        self.update_limit();
    }

    /// Records that the host in a slot was seen in a later second than before, which confirms it.
    #[cold]
    pub(super) fn refresh(&mut self, bucket: &mut HostBucket, slot: usize, now: Tick) {
        if let Some(seen) = bucket.seen.get_mut(slot) {
            *seen = now;
        }
        self.changes.record(bucket.keys.get(slot).copied().unwrap_or(0));
        if !bucket.is_confirmed(slot) {
            self.confirm(bucket, slot);
        }
    }

    /// Counts a host that is about to be removed from a slot.
    pub(super) fn remove_host(&mut self, bucket: &HostBucket, slot: usize) {
        self.hosts -= 1;
        self.confirmed -= usize::from(bucket.is_confirmed(slot));
        self.update_limit();
    }

    /// Counts an eviction.
    #[inline]
    pub(super) const fn evict_host(&mut self) {
        self.evicted_this_second += 1;
    }

    /// Resets the counts for a table that is being rebuilt.
    pub(super) const fn clear(&mut self) {
        (self.hosts, self.confirmed) = (0, 0);
        self.update_limit();
    }

    /// Starts the next second.
    pub(super) const fn next_second(&mut self) {
        self.is_flooded = self.is_flooded && self.evicted_this_second >= self.hosts_max / 4;
        self.evicted_before += self.evicted_this_second as u64;
        self.evicted_this_second = 0;
        self.update_limit();
    }

    /// Starts a flood, in which the table drops all unconfirmed hosts. Returns the new limit.
    pub(super) fn begin_flood(&mut self) -> usize {
        self.evicted_before += (self.hosts - self.confirmed) as u64;
        self.is_flooded = true;
        self.update_limit();
        self.limit
    }

    /// Whether a flood has started and [`begin_flood`](Self::begin_flood) is due.
    #[inline]
    pub(super) const fn starts_flood(&self) -> bool {
        // A small table would gain nothing.
        let is_large = self.hosts_max > 4 * FLOODED_MAX;
        is_large && !self.is_flooded && self.evicted_this_second >= self.hosts_max
    }

    /// Whether a flood is in progress.
    pub(super) const fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Hosts in the table.
    pub(super) const fn len(&self) -> usize {
        self.hosts
    }

    /// Hosts evicted since the table was created.
    pub(super) const fn evicted(&self) -> u64 {
        self.evicted_before + self.evicted_this_second as u64
    }

    /// Whether a new host requires an eviction.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.hosts >= self.limit
    }

    /// Whether a table of `buckets` buckets may take one more host.
    #[inline]
    pub(super) fn has_room(&self, buckets: usize) -> bool {
        // At a load factor above 5/8, the longest searches grow faster than the table.
        self.hosts < (buckets * SLOTS / 8 * 5).min(self.limit)
    }

    /// Updates the limit in force.
    const fn update_limit(&mut self) {
        self.limit = self.hosts_max;
        let flooded_limit = self.confirmed * 2 + FLOODED_MAX;
        if self.is_flooded && flooded_limit < self.limit {
            self.limit = flooded_limit;
        }
    }
}
