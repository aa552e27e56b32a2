//! The thread that accepts, and proves that a peer is a switch before it costs a worker anything.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Epoll, Io, IoEvent, Reading, clock, limits};
use sluice_openflow::{DatapathId, ErrorReason, SwitchFeatures, split_message};
use sluice_proto::{ControllerEvent, ControllerSession, ReassemblyBudget};
use sluice_sdk::App;

use crate::admission::{HandshakeQueue, QueueKey, SourceNetwork};
use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::{ConnectionBuffers, EstablishedConnection, Reassembly};
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::dispatch::unframed;
use crate::log_limit::LogLimiter;
use crate::mailbox::{Mailbox, QueuedMessage, SessionId, ToAcceptor, ToWorker};
use crate::registry::SwitchRegistry;
use crate::worker::Next;

/// How often deadlines are looked at.
const SWEEP: Duration = Duration::from_millis(100);

/// How long a peer may take to speak first. Switches do so at once; what only looks whether somebody listens, as
/// Mininet does with `telnet`, takes our `HELLO` for something else and hangs.
const GREET_AFTER: Duration = Duration::from_millis(100);

/// The thread that accepts and proves.
pub(crate) struct Acceptor<A> {
    io: Epoll,
    desk: AcceptorState<A>,
}

/// Everything of the front but its sockets.
struct AcceptorState<A> {
    cfg: Arc<Config>,
    listeners: Vec<(SocketAddr, ConnId)>,
    pending: Vec<Option<Box<PendingConnection>>>,
    handshakes: usize,
    /// Connections in their handshake, without those that claim a datapath id in use.
    handshake_queue: HandshakeQueue,
    registry: SwitchRegistry,
    workers: Vec<Mailbox<ToWorker<TcpStream, A>>>,
    /// What peers without proof hold of unfinished replies, and what the switches of each worker do: a flood takes no
    /// room from switches.
    replies: (ReassemblyBudget, Vec<ReassemblyBudget>),
    inbox: Receiver<ToAcceptor<A>>,
    ledger: Arc<CounterRegistry>,
    tx: Vec<u8>,
    log_limit: LogLimiter,
    next_serial: u64,
    now: Instant,
    sweep_at: Instant,
}

/// A peer that has yet to prove that it is a switch, or to be given a place.
#[derive(Debug)]
struct PendingConnection {
    id: ConnId,
    addr: SocketAddr,
    ticket: QueueKey,
    session: ControllerSession,
    /// Our `HELLO`, until it is sent.
    greeting: Vec<u8>,
    /// When it is sent even to a peer that says nothing.
    greet_at: Instant,
    wires: ConnectionBuffers,
    bytes: usize,
    claim: Option<DuplicateClaim>,
}

/// A proved switch whose datapath id another connection has.
#[derive(Debug)]
struct DuplicateClaim {
    features: Box<SwitchFeatures>,
    /// The connection that has it.
    rival: SessionId,
    /// When the rival is taken for dead.
    deadline: Instant,
    is_rival_told: bool,
}

impl<A: App> Acceptor<A> {
    pub(crate) fn new(
        io: Epoll,
        cfg: Arc<Config>,
        workers: Vec<Mailbox<ToWorker<TcpStream, A>>>,
        inbox: Receiver<ToAcceptor<A>>,
        ledger: Arc<CounterRegistry>,
    ) -> Self {
        let now = clock::now();
        let desk = AcceptorState {
            cfg,
            listeners: Vec::new(),
            pending: Vec::new(),
            handshakes: 0,
            handshake_queue: HandshakeQueue::default(),
            registry: SwitchRegistry::new(workers.len()),
            replies: (
                ReassemblyBudget::default(),
                workers.iter().map(|_| ReassemblyBudget::default()).collect(),
            ),
            workers,
            inbox,
            ledger,
            tx: Vec::new(),
            log_limit: LogLimiter::default(),
            next_serial: 0,
            now,
            sweep_at: now,
        };
        Self { io, desk }
    }

