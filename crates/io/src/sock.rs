//! TCP sockets and their options.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen as start_listening,
    socket_with, sockopt,
};

use crate::UnsentCap;

/// Length of the accept queue; the system's limit (`net.core.somaxconn`) may be lower.
const ACCEPT_QUEUE_MAX: i32 = 4096;

/// Limit of unsent bytes in the kernel with [`UnsentCap::On`]: enough to keep a fast link busy, and sent within 130 ms on a
/// link of 1 Mbit/s.
pub(crate) const UNSENT_MAX: u16 = 16 << 10;

/// Socket options of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Congestion control algorithm, such as `cubic`; `None` for the system's default.
    pub congestion: Option<String>,
    /// Size of the send buffer in bytes; `None` lets the kernel adapt it.
    pub send_buffer: Option<usize>,
    /// Size of the receive buffer in bytes; `None` lets the kernel adapt it.
    pub recv_buffer: Option<usize>,
}

impl Options {
    /// Sets the options, and `TCP_NODELAY`, since every write is complete.
    ///
    /// # Errors
    /// `NotFound` if the system does not know the congestion control algorithm.
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

/// The options of a connection as the kernel has them; `None` where it does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectiveOptions {
    /// Congestion control algorithm.
    pub congestion: Option<String>,
    /// Size of the send buffer in bytes. The kernel grows it while data is sent.
    pub send_buffer: Option<usize>,
    /// Size of the receive buffer in bytes. The kernel grows it while data is received.
    pub recv_buffer: Option<usize>,
    /// `TCP_NODELAY`: small segments are sent at once.
    pub no_delay: Option<bool>,
}

impl EffectiveOptions {
    /// Reads the options of `socket`.
    pub fn of(socket: impl AsFd) -> Self {
        Self {
            congestion: sockopt::tcp_congestion(&socket).ok(),
            send_buffer: sockopt::socket_send_buffer_size(&socket).ok(),
            recv_buffer: sockopt::socket_recv_buffer_size(&socket).ok(),
            no_delay: sockopt::tcp_nodelay(&socket).ok(),
        }
    }
}

/// Whether an interface of this network namespace has the address `ip`.
pub fn is_local(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether this system has IPv6.
pub fn has_ipv6() -> bool {
    let bound = std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, 0));
    bound.err().is_none_or(|e| !is_no_ipv6(&e))
}

/// Opens a listener on `addr`. The IPv6 wildcard address accepts IPv4 as well, and only IPv4 on a system without IPv6.
/// Accepted connections inherit `options` without further system calls.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`, and errors of [`Options::apply`].
pub fn listen(addr: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    match listen_on(addr, options) {
        Err(e) if addr.ip().is_unspecified() && addr.is_ipv6() && is_no_ipv6(&e) => {
            listen_on(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), addr.port()), options)
        }
        listener => listener,
    }
}

fn listen_on(addr: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    let fd = open_tcp(addr)?;
    options.apply(&fd)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !addr.ip().is_unspecified())?;
    }
    bind(&fd, &addr)?;
    start_listening(&fd, ACCEPT_QUEUE_MAX)?;
    Ok(TcpListener::from(fd))
}

/// Starts to connect to `addr`. [`Connected`](crate::IoEvent::Connected) reports success.
///
/// # Errors
/// Errors that the system reports at once.
pub fn start_connect(addr: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let stream = TcpStream::from(open_tcp(addr)?);
    options.apply(&stream)?;
    match connect(&stream, &addr) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(stream),
        Err(e) => Err(e.into()),
    }
}

/// Sets `TCP_NOTSENT_LOWAT`: the socket is writable only while fewer unsent bytes are in the kernel. Ignored if the kernel
/// does not have it.
pub(crate) fn set_unsent_cap(stream: &TcpStream, cap: UnsentCap) {
    let max = match cap {
        UnsentCap::Off => u32::MAX,
        UnsentCap::On => UNSENT_MAX.into(),
    };
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(max);
}

/// Makes `stream` end with a reset when it is dropped, so that no state (`TIME_WAIT`) remains in the kernel.
pub fn reset(stream: &TcpStream) {
    // If it fails, the connection is closed normally.
    let _ = sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
}

/// Makes `stream` end normally, after [`reset`].
pub(crate) fn no_reset(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, None);
}

fn open_tcp(addr: SocketAddr) -> io::Result<std::os::fd::OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

fn is_no_ipv6(e: &io::Error) -> bool {
    e.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
        || e.kind() == io::ErrorKind::AddrNotAvailable
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes the kernel takes for a connection whose peer reads nothing.
    fn accepted_bytes(cap: UnsentCap) -> usize {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, _) = listener.accept().unwrap();
        let options = Options { send_buffer: Some(8 << 20), ..Options::default() };
        options.apply(&stream).unwrap();
        stream.set_nonblocking(true).unwrap();
        set_unsent_cap(&stream, cap);
        let (bytes, mut taken) = (vec![0; UNSENT_MAX.into()], 0);
        while let Ok(n) = io::Write::write(&mut stream, &bytes) {
            taken += n;
        }
        taken
    }

    #[test]
    fn the_effective_options_are_those_of_the_kernel() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(EffectiveOptions::of(&stream).no_delay, Some(false));
        let bytes = 64 << 10;
        let options = Options {
            send_buffer: Some(bytes),
            congestion: Some("reno".into()),
            ..Options::default()
        };
        options.apply(&stream).unwrap();
        let effective = EffectiveOptions::of(&stream);
        assert_eq!(effective.no_delay, Some(true));
        assert_eq!(effective.congestion.as_deref(), Some("reno"));
        assert_eq!(
            effective.send_buffer,
            Some(2 * bytes),
            "the kernel doubles it for its own data"
        );
        assert!(effective.recv_buffer > Some(0));
    }

    #[test]
    fn local_addresses_are_those_of_this_machine() {
        assert!(is_local(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        // TEST-NET-1 is for documentation.
        assert!(!is_local(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))));
    }

    #[test]
    fn the_kernel_takes_fewer_bytes_with_the_unsent_cap() {
        let (uncapped, capped) = (accepted_bytes(UnsentCap::Off), accepted_bytes(UnsentCap::On));
        assert!(capped * 2 < uncapped, "{capped} and {uncapped}");
    }
}
