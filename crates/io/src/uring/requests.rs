//! Which requests are in flight for a connection, and their ends.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::ring::{Completion, Purpose};
use super::stream::{EndOfStream, InputRequest};
use super::{Socket, Uring};
use crate::ConnId;

/// How often the ends of cancelled requests are waited for, and for how long each time. They come at once.
const CANCEL_ATTEMPTS: usize = 100;
const CANCEL_WAIT: Duration = Duration::from_millis(1);

impl InputRequest {
    fn purpose(self) -> Purpose {
        match self {
            Self::Receive => Purpose::Receive,
            Self::Readable | Self::Failure => Purpose::Input,
        }
    }
}

impl Uring {
    /// Makes the request for input of a connection the one that it should have: starts it, or cancels another one first.
    pub(super) fn update_input(&mut self, id: ConnId) {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return };
        match (stream.input, stream.wanted_input()) {
            (None, Some(request)) => {
                stream.input = Some(request);
                let fd = stream.socket.as_fd();
                let readable = PollFlags::IN | PollFlags::RDHUP;
                match request {
                    InputRequest::Receive => self.ring.receive(fd, id),
                    InputRequest::Readable => self.ring.poll(fd, readable, Purpose::Input, id),
                    // The kernel reports errors in any case.
                    InputRequest::Failure => {
                        self.ring.poll(fd, PollFlags::empty(), Purpose::Input, id);
                    }
                }
            }
            (Some(current), wanted) if wanted != Some(current) && !stream.is_cancelling => {
                stream.is_cancelling = true;
                self.ring.cancel(current.purpose(), id);
            }
            _ => {}
        }
    }

    /// Waits until a connection takes bytes, if that is of use.
    pub(super) fn update_output(&mut self, id: ConnId) {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return };
        if stream.wants_room() && !stream.is_output_polled {
            stream.is_output_polled = true;
            self.ring.poll(stream.socket.as_fd(), PollFlags::OUT, Purpose::Output, id);
        }
    }

    /// Waits until a listener has connections.
    pub(super) fn poll_listener(&mut self, id: ConnId) {
        let Some(Socket::Listener(listener)) = self.slab.get_mut(id) else { return };
        if !listener.is_polled && !listener.is_paused {
            listener.is_polled = true;
            self.ring.poll(listener.socket.as_fd(), PollFlags::IN, Purpose::Input, id);
        }
    }

    /// Submits what waits to be sent.
    pub(super) fn flush(&mut self) {
        self.ring.flush();
        self.take_completions();
    }

    /// Takes all completions out of the ring. Sends end here, and the others wait for their turn.
    pub(super) fn take_completions(&mut self) {
        while let Some(completion) = self.ring.next_completion() {
            match completion.purpose {
                Purpose::Send => self.complete_send(&completion),
                Purpose::Cancel => {}
                _ => self.completions.push_back(completion),
            }
        }
        while let Some(id) = self.ring.take_sent() {
            if let Some(Socket::Stream(stream)) = self.slab.get_mut(id) {
                stream.has_send = false;
            }
            // Something may have been refused since it was submitted.
            self.update_output(id);
        }
    }

    /// Keeps what was not sent, or has the error reported.
    fn complete_send(&mut self, completion: &Completion) {
        let Some((id, buffer)) = self.ring.take_unsent(completion) else { return };
        if let Some(Socket::Stream(stream)) = self.slab.get_mut(id) {
            stream.has_send = false;
            let bytes = self.ring.bytes(&buffer);
            let sent = match completion.result {
                Ok(sent) => Ok(usize::try_from(sent).unwrap_or(usize::MAX)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(0),
                Err(error) => Err(error),
            };
            match sent {
                Ok(sent) => stream.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default()),
                Err(error) => self.ended.push((id, Some(error.kind().into()))),
            }
        }
        self.ring.free(buffer);
        self.update_output(id);
    }

    /// Ends all requests for a connection or listener, whose file the kernel keeps open until then. What was received by
    /// then is kept with the connection.
    pub(super) fn end_requests(&mut self, id: ConnId) {
        for attempt in 0..CANCEL_ATTEMPTS {
            self.settle(id);
            let Some(socket) = self.slab.get_mut(id).filter(|it| it.has_requests()) else { return };
            if attempt == 0 {
                match socket {
                    Socket::Listener(_) => self.ring.cancel(Purpose::Input, id),
                    Socket::Stream(stream) => {
                        if let Some(request) = stream.input {
                            self.ring.cancel(request.purpose(), id);
                        }
                        if stream.is_output_polled {
                            self.ring.cancel(Purpose::Output, id);
                        }
                    }
                }
            }
            if attempt < 2 {
                self.ring.flush();
            } else if let Err(error) = self.ring.submit_and_wait(Some(CANCEL_WAIT)) {
                return self.ring.fail(error);
            }
            self.take_completions();
        }
    }

    /// Applies the completions of a connection or listener that wait for their turn, without reporting anything.
    fn settle(&mut self, id: ConnId) {
        for _ in 0..self.completions.len() {
            let Some(completion) = self.completions.pop_front() else { return };
            if completion.id == id && completion.purpose != Purpose::Waker {
                self.apply(completion);
            } else {
                self.completions.push_back(completion);
            }
        }
    }

    /// Applies a completion of a connection or listener: requests that have ended, bytes, and the end of the stream.
    pub(super) fn apply(&mut self, completion: Completion) {
        let Completion { purpose, id, result, is_last, buffer } = completion;
        match self.slab.get_mut(id) {
            Some(Socket::Stream(stream)) => {
                match purpose {
                    Purpose::Output => stream.is_output_polled = false,
                    Purpose::Receive | Purpose::Input if is_last => {
                        (stream.input, stream.is_cancelling) = (None, false);
                    }
                    _ => {}
                }
                if purpose == Purpose::Receive {
                    match &buffer {
                        Some(buffer) if buffer.len() > 0 => {
                            self.early_bytes += buffer.len();
                            stream.early.append(self.ring.received.get(buffer));
                        }
                        _ => stream.end = stream.end.or_else(|| end_of_stream(result)),
                    }
                }
            }
            Some(Socket::Listener(listener)) => listener.is_polled = false,
            None => {}
        }
        if let Some(buffer) = buffer {
            self.recycle(buffer);
        }
    }
}

/// How the stream has ended according to a completion without bytes; `None` if it has not.
fn end_of_stream(result: Result<u32, Errno>) -> Option<EndOfStream> {
    match result {
        Ok(_) => Some(EndOfStream::Closed),
        // No buffer was left, or the request was cancelled.
        Err(Errno::NOBUFS | Errno::CANCELED | Errno::AGAIN | Errno::INTR) => None,
        Err(error) => Some(EndOfStream::Failed(error.kind().into())),
    }
}
