//! The state of a simulated kernel.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use sluice_base::Rng;

use super::clock::{Clock, ClockError};
use super::connection::{BufferSizes, Connection};
use crate::ConnId;
use crate::epoll::EVENTS_MAX;

/// Identifies a connection on the side of the peer. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub(super) Handle);

/// Identifies a simulated thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimulatedThread(pub(super) usize);

/// What a file descriptor or memory is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DescriptorUse {
    /// Accepting a connection.
    Accept,
    /// [`Io::adopt`](crate::Io::adopt).
    Adopt,
}

/// A number for a listener or a connection. Never reused.
pub(super) type Handle = u64;

/// Longest time that it takes to read the clock, in nanoseconds.
const CLOCK_COST_MAX_NS: u32 = 2_000;

/// One in so many waits returns only some of the events that are ready.
const PARTIAL_WAIT_ODDS: u32 = 8;

/// After one in so many reads of connections that wait to be read, the thread waits.
const QUEUE_END_ODDS: u32 = 4;

/// Listeners, connections and threads.
#[derive(Debug)]
pub(super) struct KernelState {
    seed: u64,
    start: Instant,
    pub(super) now: Instant,
    threads: Vec<Thread>,
    listeners: BTreeMap<Handle, Listener>,
    connections: BTreeMap<Handle, Connection>,
    last_handle: Handle,
    /// How often an operation is going to fail for lack of file descriptors.
    failures: BTreeMap<DescriptorUse, u32>,
}

#[derive(Debug)]
struct Listener {
    addr: SocketAddr,
    /// Connections to be accepted.
    queue: VecDeque<Handle>,
}

#[derive(Debug)]
struct Thread {
    clock: Clock,
    rng: Rng,
    is_woken: bool,
    has_ended: bool,
    registered: BTreeMap<ConnId, Registration>,
    /// When it accepts connections again, by its own clock.
    resume_accept_at: Option<Instant>,
    /// Connections that failed while sending.
    failed: VecDeque<(ConnId, ErrorKind)>,
}

/// A listener or connection in the set of a thread.
#[derive(Debug)]
struct Registration {
    handle: Handle,
    interest: EventFlags,
}

/// Something that is ready.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready {
    Waker,
    Socket(ConnId, EventFlags),
}

impl KernelState {
    pub(super) fn new(seed: u64, start: Instant) -> Self {
        Self {
            seed,
            start,
            now: start,
            threads: Vec::new(),
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_handle: 0,
            failures: BTreeMap::new(),
        }
    }

    pub(super) fn add_thread(&mut self, error: ClockError) -> SimulatedThread {
        let number = self.threads.len();
        self.threads.push(Thread {
            clock: Clock::new(self.start, error),
            rng: Rng::new(Rng::new(self.seed.wrapping_add(number as u64)).next_u64()),
            is_woken: false,
            has_ended: false,
            registered: BTreeMap::new(),
            resume_accept_at: None,
            failed: VecDeque::new(),
        });
        SimulatedThread(number)
    }

    /// After the end of a thread, nothing is ready for it.
    pub(super) fn remove_thread(&mut self, thread: SimulatedThread) {
        if let Some(thread) = self.thread(thread) {
            thread.registered.clear();
            thread.failed.clear();
            thread.resume_accept_at = None;
            (thread.is_woken, thread.has_ended) = (false, true);
        }
    }

    fn thread(&mut self, thread: SimulatedThread) -> Option<&mut Thread> {
        self.threads.get_mut(thread.0)
    }

    pub(super) fn connection(&mut self, handle: Handle) -> Option<&mut Connection> {
        self.connections.get_mut(&handle)
    }

    fn next_handle(&mut self) -> Handle {
        self.last_handle += 1;
        self.last_handle
    }

    /// The thread's own time since the start.
    pub(super) fn read_clock(&mut self, thread: SimulatedThread) -> (Instant, Duration) {
        let (now, start) = (self.now, self.start);
        let Some(thread) = self.thread(thread) else { return (now, now - start) };
        let cost = Duration::from_nanos(1 + u64::from(thread.rng.below(CLOCK_COST_MAX_NS)));
        let shown = thread.clock.read(now, cost);
        (shown, shown - start)
    }

