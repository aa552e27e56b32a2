//! Workers that pull reads from a queue which all of them share, instead of each processing what it has received.
//!
//! Not the default, but the other way in which a controller can use several threads: with it, the study repeats what Maestro gains by keeping
//! a request on its thread (`docs/optimisations.md`). A connection still has one worker, its own, which receives and sends. What this has received goes
//! into the queue, and any worker takes it from there and processes it, while it holds the lock on the state of the own worker. So
//! there is one instance of the applications for the switches of each worker, as always, and the reads of one switch are processed in order:
//! who has the lock takes the first read of that worker. The replies of another worker's switch are left in its transmit queue,
//! and its own worker is notified.
//!
//! Before a worker does anything else with its connections, such as closing one or handing it over, it processes the reads that
//! nobody has taken yet. So the order of events is the same as without the queue.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use sluice_io::{ConnId, Io, IoEvent, READ_BYTES_MAX};
use sluice_sdk::App;

use super::{Inbox, LoopControl, Worker, WorkerState};
use crate::close_reason::CloseReason;
use crate::messages::{ToWorker, WorkerSender};

/// Reads that a worker takes from the queue in one iteration: its own connections wait meanwhile.
const PULLED_MAX: usize = 64;

/// Bytes of a worker in the queue above which it receives no more before they are processed.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Buffers that are kept for the next reads of a worker.
const SPARE_MAX: usize = 64;

/// The queue from which all workers pull, and what they need to process what is in it.
pub(crate) struct SharedReads<I: Io, A> {
    /// The worker of each read that waits, in the order of arrival. A read that its worker has processed meanwhile may still
    /// be counted here.
    order: Mutex<VecDeque<usize>>,
    workers: Vec<SharedWorker<I, A>>,
}

/// What other workers need to process the reads of a worker.
struct SharedWorker<I: Io, A> {
    sender: WorkerSender<I, A>,
    reads: Mutex<Reads>,
    /// Set when its thread has started.
    state: OnceLock<Mutex<SharedState<I, A>>>,
}

/// Reads of the switches of a worker that nobody has processed, in order. They are taken by the one who has locked its state.
#[derive(Default)]
struct Reads {
    waiting: VecDeque<Read>,
    /// Bytes of `waiting`.
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// What was received from a switch at once.
struct Read {
    id: ConnId,
    bytes: Vec<u8>,
    /// Bytes that this took out of the kernel.
    received_bytes: usize,
    at: Instant,
}

/// The state of a worker, and what others have left for it to do.
struct SharedState<I: Io, A> {
    worker: WorkerState<I, A>,
    /// Connections whose input was invalid, to be closed.
    failed: Vec<(ConnId, CloseReason)>,
    /// When the first read arrived whose replies are in a transmit queue. The worker was notified.
    replies_since: Option<Instant>,
}

/// A worker that receives for its own connections, and processes what any worker has received.
pub(crate) struct PullingWorker<I: Io, A> {
    io: I,
    inbox: Inbox<I, A>,
    number: usize,
    shared: Arc<SharedReads<I, A>>,
    /// Connections that have closed, after the reads that wait.
    closed: Vec<(ConnId, CloseReason)>,
}

impl<I: Io, A: App> SharedReads<I, A> {
    /// The queue of the workers that receive messages by these senders.
    pub(crate) fn new(senders: Vec<WorkerSender<I, A>>) -> Self {
        let shared =
            |sender| SharedWorker { sender, reads: Mutex::default(), state: OnceLock::new() };
        Self { order: Mutex::default(), workers: senders.into_iter().map(shared).collect() }
    }

    fn has_reads(&self) -> bool {
        !lock(&self.order).is_empty()
    }

    /// Puts a read of the worker `number` into the queue.
    fn push(&self, number: usize, read: Read) {
        let Some(worker) = self.workers.get(number) else { return };
        let mut reads = lock(&worker.reads);
        reads.bytes += read.bytes.len();
        reads.waiting.push_back(read);
        drop(reads);
        lock(&self.order).push_back(number);
    }

