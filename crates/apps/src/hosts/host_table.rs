//! The hosts at the switches of this worker: what the network view does not contain.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::DatapathId;
use sluice_sdk::view::{Host, HostId, SwitchPort};
use sluice_sdk::{FastPathHost, FastPathHosts};

use super::address_info::AddressInfo;
use super::known_addresses::{AddressChecks, KnownAddresses, PROBE_INTERVAL};
use super::port_hosts::PortHosts;

/// How an address of a host became known. One value per address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddrSource {
    /// No address of this family is known.
    None,
    /// The source address of a packet that the host sent. Routers send packets of other hosts, too.
    Observed,
    /// DHCP. The host itself has not used it yet.
    Leased,
    /// ARP or neighbor discovery.
    Stated,
}

/// Whether a host exists: whether it has answered a probe at its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Confirmed,
    Unconfirmed {
        /// Position among the candidates for eviction from its port.
        order: u64,
        /// When it got this position, or was probed since.
        since: Instant,
        /// Probes sent because it was a candidate.
        probes_sent: u8,
    },
}

/// Whether an unconfirmed host may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateState {
    /// It has to be probed before.
    NotProbed,
    /// It may still answer a probe.
    ProbePending,
    /// It was seen again, so others are evicted first.
    SeenAgain,
    /// It was not seen again.
    Silent,
}

/// Probes that a candidate for eviction does not answer, as one of them may be lost.
const CANDIDATE_PROBES: u8 = 2;

/// Silence after which an unconfirmed host at a crowded port is probed.
const UNCONFIRMED_TIMEOUT: Duration = Duration::from_secs(30);

/// A host at a switch of this worker.
#[derive(Debug, Clone)]
pub(super) struct LocalHost {
    /// Its location, as in the network view.
    pub(super) at: SwitchPort,
    /// When the last packet from it passed this application; the fast path keeps its own time.
    last_seen: Instant,
    /// When it is examined next.
    due: Instant,
    /// Probes sent since it was last seen.
    probes_sent: u8,
    ipv4: AddrSource,
    ipv6: AddrSource,
    pub(super) addrs: KnownAddresses,
    confirmation: Confirmation,
    /// Whether it was probed and has not answered yet.
    is_probed: bool,
}

impl LocalHost {
    /// Notes that a packet from the host was received.
    #[inline]
    pub(super) fn mark_seen(&mut self, now: Instant) {
        // Avoids writing to a cache line that already has these values.
        if self.last_seen != now || self.probes_sent != 0 {
            (self.last_seen, self.probes_sent) = (now, 0);
        }
    }

    /// Whether a packet with this information contains nothing new about the host.
    #[inline]
    pub(super) fn knows(&self, info: &AddressInfo) -> bool {
        match info {
            AddressInfo::None => true,
            AddressInfo::Source(addr) => self.addr_source(*addr) != AddrSource::None,
            _ => false,
        }
    }

    /// Updates the addresses to those in the network view.
    fn update_addrs(
        &mut self,
        addrs: &[IpAddr],
        (now, timeout): (Instant, Duration),
        new: AddrSource,
    ) {
        self.addrs.update(addrs, (now, timeout), new != AddrSource::Leased);
        let has = |is_family: fn(&IpAddr) -> bool| addrs.iter().any(is_family);
        let update = |source: &mut AddrSource, has: bool| {
            *source = match *source {
                _ if !has => AddrSource::None,
                AddrSource::None => AddrSource::Stated,
                known => known,
            };
        };
        update(&mut self.ipv4, has(IpAddr::is_ipv4));
        update(&mut self.ipv6, has(IpAddr::is_ipv6));
    }

    fn fast_path_host(&self) -> FastPathHost {
        let [has_ipv4, has_ipv6] = [self.ipv4, self.ipv6].map(|source| source != AddrSource::None);
        FastPathHost { port: self.at.port, last_seen: self.last_seen, has_ipv4, has_ipv6 }
    }

    /// How the address of the same family as `addr` became known.
    pub(super) const fn addr_source(&self, addr: IpAddr) -> AddrSource {
        if addr.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }
}

/// What to do about a host that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DueAction {
    /// Nothing: it was seen meanwhile.
    None,
    /// Probe or remove some of its addresses, which it has not stated for the timeout.
    CheckAddrs(AddressChecks),
    /// Probe whether it is still there.
    Probe,
    /// Remove it: it did not answer.
    Remove,
}

/// When silent hosts are probed and removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgeingPolicy {
    /// Silence before the first probe.
    pub(super) timeout: Duration,
    /// Probes before the host is removed.
    pub(super) probes: u8,
}

/// The hosts at the switches of this worker.
#[derive(Debug, Default)]
pub(super) struct HostTable {
    hosts: HashMap<HostId, LocalHost>,
    /// Every host once, ordered by when it is due.
    due: BTreeSet<(Instant, HostId)>,
    ports: HashMap<SwitchPort, PortHosts>,
    /// The last position that was given to a candidate for eviction.
    last_order: u64,
    addr_count: usize,
}

