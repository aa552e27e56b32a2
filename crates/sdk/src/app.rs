//! The trait that applications implement.

use std::time::Instant;

use sluice_openflow::value::Value;
use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};

use crate::answers::{AnswerCache, AnsweredPacket};
use crate::ctx::{Ctx, SwitchIndex};
use crate::metric::AppMetric;
use crate::network::Network;
use crate::request::{Answer, Ticket};
use crate::timer::TimerId;
use crate::view::PublishedFact;

/// Whether the applications behind this one in the chain get a packet-in as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The next application gets it.
    Continue,
    /// It is handled; no other application gets it.
    Stop,
}

/// An application: the events that it can handle. Each function has a default that does nothing.
///
/// Two applications form a chain, which is an application again: `(first, second)`.
pub trait App {
    /// An event-loop iteration begins; all its events happen at the time `now`. At least once a second.
    fn on_iteration(&mut self, now: Instant) {
        let _ = now;
    }

    /// Whether an engine may answer in the place of this application, by what it [publishes](Self::publish_answers). Of a chain of several
    /// applications, those before it must not [inspect every packet](Self::inspects_every_packet), and neither must this one. A new
    /// configuration may change that.
    fn can_publish_answers(&self) -> bool {
        false
    }

    /// Whether answers may have the rule [`AnswerRule::Paths`](crate::AnswerRule::Paths), for which an engine needs more memory. Always the same.
    fn publishes_paths(&self) -> bool {
        false
    }

    /// Takes over from `cache` when the engine has seen hosts. Called by an engine that answers, before [`on_iteration`](Self::on_iteration).
    fn update_from_answers(&mut self, now: Instant, cache: &mut dyn AnswerCache) {
        let _ = (now, cache);
    }

    /// An engine has answered a packet-in by the rule [`AnswerRule::Paths`](crate::AnswerRule::Paths), in the place of this application or
    /// of another one of its chain. Called for each, in the order of the answers to a switch, before a message of that switch is handled.
    fn on_answered(&mut self, answered: &AnsweredPacket, network: &mut Network) {
        let _ = (answered, network);
    }

