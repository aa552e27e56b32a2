//! [`Io`] with `epoll`.

mod reading;

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send};
use rustix::time::Timespec;

use crate::accepting::{ACCEPTS_MAX, Accept, PausedListeners, accept, is_out_of_resources};
use crate::early_bytes::EarlyBytes;
use crate::read_order::{BulkQueue, Load, ReadSizes};
use crate::slab::Slab;
use crate::sock::EffectiveOptions;
use crate::tls::{PLAINTEXT_BYTES_MAX, TlsSession};
use crate::{
    ConnId, Connection, ConnectionError, Io, IoEvent, ReadEvents, Reading, TlsServer, UnsentCap,
    Waker, clock, poll, sock,
};
use reading::StreamEvent;

/// Bytes per read. Measured in `lab/read-size`.
pub const READ_BYTES_MAX: usize = 128 << 10;

/// Ready connections per wait.
pub(crate) const EVENTS_MAX: usize = 256;

/// Tokens of the waker, of the set of bulk connections, and of other file descriptors that wake the thread. No [`ConnId`] has these values,
/// since slots are less than `u32::MAX - 2`.
const WAKER: u64 = u64::MAX;
const BULK: u64 = u64::MAX - 1;
const OTHER: u64 = u64::MAX - 2;

/// How to wait for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStrategy {
    /// How long to poll before blocking. Default: zero.
    pub spin: Duration,
}

/// A set of TCP connections.
///
/// # Kernel
/// Linux 2.6.9; `EPOLLRDHUP` 2.6.17.
pub struct Epoll {
    set: OwnedFd,
    /// The set of the connections of which much is read. It is a member of `set`.
    bulk_set: OwnedFd,
    slab: Slab<Socket>,
    ready: Vec<ReadyEvent>,
    at: usize,
    /// Taken from `ready` or `bulk_queue`, and not handled completely.
    current: Option<ReadyEvent>,
    bulk_queue: BulkQueue<ReadyEvent>,
    accepts_left: u32,
    paused_listeners: PausedListeners,
    /// Connections with received bytes that are not in the kernel, which does not report them.
    early: Vec<ConnId>,
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
    read_sizes: ReadSizes,
    waker: Waker,
    waiting: WaitStrategy,
    on_peer_shutdown: OnPeerShutdown,
}

/// What to do with a connection whose peer has shut down its sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPeerShutdown {
    /// Remove it and report [`Closed`](IoEvent::Closed).
    #[default]
    Close,
    /// Report [`Closed`](IoEvent::Closed) without an error and keep it, so that data can still be sent, until
    /// [`close`](Io::close). Reported once more if the connection fails.
    KeepOpen,
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").field("set", &self.set).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Socket {
    Listener(TcpListener, Option<TlsServer>),
    Stream {
        stream: TcpStream,
        tls: Option<Box<TlsSession>>,
        interest: EventFlags,
        /// `None` if they were never set.
        read_events: Option<ReadEvents>,
        is_connecting: bool,
        unsent_cap: UnsentCap,
        load: Load,
        /// Received bytes that precede those in the kernel.
        early: EarlyBytes,
        /// Bytes that another set has taken to be sent.
        unsent: Vec<u8>,
    },
}

/// A token, and what has happened.
type ReadyEvent = (u64, EventFlags);

