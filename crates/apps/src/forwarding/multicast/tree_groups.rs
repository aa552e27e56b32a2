//! The groups for which switches of a spanning tree get flow entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, PortNo, VlanId};
use sluice_sdk::Ctx;
use sluice_sdk::view::SwitchPort;

use super::group_index::{EthernetGroup, GroupIndex, PortFilter};
use super::switch_ports::snooped_vlans;
use super::{Config, UnregisteredGroups};

/// Flow entries of a switch for single groups. Packets to more groups go to all edge ports.
pub(in super::super) const ENTRIES_MAX: usize = 1024;

/// The groups of one port among these, so that one host that joins many does not make all switches of the tree write and renew as
/// many entries.
const GROUPS_PER_PORT_MAX: usize = 256;

/// Groups beyond which changes are collected for [`UPDATE_INTERVAL`], as each takes some milliseconds for many switches.
const QUICK_GROUPS_MAX: usize = 128;
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The groups of all ports at one time.
#[derive(Debug, Default)]
pub(in super::super) struct TreeGroups {
    /// Version of the index and of the configuration.
    version: (u64, u64),
    updated_at: Option<Instant>,
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
        index: &GroupIndex,
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
        self.groups = match cfg {
            Some(_) => index.groups(ENTRIES_MAX, GROUPS_PER_PORT_MAX),
            None => Vec::new(),
        };
        self.filtered_vlans = match self.unregistered {
            Some(UnregisteredGroups::RouterPorts) => {
                snooped_vlans(ctx.view()).into_iter().collect()
            }
            Some(UnregisteredGroups::Flood) | None => Vec::new(),
        };
    }

    /// Where a switch with these edge ports sends multicasts, with at most `max` groups.
    pub(super) fn of_switch(
        &self,
        index: &Arc<GroupIndex>,
        id: DatapathId,
        edges: &[PortNo],
        max: usize,
    ) -> SwitchGroups {
        let without_members = |vlan| -> Vec<_> {
            let filter = PortFilter::without_members(index, vlan);
            let admits = |&port: &PortNo| filter.admits(SwitchPort::new(id, port));
            edges.iter().copied().filter(admits).collect()
        };
        let mut by_vlan = BTreeMap::new();
        let ports_of = |&group: &EthernetGroup| {
            let base = by_vlan.entry(group.0).or_insert_with(|| without_members(group.0));
            let members = index.member_ports(group, id).filter(|port| edges.contains(port));
            let mut ports: Vec<_> = base.iter().copied().chain(members).collect();
            ports.sort_unstable();
            ports.dedup();
            (group, ports)
        };
        let listed = self.groups.get(..max).unwrap_or(&self.groups);
        let registered = listed.iter().map(ports_of).collect();
        // Groups without an entry are taken for groups without members, so their members get all of these.
        let listed: BTreeSet<_> = listed.iter().collect();
        let has_unlisted = |&port: &PortNo| {
            let mut groups = index.groups_at(SwitchPort::new(id, port));
            groups.any(|group| !listed.contains(&group))
        };
        let with_unlisted: BTreeSet<_> = if self.filtered_vlans.is_empty() {
            BTreeSet::new()
        } else {
            edges.iter().copied().filter(has_unlisted).collect()
        };
        let unregistered = self.filtered_vlans.iter().map(|&vlan| {
            let ports: BTreeSet<_> = without_members(vlan).into_iter().collect();
            (vlan, ports.union(&with_unlisted).copied().collect())
        });
        let unregistered = unregistered.collect();
        SwitchGroups { registered, unregistered }
    }
}
