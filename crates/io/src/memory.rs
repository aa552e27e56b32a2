//! The memory that this process occupies.

use std::fs;

/// Bytes of physical memory that this process occupies, if the system tells.
pub fn resident_bytes() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/status").ok()?)
}

/// The line `VmRSS:` of `status`, in KiB.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_in_kib() {
        let status = "Name:\tsluice\nVmHWM:\t    4000 kB\nVmRSS:\t    3000 kB\nThreads:\t3\n";
        assert_eq!(resident(status), Some(3000 * 1024));
        assert_eq!(resident("VmRSS:\tmany\n"), None);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
    }
}
