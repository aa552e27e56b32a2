//! Limits of handshakes, switches, time and bytes.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use sluice_io::sock;
use sluice_openflow::{ErrorReason, Message, Version};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, echo_reply, echo_request};

#[test]
fn a_peer_that_does_not_complete_the_handshake_in_time_is_disconnected() {
    let test = TestEngine::new(|cfg| cfg.session.handshake_timeout = Duration::from_millis(300));
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    let mut silent = TestPeer::connect(test.addr);
    assert_eq!(silent.expect_close(), None);
    let mut after_hello = TestPeer::connect(test.addr);
    after_hello.exchange_hello(Version::V1_3);
    assert_eq!(after_hello.expect_close(), None);
    test.expect_closed(2, "handshake_timeout");
    good.expect_reply();
}

#[test]
fn a_switch_that_does_not_answer_echo_requests_is_disconnected() {
    let test = TestEngine::new(|cfg| {
        cfg.session.echo_interval = Duration::from_millis(200);
        cfg.session.echo_timeout = Duration::from_millis(200);
    });
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_0, 1);
    assert!(matches!(switch.receive(), Some(Message::FlowMod(_))), "an initial message");
    assert_eq!(switch.receive(), Some(echo_request(&[])));
    assert_eq!(switch.expect_close(), None);
    test.expect_closed(1, "echo_timeout");
}

#[test]
fn connections_beyond_the_handshake_limit_are_refused() {
    let test = TestEngine::new(|cfg| {
        cfg.limits.handshakes_max = 3;
        cfg.limits.hello_grace = Duration::from_secs(60);
    });
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    good.expect_reply();
    let mut after_hello: Vec<_> = (0..3).map(|_| TestPeer::connect(test.addr)).collect();
    for peer in &mut after_hello {
        peer.exchange_hello(Version::V1_3);
    }
    assert_eq!(test.metric("handshakes_pending", ""), 3);
    let mut fourth = TestPeer::connect(test.addr);
    assert!(fourth.receive().is_none(), "no HELLO");
    test.expect_closed(1, "too_many_handshakes");
    after_hello.pop();
    wait_until("a free place", || test.metric("handshakes_pending", "") == 2);
    TestPeer::connect_switch(test.addr, Version::V1_3, 2).expect_reply();
    good.expect_reply();
}

#[test]
fn the_oldest_connection_without_hello_is_evicted() {
    let test = TestEngine::new(|cfg| cfg.limits.handshakes_max = 3);
    let mut after_hello = TestPeer::connect(test.addr);
    after_hello.exchange_hello(Version::V1_3);
    let mut silent: Vec<_> = (0..2).map(|_| TestPeer::connect(test.addr)).collect();
    for peer in &mut silent {
        assert!(peer.receive().is_some());
    }
    // An incomplete HELLO does not count.
    silent[0].send_bytes(&[4, 0]);
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    switch.expect_reply();
    assert!(silent[0].receive().is_none(), "the oldest without HELLO");
    test.expect_closed(1, "too_many_handshakes");
    assert_eq!(test.metric("handshakes_pending", ""), 2);
    after_hello.send(&echo_request(&[1]));
    while after_hello.receive() != Some(echo_reply(&[1])) {}
}

#[test]
fn silent_connections_do_not_keep_switches_out() {
    let test = TestEngine::new(|cfg| {
        cfg.limits.handshakes_max = 20;
        cfg.session.handshake_timeout = Duration::from_secs(60);
    });
    let mut silent = Vec::new();
    for id in 0..30 {
        silent.extend((0..40).map(|_| TestPeer::connect(test.addr)));
        // New silent connections evict the oldest ones, so that a switch has time for its HELLO.
        TestPeer::connect_switch(test.addr, Version::V1_3, id).expect_reply();
        assert!(test.metric("handshakes_pending", "") <= 20);
    }
    assert_eq!(
        (test.closed("handshake_timeout"), test.metric("connections_accepted", "")),
        (0, 30 * 41)
    );
}

