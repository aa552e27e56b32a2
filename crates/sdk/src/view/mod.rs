//! The view of the whole network: switches, ports, links, hosts, and records of applications.
//!
//! Every worker has a [`NetworkView`] of its own, so that reading it needs no lock. An application that learns something
//! publishes a [`Fact`]: it is in the view of its own worker at once, and in those of all others in their next event-loop
//! iteration. Each fact carries the time at which it was published, and the later one holds, so that all views become
//! equal in whichever order facts arrive. `docs/adr/0007-views.md` has the reasons.

mod app_fact;
mod blocked_port;
mod drain;
mod fact;
mod host;
mod isolated_port;
mod records;
mod subscription;
mod switch;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Included};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};

pub use app_fact::{AppEvent, AppRecord, EventFact, RecordFact};
pub use blocked_port::BlockedPort;
pub use drain::{Cable, DRAINED_CABLES_MAX, DrainProgress, DrainedLink};
pub use fact::{Fact, PublishedFact, Stamp};
pub use host::{Host, HostId, HostInDoubt};
pub use isolated_port::IsolatedPort;
use records::Records;
pub use subscription::{
    ResubscriptionPause, SubscriptionEnd, ViewPublisher, ViewSubscription, ViewUpdate,
};
pub use switch::{Link, PortInfo, PortRole, SuspectedConnection, SwitchInfo, SwitchPort};

/// How long a view remembers that something was removed, so that a fact that arrives late cannot bring it back. Facts
/// reach all workers within an event-loop iteration.
const REMOVED_KEPT: Duration = Duration::from_secs(60);

/// Something that facts are about, and that a view stores.
#[derive(Debug, Clone)]
enum ViewItem {
    Switch(DatapathId),
    Port(SwitchPort),
    Link(SwitchPort),
    Host(HostId),
    Record(PublishedFact),
}

/// What is known of the whole network.
///
/// Things that were removed stay for a while, as `None` with the stamp of their removal.
#[derive(Debug, Default)]
pub struct NetworkView {
    switches: BTreeMap<DatapathId, KnownSwitch>,
    /// The last fact of the last minute about each port, if it is later than the last one about its whole switch. No earlier
    /// fact can arrive after that time, so that the port of the switch suffices.
    ports: BTreeMap<SwitchPort, (Stamp, Option<PortInfo>)>,
    /// By receiving port.
    links: BTreeMap<SwitchPort, (Stamp, Option<Link>)>,
    /// Sending and receiving port of each link. Until the older one is removed, two links may have the same sending port.
    links_from: BTreeSet<(SwitchPort, SwitchPort)>,
    hosts: HashMap<HostId, (Stamp, Option<Host>)>,
    hosts_by_addr: BTreeSet<(IpAddr, VlanId, HostId)>,
    hosts_by_port: BTreeSet<(SwitchPort, HostId)>,
    /// How many ports have an Ethernet address.
    port_addrs: HashMap<MacAddr, u32>,
    switch_count: usize,
    host_count: usize,
    records: Records,
    version: u64,
    links_version: u64,
}

/// A switch that is connected, or was a moment ago.
#[derive(Debug)]
struct KnownSwitch {
    stamp: Stamp,
    info: Option<SwitchInfo>,
    /// The version of the view at the last change of the switch or of one of its ports.
    version: u64,
}

impl NetworkView {
    /// Number of changes of switches, ports and links. Whatever was computed from them is valid while this stays the same.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of changes of switches and links. A change of a single port is none.
    pub fn links_version(&self) -> u64 {
        self.links_version
    }

    /// Number that changes whenever a switch or one of its ports does, and has never been the same before; 0 while nothing is known of the
    /// switch, also after it was forgotten.
    pub fn switch_version(&self, id: DatapathId) -> u64 {
        self.switches.get(&id).map_or(0, |known| known.version)
    }

    /// A connected switch.
    pub fn switch(&self, id: DatapathId) -> Option<&SwitchInfo> {
        self.switches.get(&id)?.info.as_ref()
    }

    /// All connected switches, in the order of their datapath ids.
    pub fn switches(&self) -> impl Iterator<Item = (DatapathId, &SwitchInfo)> {
        self.switches.iter().filter_map(|(&id, known)| Some((id, known.info.as_ref()?)))
    }

