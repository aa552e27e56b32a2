//! A controller in virtual time: sessions and applications of several workers, and the messages between these.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::{HashMap, Rng};
use sluice_emu::net::{ConnectionId, Controller, ControllerOutput};
use sluice_openflow::view::PacketIns;
use sluice_openflow::{DatapathId, Message, split_message};
use sluice_proto::{Config, ControllerEvent, ControllerSession};
use sluice_sdk::view::PublishedFact;
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

/// Time between two ticks of all switches, as in the engine.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// Longest delay of a message between two workers, in microseconds.
const WORKER_DELAY_MAX_US: u32 = 300;

/// A controller without threads or sockets: it does what the engine does, at the times that it is given.
#[derive(Debug)]
pub struct SimulatedController<A> {
    cfg: Config,
    workers: Vec<ControllerWorker<A>>,
    /// The worker of each connection.
    worker_of_conn: HashMap<ConnectionId, usize>,
    /// The worker and the connection of each switch.
    switches: HashMap<DatapathId, (usize, ConnectionId)>,
    next_worker: usize,
    /// Messages between workers, with the time and the worker of their arrival, in this order.
    mailbox: VecDeque<(Instant, usize, WorkerMessage)>,
    rng: Rng,
    next_tick: Option<Instant>,
}

#[derive(Debug)]
enum WorkerMessage {
    Fact(PublishedFact),
    ToSwitch(DatapathId, Message),
}

#[derive(Debug)]
struct ControllerWorker<A> {
    app: A,
    network: Network,
    /// By switch index.
    connections: Vec<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    conn: ConnectionId,
    session: ControllerSession,
    /// The start of a message whose rest has not arrived yet.
    incomplete: Vec<u8>,
    /// Set when the handshake is complete.
    datapath_id: Option<DatapathId>,
}

/// The session failed and its connection must be closed.
struct SessionFailed;

impl<A: App> SimulatedController<A> {
    /// A controller with one worker for each of `apps`. `seed` decides how long messages between workers take.
    pub fn new(apps: impl IntoIterator<Item = A>, seed: u64) -> Self {
        let worker = |(number, app)| ControllerWorker {
            app,
            network: Network::new(number),
            connections: vec![],
        };
        Self {
            cfg: Config::default(),
            workers: apps.into_iter().enumerate().map(worker).collect(),
            worker_of_conn: HashMap::default(),
            switches: HashMap::default(),
            next_worker: 0,
            mailbox: VecDeque::new(),
            rng: Rng::new(seed),
            next_tick: None,
        }
    }

    /// The network view and queues of each worker.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.workers.iter().map(|worker| &worker.network)
    }

    /// The applications of each worker.
    pub fn apps(&self) -> impl Iterator<Item = &A> {
        self.workers.iter().map(|worker| &worker.app)
    }

    /// Delivers the facts that a worker's applications published and the messages that they sent to other switches.
    fn deliver_outgoing(&mut self, from: usize, now: Instant, replies: &mut ControllerOutput) {
        let Some(worker) = self.workers.get_mut(from) else { return };
        let mut published = Vec::new();
        while worker.network.wants_iteration() {
            let publish = |facts: Arc<[_]>| published.extend_from_slice(&facts);
            worker.network.deliver(&mut worker.app, now, publish);
        }
        for to in (0..self.workers.len()).filter(|&to| to != from) {
            for fact in &published {
                self.post(now, to, WorkerMessage::Fact(fact.clone()));
            }
        }
        let Some(worker) = self.workers.get_mut(from) else { return };
        for (to, message) in worker.network.take_messages() {
            match self.switches.get(&to) {
                Some(&(worker, _)) if worker == from => {
                    self.send_to_switch(from, to, &message, replies);
                }
                Some(&(worker, _)) => {
                    self.post(now, worker, WorkerMessage::ToSwitch(to, message));
                }
                None => {}
            }
        }
    }

    /// Queues a message for a worker. Messages arrive in the order in which they were queued.
    fn post(&mut self, now: Instant, to: usize, message: WorkerMessage) {
        let delay = Duration::from_micros(self.rng.below(WORKER_DELAY_MAX_US).into());
        let last = self.mailbox.back().map_or(now, |&(at, ..)| at);
        self.mailbox.push_back(((now + delay).max(last), to, message));
    }

    fn send_to_switch(
        &mut self,
        worker: usize,
        to: DatapathId,
        message: &Message,
        replies: &mut ControllerOutput,
    ) {
        let Some(&(_, conn)) = self.switches.get(&to) else { return };
        let Some(worker) = self.workers.get_mut(worker) else { return };
        if let Some((_, connection)) = worker.connection(conn) {
            // A message that the version cannot express is dropped, as by the engine.
            let _ = connection.session.encoder(replies.bytes_to(conn)).encode(message);
        }
    }

    /// Registers a switch whose handshake is complete; an earlier connection of the same switch is closed.
    fn register_switch(
        &mut self,
        worker: usize,
        id: DatapathId,
        conn: ConnectionId,
        now: Instant,
        replies: &mut ControllerOutput,
    ) {
        if let Some((old_worker, old)) = self.switches.insert(id, (worker, conn))
            && old != conn
        {
            self.remove_connection(old_worker, old, now);
            replies.close(old);
        }
    }

    fn remove_connection(&mut self, worker: usize, conn: ConnectionId, now: Instant) {
        self.worker_of_conn.remove(&conn);
        let Some(worker) = self.workers.get_mut(worker) else { return };
        let Some((sw, _)) = worker.connection(conn) else { return };
        let connection = worker.connections.get_mut(sw.index()).and_then(Option::take);
        if let Some(id) = connection.and_then(|connection| connection.datapath_id) {
            worker.app.on_switch_disconnected(sw, now, &mut worker.network);
            if self.switches.get(&id).is_some_and(|&(_, current)| current == conn) {
                self.switches.remove(&id);
            }
        }
    }
}

