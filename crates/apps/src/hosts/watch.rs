//! Ports at which somebody else may be now.
//!
//! A host that was plugged in elsewhere may find rules for its conversations there, of which nobody would ever hear. So
//! what comes in at a port that has come up goes up to the controller, until somebody is learnt there.

use std::collections::HashSet;

use sluice_openflow::{Action, Field, FlowMod, FlowModCommand, Instruction, Message, PortNo};
use sluice_sdk::Network;
use sluice_sdk::view::SwitchPort;

/// What the cookies of these rules are: `hosts`.
const COOKIE: u64 = 0x0000_686f_7374_7300;

/// Above all others.
const PRIORITY: u16 = u16::MAX;

/// Seconds after which a port is no longer watched, if nobody speaks there.
const WATCHED_S: u16 = 10;

/// The ports of this worker's switches that were down while the switch was there, or have been watched since.
#[derive(Debug, Default)]
pub(super) struct Watch {
    down: HashSet<SwitchPort>,
    watched: HashSet<SwitchPort>,
}

impl Watch {
    /// Nothing comes in at a port.
    pub(super) fn go_down(&mut self, at: SwitchPort) {
        self.down.insert(at);
        self.watched.remove(&at);
    }

    /// Hosts may be at a port; if it was down, it is watched.
    pub(super) fn come_up(&mut self, at: SwitchPort, network: &mut Network) {
        if self.down.remove(&at) {
            self.watched.insert(at);
            network.send_to(at.switch, Message::FlowMod(rule(at)));
        }
    }

    /// Somebody is learnt at a port.
    pub(super) fn learn(&mut self, at: SwitchPort, network: &mut Network) {
        if self.watched.remove(&at) {
            let command = FlowModCommand::DELETE_STRICT;
            network.send_to(at.switch, Message::FlowMod(FlowMod { command, ..rule(at) }));
        }
    }

    /// A switch is gone, and so are its ports.
    pub(super) fn retain(&mut self, is_there: impl Fn(&SwitchPort) -> bool) {
        self.down.retain(&is_there);
        self.watched.retain(is_there);
    }
}

fn rule(at: SwitchPort) -> FlowMod {
    FlowMod {
        cookie: COOKIE,
        hard_timeout: WATCHED_S,
        priority: PRIORITY,
        matching: [Field::in_port(at.port)].into(),
        instructions: vec![Instruction::apply([Action::output(PortNo::CONTROLLER)])],
        ..FlowMod::default()
    }
}
