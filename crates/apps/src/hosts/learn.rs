//! Learns the location and the addresses of hosts.

use std::net::IpAddr;
use std::time::Instant;

use sluice_openflow::MacAddr;
use sluice_sdk::view::{Fact, Host, HostId, NetworkView, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::conflicts::{ClaimId, HOLD, MoveDecision, Subject};
use super::counters::{HostFields, PortFields};
use super::evidence::HostEvidence;
use super::frames::{AGEING_PROBE_MAC, CONFLICT_PROBE_MAC};
use super::host_table::AddrSource;
use super::{Hosts, is_reachable};

/// What became of the information in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LearnOutcome {
    /// The network view contains it.
    Known,
    /// It was not learned, but the packet is forwarded.
    NotLearned,
    /// The packet is dropped, unless this claim turns out to be right.
    Pending(ClaimId),
    /// The sender is spoofing another host: the packet is dropped.
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
        if !self.make_room(id, at, now, network) {
            return LearnOutcome::NotLearned;
        }
        let (view, max) = (network.view(), self.cfg.hosts_max as usize);
        // Entries of removed hosts are kept for a while and need memory as well.
        if view.host_count() >= max || view.host_entry_count() >= max.saturating_mul(2) {
            self.counters.table_full.report(now, network, || {
                let (host, port) = (HostFields(id), PortFields(at));
                format!("host not learned: hosts.hosts_max = {max} hosts are known {host} {port}")
            });
            return LearnOutcome::NotLearned;
        }
        self.publish_host(id, Host { at, addrs: Vec::new() }, None, now, network);
        LearnOutcome::Known
    }

    pub(super) fn report_port_full(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) {
        let max = self.cfg.per_port_max;
        self.counters.port_full.report(now, network, || {
            let (host, port) = (HostFields(id), PortFields(at));
            format!(
                "host not learned: hosts.per_port_max = {max} hosts are at its port {host} {port}"
            )
        });
    }

    /// A packet from a host that is known at `from` was received at `to`: the host moved, or another host spoofs it.
    fn learn_move(
        &mut self,
        id: HostId,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let claim = ClaimId { owner: id, addr: None, to };
        let needs_verification = self.needs_verification(from, network);
        if needs_verification && let Some(outcome) = self.find_claim(claim) {
            return outcome;
        }
        if self.is_move_blocked(claim.subject(), now) || !self.make_room(id, to, now, network) {
            return if needs_verification {
                self.outcome_unverified(LearnOutcome::NotLearned)
            } else {
                LearnOutcome::NotLearned
            };
        }
        if needs_verification {
            return self.verify_claim(claim, (id, AddrSource::Stated), from, now, network);
        }
        if !self.admit_move(claim.subject(), (from, to), now, network) {
            return LearnOutcome::NotLearned;
        }
        self.move_host(id, to, now, network);
        LearnOutcome::Known
    }

    /// Whether a host or an address moved too often a moment ago.
    fn is_move_blocked(&mut self, subject: Subject, now: Instant) -> bool {
        let is_blocked = self.move_limiter.is_blocked(subject, now);
        if is_blocked {
            self.counters.moves_ignored.count();
        }
        is_blocked
    }

    /// Whether a host or an address may move once more.
    pub(super) fn admit_move(
        &mut self,
        subject: Subject,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> bool {
        match self.move_limiter.count(subject, now, self.cfg.moves_per_s_max) {
            MoveDecision::Allowed => return true,
            MoveDecision::LimitExceeded => _ = self.counters.moves_ignored.report(now, network, || {
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

    /// Whether an address of `owner` may move to another host once more.
    pub(super) fn admit_addr_move(
        &mut self,
        addr: IpAddr,
        owner: HostId,
        ports: (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> bool {
        self.admit_move(moved_addr(addr, owner), ports, now, network)
    }

    /// Moves a host to `at`, with the addresses that no other host has taken over.
    pub(super) fn move_host(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) {
        let addrs = owned_addrs(id, network.view());
        self.counters.moves.count();
        self.publish_host(id, Host { at, addrs }, None, now, network);
    }

    /// Learns the source address of an IP packet from `id`, unless an address of this family is known of the host or another
    /// host has it: routers send packets of other hosts.
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

    /// Learns an address that `id` states in ARP or neighbor discovery, or that a DHCP server assigned, as `source` says.
    pub(super) fn learn_stated_addr(
        &mut self,
        id: HostId,
        (addr, source): (IpAddr, AddrSource),
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        let Some(host) = network.view().host(id) else { return LearnOutcome::Known };
        let at = host.at;
        let (view, fast_path) = network.view_and_fast_path_hosts();
        match view.host_by_addr(addr, id.vlan) {
            Some((owner, host)) if owner == id => {
                if source == AddrSource::Stated
                    && let Some(local) = self.table.get_mut(id)
                {
                    local.addrs.mark_stated(addr, now, self.cfg.timeout);
                }
                if self.is_observed(id, addr) {
                    let stated = Some((addr, source));
                    self.table.insert(id, host, (now, self.cfg.timeout), stated, fast_path);
                }
                return LearnOutcome::Known;
            }
            Some((owner, host)) if is_reachable(view, host.at) => {
                let from = host.at;
                let claim = ClaimId { owner, addr: Some(addr), to: at };
                let needs_verification = self.needs_verification(from, network);
                if needs_verification && let Some(outcome) = self.find_claim(claim) {
                    return outcome;
                }
                if self.is_move_blocked(moved_addr(addr, owner), now) {
                    return if needs_verification {
                        self.outcome_unverified(LearnOutcome::Known)
                    } else {
                        LearnOutcome::Known
                    };
                }
                if needs_verification {
                    return self.verify_claim(claim, (id, source), from, now, network);
                }
                if !self.admit_addr_move(addr, owner, (from, at), now, network) {
                    return LearnOutcome::Known;
                }
            }
            _ => {}
        }
        self.add_addr(id, addr, source, now, network);
        LearnOutcome::Known
    }

    /// A DHCP message that assigns an address to `client` arrived from the host `sender` at the port `at`, with the source address
    /// `server`. Only if the sender has that address, the message counts as evidence.
    pub(super) fn on_lease(
        &mut self,
        client: HostId,
        addr: IpAddr,
        (sender, server, at): (HostId, IpAddr, SwitchPort),
        ctx: &mut Ctx<'_>,
    ) {
        let view = ctx.view();
        let Some(host) = view.host(client) else { return };
        let owner = view.host_by_addr(server, sender.vlan).map(|(owner, _)| owner);
        let is_server = owner == Some(sender) && sender != client;
        let server = is_server.then_some(at);
        let is_new_lease = is_server && !self.leases.is_fresh(client, addr, ctx.now);
        if is_new_lease || !host.addrs.contains(&addr) {
            ctx.publish_event(HostEvidence::AddressLeased { host: client, addr, server });
        }
    }

    /// Whether the host's address of the family of `addr` is only known from the source of a packet.
    fn is_observed(&self, id: HostId, addr: IpAddr) -> bool {
        self.table.get(id).is_some_and(|local| local.addr_source(addr) == AddrSource::Observed)
    }

    pub(super) fn add_addr(
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
            // Only what the host itself sends replaces an address of it: anyone can send a DHCP message.
            let replaced = self.table.get(id).filter(|_| source == AddrSource::Stated);
            let is_leased = |addr| self.leases.holds(id, addr, now);
            let times = (now, self.cfg.timeout);
            let Some(replaced) =
                replaced.and_then(|local| local.addrs.replaceable(&addrs, times, is_leased))
            else {
                self.counters.addrs_full.report(now, network, || {
                    let (host, port) = (HostFields(id), PortFields(at));
                    format!(
                        "IP address not learned: its host has {max} addresses addr={addr} {host} {port}"
                    )
                });
                return;
            };
            self.counters.addrs_replaced.count();
            addrs.retain(|&known| known != replaced);
        }
        if network.view().host(id).is_some_and(|host| host.addrs.contains(&addr)) {
            // Another host, which changed later, has it too. If the same was published again, that host would keep it.
            self.publish_host(id, Host { at, addrs: addrs.clone() }, None, now, network);
        }
        addrs.push(addr);
        self.publish_host(id, Host { at, addrs }, Some((addr, source)), now, network);
    }

    /// Removes addresses of a host that it does not use any more.
    pub(super) fn remove_addrs(
        &mut self,
        id: HostId,
        removed: &[IpAddr],
        now: Instant,
        network: &mut Network,
    ) {
        let Some(host) = network.view().host(id) else { return };
        let (at, mut addrs) = (host.at, host.addrs.clone());
        addrs.retain(|addr| !removed.contains(addr));
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
}

/// What the move of an address is counted by: the address, whichever hosts it moves between.
fn moved_addr(addr: IpAddr, owner: HostId) -> Subject {
    (HostId { mac: MacAddr::default(), vlan: owner.vlan }, Some(addr))
}

/// Whether an address is one of those from which the controller sends: its probes, its queries for members of groups, and the
/// system that it is for LACP.
pub(super) fn is_probe_source(mac: MacAddr) -> bool {
    let [prefix @ .., _] = mac.0;
    [AGEING_PROBE_MAC, CONFLICT_PROBE_MAC].iter().any(|own| own.0.starts_with(&prefix))
}

/// The addresses of a host without those that another host has stated since.
fn owned_addrs(id: HostId, view: &NetworkView) -> Vec<IpAddr> {
    let addrs = view.host(id).into_iter().flat_map(|host| host.addrs.iter().copied());
    addrs
        .filter(|&addr| view.host_by_addr(addr, id.vlan).is_some_and(|(owner, _)| owner == id))
        .collect()
}
