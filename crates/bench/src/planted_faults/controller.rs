//! A simulated controller with faults.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_io::simulated::{PeerId, SimulatedKernel};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, Encoder, Ethernet, Field, FlowMod, Instruction, MessageType, PacketOutRef, PortNo,
    RawMessage, Version, split_message,
};

/// How the controller behaves. The default answers each request once and at once.
#[derive(Debug, Clone, Default)]
pub(super) struct Behaviour {
    /// Time that each request takes; they are processed one after the other.
    pub(super) service_time: Duration,
    /// Time that each announcement takes, which is flooded then; they are ignored if it is zero.
    pub(super) announcement_time: Duration,
    /// Time from then until its answer, in which others are processed: drawn from this list, at random.
    pub(super) delays: Vec<Duration>,
    /// One in so many requests, and one in so many announcements, gets no answer.
    pub(super) drop_one_in: Option<u64>,
    /// It sends a broadcast probe, in OpenFlow 1.0, on each connection, this long after the last one.
    pub(super) probe_interval: Option<Duration>,
    /// Probes that it has sent on each connection.
    pub(super) probes: Arc<AtomicU32>,
    /// One in so many is answered with the id of the request before.
    pub(super) wrong_one_in: Option<u64>,
    /// Each request is answered so many times more.
    pub(super) duplicates: usize,
    /// The controller stops for the second time at the end of each period of the first.
    pub(super) stall: Option<(Duration, Duration)>,
    /// Bytes of requests that it reads from each connection every 20 ms.
    pub(super) read_slowly: Option<usize>,
    /// It closes the first connection after so many requests of that.
    pub(super) close_first_after: Option<u64>,
}

/// The controller's side of all connections.
pub(super) struct SimulatedController {
    behaviour: Behaviour,
    connections: Vec<Connection>,
    started_at: Option<Instant>,
    /// When it has processed all requests that it has read.
    busy_until: Option<Instant>,
    /// When it reads again, if it reads slowly.
    read_at: Option<Instant>,
    requests: u64,
    announcements: u64,
    /// When it sends probes next, once it has been run.
    probe_at: Option<Instant>,
    rng: Rng,
}

struct Connection {
    peer: PeerId,
    received: Vec<u8>,
    requests: u64,
    is_closed: bool,
    /// Messages with the times at which they are sent, in this order.
    unsent: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes that are being sent.
    sending: Vec<u8>,
}

