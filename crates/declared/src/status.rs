//! The state of an entry in a switch.

use std::fmt;
use std::time::{Duration, Instant};

/// The present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For intervals.
    pub at: Instant,
    /// For people: since 1970-01-01 UTC.
    pub unix: Duration,
}

/// Whether a switch has an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The switch has it: a barrier or a reading has confirmed that.
    Installed,
    /// Not known, or not yet, and why.
    Pending(String),
    /// The switch has refused it, and why. Tried again at growing intervals.
    Refused(String),
}

impl State {
    /// Not connected.
    pub const NOT_CONNECTED: &str = "switch not connected";

    /// The higher, the worse.
    pub fn severity(&self) -> u8 {
        match self {
            Self::Installed => 0,
            Self::Pending(_) => 1,
            Self::Refused(_) => 2,
        }
    }

    /// `installed`, `pending` or `refused`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Pending(_) => "pending",
            Self::Refused(_) => "refused",
        }
    }

    /// Why it is not installed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Installed => None,
            Self::Pending(reason) | Self::Refused(reason) => Some(reason),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// The state of an entry in a switch, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: State,
    /// Since 1970-01-01 UTC.
    pub since: Duration,
    /// What is to be known of an entry that is installed.
    pub note: Option<&'static str>,
}
