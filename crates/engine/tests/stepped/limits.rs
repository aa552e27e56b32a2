//! Limits of memory and time whose effect depends on the order in which threads run.

use std::time::Duration;

use sluice_engine::Config;
use sluice_io::simulated::{BufferSizes, ClockError};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, FlowMod, Message, PacketOutRef, PortNo};
use sluice_sdk::{App, Ctx, Verdict};

use crate::packet_in;
use crate::test_engine::{TestEngine, TestSwitch};

/// Sends a number of flow-mods to a switch for each packet-in.
struct AnsweringApp {
    flow_mods: u64,
}

impl App for AnsweringApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for cookie in 0..self.flow_mods {
            let deletion = FlowMod { cookie, ..FlowMod::delete([]) };
            ctx.switch.flow_mod(&deletion).unwrap();
        }
        Verdict::Stop
    }
}

/// The first part of a list of flow entries, with a body of `len` bytes.
fn first_part(len: u16) -> Vec<u8> {
    const HEAD_LEN: u16 = 16;
    let message_len = (HEAD_LEN + len).to_be_bytes();
    let head = [[4, 19, message_len[0], message_len[1]], [0, 0, 0, 9], [0, 1, 0, 1], [0; 4]];
    [head.as_flattened(), &vec![0; len.into()]].concat()
}

fn engine(change: impl FnOnce(&mut Config), flow_mods: u64) -> TestEngine<AnsweringApp> {
    let mut cfg = Config::default();
    change(&mut cfg);
    TestEngine::with_config(cfg, &[ClockError::default(); 2], |_| AnsweringApp { flow_mods })
}

/// They used to count for the worker to which the switch was assigned first.
#[test]
fn the_parts_that_a_switch_holds_count_for_the_worker_to_which_it_has_moved() {
    let mut test = engine(|cfg| cfg.session.multipart_total_bytes_max = 100_000, 0);
    let [moving, other] = [1, 2].map(|id| test.connect(id));
    let send_part = |test: &mut TestEngine<_>, switch: &TestSwitch, len| {
        switch.send_bytes(&test.kernel, &first_part(len));
        test.run_all();
    };
    send_part(&mut test, &moving, 60_000);
    send_part(&mut test, &other, 30_000);
    test.engine.move_switch(DatapathId(1), 1);
    test.run_all();
    assert_eq!(test.counter("connections_closed"), 0);
    send_part(&mut test, &other, 20_000);
    assert_eq!(test.counter("connections_closed"), 1, "that of the switch with the oldest parts");
}

/// The rest of the reply is among what the switch has sent.
#[test]
fn a_multipart_reply_of_a_paused_switch_does_not_expire() {
    let change = |cfg: &mut Config| {
        cfg.session.multipart_timeout = Duration::from_secs(10);
        cfg.limits.backlog_bytes_max = 1000;
        cfg.limits.unread_max = Duration::from_secs(100);
    };
    let mut test = engine(change, 100);
    let mut switch = test.connect(1);
    switch.receive(&test.kernel);
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 500, receive: 300 });
    switch.send_bytes(&test.kernel, &first_part(100));
    switch.send(&test.kernel, &packet_in());
    test.run_all();
    for _ in 0..15 {
        test.pass(Duration::from_secs(1));
        test.run_all();
    }
    assert_eq!(test.counter("connections_closed"), 0);
    for _ in 0..100 {
        switch.receive(&test.kernel);
        test.run_all();
    }
    for _ in 0..15 {
        test.pass(Duration::from_secs(1));
        test.run_all();
        switch.answer(&test.kernel);
    }
    assert_eq!(test.counter("connections_closed"), 1, "once it is read, the reply expires");
}

#[test]
fn an_echo_reply_is_sent_before_the_backlog() {
    const FLOW_MODS: u64 = 200;
    let mut test = engine(|_| (), FLOW_MODS);
    let mut switch = test.connect(1);
    switch.receive(&test.kernel);
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 500, receive: 300 });
    switch.send(&test.kernel, &packet_in());
    test.run_all();
    switch.send(&test.kernel, &Message::EchoRequest { data: vec![1] });
    test.run_all();
    let mut received = Vec::new();
    for _ in 0..1000 {
        received.extend(switch.receive(&test.kernel));
        test.run_all();
    }
    let is_reply = |message: &Message| matches!(message, Message::EchoReply { .. });
    let at = received.iter().position(is_reply).unwrap();
    assert_eq!(received.len() as u64, FLOW_MODS + 1);
    assert!(at < 50, "the echo reply has waited for {at} messages");
}

/// Changes a table of the switch with each tick, ahead of what waits, and sends a packet-out.
#[derive(Default)]
struct TickingApp {
    restored: u32,
}

impl App for TickingApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for _ in 0..5 {
            ctx.urgent().flow_mod(&FlowMod::delete([])).unwrap();
        }
        Verdict::Stop
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        ctx.urgent().flow_mod(&FlowMod::delete([])).unwrap();
        let frame = PacketOutRef {
            buffer_id: None,
            in_port: PortNo::CONTROLLER,
            actions: &[],
            frame: &[0; 60],
        };
        ctx.urgent().packet_out(&frame).unwrap();
    }

    fn on_changes_lost(&mut self, _: &mut Ctx<'_>) {
        self.restored += 1;
    }
}

/// They used to be dropped and counted as one message.
#[test]
fn changes_of_tables_that_a_tick_has_no_room_for_are_made_later() {
    let cfg = Config::default();
    let clocks = [ClockError::default()];
    let mut test = TestEngine::with_config(cfg, &clocks, |_| TickingApp::default());
    let mut switch = test.connect(1);
    switch.receive(&test.kernel);
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 100, receive: 300 });
    switch.send(&test.kernel, &packet_in());
    test.run_all();
    let counts = |test: &TestEngine<_>| {
        ["table_changes_deferred", "app_messages_dropped"].map(|name| test.counter(name))
    };
    let before = counts(&test);
    let restored = |test: &TestEngine<TickingApp>| test.engine.apps().next().unwrap().restored;
    test.pass(Duration::from_millis(250));
    test.run_all();
    assert_eq!(counts(&test), before.map(|n| n + 1));
    assert_eq!(restored(&test), 0);
    for _ in 0..200 {
        switch.receive(&test.kernel);
        test.run_all();
    }
    test.pass(Duration::from_millis(250));
    test.run_all();
    assert_eq!(restored(&test), 1);
}

/// A read without replies that made room for a backlog used to count as an answer.
#[test]
fn the_response_latency_counts_reads_that_were_answered_at_once() {
    let mut test = engine(|_| (), 100);
    let mut switch = test.connect(1);
    switch.receive(&test.kernel);
    let count = |test: &TestEngine<_>| test.counter("response_latency_seconds");
    let before = count(&test);
    for n in 1..=3 {
        switch.send(&test.kernel, &packet_in());
        test.run_all();
        assert_eq!(count(&test), before + n);
        switch.receive(&test.kernel);
    }
    // Without a reply.
    switch.send(&test.kernel, &Message::EchoReply { data: vec![] });
    test.run_all();
    assert_eq!(count(&test), before + 3);
    test.kernel.set_buffer_sizes(switch.peer, BufferSizes { send: 500, receive: 1 << 16 });
    switch.send(&test.kernel, &packet_in());
    test.run_all();
    let before = count(&test);
    for _ in 0..20 {
        test.kernel.peer_receive(switch.peer, 300);
        switch.send(&test.kernel, &Message::EchoReply { data: vec![] });
        test.run_all();
    }
    assert_eq!(count(&test), before);
}
