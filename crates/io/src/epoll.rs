//! Readiness by `epoll`: a read for a burst, a write for a burst.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, sockopt};
use rustix::time::Timespec;

use crate::slab::Slab;
use crate::{ConnId, Io, IoEvent, Reading, UnsentCap, Waker, clock, sock};

/// Bytes read at a time. `lab/read-size` has the measurement.
pub const READ_BYTES_MAX: usize = 128 << 10;

/// Connections looked at in one turn.
const EVENTS_MAX: usize = 256;

/// Connections taken from one listener in one turn, so that a flood of them holds nothing else up for long.
const ACCEPTS_MAX: u32 = 64;

/// How long no connection is taken after the system had no file or memory for one: a listener stays ready all the while.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// The token of the waker; no [`ConnId`] has it, since slots are counted in 32 bits from 0.
const WAKER: u64 = u64::MAX;

/// How to wait for something to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStrategy {
    /// Asks again and again for so long before it blocks; zero blocks at once.
    pub spin: Duration,
}

/// A set of TCP connections.
///
/// # Kernel
/// Linux 2.6.9; `EPOLLRDHUP` 2.6.17.
pub struct Epoll {
    set: OwnedFd,
    slab: Slab<Source>,
    ready: Vec<(u64, EventFlags)>,
    at: usize,
    accepts_left: u32,
    /// Listeners that are not listened to, and until when.
    resting: Vec<ConnId>,
    rest_until: Instant,
    /// Connections that failed while sending, to be reported.
    failed: Vec<(ConnId, io::ErrorKind)>,
    rx: Box<[u8]>,
    waker: Waker,
    waiting: WaitStrategy,
    on_peer_shutdown: OnPeerShutdown,
}

/// What becomes of a connection whose peer will say no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPeerShutdown {
    /// It is taken out and [`Closed`](IoEvent::Closed): nobody is left to talk to.
    #[default]
    Close,
    /// It is reported [`Closed`](IoEvent::Closed) in order and stays, so that the peer can be told the rest, until
    /// [`close`](Io::close), or until it is reported once more because the peer is gone altogether.
    KeepOpen,
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").field("set", &self.set).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Source {
    Listener(TcpListener),
    Stream { stream: TcpStream, interest: EventFlags, connecting: bool, holding: UnsentCap },
}

