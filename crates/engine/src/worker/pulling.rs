//! Workers that pull what was received from a queue which all of them share, instead of each processing what it has received.
//!
//! Not the default, but the other way in which a controller can use several threads: with it, the study repeats what Maestro gains by keeping
//! a request on its thread (`docs/optimisations.md`). A connection still has one worker, its own, which receives and sends. A worker puts
//! its reads aside and itself into the queue. Any worker takes the first of the queue, processes one of its reads, and puts it back if
//! it has more. Who processes a read holds the lock on the state of the worker that has received it: its applications, sessions and
//! transmit queues. So reads of one worker are processed in order. The replies to the switch of another worker stay in its transmit queue.
//!
//! A worker ends its iteration by processing the reads of its own that are left, and by sending what others have left in
//! transmit queues, before it closes or hands over a connection or runs timers. So no read waits longer than an iteration of its worker, and
//! the order of events is that of workers which process what they receive.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice_io::{ConnId, Io, IoEvent, READ_BYTES_MAX};
use sluice_sdk::App;

use super::{Inbox, LoopControl, Worker, WorkerState};
use crate::close_reason::CloseReason;
use crate::messages::{ToWorker, WorkerSender};

/// Reads that a worker pulls in one iteration: its own connections wait meanwhile.
const PULLED_MAX: usize = 16;

/// Bytes of a worker in the queue above which it receives no more before they are processed.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Buffers that are kept for the next reads of a worker.
const SPARE_MAX: usize = 16;

/// The queue from which all workers pull, and what they need to process what is in it.
pub(crate) struct SharedReads<I: Io, A> {
    /// Workers that have reads. Each is in it once at most, and is not while one of its reads is processed.
    queue: Mutex<VecDeque<usize>>,
    workers: Vec<SharedWorker<I, A>>,
}

/// What other workers need to process the reads of a worker.
struct SharedWorker<I: Io, A> {
    sender: WorkerSender<I, A>,
    reads: Mutex<Reads>,
    /// The worker is at the end of its iteration, where it processes its reads itself. Others need not wait for its lock then.
    is_finishing: AtomicBool,
    /// While its thread runs.
    state: Mutex<Option<SharedState<I, A>>>,
}

/// Reads of the switches of a worker that nobody has processed, in order. They are taken by the one who has locked its state.
#[derive(Default)]
struct Reads {
    waiting: VecDeque<Read>,
    /// Bytes of `waiting`.
    bytes: usize,
    /// The worker is in the queue, or one of its reads is being processed by the one who will put it back.
    is_queued: bool,
    spare: Vec<Vec<u8>>,
}

impl Reads {
    /// Discards what waits: the thread of the worker has ended, and with it its connections.
    fn discard(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
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
    /// When the first of the reads was received whose replies others have left in transmit queues in this iteration.
    replies_since: Option<Instant>,
}

/// A worker that receives for its own connections, and processes what any worker has received.
pub(crate) struct PullingWorker<I: Io, A> {
    io: I,
    inbox: Inbox<I, A>,
    number: usize,
    shared: Arc<SharedReads<I, A>>,
    /// Closed connections, to be cleaned up after their reads are processed.
    closed: Vec<(ConnId, CloseReason)>,
}

impl<I: Io, A: App> SharedReads<I, A> {
    /// The queue of the workers that receive messages by these senders.
    pub(crate) fn new(senders: Vec<WorkerSender<I, A>>) -> Self {
        let shared = |sender| SharedWorker {
            sender,
            reads: Mutex::default(),
            is_finishing: AtomicBool::new(false),
            state: Mutex::new(None),
        };
        Self { queue: Mutex::default(), workers: senders.into_iter().map(shared).collect() }
    }

    fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Adds a read of the worker `number`.
    fn push(&self, number: usize, read: Read) {
        let Some(worker) = self.workers.get(number) else { return };
        let mut reads = lock(&worker.reads);
        reads.bytes += read.bytes.len();
        reads.waiting.push_back(read);
        if !std::mem::replace(&mut reads.is_queued, true) {
            lock(&self.queue).push_back(number);
        }
    }

