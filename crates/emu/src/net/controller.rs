//! The controller of a simulated network.

use std::time::Instant;

/// A control connection; unique, even among those of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    switch: usize,
    nth: u32,
}

impl ConnectionId {
    pub(super) const fn new(switch: usize, nth: u32) -> Self {
        Self { switch, nth }
    }

    /// Index of the switch in the topology.
    pub const fn switch(self) -> usize {
        self.switch
    }

    /// Number of this connection among those of its switch, from 1.
    pub const fn nth(self) -> u32 {
        self.nth
    }
}

/// What a controller sends.
#[derive(Debug, Default)]
pub struct ControllerOutput {
    list: Vec<(ConnectionId, ControllerAction)>,
    /// The current connection, and its bytes so far.
    current: Option<ConnectionId>,
    bytes: Vec<u8>,
}

/// What a controller does with a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum ControllerAction {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Closes it.
    Close,
}

impl ControllerOutput {
    /// The bytes for a connection, to append to. Bytes for a closed connection are discarded.
    pub fn bytes_to(&mut self, conn: ConnectionId) -> &mut Vec<u8> {
        if self.current != Some(conn) {
            self.flush();
            self.current = Some(conn);
        }
        &mut self.bytes
    }

    /// Closes a connection, after the bytes before.
    pub fn close(&mut self, conn: ConnectionId) {
        self.flush();
        self.list.push((conn, ControllerAction::Close));
    }

    /// Takes all of it, in the order in which it was sent.
    pub fn take(&mut self) -> Vec<(ConnectionId, ControllerAction)> {
        self.flush();
        std::mem::take(&mut self.list)
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(conn) = self.current.take().filter(|_| !bytes.is_empty()) {
            self.list.push((conn, ControllerAction::Bytes(bytes)));
        }
    }
}

/// A controller without sockets and clock.
pub trait Controller {
    /// A connection was accepted.
    fn on_open(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// Bytes arrived: whole messages, parts of them, or both.
    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        output: &mut ControllerOutput,
    );

    /// A connection was closed by the switch, or broke.
    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// Time has passed.
    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        let _ = (now, output);
    }

    /// When [`on_tick`](Self::on_tick) must be called.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    fn on_open(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        (**self).on_open(now, conn, output);
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        output: &mut ControllerOutput,
    ) {
        (**self).on_bytes(now, conn, bytes, output);
    }

    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        (**self).on_closed(now, conn, output);
    }

    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        (**self).on_tick(now, output);
    }

    fn deadline(&self) -> Option<Instant> {
        (**self).deadline()
    }
}
