//! With the default applications, too, an engine that answers inside the kernel sends what one without it sends.
//!
//! Loading the program needs privileges, and clang when it was built: both are part of the set-up of the tests.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sluice_apps::{chain, forwarding, hosts, limiter};
use sluice_base::Rng;
use sluice_engine::WorkerEngine;
use sluice_io::clock;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, FieldId, MacAddr, Message, MessageType, PacketInReason, PortNo,
    RawMessage, Version, split_message,
};
use sluice_sdk::Chain;

use crate::test_engine::{
    TIMEOUT, TestEngine, config, exchange_until_kernel_has_answered, wait_until,
};
use crate::test_peer::{TestPeer, bytes, echo_request, lldp};

/// Hosts of a switch, at four ports.
const HOSTS: u32 = 200;

/// Buffer ids from here on are those of packet-ins that mark the end of a part of the stream. All other packet-ins have smaller ones.
const FIRST_MARKER: u32 = 1 << 20;

/// Lengths of frames; those of 3000 bytes are too long for the program.
const FRAME_LENS: [usize; 8] = [60, 64, 65, 128, 129, 1000, 1500, 3000];

/// Nothing that the default applications send to a packet depends on the time.
fn app_config() -> sluice_apps::Config {
    let forwarding = forwarding::Config {
        path_pending: Duration::ZERO,
        flooding: forwarding::Flooding::Controller,
        ..forwarding::Config::default()
    };
    let hosts = hosts::Config { requests_per_s_max: u32::MAX, ..hosts::Config::default() };
    sluice_apps::Config { forwarding, hosts, ..sluice_apps::Config::default() }
}

/// The default applications.
fn default_chain() -> Chain {
    chain(&["topology", "hosts", "forwarding"].map(str::to_owned), &app_config()).unwrap()
}

fn mac(n: u32) -> [u8; 6] {
    MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)).0
}

fn port_of(host: u32) -> PortNo {
    PortNo(1 + host % 4)
}

/// An IP address of a host.
fn ip(host: u32) -> [u8; 4] {
    let [.., high, low] = host.to_be_bytes();
    [10, 0, high, low]
}

fn ipv4(src: u32, protocol: u8, ports: [u8; 4]) -> Vec<u8> {
    let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
    [&start[..], &ip(src), &[10, 9, 9, 9], &ports].concat()
}

fn ipv6(src: u32, next_header: u8) -> Vec<u8> {
    let start = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next_header, 64];
    let prefix = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&start[..], &prefix, &ip(src), &[0xfd; 16]].concat()
}

/// What follows the addresses of a frame: mostly ordinary packets.
fn random_payload(rng: &mut Rng, src: u32) -> Vec<u8> {
    let mut few = |n: u32| u8::try_from(rng.below(n)).unwrap();
    match few(100) {
        0 => vec![0x90, 0, few(10)],
        1 => [&[0x81, 0, 0, 0][..], &ipv4(src, 6, [0; 4])].concat(),
        2 => ipv6(src, 58),
        3 => ipv4(src, 17, [0, 67, 0, 68]),
        4 => {
            let mut options = ipv4(src, 6, [0; 4]);
            options[2] = 0x46;
            options
        }
        5..10 => ipv6(src, 6),
        10..30 => ipv4(src, 17, [few(3), 67, 0, 68]),
        _ => ipv4(src, 6, [few(200), few(200), few(200), few(200)]),
    }
}

fn packet_in(
    version: Version,
    buffer_id: Option<u32>,
    in_port: PortNo,
    frame: &[u8],
    missing: u16,
) -> Vec<u8> {
    let total_len = u16::try_from(frame.len()).unwrap() + missing;
    let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
    let p = PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame };
    let (mut tx, mut xid) = (Vec::new(), 5);
    p.encode(&mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
    tx
}

/// A packet-in of a packet between two hosts, of any kind that is answered at once.
fn random_packet_in(rng: &mut Rng, version: Version) -> Vec<u8> {
    let [dst, src] = [(); 2].map(|()| rng.below(HOSTS));
    let mut frame = [&mac(dst)[..], &mac(src), &random_payload(rng, src)].concat();
    let len = FRAME_LENS[rng.below(8) as usize];
    frame.resize(len, 7);
    if rng.below(100) == 0 {
        frame.truncate(13 + rng.below(30) as usize);
    }
    let missing = if rng.below(50) == 0 { 100 } else { 0 };
    let buffer_id = (rng.below(2) == 0).then(|| rng.below(1000));
    packet_in(version, buffer_id, port_of(src), &frame, missing)
}

