//! What a link is told while it runs: a line for each thing.

use std::fmt;

use super::settings::{Change, NAMES};
use super::units::BadValue;

/// The longest line that is read, bytes.
pub const LINE_MAX: usize = 256;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the first end to the second.
    Up,
    /// From the second end to the first.
    Down,
}

impl Way {
    /// Both, up first.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A thing for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Both<T> {
    /// From the first end to the second.
    pub up: T,
    /// From the second end to the first.
    pub down: T,
}

impl<T> Both<T> {
    /// What `make` makes of each direction.
    pub fn of(mut make: impl FnMut(Way) -> T) -> Self {
        Self { up: make(Way::Up), down: make(Way::Down) }
    }

    /// That of `way`.
    pub const fn at(&self, way: Way) -> &T {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// That of `way`, to change.
    pub const fn at_mut(&mut self, way: Way) -> &mut T {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }
}

/// What a link is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Change a setting, of one direction or of both.
    Set(Both<Option<Change>>),
    /// Say how it is.
    Show,
}

/// Why a line is no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadLine {
    /// It begins with no word that is known.
    Unknown(String),
    /// The setting has no value.
    Missing(&'static str),
    /// A direction and values for both.
    TwoValues(&'static str),
    /// The value is none of that setting.
    Value(&'static str, BadValue),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(line) => write!(
                f,
                "{line:?} is not understood: say show, or a setting ({}) and its value, with up or \
                 down before it for one direction",
                NAMES.join(", ")
            ),
            Self::Missing(name) => write!(f, "{name}: its value is missing"),
            Self::TwoValues(name) => write!(f, "{name}: one direction takes one value"),
            Self::Value(name, bad) => write!(f, "{name}: {bad}"),
        }
    }
}

impl std::error::Error for BadLine {}

impl Order {
    /// Reads a line: `show`, `delay 50ms`, `delay 25ms,50ms` (up, then down), or `up rate 10Mbit`. What follows a `#` is
    /// for people; `None` if there is nothing else.
    ///
    /// # Errors
    /// See [`BadLine`].
    pub fn parse(line: &str) -> Option<Result<Self, BadLine>> {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let read = match (first, rest) {
            ("", _) => return None,
            ("show", "") => Ok(Self::Show),
            ("up", rest) => one(Way::Up, line, rest),
            ("down", rest) => one(Way::Down, line, rest),
            (name, values) => known(name, line).and_then(|name| both(name, values)).map(Self::Set),
        };
        Some(read)
    }
}

/// Reads the value of a setting for both directions, or one for each: `25ms` or `25ms,50ms`.
///
/// # Errors
/// See [`BadLine`].
pub fn both(name: &'static str, values: &str) -> Result<Both<Option<Change>>, BadLine> {
    let (up, down) = values.split_once(',').unwrap_or((values, values));
    Ok(Both { up: Some(change(name, up)?), down: Some(change(name, down)?) })
}

fn one(way: Way, line: &str, rest: &str) -> Result<Order, BadLine> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = known(name, line)?;
    if value.contains(',') {
        return Err(BadLine::TwoValues(name));
    }
    let mut set = Both::default();
    *set.at_mut(way) = Some(change(name, value)?);
    Ok(Order::Set(set))
}

fn known(name: &str, line: &str) -> Result<&'static str, BadLine> {
    let found = NAMES.into_iter().find(|known| *known == name);
    found.ok_or_else(|| BadLine::Unknown(line.chars().take(LINE_MAX).collect()))
}

fn change(name: &'static str, value: &str) -> Result<Change, BadLine> {
    match Change::parse(name, value.trim()) {
        _ if value.trim().is_empty() => Err(BadLine::Missing(name)),
        Some(Ok(change)) => Ok(change),
        Some(Err(bad)) => Err(BadLine::Value(name, bad)),
        None => Err(BadLine::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn delay(ms: u64) -> Change {
        Change::Delay(Duration::from_millis(ms))
    }

    #[test]
    fn a_line_changes_both_directions_or_one() {
        for (line, up, down) in [
            ("delay 50ms", Some(delay(50)), Some(delay(50))),
            ("  delay\t25ms, 50ms  # far away", Some(delay(25)), Some(delay(50))),
            ("up delay 7ms", Some(delay(7)), None),
            ("down  delay  7ms", None, Some(delay(7))),
        ] {
            assert_eq!(Order::parse(line), Some(Ok(Order::Set(Both { up, down }))), "{line}");
        }
        assert_eq!(Order::parse("show"), Some(Ok(Order::Show)));
        for line in ["", "   ", "# nothing"] {
            assert_eq!(Order::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_what_is_wrong() {
        for (line, words) in [
            ("dealy 50ms", "\"dealy 50ms\" is not understood"),
            ("show me", "is not understood"),
            ("up", "is not understood"),
            ("up show", "is not understood"),
            ("delay", "delay: its value is missing"),
            ("up rate ", "rate: its value is missing"),
            ("delay 1ms,", "delay: its value is missing"),
            ("up delay 1ms,2ms", "delay: one direction takes one value"),
            ("rate 5", "rate: \"5\" is not a rate"),
            ("delay 1ms,2ms,3ms", "delay: \"2ms,3ms\" is not a time"),
        ] {
            let said = Order::parse(line).unwrap().unwrap_err().to_string();
            assert!(said.contains(words), "{line}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
