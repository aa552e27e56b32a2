//! Packet sockets: the TCP packets that a network interface sends and receives.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{fmt, ptr};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with, sockopt};
use socket2::{SockFilter, SockRef};

/// The name that stands for all interfaces.
const ANY: &str = "any";

/// Size of the receive buffer: 50 ms of a link of 10 Gbit/s, while the program writes to a slow terminal. Packets beyond it
/// are dropped and counted. Without the capability `CAP_NET_ADMIN`, the system's limit (`net.core.rmem_max`) may be lower.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// Maximum length of a packet; longer ones are truncated. The kernel hands over the packets of a stream together, up to 64 KiB,
/// or more with "big TCP".
const PACKET_BYTES_MAX: u32 = 256 << 10;

/// Size of the buffer for control messages, in words: one with a timestamp needs four.
const CONTROL_WORDS: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "17")]
const ADDRESS_FAMILY: libc::sa_family_t = libc::AF_PACKET as libc::sa_family_t;

#[expect(clippy::cast_possible_truncation, reason = "3")]
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// Only TCP; and of the loopback interface, which shows each packet when it is sent and when it is received, only the latter.
/// In the offsets of the comments, 0 is the start of the network header.
const FILTER: [SockFilter; 16] = {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ANCILLARY: u32 = libc::SKF_AD_OFF.cast_unsigned();
    const PACKET_TYPE: u32 = ANCILLARY + libc::SKF_AD_PKTTYPE.cast_unsigned();
    const HARDWARE_TYPE: u32 = ANCILLARY + libc::SKF_AD_HATYPE.cast_unsigned();
    const ETHER_TYPE: u32 = ANCILLARY + libc::SKF_AD_PROTOCOL.cast_unsigned();
    [
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_IF_EQUAL, 0, 2, libc::PACKET_OUTGOING as u32),
        SockFilter::new(LOAD_WORD, 0, 0, HARDWARE_TYPE),
        SockFilter::new(JUMP_IF_EQUAL, 11, 0, libc::ARPHRD_LOOPBACK as u32), // to "reject"
        SockFilter::new(LOAD_WORD, 0, 0, ETHER_TYPE),
        SockFilter::new(JUMP_IF_EQUAL, 3, 0, 0x0800), // IPv4, to 9
        SockFilter::new(JUMP_IF_EQUAL, 4, 0, 0x86dd), // IPv6, to 11
        SockFilter::new(JUMP_IF_EQUAL, 6, 0, 0x8100), // VLAN tag, to "accept"
        SockFilter::new(JUMP_IF_EQUAL, 5, 6, 0x88a8), // VLAN tag, to "accept" or "reject"
        SockFilter::new(LOAD_BYTE, 0, 0, 9),
        SockFilter::new(JUMP_IF_EQUAL, 3, 4, 6), // TCP, to "accept" or "reject"
        SockFilter::new(LOAD_BYTE, 0, 0, 6),
        SockFilter::new(JUMP_IF_EQUAL, 2, 0, 17), // UDP, to "reject"; before TCP there may be extension headers
        SockFilter::new(JUMP_IF_EQUAL, 1, 0, 58), // ICMPv6, to "reject"
        SockFilter::new(RETURN, 0, 0, PACKET_BYTES_MAX), // accept
        SockFilter::new(RETURN, 0, 0, 0),         // reject
    ]
};

/// A TCP packet of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedPacket<'a> {
    /// Time since 1970 at which the kernel captured it.
    pub since_epoch: Duration,
    /// `EtherType` of the network header.
    pub ether_type: u16,
    /// The packet from its network header on.
    pub bytes: &'a [u8],
}

/// Packets since the socket was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Packets that were put into the receive buffer.
    pub received: u64,
    /// Packets that were dropped because the receive buffer was full.
    pub dropped: u64,
}

