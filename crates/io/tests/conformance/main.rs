//! All backends behave alike: each test runs with `epoll` and `io_uring` over the loopback interface, and with simulated connections.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod backends;
mod events;
mod read_events;
mod read_order;
mod simulated;
mod uring;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use sluice_io::simulated::PeerState;
use sluice_io::{Epoll, Io, IoEvent, Reading, UnsentCap, Uring, WaitStrategy, Wake, sock};

use backends::{Backend, Loopback, Simulated};
use events::{Connected, Thread, pattern};
use read_order::{reading_can_be_off_in_between, what_is_read_little_from_is_read_first};

/// Runs the functions of these names, which have a backend as type parameter, with each backend.
macro_rules! for_each_backend {
    ($($name:ident)*) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name::<super::Loopback<super::Epoll>>(); })*
        }
        mod over_uring {
            $(#[test] fn $name() { super::$name::<super::Loopback<super::Uring>>(); })*
        }
        mod simulation {
            $(#[test] fn $name() { super::$name::<super::Simulated>(); })*
        }
    };
}

for_each_backend! {
    a_peer_can_send_before_it_is_accepted
    reads_have_a_limited_length_and_continue_where_the_last_one_ended
    a_connection_that_took_only_a_part_becomes_writable_once
    nothing_is_read_while_reading_is_off
    the_end_of_the_stream_is_reported_once_after_the_data
    a_reset_is_reported_once_after_the_data
    a_reset_is_reported_while_reading_is_off
    sending_on_a_failed_connection_takes_all
    a_send_after_the_peer_has_closed_is_lost
    a_peer_that_closes_before_it_has_received_everything_resets
    a_released_connection_keeps_its_bytes
    a_closed_connection_delivers_what_was_sent
    a_connection_dropped_with_unread_bytes_is_reset
    a_closed_listener_accepts_nothing
    a_flooded_listener_does_not_starve_another
    wakes_before_a_wait_count_once
    waiting_for_a_wake_leaves_connections_alone
    a_send_is_limited_while_unsent_bytes_are_capped
    what_is_read_little_from_is_read_first
    reading_can_be_off_in_between
}

fn a_peer_can_send_before_it_is_accepted<B: Backend>() {
    let mut backend = B::new();
    let mut thread = Thread::new(backend.add_thread());
    let (listener, addr) = backend.listen();
    thread.io.listen(listener).unwrap();
    let mut peers: Vec<_> = (0..100).map(|_| backend.connect(addr).unwrap()).collect();
    for peer in &mut peers {
        backend.send(peer, b"hello");
    }
    thread.run_until("accepted", |it| it.accepted.len() == 100);
    let mut addrs: Vec<_> = thread.accepted.iter().map(|&(_, addr)| addr).collect();
    let mut expected: Vec<_> = peers.iter().map(|peer| backend.addr(peer)).collect();
    addrs.sort_unstable();
    expected.sort_unstable();
    assert_eq!(addrs, expected);
    for (conn, _) in std::mem::take(&mut thread.accepted) {
        thread.io.adopt(conn).unwrap();
    }
    thread.run_until("read", |it| it.bytes.len() == 100);
    assert!(thread.bytes.values().all(|bytes| bytes == b"hello"));
}

fn reads_have_a_limited_length_and_continue_where_the_last_one_ended<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_read_max(1000);
    let bytes = pattern(0, 10_500);
    it.backend.send(&mut it.peer, &bytes);
    it.await_unread(bytes.len());
    it.thread.run_until("a read", |thread| !thread.reads.is_empty());
    assert_eq!(it.thread.io.unread_bytes(it.id), bytes.len() - 1000);
    it.thread.run_until("all", |thread| thread.bytes_of(it.id).len() == bytes.len());
    assert_eq!(it.thread.bytes_of(it.id), bytes);
    assert_eq!(it.thread.reads, [vec![1000; 10], vec![500]].concat());
    assert_eq!(it.thread.io.unread_bytes(it.id), 0);
    it.thread.settle();
    assert_eq!(it.thread.reads.len(), 11);
}

fn a_connection_that_took_only_a_part_becomes_writable_once<B: Backend>() {
    let mut it = Connected::<B>::new();
    let mut sent = it.fill();
    it.thread.settle();
    assert_eq!(it.thread.writable, []);
    let mut received = it.receive(sent.len());
    it.thread.run_until("writable", |thread| thread.writable == [it.id]);
    it.thread.settle();
    assert_eq!(it.thread.writable, [it.id]);
    let more = pattern(sent.len(), 1000);
    assert_eq!(it.thread.io.send(it.id, &more), 1000);
    it.thread.settle();
    sent.extend(more);
    received.extend(it.receive(1000));
    assert!(sent == received);
    assert_eq!(it.thread.closed, []);
}

