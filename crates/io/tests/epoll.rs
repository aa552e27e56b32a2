//! Connections as a loop over the set sees them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use sluice_io::{Epoll, Io, IoEvent, WaitStrategy, sock};

/// Whoever reads the log or counts by address must not meet one peer in two forms.
#[test]
fn a_peer_with_an_ipv4_address_has_that_at_a_listener_for_both() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let listener = sock::listen(any, &sock::Options::default()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    io.listen(listener).unwrap();
    let peer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    io.wait(None).unwrap();
    let Some(IoEvent::Accepted(_, addr)) = io.next_event() else { panic!("nobody came") };
    assert_eq!(addr, peer.local_addr().unwrap());
}
