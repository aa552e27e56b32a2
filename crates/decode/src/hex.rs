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

/// Parses lines of hex digits with comments, in pieces of any length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Complete lines before this one.
    complete: u64,
    /// Characters of this line so far; there is no other than ASCII before an error.
    column: u64,
    digits: u64,
    /// The first digit of a byte.
    high: Option<u8>,
    is_comment: bool,
}

impl Lines {
    /// Appends the bytes of a piece to `bytes`.
    ///
    /// # Errors
    /// As for [`decode`], with the number of the line.
    pub(crate) fn decode(&mut self, piece: &[u8], bytes: &mut Vec<u8>) -> Result<(), String> {
        for (at, &c) in piece.iter().enumerate() {
            self.column += 1;
            if c == b'\n' || c == b'#' && !self.is_comment {
                self.finish()?;
                self.is_comment = c == b'#';
                if c == b'\n' {
                    *self = Self { complete: self.complete + 1, ..Self::default() };
                }
                continue;
            }
            if self.is_comment || c.is_ascii_whitespace() && self.high.is_none() {
                continue;
            }
            let digit = char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let Some(digit) = digit else {
                let rest = piece.get(at..).unwrap_or_default();
                let text = String::from_utf8_lossy(rest.get(..4).unwrap_or(rest));
                let c = text.chars().next().unwrap_or_default();
                let (line, column) = (self.complete + 1, self.column);
                return Err(format!("line {line}: column {column}: `{c}` is not a hex digit"));
            };
            self.digits += 1;
            match self.high.take() {
                Some(high) => bytes.push(high << 4 | digit),
                None => self.high = Some(digit),
            }
        }
        Ok(())
    }

    /// Checks that the digits of the line end with a complete byte.
    ///
    /// # Errors
    /// An odd number of digits.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let (line, digits) = (self.complete + 1, self.digits);
        if self.high.is_none() {
            return Ok(());
        }
        Err(format!("line {line}: odd number of hex digits ({digits})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_alike_in_pieces_of_any_length() {
        let parse = |text: &str, len: usize| {
            let (mut lines, mut bytes) = (Lines::default(), Vec::new());
            let mut pieces = text.as_bytes().chunks(len);
            let result = pieces.try_for_each(|piece| lines.decode(piece, &mut bytes));
            result.and_then(|()| lines.finish()).map(|()| bytes)
        };
        for len in 1..20 {
            assert_eq!(parse(" 0400 # x y\r\n\n\t0afF#\n", len), Ok(vec![4, 0, 10, 255]));
            assert_eq!(parse("04\n040#", len), Err("line 2: odd number of hex digits (3)".into()));
            assert_eq!(parse("# \n040", len), Err("line 2: odd number of hex digits (3)".into()));
            let error = "line 1: column 5: `x` is not a hex digit";
            assert_eq!(parse("04 0x", len), Err(error.into()));
        }
        let error = "line 1: column 1: `é` is not a hex digit";
        assert_eq!(parse("é", 4), Err(error.into()));
    }

    #[test]
    fn hex_digits_are_parsed_and_formatted() {
        assert_eq!(decode(" 04 00\t0a fF "), Ok(vec![4, 0, 10, 255]));
        assert_eq!(encode(&[4, 0, 10, 255]), "04000aff");
        assert_eq!(decode("040"), Err("odd number of hex digits (3)".into()));
        assert_eq!(decode("04 0x"), Err("column 5: `x` is not a hex digit".into()));
    }
}
