//! Switches that move from one worker to another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_engine::Config;
use sluice_io::simulated::{BufferSizes, ClockError, DescriptorUse, PeerState};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Field, FlowMod, Message, PacketInReason, PortNo, SwitchFeatures,
};
use sluice_sdk::{App, Ctx, Network, SwitchIndex, Verdict};

use crate::test_engine::{TestEngine, TestSwitch};

/// The switch that moves.
const MOVING: u64 = 1;

/// Records the packet-ins of the moving switch, by the cookie in each, and sends it a flow-mod for each packet-in of
/// another switch. The cookie of a flow-mod contains the sender and its count.
#[derive(Default)]
struct RecordingApp {
    /// Of the moving switch, in order.
    received: Vec<u64>,
    sent: BTreeMap<DatapathId, u64>,
    ports: usize,
    /// Calls of `on_changes_lost` for the moving switch.
    restored: u32,
}

impl App for RecordingApp {
    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        if ctx.datapath_id == DatapathId(MOVING) {
            self.ports = features.ports.len();
        }
    }

    fn on_switch_disconnected(&mut self, _: SwitchIndex, _: Instant, _: &mut Network) {}

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        self.restored += u32::from(ctx.datapath_id == DatapathId(MOVING));
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        if ctx.datapath_id == DatapathId(MOVING) {
            self.received.push(p.cookie);
            return Verdict::Stop;
        }
        let count = self.sent.entry(ctx.datapath_id).or_default();
        *count += 1;
        let cookie = ctx.datapath_id.0 << 32 | *count;
        let flow_mod = Message::FlowMod(FlowMod { cookie, ..FlowMod::delete([]) });
        ctx.send_to(DatapathId(MOVING), flow_mod);
        Verdict::Stop
    }
}

fn packet_in(cookie: u64, len: usize) -> Message {
    Message::PacketIn(sluice_openflow::PacketIn {
        buffer_id: None,
        total_len: 64,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie,
        matching: [Field::in_port(PortNo(1))].into(),
        data: vec![0; len],
    })
}

/// Takes what the moving switch has received; returns the cookies of flow-mods.
fn cookies(switch: &mut TestSwitch, test: &TestEngine<RecordingApp>) -> Vec<u64> {
    let messages = switch.receive(&test.kernel).into_iter();
    messages
        .filter_map(|m| if let Message::FlowMod(m) = m { Some(m.cookie) } else { None })
        .collect()
}

/// Random packet-ins of all switches, moves to random workers, and a random order of the threads. The moving switch has
/// small buffers, so that messages are torn apart in both directions.
#[test]
fn a_switch_that_moves_loses_no_message_in_either_direction_and_keeps_their_order() {
    let mut moves = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut test = TestEngine::new(&[ClockError::default(); 3], |_| RecordingApp::default());
        let mut moving = test.connect(MOVING);
        let others = [2, 3, 4].map(|id| test.connect(id));
        moving.receive(&test.kernel);
        test.kernel.set_buffer_sizes(moving.peer, BufferSizes { send: 500, receive: 300 });
        let (mut sent, mut unsent, mut received) = (0, Vec::new(), Vec::new());
        for _ in 0..600 {
            match rng.below(10) {
                0 => test.engine.move_switch(DatapathId(MOVING), rng.below(3) as usize),
                1 | 2 => {
                    sent += 1;
                    unsent.extend(moving.encode(&packet_in(sent, rng.below(100) as usize)));
                }
                3 => {
                    let at = rng.below(3) as usize;
                    others.get(at).unwrap().send(&test.kernel, &packet_in(0, 64));
                }
                4 => received.extend(cookies(&mut moving, &test)),
                _ => test.run(rng.below(4) as usize),
            }
            let taken = test.kernel.peer_send(moving.peer, &unsent);
            unsent.drain(..taken);
        }
        for _ in 0..200 {
            test.run_all();
            let taken = test.kernel.peer_send(moving.peer, &unsent);
            unsent.drain(..taken);
            received.extend(cookies(&mut moving, &test));
        }
        let mut packet_ins: Vec<_> =
            test.engine.apps().flat_map(|app| app.received.iter().copied()).collect();
        assert!(test.engine.apps().all(|app| app.received.is_sorted()), "seed {seed}");
        packet_ins.sort_unstable();
        assert!(packet_ins.iter().copied().eq(1..=sent), "seed {seed}: {packet_ins:?} of {sent}");
        for id in [2, 3, 4] {
            let of_one: Vec<_> = received.iter().filter(|&&cookie| cookie >> 32 == id).collect();
            let apps = test.engine.apps();
            let sent: u64 = apps.filter_map(|app| app.sent.get(&DatapathId(id))).sum();
            assert!(of_one.iter().map(|&&cookie| cookie & 0xffff_ffff).eq(1..=sent), "seed {seed}");
        }
        assert_eq!(test.counter("app_messages_undeliverable"), 0, "seed {seed}");
        assert!(test.engine.apps().all(|app| app.ports == 0 || app.ports == 4));
        moves += test.engine.apps().filter(|app| !app.received.is_empty()).count() - 1;
    }
    assert!(moves > 30, "only {moves} moves");
}

