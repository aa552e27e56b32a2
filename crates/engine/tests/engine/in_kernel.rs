//! An engine that answers inside the kernel sends what one without it sends.
//!
//! Loading the program needs privileges, and clang when it was built: both are part of the set-up of the tests.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sluice_apps::learning::Learning;
use sluice_base::Rng;
use sluice_engine::WorkerEngine;
use sluice_io::{clock, sock};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Encoder, MacAddr, Message, MessageType, PacketInReason, Port, PortNo, PortReason, PortStatus,
    RawMessage, SwitchFeatures, Version, split_message,
};
use sluice_sdk::{AnswerCache, App, Ctx, Network, SwitchIndex, Verdict};

use crate::slow_switches::small_limits;
use crate::test_engine::{TIMEOUT, TestEngine, exchange_until_kernel_has_answered, wait_until};
use crate::test_peer::{TestPeer, broadcast, bytes, echo_request, lldp};

/// Buffer of the last packet-in of a stream, whose answer ends the comparison.
const LAST_BUFFER: u32 = 0xffff_ff00;

/// Hosts of a switch, at four ports.
const HOSTS: u32 = 200;

/// Lengths of frames; those of 3000 bytes are too long for the program.
const FRAME_LENS: [usize; 8] = [15, 60, 64, 65, 128, 129, 1500, 3000];

/// What a switch sends: packet-ins of hosts that appear and move, other messages in between.
fn random_message(rng: &mut Rng, version: Version, tx: &mut Vec<u8>) {
    match rng.below(2000) {
        0 => tx.extend(bytes(version, &echo_request(b"random"))),
        1 => tx.extend(bytes(version, &lldp())),
        2 => tx.extend(bytes(version, &broadcast(Some(7)))),
        3 => {
            let port_no = PortNo(1 + rng.below(4));
            let port = Port { port_no, ..Port::default() };
            let status = PortStatus { reason: PortReason::DELETE, port };
            tx.extend(bytes(version, &Message::PortStatus(status)));
        }
        _ => random_packet_in(rng, version, tx),
    }
}

fn random_packet_in(rng: &mut Rng, version: Version, tx: &mut Vec<u8>) {
    let host = |n: u32| MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)).0;
    let (dst, src) = (rng.below(HOSTS), rng.below(HOSTS));
    let mut few = |n| rng.below(n);
    let in_port = PortNo(1 + if few(200) == 0 { few(4) } else { src % 4 });
    let dst = if few(100) == 0 { [0xff; 6] } else { host(dst) };
    let tag: &[u8] = if few(50) == 0 { &[0x81, 0, 0, 5] } else { &[] };
    let mut frame = [&dst[..], &host(src), tag, &[8, 0, 69]].concat();
    let len = FRAME_LENS[few(8) as usize].max(frame.len());
    frame.resize(len, 7);
    let missing = if few(50) == 0 { 100 } else { 0 };
    if few(200) == 0 {
        frame.truncate(13);
    }
    let buffer_id = (few(2) == 0).then(|| few(1000));
    let p = PacketIn {
        buffer_id,
        in_port,
        total_len: u16::try_from(frame.len()).unwrap() + missing,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: u64::MAX,
        frame: &frame,
    };
    let mut xid = 5;
    p.encode(&mut Encoder::new(tx, version, &mut xid)).unwrap();
}

/// Sends `messages` random messages, in pieces of random lengths with random pauses, and returns the answers, except those to echo requests,
/// which may overtake others.
fn answers(addr: SocketAddr, version: Version, id: u64, messages: u32, seed: u64) -> Vec<Vec<u8>> {
    let peer = TestPeer::connect_switch(addr, version, id);
    let mut sender = peer.stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        use std::io::Write;
        // The program sees a connection on which nothing is unread.
        clock::sleep(Duration::from_secs(1));
        let (mut rng, mut tx, mut left) = (Rng::new(seed), Vec::new(), messages);
        while left > 0 {
            let burst = match rng.below(8) {
                0 => 200,
                _ => 3,
            };
            let count = (1 + rng.below(burst)).min(left);
            (0..count).for_each(|_| random_message(&mut rng, version, &mut tx));
            left -= count;
            if left == 0 {
                tx.extend(bytes(version, &broadcast(Some(LAST_BUFFER))));
            }
            // Sometimes a message is split, and its rest follows later.
            let end =
                if left > 0 && rng.below(8) == 0 { tx.len() - tx.len().min(20) } else { tx.len() };
            sender.write_all(&tx[..end]).unwrap();
            tx.drain(..end);
            clock::sleep(Duration::from_micros(rng.below(100).into()));
        }
    });
    let answers = receive_answers(peer);
    sending.join().unwrap();
    answers
}

