//! A thread that serves switches.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Io, IoEvent, clock};
use sluice_openflow::{DatapathId, Message, SwitchFeatures};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;
use crate::counters::{CounterRegistry, ThreadCounters};
use crate::dispatch::{ConnectedSwitch, Dispatcher};
use crate::log_limit::LogLimiter;
use crate::mailbox::{Mailbox, SessionId, ToAcceptor, ToWorker};
use crate::message_batches::MessageBatches;

/// How often deadlines are looked at. They are seconds; being late by this much does no harm.
const SWEEP: Duration = Duration::from_millis(250);

/// How often applications show their numbers.
const SHOW: Duration = Duration::from_secs(1);

/// How often within a turn what is told leads to more that is told; what is left is for the next turn.
const CARRIED_MAX: usize = 8;

/// A thread that serves switches: its sockets, its sessions, its applications, its buffers.
pub(crate) struct Worker<I: Io, A> {
    io: I,
    hall: WorkerState<I::Conn, A>,
}

/// Everything of a worker but its sockets.
struct WorkerState<C, A> {
    app: A,
    cfg: Arc<Config>,
    peers: Vec<Option<Box<ConnectedSwitch>>>,
    by_serial: HashMap<SessionId, ConnId>,
    by_datapath: HashMap<DatapathId, ConnId>,
    /// Which numbers of switches are taken.
    sws: Vec<bool>,
    tx: Vec<u8>,
    /// What goes before all that waits.
    ahead: Vec<u8>,
    network: Network,
    bundles: MessageBatches,
    post: WorkerMailboxes<C, A>,
    ledger: Arc<CounterRegistry>,
    log_limit: LogLimiter,
    started: Instant,
    now: Instant,
    sweep_at: Instant,
    show_at: Instant,
}

/// The ways to other threads, and what comes from them.
pub(crate) struct WorkerMailboxes<C, A> {
    pub(crate) inbox: Receiver<ToWorker<C, A>>,
    pub(crate) front: Mailbox<ToAcceptor<A>>,
    /// All workers, this one as well.
    pub(crate) workers: Vec<Mailbox<ToWorker<C, A>>>,
    /// Which of them this is.
    pub(crate) number: usize,
}

/// Whether there is another turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Turn,
    Stop,
}

impl<I: Io, A: App> Worker<I, A> {
    pub(crate) fn new(
        io: I,
        app: A,
        cfg: Arc<Config>,
        post: WorkerMailboxes<I::Conn, A>,
        ledger: Arc<CounterRegistry>,
    ) -> Self {
        let now = clock::now();
        let hall = WorkerState {
            app,
            cfg,
            peers: Vec::new(),
            by_serial: HashMap::new(),
            by_datapath: HashMap::new(),
            sws: Vec::new(),
            tx: Vec::new(),
            ahead: Vec::new(),
            network: Network::new(post.number),
            bundles: MessageBatches::default(),
            post,
            ledger,
            log_limit: LogLimiter::default(),
            started: now,
            now,
            sweep_at: now,
            show_at: now,
        };
        Self { io, hall }
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.turn()? == Next::Turn {}
        Ok(())
    }

    /// One turn: wait; hear each switch and answer it; let time pass; carry the mail.
    ///
    /// A switch is answered as soon as its burst is heard, in one write: all switches share one transmit buffer, and
    /// none waits for the last. `docs/adr/0002-answer-per-burst.md` has the reasons.
    pub(crate) fn turn(&mut self) -> io::Result<Next> {
        let (io, hall) = (&mut self.io, &mut self.hall);
        let now = io.wait(Some(hall.sweep_at))?;
        hall.begin(now);
        let mut woken = false;
        while let Some(event) = io.next_event() {
            match event {
                IoEvent::Data(id, bytes) => {
                    let heard = hall.hear(id, bytes);
                    hall.say(io, id);
                    heard.unwrap_or_else(|reason| hall.end(io, id, reason));
                }
                IoEvent::Writable(id) => hall.go_on(io, id),
                IoEvent::Closed(id, kind) => {
                    hall.end(
                        io,
                        id,
                        kind.map_or(CloseReason::ClosedByPeer, CloseReason::ConnectionError),
                    );
                }
                IoEvent::Woken => woken = true,
                IoEvent::Accepted(..) | IoEvent::Connected(_) | IoEvent::AcceptFailed(_) => {}
            }
        }
        let next = if woken { hall.read_inbox(io) } else { Next::Turn };
        hall.let_time_pass(io);
        hall.carry(io);
        hall.ledger_sheet().iteration(clock::now() - hall.started, clock::now() - now);
        Ok(next)
    }
}