/// A third worker is notified of the move and sends a message to the new worker while the queue of that is full for the old one.
#[test]
fn the_new_worker_knows_of_a_move_before_others_send_to_it() {
    let mut cfg = Config::default();
    cfg.limits.queue_capacity = 1;
    let clocks = [ClockError::default(); 3];
    let mut test = TestEngine::with_config(cfg, &clocks, |_| RecordingApp::default());
    let mut moving = test.connect(MOVING);
    let others = [2, 3].map(|id| test.connect(id));
    moving.receive(&test.kernel);
    // The third worker fills the queue of the second.
    test.engine.move_switch(DatapathId(3), 1);
    for thread in [0, 3, 1, 3] {
        test.run(thread);
    }
    test.engine.move_switch(DatapathId(MOVING), 1);
    for thread in [0, 1, 3] {
        test.run(thread);
    }
    others[1].send(&test.kernel, &packet_in(0, 64));
    for thread in [3, 2, 3, 2] {
        test.run(thread);
    }
    test.run_all();
    assert_eq!(test.counter("app_messages_undeliverable"), 0);
    assert_eq!(cookies(&mut moving, &test), [3 << 32 | 1]);
}

#[test]
fn a_switch_that_disconnects_while_it_moves_leaves_nothing_behind() {
    let mut test = TestEngine::new(&[ClockError::default(); 3], |_| RecordingApp::default());
    let moving = test.connect(MOVING);
    let other = test.connect(2);
    test.engine.move_switch(DatapathId(MOVING), 1);
    // The acceptor, the old worker, and the new one, which parks messages from now on. The third worker does not run, so its
    // acknowledgment is missing.
    for thread in [0, 1, 2] {
        test.run(thread);
    }
    other.send(&test.kernel, &packet_in(0, 64));
    test.run(2);
    assert_eq!(test.counter("app_messages_undeliverable"), 0);
    test.kernel.peer_reset(moving.peer);
    for thread in [0, 1, 2].into_iter().cycle().take(60) {
        test.run(thread);
    }
    assert_eq!(test.counter("app_messages_undeliverable"), 1);
    other.send(&test.kernel, &packet_in(0, 64));
    test.run_all();
    assert_eq!(test.counter("app_messages_undeliverable"), 2);
    let mut again = test.connect(MOVING);
    again.receive(&test.kernel);
    other.send(&test.kernel, &packet_in(0, 64));
    test.run_all();
    assert_eq!(cookies(&mut again, &test).len(), 1);
}

/// Another connection claims the datapath id of a switch that has moved to another worker and back.
#[test]
fn a_switch_that_has_moved_back_is_probed_where_it_is() {
    let mut test = TestEngine::new(&[ClockError::default(); 2], |_| RecordingApp::default());
    let mut moving = test.connect(MOVING);
    for worker in [1, 0] {
        test.engine.move_switch(DatapathId(MOVING), worker);
        test.run_all();
    }
    moving.receive(&test.kernel);
    let _claimant = test.connect(MOVING);
    let requests = moving.receive(&test.kernel);
    assert!(requests.iter().any(|m| matches!(m, Message::EchoRequest { .. })), "{requests:?}");
}

