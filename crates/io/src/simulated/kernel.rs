//! The handles of a simulated kernel: of the simulation, and of the threads.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::clock::ClockError;
use super::connection::{BufferSizes, Connection, PeerState};
use super::simulated_io::SimulatedIo;
use super::state::{DescriptorUse, Handle, KernelState, PeerId, SimulatedThread};
use crate::Wake;

/// Listeners and connections in memory, and the peers' side of them. Clones are handles of the same kernel.
#[derive(Clone)]
pub struct SimulatedKernel(Arc<Mutex<KernelState>>);

impl fmt::Debug for SimulatedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedKernel").finish_non_exhaustive()
    }
}

impl SimulatedKernel {
    /// A kernel without connections, at the time `start`. `seed` decides what a real system may decide.
    pub fn new(seed: u64, start: Instant) -> Self {
        Self(Arc::new(Mutex::new(KernelState::new(seed, start))))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, KernelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_peer<T>(&self, peer: PeerId, f: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        self.state().connection(peer.0).map(f)
    }

    /// Adds a thread, whose clock has this error.
    pub fn add_thread(&self, error: ClockError) -> SimulatedIo {
        let thread = self.state().add_thread(error);
        SimulatedIo::new(self.clone(), thread)
    }

    /// Advances the time of the simulation to `now`. It never goes backwards.
    pub fn set_time(&self, now: Instant) {
        let mut state = self.state();
        state.now = state.now.max(now);
    }

    /// The time of the simulation.
    pub fn now(&self) -> Instant {
        self.state().now
    }

    /// The time of the simulation at which the clock of `thread` shows `shown`; the current time if that is past.
    pub fn time_of(&self, thread: SimulatedThread, shown: Instant) -> Instant {
        self.state().time_of(thread, shown)
    }

    /// Whether [`wait`](crate::Io::wait) of `thread` would return an event now.
    pub fn is_ready(&self, thread: SimulatedThread) -> bool {
        self.state().is_ready(thread)
    }

    /// When [`wait`](crate::Io::wait) of `thread` would return even without a deadline: accepting has failed, and is tried again
    /// after a pause.
    pub fn wait_end(&self, thread: SimulatedThread) -> Option<Instant> {
        self.state().wait_end(thread)
    }

    /// Whether [`wait_for_wake`](crate::Io::wait_for_wake) of `thread` would return an event now.
    pub fn is_woken(&self, thread: SimulatedThread) -> bool {
        self.state().is_woken(thread)
    }

    /// Lets the next `times` operations fail for lack of file descriptors.
    pub fn fail_for_descriptors(&self, operation: DescriptorUse, times: u32) {
        self.state().fail_for_descriptors(operation, times);
    }

    /// Number of connections that the threads have not closed, including those that were not accepted yet.
    pub fn open_connections(&self) -> usize {
        self.state().open_connections()
    }

    /// A listener at `addr`, which accepts connections until it is dropped.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn listen(&self, addr: SocketAddr) -> io::Result<SimulatedListener> {
        let handle = self.state().listen(addr)?;
        Ok(SimulatedListener { kernel: self.clone(), handle })
    }

    /// Connects a peer with address `peer_addr` to the listener at `addr`. The peer can send before it is accepted.
    ///
    /// # Errors
    /// `ConnectionRefused`.
    pub fn connect(&self, addr: SocketAddr, peer_addr: SocketAddr) -> io::Result<PeerId> {
        self.state().connect(addr, peer_addr).map(PeerId)
    }

    /// A connection that a thread has opened to a peer with address `peer_addr`, to be added by [`Io::adopt`](crate::Io::adopt).
    pub fn connect_to(&self, peer_addr: SocketAddr) -> (SimulatedConn, PeerId) {
        let handle = self.state().connect_to(peer_addr);
        (SimulatedConn::new(self.clone(), handle), PeerId(handle))
    }

    /// Sets the sizes of the buffers of a connection. What is in them stays there.
    pub fn set_buffer_sizes(&self, peer: PeerId, sizes: BufferSizes) {
        self.with_peer(peer, |connection| connection.sizes = sizes);
    }

    /// The peer sends; returns how many of `bytes` there is room for. A connection that the thread has closed takes and
    /// discards all, and is reset.
    pub fn peer_send(&self, peer: PeerId, bytes: &[u8]) -> usize {
        self.with_peer(peer, |connection| connection.peer_send(bytes)).unwrap_or(0)
    }

    /// How many bytes [`peer_send`](Self::peer_send) would take.
    pub fn peer_send_room(&self, peer: PeerId) -> usize {
        self.with_peer(peer, |connection| connection.receive_room()).unwrap_or(0)
    }

    /// The peer receives at most `max` bytes. A peer that does not call this is stuck: the send buffer fills up.
    pub fn peer_receive(&self, peer: PeerId, max: usize) -> Vec<u8> {
        self.with_peer(peer, |connection| connection.peer_receive(max)).unwrap_or_default()
    }

    /// The peer closes the connection. If it has not received everything, it resets the connection.
    pub fn peer_close(&self, peer: PeerId) {
        self.state().end_connection(peer.0, Connection::peer_close);
    }

    /// The peer resets the connection: what it has not received is lost. What the thread has not read can still be read, as
    /// in Linux.
    pub fn peer_reset(&self, peer: PeerId) {
        self.state().end_connection(peer.0, Connection::peer_reset);
    }

    /// What the peer knows about its connection; [`PeerState::Reset`] after both sides have closed it.
    pub fn peer_state(&self, peer: PeerId) -> PeerState {
        self.with_peer(peer, |connection| connection.peer_state()).unwrap_or(PeerState::Reset)
    }

    /// Bytes that the thread has sent and the peer has not received.
    pub fn unsent_bytes(&self, peer: PeerId) -> usize {
        self.with_peer(peer, |connection| connection.unsent_bytes()).unwrap_or(0)
    }

    /// Bytes that the peer has sent and the thread has not read.
    pub fn unread_bytes(&self, peer: PeerId) -> usize {
        self.with_peer(peer, |connection| connection.unread_bytes()).unwrap_or(0)
    }
}

/// A listener of a [`SimulatedKernel`]. Dropping it closes it and resets the connections that were not accepted.
#[derive(Debug)]
pub struct SimulatedListener {
    kernel: SimulatedKernel,
    pub(super) handle: Handle,
}

impl SimulatedListener {
    /// Its address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.kernel.state().listener_addr(self.handle)
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        self.kernel.state().close_listener(self.handle);
    }
}

/// A connection of a [`SimulatedKernel`]. Dropping it closes the connection, by a reset if there are unread bytes.
#[derive(Debug)]
pub struct SimulatedConn {
    kernel: SimulatedKernel,
    pub(super) handle: Handle,
}

impl SimulatedConn {
    pub(super) fn new(kernel: SimulatedKernel, handle: Handle) -> Self {
        Self { kernel, handle }
    }
}

impl Drop for SimulatedConn {
    fn drop(&mut self) {
        self.kernel.state().end_connection(self.handle, Connection::close);
    }
}

/// Wakes a simulated thread.
#[derive(Debug, Clone)]
pub struct SimulatedWaker {
    kernel: SimulatedKernel,
    thread: SimulatedThread,
}

impl SimulatedWaker {
    pub(super) fn new(kernel: SimulatedKernel, thread: SimulatedThread) -> Self {
        Self { kernel, thread }
    }
}

/// Several calls before the thread runs count once.
impl Wake for SimulatedWaker {
    fn wake(&self) {
        self.kernel.state().wake(self.thread);
    }
}
