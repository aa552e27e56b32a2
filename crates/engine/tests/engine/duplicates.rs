//! Two connections with one datapath id.

use std::time::Duration;

use sluice_openflow::{ErrorReason, Version, Versions};

use crate::lab::{Lab, wait_until};
use crate::peer::{Peer, echo_reply, echo_request};

#[test]
fn the_live_one_stays() {
    for version in Versions::SPOKEN.iter() {
        let lab = Lab::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(60));
        let mut first = Peer::switch(lab.addr, version, 5);
        first.must_be_answered();
        let mut second = Peer::switch(lab.addr, version, 5);
        // The first is asked, and answers.
        let asked = first.hear();
        assert_eq!(asked, Some(echo_request(&[])));
        first.say(&echo_reply(&[]));
        assert_eq!(second.last_words(), Some(ErrorReason::NOT_ALLOWED));
        lab.must_end(1, "duplicate_datapath_id");
        first.must_be_answered();
    }
}

#[test]
fn the_dead_one_is_replaced() {
    let lab = Lab::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_millis(200));
    let mut other = Peer::switch(lab.addr, Version::V1_3, 6);
    let mut first = Peer::switch(lab.addr, Version::V1_3, 5);
    first.must_be_answered();
    let mut second = Peer::switch(lab.addr, Version::V1_0, 5);
    // What it says while it waits is not lost.
    second.must_be_answered();
    assert_eq!(first.last_words(), None);
    lab.must_end(1, "replaced_by_new_connection");
    assert_eq!(
        (lab.count("switches_connected", "1.0"), lab.count("switches_connected", "1.3")),
        (1, 1)
    );
    other.must_be_answered();
}

#[test]
fn a_third_does_not_wait_behind_the_second() {
    let lab = Lab::new(|cfg| cfg.limits.duplicate_timeout = Duration::from_secs(60));
    let mut first = Peer::switch(lab.addr, Version::V1_3, 5);
    first.must_be_answered();
    let mut second = Peer::switch(lab.addr, Version::V1_3, 5);
    assert_eq!(first.hear(), Some(echo_request(&[])));
    let mut third = Peer::switch(lab.addr, Version::V1_3, 5);
    assert_eq!(third.last_words(), Some(ErrorReason::NOT_ALLOWED));
    // The first hangs up: the second has its place at once.
    drop(first);
    second.must_be_answered();
    wait_until("the ends", || lab.ended("") == 2);
    assert_eq!((lab.ended("duplicate_datapath_id"), lab.ended("closed_by_peer")), (1, 1));
}
