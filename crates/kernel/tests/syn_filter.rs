//! Floods of connections from one address, over the loopback interface.
//!
//! Loading the program needs privileges, and a program that was built with clang: both are part of the set-up of the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use sluice_io::clock;
use sluice_kernel::{SynFilter, SynLimit};

/// Time limit of everything that should happen at once; long, since the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Connections of a source; no further one is due while a test runs.
const LIMIT: SynLimit = SynLimit { burst: 5, interval: Duration::from_secs(3600), sources: 100 };

/// Begins to connect from `source`.
fn begin(source: IpAddr, to: SocketAddr) -> TcpStream {
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &SocketAddr::new(source, 0)).unwrap();
    assert!(matches!(connect(&socket, &to), Ok(()) | Err(Errno::INPROGRESS)));
    TcpStream::from(socket)
}

fn is_connected(stream: &TcpStream) -> bool {
    stream.peer_addr().is_ok()
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = clock::now() + TIMEOUT;
    while !happened() {
        assert!(clock::now() < deadline, "still waiting for {what}");
        clock::sleep(Duration::from_millis(1));
    }
}

/// Opens many connections from `source`, of which five are established. Returns these.
fn flood(filter: &SynFilter, source: IpAddr, to: SocketAddr) -> Vec<TcpStream> {
    const COUNT: u64 = 300;
    let (before, burst) = (filter.dropped(), u64::from(LIMIT.burst));
    let mut streams: Vec<_> = (0..COUNT).map(|_| begin(source, to)).collect();
    let connected = |streams: &[TcpStream]| streams.iter().filter(|it| is_connected(it)).count();
    // Some may be sent again meanwhile, and dropped again.
    wait_until("the SYNs to be dropped", || filter.dropped() - before >= COUNT - burst);
    wait_until("the others", || connected(&streams) == 5);
    streams.retain(is_connected);
    streams
}

#[test]
fn a_source_gets_no_more_connections_than_the_limit_and_others_get_theirs() {
    let filter = SynFilter::load(&LIMIT).unwrap();
    for (at, sources) in [
        (Ipv4Addr::LOCALHOST.into(), [[127, 0, 0, 2], [127, 0, 0, 3]]),
        // A listener for both protocols.
        (IpAddr::from(Ipv6Addr::UNSPECIFIED), [[127, 0, 0, 4], [127, 0, 0, 5]]),
    ] {
        let listener = TcpListener::bind((at, 0)).unwrap();
        filter.attach(&listener).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        for source in sources {
            let flood = flood(&filter, source.into(), to);
            // The program sees what they send, and passes it on as it is.
            for mut stream in flood {
                let (mut accepted, peer) = listener.accept().unwrap();
                assert_eq!(peer.ip().to_canonical(), IpAddr::from(source));
                let sent: Vec<u8> = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
                stream.set_nonblocking(false).unwrap();
                accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
                let mut received = vec![0; sent.len()];
                std::thread::scope(|scope| {
                    scope.spawn(|| stream.write_all(&sent).unwrap());
                    accepted.read_exact(&mut received).unwrap();
                });
                assert_eq!(received, sent);
            }
        }
    }
}

#[test]
fn an_ipv6_source_has_the_same_limit() {
    let filter = SynFilter::load(&LIMIT).unwrap();
    let source = IpAddr::from(Ipv6Addr::LOCALHOST);
    let listener = TcpListener::bind((source, 0)).unwrap();
    filter.attach(&listener).unwrap();
    flood(&filter, source, listener.local_addr().unwrap());
}

#[test]
fn a_source_may_open_connections_again_after_a_while_and_without_the_filter_as_many_as_it_likes() {
    let limit = SynLimit { burst: 1, interval: Duration::from_millis(20), ..LIMIT };
    let filter = SynFilter::load(&limit).unwrap();
    let source = IpAddr::from([127, 0, 0, 6]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    filter.attach(&listener).unwrap();
    let mut connected = 0;
    wait_until("one connection after the other", || {
        connected += u32::from(is_connected(&begin(source, to)));
        connected > 2 * limit.burst
    });
    SynFilter::detach(&listener);
    let before = filter.dropped();
    let streams: Vec<_> = (0..100).map(|_| begin(source, to)).collect();
    wait_until("all of them", || streams.iter().all(is_connected));
    assert_eq!(filter.dropped(), before);
}
