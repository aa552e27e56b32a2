//! Removes the hosts at ports that can have none any more, and those of switches that stay disconnected. If another port of a
//! bundle is used now, its hosts move there.
//!
//! There may be many of them, after a flood of forged addresses for example, and all workers handle each removal. So only some
//! are removed in one event-loop iteration. Until its turn comes, a host is not used: its port is down or unknown.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::{HostId, PortRole, SwitchPort};

use super::{Hosts, can_have_hosts};
use crate::iteration_budget::IterationBudget;

/// Hosts that are examined in one event-loop iteration, which takes less than a millisecond.
const HOSTS_PER_ITERATION_MAX: usize = 256;

/// The ports whose hosts are being removed.
#[derive(Debug)]
pub(super) struct Removals {
    ports: BTreeMap<SwitchPort, PortRemoval>,
    budget: IterationBudget,
}

/// The removal of the hosts at a port.
#[derive(Debug, Clone, Copy)]
struct PortRemoval {
    /// Hosts that were seen at the port later than this are kept, if the port can have hosts again.
    since: Instant,
    /// The last host that was examined.
    examined: Option<HostId>,
    reason: RemovalReason,
}

/// Why hosts are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemovalReason {
    /// The port went down or cannot have hosts.
    PortChanged,
    /// The switch has been disconnected for too long.
    Expired,
}

impl Default for Removals {
    fn default() -> Self {
        let budget = IterationBudget::new(HOSTS_PER_ITERATION_MAX);
        Self { ports: BTreeMap::new(), budget }
    }
}

impl Removals {
    pub(super) fn on_iteration(&mut self) {
        self.budget.refill();
    }
}

impl Hosts {
    /// Removes the hosts at a port of a switch of this worker.
    pub(super) fn remove_hosts_at(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        self.requests.remove(&at);
        self.begin_removal(at, RemovalReason::PortChanged, now);
        self.continue_removals(now, network);
    }

    /// Removes the hosts at ports that a switch of this worker does not have, or that can have no hosts.
    pub(super) fn remove_hosts_at_changed_ports(
        &mut self,
        switch: DatapathId,
        now: Instant,
        network: &mut Network,
    ) {
        for at in ports_with_hosts(switch, network) {
            if !can_have_hosts(at, network.view().port(at)) {
                self.requests.remove(&at);
                self.begin_removal(at, RemovalReason::PortChanged, now);
            }
        }
        self.continue_removals(now, network);
    }

    /// Removes the hosts of a switch that stays disconnected.
    pub(super) fn remove_hosts_of(
        &mut self,
        switch: DatapathId,
        now: Instant,
        network: &mut Network,
    ) {
        for at in ports_with_hosts(switch, network) {
            self.begin_removal(at, RemovalReason::Expired, now);
        }
        self.continue_removals(now, network);
    }

    fn begin_removal(&mut self, at: SwitchPort, reason: RemovalReason, now: Instant) {
        // If the hosts at this port are being removed already, those that were learned meanwhile are removed as well.
        self.removals.ports.insert(at, PortRemoval { since: now, examined: None, reason });
    }

    /// Removes as many hosts as are allowed in this event-loop iteration, and defers the others.
    pub(super) fn continue_removals(&mut self, now: Instant, network: &mut Network) {
        while let Some((&at, &removal)) = self.removals.ports.first_key_value() {
            let next = network.view().hosts_at_after(at, removal.examined).next();
            let Some(id) = next.map(|(id, _)| id) else {
                self.removals.ports.remove(&at);
                continue;
            };
            if !self.removals.budget.take() {
                return network.defer_work();
            }
            if let Some(removal) = self.removals.ports.get_mut(&at) {
                removal.examined = Some(id);
            }
            if self.was_seen_again(id, at, removal.since, network) {
                continue;
            }
            if removal.reason == RemovalReason::Expired {
                self.counters.expired.count();
            }
            match network.view().port_role(at) {
                PortRole::Bundle(used) if used != at => self.move_host(id, used, now, network),
                _ => self.remove_host(id, now, network),
            }
        }
    }

    /// Whether a host was seen at a port after `since`, and the port can have hosts.
    fn was_seen_again(
        &self,
        id: HostId,
        at: SwitchPort,
        since: Instant,
        network: &mut Network,
    ) -> bool {
        let last_seen = self.table.last_seen(id, network.fast_path_hosts());
        last_seen.is_some_and(|seen| seen > since) && can_have_hosts(at, network.view().port(at))
    }
}

/// The ports of a switch at which hosts are known.
fn ports_with_hosts(switch: DatapathId, network: &Network) -> Vec<SwitchPort> {
    let mut ports: Vec<_> = network.view().hosts_of(switch).map(|(_, host)| host.at).collect();
    ports.dedup();
    ports
}