/// The grace period is zero here.
#[test]
fn connections_that_send_only_hello_do_not_keep_switches_out() {
    let test = TestEngine::new(|cfg| {
        cfg.limits.handshakes_max = 20;
        cfg.limits.hello_grace = Duration::ZERO;
        cfg.session.handshake_timeout = Duration::from_secs(60);
    });
    let mut after_hello = Vec::new();
    for id in 0..30 {
        for _ in 0..20 {
            let mut peer = TestPeer::connect(test.addr);
            peer.exchange_hello(Version::V1_3);
            after_hello.push(peer);
        }
        TestPeer::connect_switch(test.addr, Version::V1_3, id).expect_reply();
        assert!(test.metric("handshakes_pending", "") <= 20);
    }
    assert_eq!(
        (test.closed("handshake_timeout"), test.metric("connections_accepted", "")),
        (0, 30 * 21)
    );
    let last = after_hello.last_mut().unwrap();
    last.send(&echo_request(&[1]));
    while last.receive() != Some(echo_reply(&[1])) {}
}

#[test]
fn a_source_that_fills_the_handshake_limit_does_not_keep_others_out_even_within_the_grace_period() {
    let test = TestEngine::new(|cfg| {
        cfg.listen = vec![(Ipv6Addr::UNSPECIFIED, 0).into()];
        cfg.limits.handshakes_max = 20;
        cfg.limits.hello_grace = Duration::from_secs(60);
    });
    if test.addr.is_ipv4() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIP a_source_that_fills_the_handshake_limit…: this machine has no IPv6");
        return;
    }
    let at = |ip: IpAddr| SocketAddr::new(ip, test.addr.port());
    let after_hello: Vec<_> = (0..20)
        .map(|_| {
            let mut peer = TestPeer::connect(at(Ipv4Addr::LOCALHOST.into()));
            peer.exchange_hello(Version::V1_3);
            peer
        })
        .collect();
    let mut more = TestPeer::connect(at(Ipv4Addr::LOCALHOST.into()));
    assert!(more.receive().is_none(), "another one of the same source");
    TestPeer::connect_switch(at(Ipv6Addr::LOCALHOST.into()), Version::V1_3, 1).expect_reply();
    assert_eq!(test.closed("too_many_handshakes"), 2);
    drop(after_hello);
}

#[test]
fn a_handshake_with_too_many_bytes_is_disconnected() {
    let test = TestEngine::new(|cfg| cfg.limits.handshake_bytes_max = 4096);
    let mut peer = TestPeer::connect(test.addr);
    peer.exchange_hello(Version::V1_3);
    for _ in 0..50 {
        peer.send(&echo_request(&[0; 100]));
    }
    assert_eq!(peer.expect_close(), None);
    test.expect_closed(1, "handshake_too_large");
}

#[test]
fn a_peer_that_uses_tls_on_a_port_for_tcp_is_disconnected_for_that_reason() {
    let test = TestEngine::new(|_| {});
    let mut peer = TestPeer::connect(test.addr);
    // The header of a record, and that of a ClientHello.
    peer.send_bytes(&[0x16, 3, 1, 0, 4, 1, 0, 0, 0]);
    assert_eq!(peer.expect_close(), None);
    test.expect_closed(1, "tls_on_tcp_port");
}

#[test]
fn a_peer_that_uses_http_is_disconnected_for_that_reason() {
    let test = TestEngine::new(|_| {});
    let mut peer = TestPeer::connect(test.addr);
    peer.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost:6653\r\n\r\n");
    assert_eq!(peer.expect_close(), None);
    test.expect_closed(1, "http_on_openflow_port");
}

#[test]
fn switches_beyond_the_limit_are_refused() {
    let test = TestEngine::new(|cfg| cfg.limits.switches_max = 1);
    let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    first.expect_reply();
    let mut second = TestPeer::connect_switch(test.addr, Version::V1_3, 2);
    assert_eq!(second.expect_close(), Some(ErrorReason::NOT_ALLOWED));
    test.expect_closed(1, "too_many_switches");
    first.expect_reply();
}

#[test]
fn a_switch_with_too_many_malformed_messages_is_disconnected() {
    let test = TestEngine::new(|cfg| cfg.session.malformed_max = 5);
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_0, 1);
    for _ in 0..5 {
        switch.send_bytes(&[1, 10, 0, 8, 0, 0, 0, 9]);
    }
    switch.expect_reply();
    assert_eq!(test.metric("malformed_messages", ""), 5);
    switch.send_bytes(&[1, 10, 0, 8, 0, 0, 0, 9]);
    assert_eq!(switch.expect_close(), Some(ErrorReason::BAD_LEN));
    test.expect_closed(1, "too_many_malformed");
}

