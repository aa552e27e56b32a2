//! A worker thread: its event loop, its switches and its instance of the applications.

mod captures;
mod connections;
mod delivery;
mod dispatch;
pub(crate) mod in_kernel;
pub(crate) mod migration;
mod outgoing;
pub(crate) mod ports;
pub(crate) mod pulling;
mod requests;
mod session_log;
mod subscribers;
mod switches;
mod timers;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_io::{ConnId, Io, IoEvent, READ_BYTES_MAX};
use sluice_kernel::WorkerAnswers;
use sluice_openflow::DatapathId;
use sluice_proto::ReassemblyBudget;
use sluice_sdk::view::ViewPublisher;
use sluice_sdk::{App, CaptureSender, Ctx, Network, restore_tables};

use crate::backpressure::{BacklogLimits, backlog_share, cautious_read_bytes};
use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::deadlines::Deadlines;
use crate::log_limit::LogLimiter;
use crate::messages::{
    AcceptorSender, RemoteSwitch, SessionId, ToAcceptor, ToWorker, WorkerSender,
};
use crate::queue::Receiver;
use crate::requests::Answers;
use crate::switch_counters::SwitchCounters;
use crate::transmit_queue::Writes;
use dispatch::Dispatcher;
use in_kernel::InKernel;
use migration::ArrivingSwitch;
use outgoing::Outgoing;
use session_log::SessionLog;
use switches::Switches;

/// How long a worker waits for room in the queue of another thread before it tries again.
const CONGESTION_RETRY: Duration = Duration::from_millis(1);

/// A worker thread.
pub(crate) struct Worker<I: Io, A> {
    io: I,
    inbox: Inbox<I, A>,
    state: WorkerState<I, A>,
}

/// Where a worker receives the messages of other threads.
type Inbox<I, A> = Receiver<ToWorker<<I as Io>::Conn, A>>;

/// Everything of a worker except its connections and its queue.
struct WorkerState<I: Io, A> {
    app: A,
    cfg: Arc<Config>,
    switches: Switches,
    /// Memory for their multipart replies.
    reassembly_budget: ReassemblyBudget,
    /// The switches of other workers.
    remote_switches: HashMap<DatapathId, RemoteSwitch>,
    /// Switches that are about to move to this worker.
    arriving: HashMap<DatapathId, ArrivingSwitch>,
    /// The worker to which each session has moved from this one.
    moved: HashMap<SessionId, usize>,
    tx: Vec<u8>,
    /// Messages to be sent before the backlog.
    urgent: Vec<u8>,
    network: Network,
    /// Answers to requests.
    answers: Answers,
    /// Threads that follow the view.
    subscribers: Vec<ViewPublisher>,
    /// Some of them may not have all of it yet.
    has_unsent_views: bool,
    /// Threads that get copies of packet-ins; hardly ever any.
    captures: Vec<CaptureSender>,
    outgoing: Outgoing<I, A>,
    /// Messages of other threads, to be processed.
    received: VecDeque<ToWorker<I::Conn, A>>,
    registry: Arc<CounterRegistry>,
    log_limit: LogLimiter,
    session_log: SessionLog,
    session_time: SessionTime,
    /// A switch may be handed over to another worker at the end of this iteration.
    is_handing_over: bool,
    /// Number of switches with a backlog.
    backlog_count: usize,
    /// When each session is to be checked for timeouts.
    deadlines: Deadlines<ConnId>,
    started: Instant,
    now: Instant,
    next_tick_at: Instant,
    /// Switches whose timers are still to be run in this tick.
    ticking: VecDeque<ConnId>,
    next_app_metrics_at: Instant,
}

/// How many times as long as the calls that begin and end sessions all that they cause takes at most: about three times was measured. What
/// takes longer has other reasons.
const CAUSED_MAX: u32 = 4;

/// How much of an iteration the beginnings and ends of sessions take. Applications and other threads are notified after the reads.
#[derive(Debug, Default)]
struct SessionTime {
    /// Sessions that have begun, or could not begin.
    begun: u64,
    /// Of the calls that begin and end sessions, or probe them for another connection.
    calls: Duration,
    /// When the reads were done, if sessions may have begun or ended.
    reads_done_at: Option<Instant>,
}

