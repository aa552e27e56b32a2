//! What a worker sends to other threads.

use std::collections::VecDeque;

use sluice_io::Io;
use sluice_openflow::{DatapathId, EncodeError, Message};
use sluice_sdk::{Answer, Ticket};

use crate::messages::{
    AcceptorSender, MessageBatch, RemoteSwitch, ToAcceptor, ToWorker, WorkerSender,
};
use crate::requests::RoutedRequest;

/// Messages to other threads, in order for each; sent once in an iteration. What does not fit into the queue of a worker
/// is kept.
pub(super) struct Outgoing<I: Io, A> {
    /// Number of this worker in `workers`.
    worker: usize,
    /// Including this worker.
    workers: Vec<WorkerSender<I, A>>,
    /// What is to be sent to each of `workers`.
    outboxes: Vec<VecDeque<ToWorker<I::Conn, A>>>,
    /// Messages to the switches of each of `workers`, which are sent after what is in its outbox.
    batches: Vec<MessageBatch>,
    acceptor: AcceptorSender<I, A>,
    to_acceptor: VecDeque<ToAcceptor<I::Listener, A>>,
    is_congested: bool,
}

impl<I: Io, A> Outgoing<I, A> {
    pub(super) fn new(
        worker: usize,
        workers: Vec<WorkerSender<I, A>>,
        acceptor: AcceptorSender<I, A>,
    ) -> Self {
        let outboxes = workers.iter().map(|_| VecDeque::new()).collect();
        let batches = workers.iter().map(|_| MessageBatch::default()).collect();
        let to_acceptor = VecDeque::new();
        Self { worker, workers, outboxes, batches, acceptor, to_acceptor, is_congested: false }
    }

    /// Number of this worker.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Number of other workers.
    pub(super) fn other_workers(&self) -> usize {
        self.workers.len().saturating_sub(1)
    }

    pub(super) fn send_to(&mut self, worker: usize, message: ToWorker<I::Conn, A>) {
        if let Some(outbox) = self.outboxes.get_mut(worker) {
            outbox.push_back(message);
        }
    }

    /// Sends `message()` to every other worker.
    pub(super) fn send_to_all(&mut self, message: impl Fn() -> ToWorker<I::Conn, A>) {
        for (number, outbox) in self.outboxes.iter_mut().enumerate() {
            if number != self.worker {
                outbox.push_back(message());
            }
        }
    }

    /// Sends `message()` to every other worker but `excluded`.
    pub(super) fn send_to_all_but(
        &mut self,
        excluded: usize,
        message: impl Fn() -> ToWorker<I::Conn, A>,
    ) {
        for (number, outbox) in self.outboxes.iter_mut().enumerate() {
            if number != self.worker && number != excluded {
                outbox.push_back(message());
            }
        }
    }

    /// Sends a message to a switch of another worker.
    ///
    /// # Errors
    /// The version of the switch cannot express it.
    pub(super) fn send_to_switch(
        &mut self,
        to: DatapathId,
        at: RemoteSwitch,
        message: &Message,
    ) -> Result<(), EncodeError> {
        let batch = self.batches.get_mut(at.location.worker);
        batch.map_or(Ok(()), |batch| batch.push((to, at.version), message))
    }

    /// Sends a request to the worker of its switch, after all messages to its switches.
    pub(super) fn send_request(&mut self, worker: usize, request: RoutedRequest) {
        let batch = self.batches.get_mut(worker).filter(|batch| !batch.is_empty());
        let messages = batch.map(|batch| ToWorker::Messages(batch.take()));
        let Some(outbox) = self.outboxes.get_mut(worker) else { return };
        outbox.extend(messages);
        match outbox.back_mut() {
            Some(ToWorker::Requests(requests)) => requests.push(request),
            _ => outbox.push_back(ToWorker::Requests(vec![request])),
        }
    }

    /// Sends an answer to the worker whose application has asked.
    pub(super) fn send_answer(&mut self, ticket: Ticket, answer: Answer) {
        let Some(outbox) = self.outboxes.get_mut(ticket.worker()) else { return };
        match outbox.back_mut() {
            Some(ToWorker::Answers(answers)) => answers.push((ticket, answer)),
            _ => outbox.push_back(ToWorker::Answers(vec![(ticket, answer)])),
        }
    }

    /// Sends a message to the acceptor, after everything that this worker sends to other workers in this iteration.
    ///
    /// The acceptor may hand a switch over to another worker as soon as it knows that this worker has lost it. That worker
    /// must have received the facts about the loss by then, or they would replace those about the new connection.
    pub(super) fn send_to_acceptor(&mut self, message: ToAcceptor<I::Listener, A>) {
        self.to_acceptor.push_back(message);
    }

    /// Sends what fits into the queues, at the end of an iteration.
    ///
    /// # Cost
    /// One lock for each thread to which something is sent, and a system call if that thread waits.
    pub(super) fn flush(&mut self) {
        self.flush_to_workers();
        if !self.is_congested {
            self.acceptor.send_batch(&mut self.to_acceptor);
        }
    }

    /// Sends what fits into the queues of the workers. At any time in an iteration: facts of this iteration may follow, so the
    /// acceptor gets nothing.
    pub(super) fn flush_to_workers(&mut self) {
        self.is_congested = false;
        let outboxes = self.outboxes.iter_mut().zip(&mut self.batches);
        for (sender, (outbox, batch)) in self.workers.iter().zip(outboxes) {
            if !batch.is_empty() {
                outbox.push_back(ToWorker::Messages(batch.take()));
            }
            sender.send_batch(outbox);
            self.is_congested |= !outbox.is_empty();
        }
    }

    /// Whether something did not fit into the queue of a worker at the last flush. This worker must not cause more
    /// messages until it does.
    pub(super) fn is_congested(&self) -> bool {
        self.is_congested
    }
}
