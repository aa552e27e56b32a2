//! Which event a fact is.

use sluice_openflow::DatapathId;
use sluice_sdk::view::{Fact, Host, Link, NetworkView, PortInfo, PublishedFact, SwitchPort};
use sluice_sdk::{Notification, PortBlock, switch_name};

use super::event::{Event, EventHost, EventKind, EventPlace};
use super::names::SwitchNames;

/// What the view said about the subject of a fact before it was applied.
#[derive(Debug)]
pub(super) enum Before {
    Nothing,
    Port(PortInfo),
    Link(Link),
    Host(Host),
}

impl Before {
    pub(super) fn of(fact: &Fact, view: &NetworkView) -> Self {
        let known = match fact {
            Fact::Port(at, _) => view.port(*at).cloned().map(Self::Port),
            Fact::Link(to, _) => view.link_to(*to).copied().map(Self::Link),
            Fact::Host(id, _) => view.host(*id).cloned().map(Self::Host),
            Fact::Switch(..) | Fact::Record(_) | Fact::Event(_) => None,
        };
        known.unwrap_or(Self::Nothing)
    }
}

/// The name of a switch that a fact states.
pub(super) fn name_in(fact: &Fact) -> Option<(DatapathId, Option<String>)> {
    match fact.event()? {
        Notification::SwitchConnected { switch, features, .. } => {
            Some((*switch, switch_name(features, None)))
        }
        _ => None,
    }
}

/// The switch whose session a fact says to have ended.
pub(super) fn disconnected(fact: &Fact) -> Option<DatapathId> {
    match fact.event()? {
        Notification::SwitchDisconnected { switch, .. } => Some(*switch),
        _ => None,
    }
}

/// The event that a fact is, which has changed `view`, and which the facts `next` follow; `None` if it is none.
pub(super) fn event(
    before: Before,
    fact: &Fact,
    next: &[PublishedFact],
    view: &NetworkView,
    names: &SwitchNames,
) -> Option<Event> {
    let place = |at: SwitchPort| Some(EventPlace::port(at, view, names));
    match (fact, before) {
        (Fact::Port(at, port), before) => {
            let old = if let Before::Port(old) = before { Some(old) } else { None };
            port_event(*at, old.as_ref(), port.as_ref(), names)
        }
        (Fact::Link(_, Some(new)), before) => {
            // The same link, published again, is nothing new.
            let is_new = !matches!(before, Before::Link(old) if old == *new);
            let (from, to) = (place(new.from), place(new.to));
            is_new.then(|| Event { from, to, ..Event::new(EventKind::LinkUp) })
        }
        (Fact::Link(_, None), Before::Link(old)) => Some(Event {
            from: place(old.from),
            to: place(old.to),
            reason: Some(reason_of_link_down(old, next, view).to_owned()),
            ..Event::new(EventKind::LinkDown)
        }),
        (Fact::Host(id, new), before) => {
            let old = if let Before::Host(old) = before { Some(old) } else { None };
            let known = new.as_ref().or(old.as_ref())?;
            let addresses = known.addrs.iter().map(ToString::to_string).collect();
            let host = Some(EventHost::new(*id, addresses));
            let event = |kind| Event { host: host.clone(), ..Event::new(kind) };
            Some(match (old, new) {
                (Some(old), Some(new)) if old.at != new.at => {
                    Event { from: place(old.at), to: place(new.at), ..event(EventKind::HostMoved) }
                }
                (Some(_), Some(new)) => {
                    Event { at: place(new.at), ..event(EventKind::HostAddressesChanged) }
                }
                (None, Some(new)) => Event { at: place(new.at), ..event(EventKind::HostLearned) },
                (Some(old), None) => Event { at: place(old.at), ..event(EventKind::HostRemoved) },
                (None, None) => return None,
            })
        }
        (Fact::Event(event), _) => notification_event(event.get()?, view, names),
        (Fact::Link(..) | Fact::Switch(..) | Fact::Record(_), _) => None,
    }
}

