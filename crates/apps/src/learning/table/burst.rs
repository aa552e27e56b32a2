//! The table during a burst of packet-ins: lookups and insertions that never resize it.

use prefetch_index::prefetch_index;
use sluice_openflow::{EthHeader, PortNo, VlanId};

use super::bucket::{HashedKey, HostBucket, Key, Tick, find, home_bucket};
use super::occupancy::Occupancy;

/// Hashes of the source and the destination of a frame.
pub(crate) type HostHashes = [u64; 2];

/// The table during a burst of packet-ins. Its buckets do not move, so that their address stays in registers.
#[derive(Debug)]
pub(crate) struct BurstTable<'a> {
    pub(super) buckets: &'a mut [HostBucket],
    pub(super) factor: u64,
    pub(super) now: Tick,
    pub(super) timeout: Tick,
    pub(super) occupancy: &'a mut Occupancy,
}

impl BurstTable<'_> {
    /// The output port for a frame that came in at `port`, if its source is new or still at that port, and its
    /// destination is known and at another port. `None` for all other frames, whose source may have been learned
    /// nevertheless. The result does not depend on `FLOODED`, which optimizes for new sources instead of known ones, and for tables
    /// whose changes nobody wants to know.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn route<const FLOODED: bool>(
        &mut self,
        [src_hash, dst_hash]: HostHashes,
        eth: &EthHeader,
        port: PortNo,
    ) -> Option<PortNo> {
        // Group addresses are never learned, so they are not found.
        let [src, dst] = host_keys(eth);
        let (src, dst) = (HashedKey::with_hash(src, src_hash), HashedKey::with_hash(dst, dst_hash));
        let Some((bucket, slot)) = find(self.buckets, src) else {
            if FLOODED {
                return self.route_new_source::<false>(src, dst, port);
            }
            // By value: through a reference, the fields would be loaded again for every frame.
            return self.reborrow().route_new_source_outlined(src, dst.key(), port);
        };
        if *bucket.ports.get(slot)? != port.0 {
            return None;
        }
        // An unmodified bucket stays clean in the caches.
        if *bucket.seen.get(slot)? != self.now {
            self.occupancy.refresh(bucket, slot, self.now);
        }
        let (bucket, slot) = find(self.buckets, dst)?;
        let (to, seen) = (PortNo(*bucket.ports.get(slot)?), *bucket.seen.get(slot)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    #[inline]
    fn reborrow(&mut self) -> BurstTable<'_> {
        let Self { factor, now, timeout, .. } = *self;
        BurstTable { buckets: self.buckets, factor, now, timeout, occupancy: self.occupancy }
    }

    /// [`route_new_source`](Self::route_new_source) as a function of its own, outside of the loop for known sources.
    #[inline(never)]
    fn route_new_source_outlined(
        mut self,
        src: HashedKey,
        dst: Key,
        port: PortNo,
    ) -> Option<PortNo> {
        let dst = HashedKey::new(dst, self.factor);
        self.route_new_source::<true>(src, dst, port)
    }

    /// [`route`](Self::route) for a source that is not in the table, if its home bucket has a slot for it.
    #[expect(clippy::inline_always, reason = "lab/throughput: a call costs a seventh")]
    #[inline(always)]
    fn route_new_source<const RECORDS: bool>(
        &mut self,
        src: HashedKey,
        dst: HashedKey,
        port: PortNo,
    ) -> Option<PortNo> {
        if src.key().is_group() || dst.key().is_group() {
            return None;
        }
        debug_assert!(RECORDS || !self.occupancy.changes.are_wanted(), "nobody wants changes");
        insert_at_home::<RECORDS>(self.buckets, self.occupancy, src, port.0, self.now)?;
        let (bucket, slot) = find(self.buckets, dst)?;
        if !bucket.is_confirmed(slot) {
            self.occupancy.confirm(bucket, slot);
        }
        let (to, seen) = (PortNo(*bucket.ports.get(slot)?), *bucket.seen.get(slot)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    /// Hashes the addresses of a frame for [`route`](Self::route).
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn hash(&self, eth: &EthHeader) -> HostHashes {
        self.hashed_keys(eth).map(|hashed| hashed.hash)
    }

    /// Like [`hash`](Self::hash); also prefetches the buckets of both hosts.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn hash_and_prefetch(&self, eth: &EthHeader) -> HostHashes {
        self.hashed_keys(eth).map(|hashed| {
            prefetch_index(&*self.buckets, home_bucket(self.buckets, hashed));
            hashed.hash
        })
    }

    #[inline]
    fn hashed_keys(&self, eth: &EthHeader) -> [HashedKey; 2] {
        host_keys(eth).map(|key| HashedKey::new(key, self.factor))
    }
}

/// Keys of the source and the destination of an untagged frame.
#[inline]
fn host_keys(eth: &EthHeader) -> [Key; 2] {
    [eth.src_bits(), eth.dst_bits()].map(|bits| Key::new(bits, VlanId(0)))
}

/// Inserts a host that is not in the table into its home bucket, if that has a slot for it. `None` if not. Changes are recorded if they
/// are wanted and `RECORDS`; a loop for tables of which nobody wants to know changes saves the check.
#[expect(clippy::inline_always, reason = "lab/throughput: a call costs a seventh")]
#[inline(always)]
pub(super) fn insert_at_home<const RECORDS: bool>(
    buckets: &mut [HostBucket],
    occupancy: &mut Occupancy,
    hashed: HashedKey,
    port: u32,
    now: Tick,
) -> Option<()> {
    let len = buckets.len();
    let bucket = buckets.get_mut(hashed.home_bucket(len))?;
    let free_slot = if occupancy.is_full() { None } else { bucket.free_slot() };
    if let Some(slot) = free_slot {
        if !occupancy.has_room(len) {
            return None;
        }
        occupancy.add_host();
        if RECORDS {
            occupancy.changes.record(hashed.key);
        }
        bucket.insert(slot, hashed.key, port, now);
    } else if occupancy.is_full() || occupancy.is_flooded() {
        // Displaced hosts are counted by the buckets before, so they stay. During a flood a host is evicted rather
        // than one more displaced, so that searches end in the home bucket.
        let slot = bucket.victim_at_home()?;
        occupancy.evict_host();
        if RECORDS && occupancy.changes.are_wanted() {
            occupancy.changes.record_replaced(bucket, slot, hashed.key);
        }
        bucket.overwrite(slot, hashed.key, port, now);
    } else {
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {

    use sluice_base::{HashMap, Rng};
    use sluice_openflow::{Ethernet, MacAddr};

    use super::super::tests::{TIMEOUT, check};
    use super::super::{HostChange, Table};
    use super::*;

    fn header(dst: u64, src: u64) -> EthHeader {
        let bytes = [dst, src].map(|n| MacAddr::from_u64(n).0).concat();
        *Ethernet::new(&[&bytes[..], &[8, 0]].concat()).unwrap().header
    }

    fn hashed(table: &Table, n: u64) -> HashedKey {
        table.hashed(Key::new(header(0, n).src_bits(), VlanId(0)))
    }

    fn route(table: &mut Table, dst: u64, src: u64, port: u32, now: Tick) -> Option<u32> {
        let mut table = table.for_burst(now, TIMEOUT);
        let eth = header(dst, src);
        let hashes = table.hash(&eth);
        if src.is_multiple_of(4) {
            table.route::<true>(hashes, &eth, PortNo(port)).map(|port| port.0)
        } else {
            table.route::<false>(hashes, &eth, PortNo(port)).map(|port| port.0)
        }
    }

    #[test]
    fn routes_between_known_hosts_at_different_ports_only() {
        let mut table = Table::new(1000, 7);
        for n in 1..=500u32 {
            let hashed = hashed(&table, n.into());
            table.learn(hashed, PortNo(n % 4), 100);
        }
        let mut route = |dst, src, port, now| route(&mut table, dst, src, port, now);
        for n in 1..500u32 {
            assert_eq!(route(n.into(), u64::from(n) + 1, (n + 1) % 4, 100), Some(n % 4), "{n}");
        }
        assert_eq!(route(1, 2, 3, 100), None, "source moved");
        assert_eq!(route(5, 1, 1, 100), None, "same port");
        assert_eq!(route(501, 1, 1, 100), None, "unknown destination");
        assert_eq!(route(2, 1, 1, 401), None, "destination expired");
        assert_eq!(route(1, 2, 2, 401), Some(1), "destination seen again just before");
    }

    #[test]
    fn new_sources_are_learned_but_group_addresses_are_not() {
        const GROUP: u64 = 1 << 40;
        let mut table = Table::new(1000, 7);
        let expected = hashed(&table, 1);
        table.learn(expected, PortNo(1), 0);
        assert_eq!(route(&mut table, 1, 2, 2, 0), Some(1));
        assert_eq!(route(&mut table, 2, 1, 1, 0), Some(2), "the reply");
        assert_eq!(route(&mut table, 4, 3, 3, 0), None);
        assert_eq!(
            route(&mut table, 3, 1, 1, 0),
            Some(3),
            "the source of an unrouted frame is learned"
        );
        assert_eq!(route(&mut table, 1, GROUP | 9, 2, 0), None);
        assert_eq!(route(&mut table, GROUP | 9, 5, 2, 0), None);
        assert_eq!(table.len(), 3);
        check(&table);
    }

    /// As the bridge does it: first `BurstTable::route`, then `Table::learn` and `Table::get`. Hosts appear, move and
    /// evict each other; a host that is found is at the port where it was last seen.
    #[test]
    fn burst_and_general_lookups_agree_with_a_map_under_random_use() {
        for (max, hosts) in [(10_000, 3000), (10_000, 100), (300, 3000), (40, 50)] {
            let mut rng = Rng::new(42);
            let (mut table, mut map) = (Table::new(max, rng.next_u64()), HashMap::default());
            let (mut routed, mut moved) = (0, 0);
            for step in 0..100_000u32 {
                let now = Tick::try_from(step / 5000).unwrap();
                let [src, dst] = [0; 2].map(|_| u64::from(rng.below(hosts)) * 2);
                let old_port = map.get(&src).copied();
                let port = old_port.filter(|_| rng.below(10) > 0).unwrap_or_else(|| rng.below(8));
                map.insert(src, port);
                let mut to = route(&mut table, dst, src, port, now);
                routed += u32::from(to.is_some());
                if to.is_none() {
                    let [src, dst] = [src, dst].map(|n| hashed(&table, n));
                    let change = table.learn(src, PortNo(port), now);
                    if let HostChange::Moved(from) = change {
                        assert_eq!(Some(from.0), old_port, "step {step}");
                        moved += 1;
                    }
                    to = table.get(dst, now, TIMEOUT).map(|port| port.0);
                } else {
                    assert_ne!(to, Some(port), "step {step}");
                }
                let all_fit = max > usize::try_from(hosts).unwrap();
                let expected = map.get(&dst).copied();
                assert!(
                    to == expected || (to.is_none() && !all_fit),
                    "step {step}: {to:?} {expected:?}"
                );
                assert!(table.len() <= max && (!all_fit || table.len() == map.len()));
                if rng.below(5000) == 0 {
                    table.remove_port(PortNo(port));
                    map.retain(|_, &mut at| at != port);
                    check(&table);
                }
            }
            check(&table);
            assert!(routed > 1000 && moved > 500, "{max} {hosts}: {routed} {moved}");
        }
    }
}
