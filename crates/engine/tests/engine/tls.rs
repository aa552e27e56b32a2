//! Connections over TLS that have not completed the handshake of OpenFlow.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sluice_engine::{Config, TlsListeners};
use sluice_io::{Io, TlsClient};
use sluice_openflow::Version;

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::TestPeer;
use crate::tls_peer::{Authority, TlsPeer};

/// An engine that accepts TLS, its address for that, and what its peers need.
fn engine(change: impl FnOnce(&mut Config)) -> (TestEngine, SocketAddr, TlsClient) {
    let authority = Authority::new();
    let engine = TestEngine::new(|cfg| {
        let (listen, server) = (vec![([127, 0, 0, 1], 0).into()], authority.server());
        cfg.tls = vec![TlsListeners { listen, server, bind_datapath_id: false }];
        change(cfg);
    });
    let addr = engine.engine.as_ref().unwrap().tls_addresses()[0];
    (engine, addr, authority.client("switch"))
}

#[test]
fn a_peer_that_has_completed_the_tls_handshake_is_closed_after_those_that_are_silent() {
    let (test, addr, client) = engine(|cfg| {
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
    let (mut test, addr, client) = engine(|_| {});
    let mut peer = TlsPeer::connect(addr, &client);
    test.engine.take().unwrap().stop();
    peer.expect_close();
    assert_eq!(peer.closed, Some(Ok(())), "with a close_notify");
    test.expect_closed(1, "shutdown");
}

/// The first two bytes within TLS are those of a TLS handshake, which is no reason to suppose that the peer expects a port without TLS.
#[test]
fn what_looks_like_tls_within_tls_is_a_malformed_message() {
    let (test, addr, client) = engine(|_| {});
    let mut peer = TlsPeer::connect(addr, &client);
    assert_eq!(peer.io.send(peer.id, &[0x16, 3, 0, 4, 0, 0, 0, 0]), 8);
    peer.expect_close();
    test.expect_closed(1, "malformed_message");
}

/// All connections come from one address, and the one over TCP is the oldest. Those of the flood have sent a part of their
/// `ClientHello`.
#[test]
fn a_flood_of_one_listener_closes_no_connection_of_another() {
    let (test, addr, _) = engine(|cfg| cfg.limits.handshakes_max = 8);
    let mut switch = TestPeer::connect(test.addr);
    wait_until("the switch", || test.metric("connections_accepted", "") == 1);
    let flood: Vec<_> = (0..30)
        .map(|_| {
            let mut peer = TcpStream::connect(addr).unwrap();
            peer.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).unwrap();
            peer
        })
        .collect();
    test.expect_closed(23, "too_many_handshakes");
    switch.complete_handshake(Version::V1_3, 1, usize::MAX);
    switch.expect_reply();
    drop(flood);
}