impl<A: App> ControllerWorker<A> {
    fn connection(&mut self, conn: ConnectionId) -> Option<(SwitchIndex, &mut Connection)> {
        let slots = self.connections.iter_mut().enumerate();
        let mut connections = slots.filter_map(|(n, slot)| Some((n, slot.as_mut()?)));
        let (n, connection) = connections.find(|(_, connection)| connection.conn == conn)?;
        Some((switch_index(n), connection))
    }

    /// Processes bytes that a connection received. Returns the switch whose handshake they completed, if any.
    fn receive(
        &mut self,
        cfg: &Config,
        now: Instant,
        (conn, bytes): (ConnectionId, &[u8]),
        tx: &mut Vec<u8>,
    ) -> Result<Option<DatapathId>, SessionFailed> {
        let (app, network) = (&mut self.app, &mut self.network);
        let slots = self.connections.iter_mut().enumerate();
        let mut connections = slots.filter_map(|(n, slot)| Some((n, slot.as_mut()?)));
        let Some((n, connection)) = connections.find(|(_, it)| it.conn == conn) else {
            return Ok(None);
        };
        let sw = switch_index(n);
        let (mut urgent, mut connected) = (Vec::new(), None);
        connection.incomplete.extend_from_slice(bytes);
        connection.session.record_activity(now);
        let received = std::mem::take(&mut connection.incomplete);
        let mut rest = &*received;
        loop {
            if let Some(id) = connection.datapath_id {
                let mut packet_ins = PacketIns::new(connection.session.version(), rest);
                let encoder = connection.session.encoder(tx);
                let mut ctx = Ctx::new(now, sw, id, encoder, &mut urgent, network);
                app.on_packet_ins(&mut packet_ins, &mut ctx);
                packet_ins.by_ref().for_each(drop);
                rest = packet_ins.rest();
            }
            let Some((msg, after)) = split_message(rest).map_err(|_| SessionFailed)? else { break };
            rest = after;
            let was_negotiated = connection.session.is_version_negotiated();
            let event = connection.session.on_message(cfg, msg, tx).map_err(|_| SessionFailed)?;
            if !was_negotiated && connection.session.is_version_negotiated() {
                app.initial_messages(&mut connection.session.encoder(tx));
            }
            let Some(event) = event else { continue };
            if let ControllerEvent::SwitchConnected(features) = &event {
                connection.datapath_id = Some(features.datapath_id);
                connected = connection.datapath_id;
            }
            let Some(id) = connection.datapath_id else { continue };
            let encoder = connection.session.encoder(tx);
            dispatch(app, event, &mut Ctx::new(now, sw, id, encoder, &mut urgent, network));
        }
        connection.incomplete = rest.to_vec();
        tx.splice(..0, urgent);
        Ok(connected)
    }

