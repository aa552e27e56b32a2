//! Buckets of the hash table: each is one cache line and holds up to four hosts.

use sluice_base::folded_multiply;
use sluice_openflow::VlanId;

/// Hosts per bucket.
pub(super) const SLOTS: usize = 4;

/// Index of the last slot; slot indices wrap around at it.
const SLOT_LAST: u32 = 3;

/// Buckets that a search or an insertion visits at most. Bounds the cost of addresses that are crafted to collide.
pub(super) const PROBES_MAX: usize = 32;

/// Seconds since the application started; wraps around.
pub(crate) type Tick = u16;

/// A host as one number: its address, a bit that is always set, and its VLAN. Never zero, which marks an empty slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(super) u64);

impl Key {
    /// The key of the host with the address `bits` (shifted left by 16 bits) in `vlan`.
    #[inline]
    pub(crate) fn new(bits: u64, vlan: VlanId) -> Self {
        Self(bits | 0x1000 | u64::from(vlan.0))
    }

    /// Whether the address is a group address.
    #[inline]
    pub(super) const fn is_group(self) -> bool {
        // The first byte of an address is stored in the lowest bits.
        self.0 & 0x1_0000 != 0
    }
}

/// A key and its hash, which determines the home bucket of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashedKey {
    pub(super) key: u64,
    pub(super) hash: u64,
}

impl HashedKey {
    #[inline]
    pub(super) fn new(key: Key, factor: u64) -> Self {
        // Two multiplications: for some factors, one alone maps consecutive addresses to consecutive buckets.
        Self::with_hash(key, folded_multiply(key.0, factor).wrapping_mul(factor))
    }

    /// A key whose hash is known already.
    #[inline]
    pub(super) const fn with_hash(key: Key, hash: u64) -> Self {
        Self { key: key.0, hash }
    }

    #[inline]
    pub(super) const fn key(self) -> Key {
        Key(self.key)
    }

    /// Index of the home bucket in a table of `buckets` buckets, a power of two.
    #[inline]
    pub(super) fn home_bucket(self, buckets: usize) -> usize {
        (self.hash >> 32) as usize & (buckets - 1)
    }
}

/// One host of a bucket, as [`HostBucket::hosts`] returns it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LearnedHost {
    pub(super) key: u64,
    pub(super) port: u32,
    pub(super) seen: Tick,
    pub(super) is_confirmed: bool,
}

/// Four hosts in one cache line of 64 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct HostBucket {
    pub(super) keys: [u64; SLOTS],
    pub(super) ports: [u32; SLOTS],
    pub(super) seen: [Tick; SLOTS],
    /// Number of hosts whose home is this bucket or an earlier one, and which are stored in a later one.
    pub(super) overflow: u8,
    /// Bit mask of the slots that hold a host.
    occupied: u8,
    /// Bit mask of the confirmed hosts: a new host has sent to them, or they were seen again in a later second.
    confirmed: u8,
    /// Bit mask of the displaced hosts: their home is an earlier bucket.
    displaced: u8,
    /// Slot from which the search for the next host to evict starts.
    next_victim: u32,
}

const _: () = assert!(size_of::<HostBucket>() == 64 && SLOTS == SLOT_LAST as usize + 1);
const _: () = assert!(PROBES_MAX * SLOTS <= u8::MAX as usize);

pub(super) const EMPTY_BUCKET: HostBucket = HostBucket {
    keys: [0; SLOTS],
    ports: [0; SLOTS],
    seen: [0; SLOTS],
    overflow: 0,
    occupied: 0,
    confirmed: 0,
    displaced: 0,
    next_victim: 0,
};

