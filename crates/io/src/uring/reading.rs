//! What happens on connections, and how they are read.

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use super::ring::{Completion, Purpose};
use super::stream::{EndOfStream, InputRequest, Stream};
use super::{Socket, Uring};
use crate::connection::send_rest;
use crate::tls::TlsReception;
use crate::{ConnId, ConnectionError, Reading};

/// An event of a connection.
pub(super) enum StreamEvent {
    None,
    Woken,
    Writable,
    /// Bytes were received into the buffer in `reported`.
    Received,
    /// So many bytes were read.
    Read(usize),
    /// So many bytes of plaintext were received on a connection with TLS.
    ReadTls(usize),
    Closed(Option<ConnectionError>),
}

impl Uring {
    /// Handles a completion whose turn it is.
    pub(super) fn handle(&mut self, completion: Completion) -> StreamEvent {
        let (id, result) = (completion.id, completion.result);
        match completion.purpose {
            Purpose::Waker => {
                self.poll_waker();
                if self.waker.take() { StreamEvent::Woken } else { StreamEvent::None }
            }
            Purpose::Receive => self.handle_received(completion),
            Purpose::Input => {
                let request = match self.slab.get_mut(id) {
                    Some(Socket::Stream(stream)) => stream.input,
                    Some(Socket::Listener(_)) => {
                        self.accepting = Some(id);
                        None
                    }
                    None => None,
                };
                self.apply(completion);
                request.map_or(StreamEvent::None, |request| self.handle_input(id, request, result))
            }
            Purpose::Output => {
                self.apply(completion);
                self.handle_room(id, result)
            }
            Purpose::Send | Purpose::Cancel => StreamEvent::None,
        }
    }

    /// Bytes were received, or a request for them has ended.
    fn handle_received(&mut self, mut completion: Completion) -> StreamEvent {
        let (id, read_max) = (completion.id, self.read_max);
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else {
            self.apply(completion);
            return StreamEvent::None;
        };
        let mut event = StreamEvent::None;
        let reports = stream.reports_at_once();
        let buffer = completion.buffer.take_if(|it| reports && (1..=read_max).contains(&it.len()));
        if let Some(buffer) = buffer {
            if completion.is_last {
                (stream.input, stream.is_cancelling) = (None, false);
            }
            stream.load = stream.load.after_read(buffer.len(), read_max);
            self.received_bytes = buffer.len();
            self.reported = Some(buffer);
            event = StreamEvent::Received;
        } else {
            self.apply(completion);
            if reports {
                // More than one read may return, the end, or no buffer was left.
                event = self.read(id);
            } else {
                self.queue(id);
            }
        }
        self.update_input(id);
        event
    }

