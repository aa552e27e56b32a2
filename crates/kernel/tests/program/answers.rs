//! The program answers packet-ins between published hosts on real connections, and passes everything else.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use sluice_io::poll::wait_readable;
use sluice_io::sock;
use sluice_kernel::{Closed, KernelAnswers, Limits, RelayQueue, Session, Waits, WorkerAnswers};
use sluice_openflow::Version;

use crate::switch::{Forms, Peer, answers, packet_in};

const LIMITS: Limits = Limits {
    workers: 2,
    sessions: 100,
    hosts_per_worker: 1000,
    input_bytes: 16 << 10,
    late: None,
    paths: false,
};

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_3, Version::V1_4];

/// An address.
fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Publishes host 1 at port 1 and host 2 at port 2.
fn publish_two(worker: &mut WorkerAnswers, session: &mut Session) {
    for (host, port) in [(1, 1), (2, 2)] {
        assert!(worker.publish(session, mac(host), port, 0));
    }
}

/// The tick at which a published host was last seen, by the worker or by the program.
fn last_seen(worker: &WorkerAnswers, session: &Session, mac: [u8; 6]) -> Option<u16> {
    let mut found = None;
    worker.for_each_seen(0, |slot, host, seen| {
        if slot == session.slot() && host == mac {
            found = Some(seen);
        }
    });
    found
}

#[test]
fn packet_ins_between_published_hosts_are_answered_and_the_others_are_passed() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut worker = program.worker(0).unwrap();
    worker.set_tick(7);
    for version in VERSIONS {
        for buffer_id in [None, Some(5)] {
            let forms = Forms::new(version);
            let mut peer = Peer::new();
            // With which a connection over Ethernet begins; the kernel doubles it.
            let send_buffer = Some(23_040);
            let options = sock::Options { send_buffer, ..sock::Options::default() };
            options.apply(&peer.controller).unwrap();
            let mut session = worker.attach(&peer.controller).unwrap();
            session.set_form(&forms.form(10));
            for (n, port) in [(1, 1), (2, 2)] {
                assert!(worker.publish(&mut session, mac(n), port, 0));
            }
            assert!(worker.publish(&mut session, mac(4), 1, 60_000), "a host that has expired");
            session.open(100);

            let known = packet_in(version, (mac(1), mac(2)), 1, buffer_id);
            peer.switch.write_all(&known).unwrap();
            let expected = answers(version, 100, &[((mac(1), mac(2)), [1, 2], buffer_id)]);
            assert_eq!(peer.receive(expected.len()), expected, "{version}");
            assert_eq!(session.answered().packet_ins, 1);
            assert_eq!(last_seen(&worker, &session, mac(1)), Some(7));
            assert_eq!(last_seen(&worker, &session, mac(2)), Some(0));

            let unknown = packet_in(version, (mac(1), mac(3)), 1, buffer_id);
            peer.switch.write_all(&unknown).unwrap();
            assert_eq!(peer.read_up(unknown.len()), unknown);
            let mut received = unknown.len();
            for (hosts, in_port) in [
                ((mac(4), mac(2)), 1),
                ((mac(2), mac(4)), 2),
                ((mac(1), mac(2)), 3),
                ((mac(1), mac(1)), 1),
                ((mac(1), [0xff; 6]), 1),
            ] {
                session.count_received(received);
                assert!(matches!(session.close(), Closed::WasOpen(_)));
                session.open(101 + u32::from(buffer_id.is_none()));
                let other = packet_in(version, hosts, in_port, buffer_id);
                peer.switch.write_all(&other).unwrap();
                assert_eq!(peer.read_up(other.len()), other, "{version} {hosts:?}");
                received = other.len();
            }
            // Something waits for the worker.
            peer.switch.write_all(&known).unwrap();
            assert_eq!(peer.read_up(known.len()), known);
            session.count_received(received + known.len());
            let next = 100 + u32::from(buffer_id.is_none()) + 1;
            assert_eq!(session.close(), Closed::WasOpen(next));
            assert_eq!(session.close(), Closed::WasClosed);
            peer.switch.write_all(&known).unwrap();
            assert_eq!(peer.read_up(known.len()), known);
            session.count_received(known.len());
            session.open(200);
            peer.switch.write_all(&known.repeat(3)).unwrap();
            let one = ((mac(1), mac(2)), [1, 2], buffer_id);
            let expected = answers(version, 200, &[one; 3]);
            assert_eq!(peer.receive(expected.len()), expected, "{version}");
            assert!(!session.has_failed());
        }
    }
}

