//! Shows a text again and again: redrawn on a terminal, one after the other in a pipe.

use std::io::{IsTerminal as _, stdout};
use std::str::FromStr;
use std::time::Duration;

use sluice_io::clock;

use crate::show_events::utc;
use crate::write_to_reader;

/// The shortest interval: more would keep the controller busy.
const INTERVAL_MIN_S: f64 = 0.5;

/// The longest interval.
const INTERVAL_MAX_S: f64 = 3600.0;

/// Time between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchInterval(pub(crate) Duration);

impl FromStr for WatchInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds: Option<f64> = text.parse().ok();
        let valid = seconds.filter(|s| (INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(s));
        valid.map(|s| Self(Duration::from_secs_f64(s))).ok_or_else(|| {
            format!("expected seconds from {INTERVAL_MIN_S} to {INTERVAL_MAX_S}, such as 2 or 0.5")
        })
    }
}

/// Shows what `text` returns until Ctrl-C, or until nobody reads it. An error is shown as well, since the next reading may succeed,
/// but the first one ends it.
pub(crate) fn show_repeatedly(
    interval: WatchInterval,
    mut text: impl FnMut() -> Result<String, String>,
) -> Result<(), String> {
    let is_terminal = stdout().is_terminal();
    let mut shown = text()?;
    loop {
        let time = utc(clock::since_epoch().as_secs_f64());
        if !write_to_reader(&frame(&format!("{time}\n{shown}"), is_terminal))? {
            return Ok(());
        }
        clock::sleep(interval.0);
        shown = text().unwrap_or_else(|error| format!("error: {error}\n"));
    }
}

/// A text that replaces the screen of a terminal, without flicker; in a pipe, a text with an empty line behind it.
fn frame(text: &str, is_terminal: bool) -> String {
    if !is_terminal {
        return format!("{text}\n");
    }
    // To the top; each line and what is below the last one is cleared.
    let lines: String = text.lines().flat_map(|line| [line, "\x1b[K\r\n"]).collect();
    format!("\x1b[H{lines}\x1b[J")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_no_escape_codes() {
        assert_eq!(frame("a\nb\n", false), "a\nb\n\n");
        assert_eq!(frame("a\nb\n", true), "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J");
    }

    #[test]
    fn intervals_are_seconds_within_limits() {
        assert_eq!("2".parse(), Ok(WatchInterval(Duration::from_secs(2))));
        assert_eq!("0.5".parse(), Ok(WatchInterval(Duration::from_millis(500))));
        for text in ["0", "-1", "nan", "inf", "3601", "s1", ""] {
            assert!(text.parse::<WatchInterval>().is_err(), "{text}");
        }
    }
}