    /// The first worker of the queue.
    fn pop(&self) -> Option<(usize, &SharedWorker<I, A>)> {
        let number = lock(&self.queue).pop_front()?;
        self.workers.get(number).map(|worker| (number, worker))
    }

    /// Puts a worker back into the queue if it has more reads, after one was processed.
    fn put_back(&self, number: usize, worker: &SharedWorker<I, A>) {
        let mut reads = lock(&worker.reads);
        reads.is_queued = !reads.waiting.is_empty();
        if reads.is_queued {
            lock(&self.queue).push_back(number);
        }
    }

    /// Has workers that wait for something to do, at most `count`, pull reads. One that begins to wait at this moment may be left out.
    fn wake_waiting(&self, count: usize) {
        let waiting = self.workers.iter().filter(|worker| worker.sender.is_receiver_waiting());
        waiting.take(count).for_each(|worker| worker.sender.send(ToWorker::RunIteration));
    }
}

impl<I: Io, A: App> SharedWorker<I, A> {
    /// The state, unless the thread of the worker does not run or somebody has panicked while he processed something: what is left of a message
    /// must not be sent to another switch.
    fn lock_state(&self) -> Option<StateGuard<'_, I, A>> {
        self.state.lock().ok().filter(|state| state.is_some())
    }

    /// Processes the first read of this worker, for another worker.
    fn process_for_other(&self) {
        if self.is_finishing.load(Relaxed) || lock(&self.reads).waiting.is_empty() {
            return;
        }
        let Some(mut state) = self.lock_state() else { return lock(&self.reads).discard() };
        let Some((state, read)) = state.as_mut().zip(self.take_read()) else { return };
        state.process_for_other(&read);
        self.recycle(read);
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
        if reads.spare.len() < SPARE_MAX && buffer.capacity() <= READ_BYTES_MAX {
            reads.spare.push(buffer);
        }
    }
}

type StateGuard<'w, I, A> = MutexGuard<'w, Option<SharedState<I, A>>>;

impl<I: Io, A: App> SharedState<I, A> {
    /// Processes a read and sends the replies, for the worker that has received it.
    fn process(&mut self, io: &mut I, read: &Read) {
        if let Some(result) = self.process_bytes(read) {
            self.worker.answer_read(io, read.id, read.at, result);
        }
    }

    /// Processes a read, and leaves the replies in the transmit queue of its switch.
    fn process_for_other(&mut self, read: &Read) {
        self.worker.counters().reads_pulled.add(1);
        let Some(result) = self.process_bytes(read) else { return };
        if self.worker.queue_replies(read.id) {
            self.replies_since.get_or_insert(read.at);
        }
        self.failed.extend(result.err().map(|reason| (read.id, reason)));
    }

    /// Processes the bytes of a read, unless what its connection has sent before was invalid.
    fn process_bytes(&mut self, read: &Read) -> Option<Result<(), CloseReason>> {
        self.worker.counters().read(read.bytes.len());
        if self.failed.iter().any(|(id, _)| *id == read.id) {
            return None;
        }
        let result = self.worker.process_read(read.id, &read.bytes);
        self.worker.record_received(read.id, read.received_bytes);
        Some(result)
    }

