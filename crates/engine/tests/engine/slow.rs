//! Switches that do not take their answers.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_engine::Config;
use sluice_io::{READ_BYTES_MAX, clock};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Message, SwitchFeatures, Version};
use sluice_sdk::{App, Ctx, Verdict, is_link_probe};

use crate::lab::{Lab, SOON, wait_until};
use crate::peer::{Peer, broadcast, bytes, echo_request, lldp};

/// So small that a test gets there soon.
const BACKLOG_MAX: usize = 64 << 10;

/// What may wait: the limit, and the answers to one read. An answer to a frame of 64 bytes is less than twice as
/// long as what brought the frame.
const WAITING_MAX: u64 = (BACKLOG_MAX + 2 * READ_BYTES_MAX) as u64;

/// What the kernel may hold for a connection in either direction before nobody can send any more, generously.
const IN_KERNEL_MAX: usize = 16 << 20;

fn slow(cfg: &mut Config) {
    cfg.limits.backlog_bytes_max = BACKLOG_MAX;
    cfg.limits.stuck_timeout = Duration::from_millis(1500);
    cfg.socket.send_buffer = Some(16 << 10);
}

/// A switch that asks and asks.
struct Greedy {
    peer: Peer,
    /// Many frames.
    burst: Vec<u8>,
    /// How far in them it is.
    at: usize,
    poured: usize,
}

impl Greedy {
    fn new<A: App>(lab: &Lab<A>) -> Self {
        let mut peer = Peer::switch(lab.addr, Version::V1_3, 66);
        peer.must_be_answered();
        peer.stream.set_nonblocking(true).unwrap();
        let burst = bytes(Version::V1_3, &broadcast(None)).repeat(500);
        Self { peer, burst, at: 0, poured: 0 }
    }

