//! [`Io`] with `io_uring`.
//!
//! Sparse connections (`read_order.rs`) are received from by one request each, which lasts: the kernel puts bytes into buffers of
//! the ring, and no system call is needed for a read. What is to be sent to them is copied into a buffer, and one system call
//! submits the sends to all of them, and waits for the next bytes. So an iteration costs one system call if there is little to
//! do on each connection.
//!
//! Bulk connections are read and written by system calls of their own, into and out of one buffer that stays in the processor's
//! cache; a request says that there is something to read. Connections with TLS and listeners are used in the same way.
//! `docs/adr/0038-io-uring.md` has the reasons.

#[expect(unsafe_code, reason = "the kernel and this side take turns in using the buffers")]
mod buffers;
mod error;
mod reading;
mod requests;
#[expect(unsafe_code, reason = "the kernel uses memory to which requests refer")]
mod ring;
mod stream;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send};

use crate::accepting::{ACCEPTS_MAX, Accept, PausedListeners, accept, is_out_of_resources};
use crate::epoll::WaitStrategy;
use crate::read_order::{BulkQueue, Load};
use crate::slab::Slab;
use crate::tls::PLAINTEXT_BYTES_MAX;
use crate::{
    ConnId, Connection, ConnectionError, Io, IoEvent, READ_BYTES_MAX, Reading, TlsServer,
    UnsentCap, Waker, clock, poll, sock,
};
use buffers::ReceivedBuffer;
pub use error::UringError;
use reading::StreamEvent;
use ring::{Completion, Purpose, Ring};
use stream::Stream;

/// Received bytes of all connections that are in no buffer of the ring and not reported, above which no buffers are given to the
/// kernel: connections are read by system calls then. Those that are not read could otherwise collect them without limit.
const EARLY_BYTES_MAX: usize = 4 << 20;

/// A set of TCP connections, with a ring of its own.
///
/// It may be moved to another thread until it is used for the first time.
///
/// # Kernel
/// Linux 6.1.
pub struct Uring {
    ring: Ring,
    slab: Slab<Socket>,
    /// Completions whose turn has not come.
    completions: VecDeque<Completion>,
    /// The listener from which connections are accepted.
    accepting: Option<ConnId>,
    accepts_left: u32,
    paused_listeners: PausedListeners,
    /// Connections with early bytes, to be read after the next wait.
    queued: Vec<ConnId>,
    /// Those that are sparse, to be read now.
    ready: VecDeque<ConnId>,
    bulk_queue: BulkQueue<ConnId>,
    /// The buffer that the last event refers to.
    reported: Option<ReceivedBuffer>,
    /// Early bytes of all connections.
    early_bytes: usize,
    /// Buffers that are not given to the kernel, since there are too many early bytes.
    withheld: Vec<ReceivedBuffer>,
    /// Connections that failed while sending, or whose last read has ended the TLS stream; reported by `next_event`.
    ended: Vec<(ConnId, Option<ConnectionError>)>,
    /// Accepted connections whose TLS handshake is complete; reported by `next_event`.
    established: Vec<ConnId>,
    /// Bytes of the socket that the last reported read has taken.
    received_bytes: usize,
    rx: Box<[u8]>,
    /// The plaintext of one read. Empty until there is a connection with TLS.
    plaintext: Box<[u8]>,
    /// Bytes of one read.
    read_max: usize,
    waker: Waker,
    /// The last wait was one for the waker only, and whether it was woken.
    wake_only: Option<WakeOnly>,
    waiting: WaitStrategy,
}

/// The result of a wait for the waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeOnly {
    Woken,
    Reported,
}

enum Socket {
    Listener(Listener),
    Stream(Stream),
}

struct Listener {
    socket: TcpListener,
    tls: Option<TlsServer>,
    /// A request for connections is in flight.
    is_polled: bool,
    /// Accepting has failed for lack of file descriptors or memory.
    is_paused: bool,
}

