//! A controller in virtual time: sessions and applications of several workers, and what goes between them.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_emu::net::{Conn, Controller, Replies};
use sluice_openflow::{DatapathId, Message, PacketIns, split_message};
use sluice_proto::{Config, ControllerEvent, ControllerSession};
use sluice_sdk::view::PublishedFact;
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

/// How often time passes for every switch, as in the engine.
const SWEEP: Duration = Duration::from_millis(250);

/// Longest time that something takes from worker to worker, in microseconds.
const HOP_MAX_US: u32 = 300;

/// How often within a turn what is told leads to more that is told.
const CARRIED_MAX: usize = 8;

/// A controller that owns no thread: it does what the engine does, in the time that it is told.
#[derive(Debug)]
pub struct SimulatedController<A> {
    cfg: Config,
    workers: Vec<Worker<A>>,
    /// Which worker has a connection, and since when there is one.
    homes: HashMap<Conn, usize>,
    /// Which connection a switch has, and at which worker.
    switches: HashMap<DatapathId, (usize, Conn)>,
    next_worker: usize,
    post: VecDeque<(Instant, usize, Letter)>,
    rng: Rng,
    sweep_at: Option<Instant>,
}

#[derive(Debug)]
enum Letter {
    Told(PublishedFact),
    Mail(DatapathId, Message),
}

#[derive(Debug)]
struct Worker<A> {
    app: A,
    network: Network,
    peers: Vec<Option<Peer>>,
}

/// One connection.
#[derive(Debug)]
struct Peer {
    conn: Conn,
    session: ControllerSession,
    torn: Vec<u8>,
    /// Once it is up.
    id: Option<DatapathId>,
}

impl<A: App> SimulatedController<A> {
    /// A controller with the applications of `apps`, one worker each; `seed` is what decides how long letters take
    /// from one to the other.
    pub fn new(apps: impl IntoIterator<Item = A>, seed: u64) -> Self {
        let worker = |(number, app)| Worker { app, network: Network::new(number), peers: vec![] };
        Self {
            cfg: Config::default(),
            workers: apps.into_iter().enumerate().map(worker).collect(),
            homes: HashMap::new(),
            switches: HashMap::new(),
            next_worker: 0,
            post: VecDeque::new(),
            rng: Rng::new(seed),
            sweep_at: None,
        }
    }

    /// The network as each worker knows it.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.workers.iter().map(|worker| &worker.network)
    }

    /// The applications of each worker.
    pub fn apps(&self) -> impl Iterator<Item = &A> {
        self.workers.iter().map(|worker| &worker.app)
    }

    /// Carries what the applications of a worker said beyond the switch that they heard.
    fn carry(&mut self, number: usize, now: Instant, replies: &mut Replies) {
        for _ in 0..CARRIED_MAX {
            let Some(worker) = self.workers.get_mut(number) else { return };
            let facts = worker.network.take_facts();
            if facts.is_empty() {
                break;
            }
            for told in &facts {
                worker.app.on_fact(told, now, &mut worker.network);
            }
            for to in (0..self.workers.len()).filter(|&to| to != number) {
                for told in &facts {
                    self.post(now, to, Letter::Told(told.clone()));
                }
            }
        }
        let Some(worker) = self.workers.get_mut(number) else { return };
        for (to, message) in worker.network.take_messages() {
            match self.switches.get(&to) {
                Some(&(home, _)) if home == number => self.deliver(number, to, &message, replies),
                Some(&(home, _)) => self.post(now, home, Letter::Mail(to, message)),
                None => {}
            }
        }
    }

    fn post(&mut self, now: Instant, to: usize, letter: Letter) {
        let hop = Duration::from_micros(self.rng.below(HOP_MAX_US).into());
        // In their order, as through a queue.
        let last = self.post.back().map_or(now, |&(at, ..)| at);
        self.post.push_back(((now + hop).max(last), to, letter));
    }

    fn deliver(&mut self, number: usize, to: DatapathId, message: &Message, replies: &mut Replies) {
        let Some(&(_, conn)) = self.switches.get(&to) else { return };
        let Some(worker) = self.workers.get_mut(number) else { return };
        if let Some((_, peer)) = worker.peer(conn) {
            // What a version cannot say is left out, as in the engine.
            let _ = peer.session.encoder(replies.to(conn)).encode(message);
        }
    }

    /// A switch is up at `number`; a connection that it had before is hung up.
    fn admit(
        &mut self,
        number: usize,
        id: DatapathId,
        conn: Conn,
        now: Instant,
        replies: &mut Replies,
    ) {
        if let Some((home, old)) = self.switches.insert(id, (number, conn))
            && old != conn
        {
            self.end(home, old, now);
            replies.hang_up(old);
        }
    }

    fn end(&mut self, number: usize, conn: Conn, now: Instant) {
        self.homes.remove(&conn);
        let Some(worker) = self.workers.get_mut(number) else { return };
        let Some((sw, _)) = worker.peer(conn) else { return };
        let peer = worker.peers.get_mut(sw.index()).and_then(Option::take);
        if let Some(id) = peer.and_then(|peer| peer.id) {
            worker.app.on_switch_disconnected(sw, now, &mut worker.network);
            if self.switches.get(&id).is_some_and(|&(_, current)| current == conn) {
                self.switches.remove(&id);
            }
        }
    }
}