    /// Asks as often as the engine takes it; false if that has hung up.
    fn pour(&mut self) -> bool {
        loop {
            match self.peer.stream.write(&self.burst[self.at..]) {
                Ok(n) => {
                    self.at = (self.at + n) % self.burst.len();
                    self.poured += n;
                    assert!(self.poured < IN_KERNEL_MAX, "it is read from, and takes nothing");
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Asks until nothing is taken any more.
    fn pour_until_full(&mut self, lab: &Lab) {
        wait_until("a full backlog", || {
            assert!(self.pour(), "hung up on");
            // The kernel may take some after the reading has stopped; below half, it would go on.
            lab.count("backlog_bytes", "") > BACKLOG_MAX as u64 / 2
        });
        let mut poured = 0;
        while self.pour() && std::mem::replace(&mut poured, self.poured) != self.poured {}
    }

    /// Takes about so many bytes of what waits for it.
    fn take(&mut self, bytes: usize) -> usize {
        let (mut taken, mut piece) = (0, [0; 4096]);
        while taken < bytes {
            match self.peer.stream.read(&mut piece) {
                Ok(n) if n > 0 => taken += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                ended => panic!("hung up on: {ended:?}"),
            }
        }
        taken
    }
}

#[test]
fn one_that_takes_nothing_is_read_from_no_more_and_then_dropped() {
    let lab = Lab::new(slow);
    let mut good = Peer::switch(lab.addr, Version::V1_3, 1);
    let mut stuck = Greedy::new(&lab);
    while stuck.pour() {
        let waiting = lab.count("backlog_bytes", "");
        assert!(waiting <= WAITING_MAX, "{waiting} bytes wait");
        good.must_be_answered();
    }
    lab.must_end(1, "send_timeout");
    wait_until("nothing to wait", || lab.count("backlog_bytes", "") == 0);
    good.must_be_answered();
}

/// It is the engine that does not listen then: the echo reply may be among what it has not read.
#[test]
fn one_that_is_not_read_from_is_not_called_silent() {
    let lab = Lab::new(|cfg| {
        slow(cfg);
        cfg.session.echo_interval = Duration::from_millis(100);
        cfg.session.echo_timeout = Duration::from_millis(100);
    });
    let mut stuck = Greedy::new(&lab);
    while stuck.pour() {
        std::thread::yield_now();
    }
    lab.must_end(1, "send_timeout");
}

#[test]
fn one_that_takes_some_and_stops_holds_up_nobody() {
    let lab = Lab::new(|cfg| {
        slow(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
    });
    let mut good = Peer::switch(lab.addr, Version::V1_3, 1);
    let mut slow = Greedy::new(&lab);
    slow.pour_until_full(&lab);
    for _ in 0..20 {
        slow.take(16 << 10);
        good.must_be_answered();
    }
}

#[test]
fn one_that_catches_up_is_read_from_again() {
    let lab = Lab::new(|cfg| {
        slow(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
    });
    let mut slow = Greedy::new(&lab);
    for _ in 0..3 {
        slow.pour_until_full(&lab);
        wait_until("all to be taken", || {
            slow.take(usize::MAX);
            lab.count("backlog_bytes", "") == 0
        });
    }
    assert_eq!(lab.ended(""), 0);
}

/// What its proof was held up by is still sent to it when it has a worker.
#[test]
fn one_with_a_backlog_at_its_proof_is_served() {
    let lab = Lab::new(|cfg| {
        slow(cfg);
        cfg.limits.stuck_timeout = Duration::from_secs(60);
        cfg.limits.handshake_bytes_max = IN_KERNEL_MAX;
        cfg.limits.backlog_bytes_max = IN_KERNEL_MAX;
    });
    let mut slow = Peer::connect(lab.addr);
    let xid = slow.greet(Version::V1_0);
    let payload = vec![7; 50_000];
    for _ in 0..40 {
        slow.say(&echo_request(&payload));
    }
    let [.., xid] = xid.to_be_bytes();
    let mut features = vec![1, 6, 0, 32, 0, 0, 0, xid];
    features.resize(32, 0);
    slow.send(&features);
    wait_until("a session", || lab.count("switches_connected", "1.0") == 1);
    wait_until("bytes to wait", || lab.count("backlog_bytes", "") > 0);
    let mut replies = 0;
    while replies < 40 {
        match slow.hear().unwrap() {
            Message::EchoReply { data } => {
                assert!(data == payload);
                replies += 1;
            }
            Message::SetConfig(_) | Message::FlowMod(_) => {}
            _ => panic!("not asked for"),
        }
    }
    slow.must_be_answered();
    wait_until("nothing to wait", || lab.count("backlog_bytes", "") == 0);
}

/// A learning bridge that counts the frames that show links.
struct Counting(Learning, Arc<AtomicU64>);

impl App for Counting {
    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.on_switch_connected(features, ctx);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        self.1.fetch_add(is_link_probe(p.frame).into(), Relaxed);
        self.0.on_packet_in(p, ctx)
    }
}

/// It is read from all the same, but only what shows links and whether it lives is answered.
#[test]
fn one_that_takes_too_little_has_frames_left_out_until_it_has_caught_up() {
    let probes = Arc::new(AtomicU64::default());
    let counted = probes.clone();
    let lab = Lab::with(
        |cfg| {
            slow(cfg);
            cfg.limits.stuck_timeout = Duration::from_secs(60);
            cfg.limits.unread_max = Duration::from_millis(100);
        },
        move || Counting(Learning::default(), counted.clone()),
    );
    let mut slow = Greedy::new(&lab);
    slow.burst.extend(bytes(Version::V1_3, &lldp()));
    let (mut bursts, mut heard_late, end) = (0, 0, clock::now() + SOON);
    while heard_late < 10 || slow.at > 0 {
        assert!(clock::now() < end, "{heard_late} probes were heard while frames were left out");
        let (left_out, heard) = (lab.count("packet_ins_shed", ""), probes.load(Relaxed));
        let piece = slow.at..slow.burst.len().min(slow.at + (32 << 10));
        match slow.peer.stream.write(&slow.burst[piece]) {
            Ok(n) => slow.at += n,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if slow.at == slow.burst.len() {
            (slow.at, bursts) = (0, bursts + 1);
        }
        slow.take(4 << 10);
        clock::sleep(Duration::from_millis(1));
        let waiting = lab.count("backlog_bytes", "");
        assert!(waiting <= WAITING_MAX + BACKLOG_MAX as u64, "{waiting} bytes wait");
        if lab.count("packet_ins_shed", "") > left_out {
            heard_late += probes.load(Relaxed) - heard;
        }
    }
    // 500 frames and a probe each; one frame was answered at its beginning.
    wait_until("all to be heard and taken", || {
        slow.take(usize::MAX);
        let heard = lab.count("messages_received", "PACKET_IN");
        heard == bursts * 501 + 1 && lab.count("backlog_bytes", "") == 0
    });
    slow.take(usize::MAX);
    let left_out = lab.count("packet_ins_shed", "");
    slow.peer.stream.set_nonblocking(false).unwrap();
    slow.peer.must_be_answered();
    assert_eq!((lab.count("packet_ins_shed", ""), lab.ended("")), (left_out, 0));
}
