//! Ports to which nothing is flooded.

use super::{AppRecord, NetworkView, SwitchPort};

/// A port to which broadcasts, multicasts and packets to unknown destinations are not flooded, since the only host there is in
/// quarantine. Published through [`Controller::publish`](crate::Controller::publish).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolatedPort;

impl AppRecord for IsolatedPort {
    type Key = SwitchPort;
}

impl NetworkView {
    /// Whether nothing is flooded to a port.
    pub fn is_isolated(&self, at: SwitchPort) -> bool {
        self.record::<IsolatedPort>(at).is_some()
    }
}
