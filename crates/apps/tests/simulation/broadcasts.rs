//! Broadcasts and multicasts: each host of the VLAN receives one copy, once the network is quiet.

use super::*;

/// Destinations of traced frames.
const GROUPS: [MacAddr; 3] =
    [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 1, 2, 3]), MacAddr([0x33, 0x33, 0, 0, 0x12, 0x34])];

/// Copies of a frame that were permitted while faults occurred.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyLimits {
    /// That a host may have received.
    pub(super) deliveries: u32,
    /// That may have crossed a link in one direction.
    pub(super) crossings: u32,
}

/// After the faults: one.
const QUIET: CopyLimits = CopyLimits { deliveries: 1, crossings: 1 };

/// Has a host send the traced frame `number`, to one of the groups in turn.
pub(super) fn send_traced(host: usize, number: u32) -> NetworkChange {
    let group = GROUPS.iter().cycle().nth(number as usize % GROUPS.len());
    NetworkChange::SendTracedMulticast(host, *group.unwrap(), number)
}

/// Checks that a spanning tree is active.
pub(super) fn check_tree(net: &ChainSimulation) -> Result<(), String> {
    if net.data_plane().topology().switches.len() > 1 {
        for network in net.controller().networks() {
            let tree = SpanningTree::of(network.view());
            if tree.is_none_or(|tree| tree.phase != TreePhase::Active) {
                return Err(format!("no spanning tree is active: {tree:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that no frame to a group was delivered too often or crossed a link too often, and that each host of its VLAN now receives
/// every one once.
pub(super) fn check_broadcasts(
    net: &mut ChainSimulation,
    limits: CopyLimits,
    conditions: &NetworkConditions,
) -> Result<(), String> {
    let hosts = net.data_plane().topology().hosts.len();
    let numbers = (TRACED_FRAMES..).take(hosts * GROUPS.len());
    let senders: Vec<_> = (0..hosts).flat_map(|host| [host; GROUPS.len()]).zip(numbers).collect();
    for frames in senders.chunks(GROUPS.len()) {
        for &(host, number) in frames {
            net.apply(send_traced(host, number)).map_err(|e| e.to_string())?;
        }
        net.run_for(conditions.flood_time()).map_err(|e| e.to_string())?;
    }
    for number in 0..TRACED_FRAMES {
        check_copies(net, number, limits)?;
    }
    for (from, number) in senders {
        check_copies(net, number, QUIET)?;
        check_receivers(net, from, number)?;
    }
    Ok(())
}

/// Checks that there were not too many copies of a frame.
fn check_copies(net: &ChainSimulation, number: u32, limits: CopyLimits) -> Result<(), String> {
    let traces = net.data_plane().traces();
    let delivered: Vec<_> = traces.deliveries(number).collect();
    let crossings = traces.link_crossings_max(number);
    let is_within = delivered.iter().all(|&(_, times)| times <= limits.deliveries);
    (is_within && crossings <= limits.crossings).then_some(()).ok_or_else(|| {
        format!(
            "broadcast {number} was delivered {delivered:?} and crossed a link {crossings} times"
        )
    })
}

/// Checks that every host of the sender's VLAN has received a frame.
fn check_receivers(net: &ChainSimulation, from: usize, number: u32) -> Result<(), String> {
    let hosts = &net.data_plane().topology().hosts;
    let vlan = |host: usize| hosts.get(host).map(|node| node.vlan.unwrap_or(VlanId(0)));
    let members = (0..hosts.len()).filter(|&host| host != from && vlan(host) == vlan(from));
    let members: BTreeSet<_> = members.collect();
    let delivered = net.data_plane().traces().deliveries(number).map(|(host, _)| host);
    let delivered: BTreeSet<_> = delivered.filter(|&host| vlan(host) == vlan(from)).collect();
    (delivered == members).then_some(()).ok_or_else(|| {
        let counts = metrics(net);
        format!(
            "of {members:?}, {delivered:?} received broadcast {number} of host {from}: {counts}"
        )
    })
}
