//! Facts about the machine, from `/proc` and `/sys`.

use std::fs;

/// The machine on which the generator runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Model of the CPU.
    pub cpu_model: Option<String>,
    /// CPU cores (hardware threads) that are online.
    pub cores: Option<usize>,
    /// Operating system and release of the kernel.
    pub kernel: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// What the kernel's clock reads, such as `tsc`.
    pub clock_source: Option<String>,
}

impl Host {
    /// Reads the facts about this machine.
    pub fn read() -> Self {
        let kernel = ["ostype", "osrelease"].map(|name| text(&format!("/proc/sys/kernel/{name}")));
        let [system, release] = kernel;
        let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            cpu_model: text("/proc/cpuinfo").and_then(|info| cpu_model(&info)),
            cores: text("/sys/devices/system/cpu/online").and_then(|list| list_len(&list)),
            kernel: system.zip(release).map(|(system, release)| format!("{system} {release}")),
            memory_bytes: text("/proc/meminfo").and_then(|info| memory_bytes(&info)),
            clock_source: text(clock),
        }
    }
}

/// The load averages over 1, 5 and 15 minutes.
pub(super) fn load_average() -> Option<[f64; 3]> {
    parse_load_average(&text("/proc/loadavg")?)
}

/// The trimmed text of a file, if there is any.
fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The value of the first line `key: value` in the text of `/proc/cpuinfo` or `/proc/meminfo`.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// x86 has `model name`, some ARM machines `Model` or `Hardware`, POWER and IBM Z `cpu`.
fn cpu_model(info: &str) -> Option<String> {
    let keys = ["model name", "Model", "Hardware", "cpu"];
    keys.iter().find_map(|key| value(info, key)).map(str::to_owned)
}

fn memory_bytes(info: &str) -> Option<u64> {
    let kib: u64 = value(info, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Number of items in a list of ranges, such as `0-3,8`.
fn list_len(ranges: &str) -> Option<usize> {
    let mut len = 0usize;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|n| n.trim().parse::<usize>());
        len = len.checked_add(last.ok()?.checked_sub(first.ok()?)?.checked_add(1)?)?;
    }
    Some(len)
}

fn parse_load_average(text: &str) -> Option<[f64; 3]> {
    let mut averages = text.split_whitespace().map(str::parse);
    let mut next = || averages.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_files_of_the_kernel() {
        let x86 =
            "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core\n\nprocessor\t: 1\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("AMD EPYC 7763 64-Core"));
        let arm = "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("Raspberry Pi 4"));
        assert_eq!(memory_bytes("MemTotal:        1024 kB\nMemFree: 1 kB\n"), Some(1 << 20));
        assert_eq!(list_len("0-3,8,10-11"), Some(7));
        assert_eq!(parse_load_average("0.52 1.00 12.5 2/345 678"), Some([0.52, 1.0, 12.5]));
    }

    #[test]
    fn malformed_files_give_nothing() {
        for text in ["", ":", "x", "MemTotal: many kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(memory_bytes(text), None, "{text}");
            assert_eq!(parse_load_average(text), None, "{text}");
        }
        for list in ["", "a", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(list_len(list), None, "{list}");
        }
        assert_eq!(cpu_model("processor : 0"), None);
    }
}
