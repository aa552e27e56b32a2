//! Why a network cannot go on.

use std::fmt;
use std::time::Duration;

use crate::topology::PortRef;

/// Why a network cannot go on, or cannot do what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkError {
    /// One frame was sent more often within a second than a network without a storm would.
    BroadcastStorm {
        /// How often, by then.
        copies: u64,
        /// Since the start.
        at: Duration,
    },
    /// More frames are on their way than may be.
    TooManyFrames {
        /// Since the start.
        at: Duration,
    },
    /// More bytes wait at one end of the control link of this switch than may.
    ControlBacklog(usize),
    /// Somebody wants to be told the time again and again, and it does not pass.
    TimeStuck {
        /// Since the start.
        at: Duration,
    },
    /// There is no link, host or switch of this number.
    NotFound {
        /// Which list it is not in.
        what: &'static str,
        /// Its index.
        index: usize,
    },
    /// The port is not there, or something is attached to it already.
    PortUnavailable(PortRef),
    /// A switch has more ports than a model switch can.
    TooManyPorts(usize),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BroadcastStorm { copies, at } => {
                write!(
                    f,
                    "a storm: one frame was sent {copies} times within a second, {at:?} after the start"
                )
            }
            Self::TooManyFrames { at } => {
                write!(
                    f,
                    "more than {} frames on their way, {at:?} after the start",
                    super::FRAMES_MAX
                )
            }
            Self::ControlBacklog(switch) => {
                write!(f, "too much waits at one end of the control link of switch {switch}")
            }
            Self::TimeStuck { at } => {
                write!(f, "time does not pass any more, {at:?} after the start")
            }
            Self::NotFound { what, index } => write!(f, "no {what} has the number {index}"),
            Self::PortUnavailable(PortRef { switch, port }) => {
                write!(f, "port {port} of switch {switch} is not there, or taken")
            }
            Self::TooManyPorts(switch) => write!(f, "switch {switch} has too many ports"),
        }
    }
}

impl std::error::Error for NetworkError {}
