//! The acceptor thread: accepts connections, runs their handshakes and assigns switches to workers.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::hash::derive_secret;
use sluice_io::{ConnId, Io, IoEvent, Reading, limits};
use sluice_openflow::{ErrorReason, SwitchFeatures};
use sluice_proto::{ControllerSession, ReassemblyBudget};
use sluice_sdk::App;

use crate::admission::{HandshakeQueue, SourceNetwork};
use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::{ConnectionBuffers, EstablishedConnection};
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::deadlines::Deadlines;
use crate::log_limit::LogLimiter;
use crate::messages::{SessionId, ToAcceptor, ToWorker, WorkerSender};
use crate::pending::{DuplicateClaim, HandshakeContext, PendingConnection};
use crate::queue::Receiver;
use crate::registry::SwitchRegistry;
use crate::worker::LoopControl;

/// How long the acceptor waits for the peer's `HELLO` before it sends its own. Switches send theirs at once. Mininet uses
/// `telnet` to find out whether a controller is listening, and hangs if it receives a `HELLO`.
const HELLO_DELAY: Duration = Duration::from_millis(100);

/// The acceptor thread.
pub(crate) struct Acceptor<I: Io, A> {
    io: I,
    state: AcceptorState<I, A>,
}

/// Everything of the acceptor except its connections.
struct AcceptorState<I: Io, A> {
    cfg: Arc<Config>,
    listeners: Vec<(SocketAddr, ConnId)>,
    /// By [`ConnId::slot`].
    pending: Vec<Option<Box<PendingConnection>>>,
    /// Number of connections in `pending`.
    pending_count: usize,
    /// The pending connections that have no [`DuplicateClaim`].
    handshake_queue: HandshakeQueue,
    switches: SwitchRegistry,
    workers: Vec<WorkerSender<I, A>>,
    /// Memory for multipart replies of pending connections. Separate, so that a flood of connections takes none from
    /// switches.
    pending_budget: ReassemblyBudget,
    /// Memory for multipart replies of the switches of each worker.
    worker_budgets: Vec<ReassemblyBudget>,
    inbox: Receiver<ToAcceptor<I::Listener, A>>,
    /// Taken from `inbox`, to be processed.
    received: VecDeque<ToAcceptor<I::Listener, A>>,
    registry: Arc<CounterRegistry>,
    tx: Vec<u8>,
    log_limit: LogLimiter,
    last_session_id: u64,
    /// Number of accepted connections.
    accepted: u64,
    /// When each pending connection is to be checked.
    deadlines: Deadlines<ConnId>,
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
            listeners: Vec::new(),
            pending: Vec::new(),
            pending_count: 0,
            handshake_queue: HandshakeQueue::default(),
            switches: SwitchRegistry::new(workers.len()),
            pending_budget: ReassemblyBudget::default(),
            worker_budgets: workers.iter().map(|_| ReassemblyBudget::default()).collect(),
            workers,
            inbox,
            received: VecDeque::new(),
            registry,
            tx: Vec::new(),
            log_limit: LogLimiter::default(),
            last_session_id: 0,
            accepted: 0,
            deadlines: Deadlines::default(),
            now,
        };
        Self { io, state }
    }

    /// Accepts connections on `listener`, which has the address `addr`.
    pub(crate) fn listen(&mut self, addr: SocketAddr, listener: I::Listener) -> io::Result<()> {
        self.state.listen(&mut self.io, addr, listener)
    }

    /// Runs the event loop until [`ToAcceptor::Stop`]; `app` provides the initial messages.
    pub(crate) fn run(mut self, mut app: A) -> io::Result<()> {
        while self.run_iteration(&mut app)? == LoopControl::Continue {}
        Ok(())
    }

    /// When [`run_iteration`](Self::run_iteration) has something to do at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let state = &self.state;
        if state.inbox.has_items() { Some(state.now) } else { state.deadlines.next() }
    }

    pub(crate) fn run_iteration(&mut self, app: &mut A) -> io::Result<LoopControl> {
        let (io, state) = (&mut self.io, &mut self.state);
        state.now = state.inbox.wait(io, state.now, state.deadlines.next())?;
        let started = state.now;
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Accepted(stream, addr) => state.accept(io, stream, addr),
                IoEvent::Data(id, bytes) => {
                    let result = state.process_read(app, id, bytes);
                    state.send_replies(io, id);
                    match result {
                        Ok(None) => {}
                        Ok(Some(features)) => state.complete_handshake(io, id, features),
                        Err(reason) => state.close(io, id, reason),
                    }
                }
                IoEvent::Writable(id) => state.send_backlog(io, id),
                IoEvent::Closed(id, error) => {
                    let reason =
                        error.map_or(CloseReason::ClosedByPeer, CloseReason::ConnectionError);
                    state.close(io, id, reason);
                }
                IoEvent::AcceptFailed(error) => state.log_accept_error(&error),
                IoEvent::Woken | IoEvent::Connected(_) => {}
            }
        }
        let control = state.process_messages(io, app);
        state.run_timers(io);
        state.counters().iteration(Duration::ZERO, io.now() - started);
        Ok(control)
    }
}

