//! Removal of hosts: eviction from a full table, expiry, and ports that go down.

use sluice_openflow::PortNo;

use super::bucket::{Key, PROBES_MAX, SLOTS, Tick};
use super::{BUCKETS_MIN, Table};

/// Buckets scanned per second for hosts at ports that went down; a full table of the default size can be scanned sixteen
/// times.
const SCANNED_MAX: usize = 1 << 20;

impl Table {
    /// Starts the next second, also if several have passed.
    pub(crate) fn next_second(&mut self) {
        self.scanned = 0;
        self.occupancy.next_second();
    }

    /// Removes the hosts that were not seen within `timeout` from a part of the table: number `part` of `parts` equal
    /// parts. Called once per second.
    pub(crate) fn sweep(&mut self, part: usize, parts: usize, now: Tick, timeout: Tick) {
        let len = self.buckets.len();
        let (from, to) = (len * part / parts, len * (part + 1) / parts);
        self.remove_where(from, to, |_, seen| now.wrapping_sub(seen) > timeout);
    }

    /// Removes the hosts at `port`. If ports go down so often that scanning would delay other switches, removes all
    /// hosts instead.
    ///
    /// # Cost
    /// Scans the whole table.
    pub(crate) fn remove_port(&mut self, port: PortNo) {
        if self.scanned >= SCANNED_MAX {
            self.occupancy.changes.record_all();
            return self.resize(BUCKETS_MIN, |_| false);
        }
        self.scanned += self.buckets.len();
        self.remove_where(0, self.buckets.len(), |at, _| at == port.0);
    }

    /// Removes all unconfirmed hosts, and shrinks the table, as a flood of addresses has started.
    #[cold]
    pub(super) fn evict_unconfirmed(&mut self) {
        let slots = self.occupancy.begin_flood() * 8 / 5;
        let buckets = slots.div_ceil(SLOTS).next_power_of_two().max(BUCKETS_MIN);
        self.occupancy.changes.record_all();
        self.resize(buckets, |host| host.is_confirmed);
    }

    fn remove_where(&mut self, from: usize, to: usize, stale: impl Fn(u32, Tick) -> bool) {
        for at in from..to {
            for slot in 0..SLOTS {
                let Some(bucket) = self.buckets.get(at) else { return };
                let entry =
                    bucket.keys.get(slot).zip(bucket.ports.get(slot)).zip(bucket.seen.get(slot));
                if entry.is_some_and(|((&key, &port), &seen)| key != 0 && stale(port, seen)) {
                    self.remove(at, slot);
                }
            }
        }
    }

    /// Evicts a host to make room for a new one with this home bucket. If the home bucket has an unconfirmed host, that
    /// is evicted; if it is full of confirmed ones, the oldest of these. Otherwise searches the next buckets for an
    /// unconfirmed host; if there is none, evicts the oldest host of the first bucket that is not empty.
    pub(super) fn evict_near(&mut self, home_bucket: usize, now: Tick) {
        self.occupancy.evict_host();
        let (mut at, mut confirmed) = (home_bucket, None);
        for probe in 0..self.buckets.len() {
            let Some(bucket) = self.buckets.get_mut(at) else { break };
            if let Some(slot) = bucket.victim() {
                return self.remove(at, slot);
            }
            let oldest = bucket.oldest(now).map(|slot| (at, slot));
            confirmed = confirmed.or(oldest);
            let is_last =
                (at == home_bucket && bucket.free_slot().is_none()) || probe >= PROBES_MAX;
            if is_last && confirmed.is_some() {
                break;
            }
            at = self.next_bucket(at);
        }
        if let Some((at, slot)) = confirmed {
            self.remove(at, slot);
        }
    }

    /// Removes the host in an occupied slot.
    fn remove(&mut self, at: usize, slot: usize) {
        let Some(bucket) = self.buckets.get_mut(at) else { return };
        let key = bucket.keys.get(slot).copied().unwrap_or(0);
        self.occupancy.changes.record(key);
        self.occupancy.remove_host(bucket, slot);
        bucket.clear(slot);
        self.leave_overflow(key, at);
    }

    /// Decrements the overflow counts of the buckets between the home of a host and `at`, from which it was removed.
    fn leave_overflow(&mut self, key: u64, at: usize) {
        let home_bucket = self.home_bucket(self.hashed(Key(key)));
        let passed = at.wrapping_sub(home_bucket) & (self.buckets.len() - 1);
        self.adjust_overflow(home_bucket, passed, |overflow| overflow - 1);
    }

