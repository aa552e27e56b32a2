//! The hosts that one worker has published: a part of the map `hosts`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hosts of a bucket, which has 64 bytes.
const HOSTS: usize = 4;

/// Numbers of a host: the key, then port and tick.
const WORDS: usize = 2;

/// Numbers of a bucket.
pub(crate) const BUCKET_WORDS: usize = HOSTS * WORDS;

/// Which half of a number is first in memory.
const IS_LITTLE_ENDIAN: bool = cfg!(target_endian = "little");

/// How a key is hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash {
    /// Secret and odd, so that nobody can choose addresses that collide.
    pub(crate) factor: u64,
    /// Bits of the result, which is the number of a bucket.
    pub(crate) bits: u32,
}

impl Hash {
    fn bucket(self, key: u64) -> usize {
        let index = key.wrapping_mul(self.factor) >> (64 - self.bits);
        usize::try_from(index).unwrap_or(0)
    }

    /// The place of a pair of hosts, of which there are 2 to the power of `bits`. The lower address is first.
    pub(crate) fn pair(self, [low, high]: [u64; 2], bits: u32) -> usize {
        let mixed = |hash: u64| hash ^ hash >> 32;
        let hash = mixed(low.wrapping_mul(self.factor)).wrapping_add(high);
        let hash = mixed(hash.wrapping_mul(self.factor)).wrapping_mul(self.factor);
        usize::try_from(hash >> (64 - bits)).unwrap_or(0)
    }
}

/// Hash of the hosts of one worker, which is the only one that changes it. A host is in the bucket of its hash or in the other bucket of
/// the same pair; if both are full, it is not published.
#[derive(Debug)]
pub(crate) struct HostTable<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) hash: Hash,
}

/// What has become of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    Added,
    Updated,
    NoRoom,
}

/// A host of a session, as the program looks it up.
pub(crate) fn key(slot: u16, mac: [u8; 6]) -> u64 {
    mac.iter().fold(slot.into(), |key, &byte| key << 8 | u64::from(byte))
}

impl<'a> HostTable<'a> {
    /// Publishes that a host is at `port` and was seen at `tick`. A new one needs room, and `may_add`.
    pub(crate) fn publish(&self, key: u64, port: u32, tick: u16, may_add: bool) -> Published {
        let value = pack(port, tick);
        if let Some([_, old]) = self.find(key) {
            // The program may have seen it since.
            let [known_port, seen] = unpack(old.load(Ordering::Relaxed));
            if known_port != port || is_later(tick, seen) {
                old.store(value, Ordering::Relaxed);
            }
            return Published::Updated;
        }
        let Some([free, free_value]) = self.free(key).filter(|_| may_add) else {
            return Published::NoRoom;
        };
        free_value.store(value, Ordering::Relaxed);
        free.store(key, Ordering::Release);
        Published::Added
    }

    /// Withdraws a host. Returns whether it was published.
    pub(crate) fn withdraw(&self, key: u64) -> bool {
        let entry = self.find(key);
        entry.inspect(|[found, _]| found.store(0, Ordering::Relaxed)).is_some()
    }