/// Receives until the answer to the last packet-in. The transaction ids count from that of the first answer.
fn receive_answers(mut peer: TestPeer) -> Vec<Vec<u8>> {
    use std::io::Read;
    let (mut rx, mut buffer, mut answers) = (Vec::new(), vec![0; 256 << 10], Vec::new());
    let mut first_xid = None;
    loop {
        let n = peer.stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the connection was closed after {} answers", answers.len());
        rx.extend_from_slice(&buffer[..n]);
        let mut rest = &rx[..];
        while let Some((message, after)) = split_message(rest).unwrap() {
            rest = after;
            if [MessageType::ECHO_REPLY, MessageType::ECHO_REQUEST].contains(&message.kind()) {
                continue;
            }
            let first = *first_xid.get_or_insert_with(|| message.xid());
            let mut bytes = message.bytes().to_vec();
            bytes[4..8].copy_from_slice(&message.xid().wrapping_sub(first).to_be_bytes());
            let is_last = is_last(message);
            answers.push(bytes);
            if is_last {
                return answers;
            }
        }
        let len = rest.len();
        rx.drain(..rx.len() - len);
    }
}

fn is_last(message: RawMessage<'_>) -> bool {
    message.kind() == MessageType::PACKET_OUT
        && message.body().get(..4) == Some(&LAST_BUFFER.to_be_bytes()[..])
}

/// A million random messages.
#[test]
fn the_kernel_sends_what_the_worker_would_send() {
    let modes = [WorkerEngine::Epoll, WorkerEngine::Kernel, WorkerEngine::Auto];
    let engines = modes.map(|mode| TestEngine::new(|cfg| cfg.workers.engine = mode));
    for (round, version) in [Version::V1_0, Version::V1_3, Version::V1_4].into_iter().enumerate() {
        let id = round as u64 + 1;
        let messages = 333_334;
        let [expected, others @ ..] = engines
            .each_ref()
            .map(|engine| engine.addr)
            .map(|addr| thread::spawn(move || answers(addr, version, id, messages, id)));
        let expected = expected.join().unwrap();
        for (other, mode) in others.into_iter().zip(&modes[1..]) {
            let other = other.join().unwrap();
            let differs = other.iter().zip(&expected).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{version} {mode:?}: the first answer that differs");
            assert_eq!(other.len(), expected.len(), "{version} {mode:?}");
        }
    }
    let mut expected = None;
    for (engine, mode) in engines.iter().zip(modes) {
        let mut peer = TestPeer::connect_switch(engine.addr, Version::V1_3, 9);
        peer.expect_reply();
        for (src, dst) in [(1, 2), (2, 1)] {
            peer.send_bytes(&known_packet_in(src, dst));
        }
        peer.expect_reply();
        let mut exchange = || {
            peer.send_bytes(&known_packet_in(1, 2));
            peer.receive_until_reply()
        };
        if mode == WorkerEngine::Epoll {
            expected = Some(exchange());
            assert_eq!(engine.metric("packet_ins_answered_in_kernel", ""), 0);
        } else {
            exchange_until_kernel_has_answered(engine, 1000, || {
                assert_eq!(Some(exchange()), expected);
            });
        }
    }
    assert!(expected.is_some_and(|answers| !answers.is_empty()));
}

