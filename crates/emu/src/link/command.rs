//! Commands that change a link or query it while it runs, one per line.

use std::fmt;

use super::impairments::{IMPAIRMENT_NAMES, ImpairmentChange};
use super::units::ValueError;

/// Longest command line, in bytes.
pub const LINE_MAX: usize = 256;

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first endpoint to the second.
    Up,
    /// From the second endpoint to the first.
    Down,
}

impl Direction {
    /// Both directions, up first.
    pub const ALL: [Self; 2] = [Self::Up, Self::Down];

    /// The name in commands and reports: `up` or `down`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// One value for each direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerDirection<T> {
    /// From the first endpoint to the second.
    pub up: T,
    /// From the second endpoint to the first.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// Calls `make` for each direction, up first.
    pub fn from_fn(mut make: impl FnMut(Direction) -> T) -> Self {
        Self { up: make(Direction::Up), down: make(Direction::Down) }
    }

    /// The value of `direction`.
    pub const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Mutable access to the value of `direction`.
    pub const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

/// A command to a running link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkCommand {
    /// Changes one impairment, in one direction or both.
    Set(PerDirection<Option<ImpairmentChange>>),
    /// Prints a report.
    Show,
}

/// Why a command was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// Neither `show` nor an impairment, with the line.
    Unknown(String),
    /// The impairment has no value.
    MissingValue(&'static str),
    /// A direction was given together with two values.
    TwoValues(&'static str),
    /// The value is invalid for this impairment.
    InvalidValue(&'static str, ValueError),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(line) => write!(
                f,
                "unknown command {line:?}: expected show, or {} with a value, after up or down for one \
                 direction",
                IMPAIRMENT_NAMES.join(", ")
            ),
            Self::MissingValue(name) => write!(f, "{name}: missing value"),
            Self::TwoValues(name) => write!(f, "{name}: expected one value for one direction"),
            Self::InvalidValue(name, bad) => write!(f, "{name}: {bad}"),
        }
    }
}

impl std::error::Error for CommandError {}

impl LinkCommand {
    /// Parses a line: `show`, `delay 50ms`, `delay 25ms,50ms` (up, then down), or `up rate 10Mbit`. A `#` starts a
    /// comment; `None` for a line without a command.
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

/// Parses the value of an impairment for both directions, or one for each: `25ms` or `25ms,50ms`.
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
    direction: Direction,
    line: &str,
    rest: &str,
) -> Result<LinkCommand, CommandError> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = find_name(name, line)?;
    if value.contains(',') {
        return Err(CommandError::TwoValues(name));
    }
    let mut set = PerDirection::default();
    *set.get_mut(direction) = Some(parse_change(name, value)?);
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
    fn a_command_changes_one_direction_or_both() {
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
    fn an_invalid_command_is_rejected_with_the_reason() {
        for (line, words) in [
            ("dealy 50ms", "unknown command \"dealy 50ms\""),
            ("show me", "unknown command \"show me\""),
            ("up", "unknown command \"up\""),
            ("up show", "unknown command \"up show\""),
            ("delay", "delay: missing value"),
            ("up rate ", "rate: missing value"),
            ("delay 1ms,", "delay: missing value"),
            ("up delay 1ms,2ms", "delay: expected one value for one direction"),
            ("rate 5", "rate: \"5\" is not a rate"),
            ("delay 1ms,2ms,3ms", "delay: \"2ms,3ms\" is not a time"),
        ] {
            let error = LinkCommand::parse(line).unwrap().unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
