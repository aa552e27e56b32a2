//! The hosts at the switches of this worker: what the view of the network does not have of them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_sdk::view::{Host, HostId, SwitchPort};
use sluice_sdk::{FastPathHost, FastPathHosts};

use super::topic::Topic;

/// How it is known what address of a family a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is not.
    None,
    /// It sent a packet from that address, as a router does as well.
    Guessed,
    /// It said so, or a DHCP server did.
    Stated,
}

/// A host at a switch of this worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Where it is, as in the view.
    pub(super) at: SwitchPort,
    /// When it was heard last, as far as it was heard here: others answer ordinary frames, and note that with the residents.
    heard: Instant,
    /// When it is looked at next.
    due: Instant,
    /// How often it was asked whether it is there, since.
    asked: u8,
    v4: Trust,
    v6: Trust,
    addrs: usize,
}

impl Known {
    /// Notes that it was heard.
    #[inline]
    pub(super) fn hear(&mut self, now: Instant) {
        // What does not change stays clean in the caches.
        if self.heard != now || self.asked != 0 {
            (self.heard, self.asked) = (now, 0);
        }
    }

    /// Whether a frame on `topic` says nothing about it that is not known.
    #[inline]
    pub(super) fn is_old_news(&self, topic: &Topic) -> bool {
        match topic {
            Topic::Other => true,
            Topic::From(addr) => self.trust(*addr) != Trust::None,
            _ => false,
        }
    }

    fn resident(&self) -> FastPathHost {
        let [has_ipv4, has_ipv6] = [self.v4, self.v6].map(|trust| trust != Trust::None);
        FastPathHost { port: self.at.port, last_seen: self.heard, has_ipv4, has_ipv6 }
    }

    /// How it is known what address of the family of `addr` it has.
    pub(super) const fn trust(&self, addr: IpAddr) -> Trust {
        if addr.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// What is to be done about a host that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing: it was heard meanwhile.
    Nothing,
    /// It is asked whether it is there.
    Ask,
    /// It did not answer.
    Forget,
}

/// How long silence is believed, and how often it is asked into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) timeout: Duration,
    pub(super) probes: u8,
}

/// How long a host may take to answer.
const PROBE_GAP: Duration = Duration::from_secs(1);

/// The hosts at the switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Table {
    hosts: HashMap<HostId, Known>,
    /// Each of them once.
    due: BTreeSet<(Instant, HostId)>,
    addrs: usize,
}

impl Table {
    #[inline]
    pub(super) fn get_mut(&mut self, id: HostId) -> Option<&mut Known> {
        self.hosts.get_mut(&id)
    }

    pub(super) fn get(&self, id: HostId) -> Option<&Known> {
        self.hosts.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// How many addresses they have.
    pub(super) const fn addrs_len(&self) -> usize {
        self.addrs
    }

    /// Notes what the view has of a host of this worker. `trust` is for the family of an address that is new.
    pub(super) fn put(
        &mut self,
        id: HostId,
        host: &Host,
        (now, timeout): (Instant, Duration),
        trust: Option<(IpAddr, Trust)>,
        residents: &mut FastPathHosts,
    ) {
        let has = |is: fn(&IpAddr) -> bool| host.addrs.iter().any(is);
        let stated = |has: bool| if has { Trust::Stated } else { Trust::None };
        let known = self.hosts.entry(id).or_insert_with(|| {
            let due = now + timeout;
            self.due.insert((due, id));
            let (v4, v6) = (stated(has(IpAddr::is_ipv4)), stated(has(IpAddr::is_ipv6)));
            Known { at: host.at, heard: now, due, asked: 0, v4, v6, addrs: 0 }
        });
        known.at = host.at;
        match trust {
            Some((IpAddr::V4(_), trust)) => known.v4 = trust,
            Some((IpAddr::V6(_), trust)) => known.v6 = trust,
            None => {}
        }
        self.addrs = self.addrs + host.addrs.len() - known.addrs;
        known.addrs = host.addrs.len();
        residents.insert(known.at.switch, id, known.resident());
    }

    pub(super) fn remove(&mut self, id: HostId, residents: &mut FastPathHosts) {
        if let Some(known) = self.hosts.remove(&id) {
            residents.remove(known.at.switch, id);
            self.due.remove(&(known.due, id));
            self.addrs -= known.addrs;
        }
    }

    /// The next host that is due, and what is to be done about it.
    pub(super) fn next_due(
        &mut self,
        now: Instant,
        patience: Patience,
        residents: &FastPathHosts,
    ) -> Option<(HostId, Due)> {
        let &(due, id) = self.due.first().filter(|&&(due, _)| due <= now)?;
        self.due.remove(&(due, id));
        let known = self.hosts.get_mut(&id)?;
        if let Some(heard) = residents.last_seen(known.at.switch, id)
            && heard > known.heard
        {
            known.hear(heard);
        }
        let silent_until = known.heard + patience.timeout;
        let what = if silent_until > now {
            known.due = silent_until;
            Due::Nothing
        } else if known.asked < patience.probes {
            known.asked += 1;
            known.due = now + PROBE_GAP;
            Due::Ask
        } else {
            known.due = now + PROBE_GAP;
            Due::Forget
        };
        self.due.insert((known.due, id));
        Some((id, what))
    }

    /// Silence is believed for another time from now on.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.due.clear();
        for (&id, known) in &mut self.hosts {
            known.due = known.heard + timeout;
            self.due.insert((known.due, id));
        }
    }
}
