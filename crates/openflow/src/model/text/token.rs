//! A line taken apart, every part knowing its place in it.

use core::fmt;

/// Why a line of text is not what it should be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Where in the line: characters, the first being 1.
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

/// `line`, and under it a caret at the column of `error` with what is wrong.
pub fn caret(line: &str, error: &TextError) -> String {
    // Tabs stay tabs, so that the caret stands where a terminal shows the character above it.
    let indent = line.chars().take(error.column.saturating_sub(1));
    let indent: String = indent.map(|c| if c == '\t' { c } else { ' ' }).collect();
    let beyond = error.column.saturating_sub(1).saturating_sub(line.chars().count());
    format!("{line}\n{indent}{}^ {}", " ".repeat(beyond), error.message)
}

/// What stands between the words of a list.
const BETWEEN: &[char] = &[',', ' ', '\t', '\r', '\n'];

/// Part of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    line: &'a str,
    from: usize,
    to: usize,
}

impl<'a> Piece<'a> {
    /// All of `line`.
    pub(crate) fn of(line: &'a str) -> Self {
        Self { line, from: 0, to: line.len() }
    }

    /// What stands there.
    pub(crate) fn text(self) -> &'a str {
        self.line.get(self.from..self.to).unwrap_or_default()
    }

    /// Whether nothing stands there.
    pub(crate) fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// Names a fault at the start of the part.
    pub(crate) fn fault(self, message: impl Into<String>) -> TextError {
        let before = self.line.get(..self.from).unwrap_or_default();
        TextError { column: before.chars().count().saturating_add(1), message: message.into() }
    }

    /// Names a fault behind the part.
    pub(crate) fn fault_behind(self, message: impl Into<String>) -> TextError {
        Self { from: self.to, ..self }.fault(message)
    }

    /// The part of this part from byte `from` up to byte `to`, both at the edges of characters.
    pub(crate) fn sub(self, from: usize, to: usize) -> Self {
        let edge = |n: usize| self.from.saturating_add(n).min(self.to);
        Self { line: self.line, from: edge(from), to: edge(to) }
    }

    /// The part from byte `from` on.
    pub(crate) fn behind(self, from: usize) -> Self {
        self.sub(from, self.to.saturating_sub(self.from))
    }

    /// The part without white space around it.
    pub(crate) fn trim(self) -> Self {
        let text = self.text();
        let start = text.len() - text.trim_start().len();
        self.sub(start, start + text.trim().len())
    }

    /// The parts before and behind the first `mark`.
    pub(crate) fn split(self, mark: &str) -> Option<(Self, Self)> {
        let at = self.text().find(mark)?;
        Some((self.sub(0, at), self.behind(at + mark.len())))
    }

    /// What is behind `start`, if the part starts with it.
    pub(crate) fn strip(self, start: &str) -> Option<Self> {
        self.text().starts_with(start).then(|| self.behind(start.len()))
    }

    /// The parts between commas; none in an empty part.
    pub(crate) fn commas(self) -> impl Iterator<Item = Self> {
        let mut left = Some(self).filter(|all| !all.is_empty());
        core::iter::from_fn(move || {
            let all = left?;
            let (one, rest) = all.split(",").map_or((all, None), |(one, rest)| (one, Some(rest)));
            left = rest;
            Some(one)
        })
    }

    /// Words with their values, one after the other.
    pub(crate) fn pairs(self) -> Pairs<'a> {
        Pairs { left: self }
    }

    /// The number that stands there: decimal, or hex digits behind `0x`.
    ///
    /// # Errors
    /// What is none, or is over `max`.
    pub(crate) fn number(self, max: u128) -> Result<u128, TextError> {
        let text = self.text();
        if text.is_empty() {
            return Err(self.fault("a number is missing"));
        }
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
        if let Some(at) = digits.find(|c: char| !c.is_digit(radix)) {
            let whole = self.fault(format!("`{text}` is not a number"));
            return Err(if at == 0 {
                whole
            } else {
                self.behind(text.len() - digits.len() + at).fault(whole.message)
            });
        }
        if digits.is_empty() {
            return Err(self.fault(format!("`{text}` is not a number")));
        }
        if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
            return Err(
                self.fault(format!("`{text}`: is it octal? write it without the leading 0"))
            );
        }
        let n = u128::from_str_radix(digits, radix).ok().filter(|&n| n <= max);
        n.ok_or_else(|| {
            self.fault(if max > u128::from(u32::MAX) {
                format!("{text} is over {max:#x}")
            } else {
                format!("{text} is over {max}")
            })
        })
    }

    /// The number that stands there, as one of `T`.
    ///
    /// # Errors
    /// What is none, or does not fit.
    pub(crate) fn int<T: Int>(self) -> Result<T, TextError> {
        T::of(self.number(T::MOST)?).ok_or_else(|| self.fault("too large"))
    }

    /// The bytes that stand there as pairs of hex digits, with or without points or blanks between them.
    ///
    /// # Errors
    /// What is no hex digit, or an odd one.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, TextError> {
        let mut bytes = Vec::new();
        let mut high = None;
        for (at, c) in self.text().char_indices() {
            if high.is_none() && (c == '.' || c.is_whitespace()) {
                continue;
            }
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let digit =
                digit.ok_or_else(|| self.behind(at).fault(format!("`{c}` is no hex digit")))?;
            match high.take() {
                Some(h) => bytes.push(h << 4 | digit),
                None => high = Some(digit),
            }
        }
        match high {
            None => Ok(bytes),
            Some(_) => Err(self.fault_behind("a hex digit is missing")),
        }
    }
}