    pub(super) fn time_of(&mut self, thread: SimulatedThread, shown: Instant) -> Instant {
        let now = self.now;
        self.thread(thread).map_or(now, |thread| thread.clock.time_of(shown)).max(now)
    }

    pub(super) fn wake(&mut self, thread: SimulatedThread) {
        if let Some(thread) = self.thread(thread) {
            thread.is_woken = !thread.has_ended;
        }
    }

    pub(super) fn is_woken(&self, thread: SimulatedThread) -> bool {
        self.threads.get(thread.0).is_some_and(|thread| thread.is_woken)
    }

    pub(super) fn take_wake(&mut self, thread: SimulatedThread) {
        if let Some(thread) = self.thread(thread) {
            thread.is_woken = false;
        }
    }

    pub(super) fn is_ready(&self, thread: SimulatedThread) -> bool {
        let has_failed = self.threads.get(thread.0).is_some_and(|it| !it.failed.is_empty());
        has_failed || self.all_ready(thread).next().is_some()
    }

    /// Everything that is ready, by increasing id.
    fn all_ready(&self, thread: SimulatedThread) -> impl Iterator<Item = Ready> {
        let thread = self.threads.get(thread.0);
        let is_woken = thread.is_some_and(|thread| thread.is_woken);
        let sockets = thread.into_iter().flat_map(|thread| &thread.registered);
        let sockets = sockets.filter_map(|(&id, registration)| {
            let events = match self.connections.get(&registration.handle) {
                Some(connection) => connection.events(),
                None => self.listeners.get(&registration.handle)?.events(),
            };
            // As by `epoll`, these two are reported in any case.
            let reported = registration.interest | EventFlags::HUP | EventFlags::ERR;
            let events = events & reported;
            (!events.is_empty()).then_some(Ready::Socket(id, events))
        });
        is_woken.then_some(Ready::Waker).into_iter().chain(sockets)
    }

    /// Some of what is ready, and at least one event if there is any, in random order.
    pub(super) fn poll(&mut self, thread: SimulatedThread, ready: &mut Vec<Ready>) {
        ready.clear();
        ready.extend(self.all_ready(thread));
        let Some(thread) = self.thread(thread) else { return };
        for unordered in (1..ready.len()).rev() {
            let bound = u32::try_from(unordered + 1).unwrap_or(u32::MAX);
            ready.swap(unordered, thread.rng.below(bound) as usize);
        }
        let mut events_max = EVENTS_MAX;
        if thread.rng.below(PARTIAL_WAIT_ODDS) == 0 {
            let bound = u32::try_from(ready.len()).unwrap_or(u32::MAX);
            events_max = events_max.min(1 + thread.rng.below(bound) as usize);
        }
        ready.truncate(events_max);
    }

    /// Whether no more connections are read from the queue of a thread before it waits.
    pub(super) fn ends_part(&mut self, thread: SimulatedThread) -> bool {
        self.thread(thread).is_some_and(|thread| thread.rng.below(QUEUE_END_ODDS) == 0)
    }

    pub(super) fn register(
        &mut self,
        thread: SimulatedThread,
        id: ConnId,
        handle: Handle,
        interest: EventFlags,
    ) {
        if let Some(thread) = self.thread(thread) {
            thread.registered.insert(id, Registration { handle, interest });
        }
    }

    pub(super) fn unregister(&mut self, thread: SimulatedThread, id: ConnId) {
        if let Some(thread) = self.thread(thread) {
            thread.registered.remove(&id);
        }
    }

    /// The interest of a thread in a listener or connection.
    pub(super) fn interest(
        &mut self,
        thread: SimulatedThread,
        id: ConnId,
    ) -> Option<&mut EventFlags> {
        Some(&mut self.thread(thread)?.registered.get_mut(&id)?.interest)
    }

    /// Accepting has failed; the thread tries again at the time `until` of its clock.
    pub(super) fn pause_accepting(&mut self, thread: SimulatedThread, until: Instant) {
        if let Some(thread) = self.thread(thread) {
            thread.resume_accept_at = Some(until);
        }
    }

