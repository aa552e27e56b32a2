//! What is published of ports and links, and what the view says of the port at the other end of a link.

use std::time::Instant;

use sluice_openflow::PortNo;
use sluice_sdk::view::{Fact, Link, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::counters::Counters;
use super::port::{PeerState, Port};
use super::switch::ProbedSwitch;

/// Publishes what changed of a port and of the link into it. Returns `true` if something did.
pub(super) fn publish(
    port: &mut Port,
    now: Instant,
    network: &mut Network,
    counters: &mut Counters,
) -> bool {
    let (at, from) = (port.at, port.link_from());
    let mut has_changed = port.publish_state();
    if has_changed {
        network.publish(now, Fact::Port(at, Some(port.info())));
    }
    if from != port.published_link() {
        has_changed = true;
        counters.links_lost += u64::from(from.is_none());
        port.publish_link(from);
        network.publish(now, Fact::Link(at, from.map(|from| Link { from, to: at })));
    }
    has_changed
}

/// Publishes that a switch has other ports than before its reconnection, also where their numbers are the same, so that hosts and
/// flow entries of the old ports are removed.
pub(super) fn publish_replaced_ports(switch: &ProbedSwitch, old: &[PortNo], ctx: &mut Ctx<'_>) {
    for &no in old {
        ctx.publish(Fact::Port(SwitchPort::new(switch.id, no), None));
    }
    for (no, port) in switch.info().ports {
        ctx.publish(Fact::Port(SwitchPort::new(switch.id, no), Some(port)));
    }
}

/// The state of the port `peer`, the other end of a link of `at` from which no more probes are received.
pub(super) fn peer_state(at: SwitchPort, peer: SwitchPort, network: &Network) -> PeerState {
    let view = network.view();
    if view.switch(peer.switch).is_none() {
        return PeerState::Disconnected;
    }
    let leads_elsewhere = view.link_to(peer).is_some_and(|link| link.from != at)
        || view.link_from(peer).is_some_and(|link| link.to != at);
    match view.port(peer) {
        Some(port) if port.is_up && !leads_elsewhere => PeerState::Unchanged,
        _ => PeerState::Changed,
    }
}
