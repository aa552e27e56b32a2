//! Sockets, threads, clocks: all system calls.
//!
//! An event loop calls [`Io::wait`], then [`Io::next_event`] until there are no more events, and [`Io::send`] and
//! [`Io::close`] as needed. Backends transfer bytes and do not interpret them.

mod accepting;
pub mod clock;
pub mod command;
mod connection;
pub mod cores;
mod early_bytes;
pub mod energy;
mod epoll;
pub mod files;
#[expect(unsafe_code, reason = "an allocator cannot be written otherwise")]
mod huge_pages;
pub mod input_file;
pub mod limits;
pub mod memory;
pub mod named_pipe;
pub mod netns;
pub mod packet_socket;
pub mod poll;
pub mod priority;
pub mod process_tree;
mod read_order;
#[expect(unsafe_code, reason = "rustix does not have this option")]
mod sent_bytes;
#[expect(unsafe_code, reason = "a file descriptor of the environment has no owner yet")]
pub mod service_manager;
#[expect(unsafe_code, reason = "a mapping cannot be made otherwise")]
mod shared_memory;
pub mod shell;
pub mod simulated;
mod slab;
pub mod sock;
pub mod terminal;
mod tls;
pub mod tun;
mod uring;
mod waker;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub use connection::Connection;
pub use epoll::{Epoll, OnPeerShutdown, READ_BYTES_MAX, WaitStrategy};
pub use huge_pages::{HugePageAlloc, disable_huge_pages};
pub use read_order::ReadSizes;
pub use sent_bytes::taken_bytes;
pub use shared_memory::SharedMemory;
pub use tls::{
    ClientAuth, ConnectionError, TlsClient, TlsError, TlsFileError, TlsServer, https_client,
};
pub use uring::{Uring, UringError};
pub use waker::Waker;

/// Wakes a thread that waits in [`Io::wait`].
pub trait Wake: Clone + Send + Sync + std::fmt::Debug + 'static {
    /// Wakes the thread, or keeps it from blocking the next time.
    fn wake(&self);
}

/// Identifies a connection of an [`Io`]. Never reused. The default value identifies no connection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(u64);

impl ConnId {
    /// A small number, unique among the open connections, for use as an index.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// An event of an [`Io`].
#[derive(Debug)]
pub enum IoEvent<'a, C> {
    /// A listener accepted a connection, with the address of the peer; [`Io::adopt`] adds it. The address of an IPv4 peer is an
    /// IPv4 address even if the listener, which comes last, is an IPv6 one.
    Accepted(C, SocketAddr, ConnId),
    /// An outgoing connection is established, or the TLS handshake of an accepted one is complete. In the second case, the first
    /// [`Data`](Self::Data) may precede.
    Connected(ConnId),
    /// The bytes of one read. There may be more.
    Data(ConnId, &'a [u8]),
    /// The connection takes bytes again after a [`send`](Io::send) that took less than all, or after which
    /// [`unsent_bytes`](Io::unsent_bytes) was not zero.
    Writable(ConnId),
    /// The connection was closed by the peer, or failed with an error.
    Closed(ConnId, Option<ConnectionError>),
    /// The connection became readable, and there was nothing to read, since the kernel had processed what was received. Only
    /// for connections for which [`Io::set_read_events`] was called.
    NothingReceived(ConnId),
    /// Another thread called [`Waker::wake`], or a file descriptor of [`Io::wake_by`] is readable, or one of
    /// [`Io::wake_once_by`] has become so.
    Woken,
    /// A connection could not be accepted, for lack of file descriptors or memory; see [`limits::remedy`].
    AcceptFailed(io::Error),
}

/// A set of connections, the events of all of them, and the clock of the thread that owns it.
///
/// The engine does everything outside of itself through this trait, so that it runs unchanged on simulated connections and
/// in simulated time.
pub trait Io {
    /// A connection that is not in a set.
    type Conn: Send + std::fmt::Debug + 'static;

    /// A listener that is not in a set.
    type Listener: Send + std::fmt::Debug + 'static;

    /// What wakes the thread.
    type Waker: Wake;

    /// The current time.
    fn now(&self) -> Instant;

    /// Time since 1970-01-01 UTC.
    fn since_epoch(&self) -> Duration;

    /// Interrupts [`wait`](Io::wait) from another thread.
    fn waker(&self) -> Self::Waker;