    /// A connection is readable or has failed.
    fn handle_input(
        &mut self,
        id: ConnId,
        request: InputRequest,
        result: Result<u32, Errno>,
    ) -> StreamEvent {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return StreamEvent::None };
        let mut event = StreamEvent::None;
        match (request, stream.reading, result) {
            (_, _, Err(Errno::CANCELED)) => {}
            (_, _, Err(error)) => return StreamEvent::Closed(Some(error.kind().into())),
            (InputRequest::Failure, Reading::Off, Ok(events))
                if events_of(events).intersects(PollFlags::HUP | PollFlags::ERR) =>
            {
                let error = if stream.wants_room() { socket_error(stream) } else { None };
                return StreamEvent::Closed(error);
            }
            (InputRequest::Readable, Reading::On, Ok(_)) if !stream.is_queued => {
                if stream.load.is_bulk() {
                    stream.is_queued = true;
                    self.bulk_queue.extend([id]);
                } else {
                    event = self.read(id);
                }
            }
            _ => {}
        }
        self.update_input(id);
        event
    }

    /// Has a connection read after the next wait, if it has bytes that are not in the kernel, or has ended.
    pub(super) fn queue(&mut self, id: ConnId) {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return };
        if stream.reading == Reading::On && stream.has_early() && !stream.is_queued {
            stream.is_queued = true;
            self.queued.push(id);
        }
    }

    /// Reads a connection that was in a queue.
    pub(super) fn read_queued(&mut self, id: ConnId) -> StreamEvent {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return StreamEvent::None };
        stream.is_queued = false;
        let event = match stream.reading {
            Reading::On => self.read(id),
            Reading::Off => StreamEvent::None,
        };
        self.update_input(id);
        event
    }

    /// Reads from a connection: early bytes first.
    fn read(&mut self, id: ConnId) -> StreamEvent {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return StreamEvent::None };
        let rx = self.rx.get_mut(..stream.load.read_max(self.read_max)).unwrap_or_default();
        let mut len = stream.early.take(rx);
        self.early_bytes -= len;
        // Not past bytes that the ring may receive.
        let room = rx.get_mut(len..).filter(|room| !room.is_empty());
        let receives = stream.input == Some(InputRequest::Receive);
        if let Some(room) = room.filter(|_| !receives && stream.end.is_none()) {
            match recv(&stream.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => stream.end = Some(EndOfStream::Closed),
                Ok((n, _)) => len += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => stream.end = Some(EndOfStream::Failed(error.kind().into())),
            }
        }
        if len == 0 {
            return match (stream.end, &mut stream.tls) {
                (None, _) => StreamEvent::None,
                (Some(EndOfStream::Closed), Some(tls)) => {
                    StreamEvent::Closed(tls.receive_end().error())
                }
                (Some(EndOfStream::Closed), None) => StreamEvent::Closed(None),
                (Some(EndOfStream::Failed(error)), _) => StreamEvent::Closed(Some(error)),
            };
        }
        stream.load = stream.load.after_read(len, self.read_max);
        let has_tls = stream.tls.is_some();
        self.queue(id);
        if has_tls {
            return self.receive_tls(id, len);
        }
        self.received_bytes = len;
        StreamEvent::Read(len)
    }

    /// Decrypts the first `len` bytes of `rx`, which were received on a connection with TLS.
    fn receive_tls(&mut self, id: ConnId, len: usize) -> StreamEvent {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return StreamEvent::None };
        let Some(tls) = &mut stream.tls else { return StreamEvent::None };
        let ciphertext = self.rx.get(..len).unwrap_or_default();
        let received = tls.receive_and_reply(&stream.socket, ciphertext, &mut self.plaintext);
        let TlsReception { plaintext, has_ended, error, is_newly_established } = received;
        if is_newly_established {
            self.established.push(id);
        }
        if plaintext > 0 {
            self.received_bytes = tls.take_received();
        }
        match (plaintext, has_ended) {
            (0, true) => return StreamEvent::Closed(error),
            (_, true) => self.ended.push((id, error)),
            (_, false) => self.update_output(id),
        }
        if plaintext > 0 { StreamEvent::ReadTls(plaintext) } else { StreamEvent::None }
    }

    /// A connection takes bytes again, or has failed.
    fn handle_room(&mut self, id: ConnId, result: Result<u32, Errno>) -> StreamEvent {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return StreamEvent::None };
        if let Some(EndOfStream::Failed(error)) = stream.end {
            return StreamEvent::Closed(Some(error));
        }
        match result {
            Ok(events) if events_of(events).contains(PollFlags::ERR) => {
                return StreamEvent::Closed(socket_error(stream));
            }
            Ok(_) => {}
            Err(error) => return StreamEvent::Closed(Some(error.kind().into())),
        }
        let flushed = match &mut stream.tls {
            Some(tls) => tls.flush(&stream.socket),
            None => send_rest(&stream.socket, &mut stream.unsent),
        };
        if let Err(error) = flushed {
            return StreamEvent::Closed(Some(error));
        }
        let is_writable = match &mut stream.tls {
            Some(tls) => !tls.has_unsent() && tls.wants_room() && tls.take_writable(),
            None => stream.unsent.is_empty() && std::mem::take(&mut stream.wants_writable),
        };
        self.update_output(id);
        if is_writable { StreamEvent::Writable } else { StreamEvent::None }
    }
}

fn events_of(bits: u32) -> PollFlags {
    PollFlags::from_bits_retain(u16::try_from(bits & 0xffff).unwrap_or(0))
}

fn socket_error(stream: &Stream) -> Option<ConnectionError> {
    let error = sockopt::socket_error(&stream.socket).ok().and_then(Result::err);
    error.map(|errno| errno.kind().into())
}
