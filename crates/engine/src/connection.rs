//! A connection: what is buffered of its input and output, and its back-pressure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sluice_io::{ConnId, Io, Reading, UnsentCap};
use sluice_openflow::{DatapathId, ErrorReason};
use sluice_proto::{ControllerSession, SessionError};

use crate::backpressure::{BacklogLimits, Backpressure};
use crate::close_reason::CloseReason;
use crate::config::Limits;
use crate::messages::SessionId;
use crate::outstanding::OutstandingRequests;
use crate::receive_buffer::ReceiveBuffer;
use crate::switch_counters::SwitchCounters;
use crate::transmit_queue::{TransmitQueue, Writes};
use crate::worker::in_kernel::KernelSession;

/// A connection that has completed the handshake, while one thread hands it over to another.
#[derive(Debug)]
pub(crate) struct EstablishedConnection<C> {
    pub(crate) conn: C,
    pub(crate) session_id: SessionId,
    pub(crate) addr: SocketAddr,
    pub(crate) datapath_id: DatapathId,
    pub(crate) session: ControllerSession,
    pub(crate) buffers: ConnectionBuffers,
    pub(crate) requests: OutstandingRequests,
    /// Those that another worker has begun to count with.
    pub(crate) counters: Option<Arc<SwitchCounters>>,
    /// If the kernel answers in the place of the workers.
    pub(crate) kernel_session: Option<KernelSession>,
}

/// Buffers of a connection, and the state of its back-pressure.
#[derive(Debug, Default)]
pub(crate) struct ConnectionBuffers {
    pub(crate) received: ReceiveBuffer,
    pub(crate) transmit: TransmitQueue,
    pub(crate) backpressure: Backpressure,
    /// Changes of the switch's tables were not sent, because the backlog was too long. The applications must be told when
    /// there is room.
    pub(crate) has_lost_changes: bool,
    /// Bytes that the connection has taken and the kernel had not, when that was found out last. They are a part of the backlog.
    unsent_bytes: usize,
}

impl ConnectionBuffers {
    /// Number of bytes that the kernel has not taken.
    #[inline]
    pub(crate) fn backlog(&self) -> usize {
        self.transmit.len() + self.unsent_bytes
    }

    /// Sends `urgent` before everything that waits, and `messages` after it. What the kernel does not take waits. Returns the
    /// bytes sent.
    #[inline]
    pub(crate) fn send<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        (urgent, messages): (&[u8], &[u8]),
        (writes, limits): (Writes, BacklogLimits),
    ) -> usize {
        let sent = self.transmit.send(io, id, (urgent, messages), writes);
        self.update_backpressure(io, id, now, sent, limits);
        sent
    }

    /// Sends what waits, since the connection is writable or there is more to send. Returns the bytes sent.
    pub(crate) fn flush<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        (writes, limits): (Writes, BacklogLimits),
    ) -> usize {
        let sent = self.transmit.flush(io, id, writes);
        self.update_backpressure(io, id, now, sent, limits);
        sent
    }

    /// After the connection took `taken` bytes: stops or resumes reading, and caps unsent data.
    #[inline]
    pub(crate) fn update_backpressure<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        taken: usize,
        limits: BacklogLimits,
    ) {
        let unsent_before = std::mem::replace(&mut self.unsent_bytes, io.unsent_bytes(id));
        let sent = (unsent_before + taken).saturating_sub(self.unsent_bytes);
        let cap = self.backpressure.unsent_cap();
        let change = self.backpressure.update(now, sent, self.backlog(), limits);
        if self.backpressure.unsent_cap() != cap {
            io.set_unsent_cap(id, self.backpressure.unsent_cap());
        }
        if let Some(reading) = change {
            self.set_reading(io, id, reading);
        }
    }

    fn set_reading<I: Io>(&mut self, io: &mut I, id: ConnId, reading: Reading) {
        if reading == Reading::On {
            self.backpressure.resumed(io.unread_bytes(id));
        }
        io.set_reading(id, reading);
    }

    /// Finds out whether a switch takes nothing any more, and frees memory that is not needed.
    pub(crate) fn handle_timeouts<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        limits: BacklogLimits,
    ) {
        self.transmit.shrink();
        if self.unsent_bytes > 0 {
            // The kernel may have taken a part, which is not reported.
            self.update_backpressure(io, id, now, 0, limits);
        }
        let change = self.backpressure.handle_timeouts(now, self.backlog(), limits);
        if let Some(reading) = change {
            self.set_reading(io, id, reading);
        }
    }

    /// No longer caps unsent data of a switch that was slow, if it has had no backlog for a while.
    pub(crate) fn expire_slowness<I: Io>(&mut self, io: &mut I, id: ConnId, now: Instant) {
        if self.backpressure.expire_slowness(now) {
            io.set_unsent_cap(id, UnsentCap::Off);
        }
    }

    /// Resets the back-pressure, since the connection has moved to another [`Io`], which reads from it.
    pub(crate) fn reset_backpressure<I: Io>(&mut self, io: &mut I, id: ConnId) {
        if self.backpressure.unsent_cap() == UnsentCap::On {
            // The kernel still has it.
            io.set_unsent_cap(id, UnsentCap::Off);
        }
        self.backpressure = Backpressure::default();
        self.unsent_bytes = io.unsent_bytes(id);
    }
}