/// Why a socket cannot be opened. `Display` says what to do.
#[derive(Debug)]
pub enum OpenError {
    /// The privilege is missing.
    Permission {
        /// Name of the interface.
        interface: String,
    },
    /// There is no such interface.
    UnknownInterface {
        /// Its name.
        interface: String,
    },
    /// Another error of the system.
    System {
        /// Name of the interface.
        interface: String,
        /// The error.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permission { interface } => write!(
                f,
                "cannot capture on {interface}: permission denied: run this as root, or with the capability CAP_NET_RAW"
            ),
            Self::UnknownInterface { interface } => write!(
                f,
                "cannot capture on {interface}: no such interface (`ip link` lists them; `{ANY}` stands for all)"
            ),
            Self::System { interface, error } => {
                write!(f, "cannot capture on {interface}: {error}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Receives copies of the TCP packets of one interface, or of all.
///
/// # Kernel
/// Linux 2.6.27.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    buffer: Box<[u8]>,
    counts: PacketCounts,
}

impl PacketSocket {
    /// Opens a socket for the interface with this name in the namespace of the calling thread; `any` stands for all.
    ///
    /// # Errors
    /// See [`OpenError`]. The capability `CAP_NET_RAW` is needed.
    pub fn open(interface: &str) -> Result<Self, OpenError> {
        let failed = |errno| match errno {
            Errno::PERM | Errno::ACCESS => OpenError::Permission { interface: interface.into() },
            Errno::NODEV => OpenError::UnknownInterface { interface: interface.into() },
            _ => OpenError::System { interface: interface.into(), error: errno.into() },
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol, it receives nothing until it is bound.
        let fd = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None);
        let fd = fd.map_err(failed)?;
        let index = match interface {
            ANY => 0,
            _ => netdevice::name_to_index(&fd, interface).map_err(failed)?,
        };
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER_BYTES / 2)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER_BYTES / 2))
            .map_err(failed)?;
        let io_failed = |error| OpenError::System { interface: interface.into(), error };
        SockRef::from(&fd).attach_filter(&FILTER).map_err(io_failed)?;
        enable_timestamps(&fd).map_err(io_failed)?;
        bind(&fd, index).map_err(io_failed)?;
        let buffer = vec![0; PACKET_BYTES_MAX as usize].into_boxed_slice();
        Ok(Self { fd, buffer, counts: PacketCounts::default() })
    }

    /// The next packet; `None` if there is none yet. Packets of one connection come in the order in which they were captured.
    ///
    /// # Errors
    /// The interface is down or was removed.
    #[expect(unsafe_code, reason = "rustix does not hand over timestamps")]
    pub fn receive(&mut self) -> io::Result<Option<ReceivedPacket<'_>>> {
        let mut control = [0_u64; CONTROL_WORDS];
        let mut iov =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // SAFETY: all bytes zero is a valid value of both C structures: integers and null pointers.
        let (mut address, mut message) =
            unsafe { (zeroed::<libc::sockaddr_ll>(), zeroed::<libc::msghdr>()) };
        message.msg_name = ptr::from_mut(&mut address).cast();
        message.msg_namelen = socklen(size_of::<libc::sockaddr_ll>());
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let len = loop {
            // SAFETY: the pointers in `message` are those of `address`, `iov`, `self.buffer` and `control`, which live longer
            // than the call, with their lengths; nothing else accesses them meanwhile.
            let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) };
            match usize::try_from(len) {
                Ok(len) => break len,
                Err(_) => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        };
        Ok(Some(ReceivedPacket {
            // SAFETY: `recvmsg` has filled `message`, and its control buffer still lives.
            since_epoch: unsafe { timestamp(&message) }.unwrap_or_else(crate::clock::since_epoch),
            ether_type: u16::from_be(address.sll_protocol),
            bytes: self.buffer.get(..len).unwrap_or_default(),
        }))
    }

    /// Number of packets since the socket was opened. Call it at least once in 2³² packets, since the kernel counts in 32 bits.
    ///
    /// # Errors
    /// Errors of `getsockopt`.
    #[expect(unsafe_code, reason = "rustix has no wrapper of this option")]
    pub fn counts(&mut self) -> io::Result<PacketCounts> {
        let mut stats = MaybeUninit::<libc::tpacket_stats>::zeroed();
        let mut len = socklen(size_of::<libc::tpacket_stats>());
        // SAFETY: the kernel writes at most `len` bytes to `stats`, which has that size.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all bytes are initialised, by `zeroed` or by the kernel, and any are valid for its integers.
        let stats = unsafe { stats.assume_init() };
        // The kernel starts again at zero with each call, and counts dropped packets among all.
        self.counts.received += u64::from(stats.tp_packets.saturating_sub(stats.tp_drops));
        self.counts.dropped += u64::from(stats.tp_drops);
        Ok(self.counts)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Lets the kernel add to each packet the time at which it was captured.
#[expect(unsafe_code, reason = "rustix has no wrapper of this option")]
fn enable_timestamps(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads the size of `on` bytes from `on`, which lives longer than the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            ptr::from_ref(&on).cast(),
            socklen(size_of_val(&on)),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a packet socket to all protocols of the interface with this index, or of all interfaces if it is 0.
#[expect(unsafe_code, reason = "rustix has no address of packet sockets")]
fn bind(fd: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all bytes zero is a valid value: the structure consists of integers.
    let mut address = unsafe { zeroed::<libc::sockaddr_ll>() };
    address.sll_family = ADDRESS_FAMILY;
    address.sll_protocol = ALL_PROTOCOLS.to_be();
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the kernel reads the size of `address` bytes from `address`, which lives longer than the call.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            socklen(size_of::<libc::sockaddr_ll>()),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The timestamp in the control messages of a received message; `None` if there is none.
///
/// # Safety
/// `msg_control` must point to `msg_controllen` readable bytes of control messages, aligned for their headers.
#[expect(unsafe_code, reason = "the macros of the C library read pointers")]
unsafe fn timestamp(message: &libc::msghdr) -> Option<Duration> {
    // SAFETY: by the contract of this function, the control messages are readable.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the macros return null or a pointer to a header within the buffer, which is aligned for it.
        let libc::cmsghdr { cmsg_level, cmsg_type, .. } = unsafe { *header };
        if (cmsg_level, cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: the data of a message of this type are a `timespec`, which may be unaligned.
            let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let seconds = u64::try_from(time.tv_sec).ok()?;
            return Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?));
        }
        // SAFETY: as for the first header; `header` is the one before.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// The length of a structure, as the socket functions expect it.
fn socklen(len: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(len).unwrap_or(libc::socklen_t::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Instant;

    use super::*;
    use crate::{clock, poll};

    /// A socket on the loopback interface; `None`, which is reported, without the privilege.
    fn loopback() -> Option<PacketSocket> {
        match PacketSocket::open("lo") {
            Ok(socket) => Some(socket),
            Err(error @ OpenError::Permission { .. }) => {
                println!("SKIP: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Receives packets until one contains `bytes`, and returns how many did by then.
    fn receive_until(socket: &mut PacketSocket, bytes: &[u8], deadline: Instant) -> Duration {
        loop {
            if let Some(packet) = socket.receive().unwrap() {
                if packet.bytes.ends_with(bytes) {
                    assert_eq!((packet.ether_type, packet.bytes[9]), (0x0800, 6), "IPv4, TCP");
                    return packet.since_epoch;
                }
                continue;
            }
            assert!(clock::now() < deadline, "the packet was not captured");
            poll::wait_readable([socket.as_fd()], Some(deadline)).unwrap();
        }
    }

    #[test]
    fn tcp_packets_are_captured_once_with_their_time_and_others_are_not() {
        let Some(mut socket) = loopback() else { return };
        let deadline = clock::now() + Duration::from_secs(20);
        let before = clock::since_epoch();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.send_to(b"seen as UDP", udp.local_addr().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for text in [&b"the first packet"[..], b"the second packet"] {
            client.write_all(text).unwrap();
            server.read_exact(&mut vec![0; text.len()]).unwrap();
            let time = receive_until(&mut socket, text, deadline);
            assert!(time >= before && time <= clock::since_epoch(), "{time:?}");
        }
        client.write_all(b"the last packet").unwrap();
        let mut texts = Vec::new();
        while !texts.iter().any(|text: &Vec<u8>| text.ends_with(b"the last packet")) {
            assert!(clock::now() < deadline, "the packet was not captured");
            match socket.receive().unwrap() {
                Some(packet) => texts.push(packet.bytes.to_vec()),
                None => _ = poll::wait_readable([socket.as_fd()], Some(deadline)).unwrap(),
            }
        }
        assert!(!texts.iter().any(|text| text.ends_with(b"the second packet")), "captured twice");
        assert!(socket.counts().unwrap().received >= 3);
    }

    #[test]
    fn packets_that_are_not_read_are_dropped_and_counted() {
        let Some(mut socket) = loopback() else { return };
        // The smallest size that the kernel allows.
        sockopt::set_socket_recv_buffer_size(&socket.fd, 0).unwrap();
        let deadline = clock::now() + Duration::from_secs(20);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        while socket.counts().unwrap().dropped == 0 {
            assert!(clock::now() < deadline, "{:?}", socket.counts());
            drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            drop(listener.accept().unwrap());
        }
    }

    #[test]
    fn an_interface_that_does_not_exist_is_named_in_the_error() {
        if loopback().is_some() {
            let error = PacketSocket::open("no-such-if").unwrap_err().to_string();
            assert!(error.contains("no-such-if: no such interface"), "{error}");
        }
    }
}