/// A number without sign.
pub(crate) trait Int: Sized {
    /// The largest.
    const MOST: u128;

    /// `n`, if it fits.
    fn of(n: u128) -> Option<Self>;
}

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl Int for $t {
            const MOST: u128 = <$t>::MAX as u128;

            fn of(n: u128) -> Option<Self> {
                Self::try_from(n).ok()
            }
        }
    )*};
}

ints!(u8, u16, u32, u64, u128);

/// The words behind whose parentheses an arrow and a target may stand.
const AIMED: &[&str] = &["check_pkt_larger"];

/// A word, and what belongs to it: `key`, `key=value`, `key:value`, `key(value)`, `key(value)->target`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    /// The word.
    pub(crate) key: Piece<'a>,
    /// What belongs to it; empty at the end of the word if nothing does.
    pub(crate) value: Piece<'a>,
    /// Whether it stood in parentheses.
    pub(crate) parens: bool,
    /// What stands behind the arrow behind the parentheses.
    pub(crate) target: Option<Piece<'a>>,
    /// Everything.
    pub(crate) whole: Piece<'a>,
}

impl<'a> Pair<'a> {
    /// The word as text.
    pub(crate) fn name(&self) -> &'a str {
        self.key.text()
    }

    /// What belongs to the word and has to be there.
    ///
    /// # Errors
    /// Its absence.
    pub(crate) fn needed(&self) -> Result<Piece<'a>, TextError> {
        let missing = || self.key.fault_behind(format!("`{}` needs a value", self.name()));
        if self.value.is_empty() { Err(missing()) } else { Ok(self.value) }
    }

    /// The number that belongs to the word.
    ///
    /// # Errors
    /// Its absence, what is none, what does not fit.
    pub(crate) fn int<T: Int>(&self) -> Result<T, TextError> {
        self.needed()?.int()
    }

    /// Proves that nothing belongs to the word.
    ///
    /// # Errors
    /// What does.
    pub(crate) fn bare(&self) -> Result<(), TextError> {
        if self.value.is_empty() {
            return Ok(());
        }
        Err(self.value.fault(format!("`{}` takes no value", self.name())))
    }

    /// That the word is not known where it stands.
    pub(crate) fn unknown(&self, among: &str) -> TextError {
        self.key.fault(format!("`{}` is no {among}", self.name()))
    }
}

/// Words with their values, between commas or blanks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairs<'a> {
    left: Piece<'a>,
}