impl<C, A: App> WorkerState<C, A> {
    fn ledger_sheet(&self) -> &ThreadCounters {
        sheet(&self.ledger, self.post.number)
    }

    fn begin(&mut self, now: Instant) {
        self.now = now;
        self.app.on_iteration(now);
    }

    /// Serves a burst; the answers are in `tx`.
    #[inline]
    fn hear(&mut self, id: ConnId, bytes: &[u8]) -> Result<(), CloseReason> {
        let sheet = sheet(&self.ledger, self.post.number);
        sheet.reads.add(1);
        sheet.bytes_received.add(bytes.len() as u64);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else { return Ok(()) };
        if std::mem::take(&mut peer.is_probed) {
            self.post.front.put(ToAcceptor::Alive(peer.serial));
        }
        let mut floor = Dispatcher {
            app: &mut self.app,
            cfg: &self.cfg,
            sheet,
            network: &mut self.network,
            tx: &mut self.tx,
            ahead: &mut self.ahead,
            now: self.now,
        };
        floor.burst(peer, bytes)
    }

    /// Sends what is in `tx`.
    #[inline]
    fn say<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId) {
        let sheet = sheet(&self.ledger, self.post.number);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else {
            self.tx.clear();
            self.ahead.clear();
            return;
        };
        let waited = peer.wires.backlog.len();
        let sent = if self.ahead.is_empty() {
            peer.wires.say(io, id, self.now, &self.tx, &self.cfg.limits)
        } else {
            peer.wires.say_ahead(io, id, self.now, (&mut self.ahead, &self.tx), &self.cfg.limits)
        };
        self.tx.clear();
        count_sent(sheet, sent, waited, peer.wires.backlog.len());
        sheet.response_latency.record_n(clock::now() - self.now, 1);
    }

    /// Sends what waits.
    fn go_on<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId) {
        let sheet = sheet(&self.ledger, self.post.number);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else { return };
        let waited = peer.wires.backlog.len();
        let sent = peer.wires.go_on(io, id, self.now, &self.cfg.limits);
        if sent > 0 && std::mem::take(&mut peer.is_probed) {
            // Who takes what waits is alive, and cannot answer as long as we do not read.
            self.post.front.put(ToAcceptor::Alive(peer.serial));
        }
        count_sent(sheet, sent, waited, peer.wires.backlog.len());
    }

    fn read_inbox<I: Io<Conn = C>>(&mut self, io: &mut I) -> Next {
        while let Ok(what) = self.post.inbox.try_recv() {
            match what {
                ToWorker::Adopt(from, features) => self.adopt(io, *from, &features),
                ToWorker::Probe(serial) => self.probe(io, serial),
                ToWorker::HangUp(serial, reason) => {
                    if let Some(&id) = self.by_serial.get(&serial) {
                        self.end(io, id, reason);
                    }
                }
                ToWorker::Mail(serial, message) => {
                    let id = self.by_serial.get(&serial).copied();
                    self.deliver(io, id, std::iter::once(&*message));
                }
                ToWorker::Told(facts) => {
                    for told in &*facts {
                        if self.network.apply_remote(told) {
                            self.app.on_fact(told, self.now, &mut self.network);
                        }
                    }
                }
                ToWorker::Configure(cfg, change) => {
                    self.cfg = cfg;
                    change(&mut self.app);
                }
                ToWorker::Stop => {
                    let ids: Vec<_> = self.by_serial.values().copied().collect();
                    for id in ids {
                        self.end(io, id, CloseReason::Shutdown);
                    }
                    return Next::Stop;
                }
            }
        }
        Next::Turn
    }

    /// Takes a proved switch, tells the applications, and serves what it said in the meantime.
    fn adopt<I: Io<Conn = C>>(
        &mut self,
        io: &mut I,
        from: EstablishedConnection<C>,
        features: &SwitchFeatures,
    ) {
        let EstablishedConnection { conn, serial, addr, datapath_id, session, wires } = from;
        let id = match io.adopt(conn) {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(dpid = %datapath_id, %addr, %error, "cannot register connection");
                self.ledger_sheet().connection_closed(CloseReason::ConnectionError(error.kind()));
                self.post.front.put(ToAcceptor::Gone(serial));
                return;
            }
        };
        let sw = self.number_switch();
        let from = EstablishedConnection { conn: (), serial, addr, datapath_id, session, wires };
        let mut peer = Box::new(ConnectedSwitch::new(id, sw, from));
        self.ledger_sheet().switch_connected(peer.session.version());
        let (version, worker) = (peer.session.version(), self.post.number);
        let ports = features.ports.len();
        tracing::info!(dpid = %datapath_id, %addr, %version, ports, worker, "switch connected");
        let here = peer.session.encoder(&mut self.tx);
        let mut ctx = Ctx::new(self.now, sw, datapath_id, here, &mut self.ahead, &mut self.network);
        self.app.on_switch_connected(features, &mut ctx);
        let early = std::mem::take(&mut peer.wires.torn);
        peer.wires.moved();
        peer.wires.round_trip = peer.session.handshake_duration();
        self.ledger_sheet().backlog_bytes.add(peer.wires.backlog.len() as u64);
        self.by_serial.insert(serial, id);
        self.by_datapath.insert(datapath_id, id);
        if self.peers.len() <= id.slot() {
            self.peers.resize_with(id.slot() + 1, || None);
        }
        if let Some(place) = self.peers.get_mut(id.slot()) {
            *place = Some(peer);
        }
        // What waited at the front waits for nobody to call.
        self.go_on(io, id);
        // What the applications begin with comes first of all.
        self.say(io, id);
        let heard = self.hear(id, &early);
        self.say(io, id);
        heard.unwrap_or_else(|reason| self.end(io, id, reason));
    }

    /// The lowest number that no switch has.
    fn number_switch(&mut self) -> SwitchIndex {
        let at = self.sws.iter().position(|&taken| !taken).unwrap_or_else(|| {
            self.sws.push(false);
            self.sws.len() - 1
        });
        if let Some(taken) = self.sws.get_mut(at) {
            *taken = true;
        }
        SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn probe<I: Io<Conn = C>>(&mut self, io: &mut I, serial: SessionId) {
        let Some(&id) = self.by_serial.get(&serial) else { return };
        if let Some(Some(peer)) = self.peers.get_mut(id.slot()) {
            peer.is_probed = true;
            peer.session.probe(self.now, &mut self.ahead);
        }
        self.say(io, id);
    }

    /// Writes messages of applications to a switch, which is perhaps not there.
    fn deliver<'m, I: Io<Conn = C>>(
        &mut self,
        io: &mut I,
        id: Option<ConnId>,
        letters: impl ExactSizeIterator<Item = &'m Message>,
    ) {
        let count = letters.len() as u64;
        let Some(Some(peer)) = id.and_then(|id| self.peers.get_mut(id.slot())) else {
            return self.ledger_sheet().app_messages_undeliverable.add(count);
        };
        if peer.wires.is_paused() {
            return self.ledger_sheet().app_messages_dropped.add(count);
        }
        let id = peer.id;
        for message in letters {
            if let Err(error) = peer.session.encoder(&mut self.tx).encode(message) {
                if self.log_limit.allow(self.now) {
                    let dpid = peer.datapath_id;
                    tracing::warn!(%dpid, %error, "message of an application cannot be encoded");
                }
                sheet(&self.ledger, self.post.number).app_messages_undeliverable.add(1);
            }
        }
        self.say(io, id);
    }

    /// Carries what applications said beyond the switches that they heard: facts to all applications, letters to their
    /// switches or to the front, which knows where those of others are.
    fn carry<I: Io<Conn = C>>(&mut self, io: &mut I) {
        if self.network.is_idle() {
            return;
        }
        for _ in 0..CARRIED_MAX {
            let facts = self.network.take_facts();
            if facts.is_empty() {
                break;
            }
            let facts: Arc<[_]> = facts.into();
            for (number, worker) in self.post.workers.iter().enumerate() {
                if number != self.post.number {
                    worker.put(ToWorker::Told(facts.clone()));
                }
            }
            for told in &*facts {
                self.app.on_fact(told, self.now, &mut self.network);
            }
        }
        self.log_reports();
        let mut bundles = std::mem::take(&mut self.bundles);
        bundles.sort(self.network.take_messages());
        // All that goes to one switch goes in one write, in its order; who was written to first is first.
        for (to, letters) in bundles.each() {
            self.send_letters(io, to, letters);
        }
        self.bundles = bundles;
    }

    /// Logs what applications have to say to people.
    fn log_reports(&mut self) {
        let (reports, more) = self.network.take_reports();
        for sentence in reports {
            if self.log_limit.allow(self.now) {
                tracing::warn!("{sentence}");
            }
        }
        self.log_limit.add_suppressed(more);
    }

    fn send_letters<I: Io<Conn = C>>(
        &mut self,
        io: &mut I,
        to: DatapathId,
        letters: &mut Vec<Message>,
    ) {
        if let Some(&id) = self.by_datapath.get(&to) {
            self.deliver(io, Some(id), letters.iter());
            return letters.clear();
        }
        let letters_max = self.cfg.limits.mail_max;
        for message in letters.drain(..) {
            if !self.post.front.post(message, letters_max, |letter| ToAcceptor::Mail(to, letter)) {
                self.ledger_sheet().app_messages_dropped.add(1);
            }
        }
    }

    fn let_time_pass<I: Io<Conn = C>>(&mut self, io: &mut I) {
        if self.now < self.sweep_at {
            return;
        }
        self.sweep_at = self.now + SWEEP;
        self.network.expire(self.now);
        for slot in 0..self.peers.len() {
            let Some(Some(peer)) = self.peers.get_mut(slot) else { continue };
            let (id, stuck) = (peer.id, peer.wires.is_stuck(self.now, &self.cfg.limits));
            peer.wires.tidy();
            peer.wires.on_time(io, id, self.now, &self.cfg.limits);
            if peer.wires.is_paused() {
                // It may have answered; it is we who do not listen. Being stuck has a limit of its own.
                peer.session.record_activity(self.now);
            }
            let passed = peer.session.handle_timeouts(&self.cfg.session, self.now, &mut self.ahead);
            let (sw, datapath_id) = (peer.sw, peer.datapath_id);
            let here = peer.session.encoder(&mut self.tx);
            let (ahead, network) = (&mut self.ahead, &mut self.network);
            self.app.on_tick(&mut Ctx::new(self.now, sw, datapath_id, here, ahead, network));
            if stuck {
                self.tx.clear();
                self.ahead.clear();
                self.end(io, id, CloseReason::SendTimeout);
                continue;
            }
            if !self.tx.is_empty() || !self.ahead.is_empty() {
                self.say(io, id);
            }
            passed.unwrap_or_else(|fault| self.end(io, id, CloseReason::Session(fault)));
        }
        if self.now >= self.show_at {
            self.show_at = self.now + SHOW;
            let mut metrics = Vec::new();
            self.app.metrics(&mut |metric| metrics.push(metric));
            if let Ok(mut shown) = self.ledger_sheet().app_metrics.lock() {
                *shown = metrics;
            }
        }
    }

    /// Ends a connection, whichever end began it.
    fn end<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId, reason: CloseReason) {
        let Some(peer) = self.peers.get_mut(id.slot()).and_then(Option::take) else { return };
        io.close(id);
        let (datapath, addr, version) = (peer.datapath_id, peer.addr, peer.session.version());
        let sheet = sheet(&self.ledger, self.post.number);
        sheet.connection_closed(reason);
        sheet.switch_disconnected(version);
        sheet.backlog_bytes.sub(peer.wires.backlog.len() as u64);
        if self.log_limit.allow(self.now) {
            let (dpid, label) = (datapath, reason.label());
            if reason.is_normal() {
                tracing::info!(%dpid, %addr, %version, reason = label, "switch disconnected");
            } else {
                tracing::warn!(%dpid, %addr, %version, reason = label, "switch disconnected: {reason}");
            }
        }
        self.app.on_switch_disconnected(peer.sw, self.now, &mut self.network);
        if let Some(taken) = self.sws.get_mut(peer.sw.index()) {
            *taken = false;
        }
        self.by_serial.remove(&peer.serial);
        self.by_datapath.remove(&datapath);
        self.post.front.put(ToAcceptor::Gone(peer.serial));
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "a ledger has a sheet for every worker, by construction"
)]
#[inline]
fn sheet(ledger: &CounterRegistry, number: usize) -> &ThreadCounters {
    &ledger.threads[number + 1]
}

#[inline]
fn count_sent(sheet: &ThreadCounters, sent: usize, waited: usize, waits: usize) {
    sheet.bytes_sent.add(sent as u64);
    if waits != waited {
        sheet
            .backlog_bytes
            .set((sheet.backlog_bytes.get() + waits as u64).saturating_sub(waited as u64));
    }
}