/// A packet-in of a frame from one of two hosts to the other.
fn known_packet_in(src: u64, dst: u64) -> Vec<u8> {
    let [src, dst] = [src, dst].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n).0);
    let frame = [&dst[..], &src, &[8, 0], &[7; 46]].concat();
    let p = PacketIn {
        buffer_id: None,
        in_port: PortNo(u32::from(src[5])),
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: u64::MAX,
        frame: &frame,
    };
    let (mut tx, mut xid) = (Vec::new(), 5);
    p.encode(&mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap();
    tx
}

/// A switch with two hosts, whose packet-ins the kernel answers.
fn switch_with_known_hosts<A: App + Send>(engine: &TestEngine<A>, id: u64) -> TestPeer {
    let mut peer = TestPeer::connect_switch(engine.addr, Version::V1_3, id);
    peer.expect_reply();
    for (src, dst) in [(1, 2), (2, 1)] {
        peer.send_bytes(&known_packet_in(src, dst));
    }
    let before = engine.metric("packet_ins_answered_in_kernel", "");
    wait_until("an answer of the kernel", || {
        peer.send_bytes(&known_packet_in(1, 2));
        peer.expect_reply();
        engine.metric("packet_ins_answered_in_kernel", "") > before
    });
    peer
}

/// It sends and does not read: first its answers fill the buffers of both ends, then the worker stops reading from it. The worker neither
/// waits for it nor runs for it all the time, and it gets everything when it reads.
#[test]
fn a_switch_that_does_not_read_is_served_when_it_does_and_costs_nothing_before() {
    use std::io::{ErrorKind, Read, Write};
    let engine = TestEngine::new(|cfg| {
        small_limits(cfg);
        // The kernel answers while there is room for 62 KiB.
        cfg.socket.send_buffer = Some(64 << 10);
        cfg.workers.engine = WorkerEngine::Auto;
        // Packet-ins of a switch that takes nothing for longer are shed.
        (cfg.limits.unread_max, cfg.limits.stuck_timeout) = (TIMEOUT, TIMEOUT);
    });
    let mut slow = switch_with_known_hosts(&engine, 1);
    let mut good = switch_with_known_hosts(&engine, 2);
    // By themselves, they would grow to tens of megabytes.
    let (send_buffer, recv_buffer) = (Some(16 << 10), Some(64 << 10));
    let options = sock::Options { send_buffer, recv_buffer, ..sock::Options::default() };
    options.apply(&slow.stream).unwrap();
    slow.stream.set_nonblocking(true).unwrap();
    let message = known_packet_in(2, 1);
    let (mut sent, mut refused) = (0, 0);
    // Slowly, so that the socket takes the answers of the kernel, until it is full.
    while refused < 100 {
        match slow.stream.write(&message[sent % message.len()..]) {
            Ok(n) => {
                (sent, refused) = (sent + n, 0);
                clock::sleep(Duration::from_micros(20));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                clock::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error} after {sent} bytes"),
        }
        if sent % (1000 * message.len()) == 0 {
            good.send_bytes(&message);
            good.expect_reply();
        }
    }
    let iterations = || engine.metric("worker_iterations", "");
    let before = iterations();
    clock::sleep(Duration::from_millis(500));
    let idle = iterations() - before;
    assert!(idle < 1000, "{idle} iterations in which nothing can happen");
    good.send_bytes(&message);
    good.expect_reply();
    // The rest of the last message, and one whose answer is the last.
    slow.stream.set_nonblocking(false).unwrap();
    let mut sender = slow.stream.try_clone().unwrap();
    let rest = message.repeat(sent.div_ceil(message.len()))[sent..].to_vec();
    let last = bytes(Version::V1_3, &broadcast(Some(LAST_BUFFER)));
    let sending = thread::spawn(move || {
        sender.write_all(&rest).unwrap();
        sender.write_all(&last).unwrap();
    });
    let (mut rx, mut buffer, mut answers) = (Vec::new(), vec![0; 64 << 10], 0);
    'all: loop {
        let n = slow.stream.read(&mut buffer).unwrap();
        assert!(n > 0, "closed after {answers} answers");
        rx.extend_from_slice(&buffer[..n]);
        let mut left = &rx[..];
        while let Some((received, after)) = split_message(left).unwrap() {
            left = after;
            answers += usize::from(received.kind() == MessageType::FLOW_MOD);
            if is_last(received) {
                break 'all;
            }
        }
        let len = left.len();
        rx.drain(..rx.len() - len);
    }
    sending.join().unwrap();
    assert_eq!(answers, sent.div_ceil(message.len()), "{sent} bytes");
    good.send_bytes(&message);
    good.expect_reply();
}

