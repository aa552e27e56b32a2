//! Processing a packet-in allocates nothing.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::alloc::System;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_engine::{Config, Engine, Pin, WorkerEngine};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, Encoder, MacAddr, MessageType, PacketInReason, PortNo, RawMessage, Version,
    Versions, split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Packet-ins sent while allocations are counted.
const PACKET_INS: usize = 200_000;

/// Allowed for what threads do at intervals, such as collecting metrics.
const ALLOCATIONS_MAX: usize = 20;

/// Hosts. All are in the MAC table before allocations are counted.
const HOST_COUNT: u64 = 1000;

/// Packet-ins sent before their replies are read.
const BURST: usize = 1000;

/// Whether a message is the last reply to a packet-in. There is exactly one for each.
type IsLastReply = fn(MessageType) -> bool;

#[test]
fn a_buffered_packet_in_is_handled_without_an_allocation() {
    for version in Versions::SUPPORTED.iter() {
        assert_no_allocation(WorkerEngine::Epoll, version, Some(7), BURST, is_reply);
    }
}

/// Bursts are as large as what is read at once, and as small as what is received into buffers of the ring.
#[test]
fn a_packet_in_over_io_uring_is_handled_without_an_allocation() {
    for burst in [BURST, 10, 1] {
        assert_no_allocation(WorkerEngine::Uring, Version::V1_3, Some(7), burst, is_reply);
    }
}

fn is_reply(kind: MessageType) -> bool {
    matches!(kind, MessageType::FLOW_MOD | MessageType::PACKET_OUT)
}

#[test]
fn an_unbuffered_packet_in_is_handled_without_an_allocation() {
    for version in Versions::SUPPORTED.iter() {
        let is_last_reply = |kind| kind == MessageType::PACKET_OUT;
        assert_no_allocation(WorkerEngine::Epoll, version, None, BURST, is_last_reply);
    }
}

fn assert_no_allocation(
    engine: WorkerEngine,
    version: Version,
    buffer_id: Option<u32>,
    burst: usize,
    is_last_reply: IsLastReply,
) {
    // Allocations are counted for the whole process, so the tests run one after the other.
    static COUNTING: Mutex<()> = Mutex::new(());
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    config.workers.threads = 1;
    config.workers.pin = Pin::Off;
    config.workers.engine = engine;
    config.socket.congestion = None;
    let engine = Engine::start(config, |_| Learning::default()).unwrap();
    let mut switch = PrebuiltSwitch::new(engine.addresses()[0], version, buffer_id, is_last_reply);
    for _ in 0..10 {
        switch.run_burst(BURST);
    }
    switch.flow_mods = 0;
    let region = Region::new(ALLOCATOR);
    // With a system call of the switch for each burst, small ones take long.
    let packet_ins = PACKET_INS.min(burst * 10_000);
    for _ in 0..packet_ins / burst {
        switch.run_burst(burst);
    }
    let change = region.change();
    assert_eq!(switch.flow_mods, packet_ins, "every destination was known");
    engine.stop();
    let allocations = change.allocations + change.reallocations;
    assert!(allocations <= ALLOCATIONS_MAX, "{change:?} for {packet_ins} packet-ins");
}

/// A switch that sends prebuilt packet-ins and allocates nothing.
struct PrebuiltSwitch {
    stream: TcpStream,
    burst: Vec<u8>,
    rx: Vec<u8>,
    /// Bytes of an incomplete message at the start of `rx`.
    partial_len: usize,
    is_last_reply: IsLastReply,
    /// Flow-mods received.
    flow_mods: usize,
}

impl PrebuiltSwitch {
    fn new(
        addr: SocketAddr,
        version: Version,
        buffer_id: Option<u32>,
        is_last_reply: IsLastReply,
    ) -> Self {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        complete_handshake(&mut stream, version);
        let (mut burst, mut xid) = (Vec::new(), 1);
        let mut out = Encoder::new(&mut burst, version, &mut xid);
        for n in 0..BURST as u64 {
            let host = |n| MacAddr::from_u64(0x0200_0000_0000 + n % HOST_COUNT).0;
            let mut frame = [host(n + 1), host(n)].concat();
            frame.resize(64, 0);
            let p = PacketIn {
                buffer_id,
                // Successive hosts are at different ports.
                in_port: PortNo(1 + u32::from(n % 2 == 1)),
                total_len: 64,
                reason: PacketInReason::NO_MATCH,
                table_id: 0,
                cookie: 0,
                frame: &frame,
            };
            p.encode(&mut out).unwrap();
        }
        Self { stream, burst, rx: vec![0; 256 << 10], partial_len: 0, is_last_reply, flow_mods: 0 }
    }

    /// Sends the first `len` packet-ins and waits for all replies.
    fn run_burst(&mut self, len: usize) {
        let bytes = self.burst.len() / BURST * len;
        self.stream.write_all(&self.burst[..bytes]).unwrap();
        let mut replied = 0;
        while replied < len {
            let n = match self.stream.read(&mut self.rx[self.partial_len..]) {
                // The kernel interrupts the thread that has made a ring when the thread that uses it ends work.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result.unwrap(),
            };
            assert!(n > 0, "connection closed");
            let received = self.partial_len + n;
            let mut rest = &self.rx[..received];
            while let Some((msg, after)) = split_message(rest).unwrap() {
                rest = after;
                replied += usize::from((self.is_last_reply)(msg.kind()));
                self.flow_mods += usize::from(msg.kind() == MessageType::FLOW_MOD);
            }
            self.partial_len = rest.len();
            self.rx.copy_within(received - self.partial_len..received, 0);
        }
        assert_eq!((replied, self.partial_len), (len, 0));
    }
}

fn complete_handshake(stream: &mut TcpStream, version: Version) {
    // The last message of the handshake: up to 1.2 the deletion of an entry that no switch has, later the table-miss entry.
    let last = MessageType::FLOW_MOD;
    let profile = SwitchProfile { datapath_id: DatapathId(1), version, n_ports: 4, n_buffers: 256 };
    let (mut tx, mut rx) = (Vec::new(), Vec::new());
    let mut switch = SwitchSession::open(profile, &mut tx);
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
