//! The flow entries of forwarding, and the messages that delete them.

use std::net::Ipv6Addr;

use sluice_openflow::{
    Action, Encoder, EtherType, Field, FieldId, FlowDesc, FlowMod, FlowModCommand,
    FlowStatsRequest, Instruction, MacAddr, Match, PortNo, Version, VlanId,
};
use sluice_sdk::flow_space::PATHS;
use sluice_sdk::view::HostId;

use super::flow::Flow;
use super::{Config, Matching};

/// High bits of the cookies of all flow entries of paths. The low byte is the rank of the match.
const COOKIE: u64 = PATHS.cookie;
const COOKIE_MASK: u64 = PATHS.cookie_mask;

/// The priority of flow entries with this match: the configured one, and one more for each step by which it is simpler
/// than configured.
pub(super) fn priority(cfg: &Config, matching: Matching) -> u16 {
    let steps = matching.rank().saturating_sub(cfg.matching.rank());
    cfg.priority.saturating_add(steps.into())
}

/// A flow entry that sends the packets of a flow from one port to another.
pub(super) fn flow_entry(
    cfg: &Config,
    matching: Matching,
    flow: Flow,
    [in_port, out_port]: [PortNo; 2],
) -> FlowMod {
    FlowMod {
        cookie: COOKIE | u64::from(matching.rank()),
        idle_timeout: cfg.idle_timeout_s,
        hard_timeout: cfg.hard_timeout_s,
        priority: priority(cfg, matching),
        matching: flow.to_match(matching, in_port),
        instructions: vec![Instruction::apply([Action::output(out_port)])],
        ..FlowMod::default()
    }
}

/// Whether flow entries of `version` can match IPv6 addresses.
pub(super) fn supports_ipv6_match(version: Version) -> bool {
    let matching = [Field::eth_type(EtherType::IPV6.0), Field::ipv6_src(Ipv6Addr::LOCALHOST)];
    let flow_entry = FlowMod { matching: matching.into(), ..FlowMod::default() };
    Encoder::new(&mut Vec::new(), version, &mut 0).flow_mod(&flow_entry).is_ok()
}

/// Which flow entries of a switch are to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryFilter {
    /// Those that send out of a port.
    ToPort(PortNo),
    /// Those for packets from a port.
    FromPort(PortNo),
    /// Those that send packets to a host out of a port; [`PortNo::ANY`] is any port.
    ToHost(HostId, PortNo),
    /// Those for packets that a host sends into a port.
    FromHost(HostId, PortNo),
}

impl EntryFilter {
    /// The fields that their matches have in common.
    fn matching(self) -> Match {
        match self {
            Self::ToPort(_) => Match::default(),
            Self::FromPort(in_port) => [Field::in_port(in_port)].into(),
            Self::ToHost(host, _) => {
                [Field::eth_dst(host.mac)].into_iter().chain(vlan(host)).collect()
            }
            Self::FromHost(host, in_port) => {
                let fields = [Field::in_port(in_port), Field::eth_src(host.mac)];
                fields.into_iter().chain(vlan(host)).collect()
            }
        }
    }

    /// The port out of which they send.
    fn out_port(self) -> PortNo {
        match self {
            Self::ToPort(port) | Self::ToHost(_, port) => port,
            Self::FromPort(_) | Self::FromHost(..) => PortNo::ANY,
        }
    }
}

/// A part of the flow entries of a switch: small enough to be listed, or split further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EntryPage {
    /// The ingress port that they match; `None` is any.
    in_port: Option<PortNo>,
    /// The port to which they send; `None` is any.
    out_port: Option<PortNo>,
    /// Low bits of the destination that they match.
    dst: u64,
    /// Number of these bits.
    dst_bits: u8,
}

/// Bits of an Ethernet address.
const MAC_BITS: u8 = 48;

/// Bits of the destination by which a page is split: into 16 pages.
const SPLIT_BITS: u8 = 4;

impl EntryPage {
    /// The entries that send to a port.
    pub(super) fn to_port(port: PortNo) -> Self {
        Self { out_port: Some(port), ..Self::default() }
    }