impl<I: Io, A: App> AcceptorState<I, A> {
    fn counters(&self) -> &ThreadCounters {
        acceptor_counters(&self.registry)
    }

    fn listen(&mut self, io: &mut I, addr: SocketAddr, listener: I::Listener) -> io::Result<()> {
        let id = io.listen(listener)?;
        self.listeners.push((addr, id));
        Ok(())
    }

    /// Starts the handshake of a new connection, and closes another one or this one if there are too many.
    fn accept(&mut self, io: &mut I, stream: I::Conn, addr: SocketAddr) {
        self.counters().connections_accepted.add(1);
        let (source, capacity) = (SourceNetwork::new(addr.ip()), self.cfg.limits.handshakes_max);
        if self.pending_count >= capacity {
            let grace = self.cfg.limits.hello_grace;
            let queue = &self.handshake_queue;
            let Some(evicted) = queue.eviction_candidate(source, capacity, self.now, grace) else {
                return self.refuse(addr, CloseReason::TooManyHandshakes);
            };
            self.close(io, evicted, CloseReason::TooManyHandshakes);
        }
        let id = match io.adopt(stream) {
            Ok(id) => id,
            Err(error) => {
                self.counters().connection_closed(CloseReason::ConnectionError(error.kind()));
                return self.log_accept_error(&error);
            }
        };
        let mut hello = Vec::new();
        self.accepted += 1;
        let xid = first_xid(self.accepted);
        let mut session = ControllerSession::open(&self.cfg.session, xid, self.now, &mut hello);
        session.set_reassembly_budget(&self.pending_budget, source.id());
        let pending = PendingConnection {
            id,
            addr,
            queue_key: self.handshake_queue.insert(id, source, capacity),
            session,
            hello,
            hello_at: self.now + HELLO_DELAY,
            buffers: ConnectionBuffers::default(),
            received_bytes: 0,
            claim: None,
        };
        if self.pending.len() <= id.slot() {
            self.pending.resize_with(id.slot() + 1, || None);
        }
        if let Some(slot) = self.pending.get_mut(id.slot()) {
            *slot = Some(Box::new(pending));
            self.pending_count += 1;
            self.counters().handshakes_pending.set(self.pending_count as u64);
            self.schedule(id);
        }
    }

    /// Counts and logs a connection that is closed without a handshake.
    fn refuse(&mut self, addr: SocketAddr, reason: CloseReason) {
        self.counters().connection_closed(reason);
        if self.log_limit.allow(self.now) {
            tracing::warn!(%addr, reason = reason.label(), "connection closed: {reason}");
        }
    }

    fn log_accept_error(&mut self, error: &io::Error) {
        if self.log_limit.allow(self.now) {
            let remedy = limits::remedy(error).map_or_else(String::new, |what| format!("; {what}"));
            tracing::warn!("cannot accept: {error}{remedy}");
        }
    }

    /// Processes a read; the replies are in `tx`. Returns the features of the switch at the end of the handshake.
    fn process_read(
        &mut self,
        app: &A,
        id: ConnId,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let counters = acceptor_counters(&self.registry);
        counters.bytes_received.add(bytes.len() as u64);
        let Some(Some(pending)) = self.pending.get_mut(id.slot()) else { return Ok(None) };
        pending.received_bytes += bytes.len();
        self.tx.append(&mut pending.hello);
        let features = if pending.claim.is_some() {
            pending.buffers.received.keep(bytes);
            None
        } else {
            let (cfg, tx, log_limit) = (&*self.cfg, &mut self.tx, &mut self.log_limit);
            let was_negotiated = pending.session.is_version_negotiated();
            let mut ctx = HandshakeContext { cfg, app, counters, tx, log_limit, now: self.now };
            let result = pending.process_read(&mut ctx, bytes);
            if !was_negotiated && pending.session.is_version_negotiated() {
                let (key, source) = (pending.queue_key, SourceNetwork::new(pending.addr.ip()));
                pending.queue_key = self.handshake_queue.record_hello(key, source, self.now);
            }
            result?
        };
        if features.is_none() && pending.received_bytes > self.cfg.limits.handshake_bytes_max {
            return Err(CloseReason::HandshakeTooLarge);
        }
        Ok(features)
    }