#[test]
fn messages_that_are_split_anywhere_arrive_in_order() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut worker = program.worker(1).unwrap();
    let (version, forms) = (Version::V1_3, Forms::new(Version::V1_3));
    let mut peer = Peer::new();
    let mut session = worker.attach(&peer.controller).unwrap();
    session.set_form(&forms.form(10));
    publish_two(&mut worker, &mut session);
    session.open(1);
    let message = packet_in(version, (mac(1), mac(2)), 1, None);
    let (mut answered, mut next) = (0, 1);
    for at in 1..message.len() {
        peer.switch.write_all(&message[..at]).unwrap();
        assert_eq!(peer.read_up(at), message[..at]);
        session.count_received(at);
        peer.switch.write_all(&message[at..]).unwrap();
        assert_eq!(peer.read_up(message.len() - at), message[at..]);
        session.count_received(message.len() - at);
        assert_eq!(session.close(), Closed::WasOpen(next));
        assert_eq!(session.answered().packet_ins, answered);
        session.open(next);
        peer.switch.write_all(&message).unwrap();
        let expected = answers(version, next, &[((mac(1), mac(2)), [1, 2], None)]);
        assert_eq!(peer.receive(expected.len()), expected);
        (answered, next) = (answered + 1, next + 2);
    }
}

#[test]
fn what_was_received_before_the_connection_was_attached_is_not_lost() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut worker = program.worker(0).unwrap();
    let forms = Forms::new(Version::V1_3);
    let mut peer = Peer::new();
    let message = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
    peer.switch.write_all(&message).unwrap();
    peer.await_unread(message.len());
    let mut session = worker.attach(&peer.controller).unwrap();
    session.set_form(&forms.form(10));
    assert_eq!(peer.read_up(message.len()), message);
    session.count_received(message.len());
    publish_two(&mut worker, &mut session);
    session.open(1);
    peer.switch.write_all(&message).unwrap();
    assert_eq!(peer.receive(8)[..2], [4, 14]);
}

#[test]
fn a_switch_that_does_not_read_gets_back_pressure_and_every_answer() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut worker = program.worker(0).unwrap();
    let forms = Forms::new(Version::V1_3);
    let mut peer = Peer::new();
    let mut session = worker.attach(&peer.controller).unwrap();
    session.set_form(&forms.form(10));
    publish_two(&mut worker, &mut session);
    session.open(1);
    let message = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
    let one = answers(Version::V1_3, 1, &[((mac(1), mac(2)), [1, 2], None)]);
    // Until a message goes to the worker, since the answers before it fill the buffers of both ends.
    let mut sent = 0;
    while session.unread_bytes() == 0 {
        peer.switch.write_all(&message).unwrap();
        sent += 1;
        let is_seen = || session.answered().packet_ins == sent || session.unread_bytes() > 0;
        while !is_seen() {
            sluice_io::clock::sleep(Duration::from_micros(10));
        }
        assert!(sent < 1_000_000, "bounded by the buffers of both ends");
    }
    let answered = session.answered();
    assert_eq!(answered.packet_ins, sent - 1);
    assert_eq!(answered.received_bytes, answered.packet_ins * message.len() as u64);
    assert_eq!(answered.sent_bytes, answered.packet_ins * one.len() as u64);
    assert!(matches!(session.close(), Closed::WasOpen(_)));
    assert!(!session.are_answers_sent(&peer.controller).unwrap());
    let received = peer.receive(usize::try_from(answered.sent_bytes).unwrap());
    assert_eq!(received[..one.len()], one);
    while !session.are_answers_sent(&peer.controller).unwrap() {
        sluice_io::clock::sleep(Duration::from_millis(1));
    }
    assert_eq!(peer.read_up(message.len()), message);
}

