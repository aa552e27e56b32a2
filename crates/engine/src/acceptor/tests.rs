use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

use sluice_io::simulated::{ClockError, PeerId, SimulatedIo, SimulatedKernel};
use sluice_io::{ClientAuth, Epoll, TlsServer};

use super::handshakes::first_xid;
use super::pending::Security;
use crate::config::{Endpoint, TlsListeners, Transport};
use crate::messages::SessionId;
use crate::queue::queue;

use super::*;

const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 9];
/// The reply of datapath 7 to the features request of a connection.
fn features_reply(connection: u64) -> [u8; 32] {
    let mut reply = [
        1, 6, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0,
        0, 1,
    ];
    reply[4..8].copy_from_slice(&first_xid(connection).to_be_bytes());
    reply
}

struct EmptyApp;

impl App for EmptyApp {}

/// An acceptor, the queues to and from it, and what the worker has received.
struct AcceptorTest<I: Io> {
    acceptor: Acceptor<I, EmptyApp>,
    to_acceptor: crate::messages::AcceptorSender<I, EmptyApp>,
    to_worker: Receiver<ToWorker<I::Conn, EmptyApp>>,
    received: VecDeque<ToWorker<I::Conn, EmptyApp>>,
    second_worker: Receiver<ToWorker<I::Conn, EmptyApp>>,
}

impl<I: Io> AcceptorTest<I> {
    fn new(io: I, cfg: Config) -> Self {
        Self::with_workers(io, cfg, 1)
    }

    /// With one or two workers.
    fn with_workers(io: I, cfg: Config, count: usize) -> Self {
        let (to_acceptor, inbox) = queue(cfg.limits.queue_capacity, io.waker());
        let (worker, to_worker) = queue(cfg.limits.queue_capacity, io.waker());
        let (second, second_worker) = queue(cfg.limits.queue_capacity, io.waker());
        let registry = Arc::new(CounterRegistry::new(count));
        let workers = [worker, second].into_iter().take(count).collect();
        let acceptor = Acceptor::new(io, Arc::new(cfg), workers, inbox, registry);
        Self { acceptor, to_acceptor, to_worker, received: VecDeque::new(), second_worker }
    }

    /// Runs iterations until the worker receives a message.
    fn next_message(&mut self) -> Option<ToWorker<I::Conn, EmptyApp>> {
        for _ in 0..200 {
            self.to_worker.take(&mut self.received);
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            let control = self.acceptor.run_iteration(&mut EmptyApp).unwrap();
            assert_eq!(control, LoopControl::Continue);
        }
        None
    }

    /// The kind of the next message that the worker receives.
    fn next_worker_message(&mut self) -> &'static str {
        match self.next_message() {
            Some(ToWorker::Adopt(..)) => "adopt",
            Some(ToWorker::Probe(_)) => "probe",
            Some(ToWorker::Close(..)) => "close",
            Some(_) => "other",
            None => "none",
        }
    }

    /// The next switch that the worker receives, with what it has sent since the handshake.
    fn next_switch(&mut self) -> Option<(u64, Vec<u8>)> {
        match self.next_message()? {
            ToWorker::Adopt(mut connection, _) => {
                Some((connection.datapath_id.0, connection.buffers.received.take()))
            }
            _ => panic!("another message"),
        }
    }

    fn waiting(&self) -> u64 {
        self.acceptor.state.registry.threads[0].switches_waiting.get()
    }
}

fn epoll() -> Epoll {
    Epoll::new(sluice_io::WaitStrategy::default()).unwrap()
}

/// The answer to the probe arrives when the connection is already being closed.
#[test]
fn one_of_two_connections_with_one_datapath_id_stays_even_if_the_older_answers_late() {
    let mut cfg = Config::default();
    cfg.limits.duplicate_timeout = Duration::ZERO;
    let mut test = AcceptorTest::new(epoll(), cfg);
    let listener =
        sluice_io::sock::listen(([127, 0, 0, 1], 0).into(), &sluice_io::sock::Options::default());
    let listener = listener.unwrap();
    let addr = listener.local_addr().unwrap();
    test.acceptor.listen(addr.into(), listener).unwrap();
    let connect = |connection| {
        let mut peer = TcpStream::connect(addr).unwrap();
        peer.write_all(&[&HELLO[..], &features_reply(connection)].concat()).unwrap();
        peer
    };
    let _first = connect(1);
    assert_eq!(test.next_worker_message(), "adopt");
    let _second = connect(2);
    assert_eq!(test.next_worker_message(), "probe");
    assert_eq!(test.next_worker_message(), "close");
    test.to_acceptor.send(ToAcceptor::ProbeAnswered(SessionId(1)));
    test.to_acceptor.send(ToAcceptor::Disconnected(SessionId(1)));
    assert_eq!(test.next_worker_message(), "adopt");
}

