//! A thread that serves switches.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use sluice_app::{App, Ctx, Mail, Sw};
use sluice_io::{ConnId, Io, IoEvent, clock};
use sluice_wire::{Features, Message};

use crate::config::Config;
use crate::gate::Gate;
use crate::ledger::{Ledger, Sheet};
use crate::mailbox::{Mailbox, Serial, ToFront, ToWorker};
use crate::peer::Handover;
use crate::reason::Reason;
use crate::serve::{Floor, Peer};

/// How often deadlines are looked at. They are seconds; being late by this much does no harm.
const SWEEP: Duration = Duration::from_millis(250);

/// How often applications show their numbers.
const SHOW: Duration = Duration::from_secs(1);

/// A thread that serves switches: its sockets, its sessions, its applications, its buffers.
pub(crate) struct Worker<I: Io, A> {
    io: I,
    hall: Hall<I::Conn, A>,
}

/// Everything of a worker but its sockets.
struct Hall<C, A> {
    app: A,
    cfg: Arc<Config>,
    peers: Vec<Option<Box<Peer>>>,
    by_serial: HashMap<Serial, ConnId>,
    /// Which numbers of switches are taken.
    sws: Vec<bool>,
    tx: Vec<u8>,
    mail: Mail,
    inbox: Receiver<ToWorker<C, A>>,
    front: Mailbox<ToFront>,
    ledger: Arc<Ledger>,
    number: usize,
    gate: Gate,
    started: Instant,
    now: Instant,
    sweep_at: Instant,
    show_at: Instant,
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
        inbox: Receiver<ToWorker<I::Conn, A>>,
        front: Mailbox<ToFront>,
        ledger: Arc<Ledger>,
        number: usize,
    ) -> Self {
        let now = clock::now();
        let hall = Hall {
            app,
            cfg,
            peers: Vec::new(),
            by_serial: HashMap::new(),
            sws: Vec::new(),
            tx: Vec::new(),
            mail: Mail::default(),
            inbox,
            front,
            ledger,
            number,
            gate: Gate::default(),
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
                IoEvent::Data(id, octets) => {
                    let heard = hall.hear(id, octets);
                    hall.say(io, id);
                    heard.unwrap_or_else(|reason| hall.end(io, id, reason));
                }
                IoEvent::Room(id) => hall.go_on(io, id),
                IoEvent::Closed(id, kind) => {
                    hall.end(io, id, kind.map_or(Reason::HungUp, Reason::Broken));
                }
                IoEvent::Woken => woken = true,
                IoEvent::Accepted(..) | IoEvent::Connected(_) | IoEvent::Refused(_) => {}
            }
        }
        let next = if woken { hall.read_inbox(io) } else { Next::Turn };
        hall.let_time_pass(io);
        hall.carry_mail(io);
        hall.ledger_sheet().turn(clock::now() - hall.started, clock::now() - now);
        Ok(next)
    }
}

impl<C, A: App> Hall<C, A> {
    fn ledger_sheet(&self) -> &Sheet {
        sheet(&self.ledger, self.number)
    }

    fn begin(&mut self, now: Instant) {
        self.now = now;
        self.app.on_time(now);
    }

    /// Serves a burst; the answers are in `tx`.
    #[inline]
    fn hear(&mut self, id: ConnId, octets: &[u8]) -> Result<(), Reason> {
        let sheet = sheet(&self.ledger, self.number);
        sheet.bursts.add(1);
        sheet.octets_received.add(octets.len() as u64);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else { return Ok(()) };
        if std::mem::take(&mut peer.is_probed) {
            self.front.put(ToFront::Alive(peer.serial));
        }
        let mut floor = Floor {
            app: &mut self.app,
            cfg: &self.cfg,
            sheet,
            mail: &mut self.mail,
            tx: &mut self.tx,
            now: self.now,
        };
        floor.burst(peer, octets)
    }

