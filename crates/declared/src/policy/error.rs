//! Why a policy is not put into effect.

use std::fmt;

use sluice_openflow::DatapathId;

use super::{POLICIES_ENTRIES_MAX, POLICIES_MAX, POLICY_ENTRIES_MAX, POLICY_FLOWS_MAX};
use crate::EntryError;

/// What is wrong with a flow entry of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowError {
    /// Its name.
    pub flow: String,
    /// What is wrong.
    pub message: String,
}

/// Why a policy is not put into effect, or not removed. Packets are processed as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyError {
    /// The name of the policy is invalid.
    Name(String),
    /// Flow entries are invalid.
    Flows(Vec<FlowError>),
    /// No policy has this name.
    NotFound(String),
    /// It has no flow entry.
    NoFlows,
    /// No switch is connected.
    NoSwitch,
    /// There are [`POLICIES_MAX`] policies.
    TooManyPolicies,
    /// There are more than [`POLICY_FLOWS_MAX`] flow entries.
    TooManyFlows(usize),
    /// The switches would get more than [`POLICY_ENTRIES_MAX`] flow entries.
    TooManyEntries,
    /// The texts of these entries are too long.
    TooLong,
    /// All policies would have more than [`POLICIES_ENTRIES_MAX`] flow entries.
    TooManyOfAll,
    /// All VLAN ids for tags are in use.
    NoTag {
        /// How many there are.
        tags: usize,
    },
    /// A switch of the policy is not connected.
    NotConnected(String),
    /// The switch has no bundles: its entries cannot be replaced at once.
    NoBundles(DatapathId),
    /// It is not known yet what a port is connected to.
    PortPending {
        /// The switch.
        switch: DatapathId,
        /// The port.
        port: u32,
    },
    /// Ports, links or switches have changed meanwhile.
    NetworkChanged,
    /// A switch has not confirmed the transit entries.
    Unconfirmed {
        /// The switch.
        switch: DatapathId,
        /// Why.
        reason: String,
    },
}

impl From<EntryError> for FlowError {
    fn from(error: EntryError) -> Self {
        Self { flow: error.key.name, message: error.message }
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {:?}: {}", self.flow, self.message)
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(message) => f.write_str(message),
            Self::Flows(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&errors.join("; "))
            }
            Self::NotFound(name) => write!(f, "no policy is named {name:?}"),
            Self::NoFlows => f.write_str("no flow entry: remove the policy instead"),
            Self::NoSwitch => f.write_str("no switch is connected"),
            Self::TooManyPolicies => write!(f, "there are {POLICIES_MAX} policies already"),
            Self::TooManyFlows(count) => {
                write!(f, "{count} flow entries (a policy has at most {POLICY_FLOWS_MAX})")
            }
            Self::TooManyEntries => write!(
                f,
                "the switches would get more than {POLICY_ENTRIES_MAX} flow entries: an entry without in_port is installed \
                 once for each port that leads out of the network"
            ),
            Self::TooLong => f.write_str("the texts of all entries that the switches would get are longer than 4 MiB"),
            Self::TooManyOfAll => write!(
                f,
                "all policies, with versions that are being replaced, would have more than {POLICIES_ENTRIES_MAX} flow entries"
            ),
            Self::NoTag { tags } => write!(
                f,
                "all {tags} VLAN ids of policies.vlans are in use: wait until a replaced policy is retired, or configure more"
            ),
            Self::NotConnected(switch) => write!(
                f,
                "switch {switch} is not connected: packets that enter there would keep to the previous version"
            ),
            Self::NoBundles(switch) => write!(
                f,
                "switch {switch} has no bundles, so it cannot replace its entries at once (OpenFlow 1.4 and later have them, \
                 and Open vSwitch with 1.3)"
            ),
            Self::PortPending { switch, port } => write!(
                f,
                "it is not known yet what port {port} of switch {switch} is connected to: try again; \
                 links are found by the application topology"
            ),
            Self::NetworkChanged => f.write_str(
                "nothing was changed: ports, links or switches of the policy have changed meanwhile; try again",
            ),
            Self::Unconfirmed { switch, reason } => {
                write!(f, "nothing was changed: switch {switch}: {reason}")
            }
        }
    }
}

impl std::error::Error for PolicyError {}
