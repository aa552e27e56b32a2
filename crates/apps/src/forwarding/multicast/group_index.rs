//! Which ports multicast packets are sent to, as all workers know it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};
use sluice_sdk::view::{AppRecord, SwitchPort};

use super::messages::{is_filterable, mac_of};
use super::{IpGroup, UnregisteredGroups};

/// What the worker of a switch knows of one of its edge ports. No record means that the port gets every multicast.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PortGroups {
    /// Groups that have members there.
    pub(super) groups: Arc<BTreeSet<IpGroup>>,
    /// Routers there.
    pub(super) routers: BTreeSet<(VlanId, RouterSign)>,
    /// VLANs in which hosts there had time to answer a query, so that other groups have no members.
    pub(super) queried: BTreeSet<VlanId>,
    /// Whether some of the groups there may not be known.
    pub(super) is_unfiltered: bool,
}

impl AppRecord for PortGroups {
    type Key = SwitchPort;
}

/// What shows that a router for multicast is at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RouterSign {
    Query,
    Hello,
}

/// Frames to a multicast address in a VLAN.
pub(in super::super) type EthernetGroup = (VlanId, MacAddr);

/// All ports, and the ports by group.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupIndex {
    ports: BTreeMap<SwitchPort, PortGroups>,
    /// Ports with members, with the number of their IP groups that have this MAC address.
    members: BTreeMap<EthernetGroup, BTreeMap<SwitchPort, u32>>,
    memberships: usize,
    version: u64,
}

impl GroupIndex {
    /// Number of changes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Number of groups of all ports.
    pub(super) fn memberships(&self) -> usize {
        self.memberships
    }

    pub(super) fn port(&self, at: SwitchPort) -> Option<&PortGroups> {
        self.ports.get(&at)
    }

    /// The ports of a switch of which something is known.
    pub(super) fn ports_of(
        &self,
        id: DatapathId,
    ) -> impl Iterator<Item = (SwitchPort, &PortGroups)> {
        self.ports.range(SwitchPort::all_of(id)).map(|(&at, port)| (at, port))
    }

    /// Applies what has been published of a port.
    pub(super) fn set_port(&mut self, at: SwitchPort, new: Option<&PortGroups>) {
        let old = match new {
            Some(new) => self.ports.insert(at, new.clone()),
            None => self.ports.remove(&at),
        };
        let none = PortGroups::default();
        let (old, new) = (old.as_ref().unwrap_or(&none), new.unwrap_or(&none));
        if old == new {
            return;
        }
        self.version += 1;
        for group in old.groups.difference(&new.groups) {
            self.memberships -= 1;
            let group = ethernet_group(*group);
            let Some(ports) = self.members.get_mut(&group) else { continue };
            decrement(ports, &at);
            if ports.is_empty() {
                self.members.remove(&group);
            }
        }
        for group in new.groups.difference(&old.groups) {
            self.memberships += 1;
            let ports = self.members.entry(ethernet_group(*group)).or_default();
            *ports.entry(at).or_default() += 1;
        }
    }

    /// Number of groups with members.
    pub(super) fn group_count(&self) -> usize {
        self.members.len()
    }

    /// The groups that a port has members of.
    pub(super) fn groups_at(&self, at: SwitchPort) -> impl Iterator<Item = EthernetGroup> {
        let groups = self.ports.get(&at).into_iter().flat_map(|port| port.groups.iter());
        groups.map(|&group| ethernet_group(group))
    }

    /// The groups that have members, at most `max` of them: first one of each port, then another one of each up to
    /// `per_port_max`, so that a port with many groups does not displace those of others.
    ///
    /// # Cost
    /// Visits the groups of all ports, until there are enough.
    pub(super) fn groups(&self, max: usize, per_port_max: usize) -> Vec<EthernetGroup> {
        let (mut chosen, mut groups) = (BTreeSet::new(), Vec::new());
        let mut ports: Vec<_> =
            self.ports.values().map(|port| port.groups.iter().take(per_port_max)).collect();
        while groups.len() < max && !ports.is_empty() {
            ports.retain_mut(|rest| {
                let Some(&group) = rest.next() else { return false };
                let group = ethernet_group(group);
                if groups.len() < max && chosen.insert(group) {
                    groups.push(group);
                }
                true
            });
        }
        groups
    }

    /// The ports of a switch that have members of a group.
    pub(super) fn member_ports(
        &self,
        group: EthernetGroup,
        id: DatapathId,
    ) -> impl Iterator<Item = PortNo> {
        let ports = self.members.get(&group).into_iter();
        ports.flat_map(move |ports| ports.range(SwitchPort::all_of(id))).map(|(at, _)| at.port)
    }
}

fn ethernet_group((vlan, group): IpGroup) -> EthernetGroup {
    (vlan, mac_of(group))
}

fn decrement<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The ports that packets to a group are sent to.
#[derive(Debug, Clone)]
pub(in super::super) struct PortFilter {
    index: Arc<GroupIndex>,
    vlan: VlanId,
    selection: PortSelection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortSelection {
    /// Ports with members of a group, those with routers, and those that may have members.
    Members(EthernetGroup),
    /// The same, for a group without members: ports with routers, and those that may have members.
    NoMembers,
    /// Ports with routers.
    Routers,
}

impl PortFilter {
    /// The ports to which packets to `dst` are sent; `None` for all.
    pub(super) fn of_group(
        index: &Arc<GroupIndex>,
        (vlan, dst): EthernetGroup,
        unregistered: UnregisteredGroups,
    ) -> Option<Self> {
        if !is_filterable(dst) {
            return None;
        }
        let selection = if index.members.contains_key(&(vlan, dst)) {
            PortSelection::Members((vlan, dst))
        } else if unregistered == UnregisteredGroups::Flood {
            return None;
        } else {
            PortSelection::NoMembers
        };
        Some(Self { index: index.clone(), vlan, selection })
    }

