//! The program answers packet-ins between ends of paths one at a time, reports each, and leaves what may be about addresses, and pairs of hosts
//! whose flow entries are in flight, to the worker.

use std::io::Write;
use std::time::Duration;

use sluice_io::{Epoll, Io, WaitStrategy, clock};
use sluice_kernel::{Closed, KernelAnswers, Limits, Report, Session, WorkerAnswers};
use sluice_openflow::Version;

use crate::switch::{Forms, Peer, answers, packet_in, packet_in_of, path_answer};

const LIMITS: Limits = Limits {
    workers: 2,
    sessions: 100,
    hosts_per_worker: 1000,
    input_bytes: 16 << 10,
    late: None,
    paths: true,
};

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_3, Version::V1_4];

/// Bits of an entry: an address of the family is known.
const IPV4: u16 = 0x8000;
const IPV6: u16 = 0x4000;

const HOUR: Duration = Duration::from_secs(3600);

/// An address.
fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// A connection, and its session with ends of paths at the ports of the same number.
struct Connection {
    worker: WorkerAnswers,
    peer: Peer,
    session: Session,
    version: Version,
}

impl Connection {
    fn new(program: &KernelAnswers, version: Version, hold_time: Duration) -> Self {
        let mut worker = program.worker(1).unwrap();
        let peer = Peer::new();
        let mut session = worker.attach(&peer.controller).unwrap();
        session.set_form(&Forms::new(version).path_form(hold_time));
        for (host, families) in [(1, IPV4 | IPV6), (2, IPV4), (3, 0)] {
            let entry = families | u16::from(host);
            assert!(worker.publish_path_host(&mut session, mac(host), entry));
        }
        session.open(100);
        Self { worker, peer, session, version }
    }

    /// Sends what goes to the worker, which then opens the gate again.
    fn expect_passed(&mut self, bytes: &[u8], what: &str) {
        self.peer.switch.write_all(bytes).unwrap();
        assert_eq!(self.peer.read_up(bytes.len()), bytes, "{} {what}", self.version);
        self.session.count_received(bytes.len());
        let Closed::WasOpen(xid) = self.session.close() else { panic!("the gate was open") };
        assert_eq!(self.worker.next_report(), None, "{} {what}", self.version);
        self.session.open(xid);
    }

    /// Sends a packet-in from host 1 to host 2 that the program answers.
    fn answer(&mut self, xid: u32, buffer_id: Option<u32>) {
        let hosts = (mac(1), mac(2));
        self.peer.switch.write_all(&packet_in(self.version, hosts, 1, buffer_id)).unwrap();
        let expected = path_answer(self.version, xid, (hosts, [1, 2], buffer_id));
        assert_eq!(self.peer.receive(expected.len()), expected, "{}", self.version);
    }

    /// The same, and the program reports it.
    fn expect_answered(&mut self, xid: u32, buffer_id: Option<u32>) {
        let before = clock::now();
        self.answer(xid, buffer_id);
        let Report { slot, src, dst, at } = self.worker.next_report().unwrap();
        assert_eq!((slot, src, dst), (self.session.slot(), mac(1), mac(2)));
        // The time in the form of a worker may be earlier by as much as its two readings of the clock are apart.
        let apart = Duration::from_secs(1);
        assert!(before <= at + apart && at <= clock::now());
        assert_eq!(self.worker.next_report(), None);
    }
}

#[test]
fn ordinary_packets_between_ends_of_paths_are_answered_and_reported() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    for version in VERSIONS {
        for buffer_id in [None, Some(5)] {
            let mut connection = Connection::new(&program, version, Duration::ZERO);
            let step = 2 + u32::from(buffer_id.is_none());
            connection.expect_answered(100, buffer_id);
            connection.expect_answered(100 + step, buffer_id);
            let known = packet_in(version, (mac(1), mac(2)), 1, buffer_id);
            connection.expect_passed(&known.repeat(2), "two at once");
            for (hosts, in_port) in [
                ((mac(3), mac(2)), 3),
                ((mac(1), mac(2)), 2),
                ((mac(1), mac(1)), 1),
                ((mac(1), mac(9)), 1),
                ((mac(9), mac(1)), 1),
            ] {
                let other = packet_in(version, hosts, in_port, buffer_id);
                connection.expect_passed(&other, &format!("{hosts:?} at {in_port}"));
            }
            connection.expect_answered(100 + 2 * step, buffer_id);
            let answered = connection.session.answered();
            assert_eq!(answered.packet_ins, 3);
            assert_eq!(answered.received_bytes, 3 * known.len() as u64);
            assert!(!connection.session.has_failed());
        }
    }
}