    /// Number of connected switches.
    pub fn switch_count(&self) -> usize {
        self.switch_count
    }

    /// A port of a connected switch.
    pub fn port(&self, at: SwitchPort) -> Option<&PortInfo> {
        self.switch(at.switch)?.ports.get(&at.port)
    }

    /// What a port is connected to; [`PortRole::Pending`] for an unknown port.
    pub fn port_role(&self, at: SwitchPort) -> PortRole {
        self.port(at).map_or(PortRole::Pending, |port| port.role)
    }

    /// The port at which hosts are whose packets arrive at `at`: that port, or the one that is used for its bundle. `None` if hosts are
    /// not learned there.
    pub fn attachment_port(&self, at: SwitchPort) -> Option<SwitchPort> {
        self.port_role(at).attachment_port(at)
    }

    /// The ports at which packets of hosts at `at` may arrive: that port, and the others of its bundle.
    ///
    /// # Cost
    /// Visits the ports of its switch if it belongs to a bundle.
    pub fn arrival_ports(&self, at: SwitchPort) -> Vec<PortNo> {
        let role = self.port_role(at);
        if !matches!(role, PortRole::Bundle(_)) {
            return vec![at.port];
        }
        let ports = self.switch(at.switch).into_iter().flat_map(|switch| &switch.ports);
        ports.filter(|(_, port)| port.role == role).map(|(&no, _)| no).collect()
    }

    /// The link from which `to` receives.
    pub fn link_to(&self, to: SwitchPort) -> Option<&Link> {
        self.links.get(&to)?.1.as_ref()
    }

    /// The link into which `from` sends; of several, the one that was published last.
    pub fn link_from(&self, from: SwitchPort) -> Option<&Link> {
        let links = self.links_from.range((from, SwitchPort::FIRST)..=(from, SwitchPort::LAST));
        let links = links.filter_map(|(_, to)| {
            let (stamp, link) = self.links.get(to)?;
            Some((*stamp, link.as_ref()?))
        });
        links.max_by_key(|&(stamp, link)| (stamp, link.to)).map(|(_, link)| link)
    }

