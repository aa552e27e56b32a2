//! [`Io`] of a simulated thread.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::kernel::{SimulatedConn, SimulatedKernel, SimulatedListener, SimulatedWaker};
use super::state::{Ready, SimulatedThread};
use crate::accepting::{ACCEPT_PAUSE, ACCEPTS_MAX};
use crate::epoll::READ_BYTES_MAX;
use crate::read_order::{BulkQueue, Load};
use crate::slab::Slab;
use crate::{ConnId, Io, IoEvent, Reading, UnsentCap};

/// Wall-clock time at the start of a simulation: 2025-01-01.
const EPOCH_AT_START: Duration = Duration::from_secs(1_735_689_600);

/// Interest in data and in the end of the stream.
const READ_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// A set of simulated connections, with the clock of its thread. It does what [`Epoll`](crate::Epoll) does, except that it
/// never blocks.
#[derive(Debug)]
pub struct SimulatedIo {
    kernel: SimulatedKernel,
    thread: SimulatedThread,
    slab: Slab<Socket>,
    ready: Vec<Ready>,
    at: usize,
    /// Taken from `ready` or `bulk_queue`, and not handled completely.
    current: Option<Ready>,
    bulk_queue: BulkQueue<Ready>,
    accepts_left: u32,
    /// Listeners on which accepting has failed.
    paused_listeners: Vec<ConnId>,
    rx: Vec<u8>,
    /// Bytes of one read.
    read_max: usize,
}

#[derive(Debug)]
enum Socket {
    Listener(SimulatedListener),
    Conn(SimulatedConn, Load),
}

/// An event of a ready connection.
enum ConnEvent {
    None,
    Writable,
    /// The bytes are in the receive buffer.
    Read,
    Closed(Option<ErrorKind>),
}

impl SimulatedIo {
    pub(super) fn new(kernel: SimulatedKernel, thread: SimulatedThread) -> Self {
        Self {
            kernel,
            thread,
            slab: Slab::new(),
            ready: Vec::new(),
            at: 0,
            current: None,
            bulk_queue: BulkQueue::new(),
            accepts_left: ACCEPTS_MAX,
            paused_listeners: Vec::new(),
            rx: Vec::new(),
            read_max: READ_BYTES_MAX,
        }
    }

    /// The thread that this belongs to.
    pub fn thread(&self) -> SimulatedThread {
        self.thread
    }

    fn conn(&mut self, id: ConnId) -> Option<&SimulatedConn> {
        match self.slab.get_mut(id)? {
            Socket::Conn(conn, _) => Some(conn),
            Socket::Listener(_) => None,
        }
    }

    fn set_interest(&mut self, id: ConnId, change: impl FnOnce(EventFlags) -> EventFlags) {
        if self.conn(id).is_some()
            && let Some(interest) = self.kernel.state().interest(self.thread, id)
        {
            *interest = change(*interest);
        }
    }

    /// Removes a listener or connection from the set.
    fn remove(&mut self, id: ConnId) -> Option<Socket> {
        let socket = self.slab.remove(id)?;
        self.kernel.state().unregister(self.thread, id);
        Some(socket)
    }