impl<'a> Pairs<'a> {
    /// The next; `None` at the end.
    ///
    /// # Errors
    /// A parenthesis without its fellow, a value without a word.
    pub(crate) fn next(&mut self) -> Result<Option<Pair<'a>>, TextError> {
        let text = self.left.text();
        let start = text.len() - text.trim_start_matches(BETWEEN).len();
        let all = self.left.behind(start);
        if all.is_empty() {
            return Ok(None);
        }
        let end = end_of(all, |c| BETWEEN.contains(&c) || [':', '=', '('].contains(&c))?;
        let (key, rest) = (all.sub(0, end), all.behind(end));
        if key.is_empty() {
            return Err(key.fault("a word is missing"));
        }
        let mut pair =
            Pair { key, value: all.sub(end, end), parens: false, target: None, whole: key };
        let mut len = end;
        if let Some(value) = rest.strip("=").or_else(|| rest.strip(":")) {
            pair.value = value.sub(0, end_of(value, |c| BETWEEN.contains(&c))?);
            len = end + 1 + pair.value.text().len();
        } else if let Some(inside) = rest.strip("(") {
            let close =
                closing(inside).ok_or_else(|| rest.fault("this parenthesis is not closed"))?;
            (pair.value, pair.parens) = (inside.sub(0, close), true);
            let behind = inside.behind(close + 1);
            let tail = end_of(behind, |c| BETWEEN.contains(&c))?;
            pair.target = behind.sub(0, tail).strip("->");
            if pair.target.is_none() && tail > 0 {
                return Err(behind.fault("a comma is missing"));
            }
            if pair.target.is_some() && !AIMED.iter().any(|it| it.eq_ignore_ascii_case(key.text()))
            {
                return Err(behind.fault(format!("`{}` has no target", key.text())));
            }
            len = end + 1 + close + 1 + tail;
        }
        pair.whole = all.sub(0, len);
        self.left = all.behind(len);
        Ok(Some(pair))
    }

    /// What was not taken yet.
    pub(crate) fn left(&self) -> Piece<'a> {
        self.left
    }

    /// Everything from the value of `pair`, which was taken last.
    pub(crate) fn behind_key_of(&self, pair: &Pair<'a>) -> Piece<'a> {
        Piece { from: pair.value.from, ..self.left }
    }
}

/// Where in `piece` the first character stands that `stops` and is not in parentheses.
fn end_of(piece: Piece<'_>, stops: impl Fn(char) -> bool) -> Result<usize, TextError> {
    let mut opened = Vec::new();
    for (at, c) in piece.text().char_indices() {
        match c {
            _ if opened.is_empty() && stops(c) => return Ok(at),
            '(' => opened.push(at),
            ')' if opened.pop().is_none() => {
                return Err(piece.behind(at).fault("this parenthesis was not opened"));
            }
            _ => {}
        }
    }
    let open = opened.first().map(|&at| piece.behind(at).fault("this parenthesis is not closed"));
    open.map_or_else(|| Ok(piece.text().len()), Err)
}

/// Where in `piece` the parenthesis is closed that was opened just before it.
fn closing(piece: Piece<'_>) -> Option<usize> {
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
        let (mut pairs, mut all) = (Piece::of(line).pairs(), vec![]);
        while let Some(pair) = pairs.next()? {
            let target = pair.target.map(|t| t.text().to_owned());
            all.push((pair.name().to_owned(), pair.value.text().to_owned(), target));
        }
        Ok(all)
    }

    #[test]
    fn words_come_with_their_values() {
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
    fn a_fault_has_its_column_in_characters() {
        let column = |line| taken(line).unwrap_err().column;
        assert_eq!(column("ip,ct(commit"), 6);
        assert_eq!(column("é,ct(a))"), 8);
        assert_eq!(column("a,=3"), 3);
        assert_eq!(column("ct(a)b"), 6);
        assert_eq!(column("a)"), 2);
    }

    #[test]
    fn the_caret_stands_under_the_column() {
        let error = TextError { column: 4, message: "odd".into() };
        assert_eq!(caret("ab\tcd", &error), "ab\tcd\n  \t^ odd");
        assert_eq!(caret("a", &TextError { column: 3, ..error }), "a\n  ^ odd");
    }

    #[test]
    fn numbers_are_decimal_or_hex() {
        let number = |text| Piece::of(text).number(255).map_err(|e| (e.column, e.message));
        assert_eq!(number("0x1F"), Ok(31));
        assert_eq!(number("255"), Ok(255));
        assert_eq!(number("256"), Err((1, "256 is over 255".into())));
        assert_eq!(number("12z"), Err((3, "`12z` is not a number".into())));
        assert!(number("").is_err() && number("0x").is_err() && number("017").is_err());
    }

    #[test]
    fn bytes_may_stand_apart() {
        assert_eq!(Piece::of("00.1f ab").bytes(), Ok(vec![0, 0x1f, 0xab]));
        assert_eq!(Piece::of("0").bytes().unwrap_err().column, 2);
        assert_eq!(Piece::of("00.0g").bytes().unwrap_err().column, 5);
    }
}
