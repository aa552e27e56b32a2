//! The settings of the application.

use std::time::Duration;

use super::{Secret, StaticBundle, UnexpectedLinks, WallClock};

/// Settings of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Time between two LLDP probes of a port; at least 250 ms.
    pub probe_interval: Duration,
    /// LLDP probes that a worker sends per second at most. With more ports, each is probed less often.
    pub probes_per_s_max: u32,
    /// Time without a received probe after which a port becomes an edge port. The longest round-trip time of the control
    /// connections is used instead if it is longer.
    pub settle: Duration,
    /// Time between two broadcast probes of a port; at least 250 ms.
    pub shared_interval: Duration,
    /// What to do with a link that appears between two edge ports.
    pub unexpected_links: UnexpectedLinks,
    /// Ports that lead to one device. No port is in two of them.
    pub bundles: Vec<StaticBundle>,
    /// Key that signs probes; `None` for a random key of this process.
    pub secret: Option<Secret>,
    /// Time of day, which several processes with the same secret need to agree on the age of probes.
    pub clock: Option<WallClock>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(1),
            // About 1.5 % of a core: lab/discovery.
            probes_per_s_max: 3000,
            settle: Duration::from_millis(250),
            shared_interval: Duration::from_secs(5),
            unexpected_links: UnexpectedLinks::Report,
            bundles: Vec::new(),
            secret: None,
            clock: None,
        }
    }
}
