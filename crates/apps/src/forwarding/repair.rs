//! Deletes flow entries that have become stale, and no others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, Message, PortNo};
use sluice_sdk::view::{Fact, HostId, Link, NetworkView, PortRole, SwitchPort};
use sluice_sdk::{Network, Notification};

use super::flow_entries::{EntryFilter, EntrySelector};
use super::switches::LocalSwitches;
use crate::iteration_budget::IterationBudget;
use crate::rate_limit::RateLimit;

/// The links and hosts that flow entries depend on, so that entries can be deleted when these change. Each worker
/// repairs its own switches.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// The start of the link into a port.
    links: HashMap<SwitchPort, SwitchPort>,
    hosts: HashMap<HostId, SwitchPort>,
    /// Deletions to be repeated, and when.
    repeats: VecDeque<(Instant, Stale)>,
    /// Limits the hosts for which all switches get a deletion.
    broadcast_deletions: RateLimit,
    repeat_budget: RepeatBudget,
}

/// The repetitions of this event-loop iteration.
#[derive(Debug)]
struct RepeatBudget(IterationBudget);

impl Default for RepeatBudget {
    fn default() -> Self {
        Self(IterationBudget::new(REPEATS_PER_ITERATION_MAX))
    }
}

/// Deletions that are repeated in one event-loop iteration at most: thousands may be due at the same time.
const REPEATS_PER_ITERATION_MAX: usize = 256;

/// Hosts per second for which every switch gets a deletion when they move or leave; for more, only the switch that
/// they left. Entries elsewhere lead there, where a new path is installed.
const BROADCASTS_PER_S_MAX: u32 = 100;

/// Delay after which a deletion is repeated. Another worker may have installed a path before it received the change,
/// and its flow entries may arrive after the deletion; facts and messages between workers take less time than this.
pub(super) const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Deletions to be repeated, at most. Beyond, the oldest are dropped: flow entries have timeouts.
const REPEATS_MAX: usize = 65_536;

/// What has made flow entries stale.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stale {
    /// A port, and for packets from it.
    Port(SwitchPort),
    /// A link, in both directions.
    Link(SwitchPort, SwitchPort),
    /// A host that left a port: entries to it and from it there, on the switch of that port.
    Host(HostId, SwitchPort),
    /// The same, and entries to it on every switch.
    HostEverywhere(HostId, SwitchPort),
    /// A port that leads to another switch now and led to hosts before, and for packets from it.
    LinkPort(SwitchPort),
    /// All entries whose match has this rank, at this switch or at all, as another match is used there now.
    Matching { rank: u8, at: Option<DatapathId> },
}

impl Stale {
    /// Whether entries to this destination are still stale.
    fn is_still_stale(self, view: &NetworkView) -> bool {
        match self {
            Self::Port(at) => view.port(at).is_none_or(|port| !port.is_up),
            Self::Link(from, to) => {
                let is_link = |from, to| view.link_to(to).is_some_and(|link| link.from == from);
                !is_link(from, to) || !is_link(to, from)
            }
            Self::Host(id, at) | Self::HostEverywhere(id, at) => {
                view.host(id).is_none_or(|host| host.at != at)
            }
            Self::LinkPort(at) => view.port_role(at) == PortRole::Link,
            Self::Matching { .. } => true,
        }
    }

    /// Deletes the stale entries on switches of this worker. Returns the number of deletions sent.
    fn delete(self, now: Instant, switches: &mut LocalSwitches, network: &mut Network) -> u64 {
        let from_host = self.filters_from_host(network.view());
        let mut delete = |switch, filter| u64::from(switches.delete(switch, filter, now, network));
        match self {
            // If the hosts at that port are elsewhere when they send again, and later return, the entries for packets from there
            // would forward these unnoticed.
            Self::Port(at) | Self::LinkPort(at) => {
                delete(at.switch, EntryFilter::ToPort(at.port))
                    + delete(at.switch, EntryFilter::FromPort(at.port))
            }
            Self::Link(from, to) => {
                [from, to].map(|at| delete(at.switch, EntryFilter::ToPort(at.port))).iter().sum()
            }
            // If the host returned to that port unnoticed, the entries for packets from there would forward its packets,
            // while the replies go to where it was learned meanwhile.
            Self::Host(id, at) => {
                let to_host = [EntryFilter::ToHost(id, at.port)];
                to_host.into_iter().chain(from_host).map(|filter| delete(at.switch, filter)).sum()
            }
            Self::HostEverywhere(id, at) => {
                let mut deleted: u64 =
                    from_host.into_iter().map(|filter| delete(at.switch, filter)).sum();
                let all: Vec<_> = switches.all().collect();
                for (switch, selector) in all {
                    let port = match selector {
                        EntrySelector::ByCookie => PortNo::ANY,
                        // Listing the entries of every switch for each host would take too long.
                        EntrySelector::Listed if switch == at.switch => at.port,
                        EntrySelector::Listed => continue,
                    };
                    let filter = EntryFilter::ToHost(id, port);
                    deleted += u64::from(switches.delete(switch, filter, now, network));
                }
                deleted
            }
            Self::Matching { rank, at } => {
                let mut deleted = 0;
                for (switch, selector) in switches.all_or(at) {
                    if let Some(deletion) = selector.delete_by_rank(rank) {
                        network.send_to(switch, Message::FlowMod(deletion));
                        deleted += 1;
                    }
                }
                deleted
            }
        }
    }

