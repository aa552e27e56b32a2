//! An engine that is set otherwise while it runs.

use std::net::{SocketAddr, TcpListener, TcpStream};

use sluice_apps::learning::Config as Bridge;
use sluice_engine::StartError;
use sluice_openflow::Version;

use crate::lab::{Lab, config, wait_until};
use crate::peer::Peer;

/// A loopback address of its own, so that nobody takes its port in between.
fn free_addr(host: u8) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 65, 0, host], 0))).unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn listeners_come_and_go_and_sessions_stay() {
    let (old, new) = (free_addr(1), free_addr(2));
    let lab = Lab::new(|cfg| cfg.listen.push(old));
    let engine = lab.engine.as_ref().unwrap();
    let mut first = Peer::switch(lab.addr, Version::V1_3, 1);
    let mut second = Peer::switch(old, Version::V1_0, 2);
    let restart = engine.apply(config(|cfg| cfg.listen.push(new)), |_| {}).unwrap();
    assert!(restart.is_empty(), "{restart:?}");
    let mut third = Peer::switch(new, Version::V1_3, 3);
    wait_until("no listener", || TcpStream::connect(old).is_err());
    for switch in [&mut first, &mut second, &mut third] {
        switch.must_be_answered();
    }
    assert_eq!(lab.ended(""), 0);
}

#[test]
fn what_cannot_be_listened_on_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let lab = Lab::new(|_| {});
    let engine = lab.engine.as_ref().unwrap();
    let mut switch = Peer::switch(lab.addr, Version::V1_3, 1);
    let refused = engine.apply(config(|cfg| cfg.listen = vec![addr]), |_| {});
    assert!(matches!(refused, Err(StartError::Listen(at, _)) if at == addr), "{refused:?}");
    switch.must_be_answered();
    Peer::switch(lab.addr, Version::V1_3, 2).must_be_answered();
}

#[test]
fn limits_and_applications_are_set_at_once_and_threads_are_not() {
    let lab = Lab::new(|_| {});
    let engine = lab.engine.as_ref().unwrap();
    let mut switch = Peer::switch(lab.addr, Version::V1_3, 1);
    switch.must_be_answered();
    let change = config(|cfg| {
        cfg.limits.switches_max = 1;
        cfg.workers.threads = 2;
    });
    let restart = engine.apply(change, |app| app.configure(&Bridge::default())).unwrap();
    assert_eq!(restart, ["workers"]);
    wait_until("the limit", || {
        let mut second = Peer::connect(lab.addr);
        second.shake_hands(Version::V1_3, 2, usize::MAX);
        second.last_words().is_some() && lab.ended("too_many_switches") > 0
    });
    switch.must_be_answered();
}
