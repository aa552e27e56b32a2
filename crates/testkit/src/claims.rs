//! Hosts that claim the addresses of others, and what a view must contain in spite of them.

use std::net::Ipv4Addr;

use sluice_base::Rng;
use sluice_emu::net::DataPlane;
use sluice_emu::topology::HostNode;
use sluice_openflow::{MacAddr, VlanId};
use sluice_sdk::view::{HostId, NetworkView, SwitchPort};

/// An Ethernet type of no protocol.
const UNKNOWN_TYPE: [u8; 2] = [0x88, 0xb7];

/// A frame by which `liar` claims what `victim` has: its MAC address, its IP address, or both.
pub fn claim(rng: &mut Rng, liar: &HostNode, victim: &HostNode) -> Vec<u8> {
    let source = if rng.below(3) == 0 { liar.mac } else { victim.mac };
    let is_request = rng.below(2) == 0;
    let mut frame = if rng.below(3) == 0 {
        [&[2, 0, 0, 0, 0, 99], &source.0[..], &UNKNOWN_TYPE].concat()
    } else {
        arp(source, victim.ipv4, is_request)
    };
    frame.resize(60, 0);
    frame
}

/// An ARP packet that states that `mac` has the address `ip`.
pub fn arp(mac: MacAddr, ip: Ipv4Addr, is_request: bool) -> Vec<u8> {
    let types = [8, 6, 0, 1, 8, 0, 6, 4, 0, if is_request { 1 } else { 2 }];
    let ip = ip.octets();
    [&[0xff; 6], &mac.0[..], &types, &mac.0, &ip, &[0; 6], &ip].concat()
}

/// The first host that `view` does not have at a port that leads to it, or not as the owner of its IPv4 address.
pub fn misplaced_host(data_plane: &DataPlane, view: &NetworkView) -> Option<String> {
    let topology = data_plane.topology();
    topology.hosts.iter().enumerate().find_map(|(n, node)| {
        let id = HostId { mac: node.mac, vlan: node.vlan.unwrap_or(VlanId(0)) };
        let known_at = view.host(id).map(|host| host.at);
        let owner = view.host_by_addr(node.ipv4.into(), id.vlan).map(|(owner, _)| owner);
        let ports = data_plane.host_ports(n).into_iter().filter_map(|at| {
            let switch = topology.switches.get(at.switch)?;
            Some(SwitchPort::new(switch.datapath_id, at.port))
        });
        let ports: Vec<_> = ports.collect();
        let is_right = known_at.is_some_and(|at| ports.contains(&at)) && owner == Some(id);
        let name = &node.name;
        (!is_right).then(|| {
            format!(
                "{name} at {ports:?} is known at {known_at:?}; owner of its IP address: {owner:?}"
            )
        })
    })
}
