//! Floods of connections from one address, over the loopback interface.
//!
//! Loading the program needs privileges, and a program that was built with clang: both are part of the set-up of the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sluice_io::clock;
use sluice_kernel::{SynFilter, SynLimit};

/// Time limit of everything that should happen at once; long, since the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Connections of a source; no further one is due while a test runs.
const LIMIT: SynLimit = SynLimit { burst: 5, interval: Duration::from_secs(3600), sources: 100 };

/// Begins to connect from `source`, which may need the number of the loopback interface.
fn begin(source: IpAddr, to: SocketAddr) -> TcpStream {
    let (family, from) = match source {
        IpAddr::V4(_) => (AddressFamily::INET, SocketAddr::new(source, 0)),
        IpAddr::V6(source) => (AddressFamily::INET6, SocketAddrV6::new(source, 0, 0, 1).into()),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &from).unwrap();
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
                thread::scope(|scope| {
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

/// Runs `act` on a thread with a network of its own, whose loopback interface has `addresses`.
fn with_addresses(addresses: &[&str], act: impl FnOnce() + Send) {
    let name = format!("sluice-syn-{}", std::process::id());
    let ip = |words: &str| {
        let output = Command::new("ip").args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    ip(&format!("netns add {name}"));
    let namespace = File::open(format!("/run/netns/{name}"));
    // What has entered it keeps it.
    ip(&format!("netns del {name}"));
    let namespace = namespace.unwrap();
    let inside = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        ip("link set lo up");
        for address in addresses {
            ip(&format!("address add {address}/64 dev lo nodad"));
        }
        act();
    };
    thread::scope(|scope| scope.spawn(inside).join()).unwrap();
}

#[test]
fn addresses_of_an_ipv6_prefix_share_a_limit_unless_it_is_that_of_a_link() {
    let addresses = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "fe80::1", "fe80::2"];
    let [flooding, neighbour, other, link_local, neighbour_of_link] = addresses;
    with_addresses(&addresses, || {
        let filter = SynFilter::load(&LIMIT).unwrap();
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        filter.attach(&listener).unwrap();
        let to = listener.local_addr().unwrap();
        let begin = |source: &str| begin(source.parse().unwrap(), to);
        flood(&filter, flooding.parse().unwrap(), to);
        let dropped = filter.dropped();
        let refused = begin(neighbour);
        wait_until("its SYN to be dropped", || filter.dropped() > dropped);
        assert!(!is_connected(&refused));
        let accepted = begin(other);
        wait_until("a connection from another prefix", || is_connected(&accepted));
        flood(&filter, link_local.parse().unwrap(), to);
        let accepted = begin(neighbour_of_link);
        wait_until("a connection from the same link", || is_connected(&accepted));
    });
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
