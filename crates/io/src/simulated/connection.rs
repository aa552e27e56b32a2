//! A connection between a simulated thread and its peer, as the kernel's part of TCP sees it.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;

use crate::{UnsentCap, sock};

/// Sizes of the two buffers of a connection, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// Bytes from the peer that wait to be read.
    pub receive: usize,
    /// Bytes for the peer that it has not received.
    pub send: usize,
}

impl Default for BufferSizes {
    fn default() -> Self {
        Self { receive: 128 << 10, send: 128 << 10 }
    }
}

/// What the peer of a connection knows about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// Neither side has closed it, or there are bytes to receive before its end.
    Open,
    /// The other side has closed it, and everything that it had sent was received.
    EndOfStream,
    /// The other side has reset it, and what was not received is lost.
    Reset,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Closed,
    Reset,
}

/// A connection. *Local* is the side of the simulated thread.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer_addr: SocketAddr,
    pub(super) sizes: BufferSizes,
    unread: VecDeque<u8>,
    unsent: VecDeque<u8>,
    unsent_cap: UnsentCap,
    local: End,
    peer: End,
    /// What operations of the local end fail with.
    failure: Option<ErrorKind>,
}

impl Connection {
    pub(super) fn new(peer_addr: SocketAddr, sizes: BufferSizes) -> Self {
        Self {
            peer_addr,
            sizes,
            unread: VecDeque::new(),
            unsent: VecDeque::new(),
            unsent_cap: UnsentCap::Off,
            local: End::Open,
            peer: End::Open,
            failure: None,
        }
    }

    /// The events that `epoll` would report if there was interest in all of them.
    pub(super) fn events(&self) -> EventFlags {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, !self.unread.is_empty());
        events.set(EventFlags::OUT, self.send_room() > 0);
        if self.peer != End::Open {
            events |= EventFlags::IN | EventFlags::RDHUP;
        }
        if self.failure.is_some() {
            events |= EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
            events |= EventFlags::HUP | EventFlags::ERR;
        }
        events
    }

    /// Bytes that the local end can send now.
    fn send_room(&self) -> usize {
        let size = match self.unsent_cap {
            UnsentCap::Off => self.sizes.send,
            UnsentCap::On => self.sizes.send.min(sock::UNSENT_MAX.into()),
        };
        size.saturating_sub(self.unsent.len())
    }

    /// Takes as many of `bytes` as there is room for.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.peer != End::Open {
            // The first bytes for a closed peer are answered by a reset, which the next operation reports.
            self.unsent.clear();
            self.failure = Some(ErrorKind::BrokenPipe);
            return Ok(bytes.len());
        }
        let bytes = bytes.get(..self.send_room()).unwrap_or(bytes);
        self.unsent.extend(bytes);
        Ok(bytes.len())
    }

    /// Reads what has arrived, at most `max` bytes, into `out`. `Ok(0)` is the end of the stream.
    pub(super) fn read(&mut self, max: usize, out: &mut Vec<u8>) -> Result<usize, ErrorKind> {
        out.clear();
        if self.unread.is_empty() {
            // As in Linux, a reset after the end of the stream is not reported to a reader.
            return match self.peer {
                End::Closed => Ok(0),
                End::Open | End::Reset => Err(self.failure.unwrap_or(ErrorKind::WouldBlock)),
            };
        }
        out.extend(self.unread.drain(..max.min(self.unread.len())));
        Ok(out.len())
    }

    pub(super) fn set_unsent_cap(&mut self, cap: UnsentCap) {
        self.unsent_cap = cap;
    }

    pub(super) fn unread_bytes(&self) -> usize {
        self.unread.len()
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    pub(super) fn failure(&self) -> Option<ErrorKind> {
        self.failure
    }

    /// The local end is closed, by a reset if bytes of the peer have not been read.
    pub(super) fn close(&mut self) {
        if self.unread.is_empty() {
            self.local = End::Closed;
        } else {
            self.reset();
        }
    }

    /// The local end is reset.
    pub(super) fn reset(&mut self) {
        self.local = End::Reset;
        self.unread.clear();
        self.unsent.clear();
    }

    /// Whether the local end is open.
    pub(super) fn is_open(&self) -> bool {
        self.local == End::Open
    }

    /// Whether neither end exists any longer.
    pub(super) fn is_over(&self) -> bool {
        self.local != End::Open && self.peer != End::Open
    }

    /// The peer sends; returns how many of `bytes` there was room for.
    pub(super) fn peer_send(&mut self, bytes: &[u8]) -> usize {
        if self.peer != End::Open || bytes.is_empty() {
            return 0;
        }
        if self.local != End::Open {
            // Bytes for a closed connection are answered by a reset.
            self.reset();
            return bytes.len();
        }
        let bytes = bytes.get(..self.receive_room()).unwrap_or(bytes);
        self.unread.extend(bytes);
        bytes.len()
    }

    /// Bytes that the peer can send now.
    pub(super) fn receive_room(&self) -> usize {
        match (self.local, self.peer) {
            (_, End::Closed | End::Reset) => 0,
            (End::Open, _) => self.sizes.receive.saturating_sub(self.unread.len()),
            (End::Closed | End::Reset, _) => usize::MAX,
        }
    }

    /// The peer receives at most `max` bytes.
    pub(super) fn peer_receive(&mut self, max: usize) -> Vec<u8> {
        self.unsent.drain(..max.min(self.unsent.len())).collect()
    }

    pub(super) fn peer_state(&self) -> PeerState {
        match self.local {
            End::Closed if self.unsent.is_empty() => PeerState::EndOfStream,
            End::Open | End::Closed => PeerState::Open,
            End::Reset => PeerState::Reset,
        }
    }

    /// The peer closes its end, by a reset if it has not received everything.
    pub(super) fn peer_close(&mut self) {
        if self.unsent.is_empty() && self.peer == End::Open {
            self.peer = End::Closed;
        } else {
            self.peer_reset();
        }
    }

    /// The peer resets the connection: what it has not received is lost.
    pub(super) fn peer_reset(&mut self) {
        if self.peer == End::Open {
            self.peer = End::Reset;
            self.unsent.clear();
            self.failure = Some(ErrorKind::ConnectionReset);
        }
    }
}
