//! Finds hosts that were moved to another port.
//!
//! Flow entries match the ingress port, but some may be left from an earlier host of a port: those that match no source
//! address, and in OpenFlow 1.0 all, since deletions there cannot be restricted to the entries of one application. They would
//! forward all packets of a host that is attached to the port now, and the controller would receive none. Therefore, when a
//! port comes up, a flow entry sends all packets from it to the controller until a host is learned there, at most
//! [`WATCHED_PACKETS_MAX`] packets and for [`WATCH_S`] seconds.
//!
//! The flow entry has to be above those that forward, and so it is above the limits on table misses. The number of packets is
//! smaller than these limits, so that the port is limited like any other.

use std::collections::{BTreeMap, BTreeSet};

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

/// Packets after which a watch ends if no host is learned. The first one or two are enough, unless other devices behind the
/// port send what is not of a host.
const WATCHED_PACKETS_MAX: u32 = 16;

/// The ports of this worker's switches that are down or watched.
#[derive(Debug, Default)]
pub(super) struct PortWatch {
    down: BTreeSet<SwitchPort>,
    /// With the number of packets received since the watch began.
    watched: BTreeMap<SwitchPort, u32>,
}

impl PortWatch {
    pub(super) fn port_down(&mut self, at: SwitchPort) {
        self.down.insert(at);
        self.watched.remove(&at);
    }

    /// Starts watching a port where hosts may be, if it was down.
    pub(super) fn port_up(&mut self, at: SwitchPort, network: &mut Network) {
        if self.down.remove(&at) {
            self.watched.insert(at, 0);
            network.send_to(at.switch, Message::FlowMod(watch_entry(at)));
        }
    }

    /// Counts a packet from a port, and stops watching the port if there were too many.
    pub(super) fn packet_received(&mut self, at: SwitchPort, network: &mut Network) {
        let Some(packets) = self.watched.get_mut(&at) else { return };
        *packets += 1;
        if *packets >= WATCHED_PACKETS_MAX {
            self.stop(at, network);
        }
    }

    /// Stops watching a port: a host was learned there, or none can be.
    pub(super) fn stop(&mut self, at: SwitchPort, network: &mut Network) {
        if self.watched.remove(&at).is_some() {
            let command = FlowModCommand::DELETE_STRICT;
            network.send_to(at.switch, Message::FlowMod(FlowMod { command, ..watch_entry(at) }));
        }
    }

    /// Writes the flow entries for the watched ports of a switch again.
    pub(super) fn restore(&self, ctx: &mut Ctx<'_>) {
        for (&at, _) in self.watched.range(SwitchPort::all_of(ctx.datapath_id)) {
            let written = ctx.switch.flow_mod(&watch_entry(at));
            debug_assert!(written.is_ok(), "every version can express it");
        }
    }

    /// Forgets the ports of a switch, without removing their flow entries.
    pub(super) fn forget_switch(&mut self, id: DatapathId) {
        self.down.retain(|at| at.switch != id);
        self.watched.retain(|at, _| at.switch != id);
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