fn random_message(rng: &mut Rng, version: Version) -> Vec<u8> {
    match rng.below(2000) {
        0 => bytes(version, &echo_request(b"random")),
        1 => bytes(version, &lldp()),
        _ => random_packet_in(rng, version),
    }
}

/// A packet-in that frees its buffer: its destination is itself.
fn marker(version: Version, buffer_id: u32) -> Vec<u8> {
    let frame = [&mac(0)[..], &mac(0), &ipv4(0, 6, [0; 4])].concat();
    packet_in(version, Some(buffer_id), port_of(0), &frame, 0)
}

/// A switch that answers barriers and echo requests.
struct Switch {
    version: Version,
    reader: TcpStream,
    writer: Arc<Mutex<TcpStream>>,
    rx: Vec<u8>,
    xids: BTreeSet<u32>,
    flow_entries: u64,
}

impl Switch {
    fn connect(addr: SocketAddr, version: Version, id: DatapathId) -> Self {
        let reader = TestPeer::connect_switch(addr, version, id.0).stream;
        reader.set_read_timeout(Some(TIMEOUT)).unwrap();
        let writer = Arc::new(Mutex::new(reader.try_clone().unwrap()));
        Self { version, reader, writer, rx: Vec::new(), xids: BTreeSet::new(), flow_entries: 0 }
    }

    fn send(writer: &Mutex<TcpStream>, bytes: &[u8]) {
        writer.lock().unwrap().write_all(bytes).unwrap();
    }

    /// The next message that answers a packet-in: a flow entry of a path, or a packet from a port of the switch.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            let message = self.receive_any();
            let raw = RawMessage::new(&message).unwrap();
            let reply = match raw.kind() {
                MessageType::ECHO_REPLY => continue,
                MessageType::ECHO_REQUEST => Some(Message::EchoReply { data: raw.body().to_vec() }),
                MessageType::BARRIER_REQUEST => Some(Message::BarrierReply),
                _ => None,
            };
            assert!(self.xids.insert(raw.xid()), "{:?} repeats an id", raw.kind());
            if let Some(reply) = reply {
                let (mut tx, mut next) = (Vec::new(), 1);
                let mut out = Encoder::new(&mut tx, self.version, &mut next);
                reply.encode(raw.xid(), &mut out).unwrap();
                Self::send(&self.writer, &tx);
            } else if is_answer(raw) {
                self.flow_entries += u64::from(raw.kind() == MessageType::FLOW_MOD);
                return message;
            }
        }
    }

    fn receive_any(&mut self) -> Vec<u8> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some((message, _)) = split_message(&self.rx).unwrap() {
                let len = message.bytes().len();
                return self.rx.drain(..len).collect();
            }
            let n = self.reader.read(&mut buffer).unwrap();
            assert!(n > 0, "the connection was closed");
            self.rx.extend_from_slice(&buffer[..n]);
        }
    }

    /// Has the controller learn all hosts, with both addresses.
    fn learn_hosts(&mut self) {
        for round in 0.. {
            let version = self.version;
            for host in 0..HOSTS {
                for payload in [ipv4(host, 6, [0; 4]), ipv6(host, 6)] {
                    let frame = [&mac((host + 1) % HOSTS)[..], &mac(host), &payload].concat();
                    let message = packet_in(version, Some(host), port_of(host), &frame, 0);
                    Self::send(&self.writer, &message);
                }
            }
            Self::send(&self.writer, &marker(version, FIRST_MARKER + round));
            let mut paths = 0;
            loop {
                let message = self.receive();
                let raw = RawMessage::new(&message).unwrap();
                paths += u32::from(raw.kind() == MessageType::FLOW_MOD);
                if is_marker(raw, FIRST_MARKER + round) {
                    break;
                }
            }
            // Flow entries for both directions.
            if paths == 4 * HOSTS {
                return;
            }
            clock::sleep(Duration::from_millis(100));
        }
    }
}