const ADDR: ([u8; 4], u16) = ([10, 0, 0, 1], 6654);

/// A listener that expects TLS, at a configured address.
fn tls_endpoint(addr: SocketAddr) -> OpenEndpoint {
    OpenEndpoint { configured: Endpoint { addr, transport: Transport::Tls }, addr }
}

/// Settings for a TLS listener at `addr`. The files of the test have `name` in their names.
fn tls_listeners(name: &str, addr: SocketAddr, bind_datapath_id: bool) -> TlsListeners {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["controller".to_owned()]).unwrap();
    let file = |extension: &str| {
        std::env::temp_dir()
            .join(format!("sluice-acceptor-{name}-{}.{extension}", std::process::id()))
    };
    let (certificate, key) = (file("pem"), file("key"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let server = TlsServer::load(&certificate, &key, &ClientAuth::None).unwrap();
    fs::remove_file(certificate).unwrap();
    fs::remove_file(key).unwrap();
    TlsListeners { listen: vec![addr], server, bind_datapath_id }
}

fn simulated(cfg: Config) -> (SimulatedKernel, AcceptorTest<SimulatedIo>) {
    let kernel = SimulatedKernel::new(1, sluice_io::clock::now());
    let io = kernel.add_thread(ClockError::default());
    (kernel, AcceptorTest::new(io, cfg))
}

/// Simulated connections carry no TLS.
#[test]
fn a_connection_without_a_certificate_is_closed_if_that_must_name_the_datapath_id() {
    for (is_bound, message) in [(false, "adopt"), (true, "none")] {
        let settings = tls_listeners("bound", ADDR.into(), is_bound);
        let (kernel, mut test) = simulated(Config { tls: vec![settings], ..Config::default() });
        let listener = kernel.listen(ADDR.into()).unwrap();
        test.acceptor.listen(tls_endpoint(ADDR.into()), listener).unwrap();
        let peer = kernel.connect(ADDR.into(), ([10, 0, 0, 2], 40_000).into()).unwrap();
        kernel.peer_send(peer, &[&HELLO[..], &features_reply(1)].concat());
        assert_eq!(test.next_worker_message(), message);
    }
}

#[test]
fn a_tls_listener_without_settings_is_closed_instead_of_accepting_plain_connections() {
    let (kernel, mut test) = simulated(Config::default());
    let listener = kernel.listen(ADDR.into()).unwrap();
    test.acceptor.listen(tls_endpoint(ADDR.into()), listener).unwrap();
    test.acceptor.run_iteration(&mut EmptyApp).unwrap();
    assert!(kernel.connect(ADDR.into(), ([10, 0, 0, 2], 40_000).into()).is_err());
}

#[test]
fn listeners_at_one_link_local_address_of_two_interfaces_have_settings_of_their_own() {
    let addresses: [SocketAddr; 2] =
        ["[fe80::1%2]:6654", "[fe80::1%3]:6654"].map(|text| text.parse().unwrap());
    let [strict, open] = addresses;
    let tls = vec![tls_listeners("strict", strict, true), tls_listeners("open", open, false)];
    let cfg = Config { tls, ..Config::default() };
    let (kernel, mut test) = simulated(cfg.clone());
    let (io, listeners) = (&mut test.acceptor.io, &mut test.acceptor.state.listeners);
    for address in addresses {
        listeners.add(io, tls_endpoint(address), kernel.listen(address).unwrap()).unwrap();
    }
    let settings = listeners.ids().map(|id| listeners.settings(id, &cfg).unwrap());
    let settings: Vec<_> = settings.map(|(_, security)| security).collect();
    assert_eq!(settings, [true, false].map(|is_bound| Security::Tls { is_bound }));
}

/// A device cannot be watched by epoll.
#[test]
fn a_listener_that_cannot_be_used_is_reported() {
    let mut test = AcceptorTest::new(epoll(), Config::default());
    let device: OwnedFd = File::open("/dev/null").unwrap().into();
    let endpoint = OpenEndpoint::from(SocketAddr::from(ADDR));
    let (failed, report) = mpsc::channel();
    let new = NewListeners { listeners: vec![(endpoint, device.into())], failed };
    let (cfg, no_change) = (Arc::new(Config::default()), Arc::new(|_: &mut EmptyApp| {}));
    test.to_acceptor.send(ToAcceptor::Configure(cfg, no_change, new));
    test.acceptor.run_iteration(&mut EmptyApp).unwrap();
    assert_eq!(report.try_iter().collect::<Vec<_>>(), [endpoint]);
}

/// The number of switches that a worker may have before it and not have taken over.
const IN_FLIGHT_MAX: u64 = 32;

/// A worker that has not taken over any of the first switches. These are of 10.0.0.2, and have the datapath ids 1 to [`IN_FLIGHT_MAX`].
struct BusyWorker {
    kernel: SimulatedKernel,
    test: AcceptorTest<SimulatedIo>,
    connected: u64,
}

impl BusyWorker {
    fn new(cfg: Config) -> Self {
        let mut busy = Self::of_workers(cfg, 1);
        for datapath_id in 1..=IN_FLIGHT_MAX {
            busy.connect(2, datapath_id);
            assert_eq!(busy.test.next_switch().unwrap().0, datapath_id);
        }
        busy
    }

    /// One or two workers that nothing was handed over to.
    fn of_workers(cfg: Config, count: usize) -> Self {
        let kernel = SimulatedKernel::new(1, sluice_io::clock::now());
        let io = kernel.add_thread(ClockError::default());
        let mut test = AcceptorTest::with_workers(io, cfg, count);
        let listener = kernel.listen(ADDR.into()).unwrap();
        test.acceptor.listen(SocketAddr::from(ADDR).into(), listener).unwrap();
        Self { kernel, test, connected: 0 }
    }

    /// A switch connects from an address of 10.0.0.0/24 and completes the handshake.
    fn connect(&mut self, last: u8, datapath_id: u64) -> PeerId {
        self.connect_with_ports(last, datapath_id, 0)
    }

    fn connect_with_ports(&mut self, last: u8, datapath_id: u64, ports: u16) -> PeerId {
        let (peer, mut reply) = self.begin_handshake(last, datapath_id);
        for number in 1..=ports {
            reply.extend_from_slice(&number.to_be_bytes());
            reply.extend_from_slice(&[0; 46]);
        }
        let len = u16::try_from(reply.len()).unwrap();
        reply[2..4].copy_from_slice(&len.to_be_bytes());
        self.kernel.peer_send(peer, &reply);
        peer
    }

    /// A switch connects and sends `HELLO`. Returns the features reply that completes the handshake.
    fn begin_handshake(&mut self, last: u8, datapath_id: u64) -> (PeerId, Vec<u8>) {
        self.connected += 1;
        let addr = SocketAddr::from(([10, 0, 0, last], 40_000));
        let peer = self.kernel.connect(ADDR.into(), addr).unwrap();
        self.kernel.peer_send(peer, &HELLO);
        for _ in 0..9 {
            self.test.acceptor.run_iteration(&mut EmptyApp).unwrap();
        }
        let mut reply = features_reply(self.connected).to_vec();
        reply[8..16].copy_from_slice(&datapath_id.to_be_bytes());
        (peer, reply)
    }

    fn connect_and_wait(&mut self, last: u8, datapath_id: u64) -> PeerId {
        let peer = self.connect(last, datapath_id);
        assert_eq!(self.test.next_worker_message(), "none");
        peer
    }

    /// A switch connects, and the acceptor does what it can.
    fn connect_and_drain(&mut self, datapath_id: u64) {
        self.connect(2, datapath_id);
        for _ in 0..20 {
            self.test.acceptor.run_iteration(&mut EmptyApp).unwrap();
        }
    }

    /// The worker takes over this many.
    fn take_over(&self, switches: u64) {
        self.test.acceptor.state.registry.threads[1].sessions_begun.add(switches);
    }
}

#[test]
fn switches_wait_for_a_busy_worker_and_one_source_does_not_keep_another_waiting() {
    let mut busy = BusyWorker::new(Config::default());
    for datapath_id in 101..=104 {
        busy.connect_and_wait(2, datapath_id);
    }
    busy.connect_and_wait(3, 105);
    assert_eq!(busy.test.waiting(), 5);
    busy.take_over(3);
    let order: Vec<_> = std::iter::from_fn(|| busy.test.next_switch()).map(|it| it.0).collect();
    assert_eq!(order, [101, 105, 102]);
    busy.take_over(9);
    let order: Vec<_> = std::iter::from_fn(|| busy.test.next_switch()).map(|it| it.0).collect();
    assert_eq!((order, busy.test.waiting()), (vec![103, 104], 0));
}

/// The end of its handshake is read before the switches that wait are looked at.
#[test]
fn a_switch_does_not_overtake_those_that_wait() {
    let mut busy = BusyWorker::new(Config::default());
    let (late, reply) = busy.begin_handshake(2, 102);
    busy.connect_and_wait(2, 101);
    busy.kernel.peer_send(late, &reply);
    busy.take_over(9);
    let order: Vec<_> = std::iter::from_fn(|| busy.test.next_switch()).map(|it| it.0).collect();
    assert_eq!(order, [101, 102]);
}

#[test]
fn a_switch_that_leaves_while_it_waits_costs_the_worker_nothing() {
    let mut busy = BusyWorker::new(Config::default());
    let first = busy.connect_and_wait(2, 101);
    let second = busy.connect_and_wait(2, 102);
    busy.connect_and_wait(2, 103);
    busy.kernel.peer_close(first);
    busy.kernel.peer_reset(second);
    assert_eq!((busy.test.next_worker_message(), busy.test.waiting()), ("none", 1));
    busy.take_over(9);
    assert_eq!(busy.test.next_switch().unwrap().0, 103);
    assert_eq!(
        (busy.test.next_worker_message(), busy.test.acceptor.state.handshakes.len()),
        ("none", 0)
    );
}

#[test]
fn what_a_switch_sends_while_it_waits_is_limited_and_not_lost() {
    let mut busy = BusyWorker::new(Config::default());
    let peer = busy.connect_and_wait(2, 101);
    let mut sent = vec![];
    for n in 0..=255 {
        let chunk = [n; 4096];
        let len = busy.kernel.peer_send(peer, &chunk);
        sent.extend_from_slice(&chunk[..len]);
        assert_eq!(busy.test.next_worker_message(), "none");
    }
    let in_kernel = busy.kernel.unread_bytes(peer);
    busy.take_over(1);
    let (datapath_id, kept) = busy.test.next_switch().unwrap();
    assert_eq!(datapath_id, 101);
    assert!((16 << 10..64 << 10).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.len() + in_kernel, sent.len());
    assert!(sent.starts_with(&kept));
}

#[test]
fn of_two_switches_that_wait_with_one_datapath_id_the_second_claims_it_when_it_is_its_turn() {
    let mut busy = BusyWorker::new(Config::default());
    for last in [2, 3] {
        busy.connect_with_ports(last, 101, 1);
        assert_eq!(busy.test.next_worker_message(), "none");
    }
    busy.take_over(9);
    assert_eq!(busy.test.next_worker_message(), "adopt");
    assert_eq!(busy.test.next_worker_message(), "probe");
    assert_eq!(busy.test.next_worker_message(), "none");
    assert_eq!(busy.test.acceptor.state.switches.port_count(), 2);
}

#[test]
fn ports_of_switches_that_wait_count_and_the_source_with_the_most_gives_them_up() {
    let mut cfg = Config::default();
    cfg.limits.ports_max = 2;
    let mut busy = BusyWorker::new(cfg);
    busy.connect_with_ports(2, 101, 2);
    assert_eq!((busy.test.next_worker_message(), busy.test.waiting()), ("none", 1));
    busy.connect_with_ports(3, 102, 1);
    assert_eq!((busy.test.next_worker_message(), busy.test.waiting()), ("none", 1));
    busy.take_over(9);
    assert_eq!(busy.test.next_switch().unwrap().0, 102);
    assert_eq!(busy.test.acceptor.state.switches.port_count(), 1);
    assert_eq!(busy.test.next_worker_message(), "none");
}

#[test]
fn a_worker_that_is_stuck_does_not_keep_switches_from_another_one() {
    let mut busy = BusyWorker::of_workers(Config::default(), 2);
    let registry = Arc::clone(&busy.test.acceptor.state.registry);
    let mut of_second = VecDeque::new();
    for datapath_id in 1..=100 {
        busy.connect_and_drain(datapath_id);
        let before = of_second.len();
        busy.test.second_worker.take(&mut of_second);
        registry.threads[2].sessions_begun.add((of_second.len() - before) as u64);
    }
    busy.test.to_worker.take(&mut busy.test.received);
    assert_eq!((busy.test.received.len(), of_second.len()), (32, 68));
    assert_eq!(busy.test.waiting(), 0);
}

#[test]
fn a_switch_whose_datapath_id_is_free_again_waits_like_others() {
    let mut busy = BusyWorker::new(Config::default());
    busy.take_over(IN_FLIGHT_MAX);
    let mut claimants = vec![];
    for datapath_id in 1..=8 {
        claimants.push(busy.connect(3, datapath_id));
        assert_eq!(busy.test.next_worker_message(), "probe");
    }
    for datapath_id in 101..101 + IN_FLIGHT_MAX {
        busy.connect(2, datapath_id);
        assert_eq!(busy.test.next_worker_message(), "adopt");
    }
    for session in 1..=8 {
        busy.test.to_acceptor.send(ToAcceptor::Disconnected(SessionId(session)));
    }
    assert_eq!((busy.test.next_worker_message(), busy.test.waiting()), ("none", 8));
    // It has nothing left to read, so that it does not reset the connection.
    busy.kernel.peer_receive(claimants[0], 1 << 20);
    busy.kernel.peer_close(claimants[0]);
    assert_eq!((busy.test.next_worker_message(), busy.test.waiting()), ("none", 7));
    busy.take_over(9);
    let placed: Vec<_> = std::iter::from_fn(|| busy.test.next_switch()).map(|it| it.0).collect();
    assert_eq!(placed, (2..=8).collect::<Vec<_>>());
}
