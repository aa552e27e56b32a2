//! The host table: an open-addressing hash table of buckets that are one cache line each.

mod bucket;
mod burst;
mod changes;
mod occupancy;
mod removal;

use prefetch_index::prefetch_index;
use sluice_base::Rng;
use sluice_openflow::PortNo;

use bucket::{
    EMPTY_BUCKET, HostBucket, LearnedHost, PROBES_MAX, SLOTS, find, home_bucket, next_bucket,
};
use burst::insert_at_home;
use occupancy::Occupancy;

pub(super) use bucket::{HashedKey, Key, Tick};
pub(super) use burst::BurstTable;
pub(super) use changes::ChangedHosts;

/// Buckets of an empty table: 1 KiB, so that ten thousand idle switches cost 10 MiB.
const BUCKETS_MIN: usize = 16;

/// Result of [`Table::learn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostChange {
    /// The host is at the port where it was.
    Unchanged,
    /// The host is new; another may have been evicted.
    New,
    /// The host was at this port before.
    Moved(PortNo),
}

/// The hosts of one switch, and the ports they are at.
///
/// Open addressing: a host is stored in its home bucket or, if that is full, in one of the next buckets. Each bucket
/// counts the hosts that were displaced past it, so that a search ends at the first bucket where this count is zero.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Vec<HostBucket>,
    /// Secret odd factor of the hash function.
    factor: u64,
    occupancy: Occupancy,
    /// Buckets scanned for hosts at ports that went down, within the current second.
    scanned: usize,
}

impl Table {
    /// A table for at most `hosts_max` hosts. `seed` makes the hash function unpredictable, so that nobody can craft
    /// addresses that collide.
    pub(super) fn new(hosts_max: usize, seed: u64) -> Self {
        let factor = Rng::new(seed).next_u64() | 1;
        Self {
            buckets: vec![EMPTY_BUCKET; BUCKETS_MIN],
            factor,
            occupancy: Occupancy::new(hosts_max),
            scanned: 0,
        }
    }

    /// Memory used by the buckets.
    pub(super) const fn size_bytes(&self) -> usize {
        self.buckets.len() * size_of::<HostBucket>()
    }

    /// Hosts in the table, including expired ones that are not swept yet.
    pub(super) const fn len(&self) -> usize {
        self.occupancy.len()
    }

    /// Whether an address flood is in progress.
    pub(super) const fn is_flooded(&self) -> bool {
        self.occupancy.is_flooded()
    }

    /// Whether the loop for new sources serves this table best.
    pub(super) fn prefers_new_sources(&self) -> bool {
        self.is_flooded() && !self.occupancy.changes.are_wanted()
    }

    /// Hosts evicted since the table was created.
    pub(super) const fn evicted(&self) -> u64 {
        self.occupancy.evicted()
    }

    /// Sets the maximum number of hosts. Hosts in excess are evicted as new ones arrive.
    pub(super) const fn set_max(&mut self, hosts_max: usize) {
        self.occupancy.set_max(hosts_max);
    }

    /// Hashes a key. The result stays valid when the table grows.
    #[inline]
    pub(super) fn hashed(&self, key: Key) -> HashedKey {
        HashedKey::new(key, self.factor)
    }

    #[inline]
    fn home_bucket(&self, hashed: HashedKey) -> usize {
        home_bucket(&self.buckets, hashed)
    }

    #[inline]
    fn next_bucket(&self, bucket: usize) -> usize {
        next_bucket(&self.buckets, bucket)
    }

    /// Prefetches the home bucket of a host.
    #[inline]
    pub(super) fn prefetch(&self, hashed: HashedKey) {
        prefetch_index(&self.buckets, self.home_bucket(hashed));
    }

    /// The port of a host, if it was seen within `timeout`.
    #[inline]
    pub(super) fn get(&mut self, hashed: HashedKey, now: Tick, timeout: Tick) -> Option<PortNo> {
        let (bucket, slot) = find(&mut self.buckets, hashed)?;
        let (port, seen) = (*bucket.ports.get(slot)?, *bucket.seen.get(slot)?);
        (now.wrapping_sub(seen) <= timeout).then_some(PortNo(port))
    }

