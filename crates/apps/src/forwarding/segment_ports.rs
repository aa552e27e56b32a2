//! Drops what arrives at the ports of an unmanaged segment, except at its designated port.
//!
//! A segment with several cables to switches sends each frame to all of them. Only the designated port forwards; without these
//! flow entries, the frames that arrive at the other ports would all be sent to the controller.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, Field, FlowMod, FlowModCommand, Message, PortNo};
use sluice_sdk::flow_space::BLOCKED_PORTS;
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::flow_entries;
use super::switches::LocalSwitches;
use crate::port_map::remove_switch;

/// Time after which an entry expires that is not refreshed, so that none stays when the controller does not return.
const LIFETIME_S: u16 = 30;

/// Interval at which entries are refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The blocked ports of this worker's switches, and when their flow entries were written.
#[derive(Debug, Default)]
pub(super) struct SegmentPorts {
    blocked: BTreeMap<SwitchPort, Instant>,
}

impl SegmentPorts {
    /// Number of blocked ports.
    pub(super) fn len(&self) -> usize {
        self.blocked.len()
    }

    pub(super) fn on_connected(&mut self, ctx: &mut Ctx<'_>) {
        let id = ctx.datapath_id;
        let ports = ctx.view().switch(id).into_iter().flat_map(|switch| switch.ports.keys());
        let all: Vec<_> = ports.map(|&port| SwitchPort::new(id, port)).collect();
        for at in all {
            self.blocked.remove(&at);
            self.update(at, ctx.now, ctx.network);
        }
    }

    /// Handles a port whose role may have changed.
    pub(super) fn on_port(
        &mut self,
        at: SwitchPort,
        now: Instant,
        switches: &LocalSwitches,
        network: &mut Network,
    ) {
        if switches.selector(at.switch).is_some() {
            self.update(at, now, network);
        }
    }

    fn update(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        match (designated(at, network), self.blocked.contains_key(&at)) {
            (Some(designated), false) => {
                self.blocked.insert(at, now);
                network.send_to(at.switch, Message::FlowMod(block(at.port)));
                network.report(|| {
                    format!(
                        "unmanaged segment is connected to several ports; packets from this one are dropped dpid={} port={} designated_dpid={} designated_port={}",
                        at.switch, at.port, designated.switch, designated.port
                    )
                });
            }
            (None, true) => {
                self.blocked.remove(&at);
                let deletion = flow_entries::delete_strict(block(at.port));
                network.send_to(at.switch, Message::FlowMod(deletion));
            }
            _ => {}
        }
    }

    /// Refreshes the entries of a switch.
    pub(super) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let id = ctx.datapath_id;
        for (at, written) in self.blocked.range_mut(SwitchPort::all_of(id)) {
            if ctx.now.saturating_duration_since(*written) >= REFRESH_INTERVAL {
                *written = ctx.now;
                ctx.network.send_to(id, Message::FlowMod(block(at.port)));
            }
        }
    }

    /// Forgets the ports of a switch that has left this worker.
    pub(super) fn on_disconnected(&mut self, id: DatapathId) {
        remove_switch(&mut self.blocked, id);
    }
}

/// The port that forwards for the segment at `at`, if it is another one.
fn designated(at: SwitchPort, network: &Network) -> Option<SwitchPort> {
    match network.view().port_role(at) {
        PortRole::SharedSegment(designated) => Some(designated).filter(|&other| other != at),
        _ => None,
    }
}

/// The flow entry that drops all packets from a port.
fn block(port: PortNo) -> FlowMod {
    FlowMod {
        command: FlowModCommand::ADD,
        cookie: BLOCKED_PORTS.cookie,
        hard_timeout: LIFETIME_S,
        priority: BLOCKED_PORTS.priority(),
        matching: [Field::in_port(port)].into(),
        ..FlowMod::default()
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::MacAddr;
    use sluice_sdk::view::{Fact, PortInfo};

    use super::*;
    use crate::forwarding::Config;
    use crate::forwarding::test_network::{HOST, TestLinks, TestNetwork};

    #[test]
    fn a_port_stays_blocked_if_its_switch_reconnects_before_its_loss_is_noticed() {
        let links = TestLinks { switches: 2, pairs: Vec::new() };
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        let [designated, at] = [1, 2].map(|n| SwitchPort::new(DatapathId(n), HOST));
        let role = PortRole::SharedSegment(designated);
        let port = PortInfo { name: "host".into(), hw_addr: MacAddr::default(), is_up: true, role };
        net.publish(&Fact::Port(at, Some(port)));
        assert_eq!(net.workers[0].app.segment_ports.len(), 1);
        net.reconnect(2, 3);
        assert_eq!(net.workers[0].app.segment_ports.len(), 1);
    }
}
