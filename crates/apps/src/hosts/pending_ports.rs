//! Frames of known hosts that arrive at a port whose role is not known yet.

use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_sdk::Network;
use sluice_sdk::view::{HostId, PortRole, SuspectedConnection, SwitchPort};

use super::is_attachment_port;
use crate::rate_limit::admit_after;

/// Shortest time between two events about one port, whose probes are sent as often.
const EVENT_INTERVAL: Duration = Duration::from_millis(250);

/// Ports with an event within this time: each event is sent to all workers.
const EVENTS_MAX: usize = 64;

/// When there was an event about a port last.
#[derive(Debug, Default)]
pub(super) struct PendingPorts {
    events: HashMap<SwitchPort, Instant>,
}

impl PendingPorts {
    /// Handles a frame of a host. If `at` is pending and the host is known at another port, either the host has moved or something
    /// connects the two ports: has both probed, before `at` is taken for a port that leads to hosts only. A first frame within the iteration
    /// that ends the settling time is too late for that.
    pub(super) fn frame_received(
        &mut self,
        host: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) {
        let view = network.view();
        if view.port(at).is_none_or(|port| !port.is_up || port.role != PortRole::Pending) {
            return;
        }
        let known = view.host(host).map(|host| host.at);
        let Some(other) = known.filter(|&known| known != at && is_attachment_port(view, known))
        else {
            return;
        };
        if admit_after(EVENT_INTERVAL, EVENTS_MAX, &mut self.events, at, now) {
            network.publish_event(now, SuspectedConnection { ports: [other, at] });
        }
    }
}