    /// Pages that contain the entries of this page to and from these ports; `None` if it cannot be split further.
    pub(super) fn split(self, selector: EntrySelector, ports: &[PortNo]) -> Option<Vec<Self>> {
        if ports.is_empty() {
            return None;
        }
        let pages = if self.in_port.is_none() {
            ports.iter().map(|&port| Self { in_port: Some(port), ..self }).collect()
        } else if selector == EntrySelector::ByCookie && self.dst_bits < MAC_BITS {
            let dst_bits = self.dst_bits + SPLIT_BITS;
            let part = |n: u64| Self { dst: self.dst | n << self.dst_bits, dst_bits, ..self };
            (0..1 << SPLIT_BITS).map(part).collect()
        } else if self.out_port.is_none() && selector == EntrySelector::Listed {
            ports.iter().map(|&port| Self { out_port: Some(port), ..self }).collect()
        } else {
            return None;
        };
        Some(pages)
    }

    /// The filter of the deletion of its entries, whatever their destination.
    pub(super) fn filter(self) -> EntryFilter {
        match (self.out_port, self.in_port) {
            (Some(port), _) => EntryFilter::ToPort(port),
            (None, Some(port)) => EntryFilter::FromPort(port),
            (None, None) => EntryFilter::ToPort(PortNo::ANY),
        }
    }

    fn matching(self) -> Match {
        let in_port = self.in_port.map(Field::in_port);
        let mask = (1u64 << self.dst_bits) - 1;
        let dst = Field::eth_dst(MacAddr::from_u64(self.dst)).masked(mask.into());
        in_port.into_iter().chain((self.dst_bits > 0).then_some(dst)).collect()
    }
}

/// Deletes the flow entry with this match and priority.
pub(super) fn delete_strict(flow_entry: FlowMod) -> FlowMod {
    let FlowMod { priority, matching, .. } = flow_entry;
    let command = FlowModCommand::DELETE_STRICT;
    FlowMod { command, priority, matching, ..FlowMod::default() }
}

/// Deletes a listed flow entry, unless it sends out of another port by now.
pub(super) fn delete_listed(entry: FlowDesc) -> FlowMod {
    let out_port = out_port(&entry.instructions).unwrap_or(PortNo::ANY);
    let FlowDesc { priority, matching, .. } = entry;
    FlowMod { out_port, ..delete_strict(FlowMod { priority, matching, ..FlowMod::default() }) }
}

/// Whether a cookie is that of a flow entry of forwarding.
pub(super) const fn is_ours(cookie: u64) -> bool {
    PATHS.has_cookie(cookie)
}

/// The rank of the [`Matching`] of the flow entry with this cookie.
pub(super) const fn rank(cookie: u64) -> u8 {
    cookie.to_le_bytes()[0]
}

/// In place of the rank in the cookie of a deletion by match, whose mask ignores it.
const DELETION: u8 = u8::MAX;

/// Whether a cookie is that of a [deletion](EntrySelector::delete): a switch that refuses it has not refused the match of an entry.
pub(super) const fn is_deletion(cookie: u64) -> bool {
    is_ours(cookie) && rank(cookie) == DELETION
}

/// The port to which a flow entry of forwarding sends.
pub(super) fn out_port(instructions: &[Instruction]) -> Option<PortNo> {
    let [Instruction::ApplyActions { actions }] = instructions else { return None };
    match actions[..] {
        [Action::Output { port, .. }] => Some(port),
        _ => None,
    }
}

/// Whether a flow entry of forwarding has been modified, so that it does not forward, or not only to one port.
pub(super) fn is_modified(entry: &FlowDesc) -> bool {
    out_port(&entry.instructions).is_none()
}

/// Whether a flow entry of forwarding has another priority than those with its match are written with.
pub(super) fn has_other_priority(cfg: &Config, entry: &FlowDesc) -> bool {
    let expected = Matching::of_rank(rank(entry.cookie)).map(|matching| priority(cfg, matching));
    expected != Some(entry.priority)
}