    /// Sends what is in `tx`.
    fn send_replies(&mut self, io: &mut I, id: ConnId) {
        let counters = acceptor_counters(&self.registry);
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            let limits = self.cfg.limits.backlog();
            let sent = pending.buffers.send(io, id, self.now, (&[], &self.tx), limits);
            counters.bytes_sent.add(sent as u64);
        }
        self.tx.clear();
    }

    fn send_backlog(&mut self, io: &mut I, id: ConnId) {
        let counters = acceptor_counters(&self.registry);
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            let sent = pending.buffers.flush(io, id, self.now, self.cfg.limits.backlog());
            counters.bytes_sent.add(sent as u64);
        }
    }

    /// After the handshake: hands the switch over to a worker, or probes the connection that has its datapath id.
    fn complete_handshake(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let datapath_id = features.datapath_id;
        if features.auxiliary_id != 0 {
            return self.close(io, id, CloseReason::AuxiliaryConnection(datapath_id));
        }
        let Some(current) = self.switches.lookup(datapath_id) else {
            if self.switches.len() >= self.cfg.limits.switches_max {
                return self.close(io, id, CloseReason::TooManySwitches);
            }
            return self.hand_over(io, id, features);
        };
        let current_id = current.session_id;
        if self.find_claim(current_id).is_some() {
            return self.close(io, id, CloseReason::DuplicateDatapathId(datapath_id));
        }
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            pending.claim = Some(DuplicateClaim {
                features,
                current: current_id,
                deadline: self.now + self.cfg.limits.duplicate_timeout,
                is_granted: false,
            });
            let addr = pending.addr;
            self.handshake_queue.remove(pending.queue_key, SourceNetwork::new(addr.ip()));
            tracing::info!(dpid = %datapath_id, %addr, "datapath id in use: probing its connection");
        }
        io.set_reading(id, Reading::Off);
        self.schedule(id);
        self.send_to_worker(current.worker, ToWorker::Probe(current_id));
    }

    /// Hands a switch over to the worker with the fewest switches.
    fn hand_over(&mut self, io: &mut I, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(pending) = self.remove(id) else { return };
        let Some(conn) = io.release(id) else { return };
        let datapath_id = features.datapath_id;
        self.last_session_id += 1;
        let location = self.switches.assign(datapath_id, SessionId(self.last_session_id));
        let PendingConnection { addr, mut session, buffers, .. } = *pending;
        if let Some(budget) = self.worker_budgets.get(location.worker) {
            session.set_reassembly_budget(budget, SourceNetwork::new(addr.ip()).id());
        }
        let session_id = location.session_id;
        let connection =
            EstablishedConnection { conn, session_id, addr, datapath_id, session, buffers };
        self.send_to_worker(location.worker, ToWorker::Adopt(Box::new(connection), features));
    }

    fn send_to_worker(&self, worker: usize, message: ToWorker<I::Conn, A>) {
        if let Some(sender) = self.workers.get(worker) {
            sender.send(message);
        }
    }

    /// Removes a connection from all tables.
    fn remove(&mut self, id: ConnId) -> Option<Box<PendingConnection>> {
        let pending = self.pending.get_mut(id.slot()).and_then(Option::take)?;
        self.handshake_queue.remove(pending.queue_key, SourceNetwork::new(pending.addr.ip()));
        self.deadlines.remove(id);
        self.pending_count -= 1;
        self.counters().handshakes_pending.set(self.pending_count as u64);
        Some(pending)
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
                ToAcceptor::Configure(cfg, change, listeners) => {
                    change(app);
                    self.configure(io, cfg, listeners);
                }
                ToAcceptor::Stop => return LoopControl::Stop,
            }
        }
        LoopControl::Continue
    }

    /// Removes a switch, and hands over the connection that claims its datapath id, if any.
    fn on_disconnected(&mut self, io: &mut I, session_id: SessionId) {
        self.switches.remove(session_id);
        let Some(pending) = self.find_claim(session_id) else { return };
        let (id, claim) = (pending.id, pending.claim.take());
        if let Some(claim) = claim {
            self.hand_over(io, id, claim.features);
        }
    }

    /// Closes the connection that claims the datapath id of a switch, since that has answered the probe.
    fn on_probe_answered(&mut self, io: &mut I, session_id: SessionId) {
        let Some(pending) = self.find_claim(session_id) else { return };
        let id = pending.id;
        // If the answer is late, the switch is already being closed: closing the claimant too would leave neither.
        if let Some(claim) = pending.claim.as_ref().filter(|claim| !claim.is_granted) {
            let reason = CloseReason::DuplicateDatapathId(claim.features.datapath_id);
            self.close(io, id, reason);
        }
    }

    /// The connection that claims the datapath id of the session `current`.
    fn find_claim(&mut self, current: SessionId) -> Option<&mut PendingConnection> {
        let claims = |p: &&mut Box<PendingConnection>| {
            p.claim.as_ref().is_some_and(|claim| claim.current == current)
        };
        self.pending.iter_mut().flatten().find(claims).map(Box::as_mut)
    }

    /// Applies a configuration: adds the new listeners, and closes those that it does not contain.
    fn configure(
        &mut self,
        io: &mut I,
        cfg: Arc<Config>,
        listeners: Vec<(SocketAddr, I::Listener)>,
    ) {
        self.listeners.retain(|&(addr, id)| {
            let is_wanted = cfg.listen.iter().any(|&wanted| is_same_listener(wanted, addr));
            if !is_wanted {
                tracing::info!(%addr, "stopped listening");
                io.close(id);
            }
            is_wanted
        });
        for (addr, listener) in listeners {
            match self.listen(io, addr, listener) {
                Ok(()) => tracing::info!(%addr, "listening"),
                Err(error) => tracing::error!(%addr, %error, "cannot listen"),
            }
        }
        self.cfg = cfg;
    }

    /// Checks the pending connections that are due.
    fn run_timers(&mut self, io: &mut I) {
        while let Some(id) = self.deadlines.pop_due(self.now) {
            let Some(Some(pending)) = self.pending.get_mut(id.slot()) else { continue };
            if pending.claim.is_some() {
                self.check_claim(id);
                continue;
            }
            if self.now >= pending.hello_at && !pending.hello.is_empty() {
                self.tx.append(&mut pending.hello);
            }
            let result = pending.session.handle_timeouts(&self.cfg.session, self.now, &mut self.tx);
            self.send_replies(io, id);
            match result {
                Ok(()) => self.schedule(id),
                Err(error) => self.close(io, id, CloseReason::Session(error)),
            }
        }
    }

    /// Sets when a pending connection is to be checked.
    fn schedule(&mut self, id: ConnId) {
        let Some(Some(pending)) = self.pending.get(id.slot()) else { return };
        if let Some(deadline) = pending.deadline(&self.cfg.session) {
            self.deadlines.set(id, deadline);
        }
    }

    /// After the deadline of a claim: has the connection closed that has the datapath id.
    fn check_claim(&mut self, id: ConnId) {
        let Some(Some(pending)) = self.pending.get_mut(id.slot()) else { return };
        let Some(claim) = &mut pending.claim else { return };
        claim.is_granted = true;
        let (current, dpid) = (claim.current, claim.features.datapath_id);
        if let Some(location) = self.switches.lookup(dpid).filter(|l| l.session_id == current) {
            let reason = CloseReason::ReplacedByNewConnection(dpid);
            self.send_to_worker(location.worker, ToWorker::Close(current, reason));
        }
    }

    /// Closes a connection, or cleans up after the peer has closed it.
    fn close(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        let Some(mut pending) = self.remove(id) else { return };
        if let CloseReason::DuplicateDatapathId(_)
        | CloseReason::TooManySwitches
        | CloseReason::AuxiliaryConnection(_) = reason
        {
            let mut encoder = pending.session.encoder(&mut self.tx);
            // The text is short enough for a message.
            let text = reason.to_string();
            let _ = encoder.error_with(0, ErrorReason::NOT_ALLOWED, text.as_bytes());
            let sent = io.send(id, &self.tx);
            self.counters().bytes_sent.add(sent as u64);
            self.tx.clear();
        }
        io.close(id);
        self.counters().connection_closed(reason);
        if self.log_limit.allow(self.now) {
            let (addr, label) = (pending.addr, reason.label());
            if reason.is_normal() {
                tracing::debug!(%addr, reason = label, "connection closed");
            } else {
                tracing::warn!(%addr, reason = label, "connection closed: {reason}");
            }
        }
    }
}