    /// Applies `change` to the overflow counts of the `passed` buckets from `home_bucket` on.
    pub(super) fn adjust_overflow(
        &mut self,
        home_bucket: usize,
        passed: usize,
        change: impl Fn(u8) -> u8,
    ) {
        let mut at = home_bucket;
        for _ in 0..passed {
            let next_bucket = self.next_bucket(at);
            if let Some(bucket) = self.buckets.get_mut(at) {
                bucket.overflow = change(bucket.overflow);
            }
            at = next_bucket;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::occupancy::FLOODED_MAX;
    use super::super::tests::{TIMEOUT, check, get, hashed, learn};
    use super::*;

    /// `n` new hosts send to host 0, all in one second.
    fn flood(table: &mut Table, from: u64, n: u64, now: Tick) {
        for n in from..from + n {
            learn(table, n, 1, now);
            table.confirm(hashed(table, 0));
            let _ = table.for_burst(now, TIMEOUT);
        }
    }

    #[test]
    fn a_full_table_evicts_the_oldest_hosts() {
        let mut table = Table::new(1000, 7);
        for n in 0..100_000u32 {
            let now = Tick::try_from(n / 100).unwrap();
            learn(&mut table, n.into(), 1, now);
            assert!(table.len() <= 1000);
        }
        let newest = (99_900..100_000).filter(|&n| get(&mut table, n, 999).is_some());
        assert!(newest.count() > 60, "most of the newest hosts stay");
        let overflow: u32 = table.buckets.iter().map(|bucket| u32::from(bucket.overflow)).sum();
        assert!(overflow < 2000, "the overflow counts stay right");
    }

    #[test]
    fn confirmed_hosts_stay_in_a_full_table() {
        let mut table = Table::new(1000, 7);
        for n in 0..200 {
            learn(&mut table, n, 1, 0);
        }
        for n in 0..100 {
            let hashed = hashed(&table, n);
            table.confirm(hashed);
        }
        for n in 100..200 {
            learn(&mut table, n, 1, 1);
        }
        for n in 1000..50_000 {
            learn(&mut table, n, 1, 2);
        }
        check(&table);
        assert_eq!(table.len(), 1000);
        let stayed = (0..200).filter(|&n| get(&mut table, n, 2).is_some()).count();
        assert!(stayed > 195, "all but those in buckets full of confirmed hosts: {stayed}");
    }

    #[test]
    fn if_all_hosts_are_confirmed_the_oldest_are_evicted() {
        let mut table = Table::new(100, 7);
        for n in 0..1000 {
            learn(&mut table, n, 1, Tick::try_from(n / 100).unwrap());
            let hashed = hashed(&table, n);
            table.confirm(hashed);
            assert!(table.len() <= 100 && get(&mut table, n, 9).is_some());
        }
        check(&table);
        let newest = (900..1000).filter(|&n| get(&mut table, n, 9).is_some());
        assert!(newest.count() > 50);
    }

    #[test]
    fn a_flood_shrinks_the_table_and_evicts_no_confirmed_host() {
        let mut table = Table::new(16_384, 7);
        for n in 0..500 {
            learn(&mut table, n, 2, 0);
            let hashed = hashed(&table, n);
            table.confirm(hashed);
        }
        flood(&mut table, 1000, 30_000, 0);
        assert_eq!((table.len(), table.buckets.len()), (16_384, 8192), "the table is full");
        flood(&mut table, 31_000, 20_000, 0);
        check(&table);
        let max = FLOODED_MAX + 2 * 500;
        assert_eq!((table.len(), table.buckets.len()), (max, 2048));
        let overflow = table.buckets.iter().filter(|bucket| bucket.overflow > 0).count();
        assert!(overflow < 5, "during a flood hosts are evicted, not displaced: {overflow}");
        assert_eq!(table.evicted(), 50_500 - max as u64);
        assert!((0..500).all(|n| get(&mut table, n, 0) == Some(2)));
    }

    #[test]
    fn after_a_flood_the_whole_table_is_used_again() {
        let mut table = Table::new(16_384, 7);
        flood(&mut table, 1000, 50_000, 0);
        assert!(table.len() <= FLOODED_MAX + 2);
        for second in 1..3 {
            table.next_second();
            flood(&mut table, 100_000 * u64::from(second), 4000, second);
        }
        assert!(table.len() > 4000, "the flood ended after the first second");
        table.next_second();
        flood(&mut table, 300_000, 12_000, 3);
        let found = (300_000..312_000).filter(|&n| get(&mut table, n, 3).is_some()).count();
        assert!(found > 11_000, "{found}");
        check(&table);
    }

    #[test]
    fn expired_hosts_are_not_found_and_swept_later() {
        let mut table = Table::new(1000, 7);
        learn(&mut table, 1, 1, 65_500);
        assert_eq!(get(&mut table, 1, 264), Some(1), "ticks wrap around");
        assert_eq!(get(&mut table, 1, 265), None);
        for part in 0..16 {
            table.sweep(part, 16, 265, TIMEOUT);
        }
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_flapping_port_clears_the_table_rather_than_scan_it_too_often() {
        let mut table = Table::new(131_072, 7);
        for n in 0..100_000u32 {
            learn(&mut table, n.into(), n % 100, 0);
        }
        for _ in 0..SCANNED_MAX / table.buckets.len() {
            table.remove_port(PortNo(1));
            assert_eq!((table.len(), get(&mut table, 2, 0)), (99_000, Some(2)));
        }
        table.remove_port(PortNo(1));
        assert_eq!((table.len(), table.buckets.len()), (0, BUCKETS_MIN));
        learn(&mut table, 2, 2, 1);
        table.next_second();
        table.remove_port(PortNo(1));
        assert_eq!(get(&mut table, 2, 1), Some(2), "in the next second the table is scanned again");
    }

    /// Addresses with the same home bucket cost no more than a bounded search.
    #[test]
    fn addresses_with_the_same_home_bucket_do_not_fill_the_table() {
        let mut table = Table::new(100_000, 1);
        // All hashes are zero.
        table.factor = 0;
        for n in 0..10_000 {
            learn(&mut table, n, 1, 0);
        }
        assert!(table.len() <= PROBES_MAX * SLOTS);
    }
}
