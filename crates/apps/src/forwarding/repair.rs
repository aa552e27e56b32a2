//! Rules that lead nowhere any more go, and no others.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_openflow::{FlowMod, Message, PortNo};
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, HostId, Link, NetworkView, PortRole, SwitchPort};

use super::rules::Named;
use super::switches::Switches;

/// What was known of the network when rules were written, as far as they go when it changes. Each switch is repaired by the
/// worker that serves it.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Where the link that comes in at a place leaves.
    links: HashMap<SwitchPort, SwitchPort>,
    hosts: HashMap<HostId, SwitchPort>,
    /// What is looked at once more, and when.
    again: VecDeque<(Instant, Gone)>,
    /// In which second, and for how many hosts, all switches were told.
    wide: Option<(Instant, u32)>,
}

/// Hosts that left within a second for which every switch is told; for more, only the switch that they left. What is left
/// elsewhere leads there, where a new way begins.
const WIDE_PER_S_MAX: u32 = 100;

/// After which a deletion is said once more. Another worker may have loaded a way before it heard the news, and what it
/// wrote may come after the deletion; facts and messages between workers take less.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Deletions that wait to be said once more. Beyond, the oldest are not: rules have time-outs.
const AGAIN_MAX: usize = 65_536;

/// Where nothing leads any more.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gone {
    /// Out of a port.
    Port(SwitchPort),
    /// From the first to the second, and back.
    Link(SwitchPort, SwitchPort),
    /// To a host at a place.
    Host(HostId, SwitchPort),
    /// To a host that left a place, from any switch.
    Everywhere(HostId, SwitchPort),
    /// By rules whose form has this rank: all switches have others.
    Form(u8),
}

impl Gone {
    /// Whether it still is.
    fn still(self, view: &NetworkView) -> bool {
        match self {
            Self::Port(at) => view.port(at).is_none_or(|port| !port.is_up),
            Self::Link(from, to) => {
                let is = |from, to| view.link_to(to).is_some_and(|link| link.from == from);
                !is(from, to) || !is(to, from)
            }
            Self::Host(id, at) | Self::Everywhere(id, at) => {
                view.host(id).is_none_or(|host| host.at != at)
            }
            Self::Form(_) => true,
        }
    }

    /// Has all rules go that lead there, on switches of this worker. Returns how many deletions it took.
    fn delete(self, switches: &Switches, network: &mut Network) -> u64 {
        match self {
            Self::Port(at) => delete(at, switches, network, |named| named.delete(at.port)),
            Self::Link(from, to) => [from, to]
                .map(|at| delete(at, switches, network, |named| named.delete(at.port)))
                .iter()
                .sum(),
            Self::Host(id, at) => {
                delete(at, switches, network, |named| named.delete_to(id, at.port))
            }
            Self::Everywhere(id, at) => {
                let mut deleted = 0;
                for (switch, named) in switches.all() {
                    let port = match named {
                        Named::ByCookie => PortNo::ANY,
                        // Without a cookie, those of others would go as well.
                        Named::ByPort if switch == at.switch => at.port,
                        Named::ByPort => continue,
                    };
                    network.send_to(switch, Message::FlowMod(named.delete_to(id, port)));
                    deleted += 1;
                }
                deleted
            }
            Self::Form(rank) => {
                let mut deleted = 0;
                for (switch, named) in switches.all() {
                    if let Some(rule) = named.delete_form(rank) {
                        network.send_to(switch, Message::FlowMod(rule));
                        deleted += 1;
                    }
                }
                deleted
            }
        }
    }

    /// The same, as far as it is looked at once more: by then, rules for where a host is now may be anywhere.
    fn narrow(self) -> Self {
        match self {
            Self::Everywhere(id, at) => Self::Host(id, at),
            other => other,
        }
    }
}