    /// Notifies workers that wait for something to do, at most `count`, that there are reads.
    fn notify_waiting(&self, count: usize) {
        let waiting = self.workers.iter().filter(|worker| worker.sender.is_receiver_waiting());
        waiting.take(count).for_each(|worker| worker.sender.send(ToWorker::Attend));
    }
}

impl<I: Io, A: App> SharedWorker<I, A> {
    fn lock_state(&self) -> Option<MutexGuard<'_, SharedState<I, A>>> {
        self.state.get().map(lock)
    }

    /// Processes the first read of this worker that waits, for another worker; notifies this worker of the replies.
    fn process_for_other(&self) {
        let Some(mut state) = self.lock_state() else { return };
        let Some(read) = self.take_read() else { return };
        let is_first = state.process(&read, None);
        state.worker.counters().reads_pulled.add(1);
        drop(state);
        self.recycle(read);
        if is_first {
            self.sender.send(ToWorker::Attend);
        }
    }

    /// A copy of what was received.
    fn copy(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = lock(&self.reads).spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes the first read that waits. The caller has locked the state.
    fn take_read(&self) -> Option<Read> {
        let mut reads = lock(&self.reads);
        let read = reads.waiting.pop_front()?;
        reads.bytes -= read.bytes.len();
        Some(read)
    }

    fn recycle(&self, read: Read) {
        let mut buffer = read.bytes;
        buffer.clear();
        let mut reads = lock(&self.reads);
        if reads.spare.len() < SPARE_MAX && buffer.capacity() <= 2 * READ_BYTES_MAX {
            reads.spare.push(buffer);
        }
    }
}

impl<I: Io, A: App> SharedState<I, A> {
    /// Processes a read. Its own worker has `io` and sends the replies; for others, they are left in the transmit queue. Returns whether they
    /// are the first that wait there.
    fn process(&mut self, read: &Read, io: Option<&mut I>) -> bool {
        if self.failed.iter().any(|(id, _)| *id == read.id) {
            return false;
        }
        self.worker.counters().read(read.bytes.len());
        let result = self.worker.process_read(read.id, &read.bytes);
        self.worker.record_received(read.id, read.received_bytes);
        if let Some(io) = io {
            self.worker.answer_read(io, read.id, read.at, result);
            return false;
        }
        self.worker.queue_replies(read.id);
        self.failed.extend(result.err().map(|reason| (read.id, reason)));
        let is_first = self.replies_since.is_none();
        self.replies_since.get_or_insert(read.at);
        is_first
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Leaves what is in `tx` and `urgent` in the transmit queue of a switch, to be sent at the end of the iteration.
    fn queue_replies(&mut self, id: ConnId) {
        let has_replies = !(self.tx.is_empty() && self.urgent.is_empty());
        if let Some(switch) = self.switches.get_mut(id).filter(|_| has_replies) {
            let unflushed = switch.unflushed_with(true);
            switch.buffers.transmit.keep(&self.urgent, &self.tx);
            self.switches.mark_unflushed(id, unflushed);
        }
        self.tx.clear();
        self.urgent.clear();
    }
}

impl<I: Io, A: App> PullingWorker<I, A> {
    /// Makes a worker one that pulls from `shared`.
    pub(crate) fn new(worker: Worker<I, A>, shared: Arc<SharedReads<I, A>>) -> Self {
        let Worker { io, inbox, state } = worker;
        let number = state.outgoing.worker();
        let state = SharedState { worker: state, failed: Vec::new(), replies_since: None };
        if let Some(worker) = shared.workers.get(number) {
            worker.state.get_or_init(|| Mutex::new(state));
        }
        Self { io, inbox, number, shared, closed: Vec::new() }
    }

    /// Runs the event loop until [`ToWorker::Stop`].
    pub(crate) fn run(mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let Some(own) = shared.workers.get(self.number) else { return Ok(()) };
        while self.run_iteration(own)? == LoopControl::Continue {}
        Ok(())
    }

