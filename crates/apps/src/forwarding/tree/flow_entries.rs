//! The flow entries of a tree: they forward broadcasts from one of its links to the others and to edge ports.

use std::time::Duration;

use sluice_openflow::{
    Action, DatapathId, Encoder, Field, FlowMod, FlowModCommand, FlowStatsRequest, Instruction,
    MacAddr, Match, PortNo, Version,
};
use sluice_sdk::flow_space::TREE;
use sluice_sdk::view::{NetworkView, SwitchPort};

use super::super::flood::is_edge;
use super::state::{SpanningTree, TreeTraffic};

const COOKIE: u64 = TREE.cookie;

/// Above the table-miss entry, and below all entries that others may have for broadcasts.
const PRIORITY: u16 = TREE.priority();

/// Above that: drops frames that bridges must not forward.
const RESERVED_PRIORITY: u16 = PRIORITY + 1;

/// Time after which entries expire that are not refreshed: shorter than topology keeps a port as a link port whose
/// switch has disconnected.
pub(super) const LIFETIME: Duration = Duration::from_secs(LIFETIME_S as u64);
const LIFETIME_S: u16 = 10;

/// The bit that marks a group address. IEEE 802 §8.2.2.
const GROUP: MacAddr = MacAddr([1, 0, 0, 0, 0, 0]);

/// The first of the addresses that bridges do not forward, and the mask of their common bits. IEEE 802.1D §7.12.6.
const RESERVED: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]);
const RESERVED_MASK: u128 = 0xffff_ffff_fff0;

/// Whether a cookie is that of a flow entry of a tree.
pub(in super::super) const fn is_ours(cookie: u64) -> bool {
    cookie == COOKIE
}

/// What flow entries of `version` can match.
pub(super) fn supported_traffic(version: Version) -> TreeTraffic {
    let entry = entry(PRIORITY, to_groups(PortNo(1), TreeTraffic::Groups), vec![]);
    let encoded = Encoder::new(&mut Vec::new(), version, &mut 0).flow_mod(&entry);
    if encoded.is_ok() { TreeTraffic::Groups } else { TreeTraffic::Broadcast }
}

/// The ports of a switch at links of a tree.
pub(super) fn ports(tree: &SpanningTree, id: DatapathId) -> impl Iterator<Item = PortNo> {
    tree.links.iter().flatten().filter(move |end| end.switch == id).map(|end| end.port)
}

/// The flow entries of a switch.
pub(super) fn entries_of(view: &NetworkView, tree: &SpanningTree, id: DatapathId) -> Vec<FlowMod> {
    let known = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
    let edges = known.map(|&no| SwitchPort::new(id, no)).filter(|&at| is_edge(view, at));
    let edges: Vec<_> = edges.filter(|&at| !tree.has_end(at)).map(|at| at.port).collect();
    let links: Vec<_> = ports(tree, id).collect();
    let mut entries = Vec::new();
    for &port in &links {
        if tree.traffic == TreeTraffic::Groups {
            let reserved = Field::eth_dst(RESERVED).masked(RESERVED_MASK);
            let matching = [Field::in_port(port), reserved].into();
            entries.push(entry(RESERVED_PRIORITY, matching, vec![]));
        }
        let others = links.iter().filter(|&&other| other != port).chain(&edges);
        let actions = others.map(|&other| Action::output(other)).collect();
        entries.push(entry(PRIORITY, to_groups(port, tree.traffic), actions));
    }
    entries
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
            cookie_mask: u64::MAX,
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
        let (command, cookie_mask) = (FlowModCommand::DELETE, u64::MAX);
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
