//! What a link is told while it runs: a line for each thing.

use std::fmt;

use super::impairments::{IMPAIRMENT_NAMES, ImpairmentChange};
use super::units::ValueError;

/// The longest line that is read, bytes.
pub const LINE_MAX: usize = 256;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first end to the second.
    Up,
    /// From the second end to the first.
    Down,
}

impl Direction {
    /// Both, up first.
    pub const ALL: [Self; 2] = [Self::Up, Self::Down];

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
pub struct PerDirection<T> {
    /// From the first end to the second.
    pub up: T,
    /// From the second end to the first.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// What `make` makes of each direction.
    pub fn from_fn(mut make: impl FnMut(Direction) -> T) -> Self {
        Self { up: make(Direction::Up), down: make(Direction::Down) }
    }

    /// That of `way`.
    pub const fn get(&self, way: Direction) -> &T {
        match way {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// That of `way`, to change.
    pub const fn get_mut(&mut self, way: Direction) -> &mut T {
        match way {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

/// What a link is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkCommand {
    /// Change a setting, of one direction or of both.
    Set(PerDirection<Option<ImpairmentChange>>),
    /// Say how it is.
    Show,
}

/// Why a line is no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// It begins with no word that is known.
    Unknown(String),
    /// The setting has no value.
    MissingValue(&'static str),
    /// A direction and values for both.
    TwoValues(&'static str),
    /// The value is none of that setting.
    InvalidValue(&'static str, ValueError),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(line) => write!(
                f,
                "{line:?} is not understood: say show, or a setting ({}) and its value, with up or \
                 down before it for one direction",
                IMPAIRMENT_NAMES.join(", ")
            ),
            Self::MissingValue(name) => write!(f, "{name}: its value is missing"),
            Self::TwoValues(name) => write!(f, "{name}: one direction takes one value"),
            Self::InvalidValue(name, bad) => write!(f, "{name}: {bad}"),
        }
    }
}

impl std::error::Error for CommandError {}

impl LinkCommand {
    /// Reads a line: `show`, `delay 50ms`, `delay 25ms,50ms` (up, then down), or `up rate 10Mbit`. What follows a `#` is
    /// for people; `None` if there is nothing else.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn parse(line: &str) -> Option<Result<Self, CommandError>> {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let read = match (first, rest) {
            ("", _) => return None,
            ("show", "") => Ok(Self::Show),
            ("up", rest) => parse_one_direction(Direction::Up, line, rest),
            ("down", rest) => parse_one_direction(Direction::Down, line, rest),
            (name, values) => find_name(name, line)
                .and_then(|name| parse_both_directions(name, values))
                .map(Self::Set),
        };
        Some(read)
    }
}

/// Reads the value of a setting for both directions, or one for each: `25ms` or `25ms,50ms`.
///
/// # Errors
/// See [`CommandError`].
pub fn parse_both_directions(
    name: &'static str,
    values: &str,
) -> Result<PerDirection<Option<ImpairmentChange>>, CommandError> {
    let (up, down) = values.split_once(',').unwrap_or((values, values));
    Ok(PerDirection { up: Some(parse_change(name, up)?), down: Some(parse_change(name, down)?) })
}

fn parse_one_direction(
    way: Direction,
    line: &str,
    rest: &str,
) -> Result<LinkCommand, CommandError> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = find_name(name, line)?;
    if value.contains(',') {
        return Err(CommandError::TwoValues(name));
    }
    let mut set = PerDirection::default();
    *set.get_mut(way) = Some(parse_change(name, value)?);
    Ok(LinkCommand::Set(set))
}

fn find_name(name: &str, line: &str) -> Result<&'static str, CommandError> {
    let found = IMPAIRMENT_NAMES.into_iter().find(|known| *known == name);
    found.ok_or_else(|| CommandError::Unknown(line.chars().take(LINE_MAX).collect()))
}

fn parse_change(name: &'static str, value: &str) -> Result<ImpairmentChange, CommandError> {
    match ImpairmentChange::parse(name, value.trim()) {
        _ if value.trim().is_empty() => Err(CommandError::MissingValue(name)),
        Some(Ok(change)) => Ok(change),
        Some(Err(bad)) => Err(CommandError::InvalidValue(name, bad)),
        None => Err(CommandError::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn delay(ms: u64) -> ImpairmentChange {
        ImpairmentChange::Delay(Duration::from_millis(ms))
    }

    #[test]
    fn a_line_changes_both_directions_or_one() {
        for (line, up, down) in [
            ("delay 50ms", Some(delay(50)), Some(delay(50))),
            ("  delay\t25ms, 50ms  # far away", Some(delay(25)), Some(delay(50))),
            ("up delay 7ms", Some(delay(7)), None),
            ("down  delay  7ms", None, Some(delay(7))),
        ] {
            assert_eq!(
                LinkCommand::parse(line),
                Some(Ok(LinkCommand::Set(PerDirection { up, down }))),
                "{line}"
            );
        }
        assert_eq!(LinkCommand::parse("show"), Some(Ok(LinkCommand::Show)));
        for line in ["", "   ", "# nothing"] {
            assert_eq!(LinkCommand::parse(line), None, "{line:?}");
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
            let said = LinkCommand::parse(line).unwrap().unwrap_err().to_string();
            assert!(said.contains(words), "{line}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
