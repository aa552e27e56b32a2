//! The addresses that DHCP servers have assigned. All workers know the same ones, from [`HostEvidence`].
//!
//! A lease never gives an address to a host: any host can send a DHCP message. It only protects the address of the host that has
//! both.
//!
//! [`HostEvidence`]: super::evidence::HostEvidence

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_openflow::VlanId;
use sluice_sdk::view::{HostId, NetworkView, SwitchPort};

/// Leases that are remembered. Further ones do not count.
const LEASES_MAX: usize = 65_536;

/// Leases of the servers at one port. A new one replaces the oldest of this port.
const LEASES_PER_PORT_MAX: usize = 8192;

/// How long a lease counts, unless the server confirms it: longer than most leases last.
const LEASE_TIME: Duration = Duration::from_secs(24 * 3600);

/// Age from which a lease that is confirmed again is published again.
const REFRESH_AGE: Duration = Duration::from_secs(600);

type LeasedAddr = (VlanId, IpAddr);

/// Which host was assigned each address.
#[derive(Debug, Default)]
pub(super) struct Leases {
    all: BTreeMap<LeasedAddr, Lease>,
    /// By the port of the server, the oldest first.
    by_server: BTreeMap<SwitchPort, BTreeSet<(Instant, LeasedAddr)>>,
}

#[derive(Debug)]
struct Lease {
    host: HostId,
    server: SwitchPort,
    recorded_at: Instant,
}

impl Leases {
    /// Whether an address was assigned to a host.
    pub(super) fn holds(&self, host: HostId, addr: IpAddr, now: Instant) -> bool {
        self.lease_of(host, addr).is_some_and(|lease| lease.is_within(LEASE_TIME, now))
    }

    /// Whether this is known for so short a time that it need not be published again.
    pub(super) fn is_fresh(&self, host: HostId, addr: IpAddr, now: Instant) -> bool {
        self.lease_of(host, addr).is_some_and(|lease| lease.is_within(REFRESH_AGE, now))
    }

    fn lease_of(&self, host: HostId, addr: IpAddr) -> Option<&Lease> {
        self.all.get(&(host.vlan, addr)).filter(|lease| lease.host == host)
    }

    /// A server at a port has assigned an address to a host. A host that has the address by an earlier lease keeps the lease, too.
    pub(super) fn record(
        &mut self,
        host: HostId,
        addr: IpAddr,
        server: SwitchPort,
        (now, view): (Instant, &NetworkView),
    ) {
        let key = (host.vlan, addr);
        if let Some(old) = self.all.get(&key) {
            let owner = view.host_by_addr(addr, host.vlan).map(|(owner, _)| owner);
            let is_kept = old.is_within(LEASE_TIME, now) && owner == Some(old.host);
            if is_kept && old.host != host {
                return;
            }
            self.remove(key);
        }
        let of_server = self.by_server.get(&server);
        if let Some(full) = of_server.filter(|leases| leases.len() >= LEASES_PER_PORT_MAX)
            && let Some(&(_, oldest)) = full.first()
        {
            self.remove(oldest);
        }
        if self.all.len() < LEASES_MAX {
            self.all.insert(key, Lease { host, server, recorded_at: now });
            self.by_server.entry(server).or_default().insert((now, key));
        }
    }

    fn remove(&mut self, key: LeasedAddr) {
        let Some(Lease { server, recorded_at, .. }) = self.all.remove(&key) else { return };
        if let Some(leases) = self.by_server.get_mut(&server) {
            leases.remove(&(recorded_at, key));
            if leases.is_empty() {
                self.by_server.remove(&server);
            }
        }
    }
}

impl Lease {
    fn is_within(&self, age: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.recorded_at) < age
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sluice_openflow::{DatapathId, MacAddr, PortNo};

    use super::*;

    #[test]
    fn a_server_that_assigns_many_addresses_displaces_its_own_leases_only() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let [honest, other] = [1, 2].map(|port| SwitchPort::new(DatapathId(1), PortNo(port)));
        let host = HostId { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan: VlanId(0) };
        let addr = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n));
        let (mut leases, view) = (Leases::default(), NetworkView::default());
        leases.record(host, addr(0), honest, (now, &view));
        let many = u32::try_from(LEASES_PER_PORT_MAX).unwrap() + 10;
        for n in 1..=many {
            let now = now + Duration::from_millis(n.into());
            leases.record(host, addr(n), other, (now, &view));
        }
        assert_eq!(leases.all.len(), LEASES_PER_PORT_MAX + 1);
        let end = now + Duration::from_secs(60);
        let is_held = [0, 1, 10, 11, many].map(|n| leases.holds(host, addr(n), end));
        assert_eq!(is_held, [true, false, false, true, true]);
        assert!(!leases.holds(host, addr(0), now + LEASE_TIME));
        leases.record(host, addr(0), other, (end, &view));
        assert!(leases.holds(host, addr(0), now + LEASE_TIME));
        assert_eq!(leases.by_server.len(), 1, "no empty sets are left");
    }
}