impl Socket {
    fn has_requests(&self) -> bool {
        match self {
            Self::Listener(listener) => listener.is_polled,
            Self::Stream(stream) => stream.has_requests(),
        }
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("completions", &self.completions.len())
            .finish_non_exhaustive()
    }
}

impl Uring {
    /// An empty set.
    ///
    /// # Errors
    /// If `io_uring` cannot be used on this system.
    pub fn new(waiting: WaitStrategy) -> Result<Self, UringError> {
        let mut this = Self {
            ring: Ring::new()?,
            slab: Slab::new(),
            completions: VecDeque::new(),
            accepting: None,
            accepts_left: ACCEPTS_MAX,
            paused_listeners: PausedListeners::default(),
            queued: Vec::new(),
            ready: VecDeque::new(),
            bulk_queue: BulkQueue::new(),
            reported: None,
            early_bytes: 0,
            withheld: Vec::new(),
            ended: Vec::new(),
            established: Vec::new(),
            received_bytes: 0,
            rx: vec![0; READ_BYTES_MAX].into_boxed_slice(),
            plaintext: Box::default(),
            read_max: READ_BYTES_MAX,
            waker: Waker::new().map_err(UringError::Io)?,
            wake_only: None,
            waiting,
        };
        this.poll_waker();
        Ok(this)
    }

    fn poll_waker(&mut self) {
        let no_id = ConnId::default();
        self.ring.poll(self.waker.as_fd(), PollFlags::IN, Purpose::Waker, no_id);
    }