impl Socket {
    fn stream(
        connection: Connection,
        interest: EventFlags,
        is_connecting: bool,
        load: Load,
    ) -> Self {
        connection.keep_open();
        let Connection { stream, tls, received, unsent } = connection;
        let unsent_cap = UnsentCap::default();
        let (read_events, early) = (None, received.into());
        Self::Stream {
            stream,
            tls,
            interest,
            read_events,
            is_connecting,
            unsent_cap,
            load,
            early,
            unsent,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener, _) => listener.as_fd(),
            Self::Stream { stream, .. } => stream.as_fd(),
        }
    }
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// Too few file descriptors.
    pub fn new(waiting: WaitStrategy) -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = Waker::new()?;
        epoll::add(&set, &waker, EventData::new_u64(WAKER), EventFlags::IN)?;
        let bulk_set = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&set, &bulk_set, EventData::new_u64(BULK), EventFlags::IN)?;
        Ok(Self {
            set,
            bulk_set,
            slab: Slab::new(),
            ready: Vec::with_capacity(EVENTS_MAX),
            at: 0,
            current: None,
            bulk_queue: BulkQueue::new(),
            accepts_left: ACCEPTS_MAX,
            paused_listeners: PausedListeners::default(),
            early: Vec::new(),
            ended: Vec::new(),
            established: Vec::new(),
            received_bytes: 0,
            rx: vec![0; READ_BYTES_MAX].into_boxed_slice(),
            plaintext: Box::default(),
            read_max: READ_BYTES_MAX,
            read_sizes: ReadSizes::default(),
            waker,
            waiting,
            on_peer_shutdown: OnPeerShutdown::Close,
        })
    }

    /// Sets what to do with a connection whose peer has shut down its sending side.
    #[must_use]
    pub fn on_peer_shutdown(self, on_peer_shutdown: OnPeerShutdown) -> Self {
        Self { on_peer_shutdown, ..self }
    }

    /// Sets how many bytes are read at a time from connections that are added from now on.
    #[must_use]
    pub fn read_sizes(self, read_sizes: ReadSizes) -> Self {
        Self { read_sizes, ..self }
    }

    /// Shuts down the sending side of a connection. The peer may continue to send.
    pub fn shutdown_write(&mut self, id: ConnId) {
        if let Some(Socket::Stream { stream, tls, .. }) = self.slab.get_mut(id) {
            if let Some(tls) = tls {
                tls.close(stream);
            }
            // Fails if the connection has failed, which is reported as an event.
            let _ = rustix::net::shutdown(&*stream, Shutdown::Write);
        }
    }

    /// Adds a stream that is still connecting.
    ///
    /// # Errors
    /// Errors of `epoll_ctl`.
    pub fn adopt_connecting(&mut self, connection: impl Into<Connection>) -> io::Result<ConnId> {
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
        self.add_stream(connection.into(), interest, true)
    }

    fn add_stream(
        &mut self,
        connection: Connection,
        interest: EventFlags,
        is_connecting: bool,
    ) -> io::Result<ConnId> {
        if connection.tls.is_some() && self.plaintext.is_empty() {
            self.plaintext = vec![0; PLAINTEXT_BYTES_MAX].into_boxed_slice();
        }
        let load = Load::new(self.read_sizes);
        self.register(Socket::stream(connection, interest, is_connecting, load), interest)
    }

    /// The options of a connection as the kernel has them; `None` if it is not in the set.
    pub fn effective_options(&mut self, id: ConnId) -> Option<EffectiveOptions> {
        self.slab.get_mut(id).map(|socket| EffectiveOptions::of(&*socket))
    }

    fn register(&mut self, socket: Socket, interest: EventFlags) -> io::Result<ConnId> {
        let id = self.slab.insert(socket);
        let Some(socket) = self.slab.get_mut(id) else { return Ok(id) };
        if let Err(e) = epoll::add(&self.set, &*socket, token(id), interest) {
            self.slab.remove(id);
            return Err(e.into());
        }
        Ok(id)
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.clear_ready();
        self.accepts_left = ACCEPTS_MAX;
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        self.ready.extend(ready_events(&self.set, &mut EventBuffer::new(), timeout.as_ref())?);
        self.ready.extend(self.early.drain(..).map(|id| (id.0, EventFlags::IN)));
        let bulk = self.ready.iter().position(|&(token, _)| token == BULK);
        if let Some(at) = bulk {
            self.ready.swap_remove(at);
            if self.bulk_queue.is_empty() {
                let events = &mut EventBuffer::new();
                self.bulk_queue.extend(ready_events(&self.bulk_set, events, Some(&NO_TIME))?);
            }
        }
        Ok(())
    }

    fn clear_ready(&mut self) {
        self.ready.clear();
        self.at = 0;
        self.current = None;
    }

    /// The next thing that is ready; bulk connections come last.
    fn next_ready(&mut self) -> Option<ReadyEvent> {
        if let Some(event) = self.current.take() {
            return Some(event);
        }
        let Some(&event) = self.ready.get(self.at) else { return self.bulk_queue.pop(clock::now) };
        self.at += 1;
        Some(event)
    }

    /// Waits for events or until `deadline`; returns the current time.
    fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        let deadline = self.resume_listeners(deadline);
        let has_reports = !self.ended.is_empty() || !self.established.is_empty();
        if has_reports || !self.early.is_empty() || !self.bulk_queue.is_empty() {
            self.poll(Some(Duration::ZERO))?;
            return Ok(clock::now());
        }
        let mut now = None;
        if self.waiting.spin > Duration::ZERO {
            now = Some(self.spin(deadline)?);
        }
        if let Some(now) =
            now.filter(|&now| self.has_ready() || deadline.is_some_and(|deadline| now >= deadline))
        {
            return Ok(now);
        }
        let timeout = deadline.map(|d| d.saturating_duration_since(now.unwrap_or_else(clock::now)));
        self.poll(timeout)?;
        Ok(clock::now())
    }

    fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.bulk_queue.is_empty()
    }

    /// Polls without blocking until there are events, or the time for polling or the deadline is over.
    fn spin(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        let start = clock::now();
        loop {
            self.poll(Some(Duration::ZERO))?;
            let now = clock::now();
            let is_over = now - start >= self.waiting.spin || deadline.is_some_and(|d| now >= d);
            if self.has_ready() || is_over {
                return Ok(now);
            }
            std::hint::spin_loop();
        }
    }

    fn set_interest(&mut self, id: ConnId, change: impl FnOnce(EventFlags) -> EventFlags) {
        let Some(Socket::Stream { stream, interest, load, .. }) = self.slab.get_mut(id) else {
            return;
        };
        let wanted = change(*interest);
        if wanted == *interest {
            return;
        }
        *interest = wanted;
        let set = if load.is_bulk() { &self.bulk_set } else { &self.set };
        if let Err(e) = epoll::modify(set, &*stream, token(id), wanted) {
            self.fail(id, e.kind().into());
        }
    }

    /// Has `next_event` report that a connection has failed.
    fn fail(&mut self, id: ConnId, error: ConnectionError) {
        self.ended.push((id, Some(error)));
    }

    /// Sets the load of a stream, and moves it to the set where it belongs.
    #[inline]
    fn set_load(&mut self, id: ConnId, new: Load) {
        let Some(Socket::Stream { stream, interest, load, .. }) = self.slab.get_mut(id) else {
            return;
        };
        let old = std::mem::replace(load, new);
        if old.is_bulk() == new.is_bulk() {
            return;
        }
        let (from, to) = match new {
            Load::Sparse | Load::Fixed => (&self.bulk_set, &self.set),
            Load::Bulk { .. } => (&self.set, &self.bulk_set),
        };
        let moved = epoll::delete(from, &*stream)
            .and_then(|()| epoll::add(to, &*stream, token(id), *interest));
        if let Err(e) = moved {
            self.fail(id, e.kind().into());
        }
    }

    /// Has the bytes of a connection reported that are not in the kernel.
    fn queue_early(&mut self, id: ConnId) {
        if let Some(Socket::Stream { early, .. }) = self.slab.get_mut(id)
            && !early.is_empty()
        {
            self.early.push(id);
        }
    }

    /// Whether a connection carries TLS.
    fn has_tls(&mut self, id: ConnId) -> bool {
        matches!(self.slab.get_mut(id), Some(Socket::Stream { tls: Some(_), .. }))
    }

    /// Accepts one connection from the listener `id`; `None` if there is none, or no more before the next wait.
    fn accept(&mut self, id: ConnId) -> Option<IoEvent<'static, Connection>> {
        let left = self.accepts_left.checked_sub(1)?;
        let Some(Socket::Listener(listener, tls)) = self.slab.get_mut(id) else { return None };
        match accept(id, listener, tls.as_ref()) {
            Accept::One(event) => {
                self.accepts_left = left;
                Some(event)
            }
            Accept::None => None,
            Accept::Failed(e) => {
                self.accepts_left = 0;
                if is_out_of_resources(&e)
                    && epoll::modify(&self.set, &*listener, token(id), NO_EVENTS).is_ok()
                {
                    self.paused_listeners.add(id);
                }
                Some(IoEvent::AcceptFailed(e))
            }
        }
    }

    /// Enables paused listeners again, when it is time; returns until when to wait at most.
    fn resume_listeners(&mut self, deadline: Option<Instant>) -> Option<Instant> {
        let (deadline, resumed) = self.paused_listeners.resume(deadline);
        for id in resumed {
            if let Some(Socket::Listener(listener, _)) = self.slab.get_mut(id) {
                // Cannot fail: the listener is registered.
                let _ = epoll::modify(&self.set, &*listener, token(id), EventFlags::IN);
            }
        }
        deadline
    }

    /// Closes the sending side of a stream that is about to be dropped. Closing a socket with unread data resets the connection, and
    /// the peer could lose what was sent last.
    fn close_stream(&mut self, stream: &TcpStream) {
        let _ = rustix::net::shutdown(stream, Shutdown::Write);
        let _ = recv(stream, &mut *self.rx, RecvFlags::DONTWAIT);
    }

    /// Removes a connection whose end is reported. Returns whether it was there.
    fn remove_ended(&mut self, id: ConnId) -> bool {
        let removed = self.slab.remove(id);
        if let Some(Socket::Stream { stream, tls: Some(mut tls), .. }) = removed {
            // A peer whose certificate was rejected gets the alert that says so.
            tls.close(&stream);
            self.close_stream(&stream);
            return true;
        }
        removed.is_some()
    }
}

