//! Flow entries of the emulated switches, and where they lead.

use super::*;

/// The flow entries between two hosts, in both directions.
fn entries_between(net: &ChainSimulation, from: usize, to: usize) -> String {
    let topology = net.data_plane().topology();
    let mac = |n: usize| topology.hosts.get(n).map(|host| u128::from(host.mac.to_u64()));
    let mut entries = Vec::new();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in
            net.data_plane().switch(at).into_iter().flat_map(|switch| switch.flow_entries(0))
        {
            let addrs = [FieldId::ETH_SRC, FieldId::ETH_DST].map(|id| value(entry, id));
            if addrs == [mac(from), mac(to)] || addrs == [mac(to), mac(from)] {
                let direction = if addrs == [mac(from), mac(to)] { "forward" } else { "backward" };
                let (n, age) = (entry.packets, net.now() - entry.added_at);
                let port = output(entry);
                entries
                    .push(format!("{} {direction} to {port:?}, {n} packets in {age:?}", node.name));
            }
        }
    }
    entries.join(", ")
}

/// Follows every flow entry that leads to a host, from every switch that has one.
pub(super) fn check_flow_entries(net: &ChainSimulation) -> Result<(), String> {
    let data_plane = net.data_plane();
    let topology = data_plane.topology();
    let mut peers = HashMap::default();
    for link in &topology.links {
        peers.insert(link.a, link.b);
        peers.insert(link.b, link.a);
    }
    let hosts = topology.hosts.iter();
    let host_ports: HashMap<_, _> = hosts
        .enumerate()
        .map(|(n, host)| {
            let vlan = host.vlan.map_or(0, |vlan| u128::from(vlan.0));
            ((u128::from(host.mac.to_u64()), vlan), data_plane.host_ports(n))
        })
        .collect();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in data_plane.switch(at).into_iter().flat_map(|switch| switch.flow_entries(0)) {
            let Some(dst) = value(entry, FieldId::ETH_DST) else { continue };
            let vlan = value(entry, FieldId::VLAN_VID).unwrap_or(0) & 0xfff;
            let Some(host_ports) = host_ports.get(&(dst, vlan)) else { continue };
            let (mut switch, mut current) = (at, Some(entry));
            // Entries form chains of pairs of switch and ingress port.
            for _ in 0..=peers.len() {
                let Some(port) = current.and_then(output) else { break };
                let out = PortRef { switch, port };
                if host_ports.contains(&out) {
                    current = None;
                    break;
                }
                let Some(to) = peers.get(&out) else {
                    return Err(format!(
                        "{} sends {dst:012x} out of {out:?}, not {host_ports:?}",
                        node.name
                    ));
                };
                switch = to.switch;
                // A loop contains an entry that is at least as fine as the others of the loop.
                let others = data_plane.switch(switch).into_iter().flat_map(|s| s.flow_entries(0));
                let others = others.filter(|other| {
                    value(other, FieldId::ETH_DST).is_some()
                        && other.matching().iter().all(|field| match field.id {
                            FieldId::IN_PORT => field.value == to.port.0.into(),
                            id => value(entry, id) == Some(field.value),
                        })
                });
                current = others.max_by_key(|other| other.priority);
            }
            if current.and_then(output).is_some() {
                let src = value(entry, FieldId::ETH_SRC).unwrap_or_default();
                let loops = format!("{src:012x} to {dst:012x} loops");
                let host =
                    |mac| topology.hosts.iter().position(|h| u128::from(h.mac.to_u64()) == mac);
                let entries =
                    host(src).zip(host(dst)).map(|(src, dst)| entries_between(net, src, dst));
                return Err(format!("from {} {loops}: {}", node.name, entries.unwrap_or_default()));
            }
        }
    }
    Ok(())
}

fn value(entry: &FlowEntry, id: FieldId) -> Option<u128> {
    entry.matching().iter().find(|field| field.id == id).map(|field| field.value)
}

fn output(entry: &FlowEntry) -> Option<PortNo> {
    entry.instructions().iter().find_map(|instruction| match instruction {
        Instruction::ApplyActions { actions } => actions.iter().find_map(|action| match action {
            Action::Output { port, .. } => Some(*port),
            _ => None,
        }),
        _ => None,
    })
}
