//! Times, rates, sizes and percentages in text: `25ms`, `100Mbit`, `1.25MB`, `0.1%`.
//!
//! Formatting and parsing are inverse. Nothing is rounded except digits below the smallest unit.

use std::fmt::{self, Write as _};
use std::num::NonZeroU64;
use std::time::Duration;

/// Units of one kind, smallest first: name, and size in the smallest unit.
type Units = [(&'static str, u64)];

const TIMES: &Units = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

const RATES: &Units = &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)];

const BYTES: &Units = &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

/// Binary units, which are parsed but never written.
const BYTES_BINARY: &Units = &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Percent in parts per million.
const PERCENTAGES: &Units = &[("%", 10_000)];

/// A value that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// The value as given.
    pub value: String,
    /// What was expected, with examples and limits.
    pub expected: &'static str,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.value, self.expected)
    }
}

impl std::error::Error for ValueError {}

/// A fraction of all packets, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LossRatio(u32);

impl LossRatio {
    /// No packets.
    pub const NONE: Self = Self(0);

    /// All packets.
    pub const ALL: Self = Self(1_000_000);

    /// A ratio in parts per million, at most [`ALL`](Self::ALL).
    pub const fn from_ppm(ppm: u32) -> Self {
        if ppm > Self::ALL.0 { Self::ALL } else { Self(ppm) }
    }

    /// The ratio in parts per million.
    pub const fn ppm(self) -> u32 {
        self.0
    }
}

/// Parses a time such as `25ms`; `None` above `max`.
pub(super) fn parse_time(text: &str, max: Duration) -> Option<Duration> {
    parse_quantity(text, &[TIMES]).map(Duration::from_nanos).filter(|&time| time <= max)
}

/// Parses a rate such as `100Mbit`, optionally followed by `/s`, in bit/s.
pub(super) fn parse_rate(text: &str) -> Option<NonZeroU64> {
    parse_quantity(text.strip_suffix("/s").unwrap_or(text), &[RATES]).and_then(NonZeroU64::new)
}

/// Parses a size such as `1.25MB` or `64KiB`, in bytes.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    parse_quantity(text, &[BYTES, BYTES_BINARY])
}

/// Parses a percentage such as `0.1%`.
pub(super) fn parse_loss(text: &str) -> Option<LossRatio> {
    let divisor = parse_quantity(text, &[PERCENTAGES])?;
    u32::try_from(divisor).ok().filter(|&divisor| divisor <= LossRatio::ALL.0).map(LossRatio)
}

/// Parses a number with a unit into the smallest unit. Case does not matter; 0 needs no unit.
fn parse_quantity(text: &str, kinds: &[&Units]) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{integer}{fraction}").parse().ok()?;
    let unit = unit.trim_start();
    let named = |&&(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
    let size = match kinds.iter().copied().flatten().find(named) {
        Some(&(_, size)) => size,
        None if digits == 0 && unit.is_empty() => 1,
        None => return None,
    };
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    u64::try_from(digits.checked_mul(size.into())? / divisor).ok()
}

/// Formats a time in the largest unit that it fills.
pub fn format_time(time: Duration) -> String {
    format_quantity(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), TIMES)
}

/// Formats a rate in bit/s.
pub fn format_rate(bits_per_second: u64) -> String {
    format_quantity(bits_per_second, RATES)
}

/// Formats a size in bytes.
pub fn format_bytes(bytes: u64) -> String {
    format_quantity(bytes, BYTES)
}

/// Formats a percentage.
pub fn format_loss(share: LossRatio) -> String {
    format_quantity(share.0.into(), PERCENTAGES)
}

fn format_quantity(value: u64, units: &Units) -> String {
    let filled = units.iter().rev().find(|&&(_, size)| value >= size);
    let Some(&(name, size)) = filled.or_else(|| units.first()) else { return String::new() };
    let mut out = format!("{}", value / size);
    let (mut rest, mut size_left) = (value % size, size);
    if rest > 0 {
        out.push('.');
    }
    while rest > 0 && size_left > 1 {
        size_left /= 10;
        let _ = write!(out, "{}", rest / size_left);
        rest %= size_left;
    }
    out + name
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn every_unit_is_parsed_in_any_case() {
        for (text, ns) in [
            ("25ms", 25_000_000),
            ("1.5s", 1_500_000_000),
            ("300us", 300_000),
            ("7 ns", 7),
            ("0", 0),
            (".5ms", 500_000),
            ("60S", 60_000_000_000),
        ] {
            assert_eq!(parse_time(text, MINUTE), Some(Duration::from_nanos(ns)), "{text}");
        }
        for (text, bits) in
            [("100Mbit", 100_000_000), ("2.5 gbit/s", 2_500_000_000), ("64kbit", 64_000)]
        {
            assert_eq!(parse_rate(text).map(NonZeroU64::get), Some(bits), "{text}");
        }
        for (text, n) in [("1.25MB", 1_250_000), ("64KiB", 65_536), ("1500b", 1_500), ("0B", 0)] {
            assert_eq!(parse_bytes(text), Some(n), "{text}");
        }
        for (text, divisor) in [("0.1%", 1_000), ("100%", 1_000_000), ("0", 0), ("0.0001 %", 1)] {
            assert_eq!(parse_loss(text).map(LossRatio::ppm), Some(divisor), "{text}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in ["", "25", "ms", "-1ms", "1.2.3ms", "1e3ms", "61s", "25 parsecs", "ms25", "٣ms"]
        {
            assert_eq!(parse_time(text, MINUTE), None, "{text}");
        }
        for text in ["0", "0bit", "10Mbps", "10MB", "99999999999999999999Gbit"] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
        for text in ["101%", "0.5", "1", "%"] {
            assert_eq!(parse_loss(text), None, "{text}");
        }
        assert_eq!(parse_bytes(&format!("1.{}MB", "0".repeat(50))), None);
    }

    #[test]
    fn formatting_and_parsing_are_inverse() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 25_000_000, 1_000_000_001, 59_999_999_999] {
            let value = Duration::from_nanos(ns);
            assert_eq!(
                parse_time(&format_time(value), MINUTE),
                Some(value),
                "{}",
                format_time(value)
            );
        }
        for n in [1, 1_000, 1_250_000, 65_536, 123_456_789] {
            assert_eq!(parse_bytes(&format_bytes(n)), Some(n));
            assert_eq!(parse_rate(&format_rate(n)).map(NonZeroU64::get), Some(n));
        }
        for divisor in [0, 1, 1_000, 12_345, 1_000_000] {
            assert_eq!(parse_loss(&format_loss(LossRatio(divisor))), Some(LossRatio(divisor)));
        }
        assert_eq!(format_time(Duration::from_micros(1_500)), "1.5ms");
        assert_eq!(format_loss(LossRatio(500)), "0.05%");
    }
}
