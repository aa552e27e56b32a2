//! Connections over TLS that have not completed the handshake of OpenFlow.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use sluice_engine::{Config, TlsListeners};
use sluice_io::{
    ClientAuth, ConnId, ConnectionError, Epoll, Io, IoEvent, TlsClient, TlsServer, WaitStrategy,
    sock,
};

use crate::test_engine::{TestEngine, wait_until};

/// Certificates of a test: the controller's, which is its own authority.
fn certificates(test: &str) -> (TlsServer, TlsClient) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["controller".to_owned()]).unwrap();
    let file = |extension: &str| {
        let name = format!("engine-tls-{test}-{}.{extension}", std::process::id());
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
    };
    let (certificate, key) = (file("pem"), file("key"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let server = TlsServer::load(&certificate, &key, &ClientAuth::None).unwrap();
    let client = TlsClient::load(&certificate, None).unwrap();
    fs::remove_file(certificate).unwrap();
    fs::remove_file(key).unwrap();
    (server, client)
}

/// An engine that accepts TLS, its address for that, and what its peers need.
fn engine(test: &str, change: impl FnOnce(&mut Config)) -> (TestEngine, SocketAddr, TlsClient) {
    let (server, client) = certificates(test);
    let engine = TestEngine::new(|cfg| {
        let listen = vec![([127, 0, 0, 1], 0).into()];
        cfg.tls = vec![TlsListeners { listen, server, bind_datapath_id: false }];
        change(cfg);
    });
    let addr = engine.engine.as_ref().unwrap().tls_addresses()[0];
    (engine, addr, client)
}

/// A peer that speaks TLS.
struct TlsPeer {
    io: Epoll,
    id: ConnId,
    received: Vec<u8>,
    closed: Option<Result<(), ConnectionError>>,
}

impl TlsPeer {
    /// Connects, and returns when the engine's `HELLO` was received: the TLS handshake is complete.
    fn connect(addr: SocketAddr, client: &TlsClient) -> Self {
        let mut io = Epoll::new(WaitStrategy::default()).unwrap();
        let stream = sock::start_connect(addr, &sock::Options::default()).unwrap();
        let id = io.adopt_connecting(client.connect(stream).unwrap()).unwrap();
        let mut peer = Self { io, id, received: vec![], closed: None };
        wait_until("the end of the TLS handshake", || {
            peer.run();
            !peer.received.is_empty()
        });
        peer
    }

    fn run(&mut self) {
        let deadline = self.io.now() + Duration::from_millis(1);
        self.io.wait(Some(deadline)).unwrap();
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Data(_, bytes) => self.received.extend_from_slice(bytes),
                IoEvent::Closed(_, error) => self.closed = Some(error.map_or(Ok(()), Err)),
                _ => {}
            }
        }
    }
}

#[test]
fn a_peer_that_has_completed_the_tls_handshake_is_closed_after_those_that_are_silent() {
    let (test, addr, client) = engine("silent", |cfg| {
        cfg.limits.handshakes_max = 4;
        cfg.limits.hello_grace = Duration::from_secs(60);
    });
    let mut peer = TlsPeer::connect(addr, &client);
    let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
    test.expect_closed(7, "too_many_handshakes");
    for _ in 0..50 {
        peer.run();
    }
    assert_eq!(peer.closed, None);
    drop(silent);
}

#[test]
fn peers_in_the_handshake_are_closed_in_order_when_the_engine_stops() {
    let (mut test, addr, client) = engine("stop", |_| {});
    let mut peer = TlsPeer::connect(addr, &client);
    test.engine.take().unwrap().stop();
    wait_until("the end", || {
        peer.run();
        peer.closed.is_some()
    });
    assert_eq!(peer.closed, Some(Ok(())), "with a close_notify");
    test.expect_closed(1, "shutdown");
}

/// The first two bytes within TLS are those of a TLS handshake, which is no reason to suppose that the peer expects a port without TLS.
#[test]
fn what_looks_like_tls_within_tls_is_a_malformed_message() {
    let (test, addr, client) = engine("within", |_| {});
    let mut peer = TlsPeer::connect(addr, &client);
    assert_eq!(peer.io.send(peer.id, &[0x16, 3, 0, 4, 0, 0, 0, 0]), 8);
    wait_until("the end", || {
        peer.run();
        peer.closed.is_some()
    });
    test.expect_closed(1, "malformed_message");
}
