//! What is not gone beyond.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use sluice_openflow::{ErrorReason, Message, Version};

use crate::lab::{Lab, wait_until};
use crate::peer::{Peer, echo_reply, echo_request};

#[test]
fn a_peer_that_says_nothing_is_hung_up_on() {
    let lab = Lab::new(|cfg| cfg.session.handshake_timeout = Duration::from_millis(300));
    let mut good = Peer::switch(lab.addr, Version::V1_3, 1);
    let mut silent = Peer::connect(lab.addr);
    assert_eq!(silent.last_words(), None);
    let mut half = Peer::connect(lab.addr);
    half.greet(Version::V1_3);
    assert_eq!(half.last_words(), None);
    lab.must_end(2, "handshake_timeout");
    good.must_be_answered();
}

#[test]
fn a_switch_that_falls_silent_is_asked_and_hung_up_on() {
    let lab = Lab::new(|cfg| {
        cfg.session.echo_interval = Duration::from_millis(200);
        cfg.session.echo_timeout = Duration::from_millis(200);
    });
    let mut switch = Peer::switch(lab.addr, Version::V1_0, 1);
    assert!(matches!(switch.hear(), Some(Message::FlowMod(_))), "at its start");
    assert_eq!(switch.hear(), Some(echo_request(&[])));
    assert_eq!(switch.last_words(), None);
    lab.must_end(1, "echo_timeout");
}

#[test]
fn only_so_many_peers_may_be_without_proof() {
    let lab = Lab::new(|cfg| {
        cfg.limits.handshakes_max = 3;
        cfg.limits.hello_grace = Duration::from_secs(60);
    });
    let mut good = Peer::switch(lab.addr, Version::V1_3, 1);
    good.must_be_answered();
    let mut greeted: Vec<_> = (0..3).map(|_| Peer::connect(lab.addr)).collect();
    for peer in &mut greeted {
        peer.greet(Version::V1_3);
    }
    assert_eq!(lab.count("handshakes_pending", ""), 3);
    let mut fourth = Peer::connect(lab.addr);
    assert!(fourth.hear().is_none(), "not even greeted");
    lab.must_end(1, "too_many_handshakes");
    greeted.pop();
    wait_until("room", || lab.count("handshakes_pending", "") == 2);
    Peer::switch(lab.addr, Version::V1_3, 2).must_be_answered();
    good.must_be_answered();
}

#[test]
fn the_longest_silent_makes_room() {
    let lab = Lab::new(|cfg| cfg.limits.handshakes_max = 3);
    let mut greeted = Peer::connect(lab.addr);
    greeted.greet(Version::V1_3);
    let mut silent: Vec<_> = (0..2).map(|_| Peer::connect(lab.addr)).collect();
    for peer in &mut silent {
        assert!(peer.hear().is_some());
    }
    // Half a HELLO is none.
    silent[0].send(&[4, 0]);
    let mut switch = Peer::switch(lab.addr, Version::V1_3, 1);
    switch.must_be_answered();
    assert!(silent[0].hear().is_none(), "the oldest that says nothing");
    lab.must_end(1, "too_many_handshakes");
    assert_eq!(lab.count("handshakes_pending", ""), 2);
    greeted.say(&echo_request(&[1]));
    while greeted.hear() != Some(echo_reply(&[1])) {}
}

#[test]
fn silence_keeps_no_switch_out() {
    let lab = Lab::new(|cfg| {
        cfg.limits.handshakes_max = 20;
        cfg.session.handshake_timeout = Duration::from_secs(60);
    });
    let mut silent = Vec::new();
    for id in 0..30 {
        silent.extend((0..40).map(|_| Peer::connect(lab.addr)));
        // The newest are silent in place of the oldest; a switch has time to speak.
        Peer::switch(lab.addr, Version::V1_3, id).must_be_answered();
        assert!(lab.count("handshakes_pending", "") <= 20);
    }
    assert_eq!(
        (lab.ended("handshake_timeout"), lab.count("connections_accepted", "")),
        (0, 30 * 41)
    );
}

