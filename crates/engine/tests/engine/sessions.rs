//! Sessions of switches that follow the specification.

use std::sync::mpsc::channel;

use sluice_openflow::{FlowModCommand, Hello, Message, MessageType, RawMessage, Version, Versions};

use crate::test_engine::{TIMEOUT, TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, bytes, echo_request};

#[test]
fn switches_of_every_version_are_supported() {
    let test = TestEngine::new(|_| {});
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestPeer::connect_switch(test.addr, version, 1 + u64::from(version.0));
        switch.expect_reply();
        switch.expect_reply();
        wait_until("a connected switch", || {
            test.metric("switches_connected", &version.to_string()) == 1
        });
    }
    assert_eq!(test.metric("messages_received", "PACKET_IN"), 12);
    test.expect_closed(6, "closed_by_peer");
    wait_until("all switches to disconnect", || test.metric("switches_connected", "") == 0);
}

#[test]
fn beginnings_and_ends_of_sessions_are_timed_and_nothing_between_them() {
    let test = TestEngine::new(|_| {});
    let of_sessions = || test.seconds("worker_sessions_seconds");
    assert!(of_sessions() <= 0.0);
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    switch.expect_reply();
    wait_until("the time of the beginning", || of_sessions() > 0.0);
    let begun = of_sessions();
    for _ in 0..9 {
        switch.expect_reply();
    }
    assert!(of_sessions() <= begun);
    drop(switch);
    wait_until("the time of the end", || of_sessions() > begun);
}

/// The second `HELLO` has a version bitmap, and waits for a moment because of Mininet.
#[test]
fn a_silent_peer_receives_hello() {
    let test = TestEngine::new(|cfg| cfg.session.versions = Versions(0b1_0010));
    let hello = TestPeer::connect(test.addr).receive_bytes().unwrap();
    let hello = Hello::parse_raw(RawMessage::new(&hello).unwrap()).unwrap();
    assert_eq!(hello.versions(), Some(Versions(0b1_0010)));
    let test = TestEngine::new(|_| {});
    let mut peer = TestPeer::connect(test.addr);
    let hello = peer.receive_bytes().unwrap();
    let hello = RawMessage::new(&hello).unwrap();
    assert_eq!((hello.kind(), hello.version()), (MessageType::HELLO, Version::V1_5));
    assert_eq!(Hello::parse_raw(hello).unwrap(), Hello::default());
}

#[test]
fn a_handshake_may_arrive_one_byte_at_a_time() {
    let test = TestEngine::new(|_| {});
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestPeer::connect(test.addr);
        switch.complete_handshake(version, 5, 1);
        switch.expect_reply();
    }
}

/// What follows the handshake at once is received by the acceptor and processed by the worker.
#[test]
fn bytes_that_arrive_with_the_handshake_are_counted_once() {
    let test = TestEngine::new(|_| {});
    let mut switch = TestPeer::connect(test.addr);
    let xid = switch.exchange_hello(Version::V1_0);
    // FEATURES_REPLY without ports. OpenFlow 1.0.0 §5.3.1.
    let mut together = [[1, 6, 0, 32], xid.to_be_bytes(), [0; 4], [0, 0, 0, 7]].concat();
    together.resize(32, 0);
    together.extend(bytes(Version::V1_0, &broadcast(None)));
    switch.send_bytes(&together);
    switch.expect_reply();
    assert_eq!(test.metric("messages_received", "PACKET_IN"), 2);
    assert_eq!(test.metric("received_bytes", ""), switch.sent_bytes);
}

/// A session begins with a table-miss entry from 1.3 on, and up to 1.2 with the deletion of one entry that no switch has.
#[test]
fn the_flow_entries_of_a_reconnecting_switch_are_kept() {
    let test = TestEngine::new(|_| {});
    for _ in 0..3 {
        for version in Versions::SUPPORTED.iter() {
            let mut switch = TestPeer::connect_switch(test.addr, version, u64::from(version.0));
            switch.send(&echo_request(b"done?"));
            let mut added = 0;
            loop {
                match switch.receive().unwrap() {
                    Message::EchoReply { .. } => break,
                    Message::FlowMod(flow_mod) if flow_mod.command == FlowModCommand::ADD => {
                        added += 1;
                    }
                    Message::FlowMod(flow_mod)
                        if flow_mod.command == FlowModCommand::DELETE_STRICT =>
                    {
                        assert!(version < Version::V1_3, "{version}");
                        assert_eq!(flow_mod.matching.fields.len(), 3);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(added, usize::from(version >= Version::V1_3), "{version}");
        }
        wait_until("all switches to disconnect", || test.metric("switches_connected", "") == 0);
    }
}

/// This saves a distant switch a round trip.
#[test]
fn initial_messages_are_sent_together_with_the_requests_of_the_handshake() {
    let test = TestEngine::new(|_| {});
    for version in Versions::SUPPORTED.iter() {
        let mut switch = TestPeer::connect(test.addr);
        switch.exchange_hello(version);
        let mut kinds = vec![MessageType::FEATURES_REQUEST];
        // The switch answers none of the requests.
        while kinds.last() != Some(&MessageType::FLOW_MOD) {
            kinds.push(RawMessage::new(&switch.receive_bytes().unwrap()).unwrap().kind());
        }
        let ports = (version >= Version::V1_3).then_some(MessageType::MULTIPART_REQUEST);
        let expected = [Some(MessageType::FEATURES_REQUEST), ports];
        let expected =
            expected.into_iter().chain([MessageType::SET_CONFIG, MessageType::FLOW_MOD].map(Some));
        assert_eq!(kinds, expected.flatten().collect::<Vec<_>>(), "{version}");
    }
}

#[test]
fn stopping_closes_all_connections_and_joins_all_threads() {
    let mut test = TestEngine::new(|cfg| cfg.workers.threads = 3);
    let mut switches: Vec<_> =
        (1..=5).map(|id| TestPeer::connect_switch(test.addr, Version::V1_3, id)).collect();
    switches.iter_mut().for_each(TestPeer::expect_reply);
    let mut silent = TestPeer::connect(test.addr);
    assert!(silent.receive_bytes().is_some());
    let (done, joined) = channel();
    let engine = test.engine.take().unwrap();
    std::thread::spawn(move || {
        engine.stop();
        done.send(()).unwrap();
    });
    joined.recv_timeout(TIMEOUT).expect("all threads joined");
    assert!(silent.receive_bytes().is_none());
    for switch in &mut switches {
        assert_eq!(switch.expect_close(), None);
    }
    assert!(std::net::TcpStream::connect(test.addr).is_err());
}