impl HostTable {
    #[inline]
    pub(super) fn get_mut(&mut self, id: HostId) -> Option<&mut LocalHost> {
        self.hosts.get_mut(&id)
    }

    pub(super) fn get(&self, id: HostId) -> Option<&LocalHost> {
        self.hosts.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Number of addresses of all hosts.
    pub(super) const fn addr_count(&self) -> usize {
        self.addr_count
    }

    /// Adds a host or updates it to what the network view contains. `source` is for the family of an address that is new.
    pub(super) fn insert(
        &mut self,
        id: HostId,
        host: &Host,
        (now, timeout): (Instant, Duration),
        source: Option<(IpAddr, AddrSource)>,
        fast_path: &mut FastPathHosts,
    ) {
        if self.hosts.get(&id).is_none_or(|local| local.at != host.at) {
            self.attach(id, host.at, (now, timeout));
        }
        let Some(local) = self.hosts.get_mut(&id) else { return };
        match source {
            Some((IpAddr::V4(_), source)) => local.ipv4 = source,
            Some((IpAddr::V6(_), source)) => local.ipv6 = source,
            None => {}
        }
        let source = source.map_or(AddrSource::None, |(_, source)| source);
        let count = local.addrs.len();
        local.update_addrs(&host.addrs, (now, timeout), source);
        self.addr_count = self.addr_count + local.addrs.len() - count;
        // The first address did not age on its own until there is a second one.
        if let Some(due) = local.addrs.due().filter(|&due| due < local.due) {
            self.due.remove(&(local.due, id));
            local.due = due;
            self.due.insert((due, id));
        }
        fast_path.insert(local.at.switch, id, local.fast_path_host());
    }

    /// Adds an unconfirmed host at a port, or moves it there.
    fn attach(&mut self, id: HostId, at: SwitchPort, (now, timeout): (Instant, Duration)) {
        self.detach(id);
        let order = self.next_order();
        let port = self.ports.entry(at).or_default();
        port.count += 1;
        port.add_unconfirmed(order, id, now);
        let confirmation = Confirmation::Unconfirmed { order, since: now, probes_sent: 0 };
        let local = self.hosts.entry(id).or_insert_with(|| {
            let due = now + timeout.min(UNCONFIRMED_TIMEOUT);
            self.due.insert((due, id));
            LocalHost {
                at,
                last_seen: now,
                due,
                probes_sent: 0,
                ipv4: AddrSource::None,
                ipv6: AddrSource::None,
                addrs: KnownAddresses::default(),
                confirmation,
                is_probed: false,
            }
        });
        (local.at, local.confirmation, local.is_probed) = (at, confirmation, false);
    }

    /// Removes a host from its port.
    fn detach(&mut self, id: HostId) {
        let Some(local) = self.hosts.get(&id) else { return };
        let Some(port) = self.ports.get_mut(&local.at) else { return };
        if let Confirmation::Unconfirmed { order, .. } = local.confirmation {
            port.remove_unconfirmed(order);
        }
        port.count -= 1;
        if port.is_unused() {
            self.ports.remove(&local.at);
        }
    }

    /// Forgets the evictions from a port, of which there were none for a while.
    pub(super) fn forget_evictions(&mut self, at: SwitchPort) {
        if let Some(port) = self.ports.get_mut(&at) {
            port.forget_evictions();
            if port.is_unused() {
                self.ports.remove(&at);
            }
        }
    }

    pub(super) fn remove(&mut self, id: HostId, fast_path: &mut FastPathHosts) {
        self.detach(id);
        if let Some(local) = self.hosts.remove(&id) {
            fast_path.remove(local.at.switch, id);
            self.due.remove(&(local.due, id));
            self.addr_count -= local.addrs.len();
        }
    }

    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    /// Number of hosts at a port.
    pub(super) fn count_at(&self, at: SwitchPort) -> usize {
        self.ports.get(&at).map_or(0, |port| port.count)
    }

    /// A port that has hosts.
    pub(super) fn port_mut(&mut self, at: SwitchPort) -> Option<&mut PortHosts> {
        self.ports.get_mut(&at)
    }

    /// The port with the most unconfirmed hosts, and how many these are.
    pub(super) fn fullest_port(&self) -> Option<(usize, SwitchPort)> {
        let ports = self.ports.iter().map(|(&at, port)| (port.unconfirmed_count(), at));
        ports.filter(|&(count, _)| count > 0).max()
    }

    /// The first candidate for eviction at a port, or the one that follows `after`, with its position.
    pub(super) fn candidate_after(
        &self,
        at: SwitchPort,
        after: Option<u64>,
    ) -> Option<(u64, HostId)> {
        self.ports.get(&at)?.candidate_after(after)
    }

    /// Whether a candidate may be evicted. It has `answer_time` to answer a probe.
    pub(super) fn candidate_state(
        &self,
        id: HostId,
        now: Instant,
        answer_time: Duration,
        fast_path: &FastPathHosts,
    ) -> CandidateState {
        let Some(local) = self.hosts.get(&id) else { return CandidateState::Silent };
        let Confirmation::Unconfirmed { since, probes_sent, .. } = local.confirmation else {
            return CandidateState::ProbePending;
        };
        if probes_sent > 0 && now < since + answer_time {
            CandidateState::ProbePending
        } else if probes_sent < CANDIDATE_PROBES && !local.addrs.is_empty() {
            CandidateState::NotProbed
        } else if self.last_seen(id, fast_path).is_some_and(|seen| seen > since) {
            CandidateState::SeenAgain
        } else {
            CandidateState::Silent
        }
    }

    /// Makes an unconfirmed host the last candidate of its port, after it was probed or seen again.
    pub(super) fn queue_again(&mut self, id: HostId, was_probed: bool, now: Instant) {
        let new = self.next_order();
        let Some(local) = self.hosts.get_mut(&id) else { return };
        let Some(port) = self.ports.get_mut(&local.at) else { return };
        if let Confirmation::Unconfirmed { order, since, probes_sent } = &mut local.confirmation {
            port.remove_unconfirmed(*order);
            port.add_unconfirmed(new, id, now);
            (*order, *since) = (new, now);
            *probes_sent += u8::from(was_probed);
        }
        local.is_probed |= was_probed;
    }

    /// A host answered a probe about an address at a port. Returns `false` if there was no such probe.
    pub(super) fn confirm(
        &mut self,
        id: HostId,
        (at, addr): (SwitchPort, IpAddr),
        (now, timeout): (Instant, Duration),
    ) -> bool {
        let Some(local) = self.hosts.get_mut(&id).filter(|local| local.at == at) else {
            return false;
        };
        local.addrs.mark_stated(addr, now, timeout);
        if !local.is_probed || !local.addrs.contains(addr) {
            return false;
        }
        local.is_probed = false;
        if let Confirmation::Unconfirmed { order, .. } = local.confirmation {
            local.confirmation = Confirmation::Confirmed;
            if let Some(port) = self.ports.get_mut(&local.at) {
                port.remove_unconfirmed(order);
            }
        }
        true
    }

    /// When a host was last seen, on the fast path or not.
    pub(super) fn last_seen(&self, id: HostId, fast_path: &FastPathHosts) -> Option<Instant> {
        let local = self.hosts.get(&id)?;
        fast_path.last_seen(local.at.switch, id).max(Some(local.last_seen))
    }

    /// The next host that is due, and what to do about it.
    pub(super) fn next_due(
        &mut self,
        now: Instant,
        policy: AgeingPolicy,
        fast_path: &FastPathHosts,
        has_room: impl Fn(DatapathId) -> bool,
    ) -> Option<(HostId, DueAction)> {
        let &(due, id) = self.due.first().filter(|&&(due, _)| due <= now)?;
        self.due.remove(&(due, id));
        let local = self.hosts.get_mut(&id)?;
        if let Some(last_seen) = fast_path.last_seen(local.at.switch, id)
            && last_seen > local.last_seen
        {
            local.mark_seen(last_seen);
        }
        let is_unconfirmed = local.confirmation != Confirmation::Confirmed;
        let is_crowded = self.ports.get(&local.at).is_some_and(|port| port.is_crowded(now));
        let timeout = if is_unconfirmed && is_crowded {
            policy.timeout.min(UNCONFIRMED_TIMEOUT)
        } else {
            policy.timeout
        };
        let timeout_at = local.last_seen + timeout;
        let has_room = has_room(local.at.switch);
        let action = if timeout_at > now && has_room {
            let checks = local.addrs.check(now, policy.probes);
            local.due = local.addrs.due().unwrap_or(timeout_at).min(timeout_at);
            local.is_probed |= !checks.probed.is_empty();
            if checks == AddressChecks::default() {
                DueAction::None
            } else {
                DueAction::CheckAddrs(checks)
            }
        } else if timeout_at > now {
            local.due = timeout_at.min(now + PROBE_INTERVAL);
            DueAction::None
        } else if !has_room {
            // A host that was not probed cannot have failed to answer.
            local.due = now + PROBE_INTERVAL;
            DueAction::None
        } else if local.probes_sent < policy.probes {
            local.probes_sent += 1;
            local.is_probed = true;
            local.due = now + PROBE_INTERVAL;
            DueAction::Probe
        } else {
            local.due = now + PROBE_INTERVAL;
            DueAction::Remove
        };
        self.due.insert((local.due, id));
        Some((id, action))
    }

    /// Applies a new timeout to all hosts.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.due.clear();
        for (&id, local) in &mut self.hosts {
            local.due = local.last_seen + timeout;
            self.due.insert((local.due, id));
            local.addrs.set_due(local.due);
        }
    }
}
