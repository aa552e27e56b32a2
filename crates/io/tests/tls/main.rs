//! TLS behind `Epoll` and `Uring`, over the loopback interface.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod certificates;
mod failures;
mod limits;
mod raw_client;
mod threads;

use std::net::Shutdown;

use rustls::version::{TLS12, TLS13};
use sluice_base::Rng;
use sluice_io::{ClientAuth, ConnectionError, Io, Reading, TlsError, UnsentCap};

use certificates::Authority;
use raw_client::RawClient;
use threads::{Pair, SocketSet, Thread, listen, pattern};

/// Runs the functions of these names, which have the kind of set of the server as type parameter, with each kind.
macro_rules! for_each_set {
    ($($name:ident)*) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name::<sluice_io::Epoll>(); })*
        }
        mod over_uring {
            $(#[test] fn $name() { super::$name::<sluice_io::Uring>(); })*
        }
    };
}

for_each_set! {
    both_sides_send_before_the_handshake_and_then_much_more_than_the_buffers_hold
    a_send_that_takes_less_than_all_is_followed_by_writable_once_and_nothing_is_taken_before
    what_is_encrypted_but_not_sent_is_sent_by_itself
    sends_are_limited_while_unsent_bytes_are_capped
    records_may_be_split_and_joined_anywhere_in_both_versions
    all_records_of_a_read_are_reported_though_the_socket_is_empty_then
    a_connection_moves_with_half_a_record_with_unsent_bytes_and_with_its_end
    a_busy_connection_is_bulk_and_a_connection_with_tls_moves_between_both_sets
    an_orderly_close_is_no_error_on_either_side
    a_stream_that_ends_without_close_notify_is_truncated
}

fn pair<I: SocketSet>(authority: &Authority) -> Pair<I> {
    let server = authority.server(&ClientAuth::Required(authority.file()));
    let switch = authority.issue("switch", "switch", 2999);
    Pair::connect(&server, &authority.client(Some(&switch)))
}

/// A thread with a raw client whose handshake is complete.
fn raw<I: SocketSet>(authority: &Authority) -> (Thread<I>, sluice_io::ConnId, RawClient) {
    let mut server = Thread::<I>::start();
    let addr = listen(&mut server, &authority.server(&ClientAuth::Required(authority.file())));
    let switch = authority.issue("switch", "switch", 2999);
    let mut client = RawClient::new(authority, &switch, addr, &TLS13);
    while server.accepted.is_empty() {
        server.run();
    }
    let id = server.io.adopt(server.accepted.pop().unwrap()).unwrap();
    client.shake_hands(&mut server);
    (server, id, client)
}

fn both_sides_send_before_the_handshake_and_then_much_more_than_the_buffers_hold<I: SocketSet>() {
    let mut it = pair::<I>(&Authority::new("transfer"));
    let bytes = pattern(3_000_000);
    let (mut from_server, mut from_client) = (0, 0);
    for _ in 0..100_000 {
        from_server += it.server.io.send(it.server_id, &bytes[from_server..]);
        from_client += it.client.io.send(it.client_id, &bytes[from_client..]);
        it.client.run();
        it.server.run();
        if it.client.received.len() == bytes.len() && it.server.received.len() == bytes.len() {
            break;
        }
    }
    assert!(it.server.received == bytes && it.client.received == bytes);
    assert_eq!((it.server.closed, it.client.closed), (None, None));
}

fn a_send_that_takes_less_than_all_is_followed_by_writable_once_and_nothing_is_taken_before<
    I: SocketSet,
>() {
    let mut it = pair::<I>(&Authority::new("backlog"));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    it.client.io.set_reading(it.client_id, Reading::Off);
    let bytes = pattern(64 << 20);
    let mut sent = it.server.io.send(it.server_id, &bytes);
    assert!(sent < bytes.len());
    for _ in 0..10 {
        it.server.run();
        assert_eq!(it.server.io.send(it.server_id, &bytes[sent..]), 0);
    }
    assert_eq!(it.server.writable, 0);
    it.client.io.set_reading(it.client_id, Reading::On);
    while sent < bytes.len() {
        let before = it.server.writable;
        it.run_until("writable", |it| it.server.writable > before);
        assert_eq!(it.server.writable, before + 1);
        sent += it.server.io.send(it.server_id, &bytes[sent..]);
    }
    it.run_until("all", |it| it.client.received.len() == bytes.len());
    assert!(it.client.received == bytes);
}