/// Any source may have all places as long as no other wants them. Its oldest sessions stay.
#[test]
fn a_source_that_has_all_switches_gives_up_places_to_others() {
    let test = TestEngine::new(|cfg| {
        cfg.listen = vec![(Ipv6Addr::UNSPECIFIED, 0).into()];
        cfg.limits.switches_max = 4;
    });
    if test.addr.is_ipv4() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIP a_source_that_has_all_switches…: this machine has no IPv6");
        return;
    }
    let at = |ip: IpAddr| SocketAddr::new(ip, test.addr.port());
    let (many_from, few_from) = (at(Ipv4Addr::LOCALHOST.into()), at(Ipv6Addr::LOCALHOST.into()));
    let mut first = TestPeer::connect_switch(few_from, Version::V1_3, 100);
    first.expect_reply();
    let mut many: Vec<_> = (0..3)
        .map(|id| {
            let mut switch = TestPeer::connect_switch(many_from, Version::V1_3, id);
            switch.expect_reply();
            switch
        })
        .collect();
    let mut one_more = TestPeer::connect_switch(many_from, Version::V1_3, 9);
    assert_eq!(one_more.expect_close(), Some(ErrorReason::NOT_ALLOWED));
    let mut second = TestPeer::connect_switch(few_from, Version::V1_3, 101);
    second.expect_reply();
    test.expect_closed(2, "too_many_switches");
    many.pop().unwrap().expect_close();
    for switch in [&mut first, &mut second].into_iter().chain(&mut many) {
        switch.expect_reply();
    }
    let mut third = TestPeer::connect_switch(few_from, Version::V1_3, 102);
    assert_eq!(third.expect_close(), Some(ErrorReason::NOT_ALLOWED), "shares are equal");
}

/// The transaction id of the request used to be always the same.
#[test]
fn a_peer_that_sends_the_whole_handshake_without_reading_is_no_switch() {
    let test = TestEngine::new(|cfg| cfg.session.handshake_timeout = Duration::from_millis(300));
    let mut blind = TestPeer::connect(test.addr);
    for xid in 1..10 {
        let mut features = [[1, 6, 0, 32], [0, 0, 0, xid], [0; 4], [0, 0, 0, 7]].concat();
        features.resize(32, 0);
        blind.send_bytes(&[&[1, 0, 0, 8, 0, 0, 0, 9], &*features].concat());
    }
    blind.expect_close();
    test.expect_closed(1, "handshake_timeout");
}

/// The flood comes from an IPv4 address, the switch from an IPv6 address.
#[test]
fn the_kernel_drops_a_flood_from_one_address_and_switches_at_others_connect() {
    let test = TestEngine::new(|cfg| {
        cfg.listen = vec![(Ipv6Addr::UNSPECIFIED, 0).into()];
        cfg.limits.syn_filter = true;
    });
    if test.addr.is_ipv4() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        // The test harness hides what macros print.
        std::io::stderr()
            .write_all(b"NOT TESTED: limits.syn_filter. This machine has no IPv6.\n")
            .unwrap();
        return;
    }
    let at = |ip: IpAddr| SocketAddr::new(ip, test.addr.port());
    let (flooded, dropped) = (at(Ipv4Addr::LOCALHOST.into()), || test.metric("syns_dropped", ""));
    let mut sent = 0;
    wait_until("SYNs to be dropped", || {
        for _ in 0..500 {
            let begun = sock::start_connect(flooded, &sock::Options::default());
            sent += u64::from(begun.is_ok());
        }
        dropped() >= 500
    });
    let (accepted, before) = (test.metric("connections_accepted", ""), dropped());
    assert!(accepted + before <= sent, "{accepted} accepted and {before} dropped of {sent}");
    let mut switch = TestPeer::connect_switch(at(Ipv6Addr::LOCALHOST.into()), Version::V1_3, 1);
    switch.expect_reply();
    assert_eq!(dropped(), before);
}
