//! What happens with buffers of a ring: connections that are handed over, many bytes, many connections, no room to send.

use std::io::Read;
use std::net::TcpStream;

use sluice_io::simulated::PeerState;
use sluice_io::{ConnId, Epoll, Io, IoEvent, Reading, Uring, limits};

use crate::backends::{Backend, Loopback, SocketSet};
use crate::events::{Connected, Thread, pattern};

type OverUring = Connected<Loopback<Uring>>;

/// Receives into the buffers of the ring without reporting anything.
fn receive_unreported(it: &mut OverUring, bytes: usize) {
    it.await_unread(bytes);
    let now = it.thread.io.now();
    it.thread.io.wait(Some(now)).unwrap();
    assert_eq!(it.thread.io.unread_bytes(it.id), bytes);
}

/// The connection is adopted by `other`, in which it gets the rest.
fn hand_over_to<I: SocketSet>(reading: Reading) {
    let mut it = OverUring::new();
    let mut other = Thread::new(I::create());
    let sent = pattern(0, 10_000);
    it.backend.send(&mut it.peer, &sent[..9000]);
    receive_unreported(&mut it, 9000);
    if reading == Reading::Off {
        it.thread.io.set_reading(it.id, reading);
    }
    assert_eq!(it.thread.io.send(it.id, b"before"), 6);
    let connection = it.thread.io.release(it.id).unwrap();
    it.backend.send(&mut it.peer, &sent[9000..]);
    let id = other.io.adopt(connection).unwrap();
    assert!(other.io.unread_bytes(id) >= 9000, "{}", other.io.unread_bytes(id));
    other.io.set_read_max(1000);
    other.run_until("all", |other| other.bytes_of(id).len() == sent.len());
    assert!(other.bytes_of(id) == sent);
    assert!(other.reads.iter().all(|&read| read <= 1000));
    assert_eq!(other.io.unread_bytes(id), 0);
    assert_eq!(other.io.send(id, b"after"), 5);
    other.settle();
    assert_eq!(it.receive(11), b"beforeafter");
    it.backend.close(it.peer);
    other.run_until("closed", |other| other.closed == [(id, None)]);
    it.thread.settle();
    assert!(it.thread.bytes.is_empty() && it.thread.closed.is_empty());
}

#[test]
fn bytes_that_were_received_and_not_reported_move_with_the_connection() {
    for reading in [Reading::On, Reading::Off] {
        hand_over_to::<Epoll>(reading);
        hand_over_to::<Uring>(reading);
    }
}

#[test]
fn a_connection_that_is_handed_over_and_not_read_keeps_what_has_arrived() {
    let mut it = OverUring::new();
    it.backend.send(&mut it.peer, b"first");
    receive_unreported(&mut it, 5);
    let connection = it.thread.io.release(it.id).unwrap();
    let id = it.thread.io.adopt(connection).unwrap();
    it.thread.io.set_reading(id, Reading::Off);
    it.thread.settle();
    it.backend.send(&mut it.peer, b" second");
    while it.thread.io.unread_bytes(id) < 12 {}
    it.thread.settle();
    assert!(it.thread.reads.is_empty());
    it.thread.io.set_reading(id, Reading::On);
    it.thread.run_until("all", |thread| thread.bytes_of(id) == b"first second");
}

/// The peer must not take for received what nobody will ever process.
#[test]
fn a_connection_that_is_dropped_with_received_bytes_is_reset() {
    let mut it = OverUring::new();
    it.backend.send(&mut it.peer, b"unread");
    receive_unreported(&mut it, 6);
    drop(it.thread.io.release(it.id).unwrap());
    assert_eq!(it.backend.receive(&mut it.peer, 1), Err(PeerState::Reset));
}

/// A thread with `count` connections, and their peers.
fn connections(count: usize) -> (Thread<Uring>, Vec<ConnId>, Vec<TcpStream>) {
    limits::raise_open_files(u64::try_from(2 * count + 200).unwrap());
    let mut backend = Loopback::<Uring>::new();
    let mut thread = Thread::new(backend.add_thread());
    let (listener, addr) = backend.listen();
    thread.io.listen(listener).unwrap();
    let (mut ids, mut peers) = (vec![], vec![]);
    for _ in 0..count {
        peers.push(backend.connect(addr).unwrap());
        thread.run_until("accepted", |it| !it.accepted.is_empty());
        let (connection, _) = thread.accepted.pop().unwrap();
        ids.push(thread.io.adopt(connection).unwrap());
    }
    (thread, ids, peers)
}

/// Many more connections than buffers have something to read, those of a few have much.
#[test]
fn connections_take_turns_with_the_buffers_of_the_ring() {
    const COUNT: usize = 700;
    let (mut thread, ids, mut peers) = connections(COUNT);
    thread.settle();
    let backend = Loopback::<Uring>::new();
    let lengths: Vec<usize> = (0..COUNT).map(|n| if n % 50 == 0 { 50_000 } else { 100 }).collect();
    for (peer, &len) in peers.iter_mut().zip(&lengths) {
        backend.send(peer, &pattern(0, len));
    }
    // Nothing is read from these, so that they hold no buffer for which others wait.
    for &id in &ids[1..200] {
        thread.io.set_reading(id, Reading::Off);
    }
    let is_complete =
        |thread: &Thread<Uring>, n: usize| thread.bytes_of(ids[n]).len() == lengths[n];
    thread.run_until("the others", |thread| (200..COUNT).all(|n| is_complete(thread, n)));
    thread.settle();
    assert!(ids[1..200].iter().all(|&id| thread.bytes_of(id).is_empty()));
    for &id in &ids[1..200] {
        thread.io.set_reading(id, Reading::On);
    }
    thread.run_until("all", |thread| (0..COUNT).all(|n| is_complete(thread, n)));
    for (n, &id) in ids.iter().enumerate() {
        assert!(thread.bytes_of(id) == pattern(0, lengths[n]), "connection {n}");
    }
    assert_eq!(thread.closed, []);
}