/// The answer arrives at another worker than the one that has sent the probe.
#[test]
fn a_switch_that_answers_a_probe_while_it_moves_stays() {
    let mut test = TestEngine::new(&[ClockError::default(); 3], |_| RecordingApp::default());
    let mut moving = test.connect(MOVING);
    test.engine.move_switch(DatapathId(MOVING), 1);
    let mut claimant = test.start_handshake(MOVING);
    // The third worker does not run, so its acknowledgment is missing.
    for _ in 0..4 {
        for thread in [0, 1, 2] {
            test.run(thread);
        }
        claimant.answer(&test.kernel);
    }
    test.run_all();
    moving.answer(&test.kernel);
    test.run_all();
    test.pass(Duration::from_secs(5));
    test.run_all();
    assert_eq!(test.kernel.peer_state(moving.peer), PeerState::Open);
    claimant.answer(&test.kernel);
    assert_eq!(test.kernel.peer_state(claimant.peer), PeerState::EndOfStream);
}

#[test]
fn a_switch_that_the_new_worker_cannot_take_over_leaves_nothing_behind() {
    let mut test = TestEngine::new(&[ClockError::default(); 3], |_| RecordingApp::default());
    let moving = test.connect(MOVING);
    let other = test.connect(2);
    test.kernel.fail_for_descriptors(DescriptorUse::Adopt, 1);
    test.engine.move_switch(DatapathId(MOVING), 1);
    test.run_all();
    assert_ne!(test.kernel.peer_state(moving.peer), PeerState::Open);
    other.send(&test.kernel, &packet_in(0, 64));
    test.run_all();
    assert_eq!(test.counter("app_messages_undeliverable"), 1);
}

#[test]
fn the_new_worker_makes_the_changes_of_tables_that_were_lost_before_the_switch_moved() {
    let mut test = TestEngine::new(&[ClockError::default(); 2], |_| RecordingApp::default());
    let mut moving = test.connect(MOVING);
    let other = test.connect(2);
    moving.receive(&test.kernel);
    test.kernel.set_buffer_sizes(moving.peer, BufferSizes { send: 500, receive: 300 });
    let packet_ins = other.encode(&packet_in(0, 0)).repeat(500);
    for _ in 0..1000 {
        test.kernel.peer_send(other.peer, &packet_ins);
        test.run_all();
        if test.counter("table_changes_deferred") > 0 {
            break;
        }
    }
    assert!(test.counter("table_changes_deferred") > 0);
    test.engine.move_switch(DatapathId(MOVING), 1);
    test.run_all();
    test.kernel.set_buffer_sizes(moving.peer, BufferSizes { send: 500, receive: 1 << 16 });
    for _ in 0..1000 {
        test.run_all();
        if moving.receive(&test.kernel).is_empty() {
            break;
        }
    }
    assert_eq!(test.engine.apps().map(|app| app.restored).collect::<Vec<_>>(), [0, 1]);
}

/// One worker does not run, so that its acknowledgment is missing, and the new worker keeps what the others send.
#[test]
fn messages_to_a_moving_switch_are_kept_up_to_a_limit_and_further_changes_are_made_when_it_has_moved()
 {
    const LIMIT: usize = 4096;
    const SENT: usize = LIMIT + 900;
    let mut test = TestEngine::new(&[ClockError::default(); 3], |_| RecordingApp::default());
    let mut moving = test.connect(MOVING);
    let other = test.connect(2);
    moving.receive(&test.kernel);
    let large = BufferSizes { send: 4 << 20, receive: 1 << 16 };
    test.kernel.set_buffer_sizes(moving.peer, large);
    test.engine.move_switch(DatapathId(MOVING), 1);
    for thread in [0, 1, 2] {
        test.run(thread);
    }
    for _ in 0..SENT {
        other.send(&test.kernel, &packet_in(0, 64));
        test.run(2);
    }
    assert_eq!(test.counter("table_changes_deferred"), (SENT - LIMIT) as u64);
    assert_eq!(cookies(&mut moving, &test), [0; 0], "it has not moved");
    test.run_all();
    test.run_all();
    let expected = (1..=LIMIT as u64).map(|n| 2 << 32 | n);
    assert!(cookies(&mut moving, &test).into_iter().eq(expected));
    assert_eq!(test.engine.apps().map(|app| app.restored).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(test.counter("app_messages_undeliverable"), 0);
}
