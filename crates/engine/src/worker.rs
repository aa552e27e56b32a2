//! A worker thread: its event loop, its switches and its instance of the applications.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Io, IoEvent};
use sluice_openflow::{DatapathId, Message, SwitchFeatures};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::dispatch::{ConnectedSwitch, Dispatcher};
use crate::log_limit::LogLimiter;
use crate::mailbox::{AcceptorMailbox, SessionId, ToAcceptor, ToWorker, WorkerMailbox};
use crate::message_batches::MessageBatches;
use crate::switch_counters::SwitchCounters;

/// Interval at which timeouts are checked. They are seconds long, so that this precision is enough.
const TIMER_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which the metrics of the applications are collected.
const APP_METRICS_INTERVAL: Duration = Duration::from_secs(1);

/// Rounds per iteration in which facts are delivered whose handlers publish further facts. The rest waits for the next
/// iteration.
const FACT_ROUNDS_MAX: usize = 8;

/// A worker thread.
pub(crate) struct Worker<I: Io, A> {
    io: I,
    state: WorkerState<I, A>,
}

/// Everything of a worker except its connections.
struct WorkerState<I: Io, A> {
    app: A,
    cfg: Arc<Config>,
    /// By [`ConnId::slot`].
    switches: Vec<Option<Box<ConnectedSwitch>>>,
    by_session: HashMap<SessionId, ConnId>,
    by_datapath: HashMap<DatapathId, ConnId>,
    /// Whether a switch has this [`SwitchIndex`].
    indices_in_use: Vec<bool>,
    tx: Vec<u8>,
    /// Messages to be sent before the backlog.
    urgent: Vec<u8>,
    network: Network,
    batches: MessageBatches,
    mailboxes: WorkerMailboxes<I, A>,
    registry: Arc<CounterRegistry>,
    log_limit: LogLimiter,
    started: Instant,
    now: Instant,
    next_timers_at: Instant,
    next_app_metrics_at: Instant,
}

/// The mailboxes of all threads, and the receiving end of this worker's.
pub(crate) struct WorkerMailboxes<I: Io, A> {
    pub(crate) inbox: Receiver<ToWorker<I::Conn, A>>,
    pub(crate) acceptor: AcceptorMailbox<I, A>,
    /// Including this worker's own.
    pub(crate) workers: Vec<WorkerMailbox<I, A>>,
    /// Index of this worker in `workers`.
    pub(crate) worker: usize,
}

/// Whether the event loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopControl {
    Continue,
    Stop,
}

impl<I: Io, A: App> Worker<I, A> {
    pub(crate) fn new(
        io: I,
        app: A,
        cfg: Arc<Config>,
        mailboxes: WorkerMailboxes<I, A>,
        registry: Arc<CounterRegistry>,
    ) -> Self {
        let now = io.now();
        let state = WorkerState {
            app,
            cfg,
            switches: Vec::new(),
            by_session: HashMap::new(),
            by_datapath: HashMap::new(),
            indices_in_use: Vec::new(),
            tx: Vec::new(),
            urgent: Vec::new(),
            network: Network::new(mailboxes.worker),
            batches: MessageBatches::default(),
            mailboxes,
            registry,
            log_limit: LogLimiter::default(),
            started: now,
            now,
            next_timers_at: now,
            next_app_metrics_at: now,
        };
        Self { io, state }
    }

