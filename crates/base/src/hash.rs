//! Hash maps that behave the same in every run, unless the process sets a random seed.
//!
//! Keys of maps come from the network: addresses, datapath ids, ports. A peer that knows how they are hashed can choose keys
//! that all collide, so that each lookup takes as long as the map is large (hash flooding). The standard library therefore
//! hashes with random keys that differ from map to map, so that no run of a simulation can be repeated: the order in which a
//! map is iterated differs.
//!
//! Here, all maps of a process share one seed. A program that serves remote peers calls [`set_seed`] with random bits before it
//! makes the first map; a test or a simulation does not, and is repeated exactly. One seed for all maps suffices: without
//! the seed, colliding keys can only be found by trying, and peers see neither hashes nor the layout of a map. The hash is
//! not cryptographic: the keys of the maps can be computed from many hash values. So a value that peers receive is never made
//! with these keys, but with a secret from [`derive_secret`].

#![expect(clippy::disallowed_types, reason = "the aliases name the maps of the standard library")]

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::folded_multiply;

/// A hash map with the seed of this process. `default()` makes an empty one.
pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;

/// A hash set with the seed of this process. `default()` makes an empty one.
pub type HashSet<T> = std::collections::HashSet<T, HashState>;

/// The seed of a process that sets none; any number will do.
const DEFAULT_SEED: u128 = 0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344;

static SEED: OnceLock<u128> = OnceLock::new();

static STATE: OnceLock<HashState> = OnceLock::new();

/// Sets the seed of all maps and secrets of this process. Returns `false` if there was a seed already, because this was
/// called before or a map was made: nothing changes then.
///
/// Only a binary calls this, at the start of `main`, with bits that no peer can know.
#[must_use]
pub fn set_seed(seed: u128) -> bool {
    SEED.set(seed).is_ok()
}

/// A number derived from the seed of this process and `purpose`, by `SipHash`. A peer that knows some of these numbers cannot
/// compute others. The same seed and purpose give the same number.
pub fn derive_secret(purpose: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    SEED.get_or_init(|| DEFAULT_SEED).hash(&mut hasher);
    purpose.hash(&mut hasher);
    hasher.finish()
}

/// Makes the hashers of maps. The default one uses the seed of this process.
#[derive(Clone, Copy)]
pub struct HashState {
    start: u64,
    /// Odd, so that multiplication by them loses nothing.
    factors: [u64; 2],
}

impl HashState {
    fn new(secret: impl Fn(&'static str) -> u64) -> Self {
        Self {
            start: secret("start of hashes"),
            factors: ["first factor", "second factor"].map(|name| secret(name) | 1),
        }
    }
}

impl Default for HashState {
    fn default() -> Self {
        *STATE.get_or_init(|| Self::new(derive_secret))
    }
}

/// Does not show the keys.
impl std::fmt::Debug for HashState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashState")
    }
}

impl BuildHasher for HashState {
    type Hasher = WordHasher;

    #[inline]
    fn build_hasher(&self) -> WordHasher {
        WordHasher { state: self.start, factors: self.factors }
    }
}

/// Hashes words of 64 bits with one [`folded_multiply`] each, and one at the end.
#[derive(Clone)]
pub struct WordHasher {
    state: u64,
    factors: [u64; 2],
}

/// Does not show the keys.
impl std::fmt::Debug for WordHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WordHasher")
    }
}

impl Hasher for WordHasher {
    /// The second multiplication is needed because the halves of the first product may differ little if the keys do, while
    /// a map uses the lowest bits and the highest seven.
    #[inline]
    fn finish(&self) -> u64 {
        let [_, factor] = self.factors;
        folded_multiply(self.state, factor)
    }

    /// Adds the bytes in words of eight. The last word holds the remaining up to seven bytes, and their number.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let last =
            rest.iter().rev().fold(rest.len() as u64, |word, &byte| word << 8 | u64::from(byte));
        self.write_u64(last);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let [factor, _] = self.factors;
        self.state = folded_multiply(self.state ^ number, factor);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let [low, high] = [number as u64, (number >> 64) as u64];
        self.write_u64(low);
        self.write_u64(high);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "keys of few bits are wanted")]
