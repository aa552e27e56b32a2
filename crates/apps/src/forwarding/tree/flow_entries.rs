//! The flow entries of a tree: they forward broadcasts from one of its links to the others and to edge ports.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_openflow::{
    Action, DatapathId, Encoder, Field, FlowMod, FlowModCommand, FlowStatsRequest, Instruction,
    MacAddr, Match, PortNo, Version, VlanId,
};
use sluice_sdk::flow_space::TREE;
use sluice_sdk::view::{NetworkView, SwitchPort};

use super::super::flood::is_flooded;
use super::super::multicast::{ENTRIES_MAX, Multicast, SwitchGroups};
use super::state::TreeTraffic;

const COOKIE: u64 = TREE.cookie;

/// Cookie of the entries for groups, which can be deleted apart.
const GROUPS_COOKIE: u64 = COOKIE | 1;

/// Above the table-miss entry, and below all entries that others may have for broadcasts.
const PRIORITY: u16 = TREE.priority();

/// Above that: drops frames that bridges must not forward.
const RESERVED_PRIORITY: u16 = PRIORITY + 1;

/// Forwards IP multicasts to groups without members. The addresses are others than those of reserved frames.
const UNREGISTERED_PRIORITY: u16 = PRIORITY + 1;

/// Above that: forwards IP multicasts to one group with members, or to a range of groups that is never filtered.
const GROUP_PRIORITY: u16 = *TREE.priorities.end();

const _: () = assert!(GROUP_PRIORITY > UNREGISTERED_PRIORITY);

/// Time after which entries expire that are not refreshed: shorter than topology keeps a port as a link port whose
/// switch has disconnected.
pub(in super::super) const LIFETIME: Duration = Duration::from_secs(LIFETIME_S as u64);
const LIFETIME_S: u16 = 10;

/// The bit that marks a group address. IEEE 802 §8.2.2.
const GROUP: MacAddr = MacAddr([1, 0, 0, 0, 0, 0]);

/// The first of the addresses that bridges do not forward, and the mask of their common bits. IEEE 802.1D §7.12.6.
const RESERVED: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]);
const RESERVED_MASK: u128 = 0xffff_ffff_fff0;

/// Whether a cookie is that of a flow entry of a tree.
pub(in super::super) const fn is_ours(cookie: u64) -> bool {
    TREE.has_cookie(cookie)
}

/// Whether a cookie is that of an entry for groups.
pub(super) const fn is_of_groups(cookie: u64) -> bool {
    cookie == GROUPS_COOKIE
}

/// What flow entries of `version` can match.
pub(super) fn supported_traffic(version: Version) -> TreeTraffic {
    let entry = entry(PRIORITY, to_groups(PortNo(1), TreeTraffic::Groups), vec![]);
    let encoded = Encoder::new(&mut Vec::new(), version, &mut 0).flow_mod(&entry);
    if encoded.is_ok() { TreeTraffic::Groups } else { TreeTraffic::Broadcast }
}

/// What tells the flow entries of a switch apart: priority, ingress port, destination with mask, and VLAN.
type EntryKey = (u16, PortNo, (MacAddr, MacAddr), Option<VlanId>);

/// The flow entries of a switch.
pub(super) type TreeEntries = BTreeMap<EntryKey, FlowMod>;

