//! Switches that send but do not read.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_engine::Config;
use sluice_io::{READ_BYTES_MAX, clock, sock};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Message, SwitchFeatures, Version};
use sluice_sdk::{App, Ctx, Verdict, is_link_probe};

use crate::test_engine::{TIMEOUT, TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, bytes, echo_request, lldp};

/// Small, so that a test reaches it soon.
const BACKLOG_MAX: usize = 64 << 10;

/// The largest backlog: the limit, and the replies to one read. The reply to a packet-in of 64 bytes is less than twice as
/// long as the packet-in.
const BACKLOG_WITH_REPLIES_MAX: u64 = (BACKLOG_MAX + 2 * READ_BYTES_MAX) as u64;

/// Size of the kernel's receive buffers. By itself it would let them grow to tens of megabytes.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// More than the kernel buffers for a connection in both directions.
const IN_KERNEL_MAX: usize = 16 << 20;

pub(crate) fn small_limits(cfg: &mut Config) {
    cfg.limits.backlog_bytes_max = BACKLOG_MAX;
    cfg.limits.stuck_timeout = Duration::from_millis(1500);
    cfg.socket.send_buffer = Some(16 << 10);
    cfg.socket.recv_buffer = Some(RECEIVE_BUFFER_BYTES);
}

/// A switch that sends packet-ins as fast as it can.
pub(crate) struct FloodingSwitch {
    peer: TestPeer,
    /// Encoded packet-ins.
    burst: Vec<u8>,
    /// Position in `burst`.
    at: usize,
    sent: usize,
}

impl FloodingSwitch {
    /// Datapath id as in labels.
    pub(crate) const DPID: &str = "0000000000000042";

    pub(crate) fn new<A: App + Send>(test: &TestEngine<A>) -> Self {
        let mut peer = TestPeer::connect_switch(test.addr, Version::V1_3, 0x42);
        peer.expect_reply();
        let recv_buffer = Some(RECEIVE_BUFFER_BYTES);
        let options = sock::Options { recv_buffer, ..sock::Options::default() };
        options.apply(&peer.stream).unwrap();
        peer.stream.set_nonblocking(true).unwrap();
        let burst = bytes(Version::V1_3, &broadcast(None)).repeat(500);
        Self { peer, burst, at: 0, sent: 0 }
    }

    /// Sends until the connection takes no more; returns false if it is closed.
    fn flood(&mut self) -> bool {
        loop {
            match self.peer.stream.write(&self.burst[self.at..]) {
                Ok(n) => {
                    self.at = (self.at + n) % self.burst.len();
                    self.sent += n;
                    assert!(self.sent < IN_KERNEL_MAX, "the engine reads despite the backlog");
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Sends until the engine has stopped reading.
    pub(crate) fn flood_until_paused(&mut self, test: &TestEngine) {
        self.sent = 0;
        wait_until("a full backlog", || {
            assert!(self.flood(), "connection closed");
            // The kernel may take some of the backlog after reading has stopped. Below half of the limit, reading would resume.
            test.metric("backlog_bytes", "") > BACKLOG_MAX as u64 / 2
        });
        let mut sent = 0;
        while self.flood() && std::mem::replace(&mut sent, self.sent) != self.sent {}
    }

    /// Reads about `bytes` bytes, or what there is.
    pub(crate) fn read(&mut self, bytes: usize) -> usize {
        let (mut received, mut buffer) = (0, [0; 4096]);
        while received < bytes {
            match self.peer.stream.read(&mut buffer) {
                Ok(n) if n > 0 => received += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                closed => panic!("connection closed: {closed:?}"),
            }
        }
        received
    }
}

#[test]
fn a_switch_that_reads_nothing_is_paused_and_then_disconnected() {
    for (run_to_completion, threads) in [(true, 1), (false, 3)] {
        let test = TestEngine::new(|cfg| {
            small_limits(cfg);
            (cfg.workers.run_to_completion, cfg.workers.threads) = (run_to_completion, threads);
            // Long before it would count as lagging, and be read again, on a busy machine as well.
            cfg.limits.stuck_timeout = Duration::from_millis(500);
        });
        let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
        let mut stuck = FloodingSwitch::new(&test);
        while stuck.flood() {
            let backlog = test.metric("backlog_bytes", "");
            assert!(backlog <= BACKLOG_WITH_REPLIES_MAX, "backlog of {backlog} bytes");
            good.expect_reply();
        }
        test.expect_closed(1, "send_timeout");
        wait_until("an empty backlog", || test.metric("backlog_bytes", "") == 0);
        good.expect_reply();
    }
}

/// Its echo reply may be among the unread messages.
#[test]
fn the_echo_timeout_does_not_apply_to_a_paused_switch() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.session.echo_interval = Duration::from_millis(100);
        cfg.session.echo_timeout = Duration::from_millis(100);
    });
    let mut stuck = FloodingSwitch::new(&test);
    while stuck.flood() {
        std::thread::yield_now();
    }
    test.expect_closed(1, "send_timeout");
}

#[test]
fn a_slow_switch_does_not_delay_others() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
    });
    let mut good = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
    let mut slow = FloodingSwitch::new(&test);
    slow.flood_until_paused(&test);
    for _ in 0..20 {
        slow.read(16 << 10);
        good.expect_reply();
    }
}

