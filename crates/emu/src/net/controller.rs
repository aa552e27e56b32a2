//! The controller of a simulated network.

use std::collections::BTreeSet;
use std::time::Instant;

use super::control_link::{SEGMENT_LEN, WINDOW_BYTES};

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
    /// How many bytes each control link takes, by switch.
    rooms: Vec<usize>,
    waiting_for_room: BTreeSet<ConnectionId>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControllerAction {
    Bytes(Vec<u8>),
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

    /// How many bytes the control link takes now. A paused link takes none. More than that waits, and
    /// [`NetworkError::ControlBacklog`](super::NetworkError::ControlBacklog) limits it.
    pub fn room(&self, conn: ConnectionId) -> usize {
        let room = self.rooms.get(conn.switch).copied().unwrap_or(WINDOW_BYTES);
        let pending =
            self.list.iter().filter(|(to, _)| *to == conn).map(|(_, action)| match action {
                ControllerAction::Bytes(bytes) => bytes.len(),
                ControllerAction::Close => 0,
            });
        let current = if self.current == Some(conn) { self.bytes.len() } else { 0 };
        room.saturating_sub(pending.sum::<usize>() + current)
    }

    /// Has [`Controller::on_room`] called when the control link takes bytes.
    pub fn wait_for_room(&mut self, conn: ConnectionId) {
        self.waiting_for_room.insert(conn);
    }

    pub(super) fn set_room(&mut self, switch: usize, room: usize) {
        if self.rooms.len() <= switch {
            self.rooms.resize(switch + 1, WINDOW_BYTES);
        }
        if let Some(known) = self.rooms.get_mut(switch) {
            *known = room;
        }
    }

    /// The next connection that waited for room and has it.
    pub(super) fn next_with_room(&mut self) -> Option<ConnectionId> {
        let mut waiting = self.waiting_for_room.iter().copied();
        let conn = waiting.find(|&conn| self.room(conn) >= SEGMENT_LEN)?;
        self.waiting_for_room.remove(&conn);
        Some(conn)
    }

    /// Forgets what the controller wanted to send.
    pub(super) fn clear(&mut self) {
        self.take();
        self.waiting_for_room.clear();
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

/// A controller without sockets and clock.
pub trait Controller {
    /// A connection was accepted.
    fn on_open(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// Bytes arrived: whole messages, parts of them, or both. Returns how many the controller takes; it is offered the
    /// rest after its next tick, and the switch is slowed down meanwhile.
    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        output: &mut ControllerOutput,
    ) -> usize;

    /// A connection was closed by the switch, or broke.
    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput);

    /// The control link takes bytes again, after [`ControllerOutput::wait_for_room`].
    fn on_room(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        let _ = (now, conn, output);
    }

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
    ) -> usize {
        (**self).on_bytes(now, conn, bytes, output)
    }

    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        (**self).on_closed(now, conn, output);
    }

    fn on_room(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        (**self).on_room(now, conn, output);
    }

    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        (**self).on_tick(now, output);
    }

    fn deadline(&self) -> Option<Instant> {
        (**self).deadline()
    }
}
