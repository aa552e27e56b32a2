//! Learns the location and the addresses of hosts, and resolves address conflicts.

use std::net::IpAddr;
use std::time::Instant;

use sluice_openflow::MacAddr;
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, Host, HostId, NetworkView, SwitchPort};

use super::conflicts::{Conflict, HOLD, MoveDecision, Subject};
use super::counters::{HostFields, PortFields};
use super::frames::{AGEING_PROBE_MAC, CONFLICT_PROBE_MAC};
use super::host_table::AddrSource;
use super::{ConflictPolicy, Hosts, VERIFY_TIMEOUT, is_attachment_port, is_reachable};

/// What became of the information in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LearnOutcome {
    /// The network view contains it.
    Known,
    /// It was not learned, but the packet is forwarded.
    NotLearned,
    /// The sender may be spoofing another host: the packet is dropped.
    Rejected,
}

/// The first decision about a claim, before the owner has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimDecision {
    Accepted,
    Rejected,
}

impl Hosts {
    /// A packet from `id` was received at the attachment port `at`.
    pub(super) fn learn_location(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let (view, fast_path) = network.view_and_fast_path_hosts();
        match view.host(id) {
            Some(host) if host.at == at => {
                if self.table.get(id).is_none() {
                    self.table.insert(id, host, (now, self.cfg.timeout), None, fast_path);
                }
                LearnOutcome::Known
            }
            Some(host) => {
                let from = host.at;
                self.learn_move(id, (from, at), now, network)
            }
            None => self.learn_new_host(id, at, now, network),
        }
    }

    fn learn_new_host(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let view = network.view();
        if id.mac.is_group() || id.mac == MacAddr::default() || is_probe_source(id.mac) {
            return LearnOutcome::NotLearned;
        }
        // The port's own address is fine: the port may belong to a host that is also a switch.
        if view.is_port_addr(id.mac) && view.port(at).is_none_or(|port| port.hw_addr != id.mac) {
            self.counters.switch_address.report(now, network, || {
                let (host, port) = (HostFields(id), PortFields(at));
                format!("host not learned: it has the MAC address of a switch port {host} {port}")
            });
            return LearnOutcome::NotLearned;
        }
        let max = self.cfg.hosts_max as usize;
        // Entries of removed hosts are kept for a while and need memory as well.
        if view.host_count() >= max || view.host_entry_count() >= max.saturating_mul(2) {
            self.counters.table_full.report(now, network, || {
                let (host, port) = (HostFields(id), PortFields(at));
                format!("host not learned: hosts.hosts_max = {max} hosts are known {host} {port}")
            });
            return LearnOutcome::NotLearned;
        }
        if !self.has_room(id, at, now, network) {
            return LearnOutcome::NotLearned;
        }
        self.publish_host(id, Host { at, addrs: Vec::new() }, None, now, network);
        LearnOutcome::Known
    }