/// The host whose address a match has in the field `id`.
pub(super) fn host(matching: &Match, id: FieldId) -> Option<HostId> {
    let value = |id| matching.get(id).map(|field| field.value);
    let mac = MacAddr::from_u64(u64::try_from(value(id)?).ok()?);
    let vlan = value(FieldId::VLAN_VID).unwrap_or(0) & 0xfff;
    Some(HostId { mac, vlan: VlanId(u16::try_from(vlan).ok()?) })
}

/// The ingress port of a match.
pub(super) fn in_port(matching: &Match) -> Option<PortNo> {
    matching.get(FieldId::IN_PORT).and_then(|field| u32::try_from(field.value).ok()).map(PortNo)
}

/// How the flow entries of forwarding are selected for deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntrySelector {
    /// By their cookies.
    ByCookie,
    /// One by one, after they have been listed: deletions of OpenFlow 1.0 have no cookie.
    Listed,
}

impl EntrySelector {
    /// What a version supports.
    pub(super) fn of(version: Version) -> Self {
        let (mut tx, mut xid) = (Vec::new(), 0);
        let encoded = Encoder::new(&mut tx, version, &mut xid)
            .flow_mod(&Self::ByCookie.delete(EntryFilter::ToPort(PortNo(1))));
        if encoded.is_ok() { Self::ByCookie } else { Self::Listed }
    }

    fn cookie_filter(self) -> (u64, u64) {
        match self {
            Self::ByCookie => (COOKIE | u64::from(DELETION), COOKIE_MASK),
            Self::Listed => (0, 0),
        }
    }

    fn stats_request(self) -> FlowStatsRequest {
        let (cookie, cookie_mask) = self.cookie_filter();
        FlowStatsRequest { cookie, cookie_mask, ..FlowStatsRequest::default() }
    }

    /// A request for the flow entries of a page; without cookies, for those of all applications.
    pub(super) fn page_request(self, page: EntryPage) -> FlowStatsRequest {
        let (matching, out_port) = (page.matching(), page.out_port.unwrap_or(PortNo::ANY));
        FlowStatsRequest { matching, out_port, ..self.stats_request() }
    }

    /// A request for the flow entries that `filter` selects; without cookies, for those of all applications.
    pub(super) fn filtered_request(self, filter: EntryFilter) -> FlowStatsRequest {
        let (matching, out_port) = (filter.matching(), filter.out_port());
        FlowStatsRequest { matching, out_port, ..self.stats_request() }
    }

    /// Deletes the flow entries that `filter` selects; without cookies, those of all applications.
    pub(super) fn delete(self, filter: EntryFilter) -> FlowMod {
        let (cookie, cookie_mask) = self.cookie_filter();
        let (matching, out_port) = (filter.matching(), filter.out_port());
        let command = FlowModCommand::DELETE;
        FlowMod { command, cookie, cookie_mask, matching, out_port, ..FlowMod::default() }
    }

    /// Deletes all flow entries; `None` without cookies.
    pub(super) fn delete_all(self) -> Option<FlowMod> {
        (self == Self::ByCookie).then(|| self.delete(EntryFilter::ToPort(PortNo::ANY)))
    }

    /// Deletes all entries whose match has this rank; `None` without cookies, as others might match the same.
    pub(super) fn delete_by_rank(self, rank: u8) -> Option<FlowMod> {
        let (cookie, command) = (COOKIE | u64::from(rank), FlowModCommand::DELETE);
        let delete = FlowMod { command, cookie, cookie_mask: u64::MAX, ..FlowMod::default() };
        (self == Self::ByCookie).then_some(delete)
    }
}

/// The field that matches the VLAN of a host. A host without a VLAN may have priority tags.
fn vlan(host: HostId) -> Option<Field> {
    (host.vlan != VlanId(0)).then(|| Field::vlan(host.vlan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_to_a_simpler_match_has_a_higher_priority() {
        let priorities = |matching, priority_of_configured| {
            let cfg = Config { matching, priority: priority_of_configured, ..Config::default() };
            Matching::ALL.map(|matching| priority(&cfg, matching))
        };
        assert_eq!(priorities(Matching::FiveTuple, 100), [100, 101, 102]);
        assert_eq!(priorities(Matching::Pair, 7), [7, 7, 8]);
        assert_eq!(priorities(Matching::Pair, 65_535), [65_535; 3]);
    }
}
