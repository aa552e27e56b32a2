//! Values of requests that several of them have.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use sluice_base::ordered;
use sluice_openflow::MacAddr;
use sluice_sdk::allocation::Allocations;

use super::error::ApiError;

/// An Ethernet address: six pairs of hexadecimal digits with colons or hyphens between them.
pub(super) fn mac(text: &str) -> Option<MacAddr> {
    text.replace('-', ":").parse().ok()
}

/// The Ethernet address in the parameter `name`.
pub(super) fn required_mac(name: &str, text: &str) -> Result<MacAddr, ApiError> {
    let expected = "expected six bytes as in 02:00:00:00:00:01";
    mac(text).ok_or_else(|| ApiError::invalid(format!("{name} is {text:?}: {expected}")))
}

/// The name of an application that owns flow entries.
pub(super) fn owner(text: &str, owners: &Allocations) -> Result<&'static str, ApiError> {
    let known = || owners.kinds().map(|kind| kind.application);
    known().find(|name| *name == text).ok_or_else(|| {
        let known = ordered::<BTreeSet<_>, _>(known()).into_iter().collect::<Vec<_>>().join(", ");
        ApiError::invalid(format!("owner is {text:?}: expected one of {known}"))
    })
}

/// A cookie and its mask.
pub(super) fn cookie(text: &str) -> Result<(u64, u64), ApiError> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    let parsed = match text.split_once('/') {
        Some((cookie, mask)) => number(cookie).zip(number(mask)),
        None => number(text).map(|cookie| (cookie, u64::MAX)),
    };
    parsed.ok_or_else(|| {
        let form = "expected a number or NUMBER/MASK, such as 0x1000/0xff00";
        ApiError::invalid(format!("cookie is {text:?}: {form}"))
    })
}

/// A frame of so many bytes, with the Ethernet header, in hexadecimal digits; white space and colons between them are ignored.
pub(super) fn frame(
    name: &str,
    text: &str,
    bytes: RangeInclusive<usize>,
) -> Result<Vec<u8>, ApiError> {
    let invalid = |why: String| ApiError::invalid(format!("{name}: {why}"));
    let wrong_len = |len: usize| {
        let (min, max) = (bytes.start(), bytes.end());
        invalid(format!("{len} bytes: expected {min} to {max}, with the Ethernet header"))
    };
    let digits = || text.chars().filter(|c| !c.is_whitespace() && *c != ':');
    let count = digits().count();
    // Before anything is allocated.
    if count.div_ceil(2) > *bytes.end() {
        return Err(wrong_len(count.div_ceil(2)));
    }
    let mut frame = Vec::with_capacity(count / 2);
    let mut high = None;
    for digit in digits() {
        let value = digit.to_digit(16).and_then(|value| u8::try_from(value).ok());
        let value = value.ok_or_else(|| invalid(format!("{digit:?} is no hexadecimal digit")))?;
        match high.take() {
            None => high = Some(value << 4),
            Some(high) => frame.push(high | value),
        }
    }
    if high.is_some() {
        return Err(invalid(format!("{count} digits: expected two for each byte")));
    }
    if frame.len() < *bytes.start() {
        return Err(wrong_len(frame.len()));
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_have_colons_or_hyphens() {
        for text in ["02:00:00:00:0a:FF", "02-00-00-00-0a-ff"] {
            assert_eq!(mac(text), Some(MacAddr([2, 0, 0, 0, 10, 255])), "{text}");
        }
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "+2:00:00:00:00:01", "x"] {
            let error = required_mac("mac", bad).unwrap_err().to_string();
            assert!(error.contains(&format!("mac is {bad:?}: expected")), "{error}");
        }
    }

    #[test]
    fn frames_are_hexadecimal_and_bounded() {
        let parse = |text: &str| frame("data", text, 14..=60_000);
        assert_eq!(parse(&"0aFf".repeat(7)).unwrap()[..2], [0x0a, 0xff]);
        assert_eq!(parse(&"0a:ff ".repeat(7)).unwrap().len(), 14);
        for (bad, why) in [
            (String::new(), "0 bytes: expected 14 to 60000"),
            ("0a".to_owned(), "1 bytes: expected 14 to 60000"),
            ("0".repeat(29), "29 digits: expected two for each byte"),
            ("0aé0".repeat(7), "'é' is no hexadecimal digit"),
            ("00".repeat(60_001), "60001 bytes: expected 14"),
            ("x".repeat(1 << 20), "524288 bytes: expected 14"),
        ] {
            let error = parse(&bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