/// Whoever says `HELLO` and no more makes room after a grace, here of no time at all.
#[test]
fn hello_and_no_more_keeps_no_switch_out() {
    let lab = Lab::new(|cfg| {
        cfg.limits.handshakes_max = 20;
        cfg.limits.hello_grace = Duration::ZERO;
        cfg.session.handshake_timeout = Duration::from_secs(60);
    });
    let mut greeted = Vec::new();
    for id in 0..30 {
        for _ in 0..20 {
            let mut peer = Peer::connect(lab.addr);
            peer.greet(Version::V1_3);
            greeted.push(peer);
        }
        Peer::switch(lab.addr, Version::V1_3, id).must_be_answered();
        assert!(lab.count("handshakes_pending", "") <= 20);
    }
    assert_eq!(
        (lab.ended("handshake_timeout"), lab.count("connections_accepted", "")),
        (0, 30 * 21)
    );
    let last = greeted.last_mut().unwrap();
    last.say(&echo_request(&[1]));
    while last.hear() != Some(echo_reply(&[1])) {}
}

/// A host that takes all places makes room for another, even within the grace.
#[test]
fn one_host_keeps_no_other_out() {
    let lab = Lab::new(|cfg| {
        cfg.listen = vec![(Ipv6Addr::UNSPECIFIED, 0).into()];
        cfg.limits.handshakes_max = 20;
        cfg.limits.hello_grace = Duration::from_secs(60);
    });
    if lab.addr.is_ipv4() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIP one_host_keeps_no_other_out: no IPv6 here");
        return;
    }
    let at = |ip: IpAddr| SocketAddr::new(ip, lab.addr.port());
    let greeted: Vec<_> = (0..20)
        .map(|_| {
            let mut peer = Peer::connect(at(Ipv4Addr::LOCALHOST.into()));
            peer.greet(Version::V1_3);
            peer
        })
        .collect();
    let mut more = Peer::connect(at(Ipv4Addr::LOCALHOST.into()));
    assert!(more.hear().is_none(), "no more of the same host");
    Peer::switch(at(Ipv6Addr::LOCALHOST.into()), Version::V1_3, 1).must_be_answered();
    assert_eq!(lab.ended("too_many_handshakes"), 2);
    drop(greeted);
}

#[test]
fn only_so_much_may_be_said_without_proof() {
    let lab = Lab::new(|cfg| cfg.limits.handshake_bytes_max = 4096);
    let mut peer = Peer::connect(lab.addr);
    peer.greet(Version::V1_3);
    for _ in 0..50 {
        peer.say(&echo_request(&[0; 100]));
    }
    assert_eq!(peer.last_words(), None);
    lab.must_end(1, "handshake_too_large");
}

#[test]
fn only_so_many_switches_are_served() {
    let lab = Lab::new(|cfg| cfg.limits.switches_max = 1);
    let mut first = Peer::switch(lab.addr, Version::V1_3, 1);
    first.must_be_answered();
    let mut second = Peer::switch(lab.addr, Version::V1_3, 2);
    assert_eq!(second.last_words(), Some(ErrorReason::NOT_ALLOWED));
    lab.must_end(1, "too_many_switches");
    first.must_be_answered();
}

#[test]
fn only_so_many_messages_may_be_malformed() {
    let lab = Lab::new(|cfg| cfg.session.malformed_max = 5);
    let mut switch = Peer::switch(lab.addr, Version::V1_0, 1);
    for _ in 0..5 {
        switch.send(&[1, 10, 0, 8, 0, 0, 0, 9]);
    }
    switch.must_be_answered();
    assert_eq!(lab.count("malformed_messages", ""), 5);
    switch.send(&[1, 10, 0, 8, 0, 0, 0, 9]);
    assert_eq!(switch.last_words(), Some(ErrorReason::BAD_LEN));
    lab.must_end(1, "too_many_malformed");
}
