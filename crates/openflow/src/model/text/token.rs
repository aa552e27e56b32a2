//! Splits a line of text into keys and values that remember their position for errors.

use core::fmt;

/// A syntax error in a line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Position in the line, in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl core::error::Error for TextError {}

/// `line`, and below it a caret at the column of `error`, followed by its message.
pub fn caret(line: &str, error: &TextError) -> String {
    // Tabs are kept, so that a terminal shows the caret below its character.
    let indent = line.chars().take(error.column.saturating_sub(1));
    let indent: String = indent.map(|c| if c == '\t' { c } else { ' ' }).collect();
    let beyond = error.column.saturating_sub(1).saturating_sub(line.chars().count());
    format!("{line}\n{indent}{}^ {}", " ".repeat(beyond), error.message)
}

/// Separators between the items of a list.
const SEPARATORS: &[char] = &[',', ' ', '\t', '\r', '\n'];

/// Part of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextSpan<'a> {
    line: &'a str,
    from: usize,
    to: usize,
}

impl<'a> TextSpan<'a> {
    /// The whole `line`.
    pub(crate) fn of(line: &'a str) -> Self {
        Self { line, from: 0, to: line.len() }
    }

    /// Text of the part.
    pub(crate) fn text(self) -> &'a str {
        self.line.get(self.from..self.to).unwrap_or_default()
    }

    /// Whether the part is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// An error at the start of the part.
    pub(crate) fn error(self, message: impl Into<String>) -> TextError {
        let before = self.line.get(..self.from).unwrap_or_default();
        TextError { column: before.chars().count().saturating_add(1), message: message.into() }
    }

    /// An error at the end of the part.
    pub(crate) fn error_after(self, message: impl Into<String>) -> TextError {
        Self { from: self.to, ..self }.error(message)
    }

    /// The bytes from `from` up to `to`, both at character boundaries.
    pub(crate) fn sub(self, from: usize, to: usize) -> Self {
        let edge = |n: usize| self.from.saturating_add(n).min(self.to);
        Self { line: self.line, from: edge(from), to: edge(to) }
    }

    /// The bytes from `from` on.
    pub(crate) fn skip(self, from: usize) -> Self {
        self.sub(from, self.to.saturating_sub(self.from))
    }

    /// The part without surrounding white space.
    pub(crate) fn trim(self) -> Self {
        let text = self.text();
        let start = text.len() - text.trim_start().len();
        self.sub(start, start + text.trim().len())
    }

    /// The parts before and after the first `mark`.
    pub(crate) fn split(self, mark: &str) -> Option<(Self, Self)> {
        let at = self.text().find(mark)?;
        Some((self.sub(0, at), self.skip(at + mark.len())))
    }

    /// The part after `start`, if it begins with that.
    pub(crate) fn strip(self, start: &str) -> Option<Self> {
        self.text().starts_with(start).then(|| self.skip(start.len()))
    }

    /// The parts between commas; none if the part is empty.
    pub(crate) fn commas(self) -> impl Iterator<Item = Self> {
        let mut left = Some(self).filter(|all| !all.is_empty());
        core::iter::from_fn(move || {
            let all = left?;
            let (one, rest) = all.split(",").map_or((all, None), |(one, rest)| (one, Some(rest)));
            left = rest;
            Some(one)
        })
    }

    /// The keys in the part, with their values.
    pub(crate) fn pairs(self) -> KeyValues<'a> {
        KeyValues { left: self }
    }

    /// Parses a number: decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// Not a number, or above `max`.
    pub(crate) fn number(self, max: u128) -> Result<u128, TextError> {
        let text = self.text();
        if text.is_empty() {
            return Err(self.error("missing number"));
        }
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
        if let Some(at) = digits.find(|c: char| !c.is_digit(radix)) {
            let whole = self.error(format!("`{text}` is not a number"));
            return Err(if at == 0 {
                whole
            } else {
                self.skip(text.len() - digits.len() + at).error(whole.message)
            });
        }
        if digits.is_empty() {
            return Err(self.error(format!("`{text}` is not a number")));
        }
        if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
            return Err(
                self.error(format!("`{text}`: is it octal? write it without the leading 0"))
            );
        }
        let n = u128::from_str_radix(digits, radix).ok().filter(|&n| n <= max);
        n.ok_or_else(|| {
            self.error(if max > u128::from(u32::MAX) {
                format!("{text} is over {max:#x}")
            } else {
                format!("{text} is over {max}")
            })
        })
    }

    /// Parses a number of type `T`.
    ///
    /// # Errors
    /// Not a number, or out of range.
    pub(crate) fn int<T: Int>(self) -> Result<T, TextError> {
        T::of(self.number(T::MAX_VALUE)?).ok_or_else(|| self.error("too large"))
    }

    /// Parses bytes as pairs of hex digits, optionally separated by dots or white space.
    ///
    /// # Errors
    /// Not a hex digit, or an odd number of them.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, TextError> {
        let mut bytes = Vec::new();
        let mut high = None;
        for (at, c) in self.text().char_indices() {
            if high.is_none() && (c == '.' || c.is_whitespace()) {
                continue;
            }
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let digit =
                digit.ok_or_else(|| self.skip(at).error(format!("`{c}` is not a hex digit")))?;
            match high.take() {
                Some(h) => bytes.push(h << 4 | digit),
                None => high = Some(digit),
            }
        }
        match high {
            None => Ok(bytes),
            Some(_) => Err(self.error_after("odd number of hex digits")),
        }
    }
}