    /// Accepts on `listener` too.
    pub(crate) fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        self.desk.listen(&mut self.io, listener)
    }

    /// Accepts and proves until told to stop; `app` greets.
    pub(crate) fn run(mut self, mut app: A) -> io::Result<()> {
        while self.turn(&mut app)? == Next::Turn {}
        Ok(())
    }

    fn turn(&mut self, app: &mut A) -> io::Result<Next> {
        let (io, desk) = (&mut self.io, &mut self.desk);
        desk.now = io.wait(Some(desk.sweep_at))?;
        let started = desk.now;
        let mut woken = false;
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Accepted(stream, addr) => desk.accept(io, stream, addr),
                IoEvent::Data(id, bytes) => {
                    let heard = desk.hear(app, id, bytes);
                    desk.say(io, id);
                    match heard {
                        Ok(None) => {}
                        Ok(Some(features)) => desk.proved(io, id, features),
                        Err(reason) => desk.end(io, id, reason),
                    }
                }
                IoEvent::Writable(id) => desk.go_on(io, id),
                IoEvent::Closed(id, kind) => {
                    desk.end(
                        io,
                        id,
                        kind.map_or(CloseReason::ClosedByPeer, CloseReason::ConnectionError),
                    );
                }
                IoEvent::AcceptFailed(error) => desk.cannot_accept(&error),
                IoEvent::Woken => woken = true,
                IoEvent::Connected(_) => {}
            }
        }
        let next = if woken { desk.read_inbox(io, app) } else { Next::Turn };
        desk.let_time_pass(io);
        desk.sheet().iteration(Duration::ZERO, clock::now() - started);
        Ok(next)
    }
}

impl<A: App> AcceptorState<A> {
    fn sheet(&self) -> &ThreadCounters {
        front_sheet(&self.ledger)
    }

    fn listen(&mut self, io: &mut Epoll, listener: TcpListener) -> io::Result<()> {
        let addr = listener.local_addr()?;
        let id = io.listen(listener)?;
        self.listeners.push((addr, id));
        Ok(())
    }

    /// Takes a new peer, if there is room for it. It is greeted when it speaks, or after a while.
    fn accept(&mut self, io: &mut Epoll, stream: TcpStream, addr: SocketAddr) {
        self.sheet().connections_accepted.add(1);
        let (host, places) = (SourceNetwork::new(addr.ip()), self.cfg.limits.handshakes_max);
        if self.handshakes >= places {
            let grace = self.cfg.limits.hello_grace;
            let Some(oldest) = self.handshake_queue.who_makes_room(host, places, self.now, grace)
            else {
                return self.turn_away(addr, CloseReason::TooManyHandshakes);
            };
            self.end(io, oldest, CloseReason::TooManyHandshakes);
        }
        let id = match io.adopt(stream) {
            Ok(id) => id,
            Err(error) => {
                self.sheet().connection_closed(CloseReason::ConnectionError(error.kind()));
                return self.cannot_accept(&error);
            }
        };
        let mut greeting = Vec::new();
        let mut session = ControllerSession::open(&self.cfg.session, self.now, &mut greeting);
        session.set_reassembly_budget(&self.replies.0);
        let (wires, greet_at) = (ConnectionBuffers::default(), self.now + GREET_AFTER);
        let ticket = self.handshake_queue.enter(id, host, places);
        let (bytes, claim) = (0, None);
        let pending = PendingConnection {
            id,
            addr,
            ticket,
            session,
            greeting,
            greet_at,
            wires,
            bytes,
            claim,
        };
        if self.pending.len() <= id.slot() {
            self.pending.resize_with(id.slot() + 1, || None);
        }
        if let Some(place) = self.pending.get_mut(id.slot()) {
            *place = Some(Box::new(pending));
            self.handshakes += 1;
            self.sheet().handshakes_pending.set(self.handshakes as u64);
        }
    }

