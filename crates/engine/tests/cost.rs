//! What a `PACKET_IN` costs: nothing is allocated for it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_engine::{Config, Engine, Pin};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, MacAddr, MessageType, PacketInReason, PortNo, RawMessage, Version,
    Versions, split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Frames sent up while allocations are counted.
const FRAMES: usize = 200_000;

/// For what threads do once in a while, such as showing numbers. For a frame: none.
const ALLOCATIONS_MAX: usize = 20;

/// Hosts, all of which are known when it counts.
const HOST_COUNT: u64 = 1000;

/// Frames sent before their answers are read.
const BURST: usize = 1000;

/// What the answers to a frame end with: it has one of these, and one only.
type Last = fn(MessageType) -> bool;

#[test]
fn a_frame_that_the_switch_keeps_is_answered_without_an_allocation() {
    for version in Versions::SPOKEN.iter() {
        must_not_allocate(version, Some(7), |kind| {
            matches!(kind, MessageType::FLOW_MOD | MessageType::PACKET_OUT)
        });
    }
}

#[test]
fn a_frame_that_the_switch_does_not_keep_is_answered_without_an_allocation() {
    for version in Versions::SPOKEN.iter() {
        must_not_allocate(version, None, |kind| kind == MessageType::PACKET_OUT);
    }
}

fn must_not_allocate(version: Version, buffer_id: Option<u32>, last: Last) {
    // Both tests count for the whole process: one after the other.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    config.workers.threads = 1;
    config.workers.pin = Pin::Off;
    config.socket.congestion = None;
    let engine = Engine::start(config, |_| Learning::default()).unwrap();
    let mut switch = Prebuilt::new(engine.addresses()[0], version, buffer_id, last);
    for _ in 0..10 {
        switch.ask();
    }
    switch.rules = 0;
    let region = Region::new(ALLOCATOR);
    for _ in 0..FRAMES / BURST {
        switch.ask();
    }
    let change = region.change();
    assert_eq!(switch.rules, FRAMES, "every host was known");
    engine.stop();
    let allocations = change.allocations + change.reallocations;
    assert!(allocations <= ALLOCATIONS_MAX, "{change:?} for {FRAMES} frames");
}

/// A switch that asks out of memory and allocates nothing.
struct Prebuilt {
    stream: TcpStream,
    burst: Vec<u8>,
    rx: Vec<u8>,
    /// Bytes of `rx` that are the start of a message.
    torn: usize,
    last: Last,
    /// Rules it was told to add.
    rules: usize,
}

impl Prebuilt {
    fn new(addr: SocketAddr, version: Version, buffer_id: Option<u32>, last: Last) -> Self {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        shake_hands(&mut stream, version);
        let (mut burst, mut xid) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut burst, version, &mut xid);
        for n in 0..BURST as u64 {
            let host = |n| MacAddr::from_u64(0x0200_0000_0000 + n % HOST_COUNT).0;
            let mut frame = [host(n + 1), host(n)].concat();
            frame.resize(64, 0);
            let p = PacketIn {
                buffer_id,
                // Neighbours are at different ports.
                in_port: PortNo(1 + u32::from(n % 2 == 1)),
                total_len: 64,
                reason: PacketInReason::NO_MATCH,
                table_id: 0,
                cookie: 0,
                frame: &frame,
            };
            p.encode(&mut out).unwrap();
        }
        Self { stream, burst, rx: vec![0; 256 << 10], torn: 0, last, rules: 0 }
    }

    /// Sends a burst and waits until all of it is answered.
    fn ask(&mut self) {
        self.stream.write_all(&self.burst).unwrap();
        let mut answered = 0;
        while answered < BURST {
            let n = self.stream.read(&mut self.rx[self.torn..]).unwrap();
            assert!(n > 0, "hung up on");
            let len = self.torn + n;
            let mut rest = &self.rx[..len];
            while let Some((msg, after)) = split_message(rest).unwrap() {
                rest = after;
                answered += usize::from((self.last)(msg.kind()));
                self.rules += usize::from(msg.kind() == MessageType::FLOW_MOD);
            }
            self.torn = rest.len();
            self.rx.copy_within(len - self.torn..len, 0);
        }
        assert_eq!((answered, self.torn), (BURST, 0));
    }
}

fn shake_hands(stream: &mut TcpStream, version: Version) {
    // Up to 1.2 the deletion of a rule that nobody has, later the table-miss entry: no answers to a frame.
    let last = MessageType::FLOW_MOD;
    let plan = SwitchProfile { datapath_id: DatapathId(1), version, n_ports: 4, n_buffers: 256 };
    let (mut tx, mut rx) = (Vec::new(), Vec::new());
    let mut switch = SwitchSession::open(plan, &mut tx);
    loop {
        stream.write_all(&tx).unwrap();
        tx.clear();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        rx.extend(byte);
        if let Ok(msg) = RawMessage::new(&rx) {
            switch.on_message(msg, &mut tx).unwrap();
            let is_last = msg.kind() == last;
            rx.clear();
            if is_last {
                return stream.write_all(&tx).unwrap();
            }
        }
    }
}
