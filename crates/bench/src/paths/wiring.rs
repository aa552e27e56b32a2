//! What the ports of a topology are connected to, and which hosts are farthest apart.

use std::collections::VecDeque;

use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::PortNo;

/// What a port is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortPeer {
    Unconnected,
    Switch(PortRef),
    Host,
}

/// The distance of switches between which there is no path.
const UNREACHABLE: u16 = u16::MAX;

/// The connections of a topology.
#[derive(Debug)]
pub(super) struct Wiring {
    /// By switch and port.
    peers: Vec<Vec<PortPeer>>,
    /// The ports of hosts.
    hosts: Vec<PortRef>,
    /// Number of links between each pair of switches; [`UNREACHABLE`] without a path.
    distances: Vec<Vec<u16>>,
    /// The greatest distance between switches with hosts.
    farthest: u16,
}

impl Wiring {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut peers: Vec<_> = topology
            .switches
            .iter()
            .map(|switch| vec![PortPeer::Unconnected; switch.n_ports as usize + 1])
            .collect();
        let mut put = |at: PortRef, end| {
            let port = peers.get_mut(at.switch).and_then(|ports| ports.get_mut(at.port.0 as usize));
            if let Some(slot) = port {
                *slot = end;
            }
        };
        for link in &topology.links {
            put(link.a, PortPeer::Switch(link.b));
            put(link.b, PortPeer::Switch(link.a));
        }
        let hosts: Vec<_> = topology.hosts.iter().map(|host| host.port).collect();
        for &at in &hosts {
            put(at, PortPeer::Host);
        }
        let distances: Vec<_> = (0..peers.len()).map(|from| distances(&peers, from)).collect();
        let mut wiring = Self { peers, hosts, distances, farthest: 0 };
        let mut at: Vec<_> = wiring.hosts.iter().map(|at| at.switch).collect();
        at.sort_unstable();
        at.dedup();
        let pairs = at.iter().flat_map(|&a| at.iter().map(move |&b| (a, b)));
        let distances = pairs.map(|(a, b)| wiring.distance(a, b));
        wiring.farthest = distances.filter(|&distance| distance != UNREACHABLE).max().unwrap_or(0);
        wiring
    }

    /// The ports of hosts.
    pub(super) fn hosts(&self) -> &[PortRef] {
        &self.hosts
    }

    /// What a port is connected to.
    pub(super) fn peer(&self, switch: usize, port: PortNo) -> PortPeer {
        let ports = self.peers.get(switch);
        ports.and_then(|ports| ports.get(port.0 as usize)).copied().unwrap_or(PortPeer::Unconnected)
    }

    /// Switches on the path between the hosts farthest apart.
    pub(super) fn path_len(&self) -> usize {
        usize::from(self.farthest) + 1
    }

    /// Whether two hosts are at the greatest distance.
    pub(super) fn is_far(&self, a: usize, b: usize) -> bool {
        match (self.hosts.get(a), self.hosts.get(b)) {
            (Some(from), Some(to)) => {
                a != b && self.distance(from.switch, to.switch) == self.farthest
            }
            _ => false,
        }
    }

    fn distance(&self, a: usize, b: usize) -> u16 {
        self.distances.get(a).and_then(|to| to.get(b)).copied().unwrap_or(UNREACHABLE)
    }
}

fn distances(peers: &[Vec<PortPeer>], from: usize) -> Vec<u16> {
    let mut distances = vec![UNREACHABLE; peers.len()];
    let mut next = VecDeque::from([(from, 0)]);
    while let Some((at, distance)) = next.pop_front() {
        match distances.get_mut(at) {
            Some(slot) if *slot == UNREACHABLE => *slot = distance,
            _ => continue,
        }
        for end in peers.get(at).into_iter().flatten() {
            if let PortPeer::Switch(there) = end {
                next.push_back((there.switch, distance + 1));
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_symmetric_and_the_farthest_hosts_are_found() {
        let wiring = Wiring::new(&Topology::from_text("leafspine,2,3,2").unwrap());
        assert_eq!((wiring.hosts().len(), wiring.path_len()), (6, 3));
        for (switch, ports) in wiring.peers.iter().enumerate() {
            for (port, end) in ports.iter().enumerate() {
                let here = PortRef { switch, port: PortNo(u32::try_from(port).unwrap()) };
                if let PortPeer::Switch(there) = *end {
                    assert_eq!(wiring.peer(there.switch, there.port), PortPeer::Switch(here));
                }
            }
        }
        let far = |a, b| wiring.is_far(a, b);
        assert!(far(0, 2) && far(5, 0) && !far(0, 1) && !far(0, 0) && !far(0, 6));
        let line = Wiring::new(&Topology::from_text("linear,5,2").unwrap());
        assert_eq!(line.path_len(), 5);
        assert!(line.is_far(0, 9) && !line.is_far(0, 7));
        let one = Wiring::new(&Topology::from_text("single,3").unwrap());
        assert!(one.path_len() == 1 && one.is_far(0, 1));
    }
}
