//! The groups for which switches of a spanning tree get flow entries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, PortNo, VlanId};
use sluice_sdk::Ctx;
use sluice_sdk::view::SwitchPort;

use super::group_index::{EthernetGroup, GroupIndex, PortFilter};
use super::{Config, UnregisteredGroups, snooped_vlans};

/// Flow entries of a switch for single groups. Packets to more groups go to all edge ports.
pub(in super::super) const ENTRIES_MAX: usize = 1024;

/// Groups beyond which changes are collected for [`UPDATE_INTERVAL`], as each takes some milliseconds for many switches.
const QUICK_GROUPS_MAX: usize = 128;
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The groups of all ports at one time.
#[derive(Debug, Default)]
pub(in super::super) struct TreeGroups {
    /// Version of the index and of the configuration.
    version: (u64, u64),
    updated_at: Option<Instant>,
    index: Arc<GroupIndex>,
    /// At most one more than there can be entries.
    groups: Vec<EthernetGroup>,
    /// VLANs in which packets to groups without members are not flooded.
    filtered_vlans: Vec<VlanId>,
    unregistered: Option<UnregisteredGroups>,
}

/// Where a switch sends multicasts.
#[derive(Debug, Default)]
pub(in super::super) struct SwitchGroups {
    /// Edge ports by group.
    pub(in super::super) registered: Vec<(EthernetGroup, Vec<PortNo>)>,
    /// Edge ports for groups without members, by VLAN; empty if these are flooded.
    pub(in super::super) unregistered: Vec<(VlanId, Vec<PortNo>)>,
}

impl TreeGroups {
    /// Number that changes when the groups or their ports do.
    pub(in super::super) fn version(&self) -> (u64, u64) {
        self.version
    }

    /// Takes over what is known now, unless there are many groups and this was done just before.
    pub(super) fn update(
        &mut self,
        cfg: Option<Config>,
        configurations: u64,
        index: &Arc<GroupIndex>,
        ctx: &Ctx<'_>,
    ) {
        let version = (index.version(), configurations);
        let is_recent = |at: Instant| ctx.now.saturating_duration_since(at) < UPDATE_INTERVAL;
        let waits =
            index.group_count() > QUICK_GROUPS_MAX && self.updated_at.is_some_and(is_recent);
        if version == self.version || (waits && configurations == self.version.1) {
            return;
        }
        (self.version, self.updated_at) = (version, Some(ctx.now));
        self.unregistered = cfg.map(|cfg| cfg.unregistered);
        self.index = index.clone();
        self.groups = if cfg.is_some() { index.groups(ENTRIES_MAX + 1) } else { Vec::new() };
        self.filtered_vlans = match self.unregistered {
            Some(UnregisteredGroups::RouterPorts) => {
                snooped_vlans(ctx.view()).into_iter().collect()
            }
            Some(UnregisteredGroups::Flood) | None => Vec::new(),
        };
    }

    /// Where a switch with these edge ports sends multicasts, with at most `max` groups.
    pub(in super::super) fn of_switch(
        &self,
        id: DatapathId,
        edges: &[PortNo],
        max: usize,
    ) -> SwitchGroups {
        let without_members = |vlan| -> Vec<_> {
            let filter = PortFilter::without_members(&self.index, vlan);
            let admits = |&port: &PortNo| filter.admits(SwitchPort::new(id, port));
            edges.iter().copied().filter(admits).collect()
        };
        let mut by_vlan = BTreeMap::new();
        let ports_of = |&group: &EthernetGroup| {
            let base = by_vlan.entry(group.0).or_insert_with(|| without_members(group.0));
            let members = self.index.member_ports(group, id).filter(|port| edges.contains(port));
            let mut ports: Vec<_> = base.iter().copied().chain(members).collect();
            ports.sort_unstable();
            ports.dedup();
            (group, ports)
        };
        let registered = self.groups.iter().take(max).map(ports_of).collect();
        // Otherwise groups without an entry, which may have members, would be taken for groups without members.
        let vlans = if self.groups.len() <= max { &self.filtered_vlans[..] } else { &[] };
        let unregistered = vlans.iter().map(|&vlan| (vlan, without_members(vlan))).collect();
        SwitchGroups { registered, unregistered }
    }
}