    /// Sends what others have left in transmit queues, and closes the connections whose input was invalid.
    fn finish_reads(&mut self, io: &mut I) {
        self.worker.flush_switches(io);
        if let Some(since) = self.replies_since.take() {
            self.worker.counters().response_latency.record_n(io.now() - since, 1);
        }
        for (id, reason) in std::mem::take(&mut self.failed) {
            self.worker.disconnect(io, id, reason);
        }
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Leaves what is in `tx` and `urgent` in the transmit queue of a switch, to be sent by its worker. Returns whether there is anything.
    fn queue_replies(&mut self, id: ConnId) -> bool {
        let has_replies = !(self.tx.is_empty() && self.urgent.is_empty());
        if let Some(switch) = self.switches.get_mut(id).filter(|_| has_replies) {
            let unflushed = switch.unflushed_with(true);
            switch.buffers.transmit.keep(&self.urgent, &self.tx);
            self.switches.mark_unflushed(id, unflushed);
        }
        self.tx.clear();
        self.urgent.clear();
        has_replies
    }
}

impl<I: Io, A: App> PullingWorker<I, A> {
    /// Makes a worker one that pulls from `shared`.
    pub(crate) fn new(worker: Worker<I, A>, shared: Arc<SharedReads<I, A>>) -> Self {
        let Worker { io, inbox, state } = worker;
        let number = state.outgoing.worker();
        let state = SharedState { worker: state, failed: Vec::new(), replies_since: None };
        if let Some(worker) = shared.workers.get(number) {
            *lock(&worker.state) = Some(state);
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
        self.receive(own, now)?;
        self.pull(own)?;
        own.is_finishing.store(true, Relaxed);
        let result = self.finish(own);
        own.is_finishing.store(false, Relaxed);
        result
    }

    fn wait(&mut self, own: &SharedWorker<I, A>) -> io::Result<Instant> {
        let mut wait = with_state(own, |state| state.worker.plan_wait(&mut self.io))?;
        if !self.shared.is_empty() {
            wait.deadline = wait.now;
        }
        let now = wait.wait(&self.inbox, &mut self.io)?;
        with_state(own, |state| state.worker.begin_iteration(now))?;
        Ok(now)
    }

    /// Puts what has arrived into the queue, and has other workers pull if it is more than one read.
    fn receive(&mut self, own: &SharedWorker<I, A>, now: Instant) -> io::Result<()> {
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
                    with_state(own, |state| state.worker.flush_switch(&mut self.io, id))?;
                }
                IoEvent::Closed(id, error) => self.closed.push((id, error.into())),
                IoEvent::NothingReceived(_)
                | IoEvent::Woken
                | IoEvent::Accepted(..)
                | IoEvent::Connected(_)
                | IoEvent::AcceptFailed(_) => {}
            }
            if lock(&own.reads).bytes > QUEUED_BYTES_MAX {
                with_state(own, |state| process_left(&mut self.io, own, state))?;
            }
        }
        if count > 1 {
            self.shared.wake_waiting(count - 1);
        }
        Ok(())
    }

    /// Processes reads of any worker.
    fn pull(&mut self, own: &SharedWorker<I, A>) -> io::Result<()> {
        let shared = self.shared.clone();
        for _ in 0..PULLED_MAX {
            let Some((number, worker)) = shared.pop() else { break };
            if number == self.number {
                with_state(own, |state| {
                    if let Some(read) = own.take_read() {
                        state.process(&mut self.io, &read);
                        own.recycle(read);
                    }
                })?;
            } else {
                worker.process_for_other();
            }
            shared.put_back(number, worker);
        }
        Ok(())
    }

    /// The rest of an iteration: everything but reads.
    fn finish(&mut self, own: &SharedWorker<I, A>) -> io::Result<LoopControl> {
        with_state(own, |state| {
            let io = &mut self.io;
            process_left(io, own, state);
            state.finish_reads(io);
            let worker = &mut state.worker;
            for (id, reason) in self.closed.drain(..) {
                worker.disconnect(io, id, reason);
            }
            self.inbox.take(&mut worker.received);
            let control = worker.process_messages_and_timers(io);
            worker.deliver(io);
            control
        })
    }
}

/// The state ends with the thread, as that of other workers does. Others discard what is left in the queue.
impl<I: Io, A> Drop for PullingWorker<I, A> {
    fn drop(&mut self) {
        if let Some(own) = self.shared.workers.get(self.number) {
            let state = lock(&own.state).take();
            drop(state);
            // It still is if the application has panicked there.
            own.is_finishing.store(false, Relaxed);
        }
    }
}

