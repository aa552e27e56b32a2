//! Memory limit of multipart replies.

use std::net::{Ipv6Addr, TcpListener};

use sluice_openflow::view::Multipart;
use sluice_openflow::{MultipartType, Version};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, echo_reply, echo_request};

/// Each switch is below its own limit. Those that have held their parts for longest lose them.
#[test]
fn incomplete_multipart_replies_of_all_switches_have_a_common_limit() {
    let test = TestEngine::new(|cfg| cfg.session.multipart_total_bytes_max = 100_000);
    let mut switches: Vec<_> =
        (0..6).map(|id| TestPeer::connect_switch(test.addr, Version::V1_3, id)).collect();
    let zeros = vec![0; 20_000];
    let first_part = Multipart { kind: MultipartType::FLOW, more: true, body: &zeros };
    for switch in &mut switches {
        switch.expect_reply();
        switch.send_multipart_part(first_part);
        switch.expect_reply();
    }
    test.expect_closed(1, "multipart_memory_limit");
    assert_eq!(switches[0].expect_close(), None);
    assert_eq!(test.metric("switches_connected", "1.3"), 5);
    drop(switches);
    wait_until("all switches to disconnect", || test.metric("switches_connected", "") == 0);
    let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 9);
    switch.send_multipart_part(first_part);
    switch.expect_reply();
}

/// Connections of one source hold parts of port descriptions; switches of another source describe theirs.
#[test]
fn unproved_peers_that_hold_parts_do_not_keep_switches_out() {
    let test = TestEngine::new(|cfg| {
        cfg.listen = vec![(Ipv6Addr::UNSPECIFIED, 0).into()];
        cfg.session.multipart_total_bytes_max = 100_000;
        cfg.session.handshake_timeout = std::time::Duration::from_secs(60);
    });
    if test.addr.is_ipv4() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIP unproved_peers_that_hold_parts…: this machine has no IPv6");
        return;
    }
    let hoarding_from = ([127, 0, 0, 1], test.addr.port()).into();
    let part = vec![0; 64 * 400];
    let mut hoarding = Vec::new();
    for _ in 0..10 {
        let mut peer = TestPeer::connect(hoarding_from);
        let features_xid = peer.exchange_hello(Version::V1_3);
        let first = Multipart { kind: MultipartType::PORT_DESC, more: true, body: &part };
        peer.send_multipart_part_as(features_xid.wrapping_add(1), first);
        peer.send(&echo_request(b"received?"));
        while peer.receive() != Some(echo_reply(b"received?")) {}
        hoarding.push((peer, features_xid.wrapping_add(1), first));
    }
    let switches_from = (Ipv6Addr::LOCALHOST, test.addr.port()).into();
    for id in 0..4 {
        let mut switch = TestPeer::connect(switches_from);
        switch.complete_handshake_in_parts(id, &part);
        switch.expect_reply();
    }
    let (mut oldest, xid, part) = hoarding.swap_remove(0);
    oldest.send_multipart_part_as(xid, part);
    oldest.expect_close();
    wait_until("a counted close", || test.closed("multipart_memory_limit") == 1);
}
