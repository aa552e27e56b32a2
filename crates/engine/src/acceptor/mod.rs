//! The acceptor thread: accepts connections, runs their handshakes and assigns switches to workers.

mod admission;
mod balance;
mod claims;
mod connection_log;
mod dropped_syns;
mod handshakes;
mod listeners;
mod pending;
mod placement;
mod registry;
mod reserved_ids;
mod session_budget;
mod source;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Io, IoEvent, limits};
use sluice_openflow::{ErrorReason, SwitchFeatures};
use sluice_sdk::App;

use balance::{Balancer, Moves, WorkerSample};
use claims::DuplicateClaims;
use connection_log::ConnectionLog;
use dropped_syns::DroppedSyns;
use handshakes::{Admission, Handshakes};
use listeners::Listeners;
use pending::{HandshakeContext, Origin};
use registry::SwitchRegistry;
use reserved_ids::ReservedIds;
use session_budget::SessionBudgets;
use source::SourceNetwork;
use waiting::WaitingSwitches;

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::listen::{NewListeners, OpenEndpoint};
use crate::log_limit::LogLimiter;
use crate::messages::{SwitchLocation, ToAcceptor, ToWorker, WorkerSender};
use crate::queue::Receiver;
use crate::switch_counters::SwitchCounters;
use crate::transmit_queue::Writes;
use crate::worker::LoopControl;

/// How often it is checked whether the workers have time for the switches that wait.
const WAITING_INTERVAL: Duration = Duration::from_millis(2);

/// The acceptor thread.
pub(crate) struct Acceptor<I: Io, A> {
    io: I,
    state: AcceptorState<I, A>,
}

/// Everything of the acceptor except its connections.
struct AcceptorState<I: Io, A> {
    cfg: Arc<Config>,
    listeners: Listeners,
    handshakes: Handshakes,
    /// Of connections in `handshakes`.
    claims: DuplicateClaims,
    switches: SwitchRegistry,
    /// Of connections in `handshakes`.
    waiting: WaitingSwitches,
    /// The time that each worker has for sessions.
    budgets: SessionBudgets,
    reserved_ids: ReservedIds,
    last_session_id: u64,
    workers: Vec<WorkerSender<I, A>>,
    inbox: Receiver<ToAcceptor<I::Listener, A>>,
    /// Taken from `inbox`, to be processed.
    received: VecDeque<ToAcceptor<I::Listener, A>>,
    registry: Arc<CounterRegistry>,
    tx: Vec<u8>,
    log: ConnectionLog,
    dropped_syns: DroppedSyns,
    /// When all switches moved last.
    moved_at: Instant,
    balancer: Balancer,
    now: Instant,
}

impl<I: Io, A: App> Acceptor<I, A> {
    pub(crate) fn new(
        io: I,
        cfg: Arc<Config>,
        workers: Vec<WorkerSender<I, A>>,
        inbox: Receiver<ToAcceptor<I::Listener, A>>,
        registry: Arc<CounterRegistry>,
    ) -> Self {
        let now = io.now();
        let state = AcceptorState {
            cfg,
            listeners: Listeners::default(),
            handshakes: Handshakes::default(),
            claims: DuplicateClaims::default(),
            switches: SwitchRegistry::new(workers.len()),
            waiting: WaitingSwitches::default(),
            budgets: SessionBudgets::new(workers.len(), now),
            reserved_ids: ReservedIds::default(),
            last_session_id: 0,
            workers,
            inbox,
            received: VecDeque::new(),
            registry,
            tx: Vec::new(),
            log: ConnectionLog::default(),
            dropped_syns: DroppedSyns::default(),
            moved_at: now,
            balancer: Balancer::default(),
            now,
        };
        Self { io, state }
    }

    /// Accepts connections on `listener`, which has the address of `endpoint`.
    pub(crate) fn listen(
        &mut self,
        endpoint: OpenEndpoint,
        listener: I::Listener,
    ) -> io::Result<()> {
        self.state.listeners.add(&mut self.io, endpoint, listener)?;
        self.state.set_tls(&mut self.io);
        Ok(())
    }

    /// Runs the event loop until [`ToAcceptor::Stop`]; `app` provides the initial messages.
    pub(crate) fn run(mut self, mut app: A) -> io::Result<()> {
        while self.run_iteration(&mut app)? == LoopControl::Continue {}
        Ok(())
    }

