//! A link as a relay: bytes arrive whole, in order, and not before their time.
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

/// `len` bytes that tell where they are.
fn text(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n * 31 + n / 251 + salt) % 256).unwrap()).collect()
}

/// A relay to a server, which is given.
fn relay(up: LinkImpairments, down: LinkImpairments) -> (RunningLink, SocketAddr, TcpListener) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let link =
        RunningLink::open(&plan(server.local_addr().unwrap(), up, down), None, || ()).unwrap();
    let at = link.listen_addr().unwrap();
    (link, at, server)
}

fn plan(connect: SocketAddr, up: LinkImpairments, down: LinkImpairments) -> LinkConfig {
    let listen = "127.0.0.1:0".parse().unwrap();
    LinkConfig {
        endpoints: LinkEndpoints::TcpProxy { listen, connect },
        impairments: PerDirection { up, down },
        seed: 1,
    }
}

/// Sends `says` and then nothing more; what comes back until the other does the same.
fn exchange(mut stream: TcpStream, says: Vec<u8>) -> Vec<u8> {
    let mut other = stream.try_clone().unwrap();
    let saying = thread::spawn(move || {
        other.write_all(&says).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    saying.join().unwrap();
    heard
}

fn both_ways(settings: LinkImpairments) -> LinkReport {
    let (link, at, server) = relay(settings, settings);
    let serving = thread::spawn(move || exchange(server.accept().unwrap().0, text(BYTES, 2)));
    let heard = exchange(TcpStream::connect(at).unwrap(), text(BYTES, 1));
    assert!(heard == text(BYTES, 2), "down: {} bytes", heard.len());
    let heard = serving.join().unwrap();
    assert!(heard == text(BYTES, 1), "up: {} bytes", heard.len());
    link.close().unwrap()
}

#[test]
fn bytes_arrive_whole_both_ways() {
    let report =
        both_ways(LinkImpairments { delay: ms(10), jitter: ms(5), ..LinkImpairments::default() });
    for way in [&report.directions.up, &report.directions.down] {
        let counts = way.counters;
        assert_eq!(counts.delivered.bytes, BYTES as u64);
        assert_eq!((counts.lost.packets, counts.queue_full.packets), (0, 0));
    }
    assert_eq!(report.connections, Some((1, 0)));
}

/// 5.6 megabits take more than half a second at 10 Mbit/s, and a queue of 20 kB overflows at once unless it holds back.
#[test]
fn a_full_queue_holds_the_sender_back() {
    let rate_bps = NonZeroU64::new(10_000_000);
    let report = both_ways(LinkImpairments {
        rate_bps,
        queue_bytes: Some(20_000),
        ..LinkImpairments::default()
    });
    assert!(report.uptime >= ms(560), "{report}");
    assert_eq!(report.directions.up.counters.queue_full.packets, 0);
}

#[test]
fn an_answer_comes_after_both_delays_and_changes_take_effect() {
    let far = |delay| LinkImpairments { delay, ..LinkImpairments::default() };
    let (link, at, server) = relay(far(ms(30)), far(ms(20)));
    let serving = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() > 0 {
            stream.write_all(&byte).unwrap();
        }
    });
    let mut stream = TcpStream::connect(at).unwrap();
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
    // Letters are read in order, so the change is made when this is answered.
    assert_eq!(link.handle().report().unwrap().directions.up.impairments.delay, ms(150));
    assert!(round_trip() >= ms(170));
    drop(stream);
    serving.join().unwrap();
    link.close().unwrap();
}

#[test]
fn where_nobody_answers_the_connection_ends() {
    let (link, at, server) = relay(LinkImpairments::default(), LinkImpairments::default());
    drop(server);
    let mut stream = TcpStream::connect(at).unwrap();
    let mut heard = Vec::new();
    // It ends in order or by a reset, but it ends.
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.is_empty());
    link.close().unwrap();
}

#[test]
fn many_connections_share_it_and_each_gets_its_own() {
    let settings = LinkImpairments {
        delay: ms(2),
        rate_bps: NonZeroU64::new(50_000_000),
        ..LinkImpairments::default()
    };
    let (link, at, server) = relay(settings, settings);
    let serving = thread::spawn(move || {
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
            let stream = TcpStream::connect(at).unwrap();
            (salt, thread::spawn(move || exchange(stream, text(10_000 + salt, salt))))
        })
        .collect();
    for (salt, client) in clients {
        assert!(client.join().unwrap() == text(10_000 + salt, salt), "connection {salt}");
    }
    serving.join().unwrap();
    assert_eq!(link.close().unwrap().connections, Some((20, 0)));
}

#[test]
fn a_relay_that_should_lose_something_is_refused() {
    let lossy = LinkImpairments { loss: LossRatio::from_ppm(1), ..LinkImpairments::default() };
    let nowhere = "127.0.0.1:9".parse().unwrap();
    let opened = RunningLink::open(&plan(nowhere, LinkImpairments::default(), lossy), None, || ());
    assert!(matches!(opened, Err(Error::LossWithTcpProxy)), "{opened:?}");
    let link = RunningLink::open(
        &plan(nowhere, LinkImpairments::default(), LinkImpairments::default()),
        None,
        || (),
    );
    let link = link.unwrap();
    let loss = PerDirection { up: Some(ImpairmentChange::Loss(LossRatio::ALL)), down: None };
    assert!(matches!(link.handle().change(loss), Err(Error::LossWithTcpProxy)));
    link.close().unwrap();
}
