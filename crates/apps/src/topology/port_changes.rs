//! What follows from ports that are added, change or are removed.

use std::time::Instant;

use sluice_openflow::{PortNo, PortStatus};
use sluice_sdk::view::{Fact, SuspectedConnection, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::Topology;
use super::port::{Port, PortPhase};
use super::port_facts::publish;
use super::switch::PORTS_MAX;

impl Topology {
    /// Handles a port that was added or changed.
    pub(super) fn update_port(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let settings = self.probe_settings(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let description = &status.port;
        let at = SwitchPort::new(ctx.datapath_id, description.port_no);
        let n = match switch.find(at.port) {
            Ok(n) => n,
            Err(_) if switch.ports.len() >= PORTS_MAX => {
                let SwitchPort { switch, port } = at;
                return self.report(ctx, || {
                    format!(
                        "port is ignored: its switch already has {PORTS_MAX} ports dpid={switch} port={port}"
                    )
                });
            }
            Err(n) => {
                switch.ports.insert(n, Port::new(at, description, ctx.now));
                n
            }
        };
        let Some(port) = switch.ports.get_mut(n) else { return };
        port.update_description(description);
        match (port.is_up(), description.is_up()) {
            (false, true) => {
                port.set_up(ctx.now);
                switch.send_due_probes(ctx, &settings, &mut self.counters);
            }
            (true, false) => {
                let link_to = port.link_to();
                port.set_down();
                self.went_down.insert(at, ctx.now);
                switch.replace_in_bundle(at.port, ctx.now, ctx.network, &mut self.counters);
                self.remove_links(at, link_to, ctx.now, ctx.network);
            }
            _ => {}
        }
        if let Some(port) = self.switches.port_mut(at) {
            publish(port, ctx.now, ctx.network, &mut self.counters);
        }
    }

    /// Removes a port that its switch does not have any more.
    pub(super) fn remove_port(&mut self, at: SwitchPort, ctx: &mut Ctx<'_>) {
        if let Some(switch) = self.switches.get_mut(ctx.switch_index)
            && let Ok(n) = switch.find(at.port)
        {
            let port = switch.ports.remove(n);
            switch.replace_in_bundle(at.port, ctx.now, ctx.network, &mut self.counters);
            self.went_down.insert(at, ctx.now);
            self.remove_links(at, port.link_to(), ctx.now, ctx.network);
        }
        ctx.publish(Fact::Port(at, None));
    }

    /// Removes the links at a port of this worker that went down or has no switch any more, in both directions.
    pub(super) fn remove_links(
        &mut self,
        at: SwitchPort,
        link_to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        link_to.map(|to| self.link_starts.remove(&to));
        if let Some(to) = network.view().link_from(at).map(|link| link.to) {
            self.counters.links_lost += 1;
            network.publish(now, Fact::Link(to, None));
        }
        if network.view().link_to(at).is_some() {
            self.counters.links_lost += 1;
            network.publish(now, Fact::Link(at, None));
        }
        if let Some(port) = self.switches.port_mut(at) {
            port.publish_link(None);
        }
    }

    /// Has the next tick look for an unmanaged segment between two ports, unless it is known what connects them.
    pub(super) fn probe_for_segment(&mut self, suspected: &SuspectedConnection, now: Instant) {
        let ports = suspected.ports;
        let is_looped = ports.into_iter().any(|at| {
            self.switches.port_mut(at).is_some_and(|port| port.phase == PortPhase::Looped)
        });
        if is_looped || self.switches.has_bundle_of(ports) {
            return;
        }
        for at in ports {
            if let Some(port) = self.switches.port_mut(at)
                && port.needs_broadcast_probes()
                && port.admit_answer(now)
            {
                port.probe_again(now);
            }
        }
    }

    /// Removes a port that went down, or with [`PortNo::ANY`] a whole switch, from the neighbors of all ports.
    pub(super) fn remove_neighbors(
        &mut self,
        gone: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) {
        self.went_down.insert(gone, now);
        let is_gone =
            |at: SwitchPort| at == gone || (gone.port == PortNo::ANY && at.switch == gone.switch);
        self.switches.for_each_port_with_neighbor_at(gone.switch, |port| {
            port.remove_neighbors(is_gone, now);
            publish(port, now, network, &mut self.counters);
        });
    }
}
