//! The edge ports of a switch of this worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, PortNo, VlanId};
use sluice_sdk::view::{NetworkView, PortRole, SwitchPort};

use super::super::flood::is_edge;
use super::members::MemberPort;
use super::{Timing, VlanInUse};

/// The ports of a switch, and what is snooped there.
#[derive(Debug, Default)]
pub(super) struct SwitchPorts {
    ports: BTreeMap<PortNo, MemberPort>,
    /// Edge ports, and ports that may become edge ports.
    kept: BTreeSet<PortNo>,
    /// VLANs in which queries are sent and packets filtered.
    vlans: BTreeSet<VlanId>,
    /// Versions of the switch and of the VLANs in use from which these follow.
    derived_from: Option<(u64, u64)>,
    /// Versions of the view and of the VLANs in use that were looked at last: the first is read faster than that of the switch.
    seen: Option<(u64, u64)>,
    /// Since when the switch does not take what is sent.
    without_room_since: Option<Instant>,
}

impl SwitchPorts {
    /// A switch of which something is known already.
    pub(super) fn adopt(ports: BTreeMap<PortNo, MemberPort>) -> Self {
        Self { ports, ..Self::default() }
    }

    pub(super) fn numbers(&self) -> Vec<PortNo> {
        self.ports.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &MemberPort> {
        self.ports.values()
    }

    pub(super) fn get_mut(&mut self, no: PortNo) -> Option<&mut MemberPort> {
        self.ports.get_mut(&no)
    }

    /// A port at which a message was received.
    pub(super) fn get_or_insert(&mut self, no: PortNo) -> &mut MemberPort {
        self.ports.entry(no).or_default()
    }

    /// Whether something is kept of a port.
    pub(super) fn keeps(&self, no: PortNo) -> bool {
        self.kept.contains(&no)
    }

    /// Takes over which ports are edge ports, and which VLANs are snooped.
    ///
    /// # Cost
    /// Visits all ports and their VLANs if one of these has changed.
    pub(super) fn update(&mut self, id: DatapathId, now: Instant, view: &NetworkView) {
        let vlans = view.records_version::<VlanInUse>();
        let seen = (view.version(), vlans);
        if self.seen.replace(seen) == Some(seen) {
            return;
        }
        let versions = (view.switch_version(id), vlans);
        if self.derived_from.replace(versions) == Some(versions) {
            return;
        }
        let (edges, pending) = edge_and_pending_ports(view, id);
        self.vlans = snooped_vlans(view);
        self.kept = edges.union(&pending).copied().collect();
        self.ports.retain(|no, _| self.kept.contains(no));
        for no in pending {
            // Reports that arrive meanwhile are lost, so hosts are queried again.
            if let Some(port) = self.ports.get_mut(&no) {
                port.set_vlans(&BTreeSet::new(), now);
            }
        }
        for no in edges {
            self.ports.entry(no).or_default().set_vlans(&self.vlans, now);
        }
    }

    /// Notes whether the switch takes what is sent. While it does not, it gets no queries, so no member expires either.
    pub(super) fn set_room(&mut self, has_room: bool, now: Instant) {
        if !has_room {
            self.without_room_since.get_or_insert(now);
        } else if let Some(since) = self.without_room_since.take() {
            let time = now.saturating_duration_since(since);
            self.ports.values_mut().for_each(|port| port.postpone(time));
        }
    }

    /// Ports with a query that is due, by VLAN; the queries count as sent.
    ///
    /// # Cost
    /// Visits all ports, and the VLANs of those with a query that is due.
    pub(super) fn take_due_queries(
        &mut self,
        delay: Duration,
        timing: Timing,
        now: Instant,
    ) -> BTreeMap<VlanId, Vec<PortNo>> {
        let mut due = BTreeMap::<VlanId, Vec<PortNo>>::new();
        for (&no, port) in &mut self.ports {
            for vlan in port.take_due_queries(&self.vlans, (delay, timing), now) {
                due.entry(vlan).or_default().push(no);
            }
        }
        due
    }
}

/// The ports of a switch where hosts may be, and those of which this is not known yet.
fn edge_and_pending_ports(
    view: &NetworkView,
    id: DatapathId,
) -> (BTreeSet<PortNo>, BTreeSet<PortNo>) {
    let ports = view.switch(id).into_iter().flat_map(|switch| &switch.ports);
    let (mut edges, mut pending) = (BTreeSet::new(), BTreeSet::new());
    for (&no, port) in ports {
        if is_edge(view, SwitchPort::new(id, no)) {
            edges.insert(no);
        } else if port.is_up && port.role == PortRole::Pending {
            pending.insert(no);
        }
    }
    (edges, pending)
}

/// The VLANs in which queries are sent and packets filtered.
pub(super) fn snooped_vlans(view: &NetworkView) -> BTreeSet<VlanId> {
    let in_use = view.records::<VlanInUse>().map(|((vlan, _), _)| vlan);
    in_use.chain([VlanId(0)]).collect()
}
