//! An engine whose threads the test runs, and the switches that are connected to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_base::metrics::MetricValue;
use sluice_engine::Config;
use sluice_engine::simulation::SteppedEngine;
use sluice_io::simulated::{
    BufferSizes, ClockError, PeerId, PeerState, SimulatedIo, SimulatedKernel, SimulatedThread,
};
use sluice_openflow::{
    DatapathId, Encoder, ErrorMsg, ErrorReason, Message, RawMessage, Version, split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};
use sluice_sdk::App;

const CONTROLLER: ([u8; 4], u16) = ([10, 0, 0, 1], 6653);

/// The last byte of the address of switches for which a test has no other.
const SOURCE: u8 = 2;

/// The thread number of the acceptor.
pub(crate) const ACCEPTOR: usize = 0;

/// The engine under test.
pub(crate) struct TestEngine<A: App> {
    pub(crate) kernel: SimulatedKernel,
    pub(crate) engine: SteppedEngine<SimulatedIo, A>,
    threads: Vec<SimulatedThread>,
    now: Instant,
    peers: u16,
}

impl<A: App> TestEngine<A> {
    /// An engine with as many workers as there are clocks.
    pub(crate) fn new(clocks: &[ClockError], make_app: impl FnMut(usize) -> A) -> Self {
        Self::with_config(Config::default(), clocks, make_app)
    }

    /// As [`new`](Self::new), with a configuration.
    pub(crate) fn with_config(
        cfg: Config,
        clocks: &[ClockError],
        make_app: impl FnMut(usize) -> A,
    ) -> Self {
        let now = sluice_io::clock::now();
        let kernel = SimulatedKernel::new(1, now);
        let acceptor = kernel.add_thread(ClockError::default());
        let workers: Vec<_> = clocks.iter().map(|&clock| kernel.add_thread(clock)).collect();
        let threads = [&acceptor].into_iter().chain(&workers).map(SimulatedIo::thread).collect();
        let addr = SocketAddr::from(CONTROLLER);
        let listeners = vec![(addr, kernel.listen(addr).unwrap())];
        let engine = SteppedEngine::new(cfg, acceptor, workers, listeners, make_app).unwrap();
        Self { kernel, engine, threads, now, peers: 0 }
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.kernel.set_time(self.now);
    }

    /// Runs an iteration of a thread.
    pub(crate) fn run(&mut self, thread: usize) {
        self.pass(Duration::from_micros(10));
        self.engine.run_iteration(thread).unwrap();
    }

    /// Runs all threads until they have nothing to do.
    pub(crate) fn run_all(&mut self) {
        for _ in 0..1000 {
            (0..self.engine.thread_count()).for_each(|thread| self.run(thread));
            let mut threads = self.threads.iter().enumerate();
            let is_due = |n, thread| {
                let deadline = self.engine.deadline(n);
                deadline.is_some_and(|at| self.kernel.time_of(thread, at) <= self.now)
            };
            if !threads.any(|(n, &thread)| self.kernel.is_ready(thread) || is_due(n, thread)) {
                return;
            }
        }
        panic!("the threads do not come to rest");
    }

    /// Connects a switch and completes its handshake, which assigns it to the worker with the fewest switches.
    pub(crate) fn connect(&mut self, id: u64) -> TestSwitch {
        self.connect_from(SOURCE, id, 4)
    }

    /// As [`connect`](Self::connect), from the address 10.0.0.`source` and with `ports` ports.
    pub(crate) fn connect_from(&mut self, source: u8, id: u64, ports: u16) -> TestSwitch {
        let mut switch = self.start_handshake_from(source, id, ports);
        for _ in 0..10 {
            self.run_all();
            switch.answer(&self.kernel);
        }
        self.run_all();
        switch
    }

    /// Connects a switch that has sent its `HELLO`.
    pub(crate) fn start_handshake(&mut self, id: u64) -> TestSwitch {
        self.start_handshake_from(SOURCE, id, 4)
    }

    fn start_handshake_from(&mut self, source: u8, id: u64, n_ports: u16) -> TestSwitch {
        self.peers += 1;
        let peer_addr = SocketAddr::from(([10, 0, 0, source], 40_000 + self.peers));
        let peer = self.kernel.connect(CONTROLLER.into(), peer_addr).unwrap();
        let sizes = BufferSizes { send: 1 << 20, receive: 1 << 20 };
        self.kernel.set_buffer_sizes(peer, sizes);
        let (datapath_id, version) = (DatapathId(id), Version::V1_3);
        let profile = SwitchProfile { datapath_id, version, n_ports, n_buffers: 0 };
        let mut tx = Vec::new();
        let session = SwitchSession::open(profile, &mut tx);
        let switch = TestSwitch { peer, session, version, received: Vec::new() };
        switch.send_bytes(&self.kernel, &tx);
        switch
    }