    /// Withdraws all hosts of these sessions.
    pub(crate) fn withdraw_slots(&self, slots: &[u16]) {
        let slots: BTreeSet<u64> = slots.iter().map(|&slot| slot.into()).collect();
        for found in self.words.iter().step_by(WORDS) {
            let key = found.load(Ordering::Relaxed);
            if key != 0 && slots.contains(&(key >> 48)) {
                found.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Calls `each` with slot, address and tick of the hosts that were seen at `tick` or later.
    pub(crate) fn for_each_seen(&self, tick: u16, mut each: impl FnMut(u16, [u8; 6], u16)) {
        for pair in self.words.chunks_exact(WORDS) {
            let [found, value] = pair else { continue };
            let key = found.load(Ordering::Relaxed);
            let [_, seen] = unpack(value.load(Ordering::Relaxed));
            if key != 0 && !is_later(tick, seen) {
                let seen = to_tick(seen);
                let mac = key.to_be_bytes().last_chunk().copied().unwrap_or_default();
                each(u16::try_from(key >> 48).unwrap_or(0), mac, seen);
            }
        }
    }

    /// Number of hosts for which there is room.
    pub(crate) fn places(&self) -> usize {
        self.words.len() / WORDS
    }

    fn free(&self, key: u64) -> Option<[&'a AtomicU64; 2]> {
        self.entries(key).find(|[entry, _]| entry.load(Ordering::Relaxed) == 0)
    }

    fn find(&self, key: u64) -> Option<[&'a AtomicU64; 2]> {
        self.entries(key).find(|[entry, _]| entry.load(Ordering::Relaxed) == key)
    }

    /// The places where a host may be.
    fn entries(&self, key: u64) -> impl Iterator<Item = [&'a AtomicU64; 2]> {
        let home = self.hash.bucket(key);
        [home, home ^ 1].into_iter().flat_map(|bucket| {
            let start = bucket * BUCKET_WORDS;
            let bucket = self.words.get(start..start + BUCKET_WORDS).unwrap_or_default();
            bucket.chunks_exact(WORDS).filter_map(|pair| match pair {
                [key, value] => Some([key, value]),
                _ => None,
            })
        })
    }
}

/// Port and tick, as the program has them in two numbers of 32 bits.
fn pack(port: u32, tick: u16) -> u64 {
    let (port, tick) = (u64::from(port), u64::from(tick));
    if IS_LITTLE_ENDIAN { tick << 32 | port } else { port << 32 | tick }
}

/// Port and tick.
fn unpack(value: u64) -> [u32; 2] {
    let (low, high) = (value & u64::from(u32::MAX), value >> 32);
    let numbers = if IS_LITTLE_ENDIAN { [low, high] } else { [high, low] };
    numbers.map(|number| u32::try_from(number).unwrap_or(0))
}

#[expect(clippy::cast_possible_truncation, reason = "ticks have 16 bits")]
fn to_tick(seen: u32) -> u16 {
    seen as u16
}

/// Whether `tick` is later than `seen`; ticks wrap around.
fn is_later(tick: u16, seen: u32) -> bool {
    let ahead = tick.wrapping_sub(to_tick(seen));
    ahead != 0 && ahead <= u16::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tick at which a published host was last seen.
    fn last_seen(table: &HostTable<'_>, key: u64) -> Option<u16> {
        let [_, value] = table.find(key)?;
        let [_, seen] = unpack(value.load(Ordering::Relaxed));
        Some(to_tick(seen))
    }

    fn words(bits: u32) -> Vec<AtomicU64> {
        (0..BUCKET_WORDS << bits).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn hosts_are_found_until_they_are_withdrawn_and_sessions_are_apart() {
        let words = words(10);
        let table =
            HostTable { words: &words, hash: Hash { factor: 0x9e37_79b9_7f4a_7c15, bits: 10 } };
        let mac = |n: u16| {
            let [high, low] = n.to_be_bytes();
            [2, 0, 0, 0, high, low]
        };
        for n in 0..1000 {
            assert_eq!(table.publish(key(1, mac(n)), u32::from(n) + 1, n, true), Published::Added);
        }
        for n in 0..1000 {
            assert_eq!(last_seen(&table, key(1, mac(n))), Some(n));
            assert_eq!(last_seen(&table, key(2, mac(n))), None);
        }
        assert_eq!(table.publish(key(1, mac(5)), 6, 3, false), Published::Updated);
        assert_eq!(last_seen(&table, key(1, mac(5))), Some(5), "it was seen later at this port");
        assert_eq!(table.publish(key(1, mac(5)), 6, 9, false), Published::Updated);
        assert_eq!(last_seen(&table, key(1, mac(5))), Some(9));
        assert_eq!(table.publish(key(1, mac(5)), 7, 2, false), Published::Updated);
        assert_eq!(last_seen(&table, key(1, mac(5))), Some(2), "at another port");
        assert!(table.withdraw(key(1, mac(5))));
        assert!(!table.withdraw(key(1, mac(5))));
        assert_eq!(table.publish(key(1, mac(5)), 7, 2, false), Published::NoRoom);
        assert_eq!(last_seen(&table, key(1, mac(5))), None);
        assert_eq!(last_seen(&table, key(1, mac(6))), Some(6));
    }

    #[test]
    fn a_full_pair_of_buckets_takes_no_more_and_keeps_what_it_has() {
        let words = words(1);
        let table = HostTable { words: &words, hash: Hash { factor: 1, bits: 1 } };
        let publish = |n: u8| table.publish(key(1, [0, 0, 0, 0, 0, n]), 1, 0, true);
        let published = (1..=20).filter(|&n| publish(n) == Published::Added);
        assert_eq!(published.count(), 2 * HOSTS);
        assert_eq!(table.places(), 2 * HOSTS);
        assert_eq!(last_seen(&table, key(1, [0, 0, 0, 0, 0, 1])), Some(0));
        table.withdraw(key(1, [0, 0, 0, 0, 0, 1]));
        assert_eq!(publish(20), Published::Added);
    }
}