/// An unsigned number type.
pub(crate) trait Int: Sized {
    /// Largest value.
    const MAX_VALUE: u128;

    /// `n`, if it is in range.
    fn of(n: u128) -> Option<Self>;
}

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl Int for $t {
            const MAX_VALUE: u128 = <$t>::MAX as u128;

            fn of(n: u128) -> Option<Self> {
                Self::try_from(n).ok()
            }
        }
    )*};
}

ints!(u8, u16, u32, u64, u128);

/// Keys after whose parentheses `->target` is allowed.
const KEYS_WITH_TARGET: &[&str] = &["check_pkt_larger"];

/// A key and its value: `key`, `key=value`, `key:value`, `key(value)` or `key(value)->target`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValue<'a> {
    /// The key.
    pub(crate) key: TextSpan<'a>,
    /// The value; if there is none, an empty part after the key.
    pub(crate) value: TextSpan<'a>,
    /// Whether the value was in parentheses.
    pub(crate) parens: bool,
    /// The part after the arrow.
    pub(crate) target: Option<TextSpan<'a>>,
    /// Key, value and target.
    pub(crate) whole: TextSpan<'a>,
}

impl<'a> KeyValue<'a> {
    /// The key as text.
    pub(crate) fn name(&self) -> &'a str {
        self.key.text()
    }

    /// The value, which is required.
    ///
    /// # Errors
    /// There is no value.
    pub(crate) fn required(&self) -> Result<TextSpan<'a>, TextError> {
        let missing = || self.key.error_after(format!("`{}` requires a value", self.name()));
        if self.value.is_empty() { Err(missing()) } else { Ok(self.value) }
    }

    /// The value as a number, which is required.
    ///
    /// # Errors
    /// No value, not a number, or out of range.
    pub(crate) fn int<T: Int>(&self) -> Result<T, TextError> {
        self.required()?.int()
    }

    /// Checks that the key has no value.
    ///
    /// # Errors
    /// There is a value.
    pub(crate) fn no_value(&self) -> Result<(), TextError> {
        if self.value.is_empty() {
            return Ok(());
        }
        Err(self.value.error(format!("`{}` takes no value", self.name())))
    }

    /// The error that the key is unknown; `among` is the kind of key expected.
    pub(crate) fn unknown(&self, among: &str) -> TextError {
        self.key.error(format!("unknown {among} `{}`", self.name()))
    }
}

/// Iterator over keys and values, separated by commas or white space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValues<'a> {
    left: TextSpan<'a>,
}

impl<'a> KeyValues<'a> {
    /// The next key and value; `None` at the end.
    ///
    /// # Errors
    /// Unbalanced parentheses, or a value without a key.
    pub(crate) fn next(&mut self) -> Result<Option<KeyValue<'a>>, TextError> {
        let text = self.left.text();
        let start = text.len() - text.trim_start_matches(SEPARATORS).len();
        let all = self.left.skip(start);
        if all.is_empty() {
            return Ok(None);
        }
        let end = end_of(all, |c| SEPARATORS.contains(&c) || [':', '=', '('].contains(&c))?;
        let (key, rest) = (all.sub(0, end), all.skip(end));
        if key.is_empty() {
            return Err(key.error("missing key"));
        }
        let mut pair =
            KeyValue { key, value: all.sub(end, end), parens: false, target: None, whole: key };
        let mut len = end;
        if let Some(value) = rest.strip("=").or_else(|| rest.strip(":")) {
            pair.value = value.sub(0, end_of(value, |c| SEPARATORS.contains(&c))?);
            len = end + 1 + pair.value.text().len();
        } else if let Some(inside) = rest.strip("(") {
            let close =
                closing(inside).ok_or_else(|| rest.error("this parenthesis is not closed"))?;
            (pair.value, pair.parens) = (inside.sub(0, close), true);
            let behind = inside.skip(close + 1);
            let tail = end_of(behind, |c| SEPARATORS.contains(&c))?;
            pair.target = behind.sub(0, tail).strip("->");
            if pair.target.is_none() && tail > 0 {
                return Err(behind.error("missing comma"));
            }
            if pair.target.is_some()
                && !KEYS_WITH_TARGET.iter().any(|it| it.eq_ignore_ascii_case(key.text()))
            {
                return Err(behind.error(format!("`{}` takes no `->` target", key.text())));
            }
            len = end + 1 + close + 1 + tail;
        }
        pair.whole = all.sub(0, len);
        self.left = all.skip(len);
        Ok(Some(pair))
    }

    /// The rest of the text.
    pub(crate) fn left(&self) -> TextSpan<'a> {
        self.left
    }

    /// The text from the value of `pair`, the last one returned, to the end.
    pub(crate) fn text_from_value(&self, pair: &KeyValue<'a>) -> TextSpan<'a> {
        TextSpan { from: pair.value.from, ..self.left }
    }
}