    fn stream(&mut self, id: ConnId) -> Option<&mut Stream> {
        match self.slab.get_mut(id) {
            Some(Socket::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// Gives the buffer of the last event back to the kernel.
    fn recycle_reported(&mut self) {
        if let Some(buffer) = self.reported.take() {
            self.recycle(buffer);
        }
    }

    /// Gives a buffer back to the kernel, unless there are too many early bytes.
    fn recycle(&mut self, buffer: ReceivedBuffer) {
        if self.early_bytes > EARLY_BYTES_MAX {
            self.withheld.push(buffer);
        } else {
            self.ring.received.recycle(buffer);
        }
    }

    /// Gives buffers that were withheld to the kernel.
    fn recycle_withheld(&mut self) {
        if self.early_bytes <= EARLY_BYTES_MAX {
            for buffer in self.withheld.drain(..) {
                self.ring.received.recycle(buffer);
            }
        }
    }

    /// Removes a connection or listener that has no requests.
    fn remove(&mut self, id: ConnId) -> Option<Socket> {
        let removed = self.slab.remove(id);
        if let Some(Socket::Stream(stream)) = &removed {
            self.early_bytes -= stream.early.len();
        }
        removed
    }

    /// Waits for something to do, or until `deadline`; returns the current time.
    fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        if self.has_work() {
            self.ring.submit()?;
            self.take_completions();
            return Ok(clock::now());
        }
        let mut now = None;
        if self.waiting.spin > Duration::ZERO {
            now = Some(self.spin(deadline)?);
        }
        if let Some(now) =
            now.filter(|&now| self.has_work() || deadline.is_some_and(|at| now >= at))
        {
            return Ok(now);
        }
        let timeout = deadline.map(|d| d.saturating_duration_since(now.unwrap_or_else(clock::now)));
        if timeout == Some(Duration::ZERO) {
            self.ring.submit()?;
        } else {
            self.ring.submit_and_wait(timeout)?;
        }
        self.take_completions();
        Ok(clock::now())
    }

    /// Whether there is something to report, or to look at.
    fn has_work(&self) -> bool {
        !self.completions.is_empty()
            || !self.ended.is_empty()
            || !self.established.is_empty()
            || self.accepting.is_some()
            || !self.ready.is_empty()
            || !self.bulk_queue.is_empty()
    }

    /// Polls without blocking until there is something to do, or the time for polling or the deadline is over. This takes no
    /// system calls: the kernel shows in shared memory whether there is anything.
    fn spin(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        let start = clock::now();
        loop {
            self.ring.submit()?;
            self.take_completions();
            let now = clock::now();
            let is_over = now - start >= self.waiting.spin || deadline.is_some_and(|d| now >= d);
            if self.has_work() || is_over {
                return Ok(now);
            }
            std::hint::spin_loop();
        }
    }

    /// Distributes the connections with early bytes, after what has arrived on others.
    fn enqueue_early(&mut self) {
        for at in 0..self.queued.len() {
            let Some(&id) = self.queued.get(at) else { break };
            match self.slab.get_mut(id) {
                Some(Socket::Stream(stream)) if stream.load.is_bulk() => {
                    self.bulk_queue.extend([id]);
                }
                _ => self.ready.push_back(id),
            }
        }
        self.queued.clear();
    }

    /// The next event of a connection, in the order of reading; `None` if there is none.
    fn next_stream_event(&mut self) -> Option<(ConnId, StreamEvent)> {
        if let Some(completion) = self.completions.pop_front() {
            return Some((completion.id, self.handle(completion)));
        }
        if let Some(id) = self.ready.pop_front() {
            return Some((id, self.read_queued(id)));
        }
        if self.bulk_queue.is_empty() {
            return None;
        }
        if self.ring.has_sends() {
            // Replies to sparse connections do not wait for bulk ones.
            self.flush();
        }
        let id = self.bulk_queue.pop(clock::now)?;
        Some((id, self.read_queued(id)))
    }

    /// Accepts one connection from a listener; `None` if there is none, or no more before the next wait.
    fn accept(&mut self, id: ConnId) -> Option<IoEvent<'static, Connection>> {
        let left = self.accepts_left.checked_sub(1)?;
        let Some(Socket::Listener(listener)) = self.slab.get_mut(id) else { return None };
        match accept(id, &listener.socket, listener.tls.as_ref()) {
            Accept::One(event) => {
                self.accepts_left = left;
                Some(event)
            }
            Accept::None => None,
            Accept::Failed(e) => {
                self.accepts_left = 0;
                if is_out_of_resources(&e) {
                    listener.is_paused = true;
                    self.paused_listeners.add(id);
                }
                Some(IoEvent::AcceptFailed(e))
            }
        }
    }

    /// Removes a connection that has ended. Returns whether it was there.
    fn remove_ended(&mut self, id: ConnId) -> bool {
        self.end_requests(id);
        let removed = self.remove(id);
        if let Some(Socket::Stream(mut stream)) = removed {
            if let Some(mut tls) = stream.tls.take() {
                // A peer whose certificate was rejected gets the alert that says so.
                tls.close(&stream.socket);
                self.close_stream(&stream);
            }
            return true;
        }
        removed.is_some()
    }

    /// Closes the sending side of a stream that is about to be dropped. Closing a socket with unread data resets the connection, and
    /// the peer could lose what was sent last.
    fn close_stream(&mut self, stream: &Stream) {
        let _ = rustix::net::shutdown(&stream.socket, Shutdown::Write);
        let _ = recv(&stream.socket, &mut *self.rx, RecvFlags::DONTWAIT);
    }

    /// Sends without a copy, at once.
    fn send_directly(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let Some(stream) = self.stream(id) else { return bytes.len() };
        // The kernel takes a whole send even if that exceeds the limit, so each send is limited too.
        let bytes_now = match stream.unsent_cap {
            UnsentCap::Off => bytes,
            UnsentCap::On => bytes.get(..sock::UNSENT_MAX.into()).unwrap_or(bytes),
        };
        let result = if let Some(tls) = &mut stream.tls {
            tls.send(&stream.socket, bytes_now, bytes.len())
        } else {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&stream.socket, bytes_now, flags) {
                Err(Errno::AGAIN | Errno::INTR) => Ok(0),
                sent => sent.map_err(|e| e.kind().into()),
            }
        };
        match result {
            Ok(sent) => {
                stream.wants_writable |= stream.tls.is_none() && sent < bytes.len();
                self.update_output(id);
                sent
            }
            Err(error) => {
                self.ended.push((id, Some(error)));
                bytes.len()
            }
        }
    }
}