impl<A: App> Worker<A> {
    fn peer(&mut self, conn: Conn) -> Option<(SwitchIndex, &mut Peer)> {
        let mut peers = self.peers.iter_mut().enumerate();
        let (at, peer) = peers.find(|(_, peer)| peer.as_ref().is_some_and(|it| it.conn == conn))?;
        Some((SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX)), peer.as_mut()?))
    }

    /// Hears bytes of a connection; the switch that came up with them, if one did. An error is a reason to hang up.
    fn hear(
        &mut self,
        cfg: &Config,
        now: Instant,
        (conn, bytes): (Conn, &[u8]),
        tx: &mut Vec<u8>,
    ) -> Result<Option<DatapathId>, ()> {
        let (app, network) = (&mut self.app, &mut self.network);
        let found = self.peers.iter_mut().enumerate();
        let mut found = found.filter_map(|(at, peer)| Some((at, peer.as_mut()?)));
        let Some((at, peer)) = found.find(|(_, peer)| peer.conn == conn) else { return Ok(None) };
        let sw = SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX));
        let (mut ahead, mut came_up) = (Vec::new(), None);
        peer.torn.extend_from_slice(bytes);
        peer.session.record_activity(now);
        let heard = std::mem::take(&mut peer.torn);
        let mut rest = &*heard;
        loop {
            if let Some(id) = peer.id {
                let mut frames = PacketIns::new(peer.session.version(), rest);
                let here = peer.session.encoder(tx);
                let mut ctx = Ctx::new(now, sw, id, here, &mut ahead, network);
                app.on_packet_ins(&mut frames, &mut ctx);
                frames.by_ref().for_each(drop);
                rest = frames.rest();
            }
            let Some((msg, after)) = split_message(rest).map_err(drop)? else { break };
            rest = after;
            let was_greeted = peer.session.is_version_negotiated();
            let event = peer.session.on_message(cfg, msg, tx).map_err(drop)?;
            if !was_greeted && peer.session.is_version_negotiated() {
                app.initial_messages(&mut peer.session.encoder(tx));
            }
            let Some(event) = event else { continue };
            if let ControllerEvent::SwitchConnected(features) = &event {
                peer.id = Some(features.datapath_id);
                came_up = peer.id;
            }
            let Some(id) = peer.id else { continue };
            let here = peer.session.encoder(tx);
            tell(app, event, &mut Ctx::new(now, sw, id, here, &mut ahead, network));
        }
        peer.torn = rest.to_vec();
        tx.splice(..0, ahead);
        Ok(came_up)
    }

    fn time_passes(&mut self, cfg: &Config, now: Instant, replies: &mut Replies) -> Vec<Conn> {
        let mut over = Vec::new();
        self.network.on_tick(now);
        for (at, peer) in self.peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            let (conn, mut ahead) = (peer.conn, Vec::new());
            let tx = replies.to(conn);
            if peer.session.handle_timeouts(cfg, now, tx).is_err() {
                over.push(conn);
            } else if let Some(id) = peer.id {
                let sw = SwitchIndex(u32::try_from(at).unwrap_or(u32::MAX));
                let (here, network) = (peer.session.encoder(tx), &mut self.network);
                self.app.on_tick(&mut Ctx::new(now, sw, id, here, &mut ahead, network));
                tx.extend(ahead);
            }
        }
        over
    }
}

