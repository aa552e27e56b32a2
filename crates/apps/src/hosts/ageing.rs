//! Probes hosts that are silent, and removes those that do not answer or whose switch stays disconnected.

use std::net::IpAddr;
use std::time::Instant;

use sluice_openflow::MacAddr;
use sluice_sdk::Network;
use sluice_sdk::view::{HostId, SwitchPort};

use super::frames::{self, AGEING_PROBE_MAC, FrameHeader};
use super::host_table::{AgeingPolicy, DueAction};
use super::known_addresses::AddressChecks;
use super::{Hosts, last_addrs, send_frame};

/// Hosts examined per tick, four times a second: a full table is examined within its timeout.
const HOSTS_PER_TICK_MAX: usize = 256;

impl Hosts {
    /// Probes hosts that have been silent for the timeout, and removes those that did not answer.
    pub(super) fn probe_silent_hosts(&mut self, now: Instant, network: &mut Network) {
        let policy = AgeingPolicy { timeout: self.cfg.timeout, probes: self.cfg.probes };
        for _ in 0..HOSTS_PER_TICK_MAX {
            let has_room = |switch| !self.without_room.contains(&switch);
            let due = self.table.next_due(now, policy, network.fast_path_hosts(), has_room);
            let Some((id, action)) = due else { break };
            let is_kept = match action {
                DueAction::None => true,
                DueAction::CheckAddrs(checks) => {
                    self.check_addrs(id, &checks, now, network);
                    true
                }
                DueAction::Probe => self.probe_host(id, network),
                DueAction::Remove => false,
            };
            if !is_kept {
                self.counters.expired.count();
                self.remove_host(id, now, network);
            }
        }
    }

    /// Probes some addresses of a host, and removes others.
    fn check_addrs(
        &mut self,
        id: HostId,
        AddressChecks { probed, removed }: &AddressChecks,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(at) = network.view().host(id).map(|host| host.at) else { return };
        for &addr in probed {
            self.send_probe(AGEING_PROBE_MAC, (id, at), addr, network);
        }
        if !removed.is_empty() {
            for _ in removed {
                self.counters.addrs_expired.count();
            }
            self.remove_addrs(id, removed, now, network);
        }
    }

    /// Probes the last known address of each family of a host. Returns `false` if it has no address.
    pub(super) fn probe_host(&mut self, id: HostId, network: &mut Network) -> bool {
        let Some(at) = network.view().host(id).map(|host| host.at) else { return false };
        let mut is_asked = false;
        for addr in last_addrs(id, network.view()) {
            self.send_probe(AGEING_PROBE_MAC, (id, at), addr, network);
            is_asked = true;
        }
        is_asked
    }

    /// Asks the host `id` at `at` whether it has `addr`.
    pub(super) fn send_probe(
        &mut self,
        src: MacAddr,
        (id, at): (HostId, SwitchPort),
        addr: IpAddr,
        network: &mut Network,
    ) {
        let tag = frames::vlan_tag(id.vlan.0);
        let data = frames::encode_probe(FrameHeader { src, dst: id.mac, tag: &tag }, addr).to_vec();
        self.counters.probes.count();
        send_frame(at, data, network);
    }

    /// Removes the hosts of switches that have been disconnected for the timeout.
    pub(super) fn remove_hosts_of_disconnected_switches(
        &mut self,
        now: Instant,
        network: &mut Network,
    ) {
        let timeout = self.cfg.timeout;
        let mut overdue = Vec::new();
        self.disconnected.retain(|&id, since| {
            let is_overdue = now.saturating_duration_since(*since) >= timeout;
            if is_overdue {
                overdue.push(id);
            }
            !is_overdue
        });
        for switch in overdue {
            if network.view().switch(switch).is_some() {
                continue;
            }
            self.remove_hosts_of(switch, now, network);
        }
    }
}