impl Limits {
    /// The limits of a backlog, of which all together may have `bytes_max` bytes each.
    pub(crate) fn backlog(&self) -> BacklogLimits {
        BacklogLimits {
            bytes_max: self.backlog_bytes_max,
            unread_max: self.unread_max,
            stuck_timeout: self.stuck_timeout,
        }
    }
}

/// Encodes an ERROR to a peer whose stream cannot be split into messages any more. Returns why it is disconnected.
pub(crate) fn framing_error(
    session: &mut ControllerSession,
    tx: &mut Vec<u8>,
    error: sluice_openflow::ParseError,
) -> CloseReason {
    // The text is short enough for a message.
    let _ = session.encoder(tx).error_with(0, ErrorReason::BAD_LEN, error.what.as_bytes());
    CloseReason::Session(SessionError::Malformed(error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transmit_queue::tests::LimitedSender;

    const LIMITS: BacklogLimits = BacklogLimits {
        bytes_max: 20_000,
        unread_max: Duration::from_secs(2),
        stuck_timeout: Duration::from_secs(30),
    };

    const HOW: (Writes, BacklogLimits) = (Writes::Joined, LIMITS);

    /// With TLS, a connection takes bytes before the kernel does.
    #[test]
    fn what_a_connection_has_taken_and_the_kernel_has_not_is_a_part_of_the_backlog() {
        let mut io = LimitedSender { room: 100_000, unsent: 30_000, ..LimitedSender::default() };
        let (mut buffers, start) = (ConnectionBuffers::default(), io.now());
        let id = ConnId::default();
        let messages = vec![0; 30_000];
        assert_eq!(buffers.send(&mut io, id, start, (&[], &messages), HOW), 30_000);
        assert_eq!((buffers.backlog(), buffers.backpressure.is_paused()), (30_000, true));
        // The kernel takes a part from time to time, which nothing reports.
        for seconds in 1..=100 {
            io.unsent -= 200;
            let now = start + Duration::from_secs(seconds);
            buffers.handle_timeouts(&mut io, id, now, LIMITS);
            assert_eq!(buffers.backlog(), io.unsent);
            assert!(!buffers.backpressure.is_stuck(), "after {seconds} s");
        }
        assert!(!buffers.backpressure.is_paused());
        buffers.handle_timeouts(&mut io, id, start + Duration::from_secs(131), LIMITS);
        assert!(buffers.backpressure.is_stuck());
        io.unsent = 0;
        buffers.flush(&mut io, id, start + Duration::from_secs(132), HOW);
        assert_eq!(buffers.backlog(), 0);
    }
}