    /// When [`run_iteration`](Self::run_iteration) has something to do at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let state = &self.state;
        if state.inbox.has_items() { Some(state.now) } else { state.next_deadline() }
    }

    /// One iteration: wait; accept connections, read and reply; process messages of workers; run timers.
    pub(crate) fn run_iteration(&mut self, app: &mut A) -> io::Result<LoopControl> {
        self.process_events(app)?;
        Ok(self.process_messages(app))
    }

    /// The first part of an iteration: waits, and processes the events of connections.
    pub(crate) fn process_events(&mut self, app: &mut A) -> io::Result<()> {
        let (io, state) = (&mut self.io, &mut self.state);
        state.now = state.inbox.wait(io, state.now, state.next_deadline())?;
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Accepted(stream, addr, listener) => {
                    state.accept(io, stream, addr, listener);
                }
                IoEvent::Data(id, bytes) => {
                    let result = state.process_read(app, id, bytes);
                    state.send_replies(io, id);
                    match result {
                        Ok(None) => state.limit_kept_bytes(io, id),
                        Ok(Some(features)) => state.complete_handshake(io, id, features),
                        Err(reason) => state.close(io, id, reason),
                    }
                }
                IoEvent::Writable(id) => state.send_backlog(io, id),
                IoEvent::Closed(id, error) => state.close(io, id, error.into()),
                IoEvent::AcceptFailed(error) => state.on_accept_failed(io, &error),
                IoEvent::Connected(id) => state.handshakes.record_tls_handshake(id, state.now),
                IoEvent::Woken | IoEvent::NothingReceived(_) => {}
            }
        }
        Ok(())
    }

    /// The second part of an iteration: processes messages of workers, and runs timers.
    pub(crate) fn process_messages(&mut self, app: &mut A) -> LoopControl {
        let (io, state) = (&mut self.io, &mut self.state);
        let control = state.process_messages(io, app);
        state.run_timers(io);
        state.counters().end_iteration(Duration::ZERO, io.now() - state.now);
        control
    }
}

impl<I: Io, A: App> AcceptorState<I, A> {
    fn counters(&self) -> &ThreadCounters {
        acceptor_counters(&self.registry)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let next_move = self.cfg.move_interval.map(|interval| self.moved_at + interval);
        let next_measurement = self.is_balancing().then(|| self.balancer.next(self.now));
        let (handshakes, claims) = (self.handshakes.next_deadline(), self.claims.next_deadline());
        let suppressed = self.log.deadline();
        let waiting = (!self.waiting.is_empty()).then(|| self.now + WAITING_INTERVAL);
        let deadlines = [handshakes, claims, next_move, next_measurement, suppressed, waiting];
        deadlines.into_iter().flatten().min()
    }

    /// Starts the handshake of a new connection, and closes another one or this one if there are too many.
    fn accept(&mut self, io: &mut I, stream: I::Conn, addr: SocketAddr, listener: ConnId) {
        self.counters().connections_accepted.add(1);
        let Some((group, security)) = self.listeners.settings(listener, &self.cfg) else {
            let refused = io::ErrorKind::ConnectionRefused;
            return self.log_closed(addr, CloseReason::ConnectionError(refused));
        };
        let origin = Origin { listeners: group, source: SourceNetwork::new(addr.ip()) };
        match self.handshakes.admit(origin, self.now, &self.cfg.limits) {
            Admission::Admitted => {}
            Admission::Replaces(id) => self.close(io, id, CloseReason::TooManyHandshakes),
            Admission::Refused => return self.log_closed(addr, CloseReason::TooManyHandshakes),
        }
        match io.adopt(stream) {
            Ok(id) => {
                let connection = (id, addr, origin, security);
                self.handshakes.open(connection, &self.cfg.session, self.now, &mut self.tx);
                self.publish_handshake_count();
                self.send_replies(io, id);
            }
            Err(error) => {
                self.log_closed(addr, CloseReason::ConnectionError(error.kind()));
                self.on_accept_failed(io, &error);
            }
        }
    }

    /// After a connection was not accepted. For want of a file descriptor, closes the connection that may be missed least.
    fn on_accept_failed(&mut self, io: &mut I, error: &io::Error) {
        if self.log.not_accepted.allow(self.now) {
            let remedy = limits::remedy(error).map_or_else(String::new, |what| format!("; {what}"));
            tracing::warn!("cannot accept: {error}{remedy}");
        }
        if limits::is_lack_of_files(error)
            && let Some(id) = self.handshakes.oldest_of_largest_source(self.now)
        {
            self.close(io, id, CloseReason::TooManyHandshakes);
        }
    }

