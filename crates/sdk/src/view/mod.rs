//! What is known of the whole network: switches, ports, links, hosts.
//!
//! Every worker has a [`NetworkView`] of its own. An application that learns something tells a [`Fact`]: it is in the view of
//! its own worker at once, and in those of the others when their next turn begins. Facts carry the time at which they
//! came to be, and the later one holds, so all views become the same in whichever order facts arrive.
//! `docs/adr/0007-views.md` has the reasons.

mod fact;
mod tree;
mod unable;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};

pub use fact::{Fact, Heard, PublishedFact, Stamp};
pub use tree::{Groups, Stage, Stand, Tree};

/// A port of a switch of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchPort {
    /// The switch.
    pub switch: DatapathId,
    /// Its port.
    pub port: PortNo,
}

impl SwitchPort {
    /// Port `port` of `switch`.
    pub const fn new(switch: DatapathId, port: PortNo) -> Self {
        Self { switch, port }
    }
}

impl fmt::Display for SwitchPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.switch, self.port)
    }
}

/// What a port leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortRole {
    /// Not known yet: nothing is flooded there, nobody is learnt there.
    #[default]
    Pending,
    /// Hosts, or a network of others that no other port leads to.
    Edge,
    /// A switch of this network.
    Link,
    /// A network of others, to which several ports lead: this one speaks for all of them.
    SharedSegment(SwitchPort),
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Its name on the switch.
    pub name: String,
    /// Its own address.
    pub hw_addr: MacAddr,
    /// Whether frames can go through it.
    pub is_up: bool,
    /// What it leads to.
    pub role: PortRole,
}

/// A switch that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchInfo {
    /// Its real ports.
    pub ports: BTreeMap<PortNo, PortInfo>,
}

/// One direction of a link between two switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Where frames leave.
    pub from: SwitchPort,
    /// Where they come in.
    pub to: SwitchPort,
    /// How long a frame takes, as far as it could be measured.
    pub delay: Duration,
}

/// Who a host is: an address, in a VLAN; 0 is untagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// The VLAN in which it was seen.
    pub vlan: VlanId,
}

impl HostId {
    const FIRST: Self = Self { mac: MacAddr([0; 6]), vlan: VlanId(0) };
    const LAST: Self = Self { mac: MacAddr::BROADCAST, vlan: VlanId(u16::MAX) };
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vlan {
            VlanId(0) => write!(f, "{}", self.mac),
            VlanId(vlan) => write!(f, "{} in VLAN {vlan}", self.mac),
        }
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Where it is attached.
    pub at: SwitchPort,
    /// Its addresses, as far as they were seen; the one seen last is the last.
    pub addrs: Vec<IpAddr>,
}

/// What is known of the whole network.
#[derive(Debug, Default)]
pub struct NetworkView {
    switches: BTreeMap<DatapathId, (Stamp, Option<SwitchInfo>)>,
    ports: HashMap<SwitchPort, Stamp>,
    /// By the end where frames come in.
    links: BTreeMap<SwitchPort, (Stamp, Option<Link>)>,
    /// By the end where they leave.
    links_from: BTreeMap<SwitchPort, SwitchPort>,
    hosts: HashMap<HostId, (Stamp, Option<Host>)>,
    /// Every host that has said to have an address, and was not heard to have it no more.
    by_addr: BTreeSet<(IpAddr, VlanId, HostId)>,
    by_place: BTreeSet<(SwitchPort, HostId)>,
    /// How many ports have an address of their own.
    port_addrs: HashMap<MacAddr, usize>,
    switches_up: usize,
    hosts_known: usize,
    unable: unable::Unable,
    trees: tree::Trees,
    version: u64,
}

impl NetworkView {
    /// Counts changes of switches, ports and links: what was computed from them holds as long as it stays.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A switch, if it is connected.
    pub fn switch(&self, id: DatapathId) -> Option<&SwitchInfo> {
        self.switches.get(&id)?.1.as_ref()
    }

