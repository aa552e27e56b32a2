//! A shortest path between two hosts.

use std::collections::{BTreeMap, VecDeque};

use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::PortNo;

/// A switch on a path, with the ports at which frames arrive and leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    /// Index of the switch.
    pub(super) switch: usize,
    pub(super) in_port: PortNo,
    pub(super) out_port: PortNo,
}

/// The switches of a shortest path from host `from` to host `to`; `None` if there is no path.
pub(super) fn shortest(topology: &Topology, from: usize, to: usize) -> Option<Vec<Hop>> {
    let (start, end) = (topology.hosts.get(from)?.port, topology.hosts.get(to)?.port);
    let mut peers: BTreeMap<usize, Vec<(PortRef, PortRef)>> = BTreeMap::new();
    for link in &topology.links {
        peers.entry(link.a.switch).or_default().push((link.a, link.b));
        peers.entry(link.b.switch).or_default().push((link.b, link.a));
    }
    // The link by which each switch was reached first.
    let mut reached: BTreeMap<usize, Option<(PortRef, PortRef)>> = [(start.switch, None)].into();
    let mut queue = VecDeque::from([start.switch]);
    while let Some(switch) = queue.pop_front() {
        for &(own, peer) in peers.get(&switch).into_iter().flatten() {
            reached.entry(peer.switch).or_insert_with(|| {
                queue.push_back(peer.switch);
                Some((own, peer))
            });
        }
    }
    let (mut hops, mut out) = (Vec::new(), end);
    loop {
        match *reached.get(&out.switch)? {
            None => {
                hops.push(Hop { switch: out.switch, in_port: start.port, out_port: out.port });
                hops.reverse();
                return Some(hops);
            }
            Some((before, arrival)) => {
                hops.push(Hop { switch: out.switch, in_port: arrival.port, out_port: out.port });
                out = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_from_port_to_port() {
        let topology = Topology::from_text("leafspine,2,4,2").unwrap();
        let hops = shortest(&topology, 0, 7).unwrap();
        assert_eq!(hops.len(), 3);
        assert_eq!(hops[0].switch, topology.hosts[0].port.switch);
        assert_eq!(hops[0].in_port, topology.hosts[0].port.port);
        assert_eq!(hops[2].out_port, topology.hosts[7].port.port);
        for pair in hops.windows(2) {
            let out = PortRef { switch: pair[0].switch, port: pair[0].out_port };
            let into = PortRef { switch: pair[1].switch, port: pair[1].in_port };
            assert!(topology.links.iter().any(|link| {
                (link.a, link.b) == (out, into) || (link.b, link.a) == (out, into)
            }));
        }
    }

    #[test]
    fn two_hosts_of_one_switch_have_a_path_of_one_switch() {
        let topology = Topology::from_text("single,3").unwrap();
        assert_eq!(shortest(&topology, 0, 2).unwrap().len(), 1);
        assert_eq!(shortest(&topology, 0, 9), None);
    }
}
