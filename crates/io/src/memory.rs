//! The memory that this process occupies.

use std::fs;

use rustix::param::page_size;

/// Bytes of physical memory that this process occupies, if the system tells.
pub fn resident_bytes() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/statm").ok()?, page_size() as u64)
}

/// The second number of `statm`, which counts pages.
fn resident(statm: &str, page_bytes: u64) -> Option<u64> {
    statm.split(' ').nth(1)?.trim().parse::<u64>().ok()?.checked_mul(page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_pages_are_the_second_number() {
        assert_eq!(resident("5000 300 200 50 0 400 0\n", 4096), Some(300 * 4096));
        assert_eq!(resident("5000", 4096), None);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
    }
}
