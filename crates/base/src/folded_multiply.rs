//! A fast hash of integers.

/// The two halves of the 128-bit product of `a` and `b`, combined by exclusive or. With a secret factor, this spreads even
/// consecutive numbers.
#[inline]
#[must_use]
pub fn folded_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let folded = product as u64 ^ (product >> 64) as u64;
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_of_the_product_are_used() {
        assert_eq!(folded_multiply(3, 5), 15);
        assert_eq!(folded_multiply(1 << 63, 6), 3);
        assert_eq!(folded_multiply(u64::MAX, u64::MAX), 1 ^ (u64::MAX - 1));
    }
}
