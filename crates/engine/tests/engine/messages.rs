//! Messages that applications send to other switches.

use sluice_engine::Config;
use sluice_io::READ_BYTES_MAX;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, Message, Version};
use sluice_sdk::{App, Ctx, Verdict};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, echo_request};

/// Datapath id of the switch to which all messages are sent.
const RECEIVER: u64 = 2;

/// Bytes in each message.
const DATA_LEN: usize = 50_000;

/// Messages per packet-in.
const MESSAGES: usize = 3;

/// Sends messages to one switch for each packet-in.
struct SendingApp;

impl App for SendingApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for _ in 0..MESSAGES {
            ctx.send_to(DatapathId(RECEIVER), echo_request(&vec![7; DATA_LEN]));
        }
        Verdict::Stop
    }
}

/// The engine, a switch that sends packet-ins, and the switch that receives the messages.
fn start(change: impl FnOnce(&mut Config)) -> (TestEngine<SendingApp>, TestPeer, TestPeer) {
    let test = TestEngine::with_app(change, || SendingApp);
    let sender = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    wait_until("the sender", || test.metric("switches_connected", "") == 1);
    let receiver = TestPeer::connect_switch(test.addr, Version::V1_3, RECEIVER);
    wait_until("the receiver", || test.metric("switches_connected", "") == 2);
    (test, sender, receiver)
}

#[test]
fn messages_reach_a_switch_of_another_worker() {
    let (test, mut sender, mut receiver) = start(|cfg| cfg.workers.threads = 2);
    sender.send(&broadcast(None));
    for _ in 0..MESSAGES {
        assert_eq!(receiver.receive(), Some(echo_request(&vec![7; DATA_LEN])));
    }
    assert_eq!(
        (test.metric("app_messages_dropped", ""), test.metric("app_messages_undeliverable", "")),
        (0, 0)
    );
}

#[test]
fn messages_beyond_the_queue_limit_are_dropped_and_counted() {
    let (test, mut sender, _receiver) = start(|cfg| {
        cfg.workers.threads = 2;
        cfg.limits.queued_messages_max = 0;
    });
    sender.send(&broadcast(None));
    wait_until("dropped messages", || test.metric("app_messages_dropped", "") == MESSAGES as u64);
    assert_eq!(test.closed(""), 0);
}

/// With the switch on the worker of the sender, and on another one.
#[test]
fn messages_to_a_switch_with_a_full_backlog_are_dropped() {
    for threads in [1, 2] {
        let (test, mut sender, _receiver) = start(|cfg| {
            cfg.workers.threads = threads;
            cfg.limits.backlog_bytes_max = 64 << 10;
            cfg.socket.send_buffer = Some(16 << 10);
        });
        wait_until("dropped messages", || {
            sender.send(&broadcast(None));
            // One packet-in at a time, since the messages of one read are all sent.
            sender.send(&echo_request(b"done?"));
            while !matches!(sender.receive().unwrap(), Message::EchoReply { .. }) {}
            let backlog = test.metric("backlog_bytes", "");
            assert!(backlog < (2 * READ_BYTES_MAX) as u64, "backlog of {backlog} bytes");
            test.metric("app_messages_dropped", "") > 100
        });
        assert_eq!(test.closed(""), 0);
    }
}
