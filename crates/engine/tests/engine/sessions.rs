//! Switches that behave.

use std::sync::mpsc::channel;

use sluice_openflow::{FlowModCommand, Hello, Message, MessageType, RawMessage, Version, Versions};

use crate::lab::{Lab, SOON, wait_until};
use crate::peer::{Peer, echo_request};

#[test]
fn a_switch_of_any_version_is_served() {
    let lab = Lab::new(|_| {});
    for version in Versions::SPOKEN.iter() {
        let mut switch = Peer::switch(lab.addr, version, 1 + u64::from(version.0));
        switch.must_be_answered();
        switch.must_be_answered();
        wait_until("a session", || lab.count("switches_connected", &version.to_string()) == 1);
    }
    assert_eq!(lab.count("messages_received", "PACKET_IN"), 12);
    lab.must_end(6, "closed_by_peer");
    wait_until("no session", || lab.count("switches_connected", "") == 0);
}

/// Who waits for us to speak first is not kept waiting. That others hear nothing for a moment is for Mininet to show:
/// here it would be a matter of time.
#[test]
fn a_peer_that_says_nothing_is_greeted_after_a_while() {
    let lab = Lab::new(|_| {});
    let mut peer = Peer::connect(lab.addr);
    let greeting = peer.read().unwrap();
    let greeting = RawMessage::new(&greeting).unwrap();
    assert_eq!((greeting.kind(), greeting.version()), (MessageType::HELLO, Version::V1_5));
    assert!(Hello::read(greeting).unwrap().versions().is_some());
}

#[test]
fn a_switch_may_send_one_byte_at_a_time() {
    let lab = Lab::new(|_| {});
    for version in Versions::SPOKEN.iter() {
        let mut switch = Peer::connect(lab.addr);
        switch.shake_hands(version, 5, 1);
        switch.must_be_answered();
    }
}

/// A fresh session: a table-miss entry since 1.3; up to 1.2 the deletion of just one rule, which no switch has. What is in
/// its tables stays.
#[test]
fn a_switch_that_comes_back_is_not_emptied() {
    let lab = Lab::new(|_| {});
    for _ in 0..3 {
        for version in Versions::SPOKEN.iter() {
            let mut switch = Peer::switch(lab.addr, version, u64::from(version.0));
            switch.say(&echo_request(b"done?"));
            let mut rules = 0;
            loop {
                match switch.hear().unwrap() {
                    Message::EchoReply { .. } => break,
                    Message::FlowMod(rule) if rule.command == FlowModCommand::ADD => rules += 1,
                    Message::FlowMod(rule) if rule.command == FlowModCommand::DELETE_STRICT => {
                        assert!(version < Version::V1_3, "{version}");
                        assert_eq!(rule.matching.fields.len(), 3);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(rules, usize::from(version >= Version::V1_3), "{version}");
        }
        wait_until("no session", || lab.count("switches_connected", "") == 0);
    }
}

/// A switch far away answers when it has had all of it: what needs no answer comes with the questions, so that it asks
/// for the first frame half a round trip after that.
#[test]
fn the_first_rules_come_with_the_questions() {
    let lab = Lab::new(|_| {});
    for version in Versions::SPOKEN.iter() {
        let mut switch = Peer::connect(lab.addr);
        switch.greet(version);
        let mut kinds = vec![MessageType::FEATURES_REQUEST];
        // It answers nothing at all.
        while kinds.last() != Some(&MessageType::FLOW_MOD) {
            kinds.push(RawMessage::new(&switch.read().unwrap()).unwrap().kind());
        }
        let ports = (version >= Version::V1_3).then_some(MessageType::MULTIPART_REQUEST);
        let expected = [Some(MessageType::FEATURES_REQUEST), ports];
        let expected =
            expected.into_iter().chain([MessageType::SET_CONFIG, MessageType::FLOW_MOD].map(Some));
        assert_eq!(kinds, expected.flatten().collect::<Vec<_>>(), "{version}");
    }
}

#[test]
fn stopping_hangs_up_and_joins_all_threads() {
    let mut lab = Lab::new(|cfg| cfg.workers.threads = 3);
    let mut switches: Vec<_> =
        (1..=5).map(|id| Peer::switch(lab.addr, Version::V1_3, id)).collect();
    switches.iter_mut().for_each(Peer::must_be_answered);
    let mut silent = Peer::connect(lab.addr);
    assert!(silent.read().is_some());
    let (done, joined) = channel();
    let engine = lab.engine.take().unwrap();
    std::thread::spawn(move || {
        engine.stop();
        done.send(()).unwrap();
    });
    joined.recv_timeout(SOON).expect("all threads joined");
    assert!(silent.read().is_none());
    for switch in &mut switches {
        assert_eq!(switch.last_words(), None);
    }
    assert!(std::net::TcpStream::connect(lab.addr).is_err());
}