/// The flow entries of a switch with these ports at links of a tree. With `groups`, multicasts of IP go to some of the edge ports.
pub(super) fn entries_of(
    view: &NetworkView,
    traffic: TreeTraffic,
    (id, links): (DatapathId, &[PortNo]),
    groups: Option<&Multicast>,
) -> TreeEntries {
    let known = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
    let edges = known.map(|&no| SwitchPort::new(id, no)).filter(|&at| is_flooded(view, at));
    let edges: Vec<_> = edges.map(|at| at.port).filter(|no| !links.contains(no)).collect();
    let groups = groups.filter(|_| traffic == TreeTraffic::Groups && !edges.is_empty());
    let max = ENTRIES_MAX / links.len().max(1);
    let filtered = groups.map(|multicast| filtered_groups(multicast, id, &edges, max));
    let filtered = filtered.unwrap_or_default();
    let mut entries = TreeEntries::new();
    for &port in links {
        let outputs = |edges: &[PortNo]| {
            let others = links.iter().filter(|&&other| other != port).chain(edges);
            others.map(|&other| Action::output(other)).collect()
        };
        if traffic == TreeTraffic::Groups {
            let reserved = Field::eth_dst(RESERVED).masked(RESERVED_MASK);
            let matching = [Field::in_port(port), reserved].into();
            let reserved_mask = MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, 0xf0]);
            let key = (RESERVED_PRIORITY, port, (RESERVED, reserved_mask), None);
            entries.insert(key, entry(RESERVED_PRIORITY, matching, vec![]));
        }
        let all = (PRIORITY, port, (GROUP, GROUP), None);
        entries.insert(all, entry(PRIORITY, to_groups(port, traffic), outputs(&edges)));
        for group in &filtered {
            let FilteredGroup { priority, dst: (dst, mask), vlan, edges } = group;
            let mut fields = vec![Field::in_port(port)];
            let dst_field = Field::eth_dst(*dst);
            fields.push(if *mask == MacAddr::BROADCAST {
                dst_field
            } else {
                dst_field.masked(mask.to_u64().into())
            });
            fields.extend(vlan.map(|vlan| match vlan {
                VlanId(0) => Field::untagged(),
                vlan => Field::vlan(vlan),
            }));
            let flow_mod = entry(*priority, fields.into_iter().collect(), outputs(edges));
            let flow_mod = FlowMod { cookie: GROUPS_COOKIE, ..flow_mod };
            entries.insert((*priority, port, (*dst, *mask), *vlan), flow_mod);
        }
    }
    entries
}

/// Multicasts that go to some of the edge ports of a switch.
struct FilteredGroup {
    priority: u16,
    /// Destination address and mask.
    dst: (MacAddr, MacAddr),
    /// `None` for all VLANs.
    vlan: Option<VlanId>,
    edges: Vec<PortNo>,
}

/// The first addresses and masks of all multicasts of IPv4 and of IPv6. RFC 1112 §6.4, RFC 2464 §7.
const IP_MULTICASTS: [(MacAddr, MacAddr); 2] = [
    (MacAddr([0x01, 0, 0x5e, 0, 0, 0]), MacAddr([0xff, 0xff, 0xff, 0x80, 0, 0])),
    (MacAddr([0x33, 0x33, 0, 0, 0, 0]), MacAddr([0xff, 0xff, 0, 0, 0, 0])),
];

/// The multicasts of IP that are never filtered.
const UNFILTERED: [(MacAddr, MacAddr); 3] = [
    (MacAddr([0x01, 0, 0x5e, 0, 0, 0]), MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, 0])),
    (MacAddr([0x33, 0x33, 0, 0, 0, 0]), MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, 0])),
    (MacAddr([0x33, 0x33, 0xff, 0, 0, 0]), MacAddr([0xff, 0xff, 0xff, 0, 0, 0])),
];

/// What the switch filters, with entries for at most `max` groups.
fn filtered_groups(
    multicast: &Multicast,
    id: DatapathId,
    edges: &[PortNo],
    max: usize,
) -> Vec<FilteredGroup> {
    let SwitchGroups { registered, unregistered } = multicast.groups_of_switch(id, edges, max);
    let mut filtered: Vec<_> = registered
        .into_iter()
        .map(|((vlan, dst), edges)| FilteredGroup {
            priority: GROUP_PRIORITY,
            dst: (dst, MacAddr::BROADCAST),
            vlan: Some(vlan),
            edges,
        })
        .collect();
    if unregistered.is_empty() {
        // All others are flooded without an entry.
        filtered.retain(|group| group.edges.len() < edges.len());
        return filtered;
    }
    for (vlan, edges) in unregistered {
        filtered.extend(IP_MULTICASTS.map(|dst| FilteredGroup {
            priority: UNREGISTERED_PRIORITY,
            dst,
            vlan: Some(vlan),
            edges: edges.clone(),
        }));
    }
    filtered.extend(UNFILTERED.map(|dst| FilteredGroup {
        priority: GROUP_PRIORITY,
        dst,
        vlan: None,
        edges: edges.to_vec(),
    }));
    filtered
}

/// Whether some entries are for groups.
pub(super) fn has_groups(entries: &TreeEntries) -> bool {
    entries.values().any(|entry| is_of_groups(entry.cookie))
}

/// Deletes the entries for groups from a switch and from its list of entries. What they forwarded goes to all edge ports.
pub(super) fn withdraw_groups(entries: &mut TreeEntries) -> FlowMod {
    entries.retain(|_, entry| !is_of_groups(entry.cookie));
    let (command, cookie_mask) = (FlowModCommand::DELETE, u64::MAX);
    FlowMod { command, cookie: GROUPS_COOKIE, cookie_mask, ..FlowMod::default() }
}