    /// Entries for packets from a host that has left, at each port where they arrived: not at those of a bundle of which only another
    /// port is used for the host now.
    fn filters_from_host(self, view: &NetworkView) -> Vec<EntryFilter> {
        let (Self::Host(id, at) | Self::HostEverywhere(id, at)) = self else { return Vec::new() };
        let location = view.host(id).map(|host| host.at);
        let is_stale = |&port: &PortNo| {
            let attachment = view.attachment_port(SwitchPort::new(at.switch, port));
            location.is_none() || attachment != location
        };
        let ports = view.arrival_ports(at).into_iter().filter(is_stale);
        ports.map(|port| EntryFilter::FromHost(id, port)).collect()
    }

    /// The part of a deletion that is repeated: by then, entries to the host's new location may be on any switch.
    fn for_repeat(self) -> Self {
        match self {
            Self::HostEverywhere(id, at) => Self::Host(id, at),
            other => other,
        }
    }
}

impl Repair {
    pub(super) fn on_iteration(&mut self) {
        self.repeat_budget.0.refill();
    }

    /// Handles a change of the view. Returns the number of deletions sent.
    pub(super) fn on_fact(
        &mut self,
        fact: &Fact,
        now: Instant,
        switches: &mut LocalSwitches,
        network: &mut Network,
    ) -> u64 {
        let stale = match fact {
            Fact::Link(to, link) => self.update_link(*to, link.as_ref(), network.view()),
            Fact::Port(at, port) => match port {
                Some(port) if port.is_up => self.update_role(*at, port.role),
                _ => Some(self.unlink(*at).unwrap_or(Stale::Port(*at))),
            },
            Fact::Host(id, host) => {
                let old = match host {
                    Some(host) => self.hosts.insert(*id, host.at),
                    None => self.hosts.remove(id),
                };
                let has_left = |old: &SwitchPort| host.as_ref().is_none_or(|host| host.at != *old);
                // If the port of the host turned out to be a link, the host is behind that link, and so entries to
                // that port are right.
                let is_link = |old: &SwitchPort| network.view().port_role(*old) == PortRole::Link;
                let left = old.filter(|old| has_left(old) && !is_link(old));
                // All entries to a port that is down have been deleted.
                let is_up = |at: SwitchPort| network.view().port(at).is_some_and(|port| port.is_up);
                left.and_then(|old| {
                    if self.admit_broadcast(now) {
                        Some(Stale::HostEverywhere(*id, old))
                    } else {
                        is_up(old).then_some(Stale::Host(*id, old))
                    }
                })
            }
            Fact::Switch(..) | Fact::Record(_) | Fact::Event(_) => None,
        };
        stale.map_or(0, |stale| self.delete_stale(stale, now, switches, network))
    }

    /// Deletes stale entries now, and once more later. Returns the number of deletions sent.
    pub(super) fn delete_stale(
        &mut self,
        stale: Stale,
        now: Instant,
        switches: &mut LocalSwitches,
        network: &mut Network,
    ) -> u64 {
        let deleted = stale.delete(now, switches, network);
        if let Stale::Link(from, to) = stale {
            for at in [from, to].into_iter().filter(|at| switches.selector(at.switch).is_some()) {
                network.notify(now, Notification::PathsRepaired { at });
            }
        }
        if deleted > 0 {
            if self.repeats.len() >= REPEATS_MAX {
                self.repeats.pop_front();
            }
            self.repeats.push_back((now + REPEAT_AFTER, stale.for_repeat()));
        }
        deleted
    }