/// Whether a listener at `open` serves the configured address `wanted`.
pub(crate) fn is_same_listener(wanted: SocketAddr, open: SocketAddr) -> bool {
    let is_same_ip = wanted.ip() == open.ip()
        || (wanted.ip().is_unspecified() && open.ip().is_unspecified() && wanted.is_ipv6());
    is_same_ip && (wanted.port() == open.port() || wanted.port() == 0)
}

/// The first transaction id of a session. Peers cannot predict it, unless the process has no random seed.
#[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
fn first_xid(connection: u64) -> u32 {
    derive_secret(("first transaction id", connection)) as u32
}

#[expect(clippy::indexing_slicing, reason = "the registry has counters for the acceptor")]
fn acceptor_counters(registry: &CounterRegistry) -> &ThreadCounters {
    &registry.threads[0]
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;

    use sluice_io::Epoll;

    use crate::messages::QUEUE_CAPACITY;
    use crate::queue::queue;

    use super::*;

    const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 9];
    /// The reply of datapath 7 to the features request of a connection.
    fn features_reply(connection: u64) -> [u8; 32] {
        let mut reply = [
            1, 6, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 0,
            0, 0, 1,
        ];
        reply[4..8].copy_from_slice(&first_xid(connection).to_be_bytes());
        reply
    }

    struct EmptyApp;

    impl App for EmptyApp {}

    /// The queue of the worker, and what was taken from it.
    type WorkerInbox =
        (Receiver<ToWorker<TcpStream, EmptyApp>>, VecDeque<ToWorker<TcpStream, EmptyApp>>);

    /// Runs iterations until the worker receives a message; returns its kind.
    fn next_worker_message(
        acceptor: &mut Acceptor<Epoll, EmptyApp>,
        (worker, received): &mut WorkerInbox,
    ) -> &'static str {
        for _ in 0..200 {
            worker.take(received);
            match received.pop_front() {
                Some(ToWorker::Adopt(..)) => return "adopt",
                Some(ToWorker::Probe(_)) => return "probe",
                Some(ToWorker::Close(..)) => return "close",
                Some(_) => return "other",
                None => {
                    let control = acceptor.run_iteration(&mut EmptyApp).unwrap();
                    assert_eq!(control, LoopControl::Continue);
                }
            }
        }
        "none"
    }

    /// The answer to the probe arrives when the connection is already being closed.
    #[test]
    fn one_of_two_connections_with_one_datapath_id_stays_even_if_the_older_answers_late() {
        let mut cfg = Config::default();
        cfg.limits.duplicate_timeout = Duration::ZERO;
        let io = Epoll::new(sluice_io::WaitStrategy::default()).unwrap();
        let (to_acceptor, inbox) = queue(QUEUE_CAPACITY, io.waker());
        let (worker, inbox_of_worker) = queue(QUEUE_CAPACITY, io.waker());
        let mut worker_inbox = (inbox_of_worker, VecDeque::new());
        let registry = Arc::new(CounterRegistry::new(1));
        let mut acceptor =
            Acceptor::<_, EmptyApp>::new(io, Arc::new(cfg), vec![worker], inbox, registry);
        let listener = sluice_io::sock::listen(
            ([127, 0, 0, 1], 0).into(),
            &sluice_io::sock::Options::default(),
        );
        let listener = listener.unwrap();
        let addr = listener.local_addr().unwrap();
        acceptor.listen(addr, listener).unwrap();
        let connect = |connection| {
            let mut peer = TcpStream::connect(addr).unwrap();
            peer.write_all(&[&HELLO[..], &features_reply(connection)].concat()).unwrap();
            peer
        };
        let _first = connect(1);
        assert_eq!(next_worker_message(&mut acceptor, &mut worker_inbox), "adopt");
        let _second = connect(2);
        assert_eq!(next_worker_message(&mut acceptor, &mut worker_inbox), "probe");
        assert_eq!(next_worker_message(&mut acceptor, &mut worker_inbox), "close");
        to_acceptor.send(ToAcceptor::ProbeAnswered(SessionId(1)));
        to_acceptor.send(ToAcceptor::Disconnected(SessionId(1)));
        assert_eq!(next_worker_message(&mut acceptor, &mut worker_inbox), "adopt");
    }
}