impl HostBucket {
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&k| k == key)
    }

    /// Stores a new host in a slot, which may be occupied. The host is unconfirmed and not displaced.
    #[inline]
    pub(super) fn insert(&mut self, slot: usize, key: u64, port: u32, seen: Tick) {
        self.occupied |= 1 << slot;
        self.confirmed &= !(1 << slot);
        self.displaced &= !(1 << slot);
        self.overwrite(slot, key, port, seen);
    }

    /// Stores a new host in the slot of another that was unconfirmed and not displaced either.
    #[inline]
    pub(super) fn overwrite(&mut self, slot: usize, key: u64, port: u32, seen: Tick) {
        set(&mut self.keys, slot, key);
        set(&mut self.ports, slot, port);
        set(&mut self.seen, slot, seen);
    }

    /// Empties a slot.
    pub(super) fn clear(&mut self, slot: usize) {
        self.insert(slot, 0, 0, 0);
        self.occupied &= !(1 << slot);
    }

    /// Marks the host in a slot as confirmed.
    #[inline]
    pub(super) const fn confirm(&mut self, slot: usize) {
        self.confirmed |= 1 << slot;
    }

    /// Whether the host in a slot is confirmed.
    #[inline]
    pub(super) const fn is_confirmed(&self, slot: usize) -> bool {
        self.confirmed & (1 << slot) != 0
    }

    /// Marks the host in a slot as displaced.
    pub(super) const fn mark_displaced(&mut self, slot: usize) {
        self.displaced |= 1 << slot;
    }

    /// The first empty slot.
    #[inline]
    pub(super) const fn free_slot(&self) -> Option<usize> {
        let slot = (!self.occupied).trailing_zeros() as usize;
        if slot < SLOTS { Some(slot) } else { None }
    }

    /// The slot of the unconfirmed host to evict next, which is the oldest.
    pub(super) fn victim(&mut self) -> Option<usize> {
        self.pick(self.occupied & !self.confirmed)
    }

    /// Like [`victim`](Self::victim), but never a displaced host.
    #[inline]
    pub(super) fn victim_at_home(&mut self) -> Option<usize> {
        self.pick(self.occupied & !self.confirmed & !self.displaced)
    }

    /// Chooses among the slots of the mask `candidates`, in turn. New hosts take the slots in turn too, so that the
    /// oldest is chosen.
    #[inline]
    fn pick(&mut self, candidates: u8) -> Option<usize> {
        if candidates == 0 {
            return None;
        }
        // The mask twice in a row, so that the search wraps around.
        let twice = (u32::from(candidates) | u32::from(candidates) << SLOTS) >> self.next_victim;
        let slot = (twice.trailing_zeros() + self.next_victim) & SLOT_LAST;
        self.next_victim = (slot + 1) & SLOT_LAST;
        Some(slot as usize)
    }

    /// The slot of the host that has not been seen for longest.
    pub(super) fn oldest(&self, now: Tick) -> Option<usize> {
        let occupied = (0..SLOTS).filter(|slot| self.occupied & (1 << slot) != 0);
        occupied.max_by_key(|&slot| self.seen.get(slot).map_or(0, |&seen| now.wrapping_sub(seen)))
    }

    /// The hosts of the bucket.
    pub(super) fn hosts(&self) -> impl Iterator<Item = LearnedHost> {
        let entries = self.keys.into_iter().zip(self.ports).zip(self.seen).enumerate();
        let hosts = entries.map(|(slot, ((key, port), seen))| LearnedHost {
            key,
            port,
            seen,
            is_confirmed: self.is_confirmed(slot),
        });
        hosts.filter(|host| host.key != 0)
    }
}

/// Finds a host: its bucket and its slot.
#[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
#[inline(always)]
pub(super) fn find(
    buckets: &mut [HostBucket],
    hashed: HashedKey,
) -> Option<(&mut HostBucket, usize)> {
    let at = home_bucket(buckets, hashed);
    let keys = &buckets.get(at)?.keys;
    // All slots are equally likely: a branch for each would often be mispredicted.
    let [_, one, two, three] = keys.map(|key| usize::from(key == hashed.key));
    let slot = one | (two * 2) | (three * 3);
    if *keys.get(slot)? == hashed.key {
        return Some((buckets.get_mut(at)?, slot));
    }
    if buckets.get(at)?.overflow == 0 {
        return None;
    }
    let (at, slot) = find_displaced(buckets, hashed)?;
    Some((buckets.get_mut(at)?, slot % SLOTS))
}

/// Finds a host that is not in its home bucket: the indices of its bucket and its slot.
#[cold]
fn find_displaced(buckets: &[HostBucket], hashed: HashedKey) -> Option<(usize, usize)> {
    let mut at = home_bucket(buckets, hashed);
    for _ in 1..PROBES_MAX {
        if buckets.get(at)?.overflow == 0 {
            return None;
        }
        at = next_bucket(buckets, at);
        if let Some(slot) = buckets.get(at)?.find(hashed.key) {
            return Some((at, slot));
        }
    }
    None
}

/// Index of the home bucket of a host.
#[inline]
pub(super) fn home_bucket(buckets: &[HostBucket], hashed: HashedKey) -> usize {
    hashed.home_bucket(buckets.len())
}

#[inline]
pub(super) fn next_bucket(buckets: &[HostBucket], bucket: usize) -> usize {
    (bucket + 1) & (buckets.len() - 1)
}

#[inline]
fn set<T>(values: &mut [T; SLOTS], slot: usize, value: T) {
    if let Some(old) = values.get_mut(slot) {
        *old = value;
    }
}

/// Checks that every host can be found and that masks and overflow counts are right. Returns the numbers of hosts and
/// of confirmed hosts.
#[cfg(test)]
pub(super) fn audit(buckets: &[HostBucket], factor: u64) -> (usize, usize) {
    let mut overflows = vec![0; buckets.len()];
    let mut counted = (0, 0);
    for (at, bucket) in buckets.iter().enumerate() {
        for slot in 0..SLOTS {
            let (bit, key) = (1 << slot, bucket.keys[slot]);
            assert_eq!(bucket.occupied & bit != 0, key != 0);
            if key == 0 {
                assert_eq!((bucket.confirmed | bucket.displaced) & bit, 0);
                continue;
            }
            counted.0 += 1;
            counted.1 += usize::from(bucket.is_confirmed(slot));
            let hashed = HashedKey::new(Key(key), factor);
            let mut passed = home_bucket(buckets, hashed);
            assert!(passed == at || find_displaced(buckets, hashed) == Some((at, slot)));
            assert_eq!(bucket.displaced & bit != 0, passed != at);
            while passed != at {
                overflows[passed] += 1;
                passed = next_bucket(buckets, passed);
            }
        }
    }
    assert!(buckets.iter().map(|bucket| bucket.overflow).eq(overflows));
    counted
}
