use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

use sluice_io::simulated::{ClockError, SimulatedIo, SimulatedKernel};
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
}

impl<I: Io> AcceptorTest<I> {
    fn new(io: I, cfg: Config) -> Self {
        let (to_acceptor, inbox) = queue(cfg.limits.queue_capacity, io.waker());
        let (worker, to_worker) = queue(cfg.limits.queue_capacity, io.waker());
        let registry = Arc::new(CounterRegistry::new(1));
        let acceptor = Acceptor::new(io, Arc::new(cfg), vec![worker], inbox, registry);
        Self { acceptor, to_acceptor, to_worker, received: VecDeque::new() }
    }

    /// Runs iterations until the worker receives a message; returns its kind.
    fn next_worker_message(&mut self) -> &'static str {
        for _ in 0..200 {
            self.to_worker.take(&mut self.received);
            match self.received.pop_front() {
                Some(ToWorker::Adopt(..)) => return "adopt",
                Some(ToWorker::Probe(_)) => return "probe",
                Some(ToWorker::Close(..)) => return "close",
                Some(_) => return "other",
                None => {
                    let control = self.acceptor.run_iteration(&mut EmptyApp).unwrap();
                    assert_eq!(control, LoopControl::Continue);
                }
            }
        }
        "none"
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
