//! Bodies of requests. Ryu reads them as literals of Python, so scripts send JSON as well as what `str()` makes of a dictionary: with
//! single quotes, hexadecimal numbers, comments and commas behind the last entry. Both are read here.

use serde_json::{Map, Number, Value};

/// How deep lists and objects may be nested.
const DEPTH_MAX: usize = 32;

/// Reads a JSON value or a literal of Python.
///
/// # Errors
/// What is wrong, and in which line and column.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Literal { text, at: 0 };
    let value = reader.value(0).and_then(|value| {
        reader.skip();
        if reader.rest().is_empty() { Ok(value) } else { Err("something behind the value".into()) }
    });
    value.map_err(|what: String| {
        let before = text.get(..reader.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {what}")
    })
}

struct Literal<'t> {
    text: &'t str,
    /// Position in bytes.
    at: usize,
}

type Parsed<T> = Result<T, String>;

impl<'t> Literal<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, expected: &str) -> bool {
        let is_next = self.rest().starts_with(expected);
        self.at += if is_next { expected.len() } else { 0 };
        is_next
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Value> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        self.skip();
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.list(']', depth),
            Some('(') => self.list(')', depth),
            Some('"' | '\'') => self.strings(),
            Some(c) if c.is_ascii_digit() || "+-.".contains(c) => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.word(),
            Some(c) => Err(format!("unexpected {c:?}")),
            None => Err("unexpected end".into()),
        }
    }

    /// `true`, `None` and so on, or the prefix of a text.
    fn word(&mut self) -> Parsed<Value> {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if matches!(self.peek(), Some('"' | '\'')) && ["b", "B", "u", "U"].contains(&word) {
            return self.strings();
        }
        match word {
            "true" | "True" => Ok(Value::Bool(true)),
            "false" | "False" => Ok(Value::Bool(false)),
            "null" | "None" => Ok(Value::Null),
            _ => {
                self.at = start;
                Err(format!("unexpected {word:?}: names have quotes"))
            }
        }
    }

    fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
        let number = match integer(text) {
            Some(n) => u64::try_from(n)
                .map(Number::from)
                .or_else(|_| i64::try_from(n).map(Number::from))
                .ok(),
            None => text.parse().ok().and_then(Number::from_f64),
        };
        number.map(Value::Number).ok_or_else(|| {
            self.at = start;
            format!("{text:?} is not a number of up to 64 bits")
        })
    }

    /// A text. Python joins those that follow each other.
    fn strings(&mut self) -> Parsed<Value> {
        let mut joined = String::new();
        loop {
            self.string(&mut joined)?;
            self.skip();
            if !matches!(self.peek(), Some('"' | '\'')) {
                return Ok(Value::String(joined));
            }
        }
    }

    fn string(&mut self, to: &mut String) -> Parsed<()> {
        let start = self.at;
        let quote = self.next();
        loop {
            match self.next() {
                None => {
                    self.at = start;
                    return Err("a text without end".into());
                }
                c if c == quote => return Ok(()),
                Some('\\') => self.escape(to)?,
                Some(c) => to.push(c),
            }
        }
    }

    fn escape(&mut self, to: &mut String) -> Parsed<()> {
        let c = match self.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('0') => '\0',
            Some('x') => self.code_point(2)?,
            Some('u') => self.code_point(4)?,
            Some('\n') => return Ok(()),
            Some(c) => c,
            None => return Err("a text without end".into()),
        };
        to.push(c);
        Ok(())
    }

    /// A character by its number in `digits` hexadecimal digits; two of JSON's for one beyond the first 65 536.
    fn code_point(&mut self, digits: usize) -> Parsed<char> {
        let high = self.hex(digits)?;
        let mut code = high;
        if (0xd800..0xdc00).contains(&high) && self.take("\\u") {
            let low = self.hex(digits)?;
            code = 0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
        }
        char::from_u32(code).ok_or_else(|| format!("no character has the number {code:#x}"))
    }

    fn hex(&mut self, digits: usize) -> Parsed<u32> {
        let text = self.rest().get(..digits).unwrap_or_default();
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_hex);
        self.at += if number.is_some() { digits } else { 0 };
        number.ok_or_else(|| format!("expected {digits} hexadecimal digits"))
    }

    fn list(&mut self, end: char, depth: usize) -> Parsed<Value> {
        self.next();
        let mut items = vec![];
        while !self.at_end(end)? {
            items.push(self.value(depth + 1)?);
            self.separator(end)?;
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        self.next();
        let mut entries = Map::new();
        while !self.at_end('}')? {
            let Value::String(name) = self.value(depth + 1)? else {
                return Err("the name of an entry is not a text".into());
            };
            self.skip();
            if !self.take(":") {
                return Err(format!("expected \":\" behind {name:?}"));
            }
            let value = self.value(depth + 1)?;
            entries.insert(name, value);
            self.separator('}')?;
        }
        Ok(Value::Object(entries))
    }

    fn at_end(&mut self, end: char) -> Parsed<bool> {
        self.skip();
        match self.peek() {
            None => Err(format!("expected {end:?}")),
            Some(c) if c == end => {
                self.next();
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    /// A comma, unless the end is next.
    fn separator(&mut self, end: char) -> Parsed<()> {
        self.skip();
        if self.take(",") || self.peek() == Some(end) {
            return Ok(());
        }
        Err(format!("expected \",\" or {end:?}"))
    }
}

/// A whole number as Python's `int(text, 0)` reads it: decimal, `0x`, `0o` or `0b`.
pub(super) fn integer(text: &str) -> Option<i128> {
    let text = text.trim();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = [(16, "0x"), (8, "0o"), (2, "0b")]
        .into_iter()
        .find_map(|(radix, prefix)| Some((radix, lower.strip_prefix(prefix)?)))
        .unwrap_or((10, &lower));
    let digits: String = digits.split('_').collect();
    let is_valid = digits.chars().all(|c| c.is_digit(radix));
    let number = i128::from_str_radix(&digits, radix).ok().filter(|_| is_valid)?;
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_literals_of_python_are_read() {
        let expected = json!({"dpid": 1, "match": {"dl_vlan": "0x1000"}, "actions": [{"port": 2}], "none": null});
        for text in [
            r#"{"dpid": 1, "match": {"dl_vlan": "0x1000"}, "actions": [{"port": 2}], "none": null}"#,
            "{'dpid': 0x1, 'match': {u'dl_vlan': '0x' '1000'}, 'actions': ({'port': 2},), 'none': None,}",
            "{\"dpid\": 1, # the switch\n \"match\": {\"dl_vlan\": \"\\x30x1000\"}, 'actions': [{'port': 0b10},], 'none': None}",
        ] {
            assert_eq!(parse(text), Ok(expected.clone()), "{text}");
        }
        assert_eq!(
            parse(r#"["\u00e9\ud83d\ude00", -1, 1.5, True]"#),
            Ok(json!(["é😀", -1, 1.5, true]))
        );
        assert_eq!(parse("18446744073709551615"), Ok(json!(u64::MAX)));
    }

    #[test]
    fn errors_name_the_place() {
        let deep = "[".repeat(10_000);
        for (text, error) in [
            ("", "line 1, column 1: unexpected end"),
            ("{\n 'dpid' 1}", "line 2, column 9: expected \":\" behind \"dpid\""),
            ("{dpid: 1}", "line 1, column 2: unexpected \"dpid\": names have quotes"),
            ("{'a': 1 'b': 2}", "line 1, column 9: expected \",\" or '}'"),
            ("{1: 2}", "line 1, column 3: the name of an entry is not a text"),
            ("[1", "line 1, column 3: expected \",\" or ']'"),
            ("'a", "line 1, column 1: a text without end"),
            ("'\\u12'", "line 1, column 4: expected 4 hexadecimal digits"),
            ("'\\ud800'", "line 1, column 8: no character has the number 0xd800"),
            ("1 2", "line 1, column 3: something behind the value"),
            (
                "18446744073709551616",
                "line 1, column 1: \"18446744073709551616\" is not a number of up to 64 bits",
            ),
            ("@", "line 1, column 1: unexpected '@'"),
            (&deep, "line 1, column 34: nested deeper than 32"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text:.40}");
        }
    }
}
