//! What a network has a controller for.

use std::time::Instant;

/// A control connection of a network. No two are the same, even of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    switch: usize,
    nth: u32,
}

impl ConnectionId {
    pub(super) const fn new(switch: usize, nth: u32) -> Self {
        Self { switch, nth }
    }

    /// The index of the switch in the topology.
    pub const fn switch(self) -> usize {
        self.switch
    }

    /// The how many-th connection of this switch it is, from 1.
    pub const fn nth(self) -> u32 {
        self.nth
    }
}

/// What a controller answers.
#[derive(Debug, Default)]
pub struct ControllerOutput {
    list: Vec<(ConnectionId, ControllerAction)>,
    /// Who is answered, and the bytes so far.
    current: Option<ConnectionId>,
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControllerAction {
    Bytes(Vec<u8>),
    Close,
}

impl ControllerOutput {
    /// Bytes to a connection, to be appended to. What is for a connection that is gone is lost.
    pub fn bytes_to(&mut self, conn: ConnectionId) -> &mut Vec<u8> {
        if self.current != Some(conn) {
            self.flush();
            self.current = Some(conn);
        }
        &mut self.bytes
    }

    /// Closes a connection, after what was said before.
    pub fn close(&mut self, conn: ConnectionId) {
        self.flush();
        self.list.push((conn, ControllerAction::Close));
    }

    pub(super) fn take(&mut self) -> Vec<(ConnectionId, ControllerAction)> {
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

/// A controller that owns no socket and no clock.
pub trait Controller {
    /// A connection was accepted.
    fn on_open(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// Bytes came: whole messages, parts of them, or both.
    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        output: &mut ControllerOutput,
    );

    /// A connection is gone that was open.
    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// Time passed.
    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        let _ = (now, output);
    }

    /// When it must be told the time.
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
