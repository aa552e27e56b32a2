//! Switches, their ports and the links between them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use sluice_openflow::{DatapathId, FixedString, MacAddr, PortNo};

use super::AppEvent;

/// A port of a particular switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchPort {
    /// The switch.
    pub switch: DatapathId,
    /// The port of that switch.
    pub port: PortNo,
}

impl SwitchPort {
    pub(super) const FIRST: Self = Self::new(DatapathId(0), PortNo(0));
    pub(super) const LAST: Self = Self::new(DatapathId(u64::MAX), PortNo(u32::MAX));

    /// Port `port` of `switch`.
    pub const fn new(switch: DatapathId, port: PortNo) -> Self {
        Self { switch, port }
    }

    /// All ports that `switch` can have, in their order.
    pub const fn all_of(switch: DatapathId) -> RangeInclusive<Self> {
        Self::new(switch, PortNo(0))..=Self::new(switch, PortNo(u32::MAX))
    }
}

impl fmt::Display for SwitchPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.switch, self.port)
    }
}

/// What a port is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortRole {
    /// Not known yet. Nothing is flooded to the port, and no hosts are learnt there.
    #[default]
    Pending,
    /// Hosts, or an unmanaged segment that no other port is connected to.
    Edge,
    /// Another switch of this network.
    Link,
    /// An unmanaged segment that several ports are connected to. Only the port given here is used for it.
    SharedSegment(SwitchPort),
    /// One of several ports to one device, as configured. The port given here is used for it; what the others receive counts as
    /// received there. A port that is down has this role if another one is used instead of it.
    Bundle(SwitchPort),
}

impl PortRole {
    /// The port at which hosts are whose packets arrive at `at`, which has this role. See
    /// [`NetworkView::attachment_port`](super::NetworkView::attachment_port).
    #[inline]
    pub fn attachment_port(self, at: SwitchPort) -> Option<SwitchPort> {
        match self {
            Self::Edge => Some(at),
            Self::SharedSegment(designated) => (designated == at).then_some(at),
            Self::Bundle(used) => Some(used),
            Self::Pending | Self::Link => None,
        }
    }
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Name of the port on the switch.
    pub name: FixedString<16>,
    /// Ethernet address of the port.
    pub hw_addr: MacAddr,
    /// Whether the port is enabled and its link is up.
    pub is_up: bool,
    /// What the port is connected to.
    pub role: PortRole,
}

/// A connected switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchInfo {
    /// Its ports, without reserved ones such as `LOCAL`.
    pub ports: BTreeMap<PortNo, PortInfo>,
}

/// One direction of a link between two switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The port that sends.
    pub from: SwitchPort,
    /// The port that receives.
    pub to: SwitchPort,
}

/// Frames of one host are received at both of these ports: something that is not known yet may connect them. Whoever finds links and
/// segments can look for it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuspectedConnection {
    /// The two ports.
    pub ports: [SwitchPort; 2],
}

impl AppEvent for SuspectedConnection {}
