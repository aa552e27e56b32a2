//! A worker whose iterations the test runs, and whose clock it sets.
//!
//! Loading the program needs privileges, and clang when it was built: both are part of the set-up of the tests.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sluice_io::{Epoll, WaitStrategy, clock, sock};
use sluice_kernel::{KernelAnswers, Limits};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, DatapathId, Encoder, Field, FlowMod, Instruction, PacketInReason, PacketOutRef,
    RawMessage,
};
use sluice_proto::{SwitchProfile, SwitchSession};
use sluice_sdk::Network;

use super::*;
use crate::config::Config;
use crate::messages::{AcceptorSender, ToAcceptor};
use crate::threads::Threads;
use crate::worker::Worker;

/// Time limit of everything that should happen at once; long, since the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);

const VERSION: Version = Version::V1_3;

/// An application that publishes the hosts 1 and 2, each at the port with its number, and `more` other hosts.
#[derive(Debug, Default)]
struct Publisher {
    is_form_set: bool,
    /// Hosts to be published whenever that is possible.
    more: u32,
    /// All hosts are to be withdrawn.
    withdraws: bool,
}

impl Publisher {
    fn set_form(cache: &mut dyn AnswerCache, switch: SwitchIndex) {
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
        let rule = sluice_sdk::AnswerRule::Hosts { timeout: 100 };
        let form = sluice_sdk::AnswerForm { version: VERSION, flow_mod, packet_out, rule };
        cache.set_form(switch, &form);
    }
}

impl App for Publisher {
    fn can_publish_answers(&self) -> bool {
        true
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        _: Instant,
        _: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        if !std::mem::replace(&mut self.is_form_set, true) {
            Self::set_form(cache, switch);
            for n in [1, 2] {
                cache.publish(switch, MacAddr::from_u64(n.into()), PortNo(n), 0);
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
    id: ConnId,
    switch: TcpStream,
    to_acceptor: AcceptorSender<Epoll, Publisher>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
}

impl Test {
    fn new() -> Self {
        Self::with_late(None)
    }

    /// With a limit for the time for which answers of the kernel wait.
    fn with_late(late: Option<Duration>) -> Self {
        let (sessions, hosts_per_worker, input_bytes) = (10, 20_000, 16 << 10);
        let limits = Limits { workers: 1, sessions, hosts_per_worker, input_bytes, late };
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
        let mut worker = setup.start(Publisher::default(), Some(answers)).unwrap();
        let acceptor = threads.acceptor;
        let acceptor = thread::spawn(move || acceptor.run(Publisher::default()));
        let switch = connect_switch(addr);
        let deadline = clock::now() + TIMEOUT;
        let id = loop {
            assert!(clock::now() < deadline, "the switch does not connect");
            worker.run_iteration().unwrap();
            if let Some(&id) = worker.state.switches.ids().first() {
                break id;
            }
        };
        let to_acceptor = threads.senders.acceptor;
        let mut test = Self { worker, id, switch, to_acceptor, acceptor: Some(acceptor) };
        test.run_until_open();
        test
    }

    fn of_kernel(&mut self) -> &mut KernelSwitch {
        self.worker.state.kernel_switch(self.id).unwrap()
    }

    /// Runs the worker until the kernel may answer. The switch reads meanwhile.
    fn run_until_open(&mut self) {
        let deadline = clock::now() + TIMEOUT;
        let is_open = |state: &mut WorkerState<Epoll, Publisher>, id| {
            state.kernel_switch(id).is_some_and(|switch| switch.session.is_open())
        };
        while !is_open(&mut self.worker.state, self.id) {
            assert!(clock::now() < deadline, "the gate stays closed");
            self.receive();
            self.worker.run_iteration().unwrap();
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

    /// Receives what there is.
    fn receive(&mut self) {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.switch.read(&mut buffer) {
                Ok(n) => assert!(n > 0, "the connection is closed"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
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

/// Connects a switch, which does not block from then on.
fn connect_switch(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    let datapath_id = DatapathId(1);
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
    let frame = [&dst[..], &src, &[8, 0], &[7; 46]].concat();
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
        test.run_until_open();
        test.expect_no_wait();
    }
}

#[test]
fn after_the_publication_of_many_hosts_the_next_one_has_to_wait() {
    let mut test = Test::new();
    let mut at = test.worker.state.now;
    for few in [0, PUBLICATIONS_AT_ONCE] {
        test.worker.app_mut().more = few;
        assert!(test.reopens(at) && test.reopens(at), "at once after {few} hosts");
    }
    test.worker.app_mut().more = PUBLICATIONS_AT_ONCE + 1;
    for _ in 0..3 {
        assert!(test.reopens(at), "these hosts are published");
        let pause = PAUSE_PER_HOST * (PUBLICATIONS_AT_ONCE + 1);
        assert!(!test.reopens(at) && !test.reopens(just_before(at + pause)));
        at += pause;
    }
    test.worker.app_mut().more = 0;
    assert!(test.reopens(at) && test.reopens(at), "nothing was published the last time");
}

/// To withdraw the hosts of a switch, the whole table is read.
#[test]
fn after_all_hosts_were_withdrawn_the_next_publication_has_to_wait() {
    let mut test = Test::new();
    let at = test.worker.state.now;
    test.worker.app_mut().withdraws = true;
    assert!(test.reopens(at));
    assert_eq!(test.of_kernel().session.host_count(), 0);
    let pause = PAUSE_PER_HOST * WHOLE_TABLE;
    assert!(!test.reopens(at) && !test.reopens(just_before(at + pause)));
    assert!(test.reopens(at + pause) && test.reopens(at + pause), "there was nothing to withdraw");
}

/// With this limit, each answer is late.
#[test]
fn the_worker_answers_for_a_while_when_the_kernel_was_late() {
    let mut test = Test::with_late(Some(Duration::ZERO));
    let at = test.worker.state.now;
    let pauses = |test: &Test| test.worker.state.counters().kernel_pauses.get();
    test.answer_late();
    assert!(test.reopens(at), "one late answer is no reason");
    test.answer_late();
    assert!(!test.reopens(at));
    assert_eq!(pauses(&test), 1);
    let second = Duration::from_secs(1);
    assert!(!test.reopens(just_before(at + second)));
    assert!(test.reopens(at + second));
    assert_eq!(pauses(&test), 1);
}
