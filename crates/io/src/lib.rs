//! Sockets, threads, clocks: every system call.
//!
//! A loop over [`Io`] has four calls: [`wait`](Io::wait) for something to happen, take what happened with
//! [`next_event`](Io::next_event), [`send`](Io::send) what there is to say, and [`close`](Io::close). Backends move
//! bytes; none of them knows what the bytes mean.

pub mod clock;
pub mod cores;
mod epoll;
#[expect(unsafe_code, reason = "an allocator cannot be written otherwise")]
mod huge_pages;
pub mod limits;
pub mod named_pipe;
pub mod netns;
pub mod poll;
pub mod priority;
mod slab;
pub mod sock;
pub mod terminal;
pub mod tun;
mod waker;

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

pub use epoll::{Epoll, OnPeerShutdown, READ_BYTES_MAX, WaitStrategy};
pub use huge_pages::HugePageAlloc;
pub use waker::Waker;

/// One connection of one [`Io`]; never used again for another. The default is nobody's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(u64);

impl ConnId {
    /// A small number, unique among the connections that are open: an index for tables beside this one.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// What happened.
#[derive(Debug)]
pub enum IoEvent<'a, C> {
    /// A listener took a connection; it is nobody's until [`Io::adopt`]. A peer with an IPv4 address has that, even if
    /// it came by way of an IPv6 listener.
    Accepted(C, SocketAddr),
    /// An outgoing connection stands.
    Connected(ConnId),
    /// Bytes came, in order; one read, so perhaps more wait.
    Data(ConnId, &'a [u8]),
    /// There is room again after a [`send`](Io::send) that was cut short.
    Writable(ConnId),
    /// The peer is gone and the connection with it; `None` if it ended in order.
    Closed(ConnId, Option<io::ErrorKind>),
    /// Somebody used the [`Waker`].
    Woken,
    /// A connection could not be taken, for want of descriptors or memory; [`limits::remedy`] knows what to do.
    AcceptFailed(io::Error),
}

/// A set of connections, and how to wait for them.
pub trait Io {
    /// A connection that belongs to no set.
    type Conn: Send + std::fmt::Debug;

    /// Waits until something happened or `deadline` has passed; returns the time then.
    ///
    /// # Errors
    /// What the operating system says; the set is useless then.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant>;

    /// The next thing that happened; `None` when it is time to wait again.
    fn next_event(&mut self) -> Option<IoEvent<'_, Self::Conn>>;

    /// Hands `bytes` over as far as there is room and returns how far. Less than all asks for
    /// [`Writable`](IoEvent::Writable). A connection that is gone takes everything and is reported closed.
    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize;

    /// How much the kernel takes for a connection beyond what it can send, from now on.
    fn set_unsent_cap(&mut self, id: ConnId, holding: UnsentCap);

    /// How many bytes have come that are not read yet.
    fn unread_bytes(&mut self, id: ConnId) -> usize;

    /// Reads no more from a connection, or again.
    fn set_reading(&mut self, id: ConnId, reading: Reading);

    /// Takes a connection into the set.
    ///
    /// # Errors
    /// What the operating system says; the connection is closed then.
    fn adopt(&mut self, conn: Self::Conn) -> io::Result<ConnId>;

    /// Takes a connection out of the set, open; `None` if it was not in it.
    fn release(&mut self, id: ConnId) -> Option<Self::Conn>;

    /// Closes a connection; nothing is reported of it any more.
    fn close(&mut self, id: ConnId);
}

/// How much the kernel takes for a connection beyond what it can send.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum UnsentCap {
    /// What its buffer holds: it has something to send whenever it can.
    #[default]
    Off,
    /// Little: what it has taken nothing can overtake, and over a thin link it would stay there for seconds.
    On,
}

/// Whether a connection is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It is.
    On,
    /// It is not: its peer must first take what it was sent.
    Off,
}