impl Source {
    fn stream(stream: TcpStream, interest: EventFlags, connecting: bool) -> Self {
        Self::Stream { stream, interest, connecting, holding: UnsentCap::default() }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener) => listener.as_fd(),
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
        Ok(Self {
            set,
            slab: Slab::new(),
            ready: Vec::with_capacity(EVENTS_MAX),
            at: 0,
            accepts_left: ACCEPTS_MAX,
            resting: Vec::new(),
            rest_until: clock::now(),
            failed: Vec::new(),
            rx: vec![0; READ_BYTES_MAX].into_boxed_slice(),
            waker,
            waiting,
            on_peer_shutdown: OnPeerShutdown::Close,
        })
    }

    /// The same set, but for what becomes of connections whose peers will say no more.
    #[must_use]
    pub fn on_peer_shutdown(self, on_peer_shutdown: OnPeerShutdown) -> Self {
        Self { on_peer_shutdown, ..self }
    }

    /// Tells the peer that nothing more is said to it. It may go on itself.
    pub fn shutdown_write(&mut self, id: ConnId) {
        if let Some(Source::Stream { stream, .. }) = self.slab.get_mut(id) {
            // It fails if the peer is gone, which is reported.
            let _ = rustix::net::shutdown(&*stream, Shutdown::Write);
        }
    }

    /// What ends this set's [`wait`](Io::wait) from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Accepts on `listener`, which must not block.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(&mut self, listener: TcpListener) -> io::Result<ConnId> {
        self.register(Source::Listener(listener), EventFlags::IN)
    }

    /// Takes a stream that is still connecting.
    ///
    /// # Errors
    /// What the system says.
    pub fn adopt_connecting(&mut self, stream: TcpStream) -> io::Result<ConnId> {
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP;
        self.register(Source::stream(stream, interest, true), interest)
    }

    fn register(&mut self, source: Source, interest: EventFlags) -> io::Result<ConnId> {
        let id = self.slab.insert(source);
        let Some(source) = self.slab.get_mut(id) else { return Ok(id) };
        if let Err(e) = epoll::add(&self.set, &*source, token(id), interest) {
            self.slab.remove(id);
            return Err(e.into());
        }
        Ok(id)
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.ready.clear();
        self.at = 0;
        self.accepts_left = ACCEPTS_MAX;
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.set, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.ready.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Polls without blocking until something is there or the spin is over.
    fn spin(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        let start = clock::now();
        loop {
            self.poll(Some(Duration::ZERO))?;
            let now = clock::now();
            let over = now - start >= self.waiting.spin || deadline.is_some_and(|d| now >= d);
            if !self.ready.is_empty() || over {
                return Ok(now);
            }
            std::hint::spin_loop();
        }
    }

    fn set_interest(&mut self, id: ConnId, change: impl FnOnce(EventFlags) -> EventFlags) {
        let Some(Source::Stream { stream, interest, .. }) = self.slab.get_mut(id) else { return };
        let wanted = change(*interest);
        if wanted == *interest {
            return;
        }
        *interest = wanted;
        if let Err(e) = epoll::modify(&self.set, &*stream, token(id), wanted) {
            self.failed.push((id, e.kind()));
        }
    }

    /// Takes one connection from the listener `id`; `None` when there is none left for this turn.
    fn accept(&mut self, id: ConnId) -> Option<IoEvent<'static, TcpStream>> {
        let left = self.accepts_left.checked_sub(1)?;
        let Some(Source::Listener(listener)) = self.slab.get_mut(id) else { return None };
        match listener.accept() {
            Ok((stream, addr)) => {
                self.accepts_left = left;
                Some(match stream.set_nonblocking(true) {
                    Ok(()) => {
                        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                        IoEvent::Accepted(stream, addr)
                    }
                    Err(e) => IoEvent::AcceptFailed(e),
                })
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) => {
                self.accepts_left = 0;
                if is_want(&e) && epoll::modify(&self.set, &*listener, token(id), NOTHING).is_ok() {
                    self.resting.push(id);
                    self.rest_until = clock::now() + REFUSED_PAUSE;
                }
                Some(IoEvent::AcceptFailed(e))
            }
        }
    }

    /// Listens again where the system had nothing left, when it is time; returns until when to wait at most.
    fn end_rest(&mut self, deadline: Option<Instant>) -> Option<Instant> {
        if self.resting.is_empty() {
            return deadline;
        }
        if clock::now() < self.rest_until {
            return deadline.into_iter().chain([self.rest_until]).min();
        }
        for id in self.resting.drain(..) {
            if let Some(Source::Listener(listener)) = self.slab.get_mut(id) {
                // What worked when it was taken in, and when it was left out, works now.
                let _ = epoll::modify(&self.set, &*listener, token(id), EventFlags::IN);
            }
        }
        deadline
    }

    /// What a ready stream has: first whether it can be written to, then what it says.
    fn stream_event(&mut self, id: ConnId, flags: EventFlags) -> Happened {
        let Some(Source::Stream { stream, interest, connecting, .. }) = self.slab.get_mut(id)
        else {
            return Happened::Nothing;
        };
        if flags.contains(EventFlags::OUT) && interest.contains(EventFlags::OUT) {
            if flags.contains(EventFlags::ERR) {
                let error = sockopt::socket_error(&*stream).ok().and_then(Result::err);
                return Happened::Closed(error.map(Errno::kind));
            }
            return if std::mem::take(connecting) { Happened::Connected } else { Happened::Room };
        }
        if !interest.contains(EventFlags::IN) {
            let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            return if gone { Happened::Closed(None) } else { Happened::Nothing };
        }
        let heard = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if !flags.intersects(heard) {
            return Happened::Nothing;
        }
        match recv(&*stream, &mut *self.rx, RecvFlags::DONTWAIT) {
            Ok((0, _)) if self.on_peer_shutdown == OnPeerShutdown::KeepOpen => Happened::Ended,
            Ok((0, _)) => Happened::Closed(None),
            Ok((n, _)) => Happened::Read(n),
            Err(Errno::AGAIN | Errno::INTR) => Happened::Nothing,
            Err(e) => Happened::Closed(Some(e.kind())),
        }
    }
}

impl AsFd for Epoll {
    /// Ready when [`wait`](Io::wait) would not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Being listened to for nothing.
const NOTHING: EventFlags = EventFlags::empty();

fn token(id: ConnId) -> EventData {
    EventData::new_u64(id.0)
}

/// Whether the system had no file or no memory left.
fn is_want(error: &io::Error) -> bool {
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| wants.contains(&errno))
}

/// What became of one ready stream.
enum Happened {
    Nothing,
    Connected,
    Room,
    Read(usize),
    Ended,
    Closed(Option<io::ErrorKind>),
}

