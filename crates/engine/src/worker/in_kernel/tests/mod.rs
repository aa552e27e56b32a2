//! A worker whose iterations the test runs, and whose clock it sets.
//!
//! Loading the program needs privileges, and clang when it was built: both are part of the set-up of the tests.

mod gates;
mod reports;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sluice_io::{Epoll, WaitStrategy, clock, sock};
use sluice_kernel::{KernelAnswers, Limits};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, DatapathId, Encoder, Field, FlowMod, Instruction, MacAddr, PacketInReason,
    PacketOutRef, PortNo, RawMessage, VlanId,
};
use sluice_proto::{SwitchProfile, SwitchSession};
use sluice_sdk::view::HostId;
use sluice_sdk::{AnswerCache, AnswerRule, AnsweredPacket, FastPathHost, Network};

use super::*;
use crate::config::Config;
use crate::messages::{AcceptorSender, ToAcceptor, ToWorker, WorkerSender};
use crate::threads::Threads;
use crate::worker::Worker;

/// Time limit of everything that should happen at once; long, since the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);

const VERSION: Version = Version::V1_3;

/// Bytes of the answer to [`packet_in`] by the rule of paths: two flow entries, and a packet-out with the frame.
const PATH_ANSWER_BYTES: usize = 112 + 112 + 40 + 60;

/// An application that publishes the hosts 1 and 2, each at the port with its number, and `more` other hosts.
#[derive(Debug, Default)]
struct Publisher {
    /// Switches with a form.
    forms: Vec<SwitchIndex>,
    /// The hosts are ends of paths.
    paths: bool,
    /// Hosts to be published whenever that is possible.
    more: u32,
    /// All hosts are to be withdrawn.
    withdraws: bool,
    /// Nothing is to be answered.
    is_silent: bool,
    answered: Vec<AnsweredPacket>,
}

impl Publisher {
    fn set_form(cache: &mut dyn AnswerCache, switch: SwitchIndex, rule: AnswerRule) {
        let [host, other] = [1, 2].map(MacAddr::from_u64);
        let (mut flow_mod, mut packet_out, mut xid) = (Vec::new(), Vec::new(), 0);
        let [in_port, untagged] = [Field::in_port(PortNo(1)), Field::untagged()];
        let message = FlowMod {
            matching: [in_port, Field::eth_src(host), Field::eth_dst(other), untagged].into(),
            instructions: vec![Instruction::apply([Action::output(PortNo(2))])],
            ..FlowMod::default()
        };
        Encoder::new(&mut flow_mod, VERSION, &mut xid).flow_mod(&message).unwrap();
        let (in_port, actions) = (PortNo(1), [Action::output(PortNo(2))]);
        let message = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &[] };
        Encoder::new(&mut packet_out, VERSION, &mut xid).packet_out(&message).unwrap();
        let (flow_mod, packet_out) = (&flow_mod[..], &packet_out[..]);
        let form = sluice_sdk::AnswerForm { version: VERSION, flow_mod, packet_out, rule };
        assert!(cache.set_form(switch, &form));
    }

    /// The hosts 1 and 2 as ends of paths.
    fn publish_ends(switch: SwitchIndex, network: &mut Network, cache: &mut dyn AnswerCache) {
        let (id, last_seen) = (DatapathId(1), clock::now());
        let hosts = network.fast_path_hosts();
        hosts.add_switch(switch, id);
        for n in [1, 2] {
            let (mac, port) = (MacAddr::from_u64(n.into()), PortNo(n));
            let host = FastPathHost { port, last_seen, has_ipv4: true, has_ipv6: false };
            hosts.insert(id, HostId { mac, vlan: VlanId(0) }, host);
            let entry = hosts.switch(switch).unwrap().find(mac.bits()).unwrap().entry();
            cache.publish_path_host(switch, mac, entry);
        }
    }
}

impl App for Publisher {
    fn can_publish_answers(&self) -> bool {
        !self.is_silent
    }

    fn on_answered(&mut self, answered: &AnsweredPacket, _: &mut Network) {
        self.answered.push(*answered);
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        _: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        if !self.forms.contains(&switch) {
            self.forms.push(switch);
            if self.paths {
                let hold_time = Duration::ZERO;
                Self::set_form(cache, switch, AnswerRule::Paths { hold_time });
                Self::publish_ends(switch, network, cache);
            } else {
                Self::set_form(cache, switch, AnswerRule::Hosts { timeout: 100 });
                for n in [1, 2] {
                    cache.publish(switch, MacAddr::from_u64(n.into()), PortNo(n), 0);
                }
            }
        }
        for n in 0..self.more {
            cache.publish(switch, MacAddr::from_u64(10 + u64::from(n)), PortNo(3), 0);
        }
        if self.withdraws {
            cache.withdraw_all(switch);
        }
        true
    }
}

/// A worker with one switch, whose packet-ins the kernel may answer, and the acceptor, which runs by itself.
struct Test {
    worker: Worker<Epoll, Publisher>,
    addr: SocketAddr,
    id: ConnId,
    switch: TcpStream,
    to_acceptor: AcceptorSender<Epoll, Publisher>,
    to_worker: WorkerSender<Epoll, Publisher>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
}

