//! The TCP proxy: bytes arrive complete, in order, and not too early.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use sluice_emu::link::{
    Error, ImpairmentChange, LinkCommand, LinkConfig, LinkEndpoints, LinkImpairments, LinkReport,
    LossRatio, PerDirection, RunningLink,
};
use sluice_io::clock;

const BYTES: usize = 700_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// `len` bytes that differ by position and `salt`.
fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n * 31 + n / 251 + salt) % 256).unwrap()).collect()
}

/// A proxy in front of a server, with its address and the server's listener.
fn open_proxy(
    up: LinkImpairments,
    down: LinkImpairments,
) -> (RunningLink, SocketAddr, TcpListener) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let link =
        RunningLink::open(&proxy_config(server.local_addr().unwrap(), up, down), None, || ())
            .unwrap();
    let addr = link.listen_addr().unwrap();
    (link, addr, server)
}

fn proxy_config(connect: SocketAddr, up: LinkImpairments, down: LinkImpairments) -> LinkConfig {
    let listen = "127.0.0.1:0".parse().unwrap();
    LinkConfig {
        endpoints: LinkEndpoints::TcpProxy { listen, connect },
        impairments: PerDirection { up, down },
        seed: 1,
    }
}

/// Sends `sent` and closes the write side; returns everything received.
fn exchange(mut stream: TcpStream, sent: Vec<u8>) -> Vec<u8> {
    let mut other = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        other.write_all(&sent).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    received
}

/// Sends 700 kB in each direction at once; returns the report of the link.
fn exchange_in_both_directions(impairments: LinkImpairments) -> LinkReport {
    let (link, addr, server) = open_proxy(impairments, impairments);
    let server_thread =
        thread::spawn(move || exchange(server.accept().unwrap().0, pattern(BYTES, 2)));
    let received = exchange(TcpStream::connect(addr).unwrap(), pattern(BYTES, 1));
    assert!(received == pattern(BYTES, 2), "down: {} bytes", received.len());
    let received = server_thread.join().unwrap();
    assert!(received == pattern(BYTES, 1), "up: {} bytes", received.len());
    link.close().unwrap()
}

#[test]
fn bytes_arrive_complete_in_both_directions() {
    let report = exchange_in_both_directions(LinkImpairments {
        delay: ms(10),
        jitter: ms(5),
        ..LinkImpairments::default()
    });
    for direction in [&report.directions.up, &report.directions.down] {
        let counters = direction.counters;
        assert_eq!(counters.delivered.bytes, BYTES as u64);
        assert_eq!((counters.lost.packets, counters.queue_full.packets), (0, 0));
    }
    assert_eq!(report.connections, Some((1, 0)));
}

/// 5.6 Mbit take more than half a second at 10 Mbit/s, and would overflow a queue of 20 kB at once.
#[test]
fn a_full_queue_slows_the_sender_down() {
    let rate_bps = NonZeroU64::new(10_000_000);
    let report = exchange_in_both_directions(LinkImpairments {
        rate_bps,
        queue_bytes: Some(20_000),
        ..LinkImpairments::default()
    });
    assert!(report.uptime >= ms(560), "{report}");
    assert_eq!(report.directions.up.counters.queue_full.packets, 0);
}

#[test]
fn a_round_trip_takes_both_delays_and_changes_take_effect() {
    let delayed = |delay| LinkImpairments { delay, ..LinkImpairments::default() };
    let (link, addr, server) = open_proxy(delayed(ms(30)), delayed(ms(20)));
    let server_thread = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() > 0 {
            stream.write_all(&byte).unwrap();
        }
    });
    let mut stream = TcpStream::connect(addr).unwrap();
    let mut round_trip = || {
        let start: Instant = clock::now();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        clock::now().saturating_duration_since(start)
    };
    assert!(round_trip() >= ms(50));
    let Some(Ok(LinkCommand::Set(changes))) = LinkCommand::parse("up delay 150ms") else {
        panic!()
    };
    link.handle().change(changes).unwrap();
    // Requests are handled in order, so the change has taken effect when the report is there.
    assert_eq!(link.handle().report().unwrap().directions.up.impairments.delay, ms(150));
    assert!(round_trip() >= ms(170));
    drop(stream);
    server_thread.join().unwrap();
    link.close().unwrap();
}

#[test]
fn a_connection_ends_if_the_server_is_not_reachable() {
    let (link, addr, server) = open_proxy(LinkImpairments::default(), LinkImpairments::default());
    drop(server);
    let mut stream = TcpStream::connect(addr).unwrap();
    let mut received = Vec::new();
    // The connection ends normally or by a reset.
    let _ = stream.read_to_end(&mut received);
    assert!(received.is_empty());
    link.close().unwrap();
}

#[test]
fn concurrent_connections_do_not_mix_their_bytes() {
    let impairments = LinkImpairments {
        delay: ms(2),
        rate_bps: NonZeroU64::new(50_000_000),
        ..LinkImpairments::default()
    };
    let (link, addr, server) = open_proxy(impairments, impairments);
    let server_thread = thread::spawn(move || {
        for _ in 0..20 {
            let (mut stream, _) = server.accept().unwrap();
            thread::spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                stream.write_all(&all).unwrap();
            });
        }
    });
    let clients: Vec<_> = (0..20)
        .map(|salt| {
            let stream = TcpStream::connect(addr).unwrap();
            (salt, thread::spawn(move || exchange(stream, pattern(10_000 + salt, salt))))
        })
        .collect();
    for (salt, client) in clients {
        assert!(client.join().unwrap() == pattern(10_000 + salt, salt), "connection {salt}");
    }
    server_thread.join().unwrap();
    assert_eq!(link.close().unwrap().connections, Some((20, 0)));
}

#[test]
fn loss_is_rejected() {
    let lossy = LinkImpairments { loss: LossRatio::from_ppm(1), ..LinkImpairments::default() };
    let unused = "127.0.0.1:9".parse().unwrap();
    let opened =
        RunningLink::open(&proxy_config(unused, LinkImpairments::default(), lossy), None, || ());
    assert!(matches!(opened, Err(Error::LossWithTcpProxy)), "{opened:?}");
    let link = RunningLink::open(
        &proxy_config(unused, LinkImpairments::default(), LinkImpairments::default()),
        None,
        || (),
    );
    let link = link.unwrap();
    let loss = PerDirection { up: Some(ImpairmentChange::Loss(LossRatio::ALL)), down: None };
    assert!(matches!(link.handle().change(loss), Err(Error::LossWithTcpProxy)));
    link.close().unwrap();
}
