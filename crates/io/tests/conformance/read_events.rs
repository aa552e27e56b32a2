//! When a set reads from a connection. Only [`Epoll`] has a choice.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sluice_io::{ConnId, Epoll, Io, IoEvent, ReadEvents, Reading, WaitStrategy};

/// How long nothing must happen.
const NOTHING: Duration = Duration::from_millis(30);

/// A set with a connection that it does not read from, and the peer.
fn unread() -> (Epoll, ConnId, TcpStream) {
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let id = io.adopt(stream.into()).unwrap();
    io.set_read_events(id, ReadEvents::Off);
    (io, id, peer)
}

/// What happens until something has, or for a while.
fn events(io: &mut Epoll) -> Vec<String> {
    let deadline = io.now() + NOTHING;
    let mut events = vec![];
    while events.is_empty() && io.wait(Some(deadline)).unwrap() < deadline {
        events = reported(io);
    }
    events
}

/// What is still to be reported of the last wait.
fn reported(io: &mut Epoll) -> Vec<String> {
    let mut events = vec![];
    while let Some(event) = io.next_event() {
        events.push(match event {
            IoEvent::Data(_, bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => format!("{other:?}"),
        });
    }
    events
}

#[test]
fn a_connection_without_read_events_is_read_at_once_when_it_gets_them_back() {
    let (mut io, id, mut peer) = unread();
    for text in ["one", "two"] {
        peer.write_all(text.as_bytes()).unwrap();
        assert_eq!(events(&mut io), [""; 0]);
        io.set_read_events(id, ReadEvents::WhileReadable);
        assert_eq!(reported(&mut io), [text]);
        io.set_read_events(id, ReadEvents::Off);
    }
    io.set_read_events(id, ReadEvents::WhileReadable);
    assert_eq!(reported(&mut io), [format!("NothingReceived({id:?})")]);
    peer.write_all(b"three").unwrap();
    assert_eq!(events(&mut io), ["three"]);
}

#[test]
fn the_end_of_a_connection_without_read_events_is_reported_after_its_data() {
    let (mut io, id, mut peer) = unread();
    peer.write_all(b"last").unwrap();
    drop(peer);
    let closed = format!("Closed({id:?}, None)");
    let mut all = events(&mut io);
    while !all.contains(&closed) {
        let new = events(&mut io);
        assert!(!new.is_empty(), "{all:?}");
        all.extend(new);
    }
    assert_eq!(all, ["last", &closed]);
}

#[test]
fn read_events_have_no_effect_while_reading_is_off() {
    let (mut io, id, mut peer) = unread();
    io.set_reading(id, Reading::Off);
    peer.write_all(b"kept").unwrap();
    io.set_read_events(id, ReadEvents::WhileReadable);
    assert_eq!(reported(&mut io), [""; 0]);
    assert_eq!(events(&mut io), [""; 0]);
    io.set_reading(id, Reading::On);
    assert_eq!(events(&mut io), ["kept"]);
    io.set_read_events(id, ReadEvents::Off);
    io.set_reading(id, Reading::Off);
    io.set_reading(id, Reading::On);
    peer.write_all(b"unread").unwrap();
    assert_eq!(events(&mut io), [""; 0]);
}

#[test]
fn on_arrival_a_connection_is_read_when_something_arrives() {
    let (mut io, id, mut peer) = unread();
    peer.write_all(b"before").unwrap();
    assert_eq!(events(&mut io), [""; 0]);
    io.set_read_events(id, ReadEvents::OnArrival);
    assert_eq!(events(&mut io), ["before"]);
    assert_eq!(events(&mut io), [""; 0]);
    for text in ["one", "two"] {
        peer.write_all(text.as_bytes()).unwrap();
        assert_eq!(events(&mut io), [text]);
    }
    drop(peer);
    assert_eq!(events(&mut io), [format!("Closed({id:?}, None)")]);
}

#[test]
fn a_readable_file_descriptor_wakes_the_set() {
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let (mut sender, mut receiver) = UnixStream::pair().unwrap();
    io.wake_by(receiver.as_fd()).unwrap();
    assert_eq!(events(&mut io), [""; 0]);
    sender.write_all(b"!").unwrap();
    assert_eq!(events(&mut io), ["Woken"]);
    assert_eq!(events(&mut io), ["Woken"], "while it is readable");
    receiver.read_exact(&mut [0]).unwrap();
    assert_eq!(events(&mut io), [""; 0]);
}

#[test]
fn a_file_descriptor_wakes_the_set_once_each_time_it_becomes_readable() {
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    io.wake_once_by(receiver.as_fd()).unwrap();
    for _ in 0..2 {
        sender.write_all(b"!").unwrap();
        assert_eq!(events(&mut io), ["Woken"]);
        assert_eq!(events(&mut io), [""; 0], "although nothing was read");
    }
}