/// As with other engines: the switch is disconnected, and its backlog stays within the limit.
#[test]
fn a_switch_that_never_reads_is_disconnected() {
    let engine = TestEngine::new(|cfg| {
        small_limits(cfg);
        // The kernel answers while there is room for 62 KiB.
        cfg.socket.send_buffer = Some(64 << 10);
        cfg.workers.engine = WorkerEngine::Kernel;
        cfg.limits.stuck_timeout = Duration::from_millis(500);
    });
    let mut good = switch_with_known_hosts(&engine, 2);
    let mut stuck = switch_with_known_hosts(&engine, 1);
    let message = known_packet_in(2, 1);
    let sending = thread::spawn(move || {
        use std::io::Write;
        while stuck.stream.write_all(&message).is_ok() {}
    });
    engine.expect_closed(1, "send_timeout");
    sending.join().unwrap();
    good.expect_reply();
    wait_until("an empty backlog", || engine.metric("backlog_bytes", "") == 0);
}

/// `learning`, with a bug: it panics at a link probe.
#[derive(Default)]
struct Panicking(Learning);

impl App for Panicking {
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        self.0.initial_messages(out);
    }

    fn can_publish_answers(&self) -> bool {
        self.0.can_publish_answers()
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        self.0.publish_answers(switch, now, network, cache)
    }

    fn update_from_answers(&mut self, now: Instant, cache: &mut dyn AnswerCache) {
        self.0.update_from_answers(now, cache);
    }

    fn on_iteration(&mut self, now: Instant) {
        self.0.on_iteration(now);
    }

    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.on_switch_connected(features, ctx);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        assert!(p.frame.get(12..14) != Some(&[0x88, 0xcc][..]), "a bug of an application");
        self.0.on_packet_in(p, ctx)
    }

    fn on_switch_disconnected(&mut self, switch: SwitchIndex, now: Instant, to: &mut Network) {
        self.0.on_switch_disconnected(switch, now, to);
    }
}

/// Its switches are disconnected, those of the other worker are answered until the process stops the engine, and then both are answered by a
/// new one, also in the kernel.
#[test]
fn when_a_worker_panics_its_switches_and_then_all_connect_again() {
    let change = |cfg: &mut sluice_engine::Config| {
        (cfg.workers.threads, cfg.workers.engine) = (2, WorkerEngine::Kernel);
        cfg.workers.balancing = false;
    };
    let mut addr = None;
    for _ in 0..2 {
        let change = |cfg: &mut sluice_engine::Config| {
            change(cfg);
            cfg.listen = addr.map_or_else(|| cfg.listen.clone(), |addr| vec![addr]);
        };
        let engine = TestEngine::with_app(change, Panicking::default);
        addr = Some(engine.addr);
        let (failed, has_failed) = mpsc::channel();
        engine.engine.as_ref().unwrap().on_failure(move || failed.send(()).unwrap());
        // Each worker has one of them.
        let mut switches = [1, 2].map(|id| switch_with_known_hosts(&engine, id));
        for worker in ["0", "1"] {
            assert_eq!(engine.metric("worker_switches", worker), 1);
        }
        let [broken, other] = &mut switches;
        broken.send(&lldp());
        broken.expect_close();
        has_failed.recv_timeout(TIMEOUT).unwrap();
        let in_kernel = || engine.metric("packet_ins_answered_in_kernel", "");
        let before = in_kernel();
        wait_until("an answer of the kernel to the other switch", || {
            other.send_bytes(&known_packet_in(1, 2));
            other.expect_reply();
            in_kernel() > before
        });
        drop(engine);
        other.expect_close();
    }
}
