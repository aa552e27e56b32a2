//! Two applications in a chain.

use std::time::Instant;

use sluice_openflow::value::Value;
use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};

use crate::app::{App, Verdict};
use crate::ctx::{Ctx, SwitchIndex};
use crate::metric::AppMetric;
use crate::network::Network;
use crate::request::{Answer, Ticket};
use crate::timer::TimerId;
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

    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        self.0.on_deferred_work(now, network);
        self.1.on_deferred_work(now, network);
    }

    fn on_timer(&mut self, timer: TimerId, now: Instant, network: &mut Network) {
        self.0.on_timer(timer, now, network);
        self.1.on_timer(timer, now, network);
    }

    fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
        self.0.on_switch_work(ctx);
        self.1.on_switch_work(ctx);
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

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, now: Instant, network: &mut Network) {
        self.0.on_answer(ticket, answer, now, network);
        self.1.on_answer(ticket, answer, now, network);
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        self.0.metrics(put);
        self.1.metrics(put);
    }

    fn state_of(&self, application: &str) -> Option<Value> {
        self.0.state_of(application).or_else(|| self.1.state_of(application))
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, Version};

    use super::*;

    /// Records whether its switch had room when changes to its tables had been lost.
    #[derive(Debug, Default)]
    struct Recorder(Vec<bool>);

    impl App for Recorder {
        fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
            self.0.push(ctx.has_room());
        }
    }

    /// Counts calls of its fast path.
    #[derive(Debug, Default)]
    struct FastPathCounter(u32);

    impl App for FastPathCounter {
        fn fast_path(&mut self, _: &mut PacketIns<'_>, _: &mut Ctx<'_>) {
            self.0 += 1;
        }
    }

    /// An application that says nothing about itself, such as a firewall.
    #[test]
    fn an_application_is_not_bypassed_by_the_fast_path_of_another_unless_it_says_so() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut tx, mut urgent, mut xid, mut network) = (vec![], vec![], 1, Network::new(0));
        let out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        let (sw, id) = (SwitchIndex(0), DatapathId(1));
        let mut ctx = Ctx::new(now, sw, id, out, &mut urgent, &mut network);
        let mut apps = (Recorder::default(), FastPathCounter::default());
        apps.fast_path(&mut PacketIns::new(Version::V1_3, &[]), &mut ctx);
        assert_eq!(apps.1.0, 0);
    }

    #[test]
    fn both_applications_restore_what_was_lost() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut apps = (Recorder::default(), (Recorder::default(), Recorder::default()));
        let (mut tx, mut urgent, mut xid, mut network) = (vec![], vec![], 1, Network::new(0));
        for has_room in [true, false] {
            let out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
            let (sw, id) = (SwitchIndex(0), DatapathId(1));
            let mut ctx = Ctx::new(now, sw, id, out, &mut urgent, &mut network);
            if !has_room {
                ctx = ctx.with_room(false);
            }
            apps.on_changes_lost(&mut ctx);
        }
        let (first, (second, third)) = apps;
        assert_eq!([first.0, second.0, third.0], [[true, false]; 3]);
    }
}
