//! Two applications in a chain.

use std::time::Instant;

use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};

use crate::app::{App, Verdict};
use crate::ctx::{Ctx, SwitchIndex};
use crate::metric::AppMetric;
use crate::network::Network;
use crate::view::PublishedFact;

/// The second application gets the packet-ins for which the first returns [`Verdict::Continue`]; both get all other events.
impl<A: App, B: App> App for (A, B) {
    fn on_iteration(&mut self, now: Instant) {
        self.0.on_iteration(now);
        self.1.on_iteration(now);
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        self.0.initial_messages(out);
        self.1.initial_messages(out);
    }

    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.on_switch_connected(features, ctx);
        self.1.on_switch_connected(features, ctx);
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.0.on_switch_disconnected(sw, now, network);
        self.1.on_switch_disconnected(sw, now, network);
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.0.on_tick(ctx);
        self.1.on_tick(ctx);
    }

    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        self.0.on_fact(published, now, network);
        self.1.on_fact(published, now, network);
    }

    #[inline]
    fn fast_path(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        self.0.fast_path(packet_ins, ctx);
        if !self.0.inspects_every_packet() {
            self.1.fast_path(packet_ins, ctx);
        }
    }

    fn inspects_every_packet(&self) -> bool {
        self.0.inspects_every_packet() || self.1.inspects_every_packet()
    }

    #[inline]
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        match self.0.on_packet_in(p, ctx) {
            Verdict::Continue => self.1.on_packet_in(p, ctx),
            Verdict::Stop => Verdict::Stop,
        }
    }

    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        self.0.on_flow_removed(removed, ctx);
        self.1.on_flow_removed(removed, ctx);
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        self.0.on_port_status(status, ctx);
        self.1.on_port_status(status, ctx);
    }

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        self.0.on_changes_lost(ctx);
        self.1.on_changes_lost(ctx);
    }

    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.0.on_error(error, ctx);
        self.1.on_error(error, ctx);
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.0.on_barrier_reply(xid, ctx);
        self.1.on_barrier_reply(xid, ctx);
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.0.on_multipart_reply(xid, kind, body, ctx);
        self.1.on_multipart_reply(xid, kind, body, ctx);
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        self.0.metrics(put);
        self.1.metrics(put);
    }
}
