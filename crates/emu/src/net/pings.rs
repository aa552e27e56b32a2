//! Pings between hosts of a simulated network.

use std::net::IpAddr;
use std::time::Duration;

use sluice_base::HashMap;
use sluice_openflow::VlanId;

use crate::host::HostEvent;
use crate::topology::{HostNode, Topology};

use super::{Controller, NetworkError, NetworkSimulation};

/// Which addresses are pinged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4 with ARP.
    V4,
    /// IPv6 with neighbour discovery.
    V6,
}

impl IpFamily {
    /// The address of a host.
    pub fn address_of(self, host: &HostNode) -> IpAddr {
        match self {
            Self::V4 => host.ipv4.into(),
            Self::V6 => host.ipv6.into(),
        }
    }
}

/// The results of pings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PingSummary {
    /// Number of pings answered.
    pub answered: u64,
    /// Pairs whose ping was lost, as indices of hosts.
    pub lost_pairs: Vec<(usize, usize)>,
    /// Longest round-trip time.
    pub rtt_max: Duration,
}

impl PingSummary {
    /// All ordered pairs of hosts in the same VLAN.
    pub fn all_pairs(topology: &Topology) -> impl Iterator<Item = (usize, usize)> + use<> {
        let hosts = topology.hosts.iter();
        let vlans: Vec<_> = hosts.map(|node| node.vlan.unwrap_or(VlanId(0))).collect();
        let n = vlans.len();
        let pairs = (0..n).flat_map(move |from| (0..n).map(move |to| (from, to)));
        pairs.filter(move |&(from, to)| from != to && vlans.get(from) == vlans.get(to))
    }
}

impl<C: Controller> NetworkSimulation<C> {
    /// Lets hosts ping each other, all at once, and runs the network until each ping has its reply or `timeout` has
    /// passed.
    /// Other events of hosts are discarded.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for); there is no such host.
    pub fn ping(
        &mut self,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        family: IpFamily,
        timeout: Duration,
    ) -> Result<PingSummary, NetworkError> {
        let (mut open, mut pings) = (HashMap::default(), PingSummary::default());
        let until = self.now + timeout;
        for (from, to) in pairs {
            let host = self.data_plane.topology().hosts.get(to);
            let ip =
                family.address_of(host.ok_or(NetworkError::NotFound { what: "host", index: to })?);
            self.data_plane.ping(self.now, from, ip, timeout)?;
            open.insert((from, ip), to);
        }
        let mut goes_on = true;
        while goes_on && !open.is_empty() {
            goes_on = self.step(until)?;
            for (from, outcome) in self.data_plane.take_host_events() {
                let HostEvent::Ping(ping) = outcome else { continue };
                let Some(to) = open.remove(&(from, ping.to)) else { continue };
                match ping.rtt {
                    Some(took) => {
                        pings.answered += 1;
                        pings.rtt_max = pings.rtt_max.max(took);
                    }
                    None => pings.lost_pairs.push((from, to)),
                }
            }
        }
        pings.lost_pairs.extend(open.into_iter().map(|((from, _), to)| (from, to)));
        pings.lost_pairs.sort_unstable();
        Ok(pings)
    }
}