#[test]
fn reading_resumes_when_the_backlog_has_drained() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
    });
    let mut slow = FloodingSwitch::new(&test);
    for _ in 0..3 {
        slow.flood_until_paused(&test);
        wait_until("an empty backlog", || {
            slow.read(usize::MAX);
            test.metric("backlog_bytes", "") == 0
        });
    }
    assert_eq!(test.closed(""), 0);
}

#[test]
fn a_backlog_of_the_handshake_is_sent_by_the_worker() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
        cfg.limits.handshake_bytes_max = IN_KERNEL_MAX;
        cfg.limits.backlog_bytes_max = IN_KERNEL_MAX;
    });
    let mut slow = TestPeer::connect(test.addr);
    let xid = slow.exchange_hello(Version::V1_0);
    let payload = vec![7; 50_000];
    for _ in 0..40 {
        slow.send(&echo_request(&payload));
    }
    let mut features = [[1, 6, 0, 32], xid.to_be_bytes()].concat();
    features.resize(32, 0);
    slow.send_bytes(&features);
    wait_until("the switch to connect", || test.metric("switches_connected", "1.0") == 1);
    wait_until("a backlog", || test.metric("backlog_bytes", "") > 0);
    let mut replies = 0;
    while replies < 40 {
        match slow.receive().unwrap() {
            Message::EchoReply { data } => {
                assert!(data == payload);
                replies += 1;
            }
            Message::SetConfig(_) | Message::FlowMod(_) => {}
            other => panic!("{other:?}"),
        }
    }
    slow.expect_reply();
    wait_until("an empty backlog", || test.metric("backlog_bytes", "") == 0);
}

#[test]
fn bytes_of_a_backlog_of_the_handshake_are_counted() {
    let test = TestEngine::new(|cfg| {
        small_limits(cfg);
        cfg.limits.handshake_bytes_max = IN_KERNEL_MAX;
        cfg.limits.backlog_bytes_max = IN_KERNEL_MAX;
    });
    let mut slow = TestPeer::connect(test.addr);
    slow.exchange_hello(Version::V1_0);
    let request = echo_request(&vec![7; 50_000]);
    for _ in 0..40 {
        slow.send(&request);
    }
    let mut replies = 0;
    while replies < 40 {
        let message = slow.receive().unwrap();
        replies += u32::from(matches!(message, Message::EchoReply { .. }));
    }
    wait_until("all bytes to be counted", || test.metric("sent_bytes", "") == slow.received_bytes);
}

/// `learning`, and a counter of link probes.
struct ProbeCounter(Learning, Arc<AtomicU64>);

impl App for ProbeCounter {
    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.on_switch_connected(features, ctx);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        self.1.fetch_add(is_link_probe(p.frame).into(), Relaxed);
        self.0.on_packet_in(p, ctx)
    }
}

/// The switch is read, but only link probes and echo requests are processed.
#[test]
fn packet_ins_of_a_slow_switch_are_shed_until_its_backlog_has_drained() {
    let probes = Arc::new(AtomicU64::default());
    let counted = probes.clone();
    let test = TestEngine::with_app(
        |cfg| {
            small_limits(cfg);
            cfg.limits.stuck_timeout = Duration::from_secs(60);
            cfg.limits.unread_max = Duration::from_millis(100);
        },
        move || ProbeCounter(Learning::default(), counted.clone()),
    );
    let mut slow = FloodingSwitch::new(&test);
    slow.burst.extend(bytes(Version::V1_3, &lldp()));
    let (mut bursts, mut probes_while_shedding, end) = (0, 0, clock::now() + TIMEOUT);
    while probes_while_shedding < 10 || slow.at > 0 {
        assert!(
            clock::now() < end,
            "only {probes_while_shedding} link probes received while packet-ins were shed"
        );
        let (shed_before, probes_before) =
            (test.metric("packet_ins_shed", ""), probes.load(Relaxed));
        let chunk = slow.at..slow.burst.len().min(slow.at + (32 << 10));
        match slow.peer.stream.write(&slow.burst[chunk]) {
            Ok(n) => slow.at += n,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if slow.at == slow.burst.len() {
            (slow.at, bursts) = (0, bursts + 1);
        }
        slow.read(4 << 10);
        clock::sleep(Duration::from_millis(1));
        let backlog = test.metric("backlog_bytes", "");
        assert!(
            backlog <= BACKLOG_WITH_REPLIES_MAX + BACKLOG_MAX as u64,
            "backlog of {backlog} bytes"
        );
        if test.metric("packet_ins_shed", "") > shed_before {
            probes_while_shedding += probes.load(Relaxed) - probes_before;
        }
    }
    // Each burst has 500 packet-ins and a link probe; one packet-in was sent before.
    wait_until("all messages to be received and the backlog to drain", || {
        slow.read(usize::MAX);
        let received = test.metric("messages_received", "PACKET_IN");
        received == bursts * 501 + 1 && test.metric("backlog_bytes", "") == 0
    });
    slow.read(usize::MAX);
    let shed = test.metric("packet_ins_shed", "");
    slow.peer.stream.set_nonblocking(false).unwrap();
    slow.peer.expect_reply();
    assert_eq!((test.metric("packet_ins_shed", ""), test.closed("")), (shed, 0));
    assert!(shed > 0);
    assert_eq!(test.metric("switch_packet_ins_shed", FloodingSwitch::DPID), shed);
}
