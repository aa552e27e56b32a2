//! Errors of an emulated or simulated network.

use std::fmt;
use std::time::Duration;

use crate::topology::PortRef;

/// Why a network cannot go on, or rejected an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkError {
    /// One frame was sent more often within a second than is possible without a broadcast storm.
    BroadcastStorm {
        /// How often it was sent.
        copies: u64,
        /// Time since the start.
        at: Duration,
    },
    /// More than [`FRAMES_MAX`](super::FRAMES_MAX) frames are in flight.
    TooManyFrames {
        /// Time since the start.
        at: Duration,
    },
    /// Too many bytes wait at one end of the control link of this switch.
    ControlBacklog(usize),
    /// Events cause further events at the same time without end.
    TimeStuck {
        /// Time since the start.
        at: Duration,
    },
    /// There is no link, host or switch with this index.
    NotFound {
        /// `link`, `host` or `switch`.
        what: &'static str,
        /// The index.
        index: usize,
    },
    /// The port does not exist, or is in use.
    PortUnavailable(PortRef),
    /// This switch has more ports than an emulated switch can have.
    TooManyPorts(usize),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BroadcastStorm { copies, at } => write!(
                f,
                "broadcast storm: one frame was sent {copies} times within a second, {at:.1?} after the start; the \
                 controller floods into a loop of the topology"
            ),
            Self::TooManyFrames { at } => {
                write!(
                    f,
                    "more than {} frames in flight, {at:.1?} after the start",
                    super::FRAMES_MAX
                )
            }
            Self::ControlBacklog(switch) => {
                write!(f, "too many bytes wait at one end of the control link of switch {switch}")
            }
            Self::TimeStuck { at } => {
                write!(f, "events follow each other without time passing, {at:.1?} after the start")
            }
            Self::NotFound { what, index } => write!(f, "no {what} has the index {index}"),
            Self::PortUnavailable(PortRef { switch, port }) => {
                write!(f, "port {port} of switch {switch} does not exist or is in use")
            }
            Self::TooManyPorts(switch) => write!(f, "switch {switch} has too many ports"),
        }
    }
}

impl std::error::Error for NetworkError {}