/// Sends of 4 000 bytes, each with a wait of its own.
#[test]
fn a_send_that_is_taken_in_part_is_completed_in_order() {
    let mut it = OverUring::new();
    let mut sent = vec![];
    let kept = loop {
        let bytes = pattern(sent.len(), 4000);
        let taken = it.thread.io.send(it.id, &bytes);
        assert!(taken == 0 || taken == 4000, "{taken}");
        if taken == 0 {
            break it.thread.io.unsent_bytes(it.id);
        }
        sent.extend(bytes);
        let now = it.thread.io.now();
        it.thread.io.wait(Some(now)).unwrap();
        it.thread.handle_events();
        assert!(sent.len() < 1 << 30, "it takes everything");
    };
    assert!((1..=4000).contains(&kept), "{kept}");
    it.thread.settle();
    assert_eq!(it.thread.writable, []);
    let mut received = it.receive(sent.len() - kept);
    it.thread.run_until("writable", |thread| thread.writable == [it.id]);
    assert_eq!(it.thread.io.unsent_bytes(it.id), 0);
    received.extend(it.receive(kept));
    assert!(received == sent);
    // In the same order when a large send follows a small one.
    let bytes = pattern(0, 20_000);
    assert_eq!(it.thread.io.send(it.id, &bytes[..100]), 100);
    assert_eq!(it.thread.io.send(it.id, &bytes[100..]), 19_900);
    assert!(it.receive(20_000) == bytes);
    it.thread.settle();
    assert_eq!((&it.thread.writable[..], &it.thread.closed[..]), (&[it.id][..], &[][..]));
}

/// What was not sent moves with the connection.
fn hand_over_unsent_to<I: SocketSet>() {
    let mut it = OverUring::new();
    let mut sent = vec![];
    while it.thread.io.unsent_bytes(it.id) == 0 {
        let bytes = pattern(sent.len(), 4000);
        let taken = it.thread.io.send(it.id, &bytes);
        sent.extend_from_slice(&bytes[..taken]);
        let now = it.thread.io.now();
        it.thread.io.wait(Some(now)).unwrap();
        it.thread.handle_events();
    }
    let kept = it.thread.io.unsent_bytes(it.id);
    let connection = it.thread.io.release(it.id).unwrap();
    let mut other = Thread::new(I::create());
    let id = other.io.adopt(connection).unwrap();
    assert_eq!((other.io.unsent_bytes(id), other.io.send(id, b"more")), (kept, 0));
    let mut received = it.receive(sent.len() - kept);
    other.run_until("writable", |other| other.writable == [id]);
    assert_eq!((other.io.unsent_bytes(id), other.io.send(id, b"more")), (0, 4));
    other.settle();
    received.extend(it.receive(kept + 4));
    assert!(received == [&sent[..], b"more"].concat());
}

#[test]
fn bytes_that_were_not_sent_move_with_the_connection() {
    hand_over_unsent_to::<Epoll>();
    hand_over_unsent_to::<Uring>();
}

#[test]
fn one_thread_creates_a_set_and_another_one_uses_it() {
    let mut io = Uring::create();
    let (listener, addr) = Loopback::<Uring>::new().listen();
    io.listen(listener).unwrap();
    let waker = io.waker();
    let used = std::thread::spawn(move || {
        let mut thread = Thread::new(io);
        thread.run_until("accepted", |it| !it.accepted.is_empty());
        let (connection, _) = thread.accepted.pop().unwrap();
        let id = thread.io.adopt(connection).unwrap();
        thread.run_until("woken", |it| it.wakes == 1);
        assert_eq!(thread.io.send(id, b"hello"), 5);
        thread.settle();
        // Dropped with requests in flight.
    });
    let mut peer = TcpStream::connect(addr).unwrap();
    sluice_io::Wake::wake(&waker);
    let mut bytes = vec![];
    peer.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"hello");
    used.join().unwrap();
    // Without having been used at all.
    drop(Uring::create());
}

/// Bytes of other connections are not lost when one is closed in the middle of an iteration.
#[test]
fn events_of_others_stay_in_order_when_a_connection_is_closed_between_them() {
    let (mut thread, ids, mut peers) = connections(10);
    thread.settle();
    let backend = Loopback::<Uring>::new();
    for peer in &mut peers {
        backend.send(peer, &pattern(0, 5000));
    }
    for &id in &ids {
        while thread.io.unread_bytes(id) < 5000 {}
    }
    let now = thread.io.now();
    thread.io.wait(Some(now)).unwrap();
    let Some(IoEvent::Data(first, _)) = thread.io.next_event() else { panic!("no data") };
    let closed: Vec<_> = ids.iter().copied().filter(|&id| id != first).step_by(2).collect();
    for &id in &closed {
        thread.io.close(id);
    }
    let open: Vec<_> =
        ids.iter().copied().filter(|id| *id != first && !closed.contains(id)).collect();
    thread.run_until("all", |thread| open.iter().all(|&id| thread.bytes_of(id).len() == 5000));
    for id in open {
        assert!(thread.bytes_of(id) == pattern(0, 5000));
    }
    assert!(closed.iter().all(|&id| thread.bytes_of(id).is_empty()));
}