/// What changes the entries `old` into `new`, deletions first.
pub(super) fn changes(old: &TreeEntries, new: &TreeEntries) -> Vec<FlowMod> {
    let gone = old.iter().filter(|(key, _)| !new.contains_key(key));
    let deletions = gone.map(|(_, entry)| FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        instructions: vec![],
        ..entry.clone()
    });
    let changed = new.iter().filter(|(key, entry)| old.get(key) != Some(entry));
    deletions.chain(changed.map(|(_, entry)| entry.clone())).collect()
}

fn entry(priority: u16, matching: Match, actions: Vec<Action>) -> FlowMod {
    let instructions = if actions.is_empty() { vec![] } else { vec![Instruction::apply(actions)] };
    FlowMod {
        cookie: COOKIE,
        hard_timeout: LIFETIME_S,
        priority,
        matching,
        instructions,
        ..FlowMod::default()
    }
}

fn to_groups(port: PortNo, traffic: TreeTraffic) -> Match {
    let dst = match traffic {
        TreeTraffic::Groups => Field::eth_dst(GROUP).masked(GROUP.to_u64().into()),
        TreeTraffic::Broadcast => Field::eth_dst(MacAddr::BROADCAST),
    };
    [Field::in_port(port), dst].into()
}

/// A marker for a port that was at a link of a tree: like the table-miss entry, it sends packets to the controller.
pub(super) fn marker(port: PortNo, traffic: TreeTraffic) -> FlowMod {
    entry(PRIORITY, to_groups(port, traffic), vec![Action::output(PortNo::CONTROLLER)])
}

/// A request for the flow entries of all trees; without masks, for those that match broadcasts.
pub(super) fn stats_request(traffic: TreeTraffic) -> FlowStatsRequest {
    match traffic {
        TreeTraffic::Groups => FlowStatsRequest {
            cookie: COOKIE,
            cookie_mask: TREE.cookie_mask,
            ..FlowStatsRequest::default()
        },
        TreeTraffic::Broadcast => {
            let matching = [Field::eth_dst(MacAddr::BROADCAST)].into();
            FlowStatsRequest { matching, ..FlowStatsRequest::default() }
        }
    }
}

/// Deletes the flow entries of all trees. Without masks, this takes one message for each port.
pub(super) fn delete(view: &NetworkView, id: DatapathId, traffic: TreeTraffic) -> Vec<FlowMod> {
    if traffic == TreeTraffic::Groups {
        let (command, cookie_mask) = (FlowModCommand::DELETE, TREE.cookie_mask);
        return vec![FlowMod { command, cookie: COOKIE, cookie_mask, ..FlowMod::default() }];
    }
    let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
    let deletion = |&port: &PortNo| FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        priority: PRIORITY,
        matching: to_groups(port, traffic),
        ..FlowMod::default()
    };
    ports.map(deletion).collect()
}

#[cfg(test)]
mod tests {
    use sluice_base::Rng;

    use super::super::super::multicast::is_filterable;
    use super::*;

    #[test]
    fn entries_and_controller_filter_the_same_addresses() {
        let is_in = |mac: MacAddr, list: &[(MacAddr, MacAddr)]| {
            list.iter().any(|(first, mask)| mac.to_u64() & mask.to_u64() == first.to_u64())
        };
        let mut rng = Rng::new(1);
        let (mut filterable, mut others) = (0, 0);
        for _ in 0..100_000 {
            let starts =
                [[0x01, 0, 0x5e, 0, 0, 0], [0x33, 0x33, 0, 0, 0, 0], [0x33, 0x33, 0xff, 0, 0, 0]];
            let mut mac = starts[rng.below(3) as usize];
            for byte in &mut mac[2..] {
                if rng.below(4) == 0 {
                    *byte = rng.below(256).try_into().unwrap();
                }
            }
            let mac = MacAddr(mac);
            let is_filtered = is_in(mac, &IP_MULTICASTS) && !is_in(mac, &UNFILTERED);
            assert_eq!(is_filtered, is_filterable(mac), "{mac}");
            *(if is_filtered { &mut filterable } else { &mut others }) += 1;
        }
        assert!(filterable > 10_000 && others > 10_000, "{filterable} {others}");
    }
}