    /// Processes a read; the replies are in `tx`. Returns the features of the switch at the end of the handshake.
    fn process_read(
        &mut self,
        app: &A,
        id: ConnId,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let mut ctx = HandshakeContext {
            cfg: &self.cfg,
            app,
            counters: acceptor_counters(&self.registry),
            tx: &mut self.tx,
            log_limit: &mut self.log.others,
            now: self.now,
        };
        self.handshakes.process_read(id, bytes, &mut ctx)
    }

    /// Sends what is in `tx`.
    fn send_replies(&mut self, io: &mut I, id: ConnId) {
        let counters = acceptor_counters(&self.registry);
        if let Some(pending) = self.handshakes.get_mut(id) {
            let how = (Writes::Joined, self.cfg.limits.backlog());
            let sent = pending.buffers.send(io, id, self.now, (&[], &self.tx), how);
            counters.bytes_sent.add(sent as u64);
        }
        self.tx.clear();
    }

    fn send_backlog(&mut self, io: &mut I, id: ConnId) {
        let counters = acceptor_counters(&self.registry);
        if let Some(pending) = self.handshakes.get_mut(id) {
            let how = (Writes::Joined, self.cfg.limits.backlog());
            let sent = pending.buffers.flush(io, id, self.now, how);
            counters.bytes_sent.add(sent as u64);
        }
    }

    fn process_messages(&mut self, io: &mut I, app: &mut A) -> LoopControl {
        self.inbox.take(&mut self.received);
        while let Some(message) = self.received.pop_front() {
            match message {
                ToAcceptor::Disconnected(session_id) => self.on_disconnected(io, session_id),
                ToAcceptor::Move(datapath_id, to) => {
                    let current = self.switches.lookup(datapath_id);
                    if let Some(current) = current.filter(|_| to < self.workers.len()) {
                        self.send_to_worker(current.worker, ToWorker::Move(current.session_id, to));
                    }
                }
                ToAcceptor::Moved(session_id, to) => self.switches.relocate(session_id, to),
                ToAcceptor::ProbeAnswered(session_id) => self.on_probe_answered(io, session_id),
                ToAcceptor::PortsChanged(session_id, ports) => {
                    self.on_ports_changed(io, session_id, ports);
                }
                ToAcceptor::Configure(cfg, change, listeners) => {
                    change(app);
                    self.configure(io, cfg, listeners);
                }
                ToAcceptor::StopListening(endpoints, done) => {
                    self.listeners.retain(io, |open| !endpoints.contains(open));
                    // The sender may have given up waiting.
                    let _ = done.send(());
                }
                ToAcceptor::Stop => {
                    for id in self.handshakes.ids() {
                        self.close(io, id, CloseReason::Shutdown);
                    }
                    self.log.log_suppressed(LogLimiter::take_rest);
                    return LoopControl::Stop;
                }
            }
        }
        LoopControl::Continue
    }

    /// Applies a configuration: adds the new listeners, and closes those that it does not contain.
    fn configure(&mut self, io: &mut I, cfg: Arc<Config>, new: NewListeners<I::Listener>) {
        let is_wanted =
            |open: &OpenEndpoint| cfg.endpoints().any(|wanted| wanted == open.configured);
        self.listeners.retain(io, is_wanted);
        for (endpoint, listener) in new.listeners {
            match self.listeners.add(io, endpoint, listener) {
                Ok(()) => tracing::info!(addr = %endpoint, "listening"),
                Err(error) => {
                    tracing::error!(addr = %endpoint, %error, "cannot listen; a reload of the configuration tries again");
                    // Fails when the engine ends.
                    let _ = new.failed.send(endpoint);
                }
            }
        }
        if !cfg.binds_datapath_ids() {
            // Otherwise these switches could not connect again.
            self.reserved_ids.clear();
            self.switches.unbind_all();
        }
        self.cfg = cfg;
        self.set_tls(io);
    }

    /// Has all listeners use the certificates of the configuration. Open connections keep theirs.
    fn set_tls(&mut self, io: &mut I) {
        self.listeners.set_tls(io, &self.cfg);
    }

    /// Runs the timers of the connections and claims that are due.
    fn run_timers(&mut self, io: &mut I) {
        while let Some(id) = self.handshakes.pop_due(self.now) {
            let cfg = &self.cfg.session;
            let result = self.handshakes.handle_timeouts(id, cfg, self.now, &mut self.tx);
            self.send_replies(io, id);
            result.unwrap_or_else(|reason| self.close(io, id, reason));
        }
        while let Some((session_id, datapath_id)) = self.claims.pop_due(self.now) {
            self.replace_session(session_id, datapath_id);
        }
        self.place_waiting(io);
        self.move_switches();
        self.balance();
        self.log_dropped_syns();
        let now = self.now;
        self.log.log_suppressed(|limiter| limiter.take_suppressed(now));
    }

