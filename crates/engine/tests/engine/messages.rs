//! Messages that applications send to other switches.

use sluice_engine::Config;
use sluice_io::READ_BYTES_MAX;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, DatapathId, Field, FlowMod, Message, PacketOut, PortNo, Version};
use sluice_sdk::{App, Ctx, Verdict};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, echo_request};

/// Datapath id of the switch to which all messages are sent.
const RECEIVER: u64 = 2;

/// Bytes in each message.
const DATA_LEN: usize = 50_000;

/// Messages per packet-in.
const MESSAGES: usize = 3;

/// What an application writes to a switch whose changes were lost.
const REPAIR: &[u8] = b"the tables as they should be";

/// Sends large packet-outs and a deletion to one switch for each packet-in.
struct SendingApp;

impl App for SendingApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for _ in 0..MESSAGES {
            ctx.send_to(DatapathId(RECEIVER), packet_out());
        }
        ctx.send_to(DatapathId(RECEIVER), deletion());
        Verdict::Stop
    }

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        ctx.switch.encode(&echo_request(REPAIR)).unwrap();
    }
}

fn packet_out() -> Message {
    Message::PacketOut(PacketOut {
        matching: [Field::in_port(PortNo::CONTROLLER)].into(),
        actions: vec![Action::output(PortNo(1))],
        data: vec![7; DATA_LEN],
        ..PacketOut::default()
    })
}

fn deletion() -> Message {
    Message::FlowMod(FlowMod::delete([]))
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
    let mut packet_outs = 0;
    for _ in 0..=MESSAGES {
        match receiver.receive() {
            Some(message @ Message::PacketOut(_)) if message == packet_out() => packet_outs += 1,
            // It may overtake packet-outs.
            Some(Message::FlowMod(_)) => {}
            other => panic!("{:?}", other.map(|message| message.kind(Version::V1_3))),
        }
    }
    assert_eq!(packet_outs, MESSAGES);
    assert_eq!(
        (test.metric("app_messages_dropped", ""), test.metric("app_messages_undeliverable", "")),
        (0, 0)
    );
}

/// With the switch on the worker of the sender, and on another one.
#[test]
fn packet_outs_to_a_switch_with_a_full_backlog_are_dropped_and_changes_are_made_later() {
    for threads in [1, 2] {
        let (test, mut sender, mut receiver) = start(|cfg| {
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
        assert!(test.metric("table_changes_deferred", "") > 20);
        // The switch reads again.
        while !matches!(receiver.receive(), Some(Message::EchoRequest { data }) if data == REPAIR) {
        }
        assert_eq!(test.closed(""), 0);
    }
}
