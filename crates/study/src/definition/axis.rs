//! What is varied between the cells of an experiment.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What is varied between the cells of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Threads of the controller.
    Threads,
    /// The controller's cores, such as `0` or `0,1`, or one of [`SocketCores`].
    Cores,
    /// Emulated switches.
    Switches,
    /// Outstanding requests of each switch.
    Window,
    /// Outstanding requests of all switches together.
    WindowTotal,
    /// Requests per second, open loop.
    Rate,
    /// Share of requests with a source address that was never used before.
    NewSources,
    /// Hosts of each switch.
    Hosts,
    /// Connections per second that are opened beside the load and never complete a handshake.
    Flood,
    /// Changes per second of a network beside the load: links that go down, switches that lose their connections.
    Churn,
    /// One of the controller's variants.
    Variant,
    /// A topology, as `sluice emu --topo` takes it.
    Topology,
    /// One-way delay of the control link in milliseconds.
    DelayMs,
    /// Rate of the control link in Mbit/s.
    RateMbit,
    /// Share of invalid messages.
    Invalid,
    /// Length of the data frames in bytes.
    FrameBytes,
}

impl Axis {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Cores => "cores",
            Self::Switches => "switches",
            Self::Window => "window",
            Self::WindowTotal => "window-total",
            Self::Rate => "rate",
            Self::NewSources => "new-sources",
            Self::Hosts => "hosts",
            Self::Flood => "flood",
            Self::Churn => "churn",
            Self::Variant => "variant",
            Self::Topology => "topology",
            Self::DelayMs => "delay-ms",
            Self::RateMbit => "rate-mbit",
            Self::Invalid => "invalid",
            Self::FrameBytes => "frame-bytes",
        }
    }
}

/// Names of sets of cores that depend on the machine, as values of the axis `cores`: as many cores as the controller has threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketCores {
    /// All in one socket.
    OneSocket,
    /// Distributed over two sockets.
    TwoSockets,
}

impl SocketCores {
    /// The set with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "one-socket" => Some(Self::OneSocket),
            "two-sockets" => Some(Self::TwoSockets),
            _ => None,
        }
    }
}

/// The value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl AxisValue {
    /// The value as a number, if it is one.
    #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^53")]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Number(n) => Some(*n),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => n.fmt(f),
            Self::Number(n) => n.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A combination of values of the axes.
pub type Cell = BTreeMap<Axis, AxisValue>;
