//! The IP addresses of a host at a switch of this worker, each with its age.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time between two probes of an address.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which an address is not replaced, so that a host that states many, such as a router that answers ARP for others, does
/// not cause a fact for all workers each time.
const REPLACED_AGE_MIN: Duration = Duration::from_secs(1);

/// The addresses of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownAddresses(Vec<KnownAddress>);

#[derive(Debug, Clone, Copy)]
struct KnownAddress {
    addr: IpAddr,
    /// Whether the host itself has stated or used it, and not only a DHCP server assigned it.
    is_own: bool,
    /// Probes sent since the host stated it last.
    probes_sent: u8,
    /// When it is probed next, or removed: for the first time when it has not been stated for the timeout.
    due: Instant,
}

/// What to do about the addresses of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AddressChecks {
    /// The host has not stated these for the timeout: probe whether it has them.
    pub(super) probed: Vec<IpAddr>,
    /// It did not answer the probes for these: remove them.
    pub(super) removed: Vec<IpAddr>,
}

impl KnownAddresses {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, addr: IpAddr) -> bool {
        self.0.iter().any(|known| known.addr == addr)
    }

    /// Notes that the host stated an address, be it in answer to a probe.
    pub(super) fn mark_stated(&mut self, addr: IpAddr, now: Instant, timeout: Duration) {
        if let Some(known) = self.0.iter_mut().find(|known| known.addr == addr) {
            (known.is_own, known.probes_sent, known.due) = (true, 0, now + timeout);
        }
    }

    /// The address of those in `among` that a new one replaces: one that the host itself has never stated, or else the one that it
    /// stated longest ago, preferably without a lease. `None` if that was a moment ago.
    pub(super) fn replaceable(
        &self,
        among: &[IpAddr],
        (now, timeout): (Instant, Duration),
        is_leased: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let known = self.0.iter().filter(|known| among.contains(&known.addr));
        // A lease alone does not count: any host can send a DHCP message.
        let order = |known: &&KnownAddress| {
            (known.is_own, known.is_own && is_leased(known.addr), known.due)
        };
        let oldest = known.min_by_key(order)?;
        let is_old = oldest.due + REPLACED_AGE_MIN <= now + timeout;
        (!oldest.is_own || is_old).then_some(oldest.addr)
    }

    /// Updates the addresses to those in the network view; `is_own` is for new ones.
    pub(super) fn update(
        &mut self,
        addrs: &[IpAddr],
        (now, timeout): (Instant, Duration),
        is_own: bool,
    ) {
        self.0.retain(|known| addrs.contains(&known.addr));
        for &addr in addrs {
            if !self.contains(addr) {
                // Most hosts have one or two.
                self.0.reserve_exact(1);
                self.0.push(KnownAddress { addr, is_own, probes_sent: 0, due: now + timeout });
            }
        }
    }

    /// Lets all addresses age until `due`.
    pub(super) fn set_due(&mut self, due: Instant) {
        self.0.iter_mut().for_each(|known| known.due = due);
    }

    /// When the first address is due. The only address of a host ages with the host.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|known| known.due).min().filter(|_| self.len() > 1)
    }

    /// What to do about the addresses that are due. Each is probed `probes` times.
    pub(super) fn check(&mut self, now: Instant, probes: u8) -> AddressChecks {
        let mut checks = AddressChecks::default();
        if self.len() < 2 {
            return checks;
        }
        for known in self.0.iter_mut().filter(|known| known.due <= now) {
            known.due = now + PROBE_INTERVAL;
            if known.probes_sent < probes {
                known.probes_sent += 1;
                checks.probed.push(known.addr);
            } else {
                checks.removed.push(known.addr);
            }
        }
        checks
    }
}
