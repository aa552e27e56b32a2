//! Two connections with one datapath id.

use std::time::Duration;

use sluice_openflow::{ErrorReason, Version, Versions};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, echo_reply, echo_request};

#[test]
fn the_first_connection_stays_if_it_answers_the_probe() {
    for version in Versions::SUPPORTED.iter() {
        let test = TestEngine::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(60));
        let mut first = TestPeer::connect_switch(test.addr, version, 5);
        first.expect_reply();
        let mut second = TestPeer::connect_switch(test.addr, version, 5);
        assert_eq!(first.receive(), Some(echo_request(&[])));
        first.send(&echo_reply(&[]));
        assert_eq!(second.expect_close(), Some(ErrorReason::NOT_ALLOWED));
        test.expect_closed(1, "duplicate_datapath_id");
        first.expect_reply();
    }
}

#[test]
fn the_first_connection_is_replaced_if_it_does_not_answer_the_probe() {
    let test = TestEngine::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_millis(200));
    let mut other = TestPeer::connect_switch(test.addr, Version::V1_3, 6);
    let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 5);
    first.expect_reply();
    let mut second = TestPeer::connect_switch(test.addr, Version::V1_0, 5);
    // Messages that arrive during the wait are not lost.
    second.expect_reply();
    assert_eq!(first.expect_close(), None);
    test.expect_closed(1, "replaced_by_new_connection");
    assert_eq!(
        (test.metric("switches_connected", "1.0"), test.metric("switches_connected", "1.3")),
        (1, 1)
    );
    other.expect_reply();
}

#[test]
fn a_third_connection_is_refused_while_the_second_waits() {
    let test = TestEngine::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(60));
    let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 5);
    first.expect_reply();
    let mut second = TestPeer::connect_switch(test.addr, Version::V1_3, 5);
    assert_eq!(first.receive(), Some(echo_request(&[])));
    let mut third = TestPeer::connect_switch(test.addr, Version::V1_3, 5);
    assert_eq!(third.expect_close(), Some(ErrorReason::NOT_ALLOWED));
    // When the first disconnects, the second takes its place at once.
    drop(first);
    second.expect_reply();
    wait_until("two closed connections", || test.closed("") == 2);
    assert_eq!((test.closed("duplicate_datapath_id"), test.closed("closed_by_peer")), (1, 1));
}