impl Repair {
    /// Handles a change of the view. Returns the number of deletions that it caused.
    pub(super) fn told(
        &mut self,
        fact: &Fact,
        now: Instant,
        switches: &Switches,
        network: &mut Network,
    ) -> u64 {
        let gone = match fact {
            Fact::Link(to, link) => self.relink(*to, link.as_ref(), network.view()),
            Fact::Port(at, port) => match port {
                Some(port) if port.is_up => self.may_lead_elsewhere(*at, port.role),
                _ => Some(self.unlink(*at).unwrap_or(Gone::Port(*at))),
            },
            Fact::Host(id, host) => {
                let old = match host {
                    Some(host) => self.hosts.insert(*id, host.at),
                    None => self.hosts.remove(id),
                };
                let is_left = |old: &SwitchPort| host.as_ref().is_none_or(|host| host.at != *old);
                // Who was taken to be at a link is behind it, and so do rules lead there.
                let is_link = |old: &SwitchPort| network.view().port_role(*old) == PortRole::Link;
                let left = old.filter(|old| is_left(old) && !is_link(old));
                left.map(|old| {
                    if self.may_be_wide(now) {
                        Gone::Everywhere(*id, old)
                    } else {
                        Gone::Host(*id, old)
                    }
                })
            }
            Fact::Switch(..) | Fact::Record(_) | Fact::Event(_) => None,
        };
        gone.map_or(0, |gone| self.begin(gone, now, switches, network))
    }

    /// Has rules go now, and once more later. Returns how many deletions it took.
    pub(super) fn begin(
        &mut self,
        gone: Gone,
        now: Instant,
        switches: &Switches,
        network: &mut Network,
    ) -> u64 {
        let deleted = gone.delete(switches, network);
        if deleted > 0 {
            if self.again.len() >= AGAIN_MAX {
                self.again.pop_front();
            }
            self.again.push_back((now + AGAIN_AFTER, gone.narrow()));
        }
        deleted
    }

    /// Rules of the form of this rank are written from now on: they no longer go.
    pub(super) fn spare_form(&mut self, rank: u8) {
        self.again.retain(|&(_, gone)| !matches!(gone, Gone::Form(other) if other == rank));
    }

    fn may_be_wide(&mut self, now: Instant) -> bool {
        let (since, count) = self.wide.get_or_insert((now, 0));
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= WIDE_PER_S_MAX
    }

    /// Lets time pass. Returns how many deletions it led to.
    pub(super) fn on_time(
        &mut self,
        now: Instant,
        switches: &Switches,
        network: &mut Network,
    ) -> u64 {
        let mut deleted = 0;
        while let Some(&(due, gone)) = self.again.front()
            && due <= now
        {
            self.again.pop_front();
            if gone.still(network.view()) {
                deleted += gone.delete(switches, network);
            }
        }
        deleted
    }

    /// The link into `to` is this one from now on. If it was another, nothing leads over that any more, in neither
    /// direction.
    ///
    /// A link that is gone because nobody hears the switch at one of its ends carries frames still, as far as anybody
    /// knows. It is remembered, until a port of it goes down or is known to lead elsewhere.
    fn relink(&mut self, to: SwitchPort, link: Option<&Link>, view: &NetworkView) -> Option<Gone> {
        let is_heard = |at: &SwitchPort| view.switch(at.switch).is_some();
        if link.is_none()
            && !self.links.get(&to).is_some_and(|from| is_heard(from) && is_heard(&to))
        {
            return None;
        }
        let old = match link {
            Some(link) => {
                // The other direction may have lived on, and is no news then.
                if view.link_to(link.from).is_some_and(|back| back.from == to) {
                    self.links.entry(link.from).or_insert(to);
                }
                self.links.insert(to, link.from)
            }
            None => self.links.remove(&to),
        };
        let from = old.filter(|&old| link.is_none_or(|link| link.from != old))?;
        // Its other direction ends too: that it does is no news.
        if self.links.get(&from) == Some(&to) {
            self.links.remove(&from);
        }
        Some(Gone::Link(from, to))
    }

    /// A port leads to this. If that is no switch, the link that it had is over.
    fn may_lead_elsewhere(&mut self, at: SwitchPort, role: PortRole) -> Option<Gone> {
        match role {
            PortRole::Edge | PortRole::SharedSegment(_) => self.unlink(at),
            PortRole::Link | PortRole::Pending => None,
        }
    }

    /// The link at a port, in both directions.
    fn unlink(&mut self, at: SwitchPort) -> Option<Gone> {
        let from = self.links.remove(&at)?;
        if self.links.get(&from) == Some(&at) {
            self.links.remove(&from);
        }
        Some(Gone::Link(from, at))
    }
}

fn delete(
    at: SwitchPort,
    switches: &Switches,
    network: &mut Network,
    rule: impl FnOnce(Named) -> FlowMod,
) -> u64 {
    let Some(named) = switches.named(at.switch) else { return 0 };
    network.send_to(at.switch, Message::FlowMod(rule(named)));
    1
}