    /// Accepts one connection from the listener `id`; `None` if there is none, or no more before the next wait.
    fn accept(&mut self, id: ConnId) -> Option<IoEvent<'static, SimulatedConn>> {
        let left = self.accepts_left.checked_sub(1)?;
        let Some(Socket::Listener(listener)) = self.slab.get_mut(id) else { return None };
        let accepted = self.kernel.state().accept(listener.handle);
        match accepted {
            Ok(Some((handle, addr))) => {
                self.accepts_left = left;
                let connection = SimulatedConn::new(self.kernel.clone(), handle);
                Some(IoEvent::Accepted(connection, addr, id))
            }
            Ok(None) => None,
            Err(error) => {
                self.accepts_left = 0;
                if let Some(interest) = self.kernel.state().interest(self.thread, id) {
                    *interest = EventFlags::empty();
                }
                self.paused_listeners.push(id);
                let resume_at = self.now() + ACCEPT_PAUSE;
                self.kernel.state().pause_accepting(self.thread, resume_at);
                Some(IoEvent::AcceptFailed(error))
            }
        }
    }

    /// Enables paused listeners again, when it is time.
    fn resume_listeners(&mut self) {
        let now = self.now();
        let mut state = self.kernel.state();
        if !state.resumes_accepting(self.thread, now) {
            return;
        }
        for id in self.paused_listeners.drain(..) {
            if let Some(interest) = state.interest(self.thread, id) {
                *interest = EventFlags::IN;
            }
        }
    }

    fn clear_ready(&mut self) {
        self.ready.clear();
        self.at = 0;
        self.current = None;
    }

    /// Moves ready bulk connections to their queue. If that is not empty, they are reported after a later wait.
    fn defer_bulk(&mut self) {
        let (slab, is_empty) = (&mut self.slab, self.bulk_queue.is_empty());
        let bulk = self.ready.extract_if(.., |ready| match *ready {
            Ready::Waker => false,
            Ready::Socket(id, _) => {
                matches!(slab.get_mut(id), Some(Socket::Conn(_, load)) if load.is_bulk())
            }
        });
        if is_empty {
            self.bulk_queue.extend(bulk);
        } else {
            bulk.for_each(drop);
        }
    }

    /// The next thing that is ready; bulk connections come last. Since reading takes no time here, the seed decides how many
    /// of them are read between two waits.
    fn next_ready(&mut self) -> Option<Ready> {
        if let Some(ready) = self.current.take() {
            return Some(ready);
        }
        if let Some(&ready) = self.ready.get(self.at) {
            self.at += 1;
            return Some(ready);
        }
        let (kernel, thread) = (&self.kernel, self.thread);
        let next = self.bulk_queue.pop(|| kernel.state().read_clock(thread).0);
        if next.is_some() && kernel.state().ends_part(thread) {
            self.bulk_queue.end_part_early();
        }
        next
    }

    /// The next event of a ready connection: first whether it is writable, then what a read returns.
    fn conn_event(&mut self, id: ConnId, events: EventFlags) -> ConnEvent {
        let Some(Socket::Conn(conn, load)) = self.slab.get_mut(id) else {
            return ConnEvent::None;
        };
        let handle = conn.handle;
        let mut state = self.kernel.state();
        let Some(interest) = state.interest(self.thread, id).copied() else {
            return ConnEvent::None;
        };
        let Some(connection) = state.connection(handle) else { return ConnEvent::None };
        if events.contains(EventFlags::OUT) && interest.contains(EventFlags::OUT) {
            if events.contains(EventFlags::ERR) {
                return ConnEvent::Closed(connection.failure());
            }
            return ConnEvent::Writable;
        }
        if !interest.contains(EventFlags::IN) {
            let is_closed = events.intersects(EventFlags::HUP | EventFlags::ERR);
            return if is_closed { ConnEvent::Closed(None) } else { ConnEvent::None };
        }
        if !events.intersects(READ_EVENTS | EventFlags::HUP | EventFlags::ERR) {
            return ConnEvent::None;
        }
        match connection.read(load.read_max(self.read_max), &mut self.rx) {
            Ok(0) => ConnEvent::Closed(None),
            Ok(n) => {
                *load = load.after_read(n, self.read_max);
                ConnEvent::Read
            }
            Err(ErrorKind::WouldBlock) => ConnEvent::None,
            Err(kind) => ConnEvent::Closed(Some(kind)),
        }
    }
}

/// The thread has ended.
impl Drop for SimulatedIo {
    fn drop(&mut self) {
        self.kernel.state().remove_thread(self.thread);
    }
}

impl Io for SimulatedIo {
    type Conn = SimulatedConn;
    type Listener = SimulatedListener;
    type Waker = SimulatedWaker;

    /// Takes up to 2 µs of the thread's time.
    fn now(&self) -> Instant {
        self.kernel.state().read_clock(self.thread).0
    }

    fn since_epoch(&self) -> Duration {
        EPOCH_AT_START + self.kernel.state().read_clock(self.thread).1
    }

    fn waker(&self) -> SimulatedWaker {
        SimulatedWaker::new(self.kernel.clone(), self.thread)
    }

    fn listen(&mut self, listener: SimulatedListener) -> io::Result<ConnId> {
        let handle = listener.handle;
        let id = self.slab.insert(Socket::Listener(listener));
        self.kernel.state().register(self.thread, id, handle, EventFlags::IN);
        Ok(id)
    }

    fn wait(&mut self, _: Option<Instant>) -> io::Result<Instant> {
        self.resume_listeners();
        self.clear_ready();
        self.accepts_left = ACCEPTS_MAX;
        self.kernel.state().poll(self.thread, &mut self.ready);
        self.defer_bulk();
        let now = self.now();
        self.bulk_queue.begin_part(now);
        Ok(now)
    }