/// Processes all reads of a worker that are left.
fn process_left<I: Io, A: App>(
    io: &mut I,
    own: &SharedWorker<I, A>,
    state: &mut SharedState<I, A>,
) {
    while let Some(read) = own.take_read() {
        state.process(io, &read);
        own.recycle(read);
    }
}

/// Calls `act` with the state of the worker that calls this.
fn with_state<I: Io, A: App, T>(
    own: &SharedWorker<I, A>,
    act: impl FnOnce(&mut SharedState<I, A>) -> T,
) -> io::Result<T> {
    let mut state = own.lock_state();
    let state = state.as_mut().and_then(|state| state.as_mut());
    state
        .map(act)
        .ok_or_else(|| io::Error::other("another worker has panicked in the applications"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use sluice_io::{Epoll, WaitStrategy};

    use super::*;
    use crate::config::Config;
    use crate::threads::Threads;

    struct EmptyApp;

    impl App for EmptyApp {}

    type Shared = Arc<SharedReads<Epoll, EmptyApp>>;

    /// The queue of two workers, and the first of them.
    fn workers() -> (Shared, PullingWorker<Epoll, EmptyApp>) {
        let epoll = || Epoll::new(WaitStrategy::default()).unwrap();
        let cfg = Arc::new(Config::default());
        let threads = Threads::new(&cfg, epoll(), vec![epoll(), epoll()]);
        let shared = Arc::new(SharedReads::new(threads.senders.workers));
        let setup = threads.workers.into_iter().next().unwrap();
        let first = PullingWorker::new(setup.start(EmptyApp, None).unwrap(), shared.clone());
        (shared, first)
    }

    fn push(shared: &Shared, number: usize) {
        let (id, at) = (ConnId::default(), sluice_io::clock::now());
        let read = Read { id, bytes: vec![4, 2, 0, 8, 0, 0, 0, 0], received_bytes: 8, at };
        shared.push(number, read);
    }

    /// What another worker does with the first of the queue. Returns which worker that was.
    fn process_first(shared: &Shared) -> Option<usize> {
        let (number, worker) = shared.pop()?;
        worker.process_for_other();
        shared.put_back(number, worker);
        Some(number)
    }

    #[test]
    fn reads_of_a_worker_that_runs_are_processed_one_at_a_time() {
        let (shared, first) = workers();
        (0..3).for_each(|_| push(&shared, 0));
        for left in [2, 1, 0] {
            assert_eq!(process_first(&shared), Some(0));
            assert_eq!(lock(&shared.workers[0].reads).waiting.len(), left);
        }
        assert_eq!(process_first(&shared), None);
        drop(first);
    }

    /// Its application may have panicked while it processed what was left, at the end of its iteration.
    #[test]
    fn reads_of_a_worker_that_has_ended_are_discarded_so_that_others_do_not_look_for_them() {
        for was_finishing in [false, true] {
            let (shared, first) = workers();
            (0..3).for_each(|_| push(&shared, 0));
            shared.workers[0].is_finishing.store(was_finishing, Relaxed);
            drop(first);
            assert_eq!(process_first(&shared), Some(0));
            let reads = lock(&shared.workers[0].reads);
            assert_eq!((reads.waiting.len(), reads.bytes, reads.is_queued), (0, 0, false));
            drop(reads);
            assert_eq!(process_first(&shared), None, "an empty queue");
        }
    }

    #[test]
    fn reads_of_a_worker_whose_state_is_incomplete_are_discarded() {
        let (shared, first) = workers();
        push(&shared, 0);
        push(&shared, 0);
        let panicking = shared.clone();
        // An application that panics in the thread of another worker.
        let thread: std::thread::JoinHandle<()> = std::thread::spawn(move || {
            let _state = panicking.workers[0].lock_state();
            panic!("a bug of an application");
        });
        assert!(thread.join().is_err());
        assert_eq!(process_first(&shared), Some(0));
        assert_eq!(process_first(&shared), None);
        drop(first);
    }
}
