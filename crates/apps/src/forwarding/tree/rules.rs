//! The rules of a tree: what comes in from a link of it goes out of the others and to hosts.

use std::time::Duration;

use sluice_openflow::{
    Action, DatapathId, Encoder, Field, FlowMod, FlowModCommand, FlowStatsRequest, Instruction,
    MacAddr, Match, PortNo, Version,
};
use sluice_sdk::view::{NetworkView, SwitchPort};

use super::super::flood::is_edge;
use super::state::{SpanningTree, TreeTraffic};

/// What the cookies of these rules are: `tree`.
const COOKIE: u64 = 0x7472_6565_0000_0000;

/// Above the table-miss entry, and below all that somebody else may have to say of such frames.
const PRIORITY: u16 = 1;

/// Above that: what no bridge may pass on.
const RESERVED_PRIORITY: u16 = 2;

/// How long rules live that are not written anew: less than topology takes a port for a link whose switch is gone.
pub(super) const LIFE: Duration = Duration::from_secs(LIFE_S as u64);
const LIFE_S: u16 = 10;

/// The bit of an address that names a group. IEEE 802 §8.2.2.
const GROUP: MacAddr = MacAddr([1, 0, 0, 0, 0, 0]);

/// The first of the addresses that no bridge passes on, and the bits that they have in common. IEEE 802.1D §7.12.6.
const RESERVED: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]);
const RESERVED_BITS: u128 = 0xffff_ffff_fff0;

/// Whether a cookie is that of a rule of a tree.
pub(in super::super) const fn is_ours(cookie: u64) -> bool {
    cookie == COOKIE
}

/// What rules of `version` can tell apart.
pub(super) fn groups(version: Version) -> TreeTraffic {
    let rule = rule(PRIORITY, to_groups(PortNo(1), TreeTraffic::Groups), vec![]);
    let said = Encoder::new(&mut Vec::new(), version, &mut 0).flow_mod(&rule);
    if said.is_ok() { TreeTraffic::Groups } else { TreeTraffic::Broadcast }
}

/// The ports of a switch that are at links of a tree.
pub(super) fn ports(tree: &SpanningTree, id: DatapathId) -> impl Iterator<Item = PortNo> {
    tree.links.iter().flatten().filter(move |end| end.switch == id).map(|end| end.port)
}

/// The rules of a switch.
pub(super) fn of(view: &NetworkView, tree: &SpanningTree, id: DatapathId) -> Vec<FlowMod> {
    let known = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
    let edges = known.map(|&no| SwitchPort::new(id, no)).filter(|&at| is_edge(view, at));
    let edges: Vec<_> = edges.filter(|&at| !tree.has_end(at)).map(|at| at.port).collect();
    let links: Vec<_> = ports(tree, id).collect();
    let mut rules = Vec::new();
    for &port in &links {
        if tree.traffic == TreeTraffic::Groups {
            let reserved = Field::eth_dst(RESERVED).masked(RESERVED_BITS);
            let matching = [Field::in_port(port), reserved].into();
            rules.push(rule(RESERVED_PRIORITY, matching, vec![]));
        }
        let others = links.iter().filter(|&&other| other != port).chain(&edges);
        let actions = others.map(|&other| Action::output(other)).collect();
        rules.push(rule(PRIORITY, to_groups(port, tree.traffic), actions));
    }
    rules
}

fn rule(priority: u16, matching: Match, actions: Vec<Action>) -> FlowMod {
    let instructions = if actions.is_empty() { vec![] } else { vec![Instruction::apply(actions)] };
    FlowMod {
        cookie: COOKIE,
        hard_timeout: LIFE_S,
        priority,
        matching,
        instructions,
        ..FlowMod::default()
    }
}

fn to_groups(port: PortNo, groups: TreeTraffic) -> Match {
    let dst = match groups {
        TreeTraffic::Groups => Field::eth_dst(GROUP).masked(GROUP.to_u64().into()),
        TreeTraffic::Broadcast => Field::eth_dst(MacAddr::BROADCAST),
    };
    [Field::in_port(port), dst].into()
}

/// What comes in at a port goes up, as without a rule: it was at a link of a tree a while ago.
pub(super) fn mark(port: PortNo, groups: TreeTraffic) -> FlowMod {
    rule(PRIORITY, to_groups(port, groups), vec![Action::output(PortNo::CONTROLLER)])
}

/// Asks for the rules of all trees; where they cannot be named, for those of all broadcasts.
pub(super) fn request(groups: TreeTraffic) -> FlowStatsRequest {
    match groups {
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

/// Lets all rules of all trees go. Where they cannot be named, one for each port that there is.
pub(super) fn delete(view: &NetworkView, id: DatapathId, groups: TreeTraffic) -> Vec<FlowMod> {
    if groups == TreeTraffic::Groups {
        let (command, cookie_mask) = (FlowModCommand::DELETE, u64::MAX);
        return vec![FlowMod { command, cookie: COOKIE, cookie_mask, ..FlowMod::default() }];
    }
    let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
    let strict = |&port: &PortNo| FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        priority: PRIORITY,
        matching: to_groups(port, groups),
        ..FlowMod::default()
    };
    ports.map(strict).collect()
}