impl SimulatedController {
    pub(super) fn new(behaviour: Behaviour, seed: u64) -> Self {
        Self {
            behaviour,
            connections: vec![],
            started_at: None,
            busy_until: None,
            read_at: None,
            requests: 0,
            announcements: 0,
            probe_at: None,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn accept(&mut self, peer: PeerId) {
        let (received, unsent, sending) = (vec![], VecDeque::new(), vec![]);
        let (requests, is_closed) = (0, false);
        let connection = Connection { peer, received, requests, is_closed, unsent, sending };
        self.connections.push(connection);
    }

    /// When it has something to do next.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let first = self.connections.iter().filter_map(|it| Some(it.unsent.front()?.0));
        let is_sending = self.connections.iter().any(|it| !it.sending.is_empty());
        let again = is_sending.then_some(now + Duration::from_millis(1));
        first.chain(self.read_at).chain(self.probe_at).chain(again).min()
    }

    /// Receives, processes and sends what is due.
    pub(super) fn run(&mut self, kernel: &SimulatedKernel) {
        let now = kernel.now();
        self.started_at.get_or_insert(now);
        self.send_probes(now);
        let reads = match self.behaviour.read_slowly {
            None => Some(usize::MAX),
            Some(bytes) if self.read_at.is_none_or(|at| now >= at) => {
                self.read_at = Some(now + Duration::from_millis(20));
                Some(bytes)
            }
            Some(_) => None,
        };
        for at in 0..self.connections.len() {
            if let Some(max) = reads {
                self.receive(kernel, at, max);
            }
            send(&mut self.connections[at], kernel, now);
        }
    }

    fn receive(&mut self, kernel: &SimulatedKernel, at: usize, max: usize) {
        let connection = &mut self.connections[at];
        if connection.is_closed {
            return;
        }
        connection.received.extend(kernel.peer_receive(connection.peer, max));
        let received = std::mem::take(&mut connection.received);
        let mut rest = received.as_slice();
        while let Some((msg, after)) = split_message(rest).unwrap() {
            rest = after;
            self.process(at, msg, kernel);
        }
        self.connections[at].received = rest.to_vec();
    }

    fn process(&mut self, at: usize, msg: RawMessage<'_>, kernel: &SimulatedKernel) {
        match msg.kind() {
            MessageType::HELLO => {
                let mut xid = 1;
                let connection = &mut self.connections[at];
                let mut out = Encoder::new(&mut connection.sending, msg.version(), &mut xid);
                out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
                out.features_request();
            }
            MessageType::PACKET_IN => {
                let packet = PacketIn::new(msg).unwrap();
                if !Ethernet::new(packet.frame).unwrap().dst.is_group() {
                    self.answer(at, packet, msg.version(), kernel);
                } else if !self.behaviour.announcement_time.is_zero() {
                    self.flood(at, packet, msg.version(), kernel);
                }
            }
            _ => {}
        }
    }

    /// When it has processed something that takes `service_time`, after all that it has received before.
    fn done_at(&mut self, now: Instant, service_time: Duration) -> Instant {
        let mut begin = self.busy_until.map_or(now, |busy| busy.max(now));
        if let Some((period, stall)) = self.behaviour.stall {
            let mut until = self.started_at.unwrap_or(now) + period;
            while until <= begin {
                until += period;
            }
            if until - begin <= stall {
                begin = until;
            }
        }
        let done = begin + service_time;
        self.busy_until = Some(done);
        done
    }

    fn send_probes(&mut self, now: Instant) {
        let Some(interval) = self.behaviour.probe_interval else { return };
        if *self.probe_at.get_or_insert(now + interval) > now {
            return;
        }
        self.probe_at = Some(now + interval);
        let mut probe = [0; 60];
        probe[..6].fill(0xff);
        probe[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
        let (mut bytes, mut xid, actions) = (vec![], 1, [Action::output(PortNo(1))]);
        let in_port = PortNo::CONTROLLER;
        let message = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &probe };
        Encoder::new(&mut bytes, Version::V1_0, &mut xid).packet_out(&message).unwrap();
        self.behaviour.probes.fetch_add(1, Relaxed);
        for connection in self.connections.iter_mut().filter(|it| !it.is_closed) {
            connection.unsent.push_back((now, bytes.clone()));
        }
    }

    /// Processes an announcement.
    fn flood(
        &mut self,
        at: usize,
        packet: PacketIn<'_>,
        version: Version,
        kernel: &SimulatedKernel,
    ) {
        let done = self.done_at(kernel.now(), self.behaviour.announcement_time);
        self.announcements += 1;
        if self.behaviour.drop_one_in.is_some_and(|n| self.announcements.is_multiple_of(n)) {
            return;
        }
        let (mut bytes, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut bytes, version, &mut xid);
        let actions = [Action::output(PortNo::FLOOD)];
        let flooded = PacketOutRef { actions: &actions, ..PacketOutRef::answer(&packet) };
        out.packet_out(&flooded).unwrap();
        self.connections[at].unsent.push_back((done, bytes));
    }

    /// Processes a request, and answers it when and as the behaviour says.
    fn answer(
        &mut self,
        at: usize,
        packet: PacketIn<'_>,
        version: Version,
        kernel: &SimulatedKernel,
    ) {
        self.requests += 1;
        let (number, behaviour) = (self.requests, &self.behaviour);
        let is_nth = |n: Option<u64>| n.is_some_and(|n| number.is_multiple_of(n));
        let connection = &mut self.connections[at];
        connection.requests += 1;
        if at == 0 && behaviour.close_first_after.is_some_and(|n| connection.requests > n) {
            kernel.peer_close(connection.peer);
            connection.is_closed = true;
            connection.unsent.clear();
            connection.sending.clear();
            return;
        }
        let done = self.done_at(kernel.now(), self.behaviour.service_time);
        let (behaviour, connection) = (&self.behaviour, &mut self.connections[at]);
        if is_nth(behaviour.drop_one_in) {
            return;
        }
        let wrong_by = u32::from(is_nth(behaviour.wrong_one_in));
        let buffer_id = packet.buffer_id.map(|id| id - wrong_by);
        let (mut bytes, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut bytes, version, &mut xid);
        let eth = Ethernet::new(packet.frame).unwrap();
        let fields = [Field::eth_dst(eth.dst), Field::eth_src(eth.src)];
        let flow_mod = FlowMod {
            buffer_id,
            matching: fields.into(),
            instructions: vec![Instruction::apply([Action::output(packet.in_port)])],
            ..FlowMod::default()
        };
        out.flow_mod(&flow_mod).unwrap();
        let delay = match u32::try_from(behaviour.delays.len()) {
            Ok(0) | Err(_) => Duration::ZERO,
            Ok(n) => behaviour.delays[self.rng.below(n) as usize],
        };
        let due = done + delay;
        for _ in 0..=behaviour.duplicates {
            let after = connection.unsent.partition_point(|(other, _)| *other <= due);
            connection.unsent.insert(after, (due, bytes.clone()));
        }
    }
}

/// Sends what is due, and as much as there is room for.
fn send(connection: &mut Connection, kernel: &SimulatedKernel, now: Instant) {
    while let Some((_, bytes)) = connection.unsent.pop_front_if(|(due, _)| *due <= now) {
        connection.sending.extend(bytes);
    }
    if !connection.sending.is_empty() {
        let sent = kernel.peer_send(connection.peer, &connection.sending);
        connection.sending.drain(..sent);
    }
}