impl Io for Uring {
    type Conn = Connection;
    /// Must be non-blocking.
    type Listener = TcpListener;
    type Waker = Waker;

    #[inline]
    fn now(&self) -> Instant {
        clock::now()
    }

    fn since_epoch(&self) -> Duration {
        clock::since_epoch()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<ConnId> {
        let listener = Listener { socket: listener, tls: None, is_polled: false, is_paused: false };
        let id = self.slab.insert(Socket::Listener(listener));
        self.poll_listener(id);
        Ok(id)
    }

    fn set_tls(&mut self, listener: ConnId, new: Option<&TlsServer>) {
        if let Some(Socket::Listener(listener)) = self.slab.get_mut(listener) {
            listener.tls = new.cloned();
        }
    }

    fn certificate_has_name(&mut self, id: ConnId, name: &str) -> Option<bool> {
        let tls = self.stream(id)?.tls.as_ref()?;
        Some(tls.certificate_has_name(name))
    }

    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        self.recycle_reported();
        self.recycle_withheld();
        self.wake_only = None;
        self.accepts_left = ACCEPTS_MAX;
        let (deadline, resumed) = self.paused_listeners.resume(deadline);
        for id in resumed {
            if let Some(Socket::Listener(listener)) = self.slab.get_mut(id) {
                listener.is_paused = false;
                self.poll_listener(id);
            }
        }
        self.enqueue_early();
        let now = self.wait_until(deadline)?;
        self.bulk_queue.begin_part(now);
        Ok(now)
    }

    fn wait_for_wake(&mut self, deadline: Instant) -> io::Result<Instant> {
        self.bulk_queue.end_part();
        self.recycle_reported();
        self.ring.submit()?;
        self.take_completions();
        self.wake_only = Some(WakeOnly::Reported);
        if poll::wait_readable([self.waker.as_fd()], Some(deadline))? != [false] {
            self.wake_only = Some(WakeOnly::Woken);
        }
        Ok(clock::now())
    }