impl AsFd for Epoll {
    /// Readable when [`wait`](Io::wait) would return at once.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Flags that depend on whether and when a stream is read.
const READ_FLAGS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// Whether a stream with this interest is read.
fn is_read(interest: EventFlags) -> bool {
    interest.contains(EventFlags::RDHUP)
}

/// Interest in what is received, and in the end.
fn read_flags(events: ReadEvents) -> EventFlags {
    match events {
        ReadEvents::WhileReadable => EventFlags::IN | EventFlags::RDHUP,
        ReadEvents::OnArrival => READ_FLAGS,
        ReadEvents::Off => EventFlags::RDHUP,
    }
}

/// No interest in events.
const NO_EVENTS: EventFlags = EventFlags::empty();

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Room for the events of one wait.
struct EventBuffer([MaybeUninit<Event>; EVENTS_MAX]);

impl EventBuffer {
    fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; EVENTS_MAX])
    }
}

/// Waits for events of a set.
fn ready_events<'a>(
    set: &OwnedFd,
    buffer: &'a mut EventBuffer,
    timeout: Option<&Timespec>,
) -> io::Result<impl Iterator<Item = ReadyEvent> + use<'a>> {
    let events = match epoll::wait(set, &mut buffer.0, timeout) {
        Ok((events, _)) => events,
        Err(Errno::INTR) => &mut [],
        Err(e) => return Err(e.into()),
    };
    Ok(events.iter().map(|event| (event.data.u64(), event.flags)))
}

