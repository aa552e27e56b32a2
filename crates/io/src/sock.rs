//! TCP sockets: opening them and setting them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen as start, socket_with,
    sockopt,
};

use crate::UnsentCap;

/// Connections that may wait to be accepted; the system's own limit may be lower.
const BACKLOG: i32 = 4096;

/// Bytes that the kernel takes beyond those under way, on a connection that is to hold little: a fast link asks for more
/// before they are gone, and a link of 1 Mbit/s has them sent in 130 ms.
pub(crate) const UNSENT_MAX: u16 = 16 << 10;

/// What is set on every connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Congestion control, such as `cubic`; `None` leaves the system's.
    pub congestion: Option<String>,
    /// Bytes the kernel may hold for sending; `None` leaves it to the kernel.
    pub send_buffer: Option<usize>,
    /// Bytes the kernel may hold of what came; `None` leaves it to the kernel.
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
        if let Some(bytes) = self.send_buffer {
            sockopt::set_socket_send_buffer_size(&socket, bytes)?;
        }
        if let Some(bytes) = self.recv_buffer {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
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

/// Has the kernel begin to take what is sent only as long as it holds so little beyond what the congestion window lets go:
/// `TCP_NOTSENT_LOWAT`. Where it cannot be told so, it takes what its buffer holds.
pub(crate) fn set_unsent_cap(stream: &TcpStream, holding: UnsentCap) {
    let max = match holding {
        UnsentCap::Off => u32::MAX,
        UnsentCap::On => UNSENT_MAX.into(),
    };
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(max);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel takes of a connection whose other end reads nothing.
    fn taken(holding: UnsentCap) -> usize {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, _) = listener.accept().unwrap();
        let options = Options { send_buffer: Some(8 << 20), ..Options::default() };
        options.apply(&stream).unwrap();
        stream.set_nonblocking(true).unwrap();
        set_unsent_cap(&stream, holding);
        let (bytes, mut taken) = (vec![0; UNSENT_MAX.into()], 0);
        while let Ok(n) = io::Write::write(&mut stream, &bytes) {
            taken += n;
        }
        taken
    }

    #[test]
    fn a_connection_that_is_to_hold_little_takes_little_beyond_what_is_under_way() {
        let (much, little) = (taken(UnsentCap::Off), taken(UnsentCap::On));
        assert!(little * 2 < much, "{little} and {much}");
    }
}