impl Test {
    fn new() -> Self {
        Self::with_late(None)
    }

    /// With a limit for the time for which answers of the kernel wait.
    fn with_late(late: Option<Duration>) -> Self {
        let mut test = Self::connect(late, Publisher::default());
        test.run_until_open(test.id);
        test
    }

    /// With answers that are reported.
    fn with_paths() -> Self {
        let mut test = Self::connect(None, Publisher { paths: true, ..Publisher::default() });
        test.run_until_open(test.id);
        test
    }

    fn connect(late: Option<Duration>, app: Publisher) -> Self {
        let (sessions, hosts_per_worker, input_bytes) = (10, 20_000, 16 << 10);
        let (workers, paths) = (1, app.paths);
        let limits = Limits { workers, sessions, hosts_per_worker, input_bytes, late, paths };
        let answers = KernelAnswers::load(&limits).unwrap().worker(0).unwrap();
        let epoll = || Epoll::new(WaitStrategy::default()).unwrap();
        let mut cfg = Config::default();
        cfg.socket.congestion = None;
        // The switch does not answer.
        cfg.session.echo_interval = Duration::from_secs(3600);
        let listener = sock::listen(([127, 0, 0, 1], 0).into(), &cfg.socket).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut threads = Threads::new(&Arc::new(cfg), epoll(), vec![epoll()]);
        threads.listen([(addr.into(), listener)]).unwrap();
        let setup = threads.workers.pop().unwrap();
        let mut worker = setup.start(app, Some(answers)).unwrap();
        let acceptor = threads.acceptor;
        let acceptor = thread::spawn(move || acceptor.run(Publisher::default()));
        let switch = connect_switch(addr, DatapathId(1));
        let id = run_until_connected(&mut worker, DatapathId(1));
        let to_acceptor = threads.senders.acceptor;
        let to_worker = threads.senders.workers.remove(0);
        Self { worker, addr, id, switch, to_acceptor, to_worker, acceptor: Some(acceptor) }
    }

    /// Connects a second switch, whose packet-ins the kernel may answer, too.
    fn add_switch(&mut self) -> (ConnId, TcpStream) {
        let switch = connect_switch(self.addr, DatapathId(2));
        let id = run_until_connected(&mut self.worker, DatapathId(2));
        self.run_until_open(id);
        (id, switch)
    }

    fn of_kernel(&mut self) -> &mut KernelSwitch {
        self.worker.state.kernel_switch(self.id).unwrap()
    }

    /// Whether the kernel may answer a switch.
    fn is_open(&mut self, id: ConnId) -> bool {
        self.worker.state.kernel_switch(id).is_some_and(|switch| switch.session.is_open())
    }

    /// Runs the worker until the kernel may answer. The first switch reads meanwhile.
    fn run_until_open(&mut self, id: ConnId) {
        let deadline = clock::now() + TIMEOUT;
        while !self.is_open(id) {
            assert!(clock::now() < deadline, "the gate stays closed");
            self.receive();
            self.worker.run_iteration().unwrap();
        }
    }

    /// Has the kernel answer packet-ins by the rule of paths, one after the other.
    fn answer(&mut self, packet_ins: usize) {
        for _ in 0..packet_ins {
            self.switch.write_all(&packet_in()).unwrap();
            let (deadline, mut received) = (clock::now() + TIMEOUT, 0);
            while received < PATH_ANSWER_BYTES {
                assert!(clock::now() < deadline, "not answered");
                received += self.receive();
            }
        }
    }

    /// At `now`, does something with the switch, and ends the iteration. Returns whether the kernel may answer then.
    fn reopens(&mut self, now: Instant) -> bool {
        let (io, state) = (&mut self.worker.io, &mut self.worker.state);
        state.now = now;
        assert!(state.switches.get_mut(self.id).is_some());
        state.open_gates(io);
        self.of_kernel().session.is_open()
    }