    /// Lets go of a peer that was never greeted.
    fn turn_away(&mut self, addr: SocketAddr, reason: CloseReason) {
        self.sheet().connection_closed(reason);
        if self.log_limit.allow(self.now) {
            tracing::warn!(%addr, reason = reason.label(), "connection closed: {reason}");
        }
    }

    fn cannot_accept(&mut self, error: &io::Error) {
        if self.log_limit.allow(self.now) {
            let remedy = limits::remedy(error).map_or_else(String::new, |what| format!("; {what}"));
            tracing::warn!("cannot accept: {error}{remedy}");
        }
    }

    /// Reads what a peer says, up to its proof; answers are in `tx`.
    fn hear(
        &mut self,
        app: &A,
        id: ConnId,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let sheet = front_sheet(&self.ledger);
        sheet.bytes_received.add(bytes.len() as u64);
        let Some(Some(pending)) = self.pending.get_mut(id.slot()) else { return Ok(None) };
        pending.bytes += bytes.len();
        self.tx.append(&mut pending.greeting);
        let proof = if pending.claim.is_some() {
            pending.wires.torn.extend_from_slice(bytes);
            None
        } else {
            let (cfg, tx, log_limit) = (&*self.cfg, &mut self.tx, &mut self.log_limit);
            let was_greeted = pending.session.is_version_negotiated();
            let heard = pending.hear(
                &mut HandshakeContext { cfg, app, sheet, tx, log_limit, now: self.now },
                bytes,
            );
            if !was_greeted && pending.session.is_version_negotiated() {
                let host = SourceNetwork::new(pending.addr.ip());
                pending.ticket = self.handshake_queue.greet(pending.ticket, host, self.now);
            }
            heard?
        };
        if proof.is_none() && pending.bytes > self.cfg.limits.handshake_bytes_max {
            return Err(CloseReason::HandshakeTooLarge);
        }
        Ok(proof)
    }

