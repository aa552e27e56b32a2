//! Connections from a given address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// Connects to `to` from `source`. A small `receive_buffer`, in bytes, makes a peer that reads nothing fill it soon.
///
/// # Errors
/// When the connection cannot be established.
pub fn connect_from(
    source: Ipv4Addr,
    to: SocketAddr,
    receive_buffer: Option<usize>,
) -> io::Result<TcpStream> {
    // Programs that other tests start meanwhile must not keep the connection open.
    let flags = SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // BBR, the default of some systems, is slow on a loopback interface. Where cubic is missing, the default has to do.
    _ = set_tcp_congestion(&fd, "cubic");
    if let Some(bytes) = receive_buffer {
        set_socket_recv_buffer_size(&fd, bytes)?;
    }
    bind(&fd, &SocketAddr::V4(SocketAddrV4::new(source, 0)))?;
    connect(&fd, &to)?;
    let stream = TcpStream::from(fd);
    stream.set_nodelay(true)?;
    Ok(stream)
}