    fn next_event(&mut self) -> Option<IoEvent<'_, Connection>> {
        self.recycle_reported();
        if let Some(wake) = &mut self.wake_only {
            if std::mem::replace(wake, WakeOnly::Reported) == WakeOnly::Woken && self.waker.take() {
                return Some(IoEvent::Woken);
            }
            return None;
        }
        loop {
            if let Some((id, error)) = self.ended.pop() {
                if self.remove_ended(id) {
                    return Some(IoEvent::Closed(id, error));
                }
                continue;
            }
            if let Some(id) = self.established.pop() {
                if self.slab.get_mut(id).is_some() {
                    return Some(IoEvent::Connected(id));
                }
                continue;
            }
            if let Some(id) = self.accepting {
                if let Some(event) = self.accept(id) {
                    return Some(event);
                }
                self.accepting = None;
                self.accepts_left = ACCEPTS_MAX;
                self.poll_listener(id);
                continue;
            }
            let (id, event) = self.next_stream_event()?;
            match event {
                StreamEvent::None => {}
                StreamEvent::Woken => return Some(IoEvent::Woken),
                StreamEvent::Writable => return Some(IoEvent::Writable(id)),
                StreamEvent::Received => {
                    let bytes = self.reported.as_ref().map(|it| self.ring.received.get(it));
                    return Some(IoEvent::Data(id, bytes.unwrap_or_default()));
                }
                StreamEvent::Read(n) => {
                    return Some(IoEvent::Data(id, self.rx.get(..n).unwrap_or_default()));
                }
                StreamEvent::ReadTls(n) => {
                    return Some(IoEvent::Data(id, self.plaintext.get(..n).unwrap_or_default()));
                }
                StreamEvent::Closed(error) => {
                    self.remove_ended(id);
                    return Some(IoEvent::Closed(id, error));
                }
            }
        }
    }

    /// Few bytes are copied and sent with those of other connections by the next [`wait`](Io::wait), and before bulk connections are
    /// read. Until then they count as sent. If the kernel does not take all of them, the rest is kept and nothing more is taken.
    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let Some(Socket::Stream(stream)) = self.slab.get_mut(id) else { return bytes.len() };
        if bytes.is_empty() {
            return 0;
        }
        if stream.has_send {
            // One send of a connection is in the ring at a time, since another one could overtake it.
            self.flush();
        } else if stream.tls.is_none()
            && stream.unsent.is_empty()
            && self.ring.send(stream.socket.as_fd(), id, bytes)
        {
            stream.has_send = true;
            return bytes.len();
        }
        match self.stream(id) {
            Some(stream) if stream.has_send || !stream.unsent.is_empty() => {
                stream.wants_writable = true;
                0
            }
            _ => self.send_directly(id, bytes),
        }
    }

    fn unsent_bytes(&mut self, id: ConnId) -> usize {
        self.stream(id).map_or(0, |stream| match &stream.tls {
            Some(tls) => tls.unsent_bytes(),
            None => stream.unsent.len(),
        })
    }

    fn set_unsent_cap(&mut self, id: ConnId, cap: UnsentCap) {
        if let Some(stream) = self.stream(id) {
            stream.unsent_cap = cap;
            sock::set_unsent_cap(&stream.socket, cap);
        }
    }

    fn set_read_max(&mut self, bytes: usize) {
        self.read_max = bytes.clamp(1, READ_BYTES_MAX);
    }

    fn unread_bytes(&mut self, id: ConnId) -> usize {
        let waiting = self.completions.iter().filter(|it| it.id == id);
        let in_ring: usize = waiting.flat_map(|it| &it.buffer).map(ReceivedBuffer::len).sum();
        let Some(stream) = self.stream(id) else { return 0 };
        let in_kernel = rustix::io::ioctl_fionread(&stream.socket).unwrap_or(0);
        in_ring + stream.early.len() + usize::try_from(in_kernel).unwrap_or(usize::MAX)
    }

    fn received_bytes(&self, _: usize) -> usize {
        self.received_bytes
    }

    fn set_reading(&mut self, id: ConnId, reading: Reading) {
        let Some(stream) = self.stream(id) else { return };
        stream.reading = reading;
        match reading {
            Reading::Off => stream.load = Load::Sparse,
            Reading::On => self.queue(id),
        }
        self.update_input(id);
    }

    fn adopt(&mut self, connection: Connection) -> io::Result<ConnId> {
        if connection.tls.is_some() && self.plaintext.is_empty() {
            self.plaintext = vec![0; PLAINTEXT_BYTES_MAX].into_boxed_slice();
        }
        let end = connection.tls.as_ref().and_then(|tls| tls.end());
        self.early_bytes += connection.received.len();
        let id = self.slab.insert(Socket::Stream(Stream::new(connection)));
        // The socket does not become readable for an end that was received before.
        self.ended.extend(end.map(|end| (id, end.error())));
        self.queue(id);
        self.update_input(id);
        self.update_output(id);
        Ok(id)
    }

    fn release(&mut self, id: ConnId) -> Option<Connection> {
        self.recycle_reported();
        self.end_requests(id);
        match self.remove(id)? {
            Socket::Stream(stream) => Some(stream.into_connection()),
            Socket::Listener(_) => None,
        }
    }

    fn close(&mut self, id: ConnId) {
        self.end_requests(id);
        if let Some(Socket::Stream(mut stream)) = self.remove(id) {
            self.paused_listeners.end_pause();
            if let Some(mut tls) = stream.tls.take() {
                tls.close(&stream.socket);
            }
            self.close_stream(&stream);
        }
    }
}
