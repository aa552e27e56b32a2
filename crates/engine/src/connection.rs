//! Buffers of a connection: the incomplete message at the end of a read, and the backlog.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Io, Reading};
use sluice_openflow::{DatapathId, split_message};
use sluice_proto::ControllerSession;

use crate::backpressure::{Backpressure, unread_time_max};
use crate::config::Limits;
use crate::mailbox::SessionId;

/// An empty buffer with a larger capacity is freed, since most switches are idle most of the time.
const KEPT_MAX: usize = 4 << 10;

/// A connection that has completed the handshake, while the acceptor hands it over to a worker.
#[derive(Debug)]
pub(crate) struct EstablishedConnection<C> {
    pub(crate) conn: C,
    pub(crate) session_id: SessionId,
    pub(crate) addr: SocketAddr,
    pub(crate) datapath_id: DatapathId,
    pub(crate) session: ControllerSession,
    pub(crate) buffers: ConnectionBuffers,
}

/// Buffers of a connection, and the state of its back-pressure.
#[derive(Debug, Default)]
pub(crate) struct ConnectionBuffers {
    /// The received part of an incomplete message.
    pub(crate) partial: Vec<u8>,
    /// Bytes that the kernel has not taken yet.
    pub(crate) backlog: Vec<u8>,
    /// Since when the kernel takes nothing of the backlog.
    stuck_since: Option<Instant>,
    is_paused: bool,
    pub(crate) backpressure: Backpressure,
    /// Round-trip time of the connection; zero while it is unknown.
    pub(crate) round_trip: Duration,
    /// Bytes at the start of `backlog` that belong to a message whose start has been sent; urgent messages are inserted
    /// behind them. `None` before the first urgent message, since it is not needed until then.
    partly_sent_bytes: Option<usize>,
}