    /// Has [`wait`](Self::wait) return while `fd` is readable, too.
    ///
    /// # Errors
    /// Errors of the operating system; `Unsupported` where there are no file descriptors.
    fn wake_by(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let _ = fd;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Has [`wait`](Self::wait) return once each time that `fd` becomes readable, too, whether it is read then or not.
    ///
    /// # Errors
    /// Those of [`wake_by`](Self::wake_by).
    fn wake_once_by(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let _ = fd;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Accepts connections on `listener`.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn listen(&mut self, listener: Self::Listener) -> io::Result<ConnId>;

    /// Has a listener accept connections that carry TLS from now on, or plain ones. Simulated connections never carry TLS.
    fn set_tls(&mut self, listener: ConnId, tls: Option<&TlsServer>) {
        let _ = (listener, tls);
    }

    /// Whether the peer's certificate has `name` as a DNS name or as the first word of its common name; `None` if the connection
    /// carries no TLS.
    fn certificate_has_name(&mut self, id: ConnId, name: &str) -> Option<bool> {
        let _ = (id, name);
        None
    }

    /// Waits for events or until `deadline`; returns the current time.
    ///
    /// # Errors
    /// Errors of the operating system, after which the set cannot be used.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant>;

    /// Waits for a call of the waker or until `deadline`, and leaves connections alone; returns the current time. The next
    /// event is [`Woken`](IoEvent::Woken), or there is none.
    ///
    /// # Errors
    /// As [`wait`](Io::wait).
    fn wait_for_wake(&mut self, deadline: Instant) -> io::Result<Instant>;

    /// The next event; `None` if there are no more until the next [`wait`](Io::wait).
    fn next_event(&mut self) -> Option<IoEvent<'_, Self::Conn>>;

    /// Sends as many of `bytes` as the kernel takes, and returns the number. If that is not all, [`Writable`](IoEvent::Writable)
    /// follows. A failed connection takes all, and [`Closed`](IoEvent::Closed) follows.
    ///
    /// With TLS, up to 64 KiB more are taken, encrypted, and kept until the kernel takes them; see
    /// [`unsent_bytes`](Self::unsent_bytes). Before the end of the TLS handshake, up to 64 KiB are taken and kept in all.
    ///
    /// [`Uring`] may send up to 4 KiB with the next [`wait`](Self::wait), and counts them as sent until then.
    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize;

    /// Number of bytes that [`send`](Self::send) has taken and the kernel has not, when it was offered them; with [`Epoll`] always zero
    /// without TLS.
    fn unsent_bytes(&mut self, id: ConnId) -> usize {
        let _ = id;
        0
    }

    /// Sets or removes the limit on unsent bytes in the kernel.
    fn set_unsent_cap(&mut self, id: ConnId, cap: UnsentCap);

    /// Limits the bytes of one [`Data`](IoEvent::Data). With TLS, [`Data`](IoEvent::Data) has up to 16 KiB more: the start of its first record, which
    /// earlier reads have taken.
    fn set_read_max(&mut self, bytes: usize);

    /// Number of received bytes that are not reported yet. With TLS they are encrypted, which makes them more.
    fn unread_bytes(&mut self, id: ConnId) -> usize;

    /// By how many bytes [`unread_bytes`](Self::unread_bytes) was reduced for the last [`Data`](IoEvent::Data), whose length is
    /// `data_len`. This is another number with TLS only.
    fn received_bytes(&self, data_len: usize) -> usize {
        data_len
    }

    /// Stops or resumes reading from a connection.
    fn set_reading(&mut self, id: ConnId, reading: Reading);

    /// Sets when the set reads from a connection. It reports its end in any case, and from now on also
    /// [`NothingReceived`](IoEvent::NothingReceived).
    fn set_read_events(&mut self, id: ConnId, events: ReadEvents) {
        let _ = (id, events);
    }

    /// The socket of a connection that carries no TLS; `None` if there is none, as of simulated connections.
    fn plain_socket(&self, id: ConnId) -> Option<BorrowedFd<'_>> {
        let _ = id;
        None
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// Errors of the operating system; the connection is closed then.
    fn adopt(&mut self, conn: Self::Conn) -> io::Result<ConnId>;

    /// Removes a connection without closing it; `None` if it is not in the set.
    fn release(&mut self, id: ConnId) -> Option<Self::Conn>;

    /// Closes a connection; it has no events afterwards.
    fn close(&mut self, id: ConnId);
}

/// Whether the unsent bytes of a connection in the kernel are limited (`TCP_NOTSENT_LOWAT`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum UnsentCap {
    /// Limited by the send buffer only, so that the kernel always has something to send.
    #[default]
    Off,
    /// Limited to 16 KiB. Nothing can overtake bytes in the kernel, and on a slow link they would stay there for seconds.
    On,
}

/// When a set reads from a connection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ReadEvents {
    /// While it is readable. Set after [`Off`](Self::Off), the connection is read at once.
    #[default]
    WhileReadable,
    /// When this is set and when something arrives, also if there is nothing to read yet.
    OnArrival,
    /// Never.
    Off,
}

/// Whether a connection is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Data is read.
    On,
    /// Data is left in the kernel, so that TCP slows the peer down.
    Off,
}
