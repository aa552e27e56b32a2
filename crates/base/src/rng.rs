//! Seeded pseudorandom numbers.

/// A generator of pseudorandom numbers: `splitmix64` (Steele, Lea and Flood, OOPSLA 2014).
///
/// The same seed gives the same numbers. For generated load and simulations; not for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0. Uniform to within 2⁻³².
    #[inline]
    pub const fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * bound as u64) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_they_are_below_the_bound() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for bound in 1..1000 {
            let n = a.below(bound);
            assert!(n < bound);
            assert_eq!(n, b.below(bound));
        }
        assert_eq!(Rng::new(1).below(0), 0);
        assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    }
}
