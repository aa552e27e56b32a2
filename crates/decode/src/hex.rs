//! Hex digits.

use std::fmt::Write as _;

/// Formats bytes as hex digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Parses hex digits; white space between bytes is ignored.
///
/// # Errors
/// A character that is not a hex digit, with its column counted from 1, or an odd number of digits.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (n, c) in text.chars().enumerate() {
        if c.is_whitespace() && high.is_none() {
            continue;
        }
        let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digit = digit.ok_or_else(|| format!("column {}: `{c}` is not a hex digit", n + 1))?;
        match high.take() {
            Some(high) => bytes.push(high << 4 | digit),
            None => high = Some(digit),
        }
    }
    if high.is_some() {
        return Err(format!("odd number of hex digits ({})", bytes.len() * 2 + 1));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits_are_parsed_and_formatted() {
        assert_eq!(decode(" 04 00\t0a fF "), Ok(vec![4, 0, 10, 255]));
        assert_eq!(encode(&[4, 0, 10, 255]), "04000aff");
        assert_eq!(decode("040"), Err("odd number of hex digits (3)".into()));
        assert_eq!(decode("04 0x"), Err("column 5: `x` is not a hex digit".into()));
    }
}