    /// All links, each direction on its own, in the order of their receiving ports.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values().filter_map(|(_, link)| link.as_ref())
    }

    /// The ports to which links lead, or led within the last minute, with the stamp of the last fact about each.
    pub fn link_stamps(&self) -> impl Iterator<Item = (SwitchPort, Stamp)> {
        self.links.iter().map(|(&to, &(stamp, _))| (to, stamp))
    }

    /// Whether two ports send to each other, by the last fact about each: while a cable is moved, the facts of its ends may differ.
    pub fn is_link(&self, a: SwitchPort, b: SwitchPort) -> bool {
        self.link_between(a, b).is_some() && self.link_between(b, a).is_some()
    }

    fn link_between(&self, from: SwitchPort, to: SwitchPort) -> Option<&Link> {
        self.link_from(from).filter(|link| link.to == to)
    }

    /// The links that a switch may send into, in the order of its ports, by [`is_link`](Self::is_link).
    pub fn links_of(&self, id: DatapathId) -> impl Iterator<Item = &Link> {
        self.links_to_some(id, |_| true)
    }

    /// Those of [`links_of`](Self::links_of) that lead to a switch for which `is_wanted` returns `true`; it is called before the link
    /// is looked up.
    pub fn links_to_some(
        &self,
        id: DatapathId,
        is_wanted: impl Fn(DatapathId) -> bool,
    ) -> impl Iterator<Item = &Link> {
        let (first, last) = SwitchPort::all_of(id).into_inner();
        let links = self.links_from.range((first, SwitchPort::FIRST)..=(last, SwitchPort::LAST));
        links.filter(move |(_, to)| is_wanted(to.switch)).filter_map(|&(from, to)| {
            let link = self.link_between(from, to)?;
            self.link_between(to, from).is_some().then_some(link)
        })
    }

    /// A host.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(&id)?.1.as_ref()
    }

    /// The host that has an IP address in a VLAN; of several, the one that changed last.
    pub fn host_by_addr(&self, addr: IpAddr, vlan: VlanId) -> Option<(HostId, &Host)> {
        let all = (addr, vlan, HostId::FIRST)..=(addr, vlan, HostId::LAST);
        let hosts = self.hosts_by_addr.range(all).filter_map(|&(_, _, id)| {
            let (stamp, host) = self.hosts.get(&id)?;
            Some((*stamp, id, host.as_ref()?))
        });
        hosts.max_by_key(|&(stamp, id, _)| (stamp, id)).map(|(_, id, host)| (id, host))
    }

    /// All hosts, in no particular order.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().filter_map(|(&id, (_, host))| Some((id, host.as_ref()?)))
    }

    /// Number of hosts.
    pub fn host_count(&self) -> usize {
        self.host_count
    }

    /// The hosts at a port, in the order of their addresses.
    pub fn hosts_at(&self, at: SwitchPort) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts_between(at, at)
    }

    /// The hosts at a port that follow the host `after` in the order of their addresses; all if that is `None`.
    pub fn hosts_at_after(
        &self,
        at: SwitchPort,
        after: Option<HostId>,
    ) -> impl Iterator<Item = (HostId, &Host)> {
        let first = after.map_or(Included((at, HostId::FIRST)), |after| Excluded((at, after)));
        let ids = self.hosts_by_port.range((first, Included((at, HostId::LAST))));
        ids.filter_map(|&(_, id)| Some((id, self.host(id)?)))
    }

    /// The hosts at a switch, in the order of its ports.
    pub fn hosts_of(&self, id: DatapathId) -> impl Iterator<Item = (HostId, &Host)> {
        let (first, last) = SwitchPort::all_of(id).into_inner();
        self.hosts_between(first, last)
    }

    fn hosts_between(
        &self,
        first: SwitchPort,
        last: SwitchPort,
    ) -> impl Iterator<Item = (HostId, &Host)> {
        let ids = self.hosts_by_port.range((first, HostId::FIRST)..=(last, HostId::LAST));
        ids.filter_map(|&(_, id)| Some((id, self.host(id)?)))
    }

    /// Number of hosts, with those that were removed in the last minute: they need memory as well.
    pub fn host_entry_count(&self) -> usize {
        self.hosts.len()
    }

    /// Whether a port of a switch has this Ethernet address.
    pub fn is_port_addr(&self, mac: MacAddr) -> bool {
        self.port_addrs.contains_key(&mac)
    }

    /// The value of an application's record.
    ///
    /// # Cost
    /// A search in a list of all types of records, of which there are a few, and one in a tree of their keys.
    pub fn record<T: AppRecord>(&self, key: T::Key) -> Option<&T> {
        self.records.get(key)
    }

    /// All values of an application's record, in the order of their keys.
    pub fn records<T: AppRecord>(&self) -> impl Iterator<Item = (T::Key, &T)> {
        self.records.iter()
    }

    /// Number of changes of an application's record. Whatever was computed from it is valid while this stays the same.
    pub fn records_version<T: AppRecord>(&self) -> u64 {
        self.records.version::<T>()
    }

    /// When the thing that `fact` is about changed last.
    pub(crate) fn stamp_of(&self, fact: &Fact) -> Option<Stamp> {
        let of_switch = |id| self.switches.get(id).map(|known| known.stamp);
        match fact {
            Fact::Switch(id, _) => {
                let (first, last) = SwitchPort::all_of(*id).into_inner();
                let ports = self.ports.range(first..=last).map(|(_, &(stamp, _))| stamp);
                of_switch(id).max(ports.max())
            }
            Fact::Port(at, _) => {
                of_switch(&at.switch).max(self.ports.get(at).map(|&(stamp, _)| stamp))
            }
            Fact::Link(to, _) => self.links.get(to).map(|&(stamp, _)| stamp),
            Fact::Host(id, _) => self.hosts.get(id).map(|&(stamp, _)| stamp),
            Fact::Record(record) => self.records.stamp_of(record),
            Fact::Event(_) => None,
        }
    }

    /// Whether the view already says what `fact` does.
    pub(crate) fn knows(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Switch(id, new) => self.switch(*id) == new.as_ref(),
            Fact::Port(at, new) => self.port(*at) == new.as_ref(),
            Fact::Link(to, new) => self.link_to(*to) == new.as_ref(),
            Fact::Host(id, new) => self.host(*id) == new.as_ref(),
            Fact::Record(record) => self.records.knows(record),
            Fact::Event(_) => false,
        }
    }

    /// Applies a fact, unless a later one is known; returns whether the view has changed (always, for an event). A fact
    /// that repeats what is known changes nothing but its stamp.
    pub fn apply(&mut self, published: &PublishedFact) -> bool {
        let stamp = published.stamp;
        let changed = match &published.fact {
            Fact::Switch(id, switch) => self.set_switch(stamp, *id, switch.as_ref()),
            Fact::Port(at, port) => self.set_port(stamp, *at, port.as_ref()),
            Fact::Link(to, link) => self.set_link(stamp, *to, link.as_ref()),
            Fact::Host(id, host) => return self.set_host(stamp, *id, host.as_ref()),
            Fact::Record(record) => return self.records.apply(stamp, record),
            Fact::Event(_) => return true,
        };
        if changed {
            self.version += 1;
            match published.fact {
                Fact::Switch(id, _) => {
                    self.links_version += 1;
                    self.note_change_of(id);
                }
                Fact::Port(at, _) => self.note_change_of(at.switch),
                _ => self.links_version += 1,
            }
        }
        changed
    }

    fn note_change_of(&mut self, id: DatapathId) {
        if let Some(known) = self.switches.get_mut(&id) {
            known.version = self.version;
        }
    }

    fn set_switch(&mut self, stamp: Stamp, id: DatapathId, new: Option<&SwitchInfo>) -> bool {
        let new_switch = || KnownSwitch { stamp, info: None, version: 0 };
        let known = self.switches.entry(id).or_insert_with(new_switch);
        if stamp < known.stamp {
            return false;
        }
        known.stamp = stamp;
        let (first, last) = SwitchPort::all_of(id).into_inner();
        let mut new = new.cloned();
        // A later fact about a port may have arrived earlier.
        let ports = self.ports.range(first..=last);
        let older: Vec<_> =
            ports.filter(|(_, (of_port, _))| *of_port < stamp).map(|(&at, _)| at).collect();
        for at in older {
            self.ports.remove(&at);
        }
        if let Some(switch) = &mut new {
            for (at, (_, port)) in self.ports.range(first..=last) {
                match port {
                    Some(port) => switch.ports.insert(at.port, port.clone()),
                    None => switch.ports.remove(&at.port),
                };
            }
        }
        if known.info == new {
            return false;
        }
        self.switch_count =
            self.switch_count + usize::from(new.is_some()) - usize::from(known.info.is_some());
        let ports = new.iter().flat_map(|switch| switch.ports.values());
        let added: Vec<_> = ports.map(|port| port.hw_addr).collect();
        let old = std::mem::replace(&mut known.info, new);
        for port in old.iter().flat_map(|switch| switch.ports.values()) {
            self.uncount_port(port.hw_addr);
        }
        for addr in added {
            *self.port_addrs.entry(addr).or_default() += 1;
        }
        true
    }

    fn uncount_port(&mut self, addr: MacAddr) {
        if let Entry::Occupied(mut ports) = self.port_addrs.entry(addr) {
            *ports.get_mut() -= 1;
            if *ports.get() == 0 {
                ports.remove();
            }
        }
    }

    fn set_port(&mut self, stamp: Stamp, at: SwitchPort, new: Option<&PortInfo>) -> bool {
        let last = self.ports.get(&at).map(|&(last, _)| last);
        let of_switch = self.switches.get(&at.switch).map(|known| known.stamp);
        if last.max(of_switch).is_some_and(|last| stamp < last) {
            return false;
        }
        self.ports.insert(at, (stamp, new.cloned()));
        // If the switch is not known yet, the port is added with it.
        let known = self.switches.get_mut(&at.switch);
        let Some(switch) = known.and_then(|known| known.info.as_mut()) else { return false };
        if switch.ports.get(&at.port) == new {
            return false;
        }
        let old = match new {
            Some(new) => switch.ports.insert(at.port, new.clone()),
            None => switch.ports.remove(&at.port),
        };
        if let Some(old) = old {
            self.uncount_port(old.hw_addr);
        }
        if let Some(new) = new {
            *self.port_addrs.entry(new.hw_addr).or_default() += 1;
        }
        true
    }

    fn set_link(&mut self, stamp: Stamp, to: SwitchPort, new: Option<&Link>) -> bool {
        let (old_stamp, old) = self.links.entry(to).or_insert((stamp, None));
        if stamp < *old_stamp {
            return false;
        }
        let is_same = old.as_ref() == new;
        if is_same && (new.is_none() || *old_stamp == stamp) {
            *old_stamp = stamp;
            return false;
        }
        let link_from = |view: &Self| {
            let link = new.and_then(|new| view.link_from(new.from));
            link.map(|link| link.to)
        };
        let before = link_from(self);
        let old = self.links.insert(to, (stamp, new.copied())).and_then(|(_, old)| old);
        if let Some(old) = old {
            self.links_from.remove(&(old.from, to));
        }
        if let Some(new) = new {
            self.links_from.insert((new.from, to));
        }
        // The same link, published again, may be the last one from its port now.
        !is_same || link_from(self) != before
    }

    fn set_host(&mut self, stamp: Stamp, id: HostId, new: Option<&Host>) -> bool {
        let (old_stamp, old) = self.hosts.entry(id).or_insert((stamp, None));
        if stamp < *old_stamp {
            return false;
        }
        *old_stamp = stamp;
        if old.as_ref() == new {
            return false;
        }
        self.host_count = self.host_count + usize::from(new.is_some()) - usize::from(old.is_some());
        let old = std::mem::replace(old, new.cloned());
        if let Some(host) = old {
            self.hosts_by_port.remove(&(host.at, id));
            for addr in host.addrs {
                self.hosts_by_addr.remove(&(addr, id.vlan, id));
            }
        }
        if let Some(host) = new {
            self.hosts_by_port.insert((host.at, id));
            self.hosts_by_addr.extend(host.addrs.iter().map(|&addr| (addr, id.vlan, id)));
        }
        true
    }

    /// Everything that the view stores, what was removed a moment ago included.
    fn items(&self) -> Vec<ViewItem> {
        let switches = self.switches.keys().copied().map(ViewItem::Switch);
        let ports = self.ports.keys().copied().map(ViewItem::Port);
        let links = self.links.keys().copied().map(ViewItem::Link);
        let hosts = self.hosts.keys().copied().map(ViewItem::Host);
        let records = self.records.facts().into_iter().map(ViewItem::Record);
        records.chain(hosts).chain(links).chain(ports).chain(switches).collect()
    }

    /// What the view says about an item now; `None` if it has forgotten it. Records are as they were listed.
    fn fact_about(&self, item: &ViewItem) -> Option<PublishedFact> {
        let (stamp, fact) = match item {
            &ViewItem::Switch(id) => {
                let known = self.switches.get(&id)?;
                (known.stamp, Fact::Switch(id, known.info.clone()))
            }
            &ViewItem::Port(at) => {
                let (stamp, port) = self.ports.get(&at)?;
                (*stamp, Fact::Port(at, port.clone()))
            }
            &ViewItem::Link(to) => {
                let &(stamp, link) = self.links.get(&to)?;
                (stamp, Fact::Link(to, link))
            }
            &ViewItem::Host(id) => {
                let (stamp, host) = self.hosts.get(&id)?;
                (*stamp, Fact::Host(id, host.clone()))
            }
            ViewItem::Record(published) => return Some(published.clone()),
        };
        Some(PublishedFact { stamp, fact })
    }

    /// Forgets what was removed more than a minute before `now`. Whoever keeps a view calls this every few seconds.
    pub fn expire(&mut self, now: Instant) {
        let keep = |stamp: &Stamp, is_there: bool| is_there || stamp.is_within(REMOVED_KEPT, now);
        self.switches.retain(|_, known| keep(&known.stamp, known.info.is_some()));
        self.links.retain(|_, (stamp, link)| keep(stamp, link.is_some()));
        self.hosts.retain(|_, (stamp, host)| keep(stamp, host.is_some()));
        self.records.expire(now);
        self.ports.retain(|_, (stamp, _)| stamp.is_within(REMOVED_KEPT, now));
    }
}

#[cfg(test)]
mod tests;