/// The answers to a buffer are longer than the buffer. Either all of it is answered or nothing.
#[test]
fn a_buffer_of_any_length_is_answered_or_passed() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let mut worker = program.worker(0).unwrap();
    for version in VERSIONS {
        let forms = Forms::new(version);
        let mut peer = Peer::new();
        let mut session = worker.attach(&peer.controller).unwrap();
        session.set_form(&forms.form(10));
        publish_two(&mut worker, &mut session);
        let message = packet_in(version, (mac(1), mac(2)), 1, None);
        let one = answers(version, 1, &[((mac(1), mac(2)), [1, 2], None)]).len();
        let (mut before, mut answered_whole, mut passed_whole) = (session.answered(), 0, 0);
        for count in 50..=120 {
            session.open(1);
            let burst = message.repeat(count);
            peer.switch.write_all(&burst).unwrap();
            let received = || session.answered().received_bytes - before.received_bytes;
            while received() + session.unread_bytes() < burst.len() as u64 {
                sluice_io::clock::sleep(Duration::from_micros(10));
            }
            session.close();
            let unread = usize::try_from(session.unread_bytes()).unwrap();
            assert_eq!(peer.read_up(unread), burst[burst.len() - unread..]);
            session.count_received(unread);
            let now = session.answered();
            let sent = usize::try_from(now.sent_bytes - before.sent_bytes).unwrap();
            assert_eq!(sent, (burst.len() - unread) / message.len() * one);
            peer.receive(sent);
            assert!(!session.has_failed(), "{version}, {count} packet-ins");
            answered_whole += usize::from(unread == 0);
            passed_whole += usize::from(unread == burst.len());
            before = now;
        }
        // Unless the kernel has split a buffer.
        assert!(answered_whole > 5 && passed_whole > 5, "{version}");
    }
}

#[test]
fn what_is_passed_is_announced_once_per_request() {
    let program = KernelAnswers::load(&LIMITS).unwrap();
    let [mut other, mut worker] = [0, 1].map(|number| program.worker(number).unwrap());
    let forms = Forms::new(Version::V1_3);
    let mut peer = Peer::new();
    let mut session = worker.attach(&peer.controller).unwrap();
    session.set_form(&forms.form(10));
    publish_two(&mut worker, &mut session);
    let known = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
    let unknown = packet_in(Version::V1_3, (mac(1), mac(3)), 1, None);
    let is_readable = |worker: &WorkerAnswers| {
        let deadline = sluice_io::clock::now() + Duration::from_millis(30);
        wait_readable([worker.as_fd()], Some(deadline)).unwrap() == [true]
    };
    for round in 1..=5 {
        session.open(2 * round);
        session.request_announcement();
        peer.switch.write_all(&known).unwrap();
        let expected = answers(Version::V1_3, 2 * round, &[((mac(1), mac(2)), [1, 2], None)]);
        assert_eq!(peer.receive(expected.len()), expected);
        assert!(!is_readable(&worker), "what is answered is not announced");
        // The first is announced, the second has no request.
        for is_requested in [true, false] {
            peer.switch.write_all(&unknown).unwrap();
            assert_eq!(peer.read_up(unknown.len()), unknown);
            assert_eq!(is_readable(&worker), is_requested, "{round}");
            assert_eq!(worker.next_announced(), is_requested.then(|| session.slot()));
            assert_eq!(worker.next_announced(), None);
            session.count_received(unknown.len());
        }
        session.request_announcement();
        session.cancel_announcement();
        peer.switch.write_all(&unknown).unwrap();
        assert_eq!(peer.read_up(unknown.len()), unknown);
        session.count_received(unknown.len());
        assert!(!is_readable(&worker));
        session.close();
        assert!(!is_readable(&other));
        assert_eq!(other.next_announced(), None);
    }
}

