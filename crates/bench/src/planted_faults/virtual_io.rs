//! Connections to a simulated controller, in simulated time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_io::simulated::{ClockError, SimulatedConn, SimulatedIo, SimulatedKernel};
use sluice_io::simulated::{SimulatedListener, SimulatedWaker};
use sluice_io::{ConnId, Io, IoEvent, Reading, TlsClient, UnsentCap, clock, sock};

use super::controller::SimulatedController;
use crate::connect::GeneratorIo;
use crate::coordination::SharedState;

/// [`Io`] that waits: while it does, time passes and the controller runs.
pub(super) struct VirtualIo {
    inner: Rc<RefCell<SimulatedIo>>,
    kernel: SimulatedKernel,
    controller: SimulatedController,
    shared: Arc<SharedState>,
    connected: VecDeque<ConnId>,
    /// At which time, and for how long, the process of the generator is stopped.
    pause: Option<(Duration, Duration)>,
    started_at: Instant,
    data: Vec<u8>,
}

impl VirtualIo {
    pub(super) fn new(
        seed: u64,
        controller: SimulatedController,
        shared: Arc<SharedState>,
        pause: Option<(Duration, Duration)>,
    ) -> Self {
        let started_at = clock::now();
        let kernel = SimulatedKernel::new(seed, started_at);
        let inner = Rc::new(RefCell::new(kernel.add_thread(ClockError::default())));
        let (connected, data) = (VecDeque::new(), Vec::new());
        Self { inner, kernel, controller, shared, connected, pause, started_at, data }
    }

    /// Whether there is an event now.
    fn is_ready(&self) -> bool {
        !self.connected.is_empty() || self.kernel.is_ready(self.inner.borrow().thread())
    }

    /// Lets time pass until there is an event, or until `deadline`.
    fn pass_time(&mut self, deadline: Option<Instant>) {
        self.kernel.set_time(self.now());
        self.controller.run(&self.kernel);
        let Some(deadline) = deadline else {
            // The generator waits for the start of the first loop.
            self.shared.set_start(self.kernel.now() + Duration::from_millis(20));
            return;
        };
        while !self.is_ready() && self.kernel.now() < deadline {
            let due = self.controller.next_due(self.kernel.now());
            self.kernel.set_time(due.map_or(deadline, |due| due.min(deadline)));
            self.controller.run(&self.kernel);
        }
    }
}

impl Io for VirtualIo {
    type Conn = SimulatedConn;
    type Listener = SimulatedListener;
    type Waker = SimulatedWaker;

    fn now(&self) -> Instant {
        self.inner.borrow().now()
    }

    fn since_epoch(&self) -> Duration {
        self.inner.borrow().since_epoch()
    }

    fn waker(&self) -> SimulatedWaker {
        self.inner.borrow().waker()
    }

    fn listen(&mut self, listener: SimulatedListener) -> io::Result<ConnId> {
        self.inner.borrow_mut().listen(listener)
    }

    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Instant> {
        self.pass_time(deadline);
        let elapsed = self.kernel.now() - self.started_at;
        if let Some((_, duration)) = self.pause.take_if(|(at, _)| elapsed >= *at) {
            // The controller goes on.
            let end = self.kernel.now() + duration;
            while let Some(due) = self.controller.next_due(self.kernel.now())
                && due < end
            {
                self.kernel.set_time(due);
                self.controller.run(&self.kernel);
            }
            self.kernel.set_time(end);
        }
        self.inner.borrow_mut().wait(deadline)
    }

    fn wait_for_wake(&mut self, deadline: Instant) -> io::Result<Instant> {
        self.inner.borrow_mut().wait_for_wake(deadline)
    }

    fn next_event(&mut self) -> Option<IoEvent<'_, SimulatedConn>> {
        if let Some(id) = self.connected.pop_front() {
            return Some(IoEvent::Connected(id));
        }
        let mut inner = self.inner.borrow_mut();
        Some(match inner.next_event()? {
            IoEvent::Data(id, bytes) => {
                self.data.clear();
                self.data.extend_from_slice(bytes);
                IoEvent::Data(id, &self.data)
            }
            IoEvent::Accepted(conn, addr, listener) => IoEvent::Accepted(conn, addr, listener),
            IoEvent::Connected(id) => IoEvent::Connected(id),
            IoEvent::Writable(id) => IoEvent::Writable(id),
            IoEvent::Closed(id, error) => IoEvent::Closed(id, error),
            IoEvent::NothingReceived(id) => IoEvent::NothingReceived(id),
            IoEvent::Woken => IoEvent::Woken,
            IoEvent::AcceptFailed(error) => IoEvent::AcceptFailed(error),
        })
    }

    fn send(&mut self, id: ConnId, bytes: &[u8]) -> usize {
        self.inner.borrow_mut().send(id, bytes)
    }

    fn set_unsent_cap(&mut self, id: ConnId, cap: UnsentCap) {
        self.inner.borrow_mut().set_unsent_cap(id, cap);
    }

    fn set_read_max(&mut self, bytes: usize) {
        self.inner.borrow_mut().set_read_max(bytes);
    }

    fn unread_bytes(&mut self, id: ConnId) -> usize {
        self.inner.borrow_mut().unread_bytes(id)
    }

    fn set_reading(&mut self, id: ConnId, reading: Reading) {
        self.inner.borrow_mut().set_reading(id, reading);
    }

    fn adopt(&mut self, conn: SimulatedConn) -> io::Result<ConnId> {
        self.inner.borrow_mut().adopt(conn)
    }

    fn release(&mut self, id: ConnId) -> Option<SimulatedConn> {
        self.inner.borrow_mut().release(id)
    }

    fn close(&mut self, id: ConnId) {
        self.inner.borrow_mut().close(id);
    }
}

impl GeneratorIo for VirtualIo {
    type Clock = Box<dyn Fn() -> Instant>;

    fn clock(&self) -> Self::Clock {
        let inner = Rc::clone(&self.inner);
        Box::new(move || inner.borrow().now())
    }

    fn connect(
        &mut self,
        target: SocketAddr,
        _: &sock::Options,
        _: Option<&TlsClient>,
    ) -> io::Result<ConnId> {
        let (conn, peer) = self.kernel.connect_to(target);
        self.controller.accept(peer);
        let id = self.adopt(conn)?;
        self.connected.push_back(id);
        Ok(id)
    }
}