/// The result of adding a read to the incomplete message before it.
pub(crate) enum Reassembly<'a> {
    /// The message, which is complete now, and the rest of the read.
    Complete(Vec<u8>, &'a [u8]),
    /// There was no incomplete message. The whole read.
    NotNeeded(&'a [u8]),
    /// The message is still incomplete; all bytes of the read belong to it.
    Incomplete,
}

impl ConnectionBuffers {
    /// Completes the incomplete message with the start of a read.
    ///
    /// # Errors
    /// As [`split_message`].
    pub(crate) fn reassemble<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> sluice_openflow::Result<Reassembly<'a>> {
        if self.partial.is_empty() {
            return Ok(Reassembly::NotNeeded(bytes));
        }
        let header = sluice_openflow::HEADER_LEN.saturating_sub(self.partial.len());
        let (head, rest) = bytes.split_at(header.min(bytes.len()));
        self.partial.extend_from_slice(head);
        let Some(&[_, _, high, low]) = self.partial.first_chunk() else {
            return Ok(Reassembly::Incomplete);
        };
        // `split_message` reports an invalid length.
        let len = usize::from(u16::from_be_bytes([high, low])).max(sluice_openflow::HEADER_LEN);
        let (tail, rest) = rest.split_at(len.saturating_sub(self.partial.len()).min(rest.len()));
        self.partial.extend_from_slice(tail);
        if split_message(&self.partial)?.is_none() {
            return Ok(Reassembly::Incomplete);
        }
        Ok(Reassembly::Complete(std::mem::take(&mut self.partial), rest))
    }

    /// Takes back the buffer of a reassembled message for the next one, unless it is large.
    pub(crate) fn reuse_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_MAX {
            buffer.clear();
            self.partial = buffer;
        }
    }

    /// Sends `fresh` after the backlog. What the kernel does not take is added to the backlog. Returns the bytes sent.
    pub(crate) fn send<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        fresh: &[u8],
        limits: &Limits,
    ) -> usize {
        let mut sent = 0;
        if self.backlog.is_empty() {
            if !fresh.is_empty() {
                sent = io.send(id, fresh);
            }
            self.partly_sent_bytes = self.partly_sent_bytes.map(|_| partly_sent(fresh, 0, sent));
            self.backlog.extend_from_slice(fresh.get(sent..).unwrap_or_default());
        } else {
            self.backlog.extend_from_slice(fresh);
        }
        self.update_backpressure(io, id, now, sent, limits);
        sent
    }

    /// Sends `urgent` before the backlog and `fresh` after it. Returns the bytes sent; `urgent` is empty afterwards.
    #[cold]
    pub(crate) fn send_urgent<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        (urgent, fresh): (&mut Vec<u8>, &[u8]),
        limits: &Limits,
    ) -> usize {
        if self.backlog.is_empty() {
            self.partly_sent_bytes = Some(0);
            urgent.extend_from_slice(fresh);
            let sent = self.send(io, id, now, urgent, limits);
            urgent.clear();
            return sent;
        }
        match self.partly_sent_bytes {
            Some(at) => _ = self.backlog.splice(at..at, urgent.drain(..)),
            // Message boundaries in this backlog are unknown, so the urgent message goes behind it.
            None => self.backlog.append(urgent),
        }
        self.send(io, id, now, fresh, limits)
    }

    /// Sends the backlog, since the connection is writable. Returns the bytes sent.
    pub(crate) fn send_backlog<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        limits: &Limits,
    ) -> usize {
        let sent = if self.backlog.is_empty() { 0 } else { io.send(id, &self.backlog) };
        self.partly_sent_bytes =
            self.partly_sent_bytes.map(|at| partly_sent(&self.backlog, at, sent));
        self.backlog.drain(..sent);
        self.update_backpressure(io, id, now, sent, limits);
        sent
    }

    /// After `sent` bytes went out: stops or resumes reading, starts or stops shedding, and caps unsent data.
    #[inline]
    fn update_backpressure<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        sent: usize,
        limits: &Limits,
    ) {
        let has_backlog = !self.backlog.is_empty();
        if !has_backlog {
            self.stuck_since = None;
        } else if sent > 0 || self.stuck_since.is_none() {
            self.stuck_since = Some(now);
        }
        let cap = self.backpressure.unsent_cap();
        self.backpressure.record_sent(now, sent, has_backlog);
        if self.backpressure.unsent_cap() != cap {
            io.set_unsent_cap(id, self.backpressure.unsent_cap());
        }
        let max = limits.backlog_bytes_max;
        if self.backlog.len() <= max / 2 {
            self.backpressure.stop_shedding();
        } else if sent > 0 {
            let unread_max = unread_time_max(limits.unread_max, self.round_trip);
            self.backpressure.check_unread_time(now, unread_max);
        }
        // While packet-ins are shed, input causes little output, so the switch is read despite its backlog.
        let max = max.saturating_mul(if self.backpressure.is_shedding() { 2 } else { 1 });
        if !self.is_paused && self.backlog.len() > max {
            self.is_paused = true;
            self.backpressure.pause(now);
            io.set_reading(id, Reading::Off);
        } else if self.is_paused && self.backlog.len() <= max / 2 {
            self.is_paused = false;
            self.backpressure.resume(io.unread_bytes(id));
            io.set_reading(id, Reading::On);
        }
    }

    /// Stops shedding, and so reading, if the kernel has taken nothing of the backlog for the time that a switch may stay
    /// unread.
    pub(crate) fn handle_timeouts<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        limits: &Limits,
    ) {
        let unread_max = unread_time_max(limits.unread_max, self.round_trip);
        let stuck = self.stuck_since.map(|since| now.saturating_duration_since(since));
        if self.backpressure.is_shedding() && stuck.is_some_and(|stuck| stuck > unread_max) {
            self.backpressure.stop_shedding();
            self.update_backpressure(io, id, now, 0, limits);
        }
    }

    /// Resets the back-pressure, since the connection has moved to another [`Io`], which reads from it.
    pub(crate) fn reset_backpressure(&mut self) {
        (self.is_paused, self.backpressure) = (false, Backpressure::default());
    }

    /// Whether reading has stopped because of the backlog.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the kernel has taken nothing of the backlog for longer than `stuck_timeout`.
    pub(crate) fn is_stuck(&self, now: Instant, limits: &Limits) -> bool {
        self.stuck_since
            .is_some_and(|since| now.saturating_duration_since(since) > limits.stuck_timeout)
    }

    /// Frees the memory of an empty backlog.
    pub(crate) fn shrink(&mut self) {
        if self.backlog.is_empty() && self.backlog.capacity() > KEPT_MAX {
            self.backlog = Vec::new();
        }
    }
}