    fn say(&mut self, io: &mut Epoll, id: ConnId) {
        let sheet = front_sheet(&self.ledger);
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            let limits = &self.cfg.limits;
            let sent = pending.wires.say(io, id, self.now, &self.tx, limits);
            sheet.bytes_sent.add(sent as u64);
        }
        self.tx.clear();
    }

    fn go_on(&mut self, io: &mut Epoll, id: ConnId) {
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            pending.wires.go_on(io, id, self.now, &self.cfg.limits);
        }
    }

    /// A peer is a switch: gives it a place, unless its datapath id is taken.
    fn proved(&mut self, io: &mut Epoll, id: ConnId, features: Box<SwitchFeatures>) {
        let datapath_id = features.datapath_id;
        if features.auxiliary_id != 0 {
            return self.end(io, id, CloseReason::AuxiliaryConnection(datapath_id));
        }
        let Some(home) = self.registry.home(datapath_id) else {
            if self.registry.len() >= self.cfg.limits.switches_max {
                return self.end(io, id, CloseReason::TooManySwitches);
            }
            return self.hand_over(io, id, features);
        };
        let same = |p: &PendingConnection| p.claim.as_ref().is_some_and(|c| c.rival == home.serial);
        if self.pending.iter().flatten().any(|pending| same(pending)) {
            return self.end(io, id, CloseReason::DuplicateDatapathId(datapath_id));
        }
        if let Some(Some(pending)) = self.pending.get_mut(id.slot()) {
            let (rival, deadline) = (home.serial, self.now + self.cfg.limits.duplicate_timeout);
            pending.claim =
                Some(DuplicateClaim { features, rival, deadline, is_rival_told: false });
            let addr = pending.addr;
            self.handshake_queue.leave(pending.ticket, SourceNetwork::new(addr.ip()));
            tracing::info!(dpid = %datapath_id, %addr, "datapath id in use: probing its connection");
        }
        io.set_reading(id, Reading::Off);
        self.tell(home.worker, ToWorker::Probe(home.serial));
    }

    /// Gives a proved switch to the worker with the least to do.
    fn hand_over(&mut self, io: &mut Epoll, id: ConnId, features: Box<SwitchFeatures>) {
        let Some(pending) = self.take(id) else { return };
        let Some(conn) = io.release(id) else { return };
        let datapath_id = features.datapath_id;
        self.next_serial += 1;
        let home = self.registry.settle(datapath_id, SessionId(self.next_serial));
        let PendingConnection { addr, mut session, wires, .. } = *pending;
        if let Some(pool) = self.replies.1.get(home.worker) {
            session.set_reassembly_budget(pool);
        }
        let from =
            EstablishedConnection { conn, serial: home.serial, addr, datapath_id, session, wires };
        self.tell(home.worker, ToWorker::Adopt(Box::new(from), features));
    }

    fn tell(&self, worker: usize, what: ToWorker<TcpStream, A>) {
        if let Some(mailbox) = self.workers.get(worker) {
            mailbox.put(what);
        }
    }

    fn take(&mut self, id: ConnId) -> Option<Box<PendingConnection>> {
        let pending = self.pending.get_mut(id.slot()).and_then(Option::take)?;
        self.handshake_queue.leave(pending.ticket, SourceNetwork::new(pending.addr.ip()));
        self.handshakes -= 1;
        self.sheet().handshakes_pending.set(self.handshakes as u64);
        Some(pending)
    }

    fn read_inbox(&mut self, io: &mut Epoll, app: &mut A) -> Next {
        while let Ok(what) = self.inbox.try_recv() {
            match what {
                ToAcceptor::Gone(serial) => self.gone(io, serial),
                ToAcceptor::Alive(serial) => self.alive(io, serial),
                ToAcceptor::Mail(to, letter) => self.forward(to, letter),
                ToAcceptor::Configure(cfg, change, listeners) => {
                    change(app);
                    self.configure(io, cfg, listeners);
                }
                ToAcceptor::Stop => return Next::Stop,
            }
        }
        Next::Turn
    }

    /// A switch is gone; if another connection waits for its place, that one gets it.
    fn gone(&mut self, io: &mut Epoll, serial: SessionId) {
        self.registry.forget(serial);
        let Some(pending) = self.claimant(serial) else { return };
        let (id, claim) = (pending.id, pending.claim.take());
        if let Some(claim) = claim {
            self.hand_over(io, id, claim.features);
        }
    }

    /// A switch has shown that it is there; who waits for its place does so in vain, unless it spoke too late.
    fn alive(&mut self, io: &mut Epoll, serial: SessionId) {
        let Some(pending) = self.claimant(serial) else { return };
        let id = pending.id;
        // Once told, the rival is hung up on: without this, neither would be left.
        if let Some(claim) = pending.claim.as_ref().filter(|claim| !claim.is_rival_told) {
            let reason = CloseReason::DuplicateDatapathId(claim.features.datapath_id);
            self.end(io, id, reason);
        }
    }

    /// Who waits for the place of `rival`.
    fn claimant(&mut self, rival: SessionId) -> Option<&mut PendingConnection> {
        let waits =
            |p: &&mut Box<PendingConnection>| p.claim.as_ref().is_some_and(|c| c.rival == rival);
        self.pending.iter_mut().flatten().find(waits).map(Box::as_mut)
    }

    fn forward(&mut self, to: DatapathId, letter: QueuedMessage) {
        let Some(home) = self.registry.home(to) else {
            return self.sheet().app_messages_undeliverable.add(1);
        };
        let Some(mailbox) = self.workers.get(home.worker) else { return };
        let to_worker = |letter| ToWorker::Mail(home.serial, letter);
        if !mailbox.post(letter.open(), self.cfg.limits.mail_max, to_worker) {
            self.sheet().app_messages_dropped.add(1);
        }
    }

    /// Takes new listeners on, and closes those that are no longer wanted.
    fn configure(&mut self, io: &mut Epoll, cfg: Arc<Config>, listeners: Vec<TcpListener>) {
        self.listeners.retain(|&(addr, id)| {
            let wanted = cfg.listen.iter().any(|&want| is_same_listener(want, addr));
            if !wanted {
                tracing::info!(%addr, "stopped listening");
                io.close(id);
            }
            wanted
        });
        for listener in listeners {
            match self.listen(io, listener) {
                Ok(()) => tracing::info!(addr = ?self.listeners.last().map(|l| l.0), "listening"),
                Err(error) => tracing::error!(%error, "cannot listen"),
            }
        }
        self.cfg = cfg;
    }

    fn let_time_pass(&mut self, io: &mut Epoll) {
        if self.now < self.sweep_at {
            return;
        }
        self.sweep_at = self.now + SWEEP;
        for slot in 0..self.pending.len() {
            let Some(Some(pending)) = self.pending.get_mut(slot) else { continue };
            let id = pending.id;
            if let Some(claim) = &mut pending.claim {
                let (rival, id) = (claim.rival, claim.features.datapath_id);
                if self.now >= claim.deadline && !claim.is_rival_told {
                    claim.is_rival_told = true;
                    if let Some(home) = self.registry.home(id).filter(|h| h.serial == rival) {
                        self.tell(
                            home.worker,
                            ToWorker::HangUp(rival, CloseReason::ReplacedByNewConnection(id)),
                        );
                    }
                }
                continue;
            }
            if self.now >= pending.greet_at && !pending.greeting.is_empty() {
                self.tx.append(&mut pending.greeting);
                self.say(io, id);
                continue;
            }
            let passed = pending.session.handle_timeouts(&self.cfg.session, self.now, &mut self.tx);
            self.tx.clear();
            passed.unwrap_or_else(|fault| self.end(io, id, CloseReason::Session(fault)));
        }
    }

    /// Ends a connection, whichever end began it.
    fn end(&mut self, io: &mut Epoll, id: ConnId, reason: CloseReason) {
        let Some(mut pending) = self.take(id) else { return };
        if let CloseReason::DuplicateDatapathId(_)
        | CloseReason::TooManySwitches
        | CloseReason::AuxiliaryConnection(_) = reason
        {
            let mut out = pending.session.encoder(&mut self.tx);
            // A sentence fits.
            let text = reason.to_string();
            let _ = out.error_with(0, ErrorReason::NOT_ALLOWED, text.as_bytes());
            io.send(id, &self.tx);
            self.tx.clear();
        }
        io.close(id);
        self.sheet().connection_closed(reason);
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

/// Who hears a peer, and where what is said goes.
struct HandshakeContext<'f, A> {
    cfg: &'f Config,
    app: &'f A,
    sheet: &'f ThreadCounters,
    tx: &'f mut Vec<u8>,
    log_limit: &'f mut LogLimiter,
    now: Instant,
}

