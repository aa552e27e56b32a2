//! Delivers what applications publish and send: facts to the applications of all workers, messages to any switch.

use std::sync::Arc;

use sluice_io::{ConnId, Io};
use sluice_openflow::{DatapathId, EncodeError, Encoder, Message, MessageType, split_message};
use sluice_sdk::view::{Fact, PublishedFact, RecordFact};
use sluice_sdk::{App, QueuedRequest};

use super::subscribers::publish;
use super::switches::Unflushed;
use super::{WorkerState, worker_counters};
use crate::messages::{MessageBatch, ToWorker};
use crate::outstanding::BarrierOf;
use crate::requests::{Requester, RoutedRequest};

impl<I: Io, A: App> WorkerState<I, A> {
    /// Applies facts that another worker has published.
    pub(super) fn apply_facts(&mut self, facts: &Arc<[PublishedFact]>) {
        self.network.receive_facts(&mut self.app, facts, self.now);
        publish(&self.subscribers, facts);
    }

    /// Publishes records of a thread that is no worker, as an application of this worker would.
    pub(super) fn publish_records(&mut self, records: Vec<RecordFact>) {
        for record in records {
            self.network.publish(self.now, Fact::Record(record));
        }
    }

    /// Delivers what applications have published and sent in this iteration.
    pub(super) fn deliver_from_apps(&mut self, io: &mut I) {
        if self.network.is_idle() {
            return;
        }
        self.deliver_facts();
        self.do_switch_work(io);
        self.log_app_warnings();
        let requests = self.network.take_requests();
        let mut messages = self.network.take_messages();
        let mut requests = requests.into_iter().peekable();
        for (number, (to, message)) in messages.drain(..).enumerate() {
            while let Some(request) = requests.next_if(|it| it.messages_before <= number) {
                self.send_request_of_app(io, request);
            }
            if let Some(id) = self.switches.find_datapath(to) {
                let is_packet_out = matches!(message, Message::PacketOut(_));
                self.queue_message(io, id, is_packet_out, |out| out.encode(&message));
            } else if let Some(&at) = self.remote_switches.get(&to) {
                if let Err(error) = self.outgoing.send_to_switch(to, at, &message) {
                    self.report_unencodable(to, &error);
                }
            } else if self.arriving.contains_key(&to) {
                self.park_message(to, &message);
            } else {
                self.counters().app_messages_undeliverable.add(1);
            }
        }
        self.network.return_messages(messages);
        for request in requests {
            self.send_request_of_app(io, request);
        }
    }

    fn send_request_of_app(&mut self, io: &mut I, queued: QueuedRequest) {
        let QueuedRequest { to, ticket, request, .. } = queued;
        self.route_request(io, RoutedRequest { to, requester: Requester::App(ticket), request });
    }

    /// Delivers facts that applications have published, to those of all workers.
    pub(super) fn deliver_facts(&mut self) {
        let is_congested = self.outgoing.is_congested();
        let outgoing = &mut self.outgoing;
        let subscribers = &self.subscribers;
        let publish = |facts: Arc<[PublishedFact]>| {
            publish(subscribers, &facts);
            outgoing.send_to_all(|| ToWorker::Facts(facts.clone()));
        };
        if is_congested {
            self.network.deliver_published(&mut self.app, self.now, publish);
        } else {
            self.network.deliver(&mut self.app, self.now, publish);
        }
    }

    /// Lets the applications send to the switches for which they have work.
    fn do_switch_work(&mut self, io: &mut I) {
        for datapath_id in self.network.take_switch_work() {
            if let Some(id) = self.switches.find_datapath(datapath_id) {
                self.call_app(id, A::on_switch_work);
                self.send_replies(io, id);
            }
        }
    }

    /// Queues the messages of another worker's applications.
    pub(super) fn queue_batch(&mut self, io: &mut I, batch: &MessageBatch) {
        for (to, mut messages) in batch.runs() {
            let id = self.switches.find_datapath(to);
            if id.is_none() && self.arriving.contains_key(&to) {
                self.park_encoded(to, messages);
                continue;
            }
            while let Ok(Some((message, rest))) = split_message(messages) {
                messages = rest;
                match id {
                    Some(id) => {
                        let is_packet_out = message.kind() == MessageType::PACKET_OUT;
                        self.queue_message(io, id, is_packet_out, |out| {
                            out.encoded_message(message)
                        });
                    }
                    None => self.counters().app_messages_undeliverable.add(1),
                }
            }
        }
    }

    /// Logs the warnings that applications have reported.
    fn log_app_warnings(&mut self) {
        let (warnings, suppressed) = self.network.take_reports();
        for warning in warnings {
            if self.log_limit.allow(self.now) {
                tracing::warn!("{warning}");
            }
        }
        self.log_limit.add_suppressed(self.now, suppressed);
    }

    /// Encodes a message of an application into the transmit queue of a switch, to be sent at the end of the iteration.
    ///
    /// If the switch is paused, packet-outs are dropped. Changes of its tables are not sent either, but are made up for by
    /// [`App::on_changes_lost`] when there is room again. While there is a backlog, changes overtake packet-outs.
    fn queue_message(
        &mut self,
        io: &mut I,
        id: ConnId,
        is_packet_out: bool,
        encode: impl FnOnce(&mut Encoder<'_>) -> Result<u32, EncodeError>,
    ) {
        let bytes_max = self.backlog_limits().bytes_max;
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some(switch) = self.switches.get_mut(id) else { return };
        if switch.buffers.backpressure.is_paused() {
            if is_packet_out {
                return counters.app_messages_dropped.add(1);
            }
            switch.buffers.has_lost_changes = true;
            return counters.changes_deferred.add(1);
        }
        let unflushed = switch.unflushed_with(is_packet_out);
        let transmit = &mut switch.buffers.transmit;
        let result = encode(&mut switch.session.encoder(transmit.buffer()));
        let (datapath_id, is_long) = (switch.datapath_id, switch.buffers.backlog() > bytes_max);
        self.switches.mark_unflushed(id, unflushed);
        if let Err(error) = result {
            self.report_unencodable(datapath_id, &error);
        } else if is_long {
            self.flush_switch(io, id);
        }
    }

    pub(super) fn report_unencodable(&mut self, dpid: DatapathId, error: &EncodeError) {
        if self.log_limit.allow(self.now) {
            tracing::warn!(%dpid, %error, "message of an application cannot be encoded");
        }
        self.counters().app_messages_undeliverable.add(1);
    }

    /// Sends what was queued in this iteration, to switches and to other threads.
    pub(super) fn flush(&mut self, io: &mut I) {
        self.flush_switches(io);
        self.outgoing.flush();
    }

    /// Sends what was queued to switches in this iteration.
    pub(super) fn flush_switches(&mut self, io: &mut I) {
        let unflushed = self.switches.take_unflushed();
        for &id in &unflushed {
            self.queue_barrier(id, BarrierOf::Changes);
            if let Some(switch) = self.switches.get_mut(id)
                && std::mem::replace(&mut switch.unflushed, Unflushed::Nothing)
                    == Unflushed::Overtaking
            {
                switch.buffers.transmit.move_packet_outs_back();
            }
            self.flush_switch(io, id);
        }
        self.switches.restore_unflushed(unflushed);
    }
}