mod tests {
    use super::*;

    /// Keys are distributed to as many buckets as there are keys, on average.
    const BUCKETS: usize = 1 << 14;

    fn state(seed: u64) -> HashState {
        HashState::new(|name| {
            let mut hasher = DefaultHasher::new();
            (seed, name).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Checks that hashes of 2¹⁴ keys are as evenly distributed as random numbers: over the buckets that a map chooses by the
    /// lowest bits, and over the tags of seven highest bits by which it compares.
    fn check_distribution<K: Hash>(name: &str, key: impl Fn(u64) -> K) {
        for seed in 0..16 {
            let state = state(seed);
            let hashes: Vec<_> = (0..BUCKETS as u64).map(|n| state.hash_one(key(n))).collect();
            let (mut buckets, mut tags) = (vec![0_u32; BUCKETS], vec![0_u32; 128]);
            for hash in &hashes {
                buckets[*hash as usize % BUCKETS] += 1;
                tags[(hash >> 57) as usize] += 1;
            }
            // Random numbers leave 37 % of the buckets empty, put at most 9 keys into one, and have 128 ± 12 keys with a tag.
            let empty = buckets.iter().filter(|&&n| n == 0).count();
            let fullest = buckets.iter().max().unwrap();
            assert!(empty * 100 < BUCKETS * 42, "{name}, seed {seed}: {empty} empty buckets");
            assert!(*fullest <= 16, "{name}, seed {seed}: {fullest} keys in a bucket");
            let tags = [tags.iter().min().unwrap(), tags.iter().max().unwrap()];
            assert!(*tags[0] >= 50 && *tags[1] <= 230, "{name}, seed {seed}: {tags:?} of a tag");
            let mut distinct = hashes;
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), BUCKETS, "{name}, seed {seed}: equal hashes");
        }
    }

    #[test]
    fn keys_that_differ_little_are_distributed_evenly_over_buckets_and_tags() {
        let [.., a, b] = 0_u64.to_be_bytes();
        let mac = |n: u64, at: usize| {
            let mut mac = [2, 0, 0, 0, a, b];
            mac[at] = n as u8;
            mac[at + 1] = (n >> 8) as u8;
            mac
        };
        check_distribution("u64", |n| n);
        check_distribution("u64 with low bits zero", |n| n << 16);
        check_distribution("u64 with high bits only", |n| n << 50);
        check_distribution("u32", |n| n as u32);
        check_distribution("u16", |n| n as u16);
        check_distribution("u128", |n| u128::from(n) << 64);
        check_distribution("address, last bytes", |n| mac(n, 4));
        check_distribution("address, first bytes", |n| mac(n, 0));
        check_distribution("address and VLAN", |n| (mac(n >> 4, 4), n as u16 & 0xf));
        check_distribution("datapath id and port", |n| (n >> 7, n as u32 & 0x7f));
        check_distribution("pair of u32", |n| (n as u32 & 0x7f, (n >> 7) as u32));
        check_distribution("text", |n| format!("s{n}-eth1"));
        check_distribution("words", |n| vec![u128::from(n), 0, 7]);
    }

    #[test]
    fn bytes_of_different_lengths_differ_also_if_they_are_zero() {
        let state = state(1);
        let hashes: Vec<_> = (0..40)
            .map(|len| {
                let mut hasher = state.build_hasher();
                hasher.write(&vec![0; len]);
                hasher.finish()
            })
            .collect();
        for (n, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|other| other == hash), Some(n));
        }
    }

    #[test]
    fn seeds_change_hashes_and_without_one_every_run_has_the_same_order() {
        assert_ne!(state(1).hash_one(7), state(2).hash_one(7));
        let order = || (0..1000).collect::<HashSet<u32>>().into_iter().collect::<Vec<_>>();
        assert_eq!(order(), order());
        assert!(!set_seed(1), "maps have been made with the default seed");
        assert_eq!(order(), order());
        assert_ne!(derive_secret(1), derive_secret(2));
    }
}
