//! What a worker sends to other threads.

use std::collections::VecDeque;

use sluice_io::Io;

use crate::messages::{AcceptorSender, ToAcceptor, ToWorker, WorkerSender};

/// Messages to other threads, in order for each; sent once in an iteration. What does not fit into the queue of a worker
/// is kept.
pub(super) struct Outgoing<I: Io, A> {
    /// Number of this worker in `workers`.
    worker: usize,
    /// Including this worker.
    workers: Vec<WorkerSender<I, A>>,
    /// What is to be sent to each of `workers`.
    outboxes: Vec<VecDeque<ToWorker<I::Conn, A>>>,
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
        let to_acceptor = VecDeque::new();
        Self { worker, workers, outboxes, acceptor, to_acceptor, is_congested: false }
    }

    /// Number of this worker.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Sends `message()` to every other worker.
    pub(super) fn send_to_all(&mut self, message: impl Fn() -> ToWorker<I::Conn, A>) {
        for (number, outbox) in self.outboxes.iter_mut().enumerate() {
            if number != self.worker {
                outbox.push_back(message());
            }
        }
    }

    pub(super) fn send_to(&mut self, worker: usize, message: ToWorker<I::Conn, A>) {
        if let Some(outbox) = self.outboxes.get_mut(worker) {
            outbox.push_back(message);
        }
    }

    /// Sends a message to the acceptor, after everything that this worker has sent to other workers before.
    ///
    /// The acceptor may hand a switch over to another worker as soon as it knows that this worker has lost it. That worker
    /// must have received the facts about the loss by then, or they would replace those about the new connection.
    pub(super) fn send_to_acceptor(&mut self, message: ToAcceptor<I::Listener, A>) {
        self.to_acceptor.push_back(message);
    }

    /// Sends what fits into the queues.
    ///
    /// # Cost
    /// One lock for each thread to which something is sent, and a system call if that thread waits.
    pub(super) fn flush(&mut self) {
        self.is_congested = false;
        for (sender, outbox) in self.workers.iter().zip(&mut self.outboxes) {
            sender.send_batch(outbox);
            self.is_congested |= !outbox.is_empty();
        }
        if !self.is_congested {
            self.acceptor.send_batch(&mut self.to_acceptor);
        }
    }

    /// Whether something did not fit into the queue of a worker at the last flush. This worker must not cause more
    /// messages until it does.
    pub(super) fn is_congested(&self) -> bool {
        self.is_congested
    }
}
