//! VLANs: hosts in a VLAN that have the addresses of hosts without one, and hosts that send priority tags.

use sluice_emu::topology::HostNode;

use super::*;

/// One in so many networks has VLANs.
const ODDS: u32 = 4;

/// The VLAN of hosts that have the addresses of others.
const VLAN: VlanId = VlanId(10);

/// Adds hosts in a VLAN, which have the MAC and IP addresses of hosts without one, and has others send priority tags. Returns how many
/// of each.
pub(super) fn add_vlans(seed: u64, topology: &mut Topology) -> [usize; 2] {
    let mut rng = Rng::new(seed.wrapping_mul(13) ^ 0x81);
    let (mut twins, mut priority_tagged) = (Vec::new(), 0);
    if rng.below(ODDS) > 0 {
        return [0; 2];
    }
    for node in &mut topology.hosts {
        if rng.below(2) == 0 {
            let index = pick(&mut rng, topology.switches.len());
            let switch = topology.switches.get_mut(index).unwrap();
            switch.n_ports += 1;
            let port = PortRef { switch: index, port: PortNo(switch.n_ports) };
            let name = format!("{}v", node.name);
            twins.push(HostNode { name, port, vlan: Some(VLAN), ..node.clone() });
        }
        if rng.below(4) == 0 {
            node.vlan = Some(VlanId(0));
            priority_tagged += 1;
        }
    }
    let counts = [twins.len(), priority_tagged];
    topology.hosts.extend(twins);
    counts
}
