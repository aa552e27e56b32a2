//! Rules that lead nowhere any more go, and no others.

use std::collections::HashMap;

use sluice_app::Network;
use sluice_app::view::{Fact, HostId, Link, Place};
use sluice_wire::{FlowMod, Message};

use super::rules::Named;
use super::switches::Switches;

/// What was known of the network when rules were written, as far as they go when it changes. Each switch is repaired by the
/// worker that serves it.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Where the link that comes in at a place leaves.
    links: HashMap<Place, Place>,
    hosts: HashMap<HostId, Place>,
}

impl Repair {
    /// Hears what is otherwise than before. Returns how many deletions it led to.
    pub(super) fn told(&mut self, fact: &Fact, switches: &Switches, network: &mut Network) -> u64 {
        match fact {
            Fact::Link(to, link) => self.relink(*to, link.as_ref(), switches, network),
            Fact::Port(at, port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                delete(*at, switches, network, |named| named.delete(at.port))
            }
            Fact::Host(id, host) => {
                let old = match host {
                    Some(host) => self.hosts.insert(*id, host.at),
                    None => self.hosts.remove(id),
                };
                let left = old.filter(|&old| host.as_ref().is_none_or(|host| host.at != old));
                left.map_or(0, |old| delete(old, switches, network, |n| n.delete_to(*id, old.port)))
            }
            Fact::Port(..) | Fact::Switch(..) | Fact::Heard(..) => 0,
        }
    }

    /// The link into `to` is this one from now on. If it was another, nothing leads over that any more, in neither
    /// direction.
    fn relink(
        &mut self,
        to: Place,
        link: Option<&Link>,
        switches: &Switches,
        network: &mut Network,
    ) -> u64 {
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
        delete(from, switches, network, |named| named.delete(from.port))
            + delete(to, switches, network, |named| named.delete(to.port))
    }
}

fn delete(
    at: Place,
    switches: &Switches,
    network: &mut Network,
    rule: impl FnOnce(Named) -> FlowMod,
) -> u64 {
    let Some(named) = switches.named(at.switch) else { return 0 };
    network.mail(at.switch, Message::FlowMod(rule(named)));
    1
}