    fn wait_for_wake(&mut self, _: Instant) -> io::Result<Instant> {
        self.clear_ready();
        self.bulk_queue.end_part();
        if self.kernel.is_woken(self.thread) {
            self.ready.push(Ready::Waker);
        }
        Ok(self.now())
    }

    fn next_event(&mut self) -> Option<IoEvent<'_, SimulatedConn>> {
        loop {
            let failed = self.kernel.state().pop_failed(self.thread);
            if let Some((id, kind)) = failed {
                if self.remove(id).is_some() {
                    return Some(IoEvent::Closed(id, Some(kind.into())));
                }
                continue;
            }
            let ready = self.next_ready()?;
            let (id, events) = match ready {
                Ready::Waker => {
                    self.kernel.state().take_wake(self.thread);
                    return Some(IoEvent::Woken);
                }
                Ready::Socket(id, events) => (id, events),
            };
            if let Some(Socket::Listener(_)) = self.slab.get_mut(id) {
                if let Some(event) = self.accept(id) {
                    self.current = Some(ready);
                    return Some(event);
                }
                self.accepts_left = ACCEPTS_MAX;
                continue;
            }
            match self.conn_event(id, events) {
                ConnEvent::Writable => {
                    self.set_interest(id, |interest| interest - EventFlags::OUT);
                    // The event stays the current one: the connection may be readable too.
                    self.current = Some(Ready::Socket(id, events - EventFlags::OUT));
                    return Some(IoEvent::Writable(id));
                }
                ConnEvent::None => {}
                ConnEvent::Read => return Some(IoEvent::Data(id, &self.rx)),
                ConnEvent::Closed(kind) => {
                    self.remove(id);
                    return Some(IoEvent::Closed(id, kind.map(Into::into)));
                }
            }
        }
    }

    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        let Some(handle) = self.conn(id).map(|conn| conn.handle) else { return bytes.len() };
        let sent = match self.kernel.state().connection(handle) {
            Some(connection) => connection.send(bytes),
            None => return bytes.len(),
        };
        match sent {
            Ok(sent) => {
                if sent < bytes.len() {
                    self.set_interest(id, |interest| interest | EventFlags::OUT);
                }
                sent
            }
            Err(kind) => {
                self.kernel.state().push_failed(self.thread, id, kind);
                bytes.len()
            }
        }
    }

    fn set_unsent_cap(&mut self, id: ConnId, cap: UnsentCap) {
        let Some(handle) = self.conn(id).map(|conn| conn.handle) else { return };
        if let Some(connection) = self.kernel.state().connection(handle) {
            connection.set_unsent_cap(cap);
        }
    }

    fn set_read_max(&mut self, bytes: usize) {
        self.read_max = bytes.clamp(1, READ_BYTES_MAX);
    }

    fn unread_bytes(&mut self, id: ConnId) -> usize {
        let Some(handle) = self.conn(id).map(|conn| conn.handle) else { return 0 };
        let mut state = self.kernel.state();
        state.connection(handle).map_or(0, |connection| connection.unread_bytes())
    }

    fn set_reading(&mut self, id: ConnId, reading: Reading) {
        self.set_interest(id, |interest| match reading {
            Reading::On => interest | READ_EVENTS,
            Reading::Off => interest - READ_EVENTS,
        });
        if reading == Reading::Off
            && let Some(Socket::Conn(_, load)) = self.slab.get_mut(id)
        {
            *load = Load::Sparse;
        }
    }

    fn adopt(&mut self, conn: SimulatedConn) -> io::Result<ConnId> {
        self.kernel.state().allocate(super::DescriptorUse::Adopt)?;
        let handle = conn.handle;
        let id = self.slab.insert(Socket::Conn(conn, Load::Sparse));
        self.kernel.state().register(self.thread, id, handle, READ_EVENTS);
        Ok(id)
    }

    fn release(&mut self, id: ConnId) -> Option<SimulatedConn> {
        self.conn(id)?;
        match self.remove(id)? {
            Socket::Conn(conn, _) => Some(conn),
            Socket::Listener(_) => None,
        }
    }

    fn close(&mut self, id: ConnId) {
        let Some(Socket::Conn(conn, _)) = self.remove(id) else { return };
        if !self.paused_listeners.is_empty() {
            // There is a file descriptor for the next one.
            let now = self.now();
            self.kernel.state().pause_accepting(self.thread, now);
        }
        // As much as `Epoll` reads before it closes a socket; if more is unread, the connection is reset.
        if let Some(connection) = self.kernel.state().connection(conn.handle) {
            let _ = connection.read(READ_BYTES_MAX, &mut self.rx);
        }
    }
}