fn port_event(
    at: SwitchPort,
    old: Option<&PortInfo>,
    new: Option<&PortInfo>,
    names: &SwitchNames,
) -> Option<Event> {
    let is_up = |port: Option<&PortInfo>| port.is_some_and(|port| port.is_up);
    let kind = match (is_up(old), is_up(new)) {
        (false, true) => EventKind::PortUp,
        (true, false) => EventKind::PortDown,
        _ => return None,
    };
    let reason = match (old, new) {
        (None, _) => Some("added"),
        (_, None) => Some("removed"),
        _ => None,
    };
    let place = EventPlace {
        port: Some(at.port.0),
        port_name: new.or(old).map(|port| port.name.to_string()),
        ..EventPlace::switch(at.switch, names)
    };
    Some(Event { at: Some(place), reason: reason.map(str::to_owned), ..Event::new(kind) })
}

/// `topology` publishes that a port is down behind the loss of its link.
fn reason_of_link_down(link: Link, next: &[PublishedFact], view: &NetworkView) -> &'static str {
    let ends = [link.from, link.to];
    let takes_down = |published: &PublishedFact| match &published.fact {
        Fact::Port(at, port) => ends.contains(at) && port.as_ref().is_none_or(|port| !port.is_up),
        _ => false,
    };
    if ends.iter().any(|at| view.switch(at.switch).is_none()) {
        "switch-disconnected"
    } else if ends.iter().any(|&at| view.port(at).is_none_or(|port| !port.is_up))
        || next.iter().any(takes_down)
    {
        "port-down"
    } else {
        "no-probes"
    }
}

fn notification_event(
    notification: &Notification,
    view: &NetworkView,
    names: &SwitchNames,
) -> Option<Event> {
    let place = |at: SwitchPort| Some(EventPlace::port(at, view, names));
    let switch = |id: DatapathId| Some(EventPlace::switch(id, names));
    Some(match notification {
        Notification::SwitchConnected { switch: id, addr, version, features } => Event {
            at: switch(*id),
            address: Some(addr.to_string()),
            openflow: Some(version.to_string()),
            count: u64::try_from(features.ports.len()).ok(),
            ..Event::new(EventKind::SwitchConnected)
        },
        Notification::SwitchDisconnected { switch: id, reason, .. } => Event {
            at: switch(*id),
            reason: Some((*reason).to_owned()),
            ..Event::new(EventKind::SwitchDisconnected)
        },
        Notification::PortBlocked(block) => {
            Event { at: place(block.at), ..block_event(block, EventKind::PortBlocked) }
        }
        Notification::PortReleased(block) => {
            Event { at: place(block.at), ..block_event(block, EventKind::PortReleased) }
        }
        Notification::AddressConflict {
            owner,
            owner_at,
            addr,
            claimant,
            claimant_at,
            is_rejected,
        } => Event {
            at: place(*owner_at),
            host: Some(EventHost::new(*owner, vec![])),
            claimant: Some(EventHost::new(*claimant, vec![])),
            claimant_at: place(*claimant_at),
            address: addr.map(|addr| addr.to_string()),
            reason: Some(if *is_rejected { "claim-rejected" } else { "claim-ignored" }.to_owned()),
            ..Event::new(EventKind::AddressConflict)
        },
        Notification::PathsRepaired { at } => {
            Event { at: place(*at), ..Event::new(EventKind::PathsRepaired) }
        }
        Notification::Suppressed(count) => Event {
            count: Some(*count),
            reason: Some("too-many-notifications".to_owned()),
            ..Event::new(EventKind::EventsLost)
        },
        _ => return None,
    })
}

fn block_event(block: &PortBlock, kind: EventKind) -> Event {
    let host = block.host.map(|mac| EventHost { mac: mac.to_string(), vlan: 0, addresses: vec![] });
    Event {
        host,
        packets: Some(block.packets),
        packets_per_s_max: Some(block.packets_per_s_max),
        ..Event::new(kind)
    }
}