impl Io for Epoll {
    type Conn = TcpStream;

    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        if !self.failed.is_empty() {
            self.poll(Some(Duration::ZERO))?;
            return Ok(clock::now());
        }
        let deadline = self.end_rest(deadline);
        let mut now = None;
        if self.waiting.spin > Duration::ZERO {
            now = Some(self.spin(deadline)?);
        }
        if let Some(now) = now.filter(|&now| {
            !self.ready.is_empty() || deadline.is_some_and(|deadline| now >= deadline)
        }) {
            return Ok(now);
        }
        let timeout = deadline.map(|d| d.saturating_duration_since(now.unwrap_or_else(clock::now)));
        self.poll(timeout)?;
        Ok(clock::now())
    }

    fn next_event(&mut self) -> Option<IoEvent<'_, TcpStream>> {
        loop {
            if let Some((id, kind)) = self.failed.pop() {
                if self.slab.remove(id).is_some() {
                    return Some(IoEvent::Closed(id, Some(kind)));
                }
                continue;
            }
            let &(token, flags) = self.ready.get(self.at)?;
            if token == WAKER {
                self.at += 1;
                self.waker.clear();
                return Some(IoEvent::Woken);
            }
            let id = ConnId(token);
            if let Some(Source::Listener(_)) = self.slab.get_mut(id) {
                match self.accept(id) {
                    Some(event) => return Some(event),
                    None => self.at += 1,
                }
                continue;
            }
            match self.stream_event(id, flags) {
                // The event is not used up: what the stream says comes next.
                Happened::Connected => {
                    self.set_interest(id, |interest| interest - EventFlags::OUT);
                    return Some(IoEvent::Connected(id));
                }
                Happened::Room => {
                    self.set_interest(id, |interest| interest - EventFlags::OUT);
                    // Told once a wait: a send that is cut short again must not be told of the room it has used.
                    if let Some((_, flags)) = self.ready.get_mut(self.at) {
                        *flags -= EventFlags::OUT;
                    }
                    return Some(IoEvent::Writable(id));
                }
                Happened::Nothing => self.at += 1,
                Happened::Read(n) => {
                    self.at += 1;
                    return Some(IoEvent::Data(id, self.rx.get(..n).unwrap_or_default()));
                }
                Happened::Ended => {
                    self.at += 1;
                    self.set_reading(id, Reading::Off);
                    return Some(IoEvent::Closed(id, None));
                }
                Happened::Closed(kind) => {
                    self.at += 1;
                    self.slab.remove(id);
                    return Some(IoEvent::Closed(id, kind));
                }
            }
        }
    }

    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let Some(Source::Stream { stream, holding, .. }) = self.slab.get_mut(id) else {
            return bytes.len();
        };
        // A send goes beyond what the kernel is to hold, but begins no other then.
        let piece = match holding {
            UnsentCap::Off => bytes,
            UnsentCap::On => bytes.get(..sock::UNSENT_MAX.into()).unwrap_or(bytes),
        };
        let sent = match send(&*stream, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(e) => {
                self.failed.push((id, e.kind()));
                return bytes.len();
            }
        };
        if sent < bytes.len() {
            self.set_interest(id, |interest| interest | EventFlags::OUT);
        }
        sent
    }

    fn set_unsent_cap(&mut self, id: ConnId, new: UnsentCap) {
        if let Some(Source::Stream { stream, holding, .. }) = self.slab.get_mut(id) {
            *holding = new;
            sock::set_unsent_cap(stream, new);
        }
    }

    fn unread_bytes(&mut self, id: ConnId) -> usize {
        let Some(Source::Stream { stream, .. }) = self.slab.get_mut(id) else { return 0 };
        let unread = rustix::io::ioctl_fionread(&*stream).unwrap_or(0);
        usize::try_from(unread).unwrap_or(usize::MAX)
    }

    fn set_reading(&mut self, id: ConnId, reading: Reading) {
        let both = EventFlags::IN | EventFlags::RDHUP;
        self.set_interest(id, |interest| match reading {
            Reading::On => interest | both,
            Reading::Off => interest - both,
        });
    }

    fn adopt(&mut self, stream: TcpStream) -> io::Result<ConnId> {
        let interest = EventFlags::IN | EventFlags::RDHUP;
        self.register(Source::stream(stream, interest, false), interest)
    }

    fn release(&mut self, id: ConnId) -> Option<TcpStream> {
        match self.slab.remove(id)? {
            Source::Stream { stream, .. } => {
                // A failure leaves nothing behind either: the descriptor is no longer looked up here.
                let _ = epoll::delete(&self.set, &stream);
                Some(stream)
            }
            Source::Listener(_) => None,
        }
    }

    fn close(&mut self, id: ConnId) {
        if let Some(Source::Stream { stream, .. }) = self.slab.remove(id) {
            // Closing on what was not read is a reset, which would overtake what was said last.
            let _ = rustix::net::shutdown(&stream, Shutdown::Write);
            let _ = recv(&stream, &mut *self.rx, RecvFlags::DONTWAIT);
        }
    }
}