/// After `sent` of `bytes` went out: how many unsent bytes belong to a message of which a part was sent. `bytes` consists
/// of complete messages from `at` on.
fn partly_sent(bytes: &[u8], mut at: usize, sent: usize) -> usize {
    let len_at = |at: usize| {
        let [_, _, high, low] = *bytes.get(at..)?.first_chunk()?;
        Some(usize::from(u16::from_be_bytes([high, low])))
    };
    while at < sent && sent < bytes.len() {
        let Some(len) = len_at(at).filter(|&len| len > 0) else { break };
        at += len;
        // Mostly the next messages have the same length. Adding that, and only comparing the length read, lets the processor
        // go on before the read has finished.
        while at < sent && len_at(at) == Some(len) {
            at += len;
        }
    }
    at.saturating_sub(sent)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::RawMessage;

    use super::*;

    #[test]
    fn messages_split_over_reads_are_reassembled_wherever_they_are_split() {
        let mut stream = Vec::new();
        for n in 0..20u8 {
            let len = 8 + n * 3;
            stream.extend([1, 2, 0, len, 0, 0, 0, n]);
            stream.extend(std::iter::repeat_n(n, usize::from(len) - 8));
        }
        for read_len in 1..60 {
            let (mut buffers, mut xids) = (ConnectionBuffers::default(), vec![]);
            for bytes in stream.chunks(read_len) {
                let mut rest = match buffers.reassemble(bytes).unwrap() {
                    Reassembly::Complete(buffer, rest) => {
                        xids.push(RawMessage::new(&buffer).unwrap().xid());
                        buffers.reuse_buffer(buffer);
                        rest
                    }
                    Reassembly::NotNeeded(bytes) => bytes,
                    Reassembly::Incomplete => continue,
                };
                while let Some((msg, after)) = split_message(rest).unwrap() {
                    xids.push(msg.xid());
                    rest = after;
                }
                buffers.partial.extend_from_slice(rest);
            }
            assert_eq!(xids, (0..20).collect::<Vec<_>>(), "reads of {read_len} bytes");
            assert!(buffers.partial.is_empty());
        }
    }

    /// Takes at most so many bytes per send, and keeps them.
    struct LimitedSender(usize, Vec<u8>);

    impl Io for LimitedSender {
        type Conn = ();
        type Listener = ();
        type Waker = sluice_io::Waker;

        fn now(&self) -> Instant {
            sluice_io::clock::now()
        }

        fn since_epoch(&self) -> Duration {
            Duration::ZERO
        }

        fn waker(&self) -> sluice_io::Waker {
            sluice_io::Waker::new().unwrap()
        }

        fn listen(&mut self, (): ()) -> std::io::Result<ConnId> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        fn wait_for_wake(&mut self, deadline: Instant) -> std::io::Result<Instant> {
            Ok(deadline)
        }

        fn set_read_max(&mut self, _: usize) {}

        fn wait(&mut self, _: Option<Instant>) -> std::io::Result<Instant> {
            Ok(sluice_io::clock::now())
        }

        fn next_event(&mut self) -> Option<sluice_io::IoEvent<'_, ()>> {
            None
        }

        fn send(&mut self, _: ConnId, bytes: &[u8]) -> usize {
            let taken = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..taken]);
            taken
        }

        fn set_unsent_cap(&mut self, _: ConnId, _: sluice_io::UnsentCap) {}

        fn unread_bytes(&mut self, _: ConnId) -> usize {
            0
        }

        fn set_reading(&mut self, _: ConnId, _: Reading) {}

        fn adopt(&mut self, (): ()) -> std::io::Result<ConnId> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        fn release(&mut self, _: ConnId) -> Option<()> {
            None
        }

        fn close(&mut self, _: ConnId) {}
    }

    #[test]
    fn an_urgent_message_overtakes_the_backlog_and_splits_no_message() {
        let message = |n: u32, len: u8| {
            let mut bytes = vec![4, 10, 0, len];
            bytes.extend(n.to_be_bytes());
            bytes.resize(len.into(), 0);
            bytes
        };
        let (now, limits) = (sluice_io::clock::now(), Limits::default());
        // Ignored by `LimitedSender`.
        let id = ConnId::default();
        for per_send in 1..40 {
            let (mut io, mut buffers) =
                (LimitedSender(per_send, vec![]), ConnectionBuffers::default());
            buffers.send_urgent(&mut io, id, now, (&mut message(100, 8), &[]), &limits);
            for n in 0..10 {
                let fresh = [message(n * 2, 20), message(n * 2 + 1, 30)].concat();
                buffers.send(&mut io, id, now, &fresh, &limits);
            }
            buffers.send_backlog(&mut io, id, now, &limits);
            buffers.send_urgent(&mut io, id, now, (&mut message(101, 12), &[]), &limits);
            let before = io.1.len();
            while !buffers.backlog.is_empty() {
                buffers.send_backlog(&mut io, id, now, &limits);
            }
            let (mut rest, mut xids, mut at) = (&*io.1, vec![], 0);
            while let Some((msg, after)) = split_message(rest).unwrap() {
                if msg.xid() == 101 {
                    assert!(at < before + 30, "{per_send} bytes per send: {at} of {before}");
                }
                at += msg.bytes().len();
                xids.push(msg.xid());
                rest = after;
            }
            assert!(rest.is_empty());
            xids.sort_unstable();
            assert_eq!(
                xids,
                (0..20).chain([100, 101]).collect::<Vec<_>>(),
                "{per_send} bytes per send"
            );
        }
    }

    #[test]
    fn an_invalid_length_is_found_in_a_header_that_was_split_over_reads() {
        let mut buffers = ConnectionBuffers::default();
        buffers.partial.extend([1, 0, 0]);
        assert!(buffers.reassemble(&[4, 0, 0, 0, 0]).is_err());
    }
}