impl SessionTime {
    /// The time that sessions have taken in an iteration that ends `now`.
    fn total(&self, now: Instant) -> Duration {
        let after_reads = self.reads_done_at.map_or(Duration::ZERO, |done| now - done);
        self.calls.max(after_reads.min(self.calls * CAUSED_MAX))
    }
}

/// How a worker is connected to the other threads.
pub(crate) struct WorkerQueues<I: Io, A> {
    pub(crate) inbox: Receiver<ToWorker<I::Conn, A>>,
    pub(crate) acceptor: AcceptorSender<I, A>,
    /// Including this worker's own.
    pub(crate) workers: Vec<WorkerSender<I, A>>,
    /// Number of this worker in `workers`.
    pub(crate) worker: usize,
}

/// How a worker waits for something to do.
struct Wait {
    /// A time that has passed.
    now: Instant,
    deadline: Instant,
    /// The queue of another worker is full.
    is_congested: bool,
}

impl Wait {
    fn wait<I: Io, A>(&self, inbox: &Inbox<I, A>, io: &mut I) -> io::Result<Instant> {
        if self.is_congested {
            return inbox.wait_for_items(io, self.now, self.deadline);
        }
        inbox.wait(io, self.now, Some(self.deadline))
    }
}

/// Whether the event loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopControl {
    Continue,
    Stop,
}

impl<I: Io, A: App> Worker<I, A> {
    pub(crate) fn new(
        mut io: I,
        app: A,
        cfg: Arc<Config>,
        queues: WorkerQueues<I, A>,
        registry: Arc<CounterRegistry>,
        answers: Option<WorkerAnswers>,
    ) -> io::Result<Self> {
        let now = io.now();
        let in_kernel = answers.map(|answers| InKernel::new(answers, &mut io)).transpose()?;
        let switches = Switches::new(in_kernel);
        let state = WorkerState {
            app,
            cfg,
            switches,
            reassembly_budget: ReassemblyBudget::default(),
            remote_switches: HashMap::default(),
            arriving: HashMap::default(),
            moved: HashMap::default(),
            tx: Vec::new(),
            urgent: Vec::new(),
            network: Network::new(queues.worker),
            answers: Answers::default(),
            subscribers: Vec::new(),
            has_unsent_views: false,
            captures: Vec::new(),
            outgoing: Outgoing::new(queues.worker, queues.workers, queues.acceptor),
            received: VecDeque::new(),
            registry,
            log_limit: LogLimiter::default(),
            session_log: SessionLog::default(),
            session_time: SessionTime::default(),
            is_handing_over: false,
            backlog_count: 0,
            deadlines: Deadlines::default(),
            started: now,
            now,
            next_tick_at: now,
            ticking: VecDeque::new(),
            next_app_metrics_at: now,
        };
        Ok(Self { io, inbox: queues.inbox, state })
    }

