//! Rules that lead nowhere any more go, and no others.

use std::collections::HashMap;

use sluice_app::view::{Fact, HostId, Link, Place};
use sluice_app::{Ctx, Network, Sw};
use sluice_wire::{DatapathId, FlowMod, Message};

use super::rules::Named;

/// What was known of the network when rules were written, as far as they go when it changes; and the switches of this
/// worker, each of which is repaired by the worker that serves it.
#[derive(Debug, Default)]
pub(super) struct Repair {
    switches: HashMap<DatapathId, (Sw, Named)>,
    /// Where the link that comes in at a place leaves.
    links: HashMap<Place, Place>,
    hosts: HashMap<HostId, Place>,
}

impl Repair {
    pub(super) fn switch_up(&mut self, ctx: &Ctx<'_>) {
        self.switches.insert(ctx.id, (ctx.sw, Named::of(ctx.here.version())));
    }

    pub(super) fn switch_down(&mut self, sw: Sw) {
        self.switches.retain(|_, (other, _)| *other != sw);
    }

    /// Hears what is otherwise than before. Returns how many deletions it led to.
    pub(super) fn told(&mut self, fact: &Fact, network: &mut Network) -> u64 {
        match fact {
            Fact::Link(to, link) => self.relink(*to, link.as_ref(), network),
            Fact::Port(at, port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                self.delete(*at, network, |named| named.delete(at.port))
            }
            Fact::Host(id, host) => {
                let old = match host {
                    Some(host) => self.hosts.insert(*id, host.at),
                    None => self.hosts.remove(id),
                };
                let left = old.filter(|&old| host.as_ref().is_none_or(|host| host.at != old));
                left.map_or(0, |old| self.delete(old, network, |n| n.delete_to(*id, old.port)))
            }
            Fact::Port(..) | Fact::Switch(..) | Fact::Heard(..) => 0,
        }
    }

    /// The link into `to` is this one from now on. If it was another, nothing leads over that any more, in neither
    /// direction.
    fn relink(&mut self, to: Place, link: Option<&Link>, network: &mut Network) -> u64 {
        let old = match link {
            Some(link) => {
                // The other direction may have lived on, and is no news then.
                if network.view().link_to(link.from).is_some_and(|back| back.from == to) {
                    self.links.entry(link.from).or_insert(to);
                }
                self.links.insert(to, link.from)
            }
            None => self.links.remove(&to),
        };
        let Some(from) = old.filter(|&old| link.is_none_or(|link| link.from != old)) else {
            return 0;
        };
        // Its other direction ends too: that it does is no news.
        if self.links.get(&from) == Some(&to) {
            self.links.remove(&from);
        }
        self.delete(from, network, |named| named.delete(from.port))
            + self.delete(to, network, |named| named.delete(to.port))
    }

    fn delete(&self, at: Place, network: &mut Network, rule: impl FnOnce(Named) -> FlowMod) -> u64 {
        let Some(&(_, named)) = self.switches.get(&at.switch) else { return 0 };
        network.mail(at.switch, Message::FlowMod(rule(named)));
        1
    }
}