fn nothing_is_read_while_reading_is_off<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_reading(it.id, Reading::Off);
    it.backend.send(&mut it.peer, b"first");
    it.thread.settle();
    it.backend.close(it.peer);
    it.thread.settle();
    assert!(it.thread.reads.is_empty() && it.thread.closed.is_empty());
    assert_eq!(it.thread.io.unread_bytes(it.id), 5);
    it.thread.io.set_reading(it.id, Reading::On);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    assert_eq!(it.thread.bytes_of(it.id), b"first");
    assert_eq!(it.thread.closed, [(it.id, None)]);
}

fn the_end_of_the_stream_is_reported_once_after_the_data<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_read_max(10);
    it.backend.send(&mut it.peer, &pattern(0, 35));
    it.backend.close(it.peer);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    it.thread.settle();
    assert_eq!(it.thread.reads, [10, 10, 10, 5]);
    assert_eq!(it.thread.closed, [(it.id, None)]);
    assert!(it.thread.io.release(it.id).is_none(), "it is no longer in the set");
    assert_eq!(it.thread.io.send(it.id, b"more"), 4);
    it.thread.settle();
    assert_eq!(it.thread.closed.len(), 1);
}

fn a_reset_is_reported_once_after_the_data<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.backend.send(&mut it.peer, b"last");
    it.thread.run_until("unread", |thread| !thread.bytes.is_empty());
    it.thread.io.set_reading(it.id, Reading::Off);
    it.backend.send(&mut it.peer, b" words");
    it.await_unread(6);
    it.thread.io.set_reading(it.id, Reading::On);
    it.backend.reset(it.peer);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    it.thread.settle();
    assert_eq!(it.thread.bytes_of(it.id), b"last words");
    assert_eq!(it.thread.closed, [(it.id, Some(ErrorKind::ConnectionReset))]);
}

fn a_reset_is_reported_while_reading_is_off<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_reading(it.id, Reading::Off);
    it.backend.reset(it.peer);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    it.thread.settle();
    assert_eq!(it.thread.closed, [(it.id, None)]);

    // The interest in room for more makes the reason known.
    let mut it = Connected::<B>::new();
    it.thread.io.set_reading(it.id, Reading::Off);
    it.fill();
    it.backend.reset(it.peer);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    assert_eq!(it.thread.closed, [(it.id, Some(ErrorKind::ConnectionReset))]);
}

fn sending_on_a_failed_connection_takes_all<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.backend.reset(it.peer);
    it.thread.io.set_reading(it.id, Reading::Off);
    let bytes = vec![0; 1 << 20];
    assert_eq!(it.thread.io.send(it.id, &bytes), bytes.len());
    assert_eq!(it.thread.io.send(it.id, &bytes), bytes.len());
    // Without a wait.
    it.thread.handle_events();
    let [(id, Some(_))] = it.thread.closed[..] else { panic!("{:?}", it.thread.closed) };
    assert_eq!(id, it.id);
    it.thread.settle();
    assert_eq!(it.thread.closed.len(), 1);
}

fn a_send_after_the_peer_has_closed_is_lost<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.backend.send(&mut it.peer, b"last");
    it.await_unread(4);
    it.backend.close(it.peer);
    assert_eq!(it.thread.io.send(it.id, b"one"), 3);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    assert_eq!(it.thread.bytes_of(it.id), b"last");
    assert_eq!(it.thread.closed, [(it.id, None)]);

    let mut it = Connected::<B>::new();
    it.backend.send(&mut it.peer, b"last");
    it.await_unread(4);
    it.backend.close(it.peer);
    assert_eq!([3, 3].map(|_| it.thread.io.send(it.id, b"two")), [3, 3]);
    it.thread.handle_events();
    assert_eq!(it.thread.closed, [(it.id, Some(ErrorKind::BrokenPipe))]);
}

fn a_peer_that_closes_before_it_has_received_everything_resets<B: Backend>() {
    let mut it = Connected::<B>::new();
    assert_eq!(it.thread.io.send(it.id, b"unheeded"), 8);
    // It may be sent with the next wait.
    it.thread.settle();
    it.backend.close(it.peer);
    it.thread.run_until("closed", |thread| !thread.closed.is_empty());
    assert_eq!(it.thread.closed, [(it.id, Some(ErrorKind::ConnectionReset))]);
}

fn a_released_connection_keeps_its_bytes<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_read_max(10);
    let mut other = Thread::new(it.backend.add_thread());
    it.backend.send(&mut it.peer, &pattern(0, 100));
    it.thread.run_until("a read", |thread| !thread.reads.is_empty());
    let read = it.thread.bytes_of(it.id).len();
    let conn = it.thread.io.release(it.id).unwrap();
    it.backend.send(&mut it.peer, &pattern(100, 100));
    it.thread.settle();
    assert_eq!(it.thread.bytes_of(it.id).len(), read);
    let id = other.io.adopt(conn).unwrap();
    other.run_until("the rest", |other| other.bytes_of(id).len() == 200 - read);
    assert_eq!([it.thread.bytes_of(it.id), other.bytes_of(id)].concat(), pattern(0, 200));
    assert_eq!(other.io.send(id, b"reply"), 5);
    other.settle();
    assert_eq!(it.receive(5), b"reply");
}