    /// Sends what is in `tx`.
    #[inline]
    fn say<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId) {
        let sheet = sheet(&self.ledger, self.number);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else {
            self.tx.clear();
            return;
        };
        let waited = peer.wires.backlog.len();
        let sent = peer.wires.say(io, id, self.now, &self.tx, &self.cfg.limits);
        self.tx.clear();
        count_sent(sheet, sent, waited, peer.wires.backlog.len());
        sheet.latency.record_n(clock::now() - self.now, 1);
    }

    /// Sends what waits.
    fn go_on<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId) {
        let sheet = sheet(&self.ledger, self.number);
        let Some(Some(peer)) = self.peers.get_mut(id.slot()) else { return };
        let waited = peer.wires.backlog.len();
        let sent = peer.wires.go_on(io, id, self.now, &self.cfg.limits);
        if sent > 0 && std::mem::take(&mut peer.is_probed) {
            // Who takes what waits is alive, and cannot answer as long as we do not read.
            self.front.put(ToFront::Alive(peer.serial));
        }
        count_sent(sheet, sent, waited, peer.wires.backlog.len());
    }

    fn read_inbox<I: Io<Conn = C>>(&mut self, io: &mut I) -> Next {
        while let Ok(what) = self.inbox.try_recv() {
            match what {
                ToWorker::Adopt(from, features) => self.adopt(io, *from, &features),
                ToWorker::Probe(serial) => self.probe(io, serial),
                ToWorker::HangUp(serial, reason) => {
                    if let Some(&id) = self.by_serial.get(&serial) {
                        self.end(io, id, reason);
                    }
                }
                ToWorker::Mail(serial, message) => self.deliver(io, serial, &message),
                ToWorker::Configure(cfg, change) => {
                    self.cfg = cfg;
                    change(&mut self.app);
                }
                ToWorker::Stop => {
                    let ids: Vec<_> = self.by_serial.values().copied().collect();
                    for id in ids {
                        self.end(io, id, Reason::Stopping);
                    }
                    return Next::Stop;
                }
            }
        }
        Next::Turn
    }

    /// Takes a proved switch, tells the applications, and serves what it said in the meantime.
    fn adopt<I: Io<Conn = C>>(&mut self, io: &mut I, from: Handover<C>, features: &Features) {
        let Handover { conn, serial, addr, datapath_id, session, wires } = from;
        let id = match io.adopt(conn) {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(datapath = %datapath_id, %addr, %error, "cannot serve");
                self.ledger_sheet().ended(Reason::Broken(error.kind()));
                self.front.put(ToFront::Gone(serial));
                return;
            }
        };
        let sw = self.number_switch();
        let from = Handover { conn: (), serial, addr, datapath_id, session, wires };
        let mut peer = Box::new(Peer::new(id, sw, from));
        self.ledger_sheet().session_up(peer.session.version());
        let (version, worker, ports) = (peer.session.version(), self.number, features.ports.len());
        tracing::info!(datapath = %datapath_id, %addr, %version, ports, worker, "switch up");
        let here = peer.session.out(&mut self.tx);
        let mut ctx = Ctx::new(self.now, sw, datapath_id, here, &mut self.mail);
        self.app.switch_up(features, &mut ctx);
        let early = std::mem::take(&mut peer.wires.torn);
        peer.wires.moved();
        self.ledger_sheet().octets_waiting.add(peer.wires.backlog.len() as u64);
        self.by_serial.insert(serial, id);
        if self.peers.len() <= id.slot() {
            self.peers.resize_with(id.slot() + 1, || None);
        }
        if let Some(place) = self.peers.get_mut(id.slot()) {
            *place = Some(peer);
        }
        // What waited at the front waits for nobody to call.
        self.go_on(io, id);
        let heard = self.hear(id, &early);
        self.say(io, id);
        heard.unwrap_or_else(|reason| self.end(io, id, reason));
    }

    /// The lowest number that no switch has.
    fn number_switch(&mut self) -> Sw {
        let at = self.sws.iter().position(|&taken| !taken).unwrap_or_else(|| {
            self.sws.push(false);
            self.sws.len() - 1
        });
        if let Some(taken) = self.sws.get_mut(at) {
            *taken = true;
        }
        Sw(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn probe<I: Io<Conn = C>>(&mut self, io: &mut I, serial: Serial) {
        let Some(&id) = self.by_serial.get(&serial) else { return };
        if let Some(Some(peer)) = self.peers.get_mut(id.slot()) {
            peer.is_probed = true;
            peer.session.probe(self.now, &mut self.tx);
        }
        self.say(io, id);
    }

    fn deliver<I: Io<Conn = C>>(&mut self, io: &mut I, serial: Serial, message: &Message) {
        let id = self.by_serial.get(&serial).copied();
        let peer = id.and_then(|id| self.peers.get_mut(id.slot())?.as_mut());
        if peer.as_ref().is_some_and(|peer| peer.wires.is_paused()) {
            return self.ledger_sheet().mail_refused.add(1);
        }
        let written = peer.map(|peer| {
            let mut out = peer.session.out(&mut self.tx);
            let xid = out.next_xid();
            (peer.id, message.emit(xid, &mut out))
        });
        match written {
            Some((id, Ok(()))) => self.say(io, id),
            Some((_, Err(no))) => {
                tracing::warn!("mail cannot be said: {no}");
                self.ledger_sheet().mail_lost.add(1);
            }
            None => self.ledger_sheet().mail_lost.add(1),
        }
    }

    /// Hands what applications wrote to others over to the front, which knows where they are.
    fn carry_mail<I: Io<Conn = C>>(&mut self, io: &mut I) {
        if self.mail.is_empty() {
            return;
        }
        for (to, message) in self.mail.take() {
            let here = self.peers.iter().flatten().find(|peer| peer.datapath_id == to);
            if let Some(serial) = here.map(|peer| peer.serial) {
                self.deliver(io, serial, &message);
                continue;
            }
            let letters_max = self.cfg.limits.mail_max;
            if !self.front.post(message, letters_max, |letter| ToFront::Mail(to, letter)) {
                self.ledger_sheet().mail_refused.add(1);
            }
        }
    }

    fn let_time_pass<I: Io<Conn = C>>(&mut self, io: &mut I) {
        if self.now < self.sweep_at {
            return;
        }
        self.sweep_at = self.now + SWEEP;
        for slot in 0..self.peers.len() {
            let Some(Some(peer)) = self.peers.get_mut(slot) else { continue };
            let (id, stuck) = (peer.id, peer.wires.is_stuck(self.now, &self.cfg.limits));
            peer.wires.tidy();
            if peer.wires.is_paused() {
                // It may have answered; it is we who do not listen. Being stuck has a limit of its own.
                peer.session.heard(self.now);
            }
            let passed = peer.session.on_time(&self.cfg.session, self.now, &mut self.tx);
            if stuck {
                self.tx.clear();
                self.end(io, id, Reason::Stuck);
                continue;
            }
            if !self.tx.is_empty() {
                self.say(io, id);
            }
            passed.unwrap_or_else(|fault| self.end(io, id, Reason::Fault(fault)));
        }
        if self.now >= self.show_at {
            self.show_at = self.now + SHOW;
            let mut gauges = Vec::new();
            self.app.gauges(&mut |gauge| gauges.push(gauge));
            if let Ok(mut shown) = self.ledger_sheet().gauges.lock() {
                *shown = gauges;
            }
        }
    }

    /// Ends a connection, whichever end began it.
    fn end<I: Io<Conn = C>>(&mut self, io: &mut I, id: ConnId, reason: Reason) {
        let Some(peer) = self.peers.get_mut(id.slot()).and_then(Option::take) else { return };
        io.close(id);
        let (datapath, addr, version) = (peer.datapath_id, peer.addr, peer.session.version());
        let sheet = sheet(&self.ledger, self.number);
        sheet.ended(reason);
        sheet.session_down(version);
        sheet.octets_waiting.sub(peer.wires.backlog.len() as u64);
        if self.gate.open(self.now) {
            match reason {
                Reason::HungUp | Reason::Stopping => {
                    tracing::info!(%datapath, %addr, %version, "switch down: {reason}");
                }
                _ => tracing::warn!(%datapath, %addr, %version, "switch down: {reason}"),
            }
        }
        self.app.switch_down(peer.sw);
        if let Some(taken) = self.sws.get_mut(peer.sw.index()) {
            *taken = false;
        }
        self.by_serial.remove(&peer.serial);
        self.front.put(ToFront::Gone(peer.serial));
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "a ledger has a sheet for every worker, by construction"
)]
#[inline]
fn sheet(ledger: &Ledger, number: usize) -> &Sheet {
    &ledger.sheets[number + 1]
}

#[inline]
fn count_sent(sheet: &Sheet, sent: usize, waited: usize, waits: usize) {
    sheet.octets_sent.add(sent as u64);
    if waits != waited {
        sheet
            .octets_waiting
            .set((sheet.octets_waiting.get() + waits as u64).saturating_sub(waited as u64));
    }
}