    /// The sum of all samples of a counter, or the number of durations of a histogram.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counter_of(name, "")
    }

    /// As [`counter`](Self::counter), of the samples with the label value `label` only; of all if that is empty.
    pub(crate) fn counter_of(&self, name: &str, label: &str) -> u64 {
        let mut sum = 0;
        self.engine.metrics().collect(&mut |sample| {
            let has_label = label.is_empty() || sample.labels.iter().any(|(_, it)| it == label);
            match sample.value {
                MetricValue::Counter(n) if sample.name == name && has_label => sum += n,
                MetricValue::Histogram(it) if sample.name == name => sum += it.count(),
                _ => {}
            }
        });
        sum
    }

    /// Whether the connection of a switch is open. Discards what it has received.
    pub(crate) fn is_connected(&self, switch: &TestSwitch) -> bool {
        self.kernel.peer_receive(switch.peer, usize::MAX);
        self.kernel.peer_state(switch.peer) == PeerState::Open
    }
}

/// A switch, which does nothing of its own.
pub(crate) struct TestSwitch {
    pub(crate) peer: PeerId,
    session: SwitchSession,
    version: Version,
    /// Bytes of an incomplete message.
    received: Vec<u8>,
}

impl TestSwitch {
    pub(crate) fn send(&self, kernel: &SimulatedKernel, message: &Message) {
        self.send_bytes(kernel, &self.encode(message));
    }

    pub(crate) fn encode(&self, message: &Message) -> Vec<u8> {
        let (mut tx, mut xid) = (Vec::new(), 1);
        Encoder::new(&mut tx, self.version, &mut xid).encode(message).unwrap();
        tx
    }

    pub(crate) fn send_bytes(&self, kernel: &SimulatedKernel, bytes: &[u8]) {
        assert_eq!(kernel.peer_send(self.peer, bytes), bytes.len());
    }

    /// Receives all messages that have arrived.
    pub(crate) fn receive(&mut self, kernel: &SimulatedKernel) -> Vec<Message> {
        self.receive_raw(kernel, |msg| Message::parse_raw(msg).unwrap())
    }

    /// Receives all messages that have arrived, as `read` does.
    pub(crate) fn receive_raw<T>(
        &mut self,
        kernel: &SimulatedKernel,
        mut read: impl FnMut(RawMessage<'_>) -> T,
    ) -> Vec<T> {
        self.received.extend(kernel.peer_receive(self.peer, usize::MAX));
        let (mut rest, mut messages) = (&*self.received, Vec::new());
        while let Some((msg, after)) = split_message(rest).unwrap() {
            messages.push(read(msg));
            rest = after;
        }
        self.received = rest.to_vec();
        messages
    }

    /// Sends a message with the transaction id `xid`.
    pub(crate) fn send_with_xid(&self, kernel: &SimulatedKernel, xid: u32, message: &Message) {
        self.send_bytes(kernel, &message.to_vec(self.version, xid).unwrap());
    }

    /// Refuses the message with the transaction id `xid`.
    pub(crate) fn send_error(&self, kernel: &SimulatedKernel, xid: u32, reason: ErrorReason) {
        let error = Message::Error(ErrorMsg { reason, ..ErrorMsg::default() });
        self.send_with_xid(kernel, xid, &error);
    }

    /// Answers a message.
    pub(crate) fn answer_message(&mut self, kernel: &SimulatedKernel, msg: RawMessage<'_>) {
        let mut tx = Vec::new();
        self.session.on_message(msg, &mut tx).unwrap();
        self.send_bytes(kernel, &tx);
    }

    /// Answers the requests of the controller that have arrived.
    pub(crate) fn answer(&mut self, kernel: &SimulatedKernel) {
        let bytes = kernel.peer_receive(self.peer, usize::MAX);
        let (mut rest, mut tx) = (&*bytes, Vec::new());
        while let Some((msg, after)) = split_message(rest).unwrap() {
            self.session.on_message(msg, &mut tx).unwrap();
            rest = after;
        }
        self.send_bytes(kernel, &tx);
    }
}
