//! Opens the connections of a generator thread, and waits for the handshakes.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sluice_io::{ConnId, Epoll, Io, IoEvent, TlsClient, clock, sock};

use crate::Error;
use crate::bench_switch::BenchSwitch;
use crate::generator::Generator;
use crate::generator_thread::GeneratorThread;
use crate::lifecycle::{self, RETRY_INTERVAL};
use crate::plan::Plan;

/// Connections that one thread opens at a time. With more, a controller with a short accept backlog loses some.
pub(crate) const CONNECTING_MAX: usize = 64;

/// Connections that a generator opens.
pub(crate) trait GeneratorIo: Io {
    /// Reads the clock, as [`now`](Io::now) does, also while an event is borrowed.
    type Clock: Fn() -> Instant;

    /// The clock.
    fn clock(&self) -> Self::Clock;

    /// Starts to open a connection, which carries TLS if there are certificates for it; [`Connected`](sluice_io::IoEvent::Connected) or [`Closed`](sluice_io::IoEvent::Closed) follows.
    ///
    /// # Errors
    /// Those of the operating system; `NotFound` if it does not have the congestion control.
    fn connect(
        &mut self,
        target: SocketAddr,
        socket: &sock::Options,
        tls: Option<&TlsClient>,
    ) -> io::Result<ConnId>;

    /// The options of a connection as the kernel has them; `None` if there is no such connection, or no kernel.
    fn effective_options(&mut self, id: ConnId) -> Option<sock::EffectiveOptions> {
        let _ = id;
        None
    }
}

impl GeneratorIo for Epoll {
    type Clock = fn() -> Instant;

    fn clock(&self) -> Self::Clock {
        clock::now
    }

    fn connect(
        &mut self,
        target: SocketAddr,
        socket: &sock::Options,
        tls: Option<&TlsClient>,
    ) -> io::Result<ConnId> {
        let stream = sock::start_connect(target, socket)?;
        match tls {
            Some(tls) => self.adopt_connecting(tls.connect(stream)?),
            None => self.adopt_connecting(stream),
        }
    }

    fn effective_options(&mut self, id: ConnId) -> Option<sock::EffectiveOptions> {
        Self::effective_options(self, id)
    }
}

/// The switch of each connection, by the slot of its id.
#[derive(Debug, Default)]
pub(crate) struct SwitchesBySlot(Vec<usize>);

impl SwitchesBySlot {
    pub(crate) fn insert(&mut self, id: ConnId, switch: usize) {
        if self.0.len() <= id.slot() {
            self.0.resize(id.slot() + 1, usize::MAX);
        }
        if let Some(slot) = self.0.get_mut(id.slot()) {
            *slot = switch;
        }
    }

    /// The switch that an event of a connection is for; `None` for other events. The connection may have been closed since.
    #[inline]
    pub(crate) fn switch_of<C>(&self, event: &IoEvent<'_, C>) -> Option<(ConnId, usize)> {
        let (IoEvent::Data(id, _)
        | IoEvent::Writable(id)
        | IoEvent::Connected(id)
        | IoEvent::Closed(id, _)) = *event
        else {
            return None;
        };
        Some((id, self.0.get(id.slot()).copied()?))
    }
}

/// Starts to connect switch number `switch`.
pub(crate) fn start(
    io: &mut impl GeneratorIo,
    plan: &Plan,
    switch: usize,
) -> Result<ConnId, Error> {
    let target = plan.targets.get(switch % plan.targets.len().max(1));
    let Some(&target) = target else { return Err(Error::Plan("no controller address".to_owned())) };
    io.connect(target, &plan.socket, plan.tls.as_ref()).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => congestion_error(plan, target, e),
        _ => Error::ConnectFailed(target, e),
    })
}

/// The congestion control may be the cause, or for a missing permission a firewall.
fn congestion_error(plan: &Plan, target: SocketAddr, e: io::Error) -> Error {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    match &plan.socket.congestion {
        Some(name) if sock::listen(any, &plan.socket).is_err() => {
            Error::Congestion(name.clone(), e)
        }
        _ => Error::ConnectFailed(target, e),
    }
}

impl<I: GeneratorIo> Generator<I> {
    /// Connects all switches of this thread and completes their handshakes.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.thread.plan);
        let started_at = self.io.now();
        let due = |index: u32| started_at + plan.connect_gap * (index / plan.connect_group);
        let deadline = due(plan.switches - 1) + plan.handshake_timeout;
        let mut next = 0;
        loop {
            let now = self.io.now();
            // While the controller refuses connections, it gets no further ones.
            let retries = self.reconnect(&plan, next, now)?;
            while !retries && let Some(index) = self.switches.get(next).map(|switch| switch.index) {
                let recent = self.switches.get(..next).unwrap_or_default().iter().rev();
                let recent = recent.take(CONNECTING_MAX * 2);
                let connecting = recent.filter(|switch| switch.lifecycle.is_connecting());
                if now < due(index) || connecting.count() >= CONNECTING_MAX {
                    break;
                }
                self.start_connect(&plan, next)?;
                next += 1;
            }
            let is_waiting = self.switches.iter().any(|it| it.lifecycle.is_waiting(&plan));
            if !is_waiting || now >= deadline || self.thread.shared.is_stopped() {
                break;
            }
            let wake = self.switches.get(next).map(|s| due(s.index)).filter(|&due| due > now);
            let retry = retries.then_some(now + RETRY_INTERVAL);
            self.run_iteration(wake.into_iter().chain(retry).chain([deadline]).min(), None)?;
            self.publish_sessions();
        }
        self.check_connected()?;
        self.publish_sessions();
        self.run_until(self.io.now() + plan.delay)
    }

    /// Fails unless at least one switch has completed the handshake and is connected.
    pub(crate) fn check_connected(&self) -> Result<(), Error> {
        let lifecycles = self.switches.iter().map(|switch| &switch.lifecycle);
        lifecycle::failure(&self.thread.plan, lifecycles).map_or(Ok(()), Err)
    }

    /// Connects those of the first `n` switches again that have failed; `true` if there are any.
    fn reconnect(&mut self, plan: &Plan, n: usize, now: Instant) -> Result<bool, Error> {
        let mut retries = false;
        for at in 0..n {
            let Some(switch) = self.switches.get_mut(at) else { break };
            if !switch.lifecycle.retries(plan) {
                continue;
            }
            retries = true;
            if switch.lifecycle.is_due(plan, now) {
                *switch = BenchSwitch::new(plan, switch.index);
                self.start_connect(plan, at)?;
            }
        }
        Ok(retries)
    }

    fn start_connect(&mut self, plan: &Plan, at: usize) -> Result<(), Error> {
        let Some(switch) = self.switches.get_mut(at) else { return Ok(()) };
        switch.lifecycle.connect_started = Some(self.io.now());
        let id = start(&mut self.io, plan, switch.index as usize)?;
        switch.conn = Some(id);
        self.by_slot.insert(id, at);
        Ok(())
    }
}
