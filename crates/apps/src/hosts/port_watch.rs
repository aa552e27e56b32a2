//! Ports that came up: a host may have been moved there.
//!
//! Flow entries may already forward all packets of such a host, so that the controller would never learn its new location.
//! So everything that arrives at a port that came up is sent to the controller, until a host is learned there.

use std::collections::HashSet;

use sluice_openflow::{Action, Field, FlowMod, FlowModCommand, Instruction, Message, PortNo};
use sluice_sdk::Network;
use sluice_sdk::view::SwitchPort;

/// Cookie of these flow entries: `hosts` in ASCII.
const COOKIE: u64 = 0x0000_686f_7374_7300;

/// Above all other flow entries.
const PRIORITY: u16 = u16::MAX;

/// Seconds after which a watch ends if no host is learned.
const WATCH_S: u16 = 10;

/// The ports of this worker's switches that are down or watched.
#[derive(Debug, Default)]
pub(super) struct PortWatch {
    down: HashSet<SwitchPort>,
    watched: HashSet<SwitchPort>,
}

impl PortWatch {
    pub(super) fn port_down(&mut self, at: SwitchPort) {
        self.down.insert(at);
        self.watched.remove(&at);
    }

    /// Starts watching a port where hosts may be, if it was down.
    pub(super) fn port_up(&mut self, at: SwitchPort, network: &mut Network) {
        if self.down.remove(&at) {
            self.watched.insert(at);
            network.send_to(at.switch, Message::FlowMod(watch_entry(at)));
        }
    }

    /// Stops watching a port at which a host was learned.
    pub(super) fn host_learned(&mut self, at: SwitchPort, network: &mut Network) {
        if self.watched.remove(&at) {
            let command = FlowModCommand::DELETE_STRICT;
            network.send_to(at.switch, Message::FlowMod(FlowMod { command, ..watch_entry(at) }));
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&SwitchPort) -> bool) {
        self.down.retain(&keep);
        self.watched.retain(keep);
    }
}

fn watch_entry(at: SwitchPort) -> FlowMod {
    FlowMod {
        cookie: COOKIE,
        hard_timeout: WATCH_S,
        priority: PRIORITY,
        matching: [Field::in_port(at.port)].into(),
        instructions: vec![Instruction::apply([Action::output(PortNo::CONTROLLER)])],
        ..FlowMod::default()
    }
}