    /// Whether one more host may be learned at a port.
    fn has_room(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> bool {
        let max = self.cfg.per_port_max as usize;
        if max == 0 || network.view().hosts_at(at).take(max).count() < max {
            return true;
        }
        self.counters.port_full.report(now, network, || {
            let (host, port) = (HostFields(id), PortFields(at));
            format!(
                "host not learned: hosts.per_port_max = {max} hosts are at its port {host} {port}"
            )
        });
        false
    }

    /// A packet from a host that is known at `from` was received at `to`: the host moved, or another host spoofs it.
    fn learn_move(
        &mut self,
        id: HostId,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let subject = (id, None);
        let is_unreachable = !is_reachable(network.view(), from);
        if !is_unreachable && self.is_rejected(subject) {
            self.counters.spoofed.count();
            return LearnOutcome::Rejected;
        }
        if !self.admit_move(subject, (from, to), now, network) {
            return LearnOutcome::NotLearned;
        }
        if !self.has_room(id, to, now, network) {
            return LearnOutcome::NotLearned;
        }
        if !is_unreachable
            && self.open_conflict(subject, id, (from, to), now, network) == ClaimDecision::Rejected
        {
            return LearnOutcome::Rejected;
        }
        self.move_host(id, to, now, network);
        LearnOutcome::Known
    }

    /// Whether a host or an address may move once more.
    fn admit_move(
        &mut self,
        subject: Subject,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> bool {
        match self.move_limiter.count(subject, now, self.cfg.moves_per_s_max) {
            MoveDecision::Allowed => return true,
            MoveDecision::LimitExceeded => self.counters.moves_ignored.report(now, network, || {
                let what = match subject {
                    (_, Some(addr)) => format!("IP address moves too often addr={addr}"),
                    (id, None) => format!("host moves too often {}", HostFields(id)),
                };
                let (kept, other) = (PortFields(from), PortFields(to));
                let hold = HOLD.as_secs();
                format!(
                    "{what}; it is kept at its last port for {hold} s: {kept}; now seen at {other}"
                )
            }),
            MoveDecision::Blocked => self.counters.moves_ignored.count(),
        }
        false
    }

    /// Moves a host to `at`, with the addresses that no other host has taken over.
    fn move_host(&mut self, id: HostId, at: SwitchPort, now: Instant, network: &mut Network) {
        let addrs = owned_addrs(id, network.view());
        self.counters.moves.count();
        self.publish_host(id, Host { at, addrs }, None, now, network);
    }

    /// Learns the source address of an IP packet from `id`, if no address of this family is known of the host, since routers
    /// send packets of other hosts, and no other host has the address.
    pub(super) fn learn_source_addr(
        &mut self,
        id: HostId,
        addr: IpAddr,
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let local = self.table.get(id);
        let has_none = local.is_some_and(|local| local.addr_source(addr) == AddrSource::None);
        if has_none && network.view().host_by_addr(addr, id.vlan).is_none() {
            self.add_addr(id, addr, AddrSource::Observed, now, network);
        }
        LearnOutcome::Known
    }

    /// Learns an address that `id` states in ARP or neighbor discovery, or that a DHCP server assigned.
    pub(super) fn learn_stated_addr(
        &mut self,
        id: HostId,
        addr: IpAddr,
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let Some(host) = network.view().host(id) else { return LearnOutcome::Known };
        let at = host.at;
        let (view, fast_path) = network.view_and_fast_path_hosts();
        match view.host_by_addr(addr, id.vlan) {
            Some((owner, host)) if owner == id => {
                if self.is_observed(id, addr) {
                    let stated = Some((addr, AddrSource::Stated));
                    self.table.insert(id, host, (now, self.cfg.timeout), stated, fast_path);
                }
                return LearnOutcome::Known;
            }
            Some((owner, host)) if is_reachable(view, host.at) => {
                let (subject, from) = ((owner, Some(addr)), host.at);
                if self.is_rejected(subject) {
                    self.counters.spoofed.count();
                    return LearnOutcome::Rejected;
                }
                // Moves of an address are counted whichever hosts it moves between.
                let any_host = HostId { mac: MacAddr::default(), vlan: id.vlan };
                if !self.admit_move((any_host, Some(addr)), (from, at), now, network) {
                    return LearnOutcome::Known;
                }
                let decision = self.open_conflict(subject, id, (from, at), now, network);
                if decision == ClaimDecision::Rejected {
                    return LearnOutcome::Rejected;
                }
            }
            _ => {}
        }
        self.add_addr(id, addr, AddrSource::Stated, now, network);
        LearnOutcome::Known
    }

    /// Whether the host's address of the family of `addr` is only known from the source of a packet.
    fn is_observed(&self, id: HostId, addr: IpAddr) -> bool {
        self.table.get(id).is_some_and(|local| local.addr_source(addr) == AddrSource::Observed)
    }

    fn add_addr(
        &mut self,
        id: HostId,
        addr: IpAddr,
        source: AddrSource,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(at) = network.view().host(id).map(|host| host.at) else { return };
        let mut addrs = owned_addrs(id, network.view());
        if self.is_observed(id, addr) {
            addrs.retain(|known| known.is_ipv4() != addr.is_ipv4());
        }
        let max = usize::from(self.cfg.addrs_max);
        if addrs.contains(&addr) {
            return;
        }
        if addrs.len() >= max {
            return self.counters.addrs_full.report(now, network, || {
                let (host, port) = (HostFields(id), PortFields(at));
                format!(
                    "IP address not learned: its host has {max} addresses addr={addr} {host} {port}"
                )
            });
        }
        addrs.push(addr);
        self.publish_host(id, Host { at, addrs }, Some((addr, source)), now, network);
    }

    fn remove_addr(&mut self, id: HostId, addr: IpAddr, now: Instant, network: &mut Network) {
        let Some(host) = network.view().host(id) else { return };
        let (at, mut addrs) = (host.at, host.addrs.clone());
        addrs.retain(|&known| known != addr);
        self.publish_host(id, Host { at, addrs }, None, now, network);
    }

    /// Publishes the location and the addresses of a host and updates the host table.
    fn publish_host(
        &mut self,
        id: HostId,
        host: Host,
        source: Option<(IpAddr, AddrSource)>,
        now: Instant,
        network: &mut Network,
    ) {
        network.publish(now, Fact::Host(id, Some(host)));
        let (view, fast_path) = network.view_and_fast_path_hosts();
        match view.host(id) {
            Some(host) if self.is_local(host.at.switch) => {
                self.table.insert(id, host, (now, self.cfg.timeout), source, fast_path);
            }
            _ => self.table.remove(id, fast_path),
        }
    }

    /// Whether claims about `subject` are rejected at once: the owner answered a probe a moment ago, or has not yet.
    fn is_rejected(&self, subject: Subject) -> bool {
        match self.cfg.address_conflicts {
            ConflictPolicy::Off => false,
            ConflictPolicy::Report => self.conflicts.is_rejected(subject),
            ConflictPolicy::Refuse => self.conflicts.contains(subject),
        }
    }

    /// Handles a claim from `to` about a host at `from` or its address: probes the owner and decides about the claim until
    /// the owner answers.
    fn open_conflict(
        &mut self,
        subject: Subject,
        claimant: HostId,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> ClaimDecision {
        let (owner, addr) = subject;
        let decision = match self.cfg.address_conflicts {
            ConflictPolicy::Off => return ClaimDecision::Accepted,
            ConflictPolicy::Report => ClaimDecision::Accepted,
            ConflictPolicy::Refuse => ClaimDecision::Rejected,
        };
        let last_addr = || network.view().host(owner).and_then(|host| host.addrs.last().copied());
        // A host without an address cannot be probed.
        let Some(probed_addr) = addr.or_else(last_addr) else { return ClaimDecision::Accepted };
        // The previous owner claims the address back while the probe of the same conflict is outstanding.
        let is_counterclaim = addr.is_some() && self.conflicts.contains((claimant, addr));
        if is_counterclaim || self.conflicts.contains(subject) || self.conflicts.is_full() {
            return decision;
        }
        let until = now + VERIFY_TIMEOUT;
        let conflict = Conflict { claimant, from, to, until, is_rejected: false };
        self.conflicts.insert(subject, conflict);
        self.send_probe(CONFLICT_PROBE_MAC, (owner, from), probed_addr, network);
        decision
    }

    /// A host answered a probe at its old location: the claims against it are rejected, and reverted if they were accepted.
    pub(super) fn on_probe_reply(
        &mut self,
        id: HostId,
        answer: (SwitchPort, IpAddr),
        now: Instant,
        network: &mut Network,
    ) {
        let action = match self.cfg.address_conflicts {
            ConflictPolicy::Refuse => "claim rejected",
            ConflictPolicy::Report | ConflictPolicy::Off => "claim reverted",
        };
        let conflicts = &mut self.counters.conflicts;
        let mut rejected = Vec::new();
        self.conflicts.reject(id, answer, now, |(owner, addr), conflict| {
            let &Conflict { claimant, from, to, .. } = conflict;
            conflicts.report(now, network, || {
                let (owner, at, to) = (HostFields(owner), PortFields(from), PortFields(to));
                match addr {
                    Some(addr) => {
                        let claimant = HostFields(claimant);
                        format!("IP address conflict, {action}: addr={addr} owner: {owner} {at}; claimant: {claimant} {to}")
                    }
                    None => format!("MAC address conflict, {action}: owner: {owner} {at}; claimant: {to}"),
                }
            });
            rejected.push((addr, *conflict));
        });
        for (addr, conflict) in rejected {
            let view = network.view();
            let has_addr = |addr| {
                let owner = view.host_by_addr(addr, id.vlan);
                owner.is_some_and(|(owner, _)| owner == conflict.claimant)
            };
            match addr {
                None if view.host(id).is_some_and(|host| host.at == conflict.to) => {
                    self.move_host(id, conflict.from, now, network);
                }
                Some(addr) if has_addr(addr) => {
                    self.remove_addr(conflict.claimant, addr, now, network);
                    self.add_addr(id, addr, AddrSource::Stated, now, network);
                }
                _ => {}
            }
        }
    }

    /// Ends conflicts whose time is over. Claims that were held back because of a probe are accepted if it had no answer.
    pub(super) fn end_conflicts(&mut self, now: Instant, network: &mut Network) {
        for ((owner, addr), conflict) in self.conflicts.take_ended(now) {
            let view = network.view();
            let is_at = |id, at| view.host(id).is_some_and(|host| host.at == at);
            let is_claimant_there = is_at(conflict.claimant, conflict.to);
            if conflict.is_rejected
                || self.cfg.address_conflicts != ConflictPolicy::Refuse
                || !is_at(owner, conflict.from)
                || !is_attachment_port(view, conflict.to)
            {
                continue;
            }
            match addr {
                None if self.has_room(owner, conflict.to, now, network) => {
                    self.move_host(owner, conflict.to, now, network);
                }
                Some(addr) if is_claimant_there => {
                    self.add_addr(conflict.claimant, addr, AddrSource::Stated, now, network);
                }
                _ => {}
            }
        }
    }
}

/// Whether an address is the source of the controller's probes.
fn is_probe_source(mac: MacAddr) -> bool {
    [AGEING_PROBE_MAC, CONFLICT_PROBE_MAC].contains(&mac)
}

/// The addresses of a host without those that another host has stated since.
fn owned_addrs(id: HostId, view: &NetworkView) -> Vec<IpAddr> {
    let addrs = view.host(id).into_iter().flat_map(|host| host.addrs.iter().copied());
    addrs
        .filter(|&addr| view.host_by_addr(addr, id.vlan).is_some_and(|(owner, _)| owner == id))
        .collect()
}