    /// Says that the kernel refuses connections. While it does, others of the same source are accepted, so that this is called.
    fn log_dropped_syns(&mut self) {
        let Some(filter) = self.registry.syn_filter() else { return };
        if let Some(dropped) = self.dropped_syns.take_due(filter.dropped(), self.now) {
            tracing::warn!(
                dropped,
                "SYNs were dropped: an address opens connections too fast (limits.syn_filter)"
            );
        }
    }

    fn is_balancing(&self) -> bool {
        self.cfg.workers.balancing && self.workers.len() > 1
    }

    /// Moves switches to a worker that is less busy, if it is time and there are some.
    fn balance(&mut self) {
        if !self.is_balancing() || !self.balancer.is_due(self.now) {
            return;
        }
        let workers: Vec<_> = self.registry.threads.iter().skip(1).map(sample).collect();
        let Some(Moves { from, to, switches }) = self.balancer.measure(self.now, &workers) else {
            return;
        };
        tracing::info!(from, to, switches = switches.len(), "switches move to a less busy worker");
        for datapath_id in switches {
            if let Some(current) = self.switches.lookup(datapath_id) {
                self.counters().switches_balanced.add(1);
                self.send_to_worker(current.worker, ToWorker::Move(current.session_id, to));
            }
        }
    }

    /// Moves every switch to the next worker, if it is time.
    fn move_switches(&mut self) {
        let is_due = |interval| self.now >= self.moved_at + interval;
        if !self.cfg.move_interval.is_some_and(is_due) {
            return;
        }
        self.moved_at = self.now;
        for SwitchLocation { session_id, worker } in self.switches.locations() {
            let to = (worker + 1) % self.workers.len().max(1);
            self.send_to_worker(worker, ToWorker::Move(session_id, to));
        }
    }

    fn publish_handshake_count(&self) {
        self.counters().handshakes_pending.set(self.handshakes.len() as u64);
    }

    fn send_to_worker(&self, worker: usize, message: ToWorker<I::Conn, A>) {
        if let Some(sender) = self.workers.get(worker) {
            sender.send(message);
        }
    }

    /// Closes a connection, or cleans up after the peer has closed it.
    fn close(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        self.release_ports(id);
        let Some(mut pending) = self.handshakes.remove(id) else { return };
        self.publish_handshake_count();
        self.claims.remove_claimant(id);
        if let Some(waiting) = pending.waiting.take() {
            self.waiting.remove(pending.origin, waiting.key);
            self.publish_waiting_count();
        }
        if let CloseReason::DuplicateDatapathId(_)
        | CloseReason::TooManySwitches
        | CloseReason::TooManyPorts
        | CloseReason::DatapathIdReserved(_)
        | CloseReason::AuxiliaryConnection(_) = reason
        {
            let mut error = Vec::new();
            let mut encoder = pending.session.encoder(&mut error);
            // The text is short enough for a message.
            let text = reason.to_string();
            let _ = encoder.error_with(0, ErrorReason::NOT_ALLOWED, text.as_bytes());
            let sent = io.send(id, &error);
            self.counters().bytes_sent.add(sent as u64);
        }
        io.close(id);
        self.log_closed(pending.addr, reason);
    }

    /// Counts and logs a closed connection.
    fn log_closed(&mut self, addr: SocketAddr, reason: CloseReason) {
        self.counters().connection_closed(reason);
        let label = reason.label();
        if reason.is_normal() {
            if self.log.closed_normally.allow(self.now) {
                tracing::debug!(%addr, reason = label, "connection closed");
            }
        } else if self.log.closed.allow(self.now) {
            tracing::warn!(%addr, reason = label, "connection closed: {reason}");
        }
    }
}

fn sample(worker: &ThreadCounters) -> WorkerSample {
    let count = |it: Arc<SwitchCounters>| {
        let processed = it.messages_received.get().saturating_sub(it.packet_ins_in_kernel.get());
        (it.datapath_id(), processed)
    };
    let messages = worker.connected_switches.all().into_iter().map(count).collect();
    WorkerSample { busy: worker.busy(), messages }
}

#[expect(clippy::indexing_slicing, reason = "the registry has counters for the acceptor")]
fn acceptor_counters(registry: &CounterRegistry) -> &ThreadCounters {
    &registry.threads[0]
}
