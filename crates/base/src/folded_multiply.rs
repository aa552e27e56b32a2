//! A product as a hash.

/// Both halves of the product of `a` and `b`, one upon the other. With a factor that nobody outside knows, numbers in a row
/// are as far from each other as any.
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
    fn both_halves_count() {
        assert_eq!(folded_multiply(3, 5), 15);
        assert_eq!(folded_multiply(1 << 63, 6), 3);
        assert_eq!(folded_multiply(u64::MAX, u64::MAX), 1 ^ (u64::MAX - 1));
    }
}