    /// Runs the timers of all connections. Returns those that timed out.
    fn tick(
        &mut self,
        cfg: &Config,
        now: Instant,
        replies: &mut ControllerOutput,
    ) -> Vec<ConnectionId> {
        let mut timed_out = Vec::new();
        self.network.expire(now);
        for (n, slot) in self.connections.iter_mut().enumerate() {
            let Some(connection) = slot else { continue };
            let (conn, mut urgent) = (connection.conn, Vec::new());
            let tx = replies.bytes_to(conn);
            if connection.session.handle_timeouts(cfg, now, tx).is_err() {
                timed_out.push(conn);
            } else if let Some(id) = connection.datapath_id {
                let (encoder, network) = (connection.session.encoder(tx), &mut self.network);
                let sw = switch_index(n);
                self.app.on_tick(&mut Ctx::new(now, sw, id, encoder, &mut urgent, network));
                tx.extend(urgent);
            }
        }
        timed_out
    }
}

fn switch_index(n: usize) -> SwitchIndex {
    SwitchIndex(u32::try_from(n).unwrap_or(u32::MAX))
}

/// Passes an event of a session to the application.
fn dispatch<A: App>(app: &mut A, event: ControllerEvent<'_>, ctx: &mut Ctx<'_>) {
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
    fn on_open(&mut self, now: Instant, conn: ConnectionId, replies: &mut ControllerOutput) {
        let number = self.next_worker % self.workers.len().max(1);
        self.next_worker += 1;
        let Some(worker) = self.workers.get_mut(number) else { return };
        let session = ControllerSession::open(&self.cfg, now, replies.bytes_to(conn));
        let connection =
            Some(Connection { conn, session, incomplete: Vec::new(), datapath_id: None });
        match worker.connections.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = connection,
            None => worker.connections.push(connection),
        }
        self.worker_of_conn.insert(conn, number);
        self.next_tick.get_or_insert(now + TICK_INTERVAL);
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        replies: &mut ControllerOutput,
    ) {
        let Some(&number) = self.worker_of_conn.get(&conn) else { return };
        let Some(worker) = self.workers.get_mut(number) else { return };
        worker.app.on_iteration(now);
        match worker.receive(&self.cfg, now, (conn, bytes), replies.bytes_to(conn)) {
            Ok(Some(id)) => self.register_switch(number, id, conn, now, replies),
            Ok(None) => {}
            Err(SessionFailed) => {
                self.remove_connection(number, conn, now);
                replies.close(conn);
            }
        }
        self.deliver_outgoing(number, now, replies);
    }

    fn on_closed(&mut self, now: Instant, conn: ConnectionId, replies: &mut ControllerOutput) {
        let Some(&number) = self.worker_of_conn.get(&conn) else { return };
        self.remove_connection(number, conn, now);
        self.deliver_outgoing(number, now, replies);
    }

    fn on_tick(&mut self, now: Instant, replies: &mut ControllerOutput) {
        while self.mailbox.front().is_some_and(|&(at, ..)| at <= now) {
            let Some((_, to, message)) = self.mailbox.pop_front() else { break };
            let Some(worker) = self.workers.get_mut(to) else { continue };
            match message {
                WorkerMessage::Fact(fact) => {
                    worker.app.on_iteration(now);
                    if worker.network.apply_remote(&fact) {
                        worker.app.on_fact(&fact, now, &mut worker.network);
                    }
                }
                WorkerMessage::ToSwitch(id, message) => {
                    self.send_to_switch(to, id, &message, replies);
                }
            }
            self.deliver_outgoing(to, now, replies);
        }
        if self.next_tick.is_none_or(|at| at <= now) {
            self.next_tick = Some(now + TICK_INTERVAL);
            for number in 0..self.workers.len() {
                let Some(worker) = self.workers.get_mut(number) else { continue };
                worker.app.on_iteration(now);
                for conn in worker.tick(&self.cfg, now, replies) {
                    self.remove_connection(number, conn, now);
                    replies.close(conn);
                }
                self.deliver_outgoing(number, now, replies);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let message = self.mailbox.front().map(|&(at, ..)| at);
        [message, self.next_tick].into_iter().flatten().min()
    }
}