impl Switch {
    /// Sends a packet-in from host 1 to host 2, and returns the priorities of both flow entries that answer it.
    fn exchange(&mut self) -> [u16; 2] {
        self.exchange_bytes().map(|message| {
            match Message::parse_raw(RawMessage::new(&message).unwrap()) {
                Ok(Message::FlowMod(entry)) => entry.priority,
                other => panic!("{other:?}"),
            }
        })
    }

    /// Sends a packet-in from host 1 to host 2, and returns the two messages that answer it, without transaction ids.
    fn exchange_bytes(&mut self) -> [Vec<u8>; 2] {
        let frame = [&mac(2)[..], &mac(1), &ipv4(1, 6, [0; 4]), &[7; 22]].concat();
        let message = packet_in(self.version, Some(1), port_of(1), &frame, 0);
        Self::send(&self.writer, &message);
        [(); 2].map(|()| {
            let mut message = self.receive();
            message[4..8].fill(0);
            message
        })
    }
}

fn is_answer(message: RawMessage<'_>) -> bool {
    match Message::parse_raw(message) {
        Ok(Message::FlowMod(flow_mod)) => {
            flow_mod.cookie >> 32 == 0x666f_7277
                && flow_mod.matching.get(FieldId::ETH_SRC).is_some()
        }
        Ok(Message::PacketOut(p)) => {
            p.matching.get(FieldId::IN_PORT).is_some_and(|port| port.value <= 4)
        }
        _ => false,
    }
}

fn is_marker(message: RawMessage<'_>, buffer_id: u32) -> bool {
    message.kind() == MessageType::PACKET_OUT
        && message.body().get(..4) == Some(&buffer_id.to_be_bytes()[..])
}

/// Packet-ins that are sent one by one until the kernel answers one. On a busy machine it may answer none of them.
const ATTEMPTS_MAX: u32 = 500;

/// A switch whose hosts the controller knows, and which the kernel answers if it ever does with this engine: the program begins with a connection
/// on which nothing is unread.
fn known_switch(
    engine: &TestEngine<Chain>,
    mode: WorkerEngine,
    version: Version,
    id: u64,
) -> Switch {
    let mut switch = Switch::connect(engine.addr, version, DatapathId(id));
    switch.learn_hosts();
    let attempts = if mode == WorkerEngine::Epoll { 0 } else { ATTEMPTS_MAX };
    let in_kernel = || engine.metric("packet_ins_answered_in_kernel", "");
    let before = in_kernel();
    for _ in 0..attempts {
        if in_kernel() > before {
            break;
        }
        switch.exchange();
        clock::sleep(Duration::from_millis(2));
    }
    switch
}

/// Sends `messages` random messages with random pauses, and returns the answers, and the number of flow entries received in all. The
/// transaction ids, which are in order, are cleared: there are others in between at any time.
fn answers(mut switch: Switch, messages: u32, seed: u64) -> (Vec<Vec<u8>>, u64) {
    let (version, writer, last) = (switch.version, switch.writer.clone(), FIRST_MARKER - 1);
    let sending = thread::spawn(move || {
        let (mut rng, mut left) = (Rng::new(seed), messages);
        while left > 0 {
            let burst = match rng.below(8) {
                0 => 200,
                _ => 2,
            };
            let count = (1 + rng.below(burst)).min(left);
            let tx: Vec<u8> = (0..count).flat_map(|_| random_message(&mut rng, version)).collect();
            left -= count;
            Switch::send(&writer, &tx);
            clock::sleep(Duration::from_micros(rng.below(100).into()));
        }
        Switch::send(&writer, &marker(version, last));
    });
    let (mut answers, mut last_xid) = (Vec::new(), None);
    loop {
        let mut message = switch.receive();
        let raw = RawMessage::new(&message).unwrap();
        let (xid, is_last) = (raw.xid(), is_marker(raw, last));
        assert!(last_xid < Some(xid), "{xid} after {last_xid:?}");
        last_xid = Some(xid);
        message[4..8].fill(0);
        answers.push(message);
        if is_last {
            sending.join().unwrap();
            return (answers, switch.flow_entries);
        }
    }
}