fn a_closed_connection_delivers_what_was_sent<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.backend.send(&mut it.peer, b"unread");
    it.await_unread(6);
    assert_eq!(it.thread.io.send(it.id, b"goodbye"), 7);
    it.thread.io.close(it.id);
    assert_eq!(it.receive(7), b"goodbye");
    assert_eq!(it.backend.receive(&mut it.peer, 1), Err(PeerState::EndOfStream));
    it.thread.settle();
    assert!(it.thread.reads.is_empty() && it.thread.closed.is_empty());
}

fn a_connection_dropped_with_unread_bytes_is_reset<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_reading(it.id, Reading::Off);
    it.backend.send(&mut it.peer, b"unread");
    it.await_unread(6);
    drop(it.thread.io.release(it.id).unwrap());
    assert_eq!(it.backend.receive(&mut it.peer, 1), Err(PeerState::Reset));
}

fn a_closed_listener_accepts_nothing<B: Backend>() {
    let mut backend = B::new();
    let mut thread = Thread::new(backend.add_thread());
    let (listener, addr) = backend.listen();
    let id = thread.io.listen(listener).unwrap();
    let mut waiting = backend.connect(addr).unwrap();
    thread.io.close(id);
    thread.settle();
    assert!(thread.accepted.is_empty());
    assert_eq!(backend.receive(&mut waiting, 1), Err(PeerState::Reset));
    let refused = backend.connect(addr).err().map(|e| e.kind());
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
}

fn a_flooded_listener_does_not_starve_another<B: Backend>() {
    let mut backend = B::new();
    let mut thread = Thread::new(backend.add_thread());
    let addrs = [(); 2].map(|()| {
        let (listener, addr) = backend.listen();
        thread.io.listen(listener).unwrap();
        addr
    });
    let _flood: Vec<_> = (0..100).map(|_| backend.connect(addrs[0]).unwrap()).collect();
    let one = backend.connect(addrs[1]).unwrap();
    let now = thread.io.now();
    thread.io.wait(Some(now)).unwrap();
    thread.handle_events();
    assert!(thread.accepted.len() < 100, "{}", thread.accepted.len());
    let one = backend.addr(&one);
    assert!(thread.accepted.iter().any(|&(_, addr)| addr == one));
}

fn wakes_before_a_wait_count_once<B: Backend>() {
    let mut thread = Thread::new(B::new().add_thread());
    let waker = thread.io.waker();
    for _ in 0..3 {
        waker.wake();
    }
    thread.run_until("woken", |thread| thread.wakes > 0);
    thread.settle();
    assert_eq!(thread.wakes, 1);
    waker.wake();
    thread.run_until("woken again", |thread| thread.wakes == 2);
}

fn waiting_for_a_wake_leaves_connections_alone<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.backend.send(&mut it.peer, b"later");
    it.await_unread(5);
    let now = it.thread.io.now();
    it.thread.io.wait_for_wake(now).unwrap();
    it.thread.handle_events();
    assert_eq!((it.thread.wakes, it.thread.reads.len()), (0, 0));
    it.thread.io.waker().wake();
    it.thread.io.wait_for_wake(now).unwrap();
    it.thread.handle_events();
    assert_eq!((it.thread.wakes, it.thread.reads.len()), (1, 0));
    it.thread.run_until("read", |thread| thread.bytes_of(it.id) == b"later");
    assert_eq!(it.thread.wakes, 1);
}

fn a_send_is_limited_while_unsent_bytes_are_capped<B: Backend>() {
    let mut it = Connected::<B>::new();
    it.thread.io.set_unsent_cap(it.id, UnsentCap::On);
    let bytes = pattern(0, 20 << 10);
    let sent = it.thread.io.send(it.id, &bytes);
    assert_eq!(sent, 16 << 10);
    assert_eq!(it.receive(sent), bytes[..sent]);
    it.thread.run_until("writable", |thread| thread.writable == [it.id]);
    it.thread.io.set_unsent_cap(it.id, UnsentCap::Off);
    assert_eq!(it.thread.io.send(it.id, &bytes), bytes.len());
    assert_eq!(it.receive(bytes.len()), bytes);
}

/// So that logs and limits per address see one form of each address.
#[test]
fn an_ipv4_peer_of_an_ipv6_listener_has_an_ipv4_address() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let listener = sock::listen(any, &sock::Options::default()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    io.listen(listener).unwrap();
    let peer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    io.wait(None).unwrap();
    let Some(IoEvent::Accepted(_, addr, _)) = io.next_event() else { panic!("no connection") };
    assert_eq!(addr, peer.local_addr().unwrap());
}
