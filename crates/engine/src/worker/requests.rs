//! Requests with answers: sends those to switches of this worker, and brings answers to those who asked.
//!
//! ```text
//!  application ── Network::request ──▶ its worker ── ToWorker::Requests ──▶ worker of the switch ──▶ switch
//!  other thread ─ EngineHandle::request ── ToWorker::Requests ─────────────▶        │
//!                                                                                   ▼
//!  application ◀── App::on_answer ──── its worker ◀─ ToWorker::Answers ──── OutstandingRequests ◀── reply, ERROR, time
//!  other thread ◀─ on_answer ───────────────────────────────────────────────────────┘
//! ```
//!
//! Every request gets one answer. The worker of the switch finds it by transaction id; `outstanding.rs` has the table.

use sluice_io::{ConnId, Io};
use sluice_openflow::{EncodeError, Encoder, Message};
use sluice_sdk::{Answer, App, Request, Ticket};

use super::WorkerState;
use super::switches::ConnectedSwitch;
use crate::outstanding::{BarrierOf, SentRequest, reply_type};
use crate::requests::{
    OUTSTANDING_PER_SWITCH_MAX, OUTSTANDING_PER_WORKER_MAX, Requester, RoutedRequest,
};

impl<I: Io, A: App> WorkerState<I, A> {
    /// Sends a request to its switch, or to the worker that serves it.
    pub(super) fn route_request(&mut self, io: &mut I, request: RoutedRequest) {
        let to = request.to;
        if let Some(id) = self.switches.find_datapath(to) {
            self.send_request(io, id, request);
        } else if let Some(at) = self.remote_switches.get(&to) {
            self.outgoing.send_request(at.location.worker, request);
        } else if let Some(arriving) = self.arriving.get_mut(&to) {
            arriving.park_request(request, self.cfg.limits.queue_capacity, &mut self.answers);
        } else {
            self.answers.push(request.requester, Answer::NotConnected);
        }
    }

    /// Encodes a request into the transmit queue of a switch, to be sent at the end of the iteration, or answers it if that is not
    /// possible.
    fn send_request(&mut self, io: &mut I, id: ConnId, request: RoutedRequest) {
        let bytes_max = self.backlog_limits().bytes_max;
        let Some(switch) = self.switches.get_mut(id) else { return };
        let RoutedRequest { requester, request, .. } = request;
        let (count, of_switch) = (request.messages.len(), switch.requests.message_count());
        let is_too_much = of_switch + count > OUTSTANDING_PER_SWITCH_MAX
            || self.answers.outstanding + count > OUTSTANDING_PER_WORKER_MAX;
        let refused = if is_too_much {
            Some(Answer::TooMany)
        } else if switch.buffers.backpressure.is_paused() {
            Some(Answer::Paused)
        } else {
            None
        };
        if let Some(answer) = refused {
            return self.answers.push(requester, answer);
        }
        let has_packet_outs = request.messages.iter().any(|it| matches!(it, Message::PacketOut(_)));
        let unflushed = switch.unflushed_with(has_packet_outs);
        let first_xid = match encode_all(switch, &request) {
            Ok(first_xid) => first_xid,
            Err((index, error)) => {
                return self.answers.push(requester, Answer::Unsupported { index, error });
            }
        };
        let sent = SentRequest {
            requester,
            first_xid,
            replies: request.messages.iter().map(reply_type).collect(),
            has_packet_outs,
            deadline: self.now + request.effective_timeout(),
        };
        switch.requests.insert(sent, &mut self.answers);
        let is_long = switch.buffers.backlog() > bytes_max;
        self.switches.mark_unflushed(id, unflushed);
        self.set_deadline(id);
        if is_long {
            self.flush_switch(io, id);
        }
    }

    /// Queues the barrier request that confirms what was sent to a switch since the last one.
    pub(super) fn queue_barrier(&mut self, id: ConnId, of: BarrierOf) {
        if let Some(switch) = self.switches.get_mut(id)
            && switch.requests.needs_barrier(of)
        {
            let transmit = switch.buffers.transmit.buffer();
            let xid = switch.session.encoder(transmit).barrier_request();
            switch.requests.record_barrier(xid, of);
        }
    }

    /// Queues the barrier request that confirms packet-outs if nothing waits any more that could overtake these. Returns whether it
    /// is to be sent.
    pub(super) fn queue_packet_out_barrier(&mut self, id: ConnId) -> bool {
        let is_due = self.switches.get(id).is_some_and(|switch| {
            switch.requests.needs_barrier(BarrierOf::PacketOuts)
                && switch.buffers.transmit.is_empty()
        });
        if is_due {
            self.queue_barrier(id, BarrierOf::PacketOuts);
        }
        is_due
    }

    /// Answers the requests of a switch whose time has passed.
    pub(super) fn expire_requests(&mut self, id: ConnId) {
        if let Some(switch) = self.switches.get_mut(id) {
            switch.requests.expire(self.now, &mut self.answers);
        }
    }

    /// Delivers the answers that there are to the applications of this and other workers, and to other threads. Those to requests that
    /// this causes are delivered in the next iteration, which begins at once.
    pub(super) fn deliver_answers(&mut self) {
        for (requester, answer) in std::mem::take(&mut self.answers.ready) {
            match requester {
                Requester::App(ticket) if ticket.worker() == self.outgoing.worker() => {
                    self.app.on_answer(ticket, &answer, self.now, &mut self.network);
                }
                Requester::App(ticket) => self.outgoing.send_answer(ticket, answer),
                Requester::Thread(callback) => callback.call(answer),
            }
        }
    }

    /// Notifies the applications of answers of another worker.
    pub(super) fn receive_answers(&mut self, answers: Vec<(Ticket, Answer)>) {
        for (ticket, answer) in answers {
            self.app.on_answer(ticket, &answer, self.now, &mut self.network);
        }
    }
}

/// Encodes all messages of a request, or none. Returns the transaction id of the first; the others follow.
///
/// # Errors
/// Which message the version of the switch cannot express, and why.
fn encode_all(
    switch: &mut ConnectedSwitch,
    request: &Request,
) -> Result<u32, (usize, EncodeError)> {
    let mut out: Encoder<'_> = switch.session.encoder(switch.buffers.transmit.buffer());
    let (start, first_xid) = (out.len(), out.next_xid());
    for (index, message) in request.messages.iter().enumerate() {
        let result = match message {
            // The transaction id inside has to be that of the message (OpenFlow 1.4.0 §7.3.9.6).
            Message::BundleAddMessage(add) => {
                let mut add = add.clone();
                add.message.xid = out.next_xid();
                out.encode(&Message::BundleAddMessage(add))
            }
            message => out.encode(message),
        };
        if let Err(error) = result {
            out.truncate(start);
            return Err((index, error));
        }
    }
    Ok(first_xid)
}