/// A million random messages.
#[test]
fn the_kernel_sends_what_the_default_applications_would_send() {
    let modes = [WorkerEngine::Epoll, WorkerEngine::Kernel, WorkerEngine::Auto];
    let engines =
        modes.map(|mode| TestEngine::with_app(|cfg| cfg.workers.engine = mode, default_chain));
    let mut flow_entries = [0; 3];
    for (round, version) in [Version::V1_0, Version::V1_3, Version::V1_4].into_iter().enumerate() {
        let id = round as u64 + 1;
        let messages = 333_334;
        let [expected, others @ ..] = [0, 1, 2]
            .map(|n| known_switch(&engines[n], modes[n], version, id))
            .map(|switch| thread::spawn(move || answers(switch, messages, id)));
        let (expected, count) = expected.join().unwrap();
        flow_entries[0] += count;
        for (n, (other, mode)) in others.into_iter().zip(&modes[1..]).enumerate() {
            let (other, count) = other.join().unwrap();
            flow_entries[n + 1] += count;
            let differs = other.iter().zip(&expected).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{version} {mode:?}: the first answer that differs");
            assert_eq!(other.len(), expected.len(), "{version} {mode:?}");
        }
    }
    let mut expected = None;
    for (n, (engine, mode)) in engines.iter().zip(modes).enumerate() {
        let mut switch = known_switch(engine, mode, Version::V1_3, 9);
        if mode == WorkerEngine::Epoll {
            expected = Some(switch.exchange_bytes());
            assert_eq!(engine.metric("packet_ins_answered_in_kernel", ""), 0);
        } else {
            exchange_until_kernel_has_answered(engine, 1000, || {
                assert_eq!(Some(switch.exchange_bytes()), expected);
            });
        }
        flow_entries[n] += switch.flow_entries;
    }
    for (engine, flow_entries) in engines.iter().zip(flow_entries) {
        let written = || engine.metric("forwarding_flow_entries_written", "");
        wait_until("the flow entries of the kernel among those written", || {
            written() == flow_entries
        });
    }
}

/// Has all applications use another configuration, and returns at once.
fn reconfigure(engine: &TestEngine<Chain>, apps: sluice_apps::Config) {
    let unchanged = config(|cfg| cfg.workers.engine = WorkerEngine::Kernel);
    let change = move |chain: &mut Chain| chain.configure(&apps.by_name());
    engine.engine.as_ref().unwrap().apply(unchanged, change).unwrap();
}

#[test]
fn once_a_new_configuration_is_used_the_kernel_sends_nothing_of_the_old_one() {
    let change = |cfg: &mut sluice_engine::Config| cfg.workers.engine = WorkerEngine::Kernel;
    let engine = TestEngine::with_app(change, default_chain);
    let mut switch = Switch::connect(engine.addr, Version::V1_3, DatapathId(1));
    switch.learn_hosts();
    let in_kernel = || engine.metric("packet_ins_answered_in_kernel", "");
    let mut priorities = Vec::new();
    for priority in [100, 200] {
        let mut apps = app_config();
        apps.forwarding.priority = priority;
        reconfigure(&engine, apps);
        wait_until("the configuration", || {
            priorities.extend(switch.exchange());
            priorities.last() == Some(&priority)
        });
        let before = in_kernel();
        wait_until("answers of the kernel", || {
            priorities.extend(switch.exchange());
            in_kernel() > before + 10
        });
    }
    assert!(priorities.is_sorted(), "{priorities:?}");
}

/// It counts every packet-in.
#[test]
fn the_kernel_answers_from_the_moment_when_the_limiter_has_no_limit() {
    let limited = |packets_per_s_max| {
        let burst_packets = packets_per_s_max;
        let limiter =
            limiter::Config { packets_per_s_max, burst_packets, ..limiter::Config::default() };
        sluice_apps::Config { limiter, ..app_config() }
    };
    let change = |cfg: &mut sluice_engine::Config| cfg.workers.engine = WorkerEngine::Kernel;
    let engine = TestEngine::with_app(change, move || {
        let names = ["topology", "limiter", "hosts", "forwarding"].map(str::to_owned);
        chain(&names, &limited(1_000_000)).unwrap()
    });
    let mut switch = Switch::connect(engine.addr, Version::V1_3, DatapathId(1));
    switch.learn_hosts();
    let in_kernel = || engine.metric("packet_ins_answered_in_kernel", "");
    (0..100).for_each(|_| _ = switch.exchange());
    assert_eq!(in_kernel(), 0);
    reconfigure(&engine, limited(0));
    wait_until("answers of the kernel", || {
        switch.exchange();
        in_kernel() > 0
    });
}