    /// Cancels the repeated deletion of entries whose match has this rank, at this switch or at all: they are installed again
    /// from now on.
    pub(super) fn keep_matching(&mut self, rank: u8, at: Option<DatapathId>) {
        let is_kept = |stale| matches!(stale, Stale::Matching { rank: other, at: other_at } if (other, other_at) == (rank, at));
        self.repeats.retain(|&(_, stale)| !is_kept(stale));
    }

    fn admit_broadcast(&mut self, now: Instant) -> bool {
        self.broadcast_deletions.admit(BROADCASTS_PER_S_MAX, now)
    }

    /// Repeats the deletions that are due, or defers them if they are too many for one event-loop iteration. Returns the
    /// number of deletions sent.
    pub(super) fn repeat_due(
        &mut self,
        now: Instant,
        switches: &mut LocalSwitches,
        network: &mut Network,
    ) -> u64 {
        let mut deleted = 0;
        while let Some(&(due, stale)) = self.repeats.front()
            && due <= now
        {
            if !self.repeat_budget.0.take() {
                network.defer_work();
                break;
            }
            self.repeats.pop_front();
            if stale.is_still_stale(network.view()) {
                deleted += stale.delete(now, switches, network);
            }
        }
        deleted
    }

    /// Records that the link into `to` has changed. Returns the previous link if it is stale.
    ///
    /// A link that is lost because the switch at one of its ends disconnected may still carry packets. It is kept
    /// until one of its ports goes down or is known to lead elsewhere.
    fn update_link(
        &mut self,
        to: SwitchPort,
        link: Option<&Link>,
        view: &NetworkView,
    ) -> Option<Stale> {
        let is_connected = |at: &SwitchPort| view.switch(at.switch).is_some();
        if link.is_none()
            && !self.links.get(&to).is_some_and(|from| is_connected(from) && is_connected(&to))
        {
            return None;
        }
        let old = match link {
            Some(link) => {
                // The other direction may have existed all the time, so that no fact announced it.
                if view.link_to(link.from).is_some_and(|back| back.from == to) {
                    self.links.entry(link.from).or_insert(to);
                }
                self.links.insert(to, link.from)
            }
            None => self.links.remove(&to),
        };
        let from = old.filter(|&old| link.is_none_or(|link| link.from != old))?;
        // The other direction is lost as well, and no fact announces it.
        if self.links.get(&from) == Some(&to) {
            self.links.remove(&from);
        }
        Some(Stale::Link(from, to))
    }

    /// Handles a new role of a port. If no switch is behind it, its previous link is stale.
    fn update_role(&mut self, at: SwitchPort, role: PortRole) -> Option<Stale> {
        match role {
            PortRole::Edge | PortRole::SharedSegment(_) | PortRole::Bundle(_) => self.unlink(at),
            PortRole::Link | PortRole::Pending => None,
        }
    }

    /// Removes and returns the link at a port.
    fn unlink(&mut self, at: SwitchPort) -> Option<Stale> {
        let from = self.links.remove(&at)?;
        if self.links.get(&from) == Some(&at) {
            self.links.remove(&from);
        }
        Some(Stale::Link(from, at))
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{MacAddr, VlanId};

    use super::*;

    struct NoApp;

    impl sluice_sdk::App for NoApp {}

    #[test]
    fn deletions_that_are_due_at_the_same_time_are_repeated_over_several_iterations() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut repair, mut network) = (Repair::default(), Network::new(0));
        let at = SwitchPort::new(DatapathId(1), PortNo(1));
        let mut switches = LocalSwitches::default();
        for n in 0..1000 {
            let id = HostId { mac: MacAddr::from_u64(n), vlan: VlanId(0) };
            repair.repeats.push_back((now, Stale::Host(id, at)));
        }
        for left in [744, 488, 232, 0] {
            repair.on_iteration();
            // Ticks of several switches.
            repair.repeat_due(now, &mut switches, &mut network);
            repair.repeat_due(now, &mut switches, &mut network);
            assert_eq!(repair.repeats.len(), left);
            assert_eq!(network.wants_iteration(), left > 0);
            network.deliver(&mut NoApp, now, |_| {});
        }
    }
}
