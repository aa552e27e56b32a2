//! What a network has a controller for.

use std::time::Instant;

/// A control connection of a network. No two are the same, even of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conn {
    switch: usize,
    nth: u32,
}

impl Conn {
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
pub struct Replies {
    list: Vec<(Conn, Reply)>,
    /// Who is answered, and the bytes so far.
    current: Option<Conn>,
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Bytes(Vec<u8>),
    HangUp,
}

impl Replies {
    /// Bytes to a connection, to be appended to. What is for a connection that is gone is lost.
    pub fn to(&mut self, conn: Conn) -> &mut Vec<u8> {
        if self.current != Some(conn) {
            self.flush();
            self.current = Some(conn);
        }
        &mut self.bytes
    }

    /// Closes a connection, after what was said before.
    pub fn hang_up(&mut self, conn: Conn) {
        self.flush();
        self.list.push((conn, Reply::HangUp));
    }

    pub(super) fn take(&mut self) -> Vec<(Conn, Reply)> {
        self.flush();
        std::mem::take(&mut self.list)
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(conn) = self.current.take().filter(|_| !bytes.is_empty()) {
            self.list.push((conn, Reply::Bytes(bytes)));
        }
    }
}

/// A controller that owns no socket and no clock.
pub trait Controller {
    /// A connection was accepted.
    fn on_open(&mut self, now: Instant, conn: Conn, replies: &mut Replies);

    /// Bytes came: whole messages, parts of them, or both.
    fn on_bytes(&mut self, now: Instant, conn: Conn, bytes: &[u8], replies: &mut Replies);

    /// A connection is gone that was open.
    fn on_closed(&mut self, now: Instant, conn: Conn, replies: &mut Replies);

    /// Time passed.
    fn on_time(&mut self, now: Instant, replies: &mut Replies) {
        let _ = (now, replies);
    }

    /// When it must be told the time.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    fn on_open(&mut self, now: Instant, conn: Conn, replies: &mut Replies) {
        (**self).on_open(now, conn, replies);
    }

    fn on_bytes(&mut self, now: Instant, conn: Conn, bytes: &[u8], replies: &mut Replies) {
        (**self).on_bytes(now, conn, bytes, replies);
    }

    fn on_closed(&mut self, now: Instant, conn: Conn, replies: &mut Replies) {
        (**self).on_closed(now, conn, replies);
    }

    fn on_time(&mut self, now: Instant, replies: &mut Replies) {
        (**self).on_time(now, replies);
    }

    fn deadline(&self) -> Option<Instant> {
        (**self).deadline()
    }
}
