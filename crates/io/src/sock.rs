//! TCP sockets: opening them and setting them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen as start, socket_with,
    sockopt,
};

/// Connections that may wait to be accepted; the system's own limit may be lower.
const BACKLOG: i32 = 4096;

/// What is set on every connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Congestion control, such as `cubic`; `None` leaves the system's.
    pub congestion: Option<String>,
    /// Octets the kernel may hold for sending; `None` leaves it to the kernel.
    pub send_buffer: Option<usize>,
    /// Octets the kernel may hold of what came; `None` leaves it to the kernel.
    pub recv_buffer: Option<usize>,
}

impl Options {
    /// Sets them, and `TCP_NODELAY`: every write is a whole burst, so there is nothing to wait for.
    ///
    /// # Errors
    /// `NotFound` if the system does not have the congestion control.
    pub fn apply(&self, socket: impl AsFd) -> io::Result<()> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(name) = &self.congestion {
            sockopt::set_tcp_congestion(&socket, name)?;
        }
        if let Some(octets) = self.send_buffer {
            sockopt::set_socket_send_buffer_size(&socket, octets)?;
        }
        if let Some(octets) = self.recv_buffer {
            sockopt::set_socket_recv_buffer_size(&socket, octets)?;
        }
        Ok(())
    }
}

/// Accepts on `addr`. The IPv6 wildcard takes IPv4 as well; where there is no IPv6, only that. What is accepted
/// inherits `options`, which costs nothing per connection.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`, and what [`Options::apply`] says.
pub fn listen(addr: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    match listen_on(addr, options) {
        Err(e) if addr.ip().is_unspecified() && addr.is_ipv6() && no_ipv6(&e) => {
            listen_on(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), addr.port()), options)
        }
        listener => listener,
    }
}

fn listen_on(addr: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    let fd = tcp(addr)?;
    options.apply(&fd)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !addr.ip().is_unspecified())?;
    }
    bind(&fd, &addr)?;
    start(&fd, BACKLOG)?;
    Ok(TcpListener::from(fd))
}

/// Starts to connect to `addr`; [`Connected`](crate::IoEvent::Connected) tells when it stands.
///
/// # Errors
/// What the system says at once.
pub fn start_connect(addr: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let stream = TcpStream::from(tcp(addr)?);
    options.apply(&stream)?;
    match connect(&stream, &addr) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(stream),
        Err(e) => Err(e.into()),
    }
}

/// Closes `stream` by a reset, which leaves no trace in the system.
pub fn reset(stream: &TcpStream) {
    // If it cannot be set, the connection ends in order, which is as good but slower.
    let _ = sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
}

fn tcp(addr: SocketAddr) -> io::Result<std::os::fd::OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

fn no_ipv6(e: &io::Error) -> bool {
    e.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
        || e.kind() == io::ErrorKind::AddrNotAvailable
}
