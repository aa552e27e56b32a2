//! What a switch receives does not depend on which optimisations are on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{iter, thread};

use sluice_apps::learning::{self, Learning};
use sluice_base::Rng;
use sluice_engine::Config;
use sluice_io::ReadSizes;
use sluice_openflow::view::{PacketIn, PacketIns};
use sluice_openflow::{Encoder, Message, PacketInReason, PacketOut, PortNo, Version};
use sluice_sdk::{App, Ctx, Verdict};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, bytes};

/// Packet-ins of one connection.
const PACKET_INS: u32 = 2000;

/// The buffer of the last packet-in.
const LAST: u32 = 99;

/// Random packet-ins of twenty hosts at four ports: some with a VLAN tag, to a group, buffered, truncated, or not sent whole. The last one is
/// a buffered broadcast.
fn packet_ins(version: Version, seed: u64) -> Vec<u8> {
    let (mut rng, mut stream, mut xid) = (Rng::new(seed), Vec::new(), 0);
    let mut out = Encoder::new(&mut stream, version, &mut xid);
    for _ in 0..PACKET_INS {
        let mut few = |n| u8::try_from(rng.below(n)).unwrap();
        let (dst, src) = (few(20), few(20));
        let in_port = PortNo(u32::from(if few(40) == 0 { few(4) } else { src % 4 }) + 1);
        let tag: &[u8] = if few(10) == 0 { &[0x81, 0, 0, few(2)] } else { &[] };
        let first = if few(20) == 0 { 3 } else { 2 };
        let head = [first, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src];
        let mut frame = [&head, tag, &[8, 0, 69]].concat();
        frame.resize([20, 60, 64, 65, 128, 129, 1000, 1500][usize::from(few(8))], few(250));
        let missing = [0, 0, 0, 4, 5][usize::from(few(5))];
        let total_len = u16::try_from(frame.len()).unwrap() + missing;
        if few(50) == 0 {
            frame.truncate(13);
        }
        let buffer_id = (few(2) == 0).then_some(7);
        let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
        let p = PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame: &frame };
        p.encode(&mut out).unwrap();
    }
    stream.extend(bytes(version, &broadcast(Some(LAST))));
    stream
}

/// What a switch receives after it has sent the packet-ins of `seed`, torn into random parts, with transaction ids that begin with 0.
fn answers(
    version: Version,
    seed: u64,
    change: fn(&mut Config),
    learning: &learning::Config,
) -> Vec<u8> {
    let learning = learning.clone();
    let change = |cfg: &mut Config| {
        cfg.session.echo_interval = Duration::from_secs(3600);
        change(cfg);
    };
    let test = TestEngine::with_app(change, move || Learning::new(&learning));
    let mut switch = TestPeer::connect_switch(test.addr, version, 1);
    let mut sender = switch.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, mut rng) = (packet_ins(version, seed), Rng::new(seed));
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let len = [40, 3000, 300_000][rng.below(3) as usize];
                let (part, after) = rest.split_at(1 + rng.below(len) as usize % rest.len());
                std::io::Write::write_all(&mut sender, part).unwrap();
                rest = after;
            }
        });
        let (mut received, mut first_xid) = (Vec::new(), None);
        loop {
            let mut message = switch.receive_bytes().unwrap();
            let xid = u32::from_be_bytes(message[4..8].try_into().unwrap());
            let first = *first_xid.get_or_insert(xid);
            message[4..8].copy_from_slice(&xid.wrapping_sub(first).to_be_bytes());
            received.extend_from_slice(&message);
            let parsed = Message::parse(&message).unwrap();
            if matches!(parsed, Message::PacketOut(p) if p.buffer_id == Some(LAST)) {
                return received;
            }
        }
    })
}

#[test]
fn a_switch_receives_the_same_bytes_whichever_optimisation_is_off() {
    let unchanged: fn(&mut Config) = |_| {};
    let engines: [fn(&mut Config); 5] = [
        |cfg| cfg.batching.output = false,
        |cfg| cfg.batching.input = false,
        |cfg| cfg.workers.read_sizes = ReadSizes::Fixed,
        |cfg| (cfg.workers.run_to_completion, cfg.workers.threads) = (false, 3),
        |cfg| {
            (cfg.batching.output, cfg.batching.input) = (false, false);
            cfg.workers.read_sizes = ReadSizes::Fixed;
        },
    ];
    let default = learning::Config::default();
    let without_templates = learning::Config { templates: false, ..default.clone() };
    let without_prefetching = learning::Config { prefetching: false, ..default.clone() };
    for version in [Version::V1_0, Version::V1_3] {
        for seed in 0..3 {
            let expected = answers(version, seed, unchanged, &default);
            assert!(expected.len() > 100_000, "{} bytes", expected.len());
            for (n, change) in engines.into_iter().enumerate() {
                let received = answers(version, seed, change, &default);
                assert!(received == expected, "{version} seed {seed} engine {n}");
            }
            for learning in [&without_templates, &without_prefetching] {
                let received = answers(version, seed, unchanged, learning);
                assert!(received == expected, "{version} seed {seed} {learning:?}");
            }
        }
    }
}

/// Records how many packet-ins each call passes.
struct Recorder(Arc<Mutex<VecDeque<usize>>>);