    /// Borrows the table for a burst, during which it is not resized.
    #[inline]
    pub(super) fn for_burst(&mut self, now: Tick, timeout: Tick) -> BurstTable<'_> {
        if self.occupancy.starts_flood() {
            self.evict_unconfirmed();
        }
        let (buckets, occupancy) = (&mut self.buckets, &mut self.occupancy);
        BurstTable { buckets, factor: self.factor, now, timeout, occupancy }
    }

    /// Records that a host was seen at `port`.
    ///
    /// # Cost
    /// Constant, except when the table doubles.
    #[inline]
    pub(super) fn learn(&mut self, hashed: HashedKey, port: PortNo, now: Tick) -> HostChange {
        let Some((bucket, slot)) = find(&mut self.buckets, hashed) else {
            self.insert_new(hashed, port, now);
            return HostChange::New;
        };
        // An unmodified bucket stays clean in the caches.
        if bucket.seen.get(slot).is_some_and(|&seen| seen != now) {
            self.occupancy.refresh(bucket, slot, now);
        }
        match bucket.ports.get_mut(slot) {
            Some(old) if *old != port.0 => {
                self.occupancy.changes.record(hashed.key);
                HostChange::Moved(PortNo(std::mem::replace(old, port.0)))
            }
            _ => HostChange::Unchanged,
        }
    }

    /// Confirms a host, as a new host has sent to it: it is evicted after all unconfirmed ones.
    pub(super) fn confirm(&mut self, hashed: HashedKey) {
        if let Some((bucket, slot)) = find(&mut self.buckets, hashed)
            && !bucket.is_confirmed(slot)
        {
            self.occupancy.confirm(bucket, slot);
        }
    }

    #[cold]
    fn insert_new(&mut self, hashed: HashedKey, port: PortNo, now: Tick) {
        if insert_at_home::<true>(&mut self.buckets, &mut self.occupancy, hashed, port.0, now)
            .is_some()
        {
            return;
        }
        self.occupancy.changes.record(hashed.key);
        if self.occupancy.has_room(self.buckets.len())
            && self.try_insert(hashed, port.0, now).is_some()
        {
            return;
        }
        // Below a load factor of 1/4, the addresses collide, and a larger table would not help.
        if !self.occupancy.is_full() && self.len() >= self.buckets.len() * SLOTS / 4 {
            self.resize(self.buckets.len() * 2, |_| true);
            if self.try_insert(hashed, port.0, now).is_some() {
                return;
            }
        }
        self.evict_near(self.home_bucket(hashed), now);
        self.try_insert(hashed, port.0, now);
    }

    /// Inserts a host that is not in the table into the first empty slot within reach. Returns the indices of bucket
    /// and slot.
    fn try_insert(&mut self, hashed: HashedKey, port: u32, seen: Tick) -> Option<(usize, usize)> {
        let home_bucket = self.home_bucket(hashed);
        let mut at = home_bucket;
        for probe in 0..PROBES_MAX {
            let next_bucket = self.next_bucket(at);
            let bucket = self.buckets.get_mut(at)?;
            if let Some(slot) = bucket.free_slot() {
                bucket.insert(slot, hashed.key, port, seen);
                if probe > 0 {
                    bucket.mark_displaced(slot);
                }
                self.occupancy.add_host();
                self.adjust_overflow(home_bucket, probe, |overflow| overflow + 1);
                return Some((at, slot));
            }
            at = next_bucket;
        }
        None
    }

    /// Rebuilds the table with this number of buckets and the hosts for which `keep` is true.
    fn resize(&mut self, buckets: usize, keep: impl Fn(&LearnedHost) -> bool) {
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY_BUCKET; buckets]);
        self.occupancy.clear();
        for host in old.iter().flat_map(HostBucket::hosts).filter(keep) {
            let position = self.try_insert(self.hashed(Key(host.key)), host.port, host.seen);
            if let Some((at, slot)) = position.filter(|_| host.is_confirmed)
                && let Some(bucket) = self.buckets.get_mut(at)
            {
                self.occupancy.confirm(bucket, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use sluice_base::HashMap;
    use sluice_openflow::VlanId;

    use super::bucket::audit;
    use super::*;

    pub(super) const TIMEOUT: Tick = 300;

    pub(super) fn hashed(table: &Table, n: u64) -> HashedKey {
        table.hashed(Key::new(n << 16, VlanId(0)))
    }

    pub(super) fn learn(table: &mut Table, n: u64, port: u32, now: Tick) -> HostChange {
        table.learn(hashed(table, n), PortNo(port), now)
    }

    pub(super) fn get(table: &mut Table, n: u64, now: Tick) -> Option<u32> {
        table.get(hashed(table, n), now, TIMEOUT).map(|port| port.0)
    }

    /// Checks the invariants of the buckets and the counts.
    pub(super) fn check(table: &Table) {
        let counted = audit(&table.buckets, table.factor);
        assert_eq!(counted, (table.occupancy.len(), table.occupancy.confirmed));
    }

    #[test]
    fn a_hundred_thousand_hosts_are_all_found() {
        let mut table = Table::new(131_072, 7);
        for n in 0..100_000 {
            assert_eq!(learn(&mut table, n.into(), n, 0), HostChange::New, "{n}");
        }
        assert_eq!(table.buckets.len(), 65_536);
        for n in 0..100_000 {
            assert_eq!(get(&mut table, n.into(), 0), Some(n), "{n}");
        }
        assert_eq!(get(&mut table, 100_000, 0), None);
    }

    /// For any factor, nearly all hosts with consecutive addresses are in their home buckets.
    #[test]
    fn consecutive_addresses_are_spread_with_every_seed() {
        for seed in 0..200 {
            let mut table = Table::new(131_072, seed);
            for n in 0..1000u64 {
                learn(&mut table, (0x0200_0000_0000 + n).swap_bytes() >> 16, 1, 0);
            }
            let overflow: u32 = table.buckets.iter().map(|bucket| u32::from(bucket.overflow)).sum();
            assert!(overflow < 120, "seed {seed}: {overflow}");
        }
    }

    #[test]
    fn the_table_agrees_with_a_map_under_random_use() {
        let mut rng = Rng::new(42);
        let (mut table, mut map) = (Table::new(10_000, rng.next_u64()), HashMap::default());
        for step in 0..200_000u32 {
            let n = u64::from(rng.below(3000));
            let port = rng.below(48);
            if rng.below(1000) == 0 {
                table.remove_port(PortNo(port));
                map.retain(|_, &mut at| at != port);
            } else {
                let change = learn(&mut table, n, port, 0);
                let expected = match map.insert(n, port) {
                    None => HostChange::New,
                    Some(old) if old == port => HostChange::Unchanged,
                    Some(old) => HostChange::Moved(PortNo(old)),
                };
                assert_eq!(change, expected, "step {step}");
            }
            let probe = u64::from(rng.below(3000));
            let found = get(&mut table, probe, 0);
            assert_eq!(found, map.get(&probe).copied(), "step {step}");
            assert_eq!(table.len(), map.len());
        }
        check(&table);
    }
}