    /// Runs the event loop until [`ToWorker::Stop`].
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.run_iteration()? == LoopControl::Continue {}
        Ok(())
    }

    /// One iteration: wait; read from and reply to each switch; process messages of other threads; run timers; deliver what
    /// the applications send; send what was queued.
    ///
    /// The replies to a read are sent at once, in one write unless [`Batching`](crate::Batching) is off, before the next switch is
    /// read: all switches share one transmit buffer. See `docs/adr/0002-answer-per-burst.md`. Everything else is sent once, at the end.
    pub(crate) fn run_iteration(&mut self) -> io::Result<LoopControl> {
        self.process_events()?;
        let control = self.process_messages();
        self.deliver();
        Ok(control)
    }

    /// The first part of an iteration: waits, and processes the events of connections.
    pub(crate) fn process_events(&mut self) -> io::Result<()> {
        let (io, state) = (&mut self.io, &mut self.state);
        let now = state.plan_wait(io).wait(&self.inbox, io)?;
        state.begin_iteration(now);
        state.read_announced(io);
        state.retry_behind(io);
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    let len = bytes.len();
                    state.counters().read(len);
                    let result = state.process_read(id, bytes);
                    state.count_received_beside_kernel(io, id, len);
                    state.record_received(id, io.received_bytes(len));
                    state.answer_read(io, id, now, result);
                }
                IoEvent::Writable(id) => state.flush_switch(io, id),
                IoEvent::Closed(id, error) => state.disconnect(io, id, error.into()),
                IoEvent::NothingReceived(id) => state.on_nothing_received(io, id),
                IoEvent::Woken
                | IoEvent::Accepted(..)
                | IoEvent::Connected(_)
                | IoEvent::AcceptFailed(_) => {}
            }
        }
        Ok(())
    }

    /// The second part of an iteration: processes messages of other threads, and runs timers.
    pub(crate) fn process_messages(&mut self) -> LoopControl {
        self.inbox.take(&mut self.state.received);
        self.state.process_messages_and_timers(&mut self.io)
    }

    /// The last part of an iteration: delivers and sends what the others have caused.
    pub(crate) fn deliver(&mut self) {
        self.state.deliver(&mut self.io);
    }

    /// When [`run_iteration`](Self::run_iteration) has something to do at the latest.
    pub(crate) fn deadline(&self) -> Instant {
        let state = &self.state;
        if self.inbox.has_items() { state.now } else { state.deadline() }
    }

    /// Whether the thread reads nothing, because the queue of another one is full.
    pub(crate) fn is_congested(&self) -> bool {
        self.state.outgoing.is_congested()
    }

    /// Whether there is nothing to receive from other threads and nothing to be sent to them, between two iterations.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = &self.state;
        !self.inbox.has_items()
            && !state.outgoing.is_congested()
            && state.network.is_idle()
            && state.answers.ready.is_empty()
    }

    pub(crate) fn app(&self) -> &A {
        &self.state.app
    }

    pub(crate) fn app_mut(&mut self) -> &mut A {
        &mut self.state.app
    }

    pub(crate) fn network(&self) -> &Network {
        &self.state.network
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    fn counters(&self) -> &ThreadCounters {
        worker_counters(&self.registry, self.outgoing.worker())
    }

    /// How to wait for something to do. While the queue of another worker is full, nothing is read, so that nothing is caused
    /// for which there is no room.
    fn plan_wait(&mut self, io: &mut I) -> Wait {
        let wait = Wait {
            now: self.now,
            deadline: self.deadline(),
            is_congested: self.outgoing.is_congested(),
        };
        if !wait.is_congested {
            let total = self.cfg.limits.backlog_total_bytes_max;
            let is_cautious = self.counters().backlog_bytes.get() > total as u64 / 2;
            let cautious = || cautious_read_bytes(total, self.backlog_count);
            io.set_read_max(if is_cautious { cautious() } else { READ_BYTES_MAX });
        }
        wait
    }

    fn deadline(&self) -> Instant {
        let congestion = self.outgoing.is_congested().then(|| self.now + CONGESTION_RETRY);
        // Deferred work causes messages, for which there is no room during congestion.
        let has_work = self.network.wants_iteration()
            || self.network.has_messages()
            || !self.answers.ready.is_empty()
            || self.has_unsent_views
            || !self.ticking.is_empty()
            || self.switches.in_kernel.as_ref().is_some_and(InKernel::has_work);
        let deferred = (congestion.is_none() && has_work).then_some(self.now);
        let later = self.network.deferred_until();
        let in_kernel = self.switches.in_kernel.as_ref().and_then(InKernel::next_retry);
        let others = [self.deadlines.next(), congestion, deferred, later, in_kernel];
        let others = others.into_iter().flatten();
        others.fold(self.next_tick_at, Instant::min)
    }

    fn begin_iteration(&mut self, now: Instant) {
        self.now = now;
        self.counters().begin_iteration();
        self.network.begin_iteration(now);
        self.update_from_kernel();
        self.app.on_iteration(now);
    }

    /// Processes the messages of other threads that were received, and runs timers.
    fn process_messages_and_timers(&mut self, io: &mut I) -> LoopControl {
        if self.session_time.calls > Duration::ZERO || !self.received.is_empty() {
            self.session_time.reads_done_at = Some(io.now());
        }
        let control = self.process_messages(io);
        self.run_timers(io);
        control
    }

    /// Delivers and sends what the events and messages of an iteration have caused.
    fn deliver(&mut self, io: &mut I) {
        self.hand_over_switches(io);
        self.deliver_answers();
        self.deliver_from_apps(io);
        self.close_outdated_gates();
        self.send_views();
        self.flush(io);
        self.open_gates(io);
        let now = io.now();
        let sessions = std::mem::take(&mut self.session_time);
        let in_sessions = sessions.total(now);
        if in_sessions > Duration::ZERO {
            self.counters().add_in_sessions(in_sessions);
        }
        // After that: what counts as begun is paid for.
        if sessions.begun > 0 {
            self.counters().sessions_begun.add(sessions.begun);
        }
        self.counters().end_iteration(now - self.started, now - self.now);
    }

    /// Sends the replies to a read that was received at `received`; disconnects the switch if it could not be processed.
    #[inline]
    fn answer_read(
        &mut self,
        io: &mut I,
        id: ConnId,
        received: Instant,
        result: Result<(), CloseReason>,
    ) {
        let has_replies = self.has_replies_to_send_at_once(id);
        if self.send_replies(io, id) > 0 && has_replies {
            self.counters().response_latency.record_n(io.now() - received, 1);
        }
        result.unwrap_or_else(|reason| self.disconnect(io, id, reason));
    }

    /// Processes the bytes of one read of a switch. The replies are in `tx` and `urgent`.
    #[inline]
    fn process_read(&mut self, id: ConnId, bytes: &[u8]) -> Result<(), CloseReason> {
        self.stop_kernel(id);
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some(switch) = self.switches.get_mut(id) else { return Ok(()) };
        if std::mem::take(&mut switch.is_probed) {
            self.outgoing.send_to_acceptor(ToAcceptor::ProbeAnswered(switch.session_id));
        }
        let mut dispatcher = Dispatcher {
            app: &mut self.app,
            cfg: &self.cfg,
            counters,
            network: &mut self.network,
            captures: &self.captures,
            tx: &mut self.tx,
            urgent: &mut self.urgent,
            answers: &mut self.answers,
            now: self.now,
        };
        dispatcher.process_read(switch, bytes)
    }

    /// Records that the last read of a switch took `bytes` bytes out of the kernel.
    #[inline]
    fn record_received(&mut self, id: ConnId, bytes: usize) {
        if let Some(switch) = self.switches.get_mut(id) {
            switch.buffers.backpressure.record_read(bytes);
        }
    }

    /// Whether there are replies to the last read of a switch, and nothing waits before them.
    #[inline]
    fn has_replies_to_send_at_once(&self, id: ConnId) -> bool {
        !(self.tx.is_empty() && self.urgent.is_empty())
            && self.switches.get(id).is_some_and(|switch| switch.buffers.transmit.is_empty())
    }

    /// Sends what is in `tx` and `urgent` to a switch. Returns the bytes sent.
    #[inline]
    fn send_replies(&mut self, io: &mut I, id: ConnId) -> usize {
        let limits = self.backlog_limits();
        if self.waits_for_kernel(io, id) {
            self.keep_replies(io, id);
            return 0;
        }
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let mut sent = 0;
        if let Some(switch) = self.switches.get_mut(id) {
            let buffers = &mut switch.buffers;
            let how = (Writes::new(self.cfg.batching), limits);
            sent = buffers.send(io, id, self.now, (&self.urgent, &self.tx), how);
            let backlog = buffers.backlog();
            count_sent(counters, &switch.counters, sent, backlog, &mut self.backlog_count);
        }
        self.count_sent_beside_kernel(id, sent);
        self.tx.clear();
        self.urgent.clear();
        sent
    }

    /// Sends what waits for a switch.
    fn flush_switch(&mut self, io: &mut I, id: ConnId) {
        let limits = self.backlog_limits();
        if self.waits_for_kernel(io, id) {
            return self.update_backlog(io, id);
        }
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some(switch) = self.switches.get_mut(id) else { return };
        let how = (Writes::new(self.cfg.batching), limits);
        let sent = switch.buffers.flush(io, id, self.now, how);
        if sent > 0 && std::mem::take(&mut switch.is_probed) {
            // A switch that takes data is alive, and its echo reply cannot arrive while it is not read.
            self.outgoing.send_to_acceptor(ToAcceptor::ProbeAnswered(switch.session_id));
        }
        let backlog = switch.buffers.backlog();
        count_sent(counters, &switch.counters, sent, backlog, &mut self.backlog_count);
        self.count_sent_beside_kernel(id, sent);
        if self.queue_packet_out_barrier(id) {
            return self.flush_switch(io, id);
        }
        self.make_lost_changes(io, id);
    }

    /// If changes of the tables of a switch were lost and there is room again, the applications make them once more.
    fn make_lost_changes(&mut self, io: &mut I, id: ConnId) {
        let Some(switch) = self.switches.get_mut(id) else { return };
        let buffers = &mut switch.buffers;
        let has_room = !buffers.backpressure.is_paused() && buffers.transmit.has_no_urgent();
        if buffers.has_lost_changes && has_room {
            buffers.has_lost_changes = false;
            self.call_app(id, restore_tables);
            self.send_replies(io, id);
        }
    }

    /// Sets when a switch is to be checked for timeouts.
    fn set_deadline(&mut self, id: ConnId) {
        if let Some(switch) = self.switches.get(id) {
            let of_session = switch.session.deadline(&self.cfg.session);
            let of_requests = switch.requests.deadline();
            self.deadlines.set(id, of_requests.map_or(of_session, |at| at.min(of_session)));
        }
    }

    /// Calls a function of the applications about a switch. What they send to it is in `tx` and `urgent`.
    fn call_app(&mut self, id: ConnId, call: impl FnOnce(&mut A, &mut Ctx<'_>)) {
        self.stop_kernel(id);
        let Some(switch) = self.switches.get_mut(id) else { return };
        let has_room = switch.buffers.transmit.has_no_urgent();
        let (index, datapath_id) = (switch.index, switch.datapath_id);
        let encoder = switch.session.encoder(&mut self.tx);
        let (urgent, network) = (&mut self.urgent, &mut self.network);
        let ctx = Ctx::new(self.now, index, datapath_id, encoder, urgent, network);
        call(&mut self.app, &mut ctx.with_room(has_room));
    }

    /// The limits of the backlog of one switch. If many have one, each may have less, so that all together do not exceed
    /// their limit by much.
    #[inline]
    fn backlog_limits(&self) -> BacklogLimits {
        let limits = self.cfg.limits.backlog();
        if self.backlog_count <= 1 {
            return limits;
        }
        let share = backlog_share(self.cfg.limits.backlog_total_bytes_max, self.backlog_count);
        BacklogLimits { bytes_max: limits.bytes_max.min(share), ..limits }
    }
}

#[expect(clippy::indexing_slicing, reason = "the registry has counters for every worker")]
#[inline]
fn worker_counters(registry: &CounterRegistry, worker: usize) -> &ThreadCounters {
    &registry.threads[worker + 1]
}

/// Counts sent bytes, and the change of the backlog of a switch.
#[inline]
fn count_sent(
    counters: &ThreadCounters,
    switch: &SwitchCounters,
    sent: usize,
    backlog: usize,
    backlog_count: &mut usize,
) {
    counters.bytes_sent.add(sent as u64);
    switch.bytes_sent.add(sent as u64);
    let (backlog, backlog_before) = (backlog as u64, switch.backlog_bytes.get());
    if backlog != backlog_before {
        let total = counters.backlog_bytes.get() + backlog;
        counters.backlog_bytes.set(total.saturating_sub(backlog_before));
        switch.backlog_bytes.set(backlog);
        *backlog_count += usize::from(backlog > 0);
        *backlog_count -= usize::from(backlog_before > 0);
    }
}