fn what_is_encrypted_but_not_sent_is_sent_by_itself<I: SocketSet>() {
    let mut it = pair::<I>(&Authority::new("unsent"));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    it.client.io.set_reading(it.client_id, Reading::Off);
    let bytes = pattern(64 << 20);
    // The last part that is taken is kept in the connection.
    let sent = it.server.io.send(it.server_id, &bytes);
    it.client.io.set_reading(it.client_id, Reading::On);
    it.run_until("all", |it| it.client.received.len() == sent);
    assert!(it.client.received == bytes[..sent]);
}

fn sends_are_limited_while_unsent_bytes_are_capped<I: SocketSet>() {
    let mut it = pair::<I>(&Authority::new("capped"));
    it.client.io.send(it.client_id, b"hello");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    it.server.io.set_unsent_cap(it.server_id, UnsentCap::On);
    let bytes = pattern(20 << 10);
    assert_eq!(it.server.io.send(it.server_id, &bytes), 16 << 10);
    it.run_until("writable", |it| it.server.writable == 1);
    assert_eq!(it.server.io.send(it.server_id, &bytes[16 << 10..]), 4 << 10);
    it.run_until("all", |it| it.client.received.len() == bytes.len());
}

fn records_may_be_split_and_joined_anywhere_in_both_versions<I: SocketSet>() {
    let authority = Authority::new("splits");
    let tls = authority.server(&ClientAuth::Required(authority.file()));
    let switch = authority.issue("switch", "switch", 2999);
    for (seed, version) in [(1, &TLS12), (2, &TLS13), (3, &TLS12), (4, &TLS13)] {
        let mut rng = Rng::new(seed);
        let mut server = Thread::<I>::start();
        let addr = listen(&mut server, &tls);
        let mut client = RawClient::new(&authority, &switch, addr, version);
        while server.accepted.is_empty() {
            server.run();
        }
        server.io.adopt(server.accepted.pop().unwrap()).unwrap();
        // Also a limit that is smaller than a record.
        server.io.set_read_max(1 + rng.below(40_000) as usize);
        let bytes = pattern(400_000);
        let mut given = 0;
        while given < bytes.len() {
            let record = (1 + rng.below(20_000) as usize).min(bytes.len() - given);
            std::io::Write::write_all(&mut client.tls.writer(), &bytes[given..given + record])
                .unwrap();
            given += record;
        }
        for _ in 0..100_000 {
            let encrypted = client.take_encrypted();
            let mut rest = &encrypted[..];
            while !rest.is_empty() {
                let part = (1 + rng.below(30_000) as usize).min(rest.len());
                client.send(&rest[..part], &mut server);
                rest = &rest[part..];
                server.run();
            }
            client.receive();
            server.run();
            if server.received.len() == bytes.len() {
                break;
            }
        }
        assert!(server.received == bytes, "seed {seed}");
        assert_eq!(server.closed, None);
    }
}

fn all_records_of_a_read_are_reported_though_the_socket_is_empty_then<I: SocketSet>() {
    let (mut server, id, mut client) = raw::<I>(&Authority::new("records"));
    server.io.set_read_max(10);
    // A record that is larger than the read limit, and many that are smaller.
    std::io::Write::write_all(&mut client.tls.writer(), &pattern(16_000)).unwrap();
    for _ in 0..100 {
        std::io::Write::write_all(&mut client.tls.writer(), b"x").unwrap();
    }
    let encrypted = client.take_encrypted();
    client.send(&encrypted, &mut server);
    for _ in 0..10_000 {
        server.run();
        if server.io.unread_bytes(id) == 0 {
            break;
        }
    }
    assert_eq!(server.received.len(), 16_100);
}