    /// Brings what `cache` has about a switch up to date, and returns whether the engine may answer until this is called again. Called by an engine
    /// that answers, at the end of an event-loop iteration: after a message of this switch, a change of its ports or
    /// of its [fast-path hosts](crate::FastPathHosts), or a change of the configuration, and about four times a second. An application whose
    /// answers depend on anything else [marks](crate::FastPathHosts::mark_changed) the switches whose answers have become others.
    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        let _ = (switch, now, network, cache);
        false
    }

    /// Writes the messages that every switch gets as soon as its version is known, a round trip before
    /// [`on_switch_connected`](Self::on_switch_connected). They may depend on the configuration only: neither the switch is
    /// known yet, nor whether this worker will serve it. Called once for each connection, and again before
    /// [`on_changes_lost`](Self::on_changes_lost).
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let _ = out;
    }

    /// A switch has connected and completed its handshake. It may still have flow entries of an earlier connection.
    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let _ = (features, ctx);
    }

    /// A switch has disconnected. Its index will be reused for another switch.
    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        let _ = (sw, now, network);
    }

    /// About four times a second for each switch: the place for periodic work.
    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let _ = ctx;
    }

    /// An application of this or another worker has published a fact that changed the view, or an event. Called at the end
    /// of the event-loop iteration, in the order in which the facts arrived.
    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        let _ = (published, now, network);
    }

    /// Continues what an application has postponed by [`Network::defer_work`] or [`Network::defer_work_until`]. Called in each
    /// event-loop iteration that follows such a call, or at its time, before facts are delivered. An application that has postponed nothing does nothing.
    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        let _ = (now, network);
    }

    /// A timer of an application of this worker has expired: of [`Network::set_timer`]. All applications of a chain get it, and the one
    /// that has the id handles it. Called in the first event-loop iteration at its time or later, before facts are delivered.
    fn on_timer(&mut self, timer: TimerId, now: Instant, network: &mut Network) {
        let _ = (timer, now, network);
    }

    /// Sends what an application has to send to a switch of this worker at once, although no message of this switch has caused it:
    /// requests, whose replies come back by their transaction ids. Called in the event-loop iteration in which
    /// [`Network::schedule_switch_work`] was called, after facts are delivered, once for each switch.
    fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
        let _ = ctx;
    }

    /// Handles packet-ins at the front of `packet_ins` in a loop of its own, as far as it can, and leaves the rest.
    ///
    /// The other applications do not get these packet-ins. So it may handle only those from which the applications before it
    /// in the chain would learn nothing, such as frames between [`FastPathHosts`](crate::FastPathHosts). It is called only if
    /// [`inspects_every_packet`](Self::inspects_every_packet) is `false` for all of these.
    #[inline]
    fn fast_path(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let _ = (packet_ins, ctx);
    }

    /// Whether this application must get every packet-in, so that no application behind it may use its
    /// [`fast_path`](Self::fast_path). `false` says that it learns nothing from packets between
    /// [`FastPathHosts`](crate::FastPathHosts).
    fn inspects_every_packet(&self) -> bool {
        true
    }

    /// A switch has sent a `PACKET_IN`.
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let _ = (p, ctx);
        Verdict::Continue
    }

    /// A switch has sent a burst of `PACKET_IN` messages. Packet-ins that are left in `packet_ins` are dropped.
    ///
    /// The default calls [`fast_path`](Self::fast_path) and [`on_packet_in`](Self::on_packet_in) in turn. An application with
    /// large tables may implement it to look ahead, so that its waits for memory overlap. It is called only for an
    /// application that is alone: a chain handles packet-ins one by one.
    fn on_packet_ins(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        loop {
            self.fast_path(packet_ins, ctx);
            let Some(p) = packet_ins.next() else { break };
            self.on_packet_in(&p, ctx);
        }
    }

    /// A flow entry with the flag `SEND_FLOW_REM` has expired or was deleted.
    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        let _ = (removed, ctx);
    }

    /// A port was added, removed or modified.
    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let _ = (status, ctx);
    }

    /// The tables of this switch may not be what they should be: changes were not delivered, because it took nothing for too
    /// long or a queue was full, or another program has deleted [permanent](crate::permanent) flow entries. There is room
    /// again: make the tables what they should be. Deletions come before additions, since the tables may be full. Called once
    /// after each such period.
    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        let _ = ctx;
    }

    /// The switch has refused a request; `error` contains the beginning of it.
    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let _ = (error, ctx);
    }

    /// The switch has processed everything that was sent before the barrier request `xid`.
    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let _ = (xid, ctx);
    }

    /// The switch has answered the multipart request `xid`; `body` is that of all parts together.
    /// [`Ctx::parse_reply`] parses it.
    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let _ = (xid, kind, body, ctx);
    }

    /// The answer to a request of an application of this worker: by [`Network::request`]. All applications of a chain get it, and the
    /// one that has the ticket handles it. No other function is called about the replies to requests with a ticket.
    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, now: Instant, network: &mut Network) {
        let _ = (ticket, answer, now, network);
    }

    /// Passes the metrics of this application to `put`. About once a second.
    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let _ = put;
    }

    /// What this application has to show to users, of this worker: answered by the HTTP API at
    /// `/v1/applications/NAME/state`. The worker serves no switch meanwhile, so a long list is cut off, and more than
    /// [`STATE_VALUES_MAX`](crate::STATE_VALUES_MAX) values are not shown.
    fn state(&self) -> Option<Value> {
        None
    }

    /// For engines: the [state](Self::state) of the application of this name. Only chains know names.
    fn state_of(&self, application: &str) -> Option<Value> {
        let _ = application;
        self.state()
    }
}
