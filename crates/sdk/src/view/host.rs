//! Hosts and the ports to which they are attached.

use std::fmt;
use std::net::IpAddr;

use sluice_openflow::{MacAddr, VlanId};

use super::{AppEvent, SwitchPort};

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

/// A host may have left its port, and cannot be asked, since none of its IP addresses is known. Whoever has flow entries for packets
/// of the host from this port deletes them, so that the next packet reaches the applications and shows that it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostInDoubt {
    /// The host.
    pub host: HostId,
    /// The port to which it is attached.
    pub at: SwitchPort,
}

impl AppEvent for HostInDoubt {}
