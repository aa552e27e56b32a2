//! Finds hosts that were moved to another port.
//!
//! Existing flow entries may already forward all packets of such a host, so that the controller would receive no packet-in
//! from its new port. Therefore, when a port comes up, a flow entry sends all packets from it to the controller until a host
//! is learned there, at most for [`WATCH_S`] seconds.

use std::collections::BTreeSet;

use sluice_openflow::{
    Action, DatapathId, Field, FlowMod, FlowModCommand, Instruction, Message, PortNo,
};
use sluice_sdk::view::SwitchPort;
use sluice_sdk::{Ctx, Network};

/// Cookie of these flow entries: `hosts` in ASCII.
const COOKIE: u64 = 0x0000_686f_7374_7300;

/// Priority of these flow entries: above all others.
const PRIORITY: u16 = u16::MAX;

/// Seconds after which a watch ends if no host is learned.
const WATCH_S: u16 = 10;

/// The ports of this worker's switches that are down or watched.
#[derive(Debug, Default)]
pub(super) struct PortWatch {
    down: BTreeSet<SwitchPort>,
    watched: BTreeSet<SwitchPort>,
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

    /// Writes the flow entries for the watched ports of a switch again.
    pub(super) fn restore(&self, ctx: &mut Ctx<'_>) {
        for &at in self.watched.range(SwitchPort::all_of(ctx.datapath_id)) {
            let written = ctx.switch.flow_mod(&watch_entry(at));
            debug_assert!(written.is_ok(), "every version can express it");
        }
    }

    /// Forgets the ports of a switch, without removing their flow entries.
    pub(super) fn forget_switch(&mut self, id: DatapathId) {
        for ports in [&mut self.down, &mut self.watched] {
            while let Some(&at) = ports.range(SwitchPort::all_of(id)).next() {
                ports.remove(&at);
            }
        }
    }
}

/// The flow entry that sends all packets from a port to the controller.
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
