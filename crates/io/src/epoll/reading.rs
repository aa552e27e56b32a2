//! What happens on ready streams, and how they are read.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use super::{Epoll, OnPeerShutdown, Socket, is_read};
use crate::connection::send_rest;
use crate::tls::{StreamEnd, TlsReception};
use crate::{ConnId, ConnectionError};

/// An event of a ready stream.
pub(super) enum StreamEvent {
    None,
    NothingReceived,
    Connected,
    Writable,
    Read(usize),
    /// So many bytes of plaintext were received on a connection with TLS.
    ReadTls(usize),
    /// What TLS has encrypted was sent, as far as there was room.
    Flushed,
    /// The peer has shut down its sending side, and the connection is kept.
    PeerShutdown,
    Closed(Option<ConnectionError>),
}

impl Epoll {
    /// The next event of a ready stream: first whether it is connected or writable, then what a read returns.
    pub(super) fn stream_event(&mut self, id: ConnId, flags: EventFlags) -> StreamEvent {
        let Some(socket) = self.slab.get_mut(id) else { return StreamEvent::None };
        let Socket::Stream { stream, tls, interest, read_events, load, early, .. } = socket else {
            return StreamEvent::None;
        };
        if flags.contains(EventFlags::OUT) && interest.contains(EventFlags::OUT) {
            return self.writable_event(id, flags);
        }
        if !is_read(*interest) {
            let is_closed = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            return if is_closed { StreamEvent::Closed(None) } else { StreamEvent::None };
        }
        let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if !flags.intersects(readable) {
            return StreamEvent::None;
        }
        let load = *load;
        let rx = self.rx.get_mut(..load.read_max(self.read_max)).unwrap_or_default();
        let early_len = if early.is_empty() { 0 } else { early.take(rx) };
        if early_len > 0 {
            if !early.is_empty() {
                self.early.push(id);
            }
            let has_tls = tls.is_some();
            self.set_load(id, load.after_read(early_len, self.read_max));
            return if has_tls {
                self.receive_tls(id, early_len)
            } else {
                StreamEvent::Read(early_len)
            };
        }
        match recv(&*stream, rx, RecvFlags::DONTWAIT) {
            Ok((0, _)) if self.on_peer_shutdown == OnPeerShutdown::KeepOpen => {
                StreamEvent::PeerShutdown
            }
            Ok((0, _)) => {
                let end = tls.as_mut().map_or(StreamEnd::Closed, |tls| tls.receive_end());
                StreamEvent::Closed(end.error())
            }
            Ok((n, _)) => {
                let new = load.after_read(n, self.read_max);
                let has_tls = tls.is_some();
                if new != load {
                    self.set_load(id, new);
                }
                if has_tls { self.receive_tls(id, n) } else { StreamEvent::Read(n) }
            }
            Err(Errno::AGAIN) if read_events.is_some() => StreamEvent::NothingReceived,
            Err(Errno::AGAIN | Errno::INTR) => StreamEvent::None,
            Err(e) => StreamEvent::Closed(Some(e.kind().into())),
        }
    }

    /// The event of a stream that is connected or writable, or could not be connected.
    fn writable_event(&mut self, id: ConnId, flags: EventFlags) -> StreamEvent {
        let Some(Socket::Stream { stream, tls, is_connecting, unsent, .. }) = self.slab.get_mut(id)
        else {
            return StreamEvent::None;
        };
        if flags.contains(EventFlags::ERR) {
            let error = sockopt::socket_error(&*stream).ok().and_then(Result::err);
            return StreamEvent::Closed(error.map(|errno| errno.kind().into()));
        }
        if std::mem::take(is_connecting) {
            return StreamEvent::Connected;
        }
        if tls.is_some() {
            return self.flush_tls(id);
        }
        match send_rest(stream, unsent) {
            Ok(()) if unsent.is_empty() => StreamEvent::Writable,
            Ok(()) => StreamEvent::Flushed,
            Err(error) => StreamEvent::Closed(Some(error)),
        }
    }

    /// Sends what TLS has encrypted, and sets the interest in room for more.
    fn flush_tls(&mut self, id: ConnId) -> StreamEvent {
        let Some(Socket::Stream { stream, tls: Some(tls), .. }) = self.slab.get_mut(id) else {
            return StreamEvent::None;
        };
        if let Err(error) = tls.flush(stream) {
            return StreamEvent::Closed(Some(error));
        }
        if !tls.has_unsent() && tls.wants_room() && tls.take_writable() {
            return StreamEvent::Writable;
        }
        let wants_room = tls.wants_room();
        self.set_interest(id, |interest| {
            if wants_room { interest | EventFlags::OUT } else { interest - EventFlags::OUT }
        });
        StreamEvent::Flushed
    }

    /// Decrypts the first `n` bytes of `rx`, which were received on a connection with TLS.
    fn receive_tls(&mut self, id: ConnId, n: usize) -> StreamEvent {
        let Some(Socket::Stream { stream, tls: Some(tls), .. }) = self.slab.get_mut(id) else {
            return StreamEvent::None;
        };
        let ciphertext = self.rx.get(..n).unwrap_or_default();
        let received = tls.receive_and_reply(stream, ciphertext, &mut self.plaintext);
        let TlsReception { plaintext, has_ended, error, is_newly_established } = received;
        if is_newly_established {
            self.established.push(id);
        }
        if plaintext > 0 {
            self.received_bytes = tls.take_received();
        }
        let wants_room = tls.wants_room();
        match (plaintext, has_ended) {
            (0, true) => return StreamEvent::Closed(error),
            (_, true) => self.ended.push((id, error)),
            (_, false) if wants_room => {
                self.set_interest(id, |interest| interest | EventFlags::OUT);
            }
            (_, false) => {}
        }
        if plaintext > 0 { StreamEvent::ReadTls(plaintext) } else { StreamEvent::None }
    }
}