    /// All switches that are connected, in the order of their ids.
    pub fn switches(&self) -> impl Iterator<Item = (DatapathId, &SwitchInfo)> {
        self.switches.iter().filter_map(|(&id, (_, switch))| Some((id, switch.as_ref()?)))
    }

    /// How many switches are connected.
    pub fn switches_len(&self) -> usize {
        self.switches_up
    }

    /// A port of a switch that is connected.
    pub fn port(&self, at: SwitchPort) -> Option<&PortInfo> {
        self.switch(at.switch)?.ports.get(&at.port)
    }

    /// What a port leads to; [`PortRole::Pending`] for one that is not known.
    pub fn port_role(&self, at: SwitchPort) -> PortRole {
        self.port(at).map_or(PortRole::Pending, |port| port.role)
    }

    /// The link that comes in at `to`.
    pub fn link_to(&self, to: SwitchPort) -> Option<&Link> {
        self.links.get(&to)?.1.as_ref()
    }

    /// The link that leaves at `from`.
    pub fn link_from(&self, from: SwitchPort) -> Option<&Link> {
        self.link_to(*self.links_from.get(&from)?)
    }

    /// All links, each direction apart, in the order of the ends where they come in.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values().filter_map(|(_, link)| link.as_ref())
    }

    /// All links that leave a switch and of which the other direction is known as well, in the order of its ports:
    /// those that frames may be sent through.
    pub fn links_of(&self, id: DatapathId) -> impl Iterator<Item = &Link> {
        let (first, last) = (SwitchPort::new(id, PortNo(0)), SwitchPort::new(id, PortNo(u32::MAX)));
        let there = self.links_from.range(first..=last).filter_map(|(_, &to)| self.link_to(to));
        there.filter(|link| self.link_to(link.from).is_some_and(|back| back.from == link.to))
    }

    /// A host.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(&id)?.1.as_ref()
    }

    /// The host that has an address in a VLAN: if several say so, the one of which something was said last.
    pub fn host_of(&self, addr: IpAddr, vlan: VlanId) -> Option<(HostId, &Host)> {
        let all = (addr, vlan, HostId::FIRST)..=(addr, vlan, HostId::LAST);
        let known = self.by_addr.range(all).filter_map(|&(_, _, id)| {
            let (stamp, host) = self.hosts.get(&id)?;
            Some((*stamp, id, host.as_ref()?))
        });
        known.max_by_key(|&(stamp, id, _)| (stamp, id)).map(|(_, id, host)| (id, host))
    }

    /// All hosts, in no order.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().filter_map(|(&id, (_, host))| Some((id, host.as_ref()?)))
    }

    /// How many hosts are known.
    pub fn hosts_len(&self) -> usize {
        self.hosts_known
    }

    /// The hosts at a port, in the order of their addresses.
    pub fn hosts_at(&self, at: SwitchPort) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts_between(at, at)
    }

    /// The hosts at a switch, in the order of its ports.
    pub fn hosts_of(&self, id: DatapathId) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts_between(SwitchPort::new(id, PortNo(0)), SwitchPort::new(id, PortNo(u32::MAX)))
    }

    fn hosts_between(
        &self,
        first: SwitchPort,
        last: SwitchPort,
    ) -> impl Iterator<Item = (HostId, &Host)> {
        let ids = self.by_place.range((first, HostId::FIRST)..=(last, HostId::LAST));
        ids.filter_map(|&(_, id)| Some((id, self.host(id)?)))
    }

    /// How many hosts are known or were a moment ago: all that memory is needed for.
    pub fn hosts_remembered(&self) -> usize {
        self.hosts.len()
    }

    /// The tree along which frames for all go, if there ever was one.
    pub fn tree(&self) -> Option<&Tree> {
        self.trees.tree()
    }

    /// Whether switches behind a port may pass on what is for all by rules of an earlier process.
    pub fn is_old_link(&self, at: SwitchPort) -> bool {
        self.trees.is_old(at)
    }

    /// How far a switch is with trees; `None` if it may have rules of any.
    pub fn stand(&self, id: DatapathId) -> Option<Stand> {
        self.trees.stand(id)
    }

    /// Counts changes of trees and of how far switches are with them.
    #[inline]
    pub fn trees_version(&self) -> u64 {
        self.trees.version()
    }

    /// The simplest form of rules that a switch could not match, by its rank; `None` if it is not known to refuse any.
    pub fn unable(&self, id: DatapathId) -> Option<u8> {
        self.unable.rank(id)
    }

    /// The same, of all switches that are known to refuse any.
    pub fn unable_ranks(&self) -> impl Iterator<Item = u8> {
        self.unable.ranks()
    }

    /// Whether an address is that of a port of a switch.
    pub fn is_port_addr(&self, mac: MacAddr) -> bool {
        self.port_addrs.contains_key(&mac)
    }

    /// When what `fact` is about came to be as it is known.
    pub(crate) fn stamp_of(&self, fact: &Fact) -> Option<Stamp> {
        let of_switch = |id| self.switches.get(id).map(|&(stamp, _)| stamp);
        match fact {
            Fact::Switch(id, _) => of_switch(id),
            Fact::Port(at, _) => of_switch(&at.switch).max(self.ports.get(at).copied()),
            Fact::Link(to, _) => self.links.get(to).map(|&(stamp, _)| stamp),
            Fact::Host(id, _) => self.hosts.get(id).map(|&(stamp, _)| stamp),
            Fact::Heard(..) | Fact::Old(..) => None,
            Fact::Unable(id, _) => self.unable.stamp(*id),
            Fact::Tree(_) => self.trees.tree_stamp(),
            Fact::Stand(id, _) => self.trees.stand_stamp(*id),
        }
    }

    /// Whether it is so already.
    pub(crate) fn knows(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Switch(id, new) => self.switch(*id) == new.as_ref(),
            Fact::Port(at, new) => self.port(*at) == new.as_ref(),
            Fact::Link(to, new) => self.link_to(*to) == new.as_ref(),
            Fact::Host(id, new) => self.host(*id) == new.as_ref(),
            Fact::Unable(id, new) => self.unable.rank(*id) == *new,
            Fact::Heard(..) | Fact::Old(..) | Fact::Tree(_) | Fact::Stand(..) => false,
        }
    }

    /// Takes a fact in. Whether anything is otherwise than before. What was so before is so since the later word.
    pub(crate) fn apply(&mut self, told: &PublishedFact) -> bool {
        let changed = match &told.fact {
            Fact::Switch(id, switch) => self.set_switch(told.stamp, *id, switch.as_ref()),
            Fact::Port(at, port) => self.set_port(told.stamp, *at, port.as_ref()),
            Fact::Link(to, link) => self.set_link(told.stamp, *to, link.as_ref()),
            Fact::Host(id, host) => return self.set_host(told.stamp, *id, host.as_ref()),
            Fact::Heard(..) => return true,
            Fact::Old(at, is_old) => return self.trees.set_old(*at, *is_old),
            Fact::Tree(tree) => return self.trees.set_tree(told.stamp, tree),
            Fact::Stand(id, stand) => return self.trees.set_stand(told.stamp, *id, *stand),
            Fact::Unable(id, rank) => return self.unable.set(told.stamp, *id, *rank),
        };
        self.version += u64::from(changed);
        changed
    }

    fn set_switch(&mut self, stamp: Stamp, id: DatapathId, new: Option<&SwitchInfo>) -> bool {
        let (old_stamp, old) = self.switches.entry(id).or_insert((stamp, None));
        if stamp < *old_stamp {
            return false;
        }
        *old_stamp = stamp;
        if old.as_ref() == new {
            return false;
        }
        self.switches_up =
            self.switches_up + usize::from(new.is_some()) - usize::from(old.is_some());
        let old = std::mem::replace(old, new.cloned());
        for port in old.iter().flat_map(|switch| switch.ports.values()) {
            self.uncount_port(port.hw_addr);
        }
        for port in new.iter().flat_map(|switch| switch.ports.values()) {
            *self.port_addrs.entry(port.hw_addr).or_default() += 1;
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
        let Some((up, Some(switch))) = self.switches.get_mut(&at.switch) else { return false };
        let last = self.ports.entry(at).or_insert(*up);
        if stamp < *up || stamp < *last {
            return false;
        }
        *last = stamp;
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
        *old_stamp = stamp;
        if old.as_ref() == new {
            return false;
        }
        let old = std::mem::replace(old, new.copied());
        if let Some(old) = old
            && self.links_from.get(&old.from) == Some(&to)
        {
            self.links_from.remove(&old.from);
        }
        if let Some(new) = new {
            self.links_from.insert(new.from, to);
        }
        true
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
        self.hosts_known =
            self.hosts_known + usize::from(new.is_some()) - usize::from(old.is_some());
        let old = std::mem::replace(old, new.cloned());
        if let Some(host) = old {
            self.by_place.remove(&(host.at, id));
            for addr in host.addrs {
                self.by_addr.remove(&(addr, id.vlan, id));
            }
        }
        if let Some(host) = new {
            self.by_place.insert((host.at, id));
            self.by_addr.extend(host.addrs.iter().map(|&addr| (addr, id.vlan, id)));
        }
        true
    }

    /// Forgets what was said of things that are gone for longer than facts travel, so that they do not pile up.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let keep = |stamp: &Stamp, is_there: bool| is_there || stamp.is_within(KEPT, now);
        self.switches.retain(|_, (stamp, switch)| keep(stamp, switch.is_some()));
        self.links.retain(|_, (stamp, link)| keep(stamp, link.is_some()));
        self.hosts.retain(|_, (stamp, host)| keep(stamp, host.is_some()));
        self.trees.sweep(now);
        self.unable.sweep(now);
        let switches = &self.switches;
        let is_port = |at: &SwitchPort| {
            let switch = switches.get(&at.switch).and_then(|(_, switch)| switch.as_ref());
            switch.is_some_and(|switch| switch.ports.contains_key(&at.port))
        };
        self.ports.retain(|at, stamp| keep(stamp, is_port(at)));
    }
}

