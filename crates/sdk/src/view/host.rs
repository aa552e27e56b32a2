//! Hosts and the ports to which they are attached.

use std::fmt;
use std::net::IpAddr;

use sluice_openflow::{MacAddr, VlanId};

use super::SwitchPort;

/// Identity of a host: an Ethernet address in a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId {
    /// Ethernet address.
    pub mac: MacAddr,
    /// VLAN in which the host was seen; 0 is untagged.
    pub vlan: VlanId,
}

impl HostId {
    pub(super) const FIRST: Self = Self { mac: MacAddr([0; 6]), vlan: VlanId(0) };
    pub(super) const LAST: Self = Self { mac: MacAddr::BROADCAST, vlan: VlanId(u16::MAX) };
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vlan {
            VlanId(0) => write!(f, "{}", self.mac),
            VlanId(vlan) => write!(f, "{} in VLAN {vlan}", self.mac),
        }
    }
}

/// A host that is attached to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The port to which it is attached.
    pub at: SwitchPort,
    /// IP addresses that it was seen to use, the most recent last.
    pub addrs: Vec<IpAddr>,
}