impl App for Recorder {
    fn on_packet_ins(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        for p in packet_ins.by_ref() {
            // The last one is answered, so that the test knows that all have been passed.
            if p.buffer_id == Some(LAST) {
                ctx.switch.encode(&Message::BarrierRequest).unwrap();
            }
        }
        let mut calls = self.0.lock().unwrap();
        calls.push_back(usize::try_from(packet_ins.taken()).unwrap());
    }
}

#[test]
fn without_input_batching_each_call_passes_one_packet_in() {
    for input in [true, false] {
        let calls = Arc::new(Mutex::new(VecDeque::new()));
        let recorded = calls.clone();
        let change = |cfg: &mut Config| cfg.batching.input = input;
        let test = TestEngine::with_app(change, move || Recorder(recorded.clone()));
        let mut switch = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
        let stream: Vec<u8> = iter::repeat_n(None, 99)
            .chain([Some(LAST)])
            .flat_map(|buffer_id| bytes(Version::V1_3, &broadcast(buffer_id)))
            .collect();
        switch.send_bytes(&stream);
        while switch.receive() != Some(Message::BarrierRequest) {}
        let calls = calls.lock().unwrap();
        let passed: Vec<_> = calls.iter().copied().filter(|&n| n > 0).collect();
        assert_eq!(passed.iter().sum::<usize>(), 100);
        assert_eq!(passed.iter().all(|&n| n == 1), !input, "{passed:?}");
    }
}

/// Answers each packet-in by a packet-out with the same buffer.
struct EchoApp;

impl App for EchoApp {
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let packet_out = PacketOut { buffer_id: p.buffer_id, ..PacketOut::default() };
        ctx.switch.encode(&Message::PacketOut(packet_out)).unwrap();
        Verdict::Stop
    }
}

/// Sends packet-ins with the buffers `0..count` in parts of random lengths, while it receives the answers; the buffers of these.
fn echo(peer: &mut TestPeer, count: u32, seed: u64) -> Vec<u32> {
    let mut sender = peer.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let packet_ins = (0..count).map(|n| bytes(Version::V1_3, &broadcast(Some(n))));
            let (stream, mut rng) = (packet_ins.collect::<Vec<_>>().concat(), Rng::new(seed));
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let (part, after) = rest.split_at(1 + rng.below(900) as usize % rest.len());
                std::io::Write::write_all(&mut sender, part).unwrap();
                rest = after;
            }
        });
        let mut buffers = Vec::new();
        while buffers.last() != Some(&(count - 1)) {
            if let Some(Message::PacketOut(p)) = peer.receive() {
                buffers.extend(p.buffer_id);
            }
        }
        buffers
    })
}

fn without_run_to_completion(cfg: &mut Config) {
    (cfg.workers.run_to_completion, cfg.workers.threads) = (false, 3);
}

/// Each switch gets each answer once and in order, whichever worker processes what it has sent, also while the switch moves between workers.
#[test]
fn workers_that_pull_from_a_shared_queue_keep_the_order_of_each_switch() {
    const SWITCHES: u64 = 12;
    const COUNT: u32 = 3000;
    for move_interval in [None, Some(Duration::from_millis(2))] {
        let change = |cfg: &mut Config| {
            without_run_to_completion(cfg);
            cfg.move_interval = move_interval;
        };
        let test = TestEngine::with_app(change, || EchoApp);
        let addr = test.addr;
        // How many reads others have taken in one round depends on the scheduler.
        wait_until("reads that were pulled", || {
            thread::scope(|scope| {
                for dpid in 1..=SWITCHES {
                    scope.spawn(move || {
                        let mut peer = TestPeer::connect_switch(addr, Version::V1_3, dpid);
                        assert_eq!(echo(&mut peer, COUNT, dpid), (0..COUNT).collect::<Vec<_>>());
                    });
                }
            });
            test.metric("reads_pulled", "") > 0
        });
    }
}

/// A switch that sends `COUNT` packet-ins and then closes its connection, or something malformed, gets all answers.
#[test]
fn workers_that_pull_from_a_shared_queue_close_connections_after_what_was_received() {
    const SWITCHES: u64 = 100;
    const COUNT: u32 = 300;
    let test = TestEngine::with_app(without_run_to_completion, || EchoApp);
    let addr = test.addr;
    let answers = |dpid, last: &[u8]| {
        let mut peer = TestPeer::connect_switch(addr, Version::V1_3, dpid);
        let packet_ins = (0..COUNT).map(|n| bytes(Version::V1_3, &broadcast(Some(n))));
        peer.send_bytes(&packet_ins.collect::<Vec<_>>().concat());
        peer.send_bytes(last);
        peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let received = iter::from_fn(|| peer.receive());
        let buffers = received.filter_map(|message| match message {
            Message::PacketOut(p) => p.buffer_id,
            _ => None,
        });
        assert_eq!(buffers.collect::<Vec<_>>(), (0..COUNT).collect::<Vec<_>>(), "{dpid}");
    };
    // A message that is shorter than its header.
    let malformed: &[u8] = &[4, 2, 0, 7, 0, 0, 0, 0];
    let mut rounds = 0;
    wait_until("reads that were pulled", || {
        rounds += 1;
        thread::scope(|scope| {
            for dpid in 1..=SWITCHES {
                let last = if dpid % 2 == 0 { malformed } else { &[] };
                scope.spawn(move || answers(dpid, last));
            }
        });
        test.metric("reads_pulled", "") > 0
    });
    wait_until("the end of all sessions", || test.closed("") == rounds * SWITCHES);
    assert_eq!(test.closed("malformed_message"), rounds * SWITCHES / 2);
}