/// For how long it is remembered that something is gone. Facts travel in less than a turn of a worker.
const KEPT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn port(role: PortRole) -> PortInfo {
        PortInfo { name: "p".into(), hw_addr: MacAddr([2; 6]), is_up: true, role }
    }

    fn place(switch: u64, no: u32) -> SwitchPort {
        SwitchPort::new(DatapathId(switch), PortNo(no))
    }

    /// Facts about three switches, their ports, links and hosts, each about a thing that others are about as well.
    fn facts() -> Vec<PublishedFact> {
        let mut facts = Vec::new();
        for n in 0..3u64 {
            let ports = (1..4).map(|no| (PortNo(no), port(PortRole::Pending))).collect();
            facts.push(Fact::Switch(DatapathId(n), Some(SwitchInfo { ports })));
        }
        for n in 0..30u32 {
            let (a, b) = (place(u64::from(n % 3), n % 4), place(u64::from(n % 2), n % 3));
            let link = Link { from: a, to: b, delay: Duration::from_micros(n.into()) };
            facts.push(Fact::Link(b, (n % 5 != 0).then_some(link)));
            facts.push(Fact::Port(a, (n % 7 != 0).then(|| port(PortRole::Edge))));
            let id = HostId {
                mac: MacAddr([2, 0, 0, 0, 0, u8::try_from(n % 4).unwrap()]),
                vlan: VlanId(0),
            };
            let addrs = vec![IpAddr::from([10, 0, 0, u8::try_from(n % 5).unwrap()])];
            facts.push(Fact::Host(id, (n % 6 != 0).then_some(Host { at: a, addrs })));
        }
        // What was so before is so again, and what came between may arrive last.
        facts.extend_from_within(3..33);
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let stamp = |n: usize| Stamp::new(start + Duration::from_millis(n as u64), 1);
        facts
            .into_iter()
            .enumerate()
            .map(|(n, fact)| PublishedFact { stamp: stamp(n), fact })
            .collect()
    }

    #[test]
    fn the_later_word_holds_in_whichever_order_they_arrive() {
        let facts = facts();
        let view = |order: &[usize]| {
            let mut view = NetworkView::default();
            for &n in order {
                view.apply(&facts[n]);
            }
            let mut hosts: Vec<_> = view.hosts().map(|(id, host)| (id, host.clone())).collect();
            hosts.sort_by_key(|&(id, _)| id);
            let links: Vec<_> = view.links().copied().collect();
            let at: Vec<_> = view.hosts_of(DatapathId(1)).map(|(id, _)| id).collect();
            assert!(at.iter().all(|&id| view.host(id).is_some_and(|h| h.at.switch.0 == 1)));
            let addrs = (0..5).map(|n| IpAddr::from([10, 0, 0, n]));
            let owners: Vec<_> =
                addrs.map(|addr| view.host_of(addr, VlanId(0)).map(|(id, _)| id)).collect();
            (links, hosts, view.hosts_len(), at, owners)
        };
        let in_order: Vec<_> = (0..facts.len()).collect();
        let expected = view(&in_order);
        assert_eq!(expected.1.len(), expected.2);
        let mut rng = sluice_base::Rng::new(7);
        for _ in 0..200 {
            let mut order = in_order.clone();
            for n in (4..order.len()).rev() {
                // Switches come first: a port of a switch that is not there says nothing.
                order.swap(n, 3 + rng.below(u32::try_from(n - 2).unwrap()) as usize);
            }
            assert_eq!(view(&order), expected);
        }
    }

    #[test]
    fn only_links_with_both_directions_are_ways() {
        let mut view = NetworkView::default();
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let stamp = Stamp::new(Instant::now(), 1);
        let (a, b) = (place(1, 1), place(2, 1));
        let mut link = |from, to| {
            let link = Link { from, to, delay: Duration::ZERO };
            view.apply(&PublishedFact { stamp, fact: Fact::Link(to, Some(link)) });
            view.links_of(a.switch).count()
        };
        assert_eq!(link(a, b), 0);
        assert_eq!(link(b, a), 1);
        assert_eq!(view.link_from(a).map(|link| link.to), Some(b));
    }

    #[test]
    fn what_is_gone_is_forgotten_after_a_while() {
        let mut view = NetworkView::default();
        for told in facts() {
            view.apply(&told);
            let gone = match told.fact {
                Fact::Switch(id, _) => Fact::Switch(id, None),
                Fact::Port(at, _) => Fact::Port(at, None),
                Fact::Link(to, _) => Fact::Link(to, None),
                Fact::Host(id, _) => Fact::Host(id, None),
                Fact::Heard(..)
                | Fact::Unable(..)
                | Fact::Old(..)
                | Fact::Tree(_)
                | Fact::Stand(..) => continue,
            };
            view.apply(&PublishedFact { stamp: told.stamp, fact: gone });
        }
        let late = facts().last().map(|told| told.stamp.at() + KEPT * 2).unwrap();
        view.sweep(late);
        let left = [view.switches.len(), view.links.len(), view.hosts.len(), view.ports.len()];
        assert_eq!(left, [0; 4]);
        assert!(view.by_addr.is_empty() && view.links_from.is_empty());
        assert!(view.by_place.is_empty() && view.port_addrs.is_empty());
    }
}