fn token(id: ConnId) -> EventData {
    EventData::new_u64(id.0)
}

impl Io for Epoll {
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

    fn wake_by(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, EventData::new_u64(OTHER), EventFlags::IN)?)
    }

    fn wake_once_by(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let flags = EventFlags::IN.union(EventFlags::ET);
        Ok(epoll::add(&self.set, fd, EventData::new_u64(OTHER), flags)?)
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<ConnId> {
        self.register(Socket::Listener(listener, None), EventFlags::IN)
    }

    fn set_tls(&mut self, listener: ConnId, new: Option<&TlsServer>) {
        if let Some(Socket::Listener(_, tls)) = self.slab.get_mut(listener) {
            *tls = new.cloned();
        }
    }

    fn certificate_has_name(&mut self, id: ConnId, name: &str) -> Option<bool> {
        let Some(Socket::Stream { tls: Some(tls), .. }) = self.slab.get_mut(id) else {
            return None;
        };
        Some(tls.certificate_has_name(name))
    }

    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        let now = self.wait_until(deadline)?;
        self.bulk_queue.begin_part(now);
        Ok(now)
    }

    fn wait_for_wake(&mut self, deadline: Instant) -> io::Result<Instant> {
        self.clear_ready();
        self.bulk_queue.end_part();
        if poll::wait_readable([self.waker.as_fd()], Some(deadline))? != [false] {
            self.ready.push((WAKER, EventFlags::IN));
        }
        Ok(clock::now())
    }

    fn next_event(&mut self) -> Option<IoEvent<'_, Connection>> {
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
            let (token, flags) = self.next_ready()?;
            if token == WAKER {
                self.waker.clear();
                return Some(IoEvent::Woken);
            }
            if token == OTHER {
                return Some(IoEvent::Woken);
            }
            let id = ConnId(token);
            if let Some(Socket::Listener(..)) = self.slab.get_mut(id) {
                if let Some(event) = self.accept(id) {
                    self.current = Some((token, flags));
                    return Some(event);
                }
                self.accepts_left = ACCEPTS_MAX;
                continue;
            }
            match self.stream_event(id, flags) {
                // The event stays the current one: the stream may be readable too.
                StreamEvent::Connected => {
                    // With TLS, it stays writable until the start of the handshake is sent.
                    if !self.has_tls(id) {
                        self.set_interest(id, |interest| interest - EventFlags::OUT);
                    }
                    self.current = Some((token, flags));
                    return Some(IoEvent::Connected(id));
                }
                StreamEvent::Writable => {
                    self.set_interest(id, |interest| interest - EventFlags::OUT);
                    // Reported once per wait: the flag may be outdated after the next send.
                    self.current = Some((token, flags - EventFlags::OUT));
                    return Some(IoEvent::Writable(id));
                }
                StreamEvent::None => {}
                StreamEvent::NothingReceived => return Some(IoEvent::NothingReceived(id)),
                StreamEvent::Flushed => self.current = Some((token, flags - EventFlags::OUT)),
                StreamEvent::ReadTls(n) => {
                    return Some(IoEvent::Data(id, self.plaintext.get(..n).unwrap_or_default()));
                }
                StreamEvent::Read(n) => {
                    self.received_bytes = n;
                    return Some(IoEvent::Data(id, self.rx.get(..n).unwrap_or_default()));
                }
                StreamEvent::PeerShutdown => {
                    self.set_reading(id, Reading::Off);
                    return Some(IoEvent::Closed(id, None));
                }
                StreamEvent::Closed(error) => {
                    self.remove_ended(id);
                    return Some(IoEvent::Closed(id, error));
                }
            }
        }
    }

    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let Some(Socket::Stream { stream, tls, unsent_cap, unsent, .. }) = self.slab.get_mut(id)
        else {
            return bytes.len();
        };
        if !unsent.is_empty() {
            // Its interest is in room already.
            return 0;
        }
        // The kernel takes a whole send even if that exceeds the limit, so each send is limited too.
        let bytes_now = match unsent_cap {
            UnsentCap::Off => bytes,
            UnsentCap::On => bytes.get(..sock::UNSENT_MAX.into()).unwrap_or(bytes),
        };
        let mut wants_room = false;
        let result = match tls {
            None => match send(&*stream, bytes_now, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR) => Ok(0),
                sent => sent.map_err(|e| e.kind().into()),
            },
            Some(tls) => {
                let sent = tls.send(stream, bytes_now, bytes.len());
                wants_room = tls.wants_room();
                sent
            }
        };
        let sent = match result {
            Ok(sent) => sent,
            Err(error) => {
                self.fail(id, error);
                return bytes.len();
            }
        };
        if sent < bytes.len() || wants_room {
            self.set_interest(id, |interest| interest | EventFlags::OUT);
        }
        sent
    }

    fn set_unsent_cap(&mut self, id: ConnId, cap: UnsentCap) {
        if let Some(Socket::Stream { stream, unsent_cap, .. }) = self.slab.get_mut(id) {
            *unsent_cap = cap;
            sock::set_unsent_cap(stream, cap);
        }
    }

    fn unsent_bytes(&mut self, id: ConnId) -> usize {
        match self.slab.get_mut(id) {
            Some(Socket::Stream { tls: Some(tls), .. }) => tls.unsent_bytes(),
            Some(Socket::Stream { unsent, .. }) => unsent.len(),
            _ => 0,
        }
    }

    fn set_read_max(&mut self, bytes: usize) {
        self.read_max = bytes.clamp(1, READ_BYTES_MAX);
    }

    fn unread_bytes(&mut self, id: ConnId) -> usize {
        let Some(Socket::Stream { stream, early, .. }) = self.slab.get_mut(id) else { return 0 };
        let unread = rustix::io::ioctl_fionread(&*stream).unwrap_or(0);
        early.len() + usize::try_from(unread).unwrap_or(usize::MAX)
    }

    fn received_bytes(&self, _: usize) -> usize {
        self.received_bytes
    }

    fn set_reading(&mut self, id: ConnId, reading: Reading) {
        let Some(Socket::Stream { read_events, .. }) = self.slab.get_mut(id) else { return };
        let flags = read_flags(read_events.unwrap_or_default());
        self.set_interest(id, |interest| match reading {
            Reading::On => (interest - READ_FLAGS) | flags,
            Reading::Off => interest - READ_FLAGS,
        });
        match reading {
            Reading::Off => self.set_load(id, Load::new(self.read_sizes)),
            Reading::On => self.queue_early(id),
        }
    }

    fn set_read_events(&mut self, id: ConnId, new: ReadEvents) {
        let Some(Socket::Stream { read_events, interest, .. }) = self.slab.get_mut(id) else {
            return;
        };
        let before = read_events.replace(new);
        if !is_read(*interest) {
            return;
        }
        self.set_interest(id, |interest| (interest - READ_FLAGS) | read_flags(new));
        if before == Some(ReadEvents::Off) && new == ReadEvents::WhileReadable {
            // This saves a wait.
            self.ready.push((id.0, EventFlags::IN));
        }
    }

    fn plain_socket(&self, id: ConnId) -> Option<BorrowedFd<'_>> {
        match self.slab.get(id)? {
            Socket::Stream { stream, tls: None, .. } => Some(stream.as_fd()),
            Socket::Stream { .. } | Socket::Listener(..) => None,
        }
    }

    fn adopt(&mut self, connection: Connection) -> io::Result<ConnId> {
        let mut interest = EventFlags::IN | EventFlags::RDHUP;
        let tls = connection.tls.as_ref();
        let end = tls.and_then(|tls| tls.end());
        if tls.is_some_and(|tls| tls.wants_room()) || !connection.unsent.is_empty() {
            interest |= EventFlags::OUT;
        }
        let id = self.add_stream(connection, interest, false)?;
        self.queue_early(id);
        // The socket does not become readable for an end that was received before.
        self.ended.extend(end.map(|end| (id, end.error())));
        Ok(id)
    }

    fn release(&mut self, id: ConnId) -> Option<Connection> {
        match self.slab.remove(id)? {
            Socket::Stream { stream, tls, load, early, unsent, .. } => {
                let set = if load.is_bulk() { &self.bulk_set } else { &self.set };
                // If this fails, events of the stream are ignored, since the id is no longer in the table.
                let _ = epoll::delete(set, &stream);
                Some(Connection::with_bytes(stream, tls, early.into_bytes(), unsent))
            }
            Socket::Listener(..) => None,
        }
    }

    fn close(&mut self, id: ConnId) {
        match self.slab.remove(id) {
            Some(Socket::Stream { stream, tls, .. }) => {
                // There is a file descriptor for the next one.
                self.paused_listeners.end_pause();
                if let Some(mut tls) = tls {
                    tls.close(&stream);
                }
                self.close_stream(&stream);
            }
            // Closing it does not remove it from the set if another process, such as a service manager, has it open as well.
            Some(Socket::Listener(listener, _)) => {
                let _ = epoll::delete(&self.set, &listener);
            }
            None => {}
        }
    }
}