    /// The ports to which packets to groups without members are sent.
    pub(super) fn without_members(index: &Arc<GroupIndex>, vlan: VlanId) -> Self {
        Self { index: index.clone(), vlan, selection: PortSelection::NoMembers }
    }

    /// The ports to which reports are sent.
    pub(super) fn routers(index: &Arc<GroupIndex>, vlan: VlanId) -> Self {
        Self { index: index.clone(), vlan, selection: PortSelection::Routers }
    }

    /// Whether packets are sent to an edge port.
    pub(in super::super) fn admits(&self, at: SwitchPort) -> bool {
        let port = self.index.port(at);
        let has_router = || {
            let signs = (self.vlan, RouterSign::Query)..=(self.vlan, RouterSign::Hello);
            port.is_some_and(|port| port.routers.range(signs).next().is_some())
        };
        let has_members = || match self.selection {
            PortSelection::Members(group) => {
                self.index.members.get(&group).is_some_and(|ports| ports.contains_key(&at))
            }
            PortSelection::NoMembers | PortSelection::Routers => false,
        };
        let is_known =
            port.is_some_and(|port| !port.is_unfiltered && port.queried.contains(&self.vlan));
        has_router() || (self.selection != PortSelection::Routers && (!is_known || has_members()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use sluice_openflow::PortNo;

    use super::*;

    const VLAN: VlanId = VlanId(5);

    fn at(port: u32) -> SwitchPort {
        SwitchPort::new(DatapathId(1), PortNo(port))
    }

    fn with_groups(groups: &[&str]) -> PortGroups {
        let groups = groups.iter().map(|group| (VLAN, group.parse::<IpAddr>().unwrap()));
        let groups = Arc::new(groups.collect());
        PortGroups { groups, queried: [VLAN].into(), ..PortGroups::default() }
    }

    fn admitted(index: &Arc<GroupIndex>, vlan: VlanId, group: &str) -> Vec<u32> {
        let dst = mac_of(group.parse().unwrap());
        let filter = PortFilter::of_group(index, (vlan, dst), UnregisteredGroups::RouterPorts);
        (1..=5).filter(|&port| filter.as_ref().unwrap().admits(at(port))).collect()
    }

    #[test]
    fn packets_to_a_group_go_to_members_routers_and_ports_that_are_not_known() {
        let mut index = GroupIndex::default();
        index.set_port(at(1), Some(&with_groups(&["239.1.1.1"])));
        index.set_port(at(2), Some(&with_groups(&["239.1.1.2"])));
        let router = PortGroups {
            routers: [(VLAN, RouterSign::Hello)].into(),
            ..with_groups(&["ff15::abcd:1"])
        };
        index.set_port(at(3), Some(&router));
        let unfiltered = PortGroups { is_unfiltered: true, ..with_groups(&[]) };
        index.set_port(at(4), Some(&unfiltered));
        let index = Arc::new(index);
        assert_eq!(admitted(&index, VLAN, "239.1.1.1"), [1, 3, 4, 5]);
        assert_eq!(admitted(&index, VLAN, "239.1.1.9"), [3, 4, 5]);
        assert_eq!(admitted(&index, VLAN, "ff15::abcd:1"), [3, 4, 5]);
        assert_eq!(admitted(&index, VlanId(0), "239.1.1.1"), [1, 2, 3, 4, 5], "not queried");
        let routers = PortFilter::routers(&index, VLAN);
        assert!(routers.admits(at(3)));
        assert!([1, 2, 4, 5].iter().all(|&port| !routers.admits(at(port))));
        let unregistered = (VLAN, mac_of("239.1.1.9".parse().unwrap()));
        assert!(PortFilter::of_group(&index, unregistered, UnregisteredGroups::Flood).is_none());
    }

    /// Both have the address 01:00:5e:01:01:01.
    #[test]
    fn groups_with_the_same_ethernet_address_are_one_until_both_have_left() {
        let mut index = GroupIndex::default();
        index.set_port(at(2), Some(&with_groups(&[])));
        for groups in [&["239.1.1.1", "238.129.1.1"][..], &["238.129.1.1"], &["239.1.1.1"]] {
            index.set_port(at(1), Some(&with_groups(groups)));
            assert_eq!(admitted(&Arc::new(index.clone()), VLAN, "239.1.1.1"), [1, 3, 4, 5]);
        }
        index.set_port(at(1), Some(&with_groups(&[])));
        assert_eq!(admitted(&Arc::new(index.clone()), VLAN, "239.1.1.1"), [3, 4, 5]);
        assert_eq!((index.memberships(), index.groups(10, 10).len()), (0, 0));
    }

    #[test]
    fn a_port_with_many_groups_does_not_displace_those_of_others() {
        let mut index = GroupIndex::default();
        let many: Vec<_> = (0..=255).map(|n| format!("239.0.1.{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        index.set_port(at(1), Some(&with_groups(&many)));
        index.set_port(at(2), Some(&with_groups(&["239.9.1.1", "239.9.1.2"])));
        let groups = index.groups(10, 1000);
        assert_eq!(groups.len(), 10);
        for group in ["239.9.1.1", "239.9.1.2"] {
            assert!(groups.contains(&(VLAN, mac_of(group.parse().unwrap()))));
        }
        assert_eq!(index.groups(1000, 1000).len(), 258);
        assert_eq!(index.groups(1000, 64).len(), 66);
    }
}
