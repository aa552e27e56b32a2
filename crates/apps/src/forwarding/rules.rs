//! The rules of forwarding: what they say, and which of them go when they lead nowhere.

use std::net::Ipv6Addr;

use sluice_openflow::{
    Action, Encoder, EtherType, Field, FlowMod, FlowModCommand, FlowStatsRequest, Instruction,
    Match, PortNo, Version, VlanId,
};
use sluice_sdk::view::HostId;

use super::Config;
use super::flow::Flow;

/// What the cookies of all rules of forwarding begin with: `forw`.
const COOKIE: u64 = 0x666f_7277_0000_0000;

/// The bits in which it stands.
const COOKIE_MASK: u64 = 0xffff_ffff_0000_0000;

/// A rule that sends a flow out of a port.
pub(super) fn rule(cfg: &Config, flow: Flow, out_port: PortNo) -> FlowMod {
    FlowMod {
        cookie: COOKIE | u64::from(cfg.matching.rank()),
        idle_timeout: cfg.idle_timeout_s,
        hard_timeout: cfg.hard_timeout_s,
        priority: cfg.priority,
        matching: flow.to_match(cfg.matching),
        instructions: vec![Instruction::apply([Action::output(out_port)])],
        ..FlowMod::default()
    }
}

/// Whether rules of `version` can match a conversation of IPv6.
pub(super) fn says_ipv6(version: Version) -> bool {
    let matching = [Field::eth_type(EtherType::IPV6.0), Field::ipv6_src(Ipv6Addr::LOCALHOST)];
    let rule = FlowMod { matching: matching.into(), ..FlowMod::default() };
    Encoder::new(&mut Vec::new(), version, &mut 0).flow_mod(&rule).is_ok()
}

/// Lets the rule with just this match and priority go.
pub(super) fn delete_just(rule: FlowMod) -> FlowMod {
    let FlowMod { priority, matching, .. } = rule;
    let command = FlowModCommand::DELETE_STRICT;
    FlowMod { command, priority, matching, ..FlowMod::default() }
}

/// Whether a cookie is that of a rule of forwarding.
pub(super) const fn is_ours(cookie: u64) -> bool {
    cookie & COOKIE_MASK == COOKIE
}

/// What the form of a rule of forwarding ranks as.
pub(super) const fn rank(cookie: u64) -> u8 {
    cookie.to_le_bytes()[0]
}

/// Where a rule of forwarding sends.
pub(super) fn out_port(instructions: &[Instruction]) -> Option<PortNo> {
    let [Instruction::ApplyActions { actions }] = instructions else { return None };
    match actions[..] {
        [Action::Output { port, .. }] => Some(port),
        _ => None,
    }
}

/// How the rules of forwarding are told from those of others when some of them are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// By their cookies.
    ByCookie,
    /// By what they match and where they send alone, which every version can say.
    ByPort,
}

impl Named {
    /// What can be said to switches of a version.
    pub(super) fn of(version: Version) -> Self {
        let (mut tx, mut xid) = (Vec::new(), 0);
        let said =
            Encoder::new(&mut tx, version, &mut xid).flow_mod(&Self::ByCookie.delete(PortNo(1)));
        if said.is_ok() { Self::ByCookie } else { Self::ByPort }
    }

    fn mark(self) -> (u64, u64) {
        match self {
            Self::ByCookie => (COOKIE, COOKIE_MASK),
            Self::ByPort => (0, 0),
        }
    }

    /// Asks for the rules; where they cannot be named, for all.
    pub(super) fn request(self) -> FlowStatsRequest {
        let (cookie, cookie_mask) = self.mark();
        FlowStatsRequest { cookie, cookie_mask, ..FlowStatsRequest::default() }
    }

    /// All rules that send out of `out_port` go.
    pub(super) fn delete(self, out_port: PortNo) -> FlowMod {
        let (cookie, cookie_mask) = self.mark();
        let command = FlowModCommand::DELETE;
        FlowMod { command, cookie, cookie_mask, out_port, ..FlowMod::default() }
    }

    /// All rules of this form go, where they can be told from others.
    pub(super) fn delete_form(self, rank: u8) -> Option<FlowMod> {
        let (cookie, command) = (COOKIE | u64::from(rank), FlowModCommand::DELETE);
        let delete = FlowMod { command, cookie, cookie_mask: u64::MAX, ..FlowMod::default() };
        (self == Self::ByCookie).then_some(delete)
    }

    /// Those of them that are for a host go.
    pub(super) fn delete_to(self, host: HostId, out_port: PortNo) -> FlowMod {
        let dst = Field::eth_dst(host.mac);
        // A host without a VLAN may have priority tags.
        let matching: Match = match host.vlan {
            VlanId(0) => [dst].into(),
            vlan => [dst, Field::vlan(vlan)].into(),
        };
        FlowMod { matching, ..self.delete(out_port) }
    }
}
