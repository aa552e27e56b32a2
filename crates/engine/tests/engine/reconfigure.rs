//! Applying a new configuration to a running engine.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use sluice_apps::learning::Config as LearningConfig;
use sluice_engine::{StartError, TlsListeners};
use sluice_io::sock;
use sluice_openflow::Version;

use crate::test_engine::{TestEngine, config, wait_until};
use crate::test_peer::TestPeer;
use crate::tls_peer::{Authority, TlsPeer};

/// A free port on a loopback address that no other test uses, so that the port stays free.
fn free_addr(host: u8) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 65, 0, host], 0))).unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn listeners_are_added_and_removed_without_closing_connections() {
    let (old, new) = (free_addr(1), free_addr(2));
    let test = TestEngine::new(|cfg| cfg.listen.push(old));
    let engine = test.engine.as_ref().unwrap();
    let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    let mut second = TestPeer::connect_switch(old, Version::V1_0, 2);
    let restart = engine.apply(config(|cfg| cfg.listen.push(new)), |_| {}).unwrap();
    assert!(restart.is_empty(), "{restart:?}");
    let mut third = TestPeer::connect_switch(new, Version::V1_3, 3);
    wait_until("the old listener to close", || TcpStream::connect(old).is_err());
    for switch in [&mut first, &mut second, &mut third] {
        switch.expect_reply();
    }
    assert_eq!(test.closed(""), 0);
}

#[test]
fn listeners_that_are_added_have_the_filter_of_syns() {
    let new = free_addr(3);
    let test = TestEngine::new(|cfg| cfg.limits.syn_filter = true);
    let engine = test.engine.as_ref().unwrap();
    let changed = config(|cfg| {
        cfg.limits.syn_filter = true;
        cfg.listen.push(new);
    });
    engine.apply(changed, |_| {}).unwrap();
    wait_until("SYNs to be dropped", || {
        for _ in 0..500 {
            let _ = sock::start_connect(new, &sock::Options::default());
        }
        test.metric("syns_dropped", "") >= 500
    });
}

#[test]
fn an_address_in_use_is_an_error_and_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let test = TestEngine::new(|_| {});
    let engine = test.engine.as_ref().unwrap();
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    let result = engine.apply(config(|cfg| cfg.listen = vec![addr]), |_| {});
    assert!(matches!(result, Err(StartError::Listen(at, _)) if at.addr == addr), "{result:?}");
    switch.expect_reply();
    TestPeer::connect_switch(test.addr, Version::V1_3, 2).expect_reply();
}

/// A wildcard address and a specific one exclude each other on one port.
#[test]
fn a_wildcard_address_can_be_changed_to_a_specific_one_on_the_same_port() {
    let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let (any, specific) =
        (SocketAddr::from(([0; 4], port)), SocketAddr::from(([127, 0, 0, 1], port)));
    let test = TestEngine::new(|cfg| cfg.listen = vec![any]);
    let engine = test.engine.as_ref().unwrap();
    let mut switch = TestPeer::connect_switch(specific, Version::V1_3, 1);
    // 192.0.2.0/24 is for documentation; no host has such an address.
    let unavailable = SocketAddr::from(([192, 0, 2, 1], port));
    let result = engine.apply(config(|cfg| cfg.listen = vec![specific, unavailable]), |_| {});
    assert!(
        matches!(result, Err(StartError::Listen(at, _)) if at.addr == unavailable),
        "{result:?}"
    );
    wait_until("the old listener again", || TcpStream::connect(specific).is_ok());
    for listen in [specific, any] {
        engine.apply(config(|cfg| cfg.listen = vec![listen]), |_| {}).unwrap();
        TestPeer::connect_switch(specific, Version::V1_3, 2).expect_reply();
    }
    switch.expect_reply();
}

#[test]
fn the_wildcard_address_of_ipv4_can_be_changed_to_that_of_ipv6_and_back() {
    let port = TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
    let (v4, v6) = (SocketAddr::from(([0; 4], port)), SocketAddr::from(([0; 16], port)));
    let test = TestEngine::new(|cfg| cfg.listen = vec![v4]);
    let engine = test.engine.as_ref().unwrap();
    let local = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    assert!(TcpStream::connect(local).is_err());
    engine.apply(config(|cfg| cfg.listen = vec![v6]), |_| {}).unwrap();
    TestPeer::connect_switch(local, Version::V1_3, 1).expect_reply();
    engine.apply(config(|cfg| cfg.listen = vec![v4]), |_| {}).unwrap();
    wait_until("the old listener to close", || TcpStream::connect(local).is_err());
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TestPeer::connect_switch(local, Version::V1_3, 2).expect_reply();
}

#[test]
fn a_port_that_the_system_has_chosen_can_be_configured() {
    let test = TestEngine::new(|_| {});
    let engine = test.engine.as_ref().unwrap();
    engine.apply(config(|cfg| cfg.listen = vec![test.addr]), |_| {}).unwrap();
    TestPeer::connect_switch(test.addr, Version::V1_3, 1).expect_reply();
}

/// The listener would serve connections of both with the settings of one.
#[test]
fn tls_listeners_whose_addresses_include_each_other_are_an_error() {
    let (strict, open) = (Authority::new(), Authority::new());
    let listener = |addr, authority: &Authority, bind_datapath_id| TlsListeners {
        listen: vec![addr],
        server: authority.server(),
        bind_datapath_id,
    };
    let port = TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
    let (v4, v6) = (SocketAddr::from(([0; 4], port)), SocketAddr::from(([0; 16], port)));
    let test = TestEngine::new(|cfg| cfg.tls = vec![listener(v4, &open, false)]);
    let engine = test.engine.as_ref().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    for (first, second) in [(v6, v4), (v4, v6), (any, any)] {
        let both = vec![listener(first, &strict, true), listener(second, &open, false)];
        let result = engine.apply(config(|cfg| cfg.tls = both), |_| {});
        assert!(matches!(result, Err(StartError::Listen(..))), "{first} {second}: {result:?}");
    }
    let local = SocketAddr::from(([127, 0, 0, 1], port));
    TlsPeer::connect_switch(local, &open.client("switch"), 1).expect_no_close();
}

#[test]
fn limits_and_applications_change_at_once_and_threads_after_a_restart() {
    let test = TestEngine::new(|_| {});
    let engine = test.engine.as_ref().unwrap();
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    switch.expect_reply();
    let change = config(|cfg| {
        cfg.limits.switches_max = 1;
        cfg.workers.threads = 2;
    });
    let restart = engine.apply(change, |app| app.configure(&LearningConfig::default())).unwrap();
    assert_eq!(restart, ["workers"]);
    wait_until("the limit to apply", || {
        let mut second = TestPeer::connect(test.addr);
        second.complete_handshake(Version::V1_3, 2, usize::MAX);
        second.expect_close().is_some() && test.closed("too_many_switches") > 0
    });
    switch.expect_reply();
}
