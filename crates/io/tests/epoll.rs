//! Events of `Epoll`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use sluice_io::{Epoll, Io, IoEvent, WaitStrategy, sock};

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
    let Some(IoEvent::Accepted(_, addr)) = io.next_event() else { panic!("no connection") };
    assert_eq!(addr, peer.local_addr().unwrap());
}