/// The same as `frames_that_may_be_about_addresses_are_not_ordinary` of `sluice_sdk`.
#[test]
fn packets_that_may_be_about_addresses_go_to_the_worker() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let frame = |hosts: (u8, u8), rest: &[u8], len: usize| {
        let mut frame = [&mac(hosts.1)[..], &mac(hosts.0), rest].concat();
        frame.resize(len, 0);
        frame
    };
    let ipv4 = |first: u8, protocol: u8, ports: [u8; 4]| {
        let start = [8, 0, first, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
        [&start[..], &[10, 0, 0, 1, 10, 0, 0, 2], &ports].concat()
    };
    let ipv6 = |next_header: u8| vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next_header, 64];
    let passed = [
        ("DHCP", frame((1, 2), &ipv4(0x45, 17, [0, 67, 0, 68]), 60)),
        ("IPv4 options", frame((1, 2), &ipv4(0x46, 6, [0; 4]), 60)),
        ("ICMPv6", frame((1, 2), &ipv6(58), 60)),
        ("ARP", frame((1, 2), &[8, 6], 60)),
        ("another type", frame((1, 2), &[0x55, 0x55], 60)),
        ("a tag", frame((1, 2), &[0x81, 0, 0, 0, 8, 0, 0x45], 60)),
        ("a short frame", frame((1, 2), &ipv4(0x45, 6, [0; 4]), 37)),
    ];
    let answered = [
        ("TCP", frame((1, 2), &ipv4(0x45, 6, [0, 67, 0, 68]), 60)),
        ("UDP", frame((1, 2), &ipv4(0x45, 17, [0, 67, 0, 69]), 60)),
        ("IPv6", frame((1, 2), &ipv6(6), 60)),
        ("the shortest frame", frame((1, 2), &ipv4(0x45, 6, [0; 4]), 38)),
    ];
    for version in VERSIONS {
        let mut connection = Connection::new(&program, version, Duration::ZERO);
        for (what, frame) in &passed {
            connection.expect_passed(&packet_in_of(version, frame, 1, None), what);
        }
        let from_ipv4_only = frame((2, 1), &ipv6(6), 60);
        connection.expect_passed(&packet_in_of(version, &from_ipv4_only, 2, None), "no address");
        for (what, frame) in &answered {
            let bytes = packet_in_of(version, frame, 1, Some(7));
            connection.peer.switch.write_all(&bytes).unwrap();
            let len = path_answer(version, 0, ((mac(1), mac(2)), [1, 2], Some(7))).len();
            connection.peer.receive(len);
            assert!(connection.worker.next_report().is_some(), "{version} {what}");
        }
    }
}

#[test]
fn packets_between_held_hosts_go_to_the_worker_in_both_directions() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    for version in VERSIONS {
        let mut connection = Connection::new(&program, version, HOUR);
        let pair = [mac(2), mac(1)];
        // Until a time that has passed.
        connection.worker.hold(pair, clock::now());
        let [there, back] = [((mac(1), mac(2)), 1), ((mac(2), mac(1)), 2)]
            .map(|(hosts, port)| packet_in(version, hosts, port, None));
        if version == VERSIONS[0] {
            connection.expect_answered(100, None);
        }
        // The program has held them itself, and those of the versions that follow.
        connection.expect_passed(&there, "the same again");
        connection.expect_passed(&back, "the reply");
    }
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut connection = Connection::new(&program, Version::V1_3, Duration::from_nanos(1));
    connection.expect_answered(100, None);
    connection.expect_answered(103, None);
    connection.worker.hold([mac(1), mac(2)], clock::now() + HOUR);
    connection.worker.hold([mac(1), mac(2)], clock::now());
    let again = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
    connection.expect_passed(&again, "the later time counts");
}

/// More than the buffer has room for.
#[test]
fn what_cannot_be_reported_goes_to_the_worker() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut connection = Connection::new(&program, Version::V1_3, Duration::ZERO);
    let message = packet_in(Version::V1_3, (mac(1), mac(2)), 1, Some(5));
    let len = path_answer(Version::V1_3, 0, ((mac(1), mac(2)), [1, 2], Some(5))).len();
    let mut answered = 0;
    while connection.session.unread_bytes() == 0 {
        connection.peer.switch.write_all(&message).unwrap();
        while connection.session.answered().packet_ins == answered
            && connection.session.unread_bytes() == 0
        {
            std::thread::yield_now();
        }
        if connection.session.answered().packet_ins > answered {
            answered += 1;
            connection.peer.receive(len);
        }
        assert!(answered < 1_000_000, "bounded by the buffer");
    }
    assert!(answered > 8000, "{answered}");
    assert_eq!(connection.peer.read_up(message.len()), message);
    let reports = std::iter::from_fn(|| connection.worker.next_report()).count() as u64;
    assert_eq!(reports, answered);
}

/// It is not woken for each, and before there is no room for further ones.
#[test]
fn a_worker_that_sleeps_is_woken_when_many_reports_wait() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut connection = Connection::new(&program, Version::V1_3, Duration::ZERO);
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    io.wake_once_by(connection.worker.reports()).unwrap();
    let mut is_woken = |deadline| {
        io.wait(Some(deadline)).unwrap();
        std::iter::from_fn(|| io.next_event().map(drop)).count() > 0
    };
    // Each answer takes two transaction ids.
    for n in 0..1024 {
        connection.answer(100 + 2 * n, Some(5));
    }
    assert!(!is_woken(clock::now()));
    connection.answer(100 + 2 * 1024, Some(5));
    assert!(is_woken(clock::now() + HOUR));
    assert_eq!(std::iter::from_fn(|| connection.worker.next_report()).count(), 1025);
    connection.answer(100 + 2 * 1025, Some(5));
    assert!(!is_woken(clock::now()), "a few reports wait until the worker wakes up by itself");
}

/// A session with the other rule reports nothing.
#[test]
fn a_session_can_change_to_another_rule() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut connection = Connection::new(&program, Version::V1_3, Duration::ZERO);
    connection.expect_answered(100, None);
    assert_eq!(connection.session.close(), Closed::WasOpen(103));
    connection.worker.withdraw_all(&mut connection.session);
    connection.session.set_form(&Forms::new(Version::V1_3).form(10));
    for host in [1, 2] {
        assert!(connection.worker.publish(&mut connection.session, mac(host), host.into(), 0));
    }
    connection.session.open(103);
    let one = ((mac(1), mac(2)), [1, 2], None);
    let message = packet_in(Version::V1_3, one.0, 1, None);
    connection.peer.switch.write_all(&message.repeat(2)).unwrap();
    let expected = answers(Version::V1_3, 103, &[one; 2]);
    assert_eq!(connection.peer.receive(expected.len()), expected);
    assert_eq!(connection.worker.next_report(), None);
}
