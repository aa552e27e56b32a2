//! Bytes as hex digits and back.

use std::fmt::Write as _;

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // A `String` takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Reads hex digits; blanks between bytes are passed over.
///
/// # Errors
/// What is no digit, with its place counted from 1, and an odd one.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (n, c) in text.chars().enumerate() {
        if c.is_whitespace() && high.is_none() {
            continue;
        }
        let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digit = digit.ok_or_else(|| format!("column {}: `{c}` is no hex digit", n + 1))?;
        match high.take() {
            Some(high) => bytes.push(high << 4 | digit),
            None => high = Some(digit),
        }
    }
    if high.is_some() {
        return Err("an odd number of hex digits".into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        assert_eq!(unhex(" 04 00\t0a fF "), Ok(vec![4, 0, 10, 255]));
        assert_eq!(hex(&[4, 0, 10, 255]), "04000aff");
        assert_eq!(unhex("040"), Err("an odd number of hex digits".into()));
        assert_eq!(unhex("04 0x"), Err("column 5: `x` is no hex digit".into()));
    }
}