#[test]
fn the_end_of_a_connection_is_seen_after_its_data_and_frees_its_slot() {
    let program = KernelAnswers::load(&Limits { sessions: 2, ..LIMITS }).unwrap();
    let mut worker = program.worker(0).unwrap();
    let forms = Forms::new(Version::V1_0);
    let message = packet_in(Version::V1_0, (mac(1), mac(2)), 1, None);
    for round in 0..20 {
        let mut peer = Peer::new();
        let mut session = worker.attach(&peer.controller).unwrap();
        session.set_form(&forms.form(10));
        assert_eq!(last_seen(&worker, &session, mac(1)), None, "of the session before");
        worker.publish(&mut session, mac(1), 1, 0);
        session.open(1);
        peer.switch.write_all(&message).unwrap();
        drop(peer.switch);
        let mut received = Vec::new();
        peer.controller.read_to_end(&mut received).unwrap();
        assert_eq!(received, message, "{round}");
        drop(peer.controller);
        drop(session);
    }
}

/// Attaches a connection as soon as there is a slot, which may have to wait for what the relay still has of the session before.
fn attach_when_free(worker: &mut WorkerAnswers, peer: &Peer) -> Session {
    let deadline = sluice_io::clock::now() + Duration::from_secs(20);
    loop {
        match worker.attach(&peer.controller) {
            Ok(session) => return session,
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
        }
        assert!(sluice_io::clock::now() < deadline, "no slot is freed");
        sluice_io::clock::sleep(Duration::from_micros(10));
    }
}

/// Sessions that end while the relay has answers for them: a session that begins in the same slot gets its own only.
#[test]
fn what_is_still_relayed_for_an_ended_session_keeps_its_slot_and_goes_to_no_other() {
    let program = KernelAnswers::load(&Limits { sessions: 1, ..LIMITS }).unwrap();
    let mut worker = program.worker(0).unwrap();
    let (version, forms) = (Version::V1_3, Forms::new(Version::V1_3));
    let known = packet_in(version, (mac(1), mac(2)), 1, None);
    let mut peers = Vec::new();
    for round in 1..=300 {
        let mut peer = Peer::new();
        let mut session = attach_when_free(&mut worker, &peer);
        session.set_form(&forms.form(10));
        publish_two(&mut worker, &mut session);
        session.open(1000 * round);
        peer.switch.write_all(&known).unwrap();
        let expected = answers(version, 1000 * round, &[((mac(1), mac(2)), [1, 2], None)]);
        assert_eq!(peer.receive(expected.len()), expected, "{round}");
        for _ in 0..10 {
            peer.switch.write_all(&known).unwrap();
        }
        while session.answered().packet_ins == 1 && session.unread_bytes() == 0 {
            std::hint::spin_loop();
        }
        drop(session);
        peers.push(peer);
    }
}

/// As when a worker panics: what it has in the program is dropped in any order, and its thread is gone.
#[test]
fn a_worker_that_ends_leaves_nothing_and_another_one_can_take_its_place() {
    let (version, forms) = (Version::V1_3, Forms::new(Version::V1_3));
    let known = packet_in(version, (mac(1), mac(2)), 1, None);
    let expected = answers(version, 1, &[((mac(1), mac(2)), [1, 2], None)]);
    let begin = |worker: &mut WorkerAnswers, peer: &mut Peer| {
        let mut session = worker.attach(&peer.controller).unwrap();
        session.set_form(&forms.form(10));
        assert_eq!(last_seen(worker, &session, mac(1)), None, "of an ended session");
        publish_two(worker, &mut session);
        session.open(1);
        peer.switch.write_all(&known).unwrap();
        assert_eq!(peer.receive(expected.len()), expected);
        session
    };
    for sessions_first in [true, false] {
        let program = KernelAnswers::load(&Limits { sessions: 2, ..LIMITS }).unwrap();
        let mut other = program.worker(1).unwrap();
        let mut peers = [Peer::new(), Peer::new()];
        let mut ended = program.worker(0).unwrap();
        let sessions = peers.each_mut().map(|peer| begin(&mut ended, peer));
        assert!(other.attach(&Peer::new().controller).is_err(), "all slots are used");
        if sessions_first {
            drop(sessions);
            drop(ended);
        } else {
            drop(ended);
            drop(sessions);
        }
        for peer in &mut peers {
            peer.switch.write_all(&known).unwrap();
            assert_eq!(peer.read_up(known.len()), known, "the kernel answers nothing any more");
        }
        // Their switches connect again, to a worker that runs.
        let mut peers = [Peer::new(), Peer::new()];
        drop(peers.each_mut().map(|peer| begin(&mut other, peer)));
        // And to a worker in its place.
        let mut again = program.worker(0).unwrap();
        other.attach(&Peer::new().controller).map(drop).unwrap();
        let mut peer = Peer::new();
        drop(begin(&mut again, &mut peer));
    }
}