fn tell<A: App>(app: &mut A, event: ControllerEvent<'_>, ctx: &mut Ctx<'_>) {
    match event {
        ControllerEvent::SwitchConnected(features) => app.on_switch_connected(&features, ctx),
        ControllerEvent::PacketIn(p) => _ = app.on_packet_in(&p, ctx),
        ControllerEvent::FlowRemoved(removed) => app.on_flow_removed(&removed, ctx),
        ControllerEvent::PortStatus(status) => app.on_port_status(&status, ctx),
        ControllerEvent::Error(error) => app.on_error(&error, ctx),
        ControllerEvent::BarrierReply(xid) => app.on_barrier_reply(xid, ctx),
        ControllerEvent::MultipartReply(xid, kind, body) => {
            app.on_multipart_reply(xid, kind, &body, ctx);
        }
        ControllerEvent::RoleReply(_)
        | ControllerEvent::Malformed(..)
        | ControllerEvent::Other(_) => {}
    }
}

impl<A: App> Controller for SimulatedController<A> {
    fn on_open(&mut self, now: Instant, conn: Conn, replies: &mut Replies) {
        let number = self.next_worker % self.workers.len().max(1);
        self.next_worker += 1;
        let Some(worker) = self.workers.get_mut(number) else { return };
        let session = ControllerSession::open(&self.cfg, now, replies.to(conn));
        let peer = Some(Peer { conn, session, torn: Vec::new(), id: None });
        match worker.peers.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = peer,
            None => worker.peers.push(peer),
        }
        self.homes.insert(conn, number);
        self.sweep_at.get_or_insert(now + SWEEP);
    }

    fn on_bytes(&mut self, now: Instant, conn: Conn, bytes: &[u8], replies: &mut Replies) {
        let Some(&number) = self.homes.get(&conn) else { return };
        let Some(worker) = self.workers.get_mut(number) else { return };
        worker.app.on_iteration(now);
        match worker.hear(&self.cfg, now, (conn, bytes), replies.to(conn)) {
            Ok(Some(id)) => self.admit(number, id, conn, now, replies),
            Ok(None) => {}
            Err(()) => {
                self.end(number, conn, now);
                replies.hang_up(conn);
            }
        }
        self.carry(number, now, replies);
    }

    fn on_closed(&mut self, now: Instant, conn: Conn, replies: &mut Replies) {
        let Some(&number) = self.homes.get(&conn) else { return };
        self.end(number, conn, now);
        self.carry(number, now, replies);
    }

    fn on_time(&mut self, now: Instant, replies: &mut Replies) {
        while self.post.front().is_some_and(|&(at, ..)| at <= now) {
            let Some((_, to, letter)) = self.post.pop_front() else { break };
            let Some(worker) = self.workers.get_mut(to) else { continue };
            match letter {
                Letter::Told(told) => {
                    worker.app.on_iteration(now);
                    if worker.network.apply_remote(&told) {
                        worker.app.on_fact(&told, now, &mut worker.network);
                    }
                }
                Letter::Mail(id, message) => self.deliver(to, id, &message, replies),
            }
            self.carry(to, now, replies);
        }
        if self.sweep_at.is_none_or(|at| at <= now) {
            self.sweep_at = Some(now + SWEEP);
            for number in 0..self.workers.len() {
                let Some(worker) = self.workers.get_mut(number) else { continue };
                worker.app.on_iteration(now);
                for conn in worker.time_passes(&self.cfg, now, replies) {
                    self.end(number, conn, now);
                    replies.hang_up(conn);
                }
                self.carry(number, now, replies);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let letter = self.post.front().map(|&(at, ..)| at);
        [letter, self.sweep_at].into_iter().flatten().min()
    }
}