    /// Receives what there is. Returns the number of bytes.
    fn receive(&mut self) -> usize {
        let (mut buffer, mut received) = ([0; 16 << 10], 0);
        loop {
            match self.switch.read(&mut buffer) {
                Ok(0) => panic!("the connection is closed"),
                Ok(n) => received += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return received,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until the socket has taken all answers of the kernel.
    fn wait_until_sent(&mut self) {
        let deadline = clock::now() + TIMEOUT;
        let switch = self.worker.state.kernel_switch(self.id).unwrap();
        while !switch.are_answers_sent(&self.worker.io) {
            assert!(clock::now() < deadline, "answers wait");
            std::hint::spin_loop();
        }
    }

    /// Has the kernel answer one packet-in late.
    fn answer_late(&mut self) {
        let before = self.of_kernel().session.waits().late;
        self.switch.write_all(&packet_in()).unwrap();
        let deadline = clock::now() + TIMEOUT;
        while self.of_kernel().session.waits().late == before {
            assert!(clock::now() < deadline, "not answered");
            std::hint::spin_loop();
        }
    }

    /// The switch sends packet-ins, and does not read, until the kernel has no room for answers.
    fn fill(&mut self) {
        let message = packet_in();
        let before = self.of_kernel().session.answered().packet_ins;
        let mut sent = 0;
        while self.of_kernel().session.unread_bytes() == 0 {
            self.switch.write_all(&message).unwrap();
            sent += 1;
            assert!(sent < 1_000_000, "bounded by the buffers of both ends");
            let deadline = clock::now() + TIMEOUT;
            let session = &self.of_kernel().session;
            while session.answered().packet_ins < before + sent && session.unread_bytes() == 0 {
                assert!(clock::now() < deadline, "neither answered nor passed on");
                std::hint::spin_loop();
            }
        }
    }

    /// Has the worker send something, which waits for the answers of the kernel, and has it look `times` times whether the socket has
    /// taken them. Returns for how long it waits each time.
    fn waits_for_answers(&mut self, times: u32) -> Vec<Duration> {
        let (io, state, id) = (&mut self.worker.io, &mut self.worker.state, self.id);
        // An echo request.
        state.tx.extend([VERSION.0, 2, 0, 8, 0, 0, 0, 0]);
        assert_eq!(state.send_replies(io, id), 0, "answers of the kernel wait to be sent");
        let wait = |_| {
            let at = state.switches.in_kernel.as_ref().unwrap().next_retry().unwrap();
            let waited = at - state.now;
            state.now = at;
            state.retry_behind(io);
            waited
        };
        (0..times).map(wait).collect()
    }

    /// Checks that the worker does not look again.
    fn expect_no_wait(&mut self) {
        let (io, state) = (&mut self.worker.io, &mut self.worker.state);
        // There may be an outdated entry.
        while let Some(at) = state.switches.in_kernel.as_ref().and_then(InKernel::next_retry) {
            state.now = at;
            state.retry_behind(io);
        }
        let of_kernel = self.of_kernel();
        assert!(!of_kernel.is_behind && of_kernel.session.is_open());
    }

    /// The time that has passed makes the switch one behind a thin link, which the kernel does not answer.
    fn forget_slowness(&mut self) {
        let (io, state) = (&mut self.worker.io, &mut self.worker.state);
        let switch = state.switches.get_mut(self.id).unwrap();
        switch.buffers.reset_backpressure(io, self.id);
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        self.to_acceptor.send(ToAcceptor::Stop);
        // It has ended with an error only if the test has failed anyway.
        let _ = self.acceptor.take().map(JoinHandle::join);
    }
}

/// Runs a worker until it has a switch.
fn run_until_connected(worker: &mut Worker<Epoll, Publisher>, switch: DatapathId) -> ConnId {
    let deadline = clock::now() + TIMEOUT;
    loop {
        assert!(clock::now() < deadline, "the switch does not connect");
        worker.run_iteration().unwrap();
        if let Some(id) = worker.state.switches.find_datapath(switch) {
            return id;
        }
    }
}

/// Connects a switch, which does not block from then on.
fn connect_switch(addr: SocketAddr, datapath_id: DatapathId) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    let profile = SwitchProfile { datapath_id, version: VERSION, n_ports: 4, n_buffers: 256 };
    let (mut tx, mut rx) = (Vec::new(), Vec::new());
    let mut session = SwitchSession::open(profile, &mut tx);
    loop {
        stream.write_all(&tx).unwrap();
        tx.clear();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        rx.extend(byte);
        if let Ok(message) = RawMessage::new(&rx) {
            session.on_message(message, &mut tx).unwrap();
            let is_last = message.kind() == MessageType::SET_CONFIG;
            rx.clear();
            if is_last {
                stream.write_all(&tx).unwrap();
                stream.set_nonblocking(true).unwrap();
                return stream;
            }
        }
    }
}

fn just_before(at: Instant) -> Instant {
    at.checked_sub(Duration::from_nanos(1)).unwrap()
}

/// A packet-in from host 1 to host 2.
fn packet_in() -> Vec<u8> {
    let [src, dst] = [1, 2].map(|n| MacAddr::from_u64(n).0);
    let frame = [&dst[..], &src, &[8, 0, 0x45], &[7; 45]].concat();
    let p = PacketIn {
        buffer_id: None,
        in_port: PortNo(1),
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame: &frame,
    };
    let (mut bytes, mut xid) = (Vec::new(), 9);
    p.encode(&mut Encoder::new(&mut bytes, VERSION, &mut xid)).unwrap();
    bytes
}

#[test]
fn the_worker_looks_for_room_ever_more_rarely_and_often_again_the_next_time() {
    let mut test = Test::new();
    for _ in 0..2 {
        test.fill();
        let waits = test.waits_for_answers(13);
        let expected = (0..13).map(|n| (RETRY_MIN * (1 << n)).min(RETRY_MAX));
        assert_eq!(waits, expected.collect::<Vec<_>>());
        test.forget_slowness();
        // The switch reads, so that the socket takes all answers, and then what the worker has kept.
        test.run_until_open(test.id);
        test.expect_no_wait();
    }
}