    /// As [`Worker::run_iteration`], but what was received goes through the queue.
    fn run_iteration(&mut self, own: &SharedWorker<I, A>) -> io::Result<LoopControl> {
        let now = self.wait(own)?;
        self.receive(own, now);
        self.pull(own);
        Ok(self.finish(own))
    }

    fn wait(&mut self, own: &SharedWorker<I, A>) -> io::Result<Instant> {
        let wait = own.lock_state().map(|mut state| state.worker.plan_wait(&mut self.io));
        let Some(mut wait) = wait else { return Ok(self.io.now()) };
        if self.shared.has_reads() {
            wait.deadline = wait.now;
        }
        let now = wait.wait(&self.inbox, &mut self.io)?;
        if let Some(mut state) = own.lock_state() {
            state.worker.begin_iteration(now);
        }
        Ok(now)
    }

    /// Puts what has arrived into the queue, and notifies other workers if it is more than one read.
    fn receive(&mut self, own: &SharedWorker<I, A>, now: Instant) {
        let mut count = 0;
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    let bytes = own.copy(bytes);
                    let received_bytes = self.io.received_bytes(bytes.len());
                    self.shared.push(self.number, Read { id, bytes, received_bytes, at: now });
                    count += 1;
                }
                IoEvent::Writable(id) => {
                    if let Some(mut state) = own.lock_state() {
                        state.worker.flush_switch(&mut self.io, id);
                    }
                }
                IoEvent::Closed(id, error) => self.closed.push((id, error.into())),
                IoEvent::NothingReceived(_)
                | IoEvent::Woken
                | IoEvent::Accepted(..)
                | IoEvent::Connected(_)
                | IoEvent::AcceptFailed(_) => {}
            }
            if lock(&own.reads).bytes > QUEUED_BYTES_MAX {
                self.process_own(own);
            }
        }
        if count > 1 {
            self.shared.notify_waiting(count - 1);
        }
    }

    /// Processes reads of the queue, whosever they are.
    fn pull(&mut self, own: &SharedWorker<I, A>) {
        for _ in 0..PULLED_MAX {
            let Some(number) = lock(&self.shared.order).pop_front() else { break };
            if number == self.number {
                let Some(mut state) = own.lock_state() else { continue };
                if let Some(read) = own.take_read() {
                    state.process(&read, Some(&mut self.io));
                    own.recycle(read);
                }
            } else if let Some(worker) = self.shared.workers.get(number) {
                worker.process_for_other();
            }
        }
    }

    /// Processes all reads of this worker that wait.
    fn process_own(&mut self, own: &SharedWorker<I, A>) {
        if let Some(mut state) = own.lock_state() {
            Self::process_waiting(&mut self.io, own, &mut state);
        }
    }

    fn process_waiting(io: &mut I, own: &SharedWorker<I, A>, state: &mut SharedState<I, A>) {
        while let Some(read) = own.take_read() {
            state.process(&read, Some(io));
            own.recycle(read);
        }
    }

    /// The rest of an iteration: everything but reads.
    fn finish(&mut self, own: &SharedWorker<I, A>) -> LoopControl {
        let Some(mut state) = own.lock_state() else { return LoopControl::Stop };
        let io = &mut self.io;
        Self::process_waiting(io, own, &mut state);
        let failed = std::mem::take(&mut state.failed);
        let worker = &mut state.worker;
        for (id, reason) in failed {
            worker.flush_switch(io, id);
            worker.disconnect(io, id, reason);
        }
        for (id, reason) in self.closed.drain(..) {
            worker.disconnect(io, id, reason);
        }
        self.inbox.take(&mut worker.received);
        let control = worker.process_messages_and_timers(io);
        worker.deliver(io);
        if let Some(since) = state.replies_since.take() {
            state.worker.counters().response_latency.record_n(io.now() - since, 1);
        }
        control
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
