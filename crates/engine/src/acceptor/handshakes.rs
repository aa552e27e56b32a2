//! The connections in the handshake.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_base::hash::derive_secret;
use sluice_io::ConnId;
use sluice_openflow::SwitchFeatures;
use sluice_proto::{self as proto, ControllerSession, ReassemblyBudget};
use sluice_sdk::App;

use super::admission::HandshakeQueue;
use super::pending::{HandshakeContext, Origin, PendingConnection, Security};
use super::source::SourceNetwork;
use crate::close_reason::CloseReason;
use crate::config::Limits;
use crate::connection::ConnectionBuffers;
use crate::deadlines::Deadlines;

/// How long a `HELLO` that confuses Mininet waits for the peer's. Switches send theirs at once, so that they do not wait as long.
///
/// It should be sent at once (§6.3.1), and is if all versions are offered. A `HELLO` with a version bitmap has the byte 1, however, and
/// without the bitmap a version that is left out could be negotiated.
const HELLO_DELAY: Duration = Duration::from_millis(100);

/// The connections in the handshake, and those that wait because their datapath id is in use or no worker has time for them.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// By [`ConnId::slot`].
    connections: Vec<Option<Box<PendingConnection>>>,
    /// Number of connections in `connections`.
    count: usize,
    /// The same, in the order in which they are closed when there are too many.
    queue: HandshakeQueue,
    /// When a connection that has not completed the handshake must do something.
    deadlines: Deadlines<ConnId>,
    /// Memory for multipart replies. Separate, so that a flood of connections takes none from switches.
    budget: ReassemblyBudget,
    /// Number of connections so far.
    opened: u64,
}

impl Handshakes {
    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut PendingConnection> {
        self.connections.get_mut(id.slot())?.as_deref_mut().filter(|pending| pending.id == id)
    }

    /// Starts the handshake of a new connection. The `HELLO` is appended to `tx` if it is to be sent at once.
    pub(crate) fn open(
        &mut self,
        (id, addr, origin, security): (ConnId, SocketAddr, Origin, Security),
        cfg: &proto::Config,
        now: Instant,
        tx: &mut Vec<u8>,
    ) {
        self.opened += 1;
        let mut hello = Vec::new();
        let mut session = ControllerSession::open(cfg, first_xid(self.opened), now, &mut hello);
        session.set_reassembly_budget(&self.budget, origin.source.id());
        if !confuses_mininet(&hello) {
            tx.append(&mut hello);
        }
        let pending = PendingConnection {
            id,
            addr,
            security,
            origin,
            queue_key: self.queue.insert(id, origin),
            is_complete: false,
            waiting: None,
            waiting_ports: 0,
            session,
            hello,
            hello_at: now + HELLO_DELAY,
            buffers: ConnectionBuffers::default(),
            received_bytes: 0,
        };
        self.deadlines.set(id, pending.deadline(cfg));
        if self.connections.len() <= id.slot() {
            self.connections.resize_with(id.slot() + 1, || None);
        }
        if let Some(slot) = self.connections.get_mut(id.slot()) {
            *slot = Some(Box::new(pending));
            self.count += 1;
        }
    }

    /// Records that the TLS handshake of a connection is complete, which counts as much as a `HELLO`.
    pub(crate) fn record_tls_handshake(&mut self, id: ConnId, now: Instant) {
        let pending = self.connections.get_mut(id.slot()).and_then(Option::as_deref_mut);
        if let Some(pending) = pending.filter(|pending| pending.id == id) {
            let key = self.queue.record_progress(pending.queue_key, pending.origin, now);
            pending.queue_key = key;
        }
    }

    /// The connections.
    pub(crate) fn ids(&self) -> Vec<ConnId> {
        self.connections.iter().flatten().map(|pending| pending.id).collect()
    }

    /// Processes a read; the replies are in the transmit buffer of `ctx`. Returns the features of the switch at the end of the
    /// handshake.
    pub(crate) fn process_read<A: App>(
        &mut self,
        id: ConnId,
        bytes: &[u8],
        ctx: &mut HandshakeContext<'_, A>,
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let pending = self.connections.get_mut(id.slot()).and_then(Option::as_deref_mut);
        let Some(pending) = pending.filter(|pending| pending.id == id) else { return Ok(None) };
        let was_negotiated = pending.session.is_version_negotiated();
        let result = pending.process_read(ctx, bytes);
        if !was_negotiated && pending.session.is_version_negotiated() {
            let key = self.queue.record_progress(pending.queue_key, pending.origin, ctx.now);
            pending.queue_key = key;
        }
        if let Ok(Some(_)) = result {
            pending.is_complete = true;
            self.deadlines.remove(id);
        }
        result
    }

    /// When to call [`pop_due`](Self::pop_due) next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// A connection whose deadline has come.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<ConnId> {
        self.deadlines.pop_due(now)
    }

    /// Runs the timers of a connection that is due; messages are appended to `tx`.
    pub(crate) fn handle_timeouts(
        &mut self,
        id: ConnId,
        cfg: &proto::Config,
        now: Instant,
        tx: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let Some(pending) = self.get_mut(id) else { return Ok(()) };
        if now >= pending.hello_at {
            tx.append(&mut pending.hello);
        }
        pending.session.handle_timeouts(cfg, now, tx).map_err(CloseReason::Session)?;
        let deadline = pending.deadline(cfg);
        self.deadlines.set(id, deadline);
        Ok(())
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<Box<PendingConnection>> {
        self.get_mut(id)?;
        let pending = self.connections.get_mut(id.slot())?.take()?;
        self.queue.remove(pending.queue_key, pending.origin);
        self.deadlines.remove(id);
        self.count -= 1;
        Some(pending)
    }

    /// Whether there is no room for a connection from `origin`, and the one to close for it.
    pub(crate) fn admit(&self, origin: Origin, now: Instant, limits: &Limits) -> Admission {
        if self.count < limits.handshakes_max {
            return Admission::Admitted;
        }
        let evicted = self.queue.eviction_candidate(origin, now, limits.hello_grace);
        evicted.map_or(Admission::Refused, Admission::Replaces)
    }

    /// The connection of a source that has the most ports, of those that claim a datapath id in use or wait for a worker.
    ///
    /// # Cost
    /// Linear in the number of connections.
    pub(crate) fn waiting_with_most_ports(&self, source: SourceNetwork) -> Option<ConnId> {
        let of_source = self.connections.iter().flatten().filter(|it| it.origin.source == source);
        let claimants = of_source.filter(|it| it.waiting_ports > 0);
        claimants.max_by_key(|it| it.waiting_ports).map(|it| it.id)
    }

    /// The connection to close when there is no file descriptor for a new one.
    pub(crate) fn oldest_of_largest_source(&self, now: Instant) -> Option<ConnId> {
        self.queue.oldest_of_largest_source(now)
    }
}

/// Whether a new connection is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// It is, and this one is closed for it.
    Replaces(ConnId),
    Refused,
}

/// The first transaction id of a session. Peers cannot predict it, unless the process has no random seed.
#[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
pub(crate) fn first_xid(connection: u64) -> u32 {
    derive_secret(("first transaction id", connection)) as u32
}

/// Whether Mininet may hang if it receives this `HELLO`.
///
/// Mininet runs `telnet` to find out whether a controller is listening. If that prints what it receives before it ends, Mininet
/// searches it: byte 1 starts a process id, for whose end it waits forever, and byte 127 ends the output of the command.
fn confuses_mininet(hello: &[u8]) -> bool {
    hello.iter().any(|byte| matches!(byte, 1 | 127))
}
