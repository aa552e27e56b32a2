//! Delivers what applications publish and send: facts to the applications of all workers, messages to any switch.

use std::sync::Arc;

use sluice_io::{ConnId, Io};
use sluice_openflow::Message;
use sluice_sdk::App;
use sluice_sdk::view::PublishedFact;

use super::{WorkerState, worker_counters};
use crate::messages::ToWorker;

/// Rounds per iteration in which facts are delivered whose handlers publish further facts. The rest waits for the next
/// iteration.
const FACT_ROUNDS_MAX: usize = 8;

impl<I: Io, A: App> WorkerState<I, A> {
    /// Applies facts that another worker has published.
    pub(super) fn apply_facts(&mut self, facts: &[PublishedFact]) {
        for fact in facts {
            if self.network.apply_remote(fact) {
                self.app.on_fact(fact, self.now, &mut self.network);
            }
        }
    }

    /// Delivers what applications have published and sent in this iteration.
    pub(super) fn deliver_from_apps(&mut self, io: &mut I) {
        if self.network.is_idle() {
            return;
        }
        for _ in 0..FACT_ROUNDS_MAX {
            let facts = self.network.take_facts();
            if facts.is_empty() {
                break;
            }
            let facts: Arc<[_]> = facts.into();
            self.outgoing.send_to_all(|| ToWorker::Facts(facts.clone()));
            for fact in &*facts {
                self.app.on_fact(fact, self.now, &mut self.network);
            }
        }
        self.log_app_warnings();
        let mut batches = std::mem::take(&mut self.batches);
        batches.group(self.network.take_messages());
        for (to, messages) in batches.iter_mut() {
            if let Some(id) = self.switches.find_datapath(to) {
                self.queue_messages(io, id, messages);
                messages.clear();
            } else if let Some(location) = self.remote_switches.get(&to) {
                let messages = std::mem::take(messages);
                self.outgoing.send_to(location.worker, ToWorker::Messages(to, messages));
            } else {
                self.counters().app_messages_undeliverable.add(messages.len() as u64);
                messages.clear();
            }
        }
        self.batches = batches;
    }

    /// Logs the warnings that applications have reported.
    fn log_app_warnings(&mut self) {
        let (warnings, suppressed) = self.network.take_reports();
        for warning in warnings {
            if self.log_limit.allow(self.now) {
                tracing::warn!("{warning}");
            }
        }
        self.log_limit.add_suppressed(suppressed);
    }

    /// Encodes messages of applications into the transmit queue of a switch, to be sent at the end of the iteration.
    ///
    /// If the switch is paused, packet-outs are dropped. Changes of its tables are not sent either, but are made up for by
    /// [`App::on_changes_lost`] when there is room again. While there is a backlog, changes overtake packet-outs.
    pub(super) fn queue_messages(&mut self, io: &mut I, id: ConnId, messages: &[Message]) {
        let limits = self.backlog_limits();
        let (mut has_backlog, mut has_changes) = (false, false);
        for message in messages {
            let counters = worker_counters(&self.registry, self.outgoing.worker());
            let Some(switch) = self.switches.get_mut(id) else { return };
            let transmit = &mut switch.buffers.transmit;
            has_backlog |= !switch.is_unflushed && !transmit.is_empty();
            let is_packet_out = matches!(message, Message::PacketOut(_));
            if switch.buffers.backpressure.is_paused() {
                if is_packet_out {
                    counters.app_messages_dropped.add(1);
                } else {
                    switch.has_lost_changes = true;
                    counters.changes_deferred.add(1);
                }
                continue;
            }
            has_changes |= !is_packet_out;
            if let Err(error) = switch.session.encoder(transmit.buffer()).encode(message) {
                if self.log_limit.allow(self.now) {
                    let dpid = switch.datapath_id;
                    tracing::warn!(%dpid, %error, "message of an application cannot be encoded");
                }
                counters.app_messages_undeliverable.add(1);
            }
            if transmit.len() > limits.bytes_max {
                self.flush_switch(io, id);
            }
        }
        if let Some(switch) = self.switches.get_mut(id).filter(|_| has_backlog && has_changes) {
            switch.buffers.transmit.move_packet_outs_back();
        }
        self.switches.mark_unflushed(id);
    }

    /// Sends what was queued in this iteration, to switches and to other threads.
    pub(super) fn flush(&mut self, io: &mut I) {
        let unflushed = self.switches.take_unflushed();
        for &id in &unflushed {
            if let Some(switch) = self.switches.get_mut(id) {
                switch.is_unflushed = false;
            }
            self.flush_switch(io, id);
        }
        self.switches.restore_unflushed(unflushed);
        self.outgoing.flush();
    }
}