    /// Runs the event loop until [`ToWorker::Stop`].
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.run_iteration()? == LoopControl::Continue {}
        Ok(())
    }

    /// One iteration: wait; read from and reply to each switch; read the mailbox; run timers; deliver messages.
    ///
    /// The replies to a read are sent at once, in one write, before the next switch is read: all switches share one transmit
    /// buffer. See `docs/adr/0002-answer-per-burst.md`.
    pub(crate) fn run_iteration(&mut self) -> io::Result<LoopControl> {
        let (io, state) = (&mut self.io, &mut self.state);
        let now = io.wait(Some(state.next_timers_at))?;
        state.begin_iteration(now);
        let mut is_woken = false;
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    state.counters().read(bytes.len());
                    let result = state.process_read(id, bytes);
                    if state.send_replies(io, id) > 0 {
                        state.counters().response_latency.record_n(io.now() - now, 1);
                    }
                    result.unwrap_or_else(|reason| state.disconnect(io, id, reason));
                }
                IoEvent::Writable(id) => state.send_backlog(io, id),
                IoEvent::Closed(id, error) => {
                    let reason =
                        error.map_or(CloseReason::ClosedByPeer, CloseReason::ConnectionError);
                    state.disconnect(io, id, reason);
                }
                IoEvent::Woken => is_woken = true,
                IoEvent::Accepted(..) | IoEvent::Connected(_) | IoEvent::AcceptFailed(_) => {}
            }
        }
        let control = if is_woken { state.read_mailbox(io) } else { LoopControl::Continue };
        state.run_timers(io);
        state.deliver_from_apps(io);
        state.counters().iteration(io.now() - state.started, io.now() - now);
        Ok(control)
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    fn counters(&self) -> &ThreadCounters {
        worker_counters(&self.registry, self.mailboxes.worker)
    }

    fn begin_iteration(&mut self, now: Instant) {
        self.now = now;
        self.app.on_iteration(now);
    }

    /// Processes the bytes of one read of a switch. The replies are in `tx` and `urgent`.
    #[inline]
    fn process_read(&mut self, id: ConnId, bytes: &[u8]) -> Result<(), CloseReason> {
        let counters = worker_counters(&self.registry, self.mailboxes.worker);
        let Some(Some(switch)) = self.switches.get_mut(id.slot()) else { return Ok(()) };
        if std::mem::take(&mut switch.is_probed) {
            self.mailboxes.acceptor.send(ToAcceptor::ProbeAnswered(switch.session_id));
        }
        let mut dispatcher = Dispatcher {
            app: &mut self.app,
            cfg: &self.cfg,
            counters,
            network: &mut self.network,
            tx: &mut self.tx,
            urgent: &mut self.urgent,
            now: self.now,
        };
        dispatcher.process_read(switch, bytes)
    }

    /// Sends what is in `tx` and `urgent` to a switch. Returns the bytes sent.
    #[inline]
    fn send_replies(&mut self, io: &mut I, id: ConnId) -> usize {
        let counters = worker_counters(&self.registry, self.mailboxes.worker);
        let Some(Some(switch)) = self.switches.get_mut(id.slot()) else {
            self.tx.clear();
            self.urgent.clear();
            return 0;
        };
        let (buffers, limits) = (&mut switch.buffers, &self.cfg.limits);
        let backlog_before = buffers.backlog.len();
        let sent = if self.urgent.is_empty() {
            buffers.send(io, id, self.now, &self.tx, limits)
        } else {
            buffers.send_urgent(io, id, self.now, (&mut self.urgent, &self.tx), limits)
        };
        self.tx.clear();
        count_sent(counters, &switch.counters, sent, (backlog_before, buffers.backlog.len()));
        sent
    }

    /// Sends the backlog of a switch whose connection is writable.
    fn send_backlog(&mut self, io: &mut I, id: ConnId) {
        let counters = worker_counters(&self.registry, self.mailboxes.worker);
        let Some(Some(switch)) = self.switches.get_mut(id.slot()) else { return };
        let backlog_before = switch.buffers.backlog.len();
        let sent = switch.buffers.send_backlog(io, id, self.now, &self.cfg.limits);
        if sent > 0 && std::mem::take(&mut switch.is_probed) {
            // A switch that takes data is alive, and its echo reply cannot arrive while it is not read.
            self.mailboxes.acceptor.send(ToAcceptor::ProbeAnswered(switch.session_id));
        }
        let backlog = switch.buffers.backlog.len();
        count_sent(counters, &switch.counters, sent, (backlog_before, backlog));
    }

    fn read_mailbox(&mut self, io: &mut I) -> LoopControl {
        while let Ok(message) = self.mailboxes.inbox.try_recv() {
            match message {
                ToWorker::Adopt(connection, features) => self.adopt(io, *connection, &features),
                ToWorker::Probe(session_id) => self.probe(io, session_id),
                ToWorker::Close(session_id, reason) => {
                    if let Some(&id) = self.by_session.get(&session_id) {
                        self.disconnect(io, id, reason);
                    }
                }
                ToWorker::Send(session_id, message) => {
                    let id = self.by_session.get(&session_id).copied();
                    self.send_messages(io, id, std::iter::once(&*message));
                }
                ToWorker::Facts(facts) => {
                    for fact in &*facts {
                        if self.network.apply_remote(fact) {
                            self.app.on_fact(fact, self.now, &mut self.network);
                        }
                    }
                }
                ToWorker::Configure(cfg, change) => {
                    self.cfg = cfg;
                    change(&mut self.app);
                }
                ToWorker::Stop => {
                    let ids: Vec<_> = self.by_session.values().copied().collect();
                    for id in ids {
                        self.disconnect(io, id, CloseReason::Shutdown);
                    }
                    return LoopControl::Stop;
                }
            }
        }
        LoopControl::Continue
    }

    /// Takes over a switch from the acceptor: notifies the applications and processes what it has sent meanwhile.
    fn adopt(
        &mut self,
        io: &mut I,
        connection: EstablishedConnection<I::Conn>,
        features: &SwitchFeatures,
    ) {
        let EstablishedConnection { conn, session_id, addr, datapath_id, session, buffers } =
            connection;
        let id = match io.adopt(conn) {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(dpid = %datapath_id, %addr, %error, "cannot register connection");
                self.counters().connection_closed(CloseReason::ConnectionError(error.kind()));
                self.mailboxes.acceptor.send(ToAcceptor::Disconnected(session_id));
                return;
            }
        };
        let index = self.allocate_index();
        let connection =
            EstablishedConnection { conn: (), session_id, addr, datapath_id, session, buffers };
        let version = connection.session.version();
        let counters =
            Arc::new(SwitchCounters::new(datapath_id, version, addr.ip(), io.since_epoch()));
        self.counters().connected_switches.insert(counters.clone());
        let mut switch = Box::new(ConnectedSwitch::new(id, index, connection, counters));
        self.counters().switch_connected(version);
        let worker = self.mailboxes.worker;
        let ports = features.ports.len();
        tracing::info!(dpid = %datapath_id, %addr, %version, ports, worker, "switch connected");
        let encoder = switch.session.encoder(&mut self.tx);
        let (urgent, network) = (&mut self.urgent, &mut self.network);
        let mut ctx = Ctx::new(self.now, index, datapath_id, encoder, urgent, network);
        self.app.on_switch_connected(features, &mut ctx);
        let received = std::mem::take(&mut switch.buffers.partial);
        switch.buffers.reset_backpressure();
        switch.buffers.round_trip = switch.session.handshake_duration();
        let backlog = switch.buffers.backlog.len() as u64;
        self.counters().backlog_bytes.add(backlog);
        switch.counters.backlog_bytes.set(backlog);
        self.by_session.insert(session_id, id);
        self.by_datapath.insert(datapath_id, id);
        if self.switches.len() <= id.slot() {
            self.switches.resize_with(id.slot() + 1, || None);
        }
        if let Some(slot) = self.switches.get_mut(id.slot()) {
            *slot = Some(switch);
        }
        // The acceptor may leave a backlog, and nothing reports yet that the connection is writable.
        self.send_backlog(io, id);
        // The messages of `on_switch_connected` precede replies.
        self.send_replies(io, id);
        let result = self.process_read(id, &received);
        self.send_replies(io, id);
        result.unwrap_or_else(|reason| self.disconnect(io, id, reason));
    }

    /// Allocates the lowest free index.
    fn allocate_index(&mut self) -> SwitchIndex {
        let at = self.indices_in_use.iter().position(|&in_use| !in_use).unwrap_or_else(|| {
            self.indices_in_use.push(false);
            self.indices_in_use.len() - 1
        });
        if let Some(in_use) = self.indices_in_use.get_mut(at) {
            *in_use = true;
        }
        SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn probe(&mut self, io: &mut I, session_id: SessionId) {
        let Some(&id) = self.by_session.get(&session_id) else { return };
        if let Some(Some(switch)) = self.switches.get_mut(id.slot()) {
            switch.is_probed = true;
            switch.session.probe(self.now, &mut self.urgent);
        }
        self.send_replies(io, id);
    }

    /// Sends messages of applications to a switch; counts them as undeliverable if it has disconnected.
    fn send_messages<'m>(
        &mut self,
        io: &mut I,
        id: Option<ConnId>,
        messages: impl ExactSizeIterator<Item = &'m Message>,
    ) {
        let count = messages.len() as u64;
        let Some(Some(switch)) = id.and_then(|id| self.switches.get_mut(id.slot())) else {
            return self.counters().app_messages_undeliverable.add(count);
        };
        if switch.buffers.is_paused() {
            return self.counters().app_messages_dropped.add(count);
        }
        let id = switch.id;
        for message in messages {
            if let Err(error) = switch.session.encoder(&mut self.tx).encode(message) {
                if self.log_limit.allow(self.now) {
                    let dpid = switch.datapath_id;
                    tracing::warn!(%dpid, %error, "message of an application cannot be encoded");
                }
                let counters = worker_counters(&self.registry, self.mailboxes.worker);
                counters.app_messages_undeliverable.add(1);
            }
        }
        self.send_replies(io, id);
    }

    /// Delivers what applications have published and sent in this iteration: facts to the applications of all workers,
    /// messages to the switches, by way of the acceptor if another worker has the switch.
    fn deliver_from_apps(&mut self, io: &mut I) {
        if self.network.is_idle() {
            return;
        }
        for _ in 0..FACT_ROUNDS_MAX {
            let facts = self.network.take_facts();
            if facts.is_empty() {
                break;
            }
            let facts: Arc<[_]> = facts.into();
            for (number, worker) in self.mailboxes.workers.iter().enumerate() {
                if number != self.mailboxes.worker {
                    worker.send(ToWorker::Facts(facts.clone()));
                }
            }
            for fact in &*facts {
                self.app.on_fact(fact, self.now, &mut self.network);
            }
        }
        self.log_app_warnings();
        let mut batches = std::mem::take(&mut self.batches);
        batches.group(self.network.take_messages());
        // One write for each switch.
        for (to, messages) in batches.iter_mut() {
            self.send_batch(io, to, messages);
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

    fn send_batch(&mut self, io: &mut I, to: DatapathId, messages: &mut Vec<Message>) {
        if let Some(&id) = self.by_datapath.get(&to) {
            self.send_messages(io, Some(id), messages.iter());
            return messages.clear();
        }
        let queued_max = self.cfg.limits.queued_messages_max;
        let acceptor = &self.mailboxes.acceptor;
        for message in messages.drain(..) {
            let wrap = |queued| ToAcceptor::Forward(to, queued);
            if !acceptor.try_send_message(message, queued_max, wrap) {
                self.counters().app_messages_dropped.add(1);
            }
        }
    }

    /// Checks timeouts, calls `on_tick` for each switch and collects the applications' metrics, when it is time.
    fn run_timers(&mut self, io: &mut I) {
        if self.now < self.next_timers_at {
            return;
        }
        self.next_timers_at = self.now + TIMER_INTERVAL;
        self.network.expire(self.now);
        for slot in 0..self.switches.len() {
            let Some(Some(switch)) = self.switches.get_mut(slot) else { continue };
            let (id, is_stuck) = (switch.id, switch.buffers.is_stuck(self.now, &self.cfg.limits));
            switch.buffers.shrink();
            switch.buffers.handle_timeouts(io, id, self.now, &self.cfg.limits);
            if switch.buffers.is_paused() {
                // An echo reply may be waiting unread. `is_stuck` detects a dead switch in this case.
                switch.session.record_activity(self.now);
            }
            let result =
                switch.session.handle_timeouts(&self.cfg.session, self.now, &mut self.urgent);
            let (index, datapath_id) = (switch.index, switch.datapath_id);
            let encoder = switch.session.encoder(&mut self.tx);
            let (urgent, network) = (&mut self.urgent, &mut self.network);
            self.app.on_tick(&mut Ctx::new(self.now, index, datapath_id, encoder, urgent, network));
            if is_stuck {
                self.tx.clear();
                self.urgent.clear();
                self.disconnect(io, id, CloseReason::SendTimeout);
                continue;
            }
            if !self.tx.is_empty() || !self.urgent.is_empty() {
                self.send_replies(io, id);
            }
            result.unwrap_or_else(|error| self.disconnect(io, id, CloseReason::Session(error)));
        }
        if self.now >= self.next_app_metrics_at {
            self.next_app_metrics_at = self.now + APP_METRICS_INTERVAL;
            let mut metrics = Vec::new();
            self.app.metrics(&mut |metric| metrics.push(metric));
            if let Ok(mut published) = self.counters().app_metrics.lock() {
                *published = metrics;
            }
        }
    }

    /// Closes the connection of a switch, or cleans up after it was closed, and notifies applications and acceptor.
    fn disconnect(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        let Some(switch) = self.switches.get_mut(id.slot()).and_then(Option::take) else { return };
        io.close(id);
        let (dpid, addr, version) = (switch.datapath_id, switch.addr, switch.session.version());
        let counters = worker_counters(&self.registry, self.mailboxes.worker);
        counters.connected_switches.remove(dpid);
        counters.connection_closed(reason);
        counters.switch_disconnected(version);
        counters.backlog_bytes.sub(switch.buffers.backlog.len() as u64);
        if self.log_limit.allow(self.now) {
            let label = reason.label();
            if reason.is_normal() {
                tracing::info!(%dpid, %addr, %version, reason = label, "switch disconnected");
            } else {
                tracing::warn!(%dpid, %addr, %version, reason = label, "switch disconnected: {reason}");
            }
        }
        self.app.on_switch_disconnected(switch.index, self.now, &mut self.network);
        if let Some(in_use) = self.indices_in_use.get_mut(switch.index.index()) {
            *in_use = false;
        }
        self.by_session.remove(&switch.session_id);
        self.by_datapath.remove(&dpid);
        self.mailboxes.acceptor.send(ToAcceptor::Disconnected(switch.session_id));
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
    (backlog_before, backlog): (usize, usize),
) {
    counters.bytes_sent.add(sent as u64);
    switch.bytes_sent.add(sent as u64);
    if backlog != backlog_before {
        let total = counters.backlog_bytes.get() + backlog as u64;
        counters.backlog_bytes.set(total.saturating_sub(backlog_before as u64));
        switch.backlog_bytes.set(backlog as u64);
    }
}