impl PendingConnection {
    /// Reads messages up to the proof; what comes after it is kept for the worker.
    fn hear<A: App>(
        &mut self,
        ear: &mut HandshakeContext<'_, A>,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let reassembled = self.wires.mend(bytes);
        let mut rest =
            match reassembled.map_err(|error| unframed(&mut self.session, ear.tx, error))? {
                Reassembly::Untorn(bytes) => bytes,
                Reassembly::Torn => return Ok(None),
                Reassembly::Whole(buffer, rest) => {
                    let proof = self.messages(ear, &mut &*buffer)?;
                    self.wires.give_back(buffer);
                    if proof.is_some() {
                        self.wires.torn.extend_from_slice(rest);
                        return Ok(proof);
                    }
                    rest
                }
            };
        let proof = self.messages(ear, &mut rest)?;
        self.wires.torn.extend_from_slice(rest);
        Ok(proof)
    }

    fn messages<A: App>(
        &mut self,
        ear: &mut HandshakeContext<'_, A>,
        rest: &mut &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        while let Some((msg, after)) =
            split_message(rest).map_err(|error| unframed(&mut self.session, ear.tx, error))?
        {
            *rest = after;
            ear.sheet.message_received(msg.version(), msg.kind(), 1);
            let was_greeted = self.session.is_version_negotiated();
            let told = self.session.on_message(&ear.cfg.session, msg, ear.tx);
            if !was_greeted && self.session.is_version_negotiated() {
                ear.app.initial_messages(&mut self.session.encoder(ear.tx));
            }
            match told.map_err(CloseReason::Session)? {
                Some(ControllerEvent::SwitchConnected(features)) => return Ok(Some(features)),
                Some(ControllerEvent::Error(error)) => {
                    ear.sheet.error_received(error.reason.kind());
                    if ear.log_limit.allow(ear.now) {
                        let (addr, error) = (self.addr, error.reason);
                        tracing::warn!(%addr, %error, "message rejected during the handshake");
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Whether a wish to listen at `wanted` is met by the listener at `there`.
pub(crate) fn is_same_listener(wanted: SocketAddr, there: SocketAddr) -> bool {
    let same_host = wanted.ip() == there.ip()
        || (wanted.ip().is_unspecified() && there.ip().is_unspecified() && wanted.is_ipv6());
    same_host && (wanted.port() == there.port() || wanted.port() == 0)
}

#[expect(clippy::indexing_slicing, reason = "a ledger has a sheet for the front, by construction")]
fn front_sheet(ledger: &CounterRegistry) -> &ThreadCounters {
    &ledger.threads[0]
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 9];
    /// To the second message that a session sends, from datapath 7.
    const FEATURES_REPLY: [u8; 32] = [
        1, 6, 0, 32, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0,
        0, 1,
    ];

    /// Says and hears nothing.
    struct Mute;

    impl App for Mute {}

    /// Turns until a worker is told something.
    fn told(
        front: &mut Acceptor<Mute>,
        worker: &Receiver<ToWorker<TcpStream, Mute>>,
    ) -> &'static str {
        for _ in 0..200 {
            match worker.try_recv() {
                Ok(ToWorker::Adopt(..)) => return "adopt",
                Ok(ToWorker::Probe(_)) => return "probe",
                Ok(ToWorker::HangUp(..)) => return "hang up",
                Ok(_) => return "something else",
                Err(_) => assert_eq!(front.turn(&mut Mute).unwrap(), Next::Turn),
            }
        }
        "nothing"
    }

    /// The word that a rival is alive crosses the order to hang up on it.
    #[test]
    fn of_two_with_one_datapath_id_one_stays_though_the_older_answers_late() {
        let mut cfg = Config::default();
        cfg.limits.duplicate_timeout = Duration::ZERO;
        let io = Epoll::new(sluice_io::WaitStrategy::default()).unwrap();
        let (to_front, inbox) = Mailbox::new(io.waker());
        let (worker, told_worker) = Mailbox::new(io.waker());
        let ledger = Arc::new(CounterRegistry::new(1));
        let mut front = Acceptor::<Mute>::new(io, Arc::new(cfg), vec![worker], inbox, ledger);
        let listener = sluice_io::sock::listen(
            ([127, 0, 0, 1], 0).into(),
            &sluice_io::sock::Options::default(),
        );
        front.listen(listener.unwrap()).unwrap();
        let addr = front.desk.listeners[0].0;
        let connect = || {
            let mut peer = TcpStream::connect(addr).unwrap();
            peer.write_all(&[&HELLO[..], &FEATURES_REPLY].concat()).unwrap();
            peer
        };
        let _first = connect();
        assert_eq!(told(&mut front, &told_worker), "adopt");
        let _second = connect();
        assert_eq!(told(&mut front, &told_worker), "probe");
        assert_eq!(told(&mut front, &told_worker), "hang up");
        to_front.put(ToAcceptor::Alive(SessionId(1)));
        to_front.put(ToAcceptor::Gone(SessionId(1)));
        assert_eq!(told(&mut front, &told_worker), "adopt");
    }
}