fn a_connection_moves_with_half_a_record_with_unsent_bytes_and_with_its_end<I: SocketSet>() {
    let (mut server, id, mut client) = raw::<I>(&Authority::new("move"));
    let mut other = Thread::<I>::start();
    let bytes = pattern(30_000);
    std::io::Write::write_all(&mut client.tls.writer(), &bytes).unwrap();
    client.tls.send_close_notify();
    let encrypted = client.take_encrypted();
    let (first, rest) = encrypted.split_at(20_000);
    client.send(first, &mut server);
    while server.received.is_empty() || server.io.unread_bytes(id) > 0 {
        server.run();
    }
    let replies = pattern(64 << 20);
    server.io.send(id, &replies);
    let connection = server.io.release(id).unwrap();
    client.send(rest, &mut server);
    let id = other.io.adopt(connection).unwrap();
    // Reads the data, and with it the end, which it does not take.
    let mut released = None;
    while released.is_none() {
        let deadline = other.io.now() + std::time::Duration::from_secs(1);
        other.io.wait(Some(deadline)).unwrap();
        while let Some(event) = other.io.next_event() {
            if let sluice_io::IoEvent::Data(_, bytes) = event {
                other.received.extend_from_slice(bytes);
            }
            if server.received.len() + other.received.len() == bytes.len() {
                released = other.io.release(id);
                break;
            }
        }
    }
    assert!([&server.received[..], &other.received].concat() == bytes);
    let mut last = Thread::<I>::start();
    last.io.adopt(released.unwrap()).unwrap();
    let mut received = client.receive();
    while last.closed.is_none() {
        last.handle_events();
        received.extend(client.receive());
    }
    assert_eq!(last.closed, Some(Ok(())), "the end was received by another thread");
    assert!(received == replies[..received.len()]);
}

fn a_busy_connection_is_bulk_and_a_connection_with_tls_moves_between_both_sets<I: SocketSet>() {
    let mut it = pair::<I>(&Authority::new("bulk"));
    let bytes = pattern(2 << 20);
    for _ in 0..3 {
        it.server.received.clear();
        let mut sent = 0;
        while it.server.received.len() < bytes.len() {
            sent += it.client.io.send(it.client_id, &bytes[sent..]);
            it.client.run();
            it.server.run();
        }
        assert!(it.server.received == bytes);
        // So many small reads that the connection counts as sparse again.
        for n in 1..=20 {
            it.client.io.send(it.client_id, b"x");
            it.run_until("one byte", |it| it.server.received.len() == bytes.len() + n);
        }
    }
}

fn an_orderly_close_is_no_error_on_either_side<I: SocketSet>() {
    let mut it = pair::<I>(&Authority::new("close"));
    it.client.io.send(it.client_id, b"last words");
    it.run_until("the handshake", |it| !it.server.received.is_empty());
    it.server.io.send(it.server_id, b"goodbye");
    it.server.io.close(it.server_id);
    it.run_until("closed", |it| it.client.closed.is_some());
    assert_eq!((&it.client.received[..], it.client.closed), (&b"goodbye"[..], Some(Ok(()))));

    let (mut server, _, mut client) = raw::<I>(&Authority::new("close-client"));
    std::io::Write::write_all(&mut client.tls.writer(), b"last words").unwrap();
    client.tls.send_close_notify();
    let encrypted = client.take_encrypted();
    client.send(&encrypted, &mut server);
    while server.closed.is_none() {
        server.run();
    }
    assert_eq!((&server.received[..], server.closed), (&b"last words"[..], Some(Ok(()))));
}

fn a_stream_that_ends_without_close_notify_is_truncated<I: SocketSet>() {
    let (mut server, _, mut client) = raw::<I>(&Authority::new("truncated"));
    std::io::Write::write_all(&mut client.tls.writer(), b"last words").unwrap();
    let encrypted = client.take_encrypted();
    client.send(&encrypted, &mut server);
    client.stream.shutdown(Shutdown::Write).unwrap();
    while server.closed.is_none() {
        server.run();
    }
    assert_eq!(server.received, b"last words");
    assert_eq!(server.closed, Some(Err(ConnectionError::Tls(TlsError::Truncated))));
}