    /// Whether the time has come to accept connections again; `true` once.
    pub(super) fn resumes_accepting(&mut self, thread: SimulatedThread, now: Instant) -> bool {
        let thread = self.thread(thread);
        thread.is_some_and(|it| it.resume_accept_at.take_if(|at| *at <= now).is_some())
    }

    /// When the thread accepts connections again after a failure, in the time of the simulation.
    pub(super) fn wait_end(&mut self, thread: SimulatedThread) -> Option<Instant> {
        let at = self.thread(thread)?.resume_accept_at?;
        Some(self.time_of(thread, at))
    }

    pub(super) fn push_failed(&mut self, thread: SimulatedThread, id: ConnId, kind: ErrorKind) {
        if let Some(thread) = self.thread(thread) {
            thread.failed.push_back((id, kind));
        }
    }

    pub(super) fn pop_failed(&mut self, thread: SimulatedThread) -> Option<(ConnId, ErrorKind)> {
        self.thread(thread)?.failed.pop_back()
    }

    pub(super) fn fail_for_descriptors(&mut self, operation: DescriptorUse, times: u32) {
        *self.failures.entry(operation).or_default() += times;
    }

    /// Fails if that is to be simulated.
    pub(super) fn allocate(&mut self, operation: DescriptorUse) -> io::Result<()> {
        match self.failures.get_mut(&operation) {
            Some(times) if *times > 0 => {
                *times -= 1;
                Err(Errno::MFILE.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn listen(&mut self, addr: SocketAddr) -> io::Result<Handle> {
        if self.listeners.values().any(|listener| listener.addr == addr) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let handle = self.next_handle();
        self.listeners.insert(handle, Listener { addr, queue: VecDeque::new() });
        Ok(handle)
    }

    pub(super) fn listener_addr(&self, handle: Handle) -> Option<SocketAddr> {
        Some(self.listeners.get(&handle)?.addr)
    }

    /// Closes a listener; connections that were not accepted are reset.
    pub(super) fn close_listener(&mut self, handle: Handle) {
        let Some(listener) = self.listeners.remove(&handle) else { return };
        for handle in listener.queue {
            self.end_connection(handle, Connection::reset);
        }
    }

    pub(super) fn connect(&mut self, listener: SocketAddr, peer: SocketAddr) -> io::Result<Handle> {
        let listener = self.listeners.iter().find(|(_, it)| it.addr == listener);
        let listener = *listener.ok_or(ErrorKind::ConnectionRefused)?.0;
        let handle = self.connect_to(peer);
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.queue.push_back(handle);
        }
        Ok(handle)
    }

    /// Opens a connection to a peer.
    pub(super) fn connect_to(&mut self, peer: SocketAddr) -> Handle {
        let handle = self.next_handle();
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        self.connections.insert(handle, Connection::new(peer, BufferSizes::default()));
        handle
    }

    /// Accepts a connection; `Ok(None)` if there is none.
    pub(super) fn accept(&mut self, listener: Handle) -> io::Result<Option<(Handle, SocketAddr)>> {
        if self.listeners.get(&listener).is_none_or(|listener| listener.queue.is_empty()) {
            return Ok(None);
        }
        self.allocate(DescriptorUse::Accept)?;
        let queue = self.listeners.get_mut(&listener).map(|listener| &mut listener.queue);
        let Some(handle) = queue.and_then(VecDeque::pop_front) else { return Ok(None) };
        Ok(self.connections.get(&handle).map(|connection| (handle, connection.peer_addr)))
    }

    /// Ends a connection on one side by `end`, and removes it after both sides have ended it.
    pub(super) fn end_connection(&mut self, handle: Handle, end: impl FnOnce(&mut Connection)) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        end(connection);
        if connection.is_over() {
            self.connections.remove(&handle);
        }
    }

    /// Number of connections that the threads have not closed.
    pub(super) fn open_connections(&self) -> usize {
        self.connections.values().filter(|connection| connection.is_open()).count()
    }
}

impl Listener {
    fn events(&self) -> EventFlags {
        if self.queue.is_empty() { EventFlags::empty() } else { EventFlags::IN }
    }
}