/// With one request outstanding, each answer is timed.
#[test]
fn answers_that_wait_longer_than_the_limit_are_counted() {
    const COUNT: u64 = 50;
    let long = Some(Duration::from_secs(1_000_000));
    for (late, expected) in [
        (None, Waits::default()),
        (Some(Duration::ZERO), Waits { timed: COUNT, late: COUNT }),
        (long, Waits { timed: COUNT, late: 0 }),
    ] {
        let program = KernelAnswers::load(&Limits { late, ..LIMITS }).unwrap();
        let mut worker = program.worker(0).unwrap();
        let forms = Forms::new(Version::V1_3);
        let mut peer = Peer::new();
        let mut session = worker.attach(&peer.controller).unwrap();
        session.set_form(&forms.form(10));
        publish_two(&mut worker, &mut session);
        session.open(1);
        let known = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
        let answer = answers(Version::V1_3, 1, &[((mac(1), mac(2)), [1, 2], None)]);
        for _ in 0..COUNT {
            peer.switch.write_all(&known).unwrap();
            peer.receive(answer.len());
        }
        assert_eq!((session.waits(), session.answered().packet_ins), (expected, COUNT));
        let relayed = if late.is_some() { COUNT } else { 0 };
        assert_eq!(worker.relay_queue(), RelayQueue { relayed, ahead: 0 });
        // Buffers that follow at once wait behind one that is timed. More of them might not all be answered.
        (0..10).for_each(|_| peer.switch.write_all(&known).unwrap());
        peer.receive(answer.len() * 10);
        let more = session.waits().timed - expected.timed;
        assert!(if late.is_some() { (1..=10).contains(&more) } else { more == 0 }, "{more}");
        assert_eq!(worker.relay_queue().ahead, 0, "those of the same switch do not count");
    }
}

#[test]
fn answers_to_a_switch_that_moves_are_counted_in_the_queue_of_its_worker() {
    const COUNT: u64 = 50;
    let late = Some(Duration::from_secs(1_000_000));
    let program = KernelAnswers::load(&Limits { late, ..LIMITS }).unwrap();
    let [mut first, mut second] = [0, 1].map(|worker| program.worker(worker).unwrap());
    let forms = Forms::new(Version::V1_3);
    let mut peer = Peer::new();
    let mut session = first.attach(&peer.controller).unwrap();
    session.set_form(&forms.form(10));
    let known = packet_in(Version::V1_3, (mac(1), mac(2)), 1, None);
    let answer = answers(Version::V1_3, 1, &[((mac(1), mac(2)), [1, 2], None)]);
    let alone = RelayQueue { relayed: COUNT, ahead: 0 };
    for worker in [&mut first, &mut second] {
        worker.adopt(&mut session);
        publish_two(worker, &mut session);
        session.open(1);
        assert_eq!(worker.relay_queue(), RelayQueue::default());
        for _ in 0..COUNT {
            peer.switch.write_all(&known).unwrap();
            peer.receive(answer.len());
        }
        assert_eq!(worker.relay_queue(), alone);
        worker.release(&mut session);
    }
    assert_eq!(first.relay_queue(), alone, "that the switch has moved changes nothing");
}
