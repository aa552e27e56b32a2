//! The hosts at the switches of this worker: what the network view does not contain.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::DatapathId;
use sluice_sdk::view::{Host, HostId, SwitchPort};
use sluice_sdk::{FastPathHost, FastPathHosts};

use super::address_info::AddressInfo;

/// How an address of a host became known. One value per address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddrSource {
    /// No address of this family is known.
    None,
    /// The source address of a packet that the host sent. Routers send packets of other hosts, too.
    Observed,
    /// ARP, neighbor discovery or DHCP.
    Stated,
}

/// A host at a switch of this worker.
#[derive(Debug, Clone, Copy)]
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
    addr_count: usize,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueAction {
    /// Nothing: it was seen meanwhile.
    None,
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

/// Time between two probes of a host.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The hosts at the switches of this worker.
#[derive(Debug, Default)]
pub(super) struct HostTable {
    hosts: HashMap<HostId, LocalHost>,
    /// Every host once, ordered by when it is due.
    due: BTreeSet<(Instant, HostId)>,
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
        let has = |is_family: fn(&IpAddr) -> bool| host.addrs.iter().any(is_family);
        let stated_if = |has: bool| if has { AddrSource::Stated } else { AddrSource::None };
        let local = self.hosts.entry(id).or_insert_with(|| {
            let due = now + timeout;
            self.due.insert((due, id));
            let ipv4 = stated_if(has(IpAddr::is_ipv4));
            let ipv6 = stated_if(has(IpAddr::is_ipv6));
            LocalHost {
                at: host.at,
                last_seen: now,
                due,
                probes_sent: 0,
                ipv4,
                ipv6,
                addr_count: 0,
            }
        });
        local.at = host.at;
        match source {
            Some((IpAddr::V4(_), source)) => local.ipv4 = source,
            Some((IpAddr::V6(_), source)) => local.ipv6 = source,
            None => {}
        }
        self.addr_count = self.addr_count + host.addrs.len() - local.addr_count;
        local.addr_count = host.addrs.len();
        fast_path.insert(local.at.switch, id, local.fast_path_host());
    }

    pub(super) fn remove(&mut self, id: HostId, fast_path: &mut FastPathHosts) {
        if let Some(local) = self.hosts.remove(&id) {
            fast_path.remove(local.at.switch, id);
            self.due.remove(&(local.due, id));
            self.addr_count -= local.addr_count;
        }
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
        let timeout_at = local.last_seen + policy.timeout;
        let action = if timeout_at > now {
            local.due = timeout_at;
            DueAction::None
        } else if !has_room(local.at.switch) {
            // A host that was not probed cannot have failed to answer.
            local.due = now + PROBE_INTERVAL;
            DueAction::None
        } else if local.probes_sent < policy.probes {
            local.probes_sent += 1;
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
        }
    }
}