/// Position of the first character outside of parentheses for which `stops` is true.
fn end_of(piece: TextSpan<'_>, stops: impl Fn(char) -> bool) -> Result<usize, TextError> {
    let mut opened = Vec::new();
    for (at, c) in piece.text().char_indices() {
        match c {
            _ if opened.is_empty() && stops(c) => return Ok(at),
            '(' => opened.push(at),
            ')' if opened.pop().is_none() => {
                return Err(piece.skip(at).error("unmatched closing parenthesis"));
            }
            _ => {}
        }
    }
    let open = opened.first().map(|&at| piece.skip(at).error("this parenthesis is not closed"));
    open.map_or_else(|| Ok(piece.text().len()), Err)
}

/// Position of the parenthesis that closes one opened just before `piece`.
fn closing(piece: TextSpan<'_>) -> Option<usize> {
    let mut depth = 1_usize;
    piece.text().char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<Vec<(String, String, Option<String>)>, TextError> {
        let (mut pairs, mut all) = (TextSpan::of(line).pairs(), vec![]);
        while let Some(pair) = pairs.next()? {
            let target = pair.target.map(|t| t.text().to_owned());
            all.push((pair.name().to_owned(), pair.value.text().to_owned(), target));
        }
        Ok(all)
    }

    #[test]
    fn keys_are_split_from_their_values() {
        let one = |k: &str, v: &str| (k.to_owned(), v.to_owned(), None);
        assert_eq!(
            taken(" ip, nw_src=1.2.3.4/8,ct(commit,exec(load:1->reg0[])),set_field:::1->ipv6_src")
                .unwrap(),
            [
                one("ip", ""),
                one("nw_src", "1.2.3.4/8"),
                one("ct", "commit,exec(load:1->reg0[])"),
                one("set_field", "::1->ipv6_src"),
            ]
        );
        let arrow = taken("check_pkt_larger(1500)->reg0[0],drop").unwrap();
        assert_eq!(arrow[0], ("check_pkt_larger".into(), "1500".into(), Some("reg0[0]".into())));
    }

    #[test]
    fn an_error_has_its_column_in_characters() {
        let column = |line| taken(line).unwrap_err().column;
        assert_eq!(column("ip,ct(commit"), 6);
        assert_eq!(column("é,ct(a))"), 8);
        assert_eq!(column("a,=3"), 3);
        assert_eq!(column("ct(a)b"), 6);
        assert_eq!(column("a)"), 2);
    }

    #[test]
    fn the_caret_is_below_the_column_of_the_error() {
        let error = TextError { column: 4, message: "odd".into() };
        assert_eq!(caret("ab\tcd", &error), "ab\tcd\n  \t^ odd");
        assert_eq!(caret("a", &TextError { column: 3, ..error }), "a\n  ^ odd");
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        let number = |text| TextSpan::of(text).number(255).map_err(|e| (e.column, e.message));
        assert_eq!(number("0x1F"), Ok(31));
        assert_eq!(number("255"), Ok(255));
        assert_eq!(number("256"), Err((1, "256 is over 255".into())));
        assert_eq!(number("12z"), Err((3, "`12z` is not a number".into())));
        assert!(number("").is_err() && number("0x").is_err() && number("017").is_err());
    }

    #[test]
    fn bytes_can_be_separated_by_dots_or_blanks() {
        assert_eq!(TextSpan::of("00.1f ab").bytes(), Ok(vec![0, 0x1f, 0xab]));
        assert_eq!(TextSpan::of("0").bytes().unwrap_err().column, 2);
        assert_eq!(TextSpan::of("00.0g").bytes().unwrap_err().column, 5);
    }
}
