//! One connection: bytes in, messages out of them, bytes out.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Io, Reading};
use sluice_openflow::{DatapathId, split_message};
use sluice_proto::ControllerSession;

use crate::backpressure::{Backpressure, patience};
use crate::config::Limits;
use crate::mailbox::SessionId;

/// A buffer of more than this is given back when it is empty: most switches are idle most of the time.
const KEPT_MAX: usize = 4 << 10;

/// A proved switch on its way from the front to a worker.
#[derive(Debug)]
pub(crate) struct EstablishedConnection<C> {
    pub(crate) conn: C,
    pub(crate) serial: SessionId,
    pub(crate) addr: SocketAddr,
    pub(crate) datapath_id: DatapathId,
    pub(crate) session: ControllerSession,
    pub(crate) wires: ConnectionBuffers,
}

/// What has come and is not a whole message yet, and what has yet to go.
#[derive(Debug, Default)]
pub(crate) struct ConnectionBuffers {
    /// The start of a message of which the rest has not come.
    pub(crate) torn: Vec<u8>,
    /// What the peer has yet to take.
    pub(crate) backlog: Vec<u8>,
    /// Since when it takes nothing.
    stuck_since: Option<Instant>,
    paused: bool,
    pub(crate) lag: Backpressure,
    /// How long the link takes there and back, as far as that is known.
    pub(crate) round_trip: Duration,
    /// Bytes at the front of `backlog` that end a message of which the peer has the start; not counted, `None`, as
    /// long as nothing was ever to go ahead.
    half_sent: Option<usize>,
}

/// How much of a burst was used, and what is left of it.
pub(crate) enum Reassembly<'a> {
    /// The torn message is whole now, in a buffer of its own; the rest of the burst.
    Whole(Vec<u8>, &'a [u8]),
    /// There was none; the burst.
    Untorn(&'a [u8]),
    /// It is still torn; all is used.
    Torn,
}

impl ConnectionBuffers {
    /// Adds a burst to the message that was torn, up to its end.
    ///
    /// # Errors
    /// As [`split`].
    pub(crate) fn mend<'a>(&mut self, bytes: &'a [u8]) -> sluice_openflow::Result<Reassembly<'a>> {
        if self.torn.is_empty() {
            return Ok(Reassembly::Untorn(bytes));
        }
        let header = sluice_openflow::HEADER_LEN.saturating_sub(self.torn.len());
        let (head, rest) = bytes.split_at(header.min(bytes.len()));
        self.torn.extend_from_slice(head);
        let Some(&[_, _, high, low]) = self.torn.first_chunk() else { return Ok(Reassembly::Torn) };
        // A length that cannot be is found by `split`, on a message that is taken to be whole.
        let len = usize::from(u16::from_be_bytes([high, low])).max(sluice_openflow::HEADER_LEN);
        let (tail, rest) = rest.split_at(len.saturating_sub(self.torn.len()).min(rest.len()));
        self.torn.extend_from_slice(tail);
        if split_message(&self.torn)?.is_none() {
            return Ok(Reassembly::Torn);
        }
        Ok(Reassembly::Whole(std::mem::take(&mut self.torn), rest))
    }

    /// Takes the buffer of a torn message back, to be used again.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_MAX {
            buffer.clear();
            self.torn = buffer;
        }
    }

    /// Sends `fresh` after what waits; what the peer does not take waits. Returns how much went.
    pub(crate) fn say<I: Io>(
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
            self.half_sent = self.half_sent.map(|_| half(fresh, 0, sent));
            self.backlog.extend_from_slice(fresh.get(sent..).unwrap_or_default());
        } else {
            self.backlog.extend_from_slice(fresh);
        }
        self.mind(io, id, now, sent, limits);
        sent
    }

    /// Sends `ahead` before all that waits, and `fresh` after it. Returns how much went; `ahead` is empty then.
    #[cold]
    pub(crate) fn say_ahead<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        (ahead, fresh): (&mut Vec<u8>, &[u8]),
        limits: &Limits,
    ) -> usize {
        if self.backlog.is_empty() {
            self.half_sent = Some(0);
            ahead.extend_from_slice(fresh);
            let sent = self.say(io, id, now, ahead, limits);
            ahead.clear();
            return sent;
        }
        match self.half_sent {
            Some(at) => _ = self.backlog.splice(at..at, ahead.drain(..)),
            // It waits this once; from now on it is known where a message ends.
            None => self.backlog.append(ahead),
        }
        self.say(io, id, now, fresh, limits)
    }

    /// Sends what waits, now that there is room. Returns how much went.
    pub(crate) fn go_on<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        now: Instant,
        limits: &Limits,
    ) -> usize {
        let sent = if self.backlog.is_empty() { 0 } else { io.send(id, &self.backlog) };
        self.half_sent = self.half_sent.map(|at| half(&self.backlog, at, sent));
        self.backlog.drain(..sent);
        self.mind(io, id, now, sent, limits);
        sent
    }

    /// Stops and starts reading, and notes since when the peer takes nothing and whether it is late.
    #[inline]
    fn mind<I: Io>(&mut self, io: &mut I, id: ConnId, now: Instant, sent: usize, limits: &Limits) {
        let more_wait = !self.backlog.is_empty();
        if !more_wait {
            self.stuck_since = None;
        } else if sent > 0 || self.stuck_since.is_none() {
            self.stuck_since = Some(now);
        }
        let held = self.lag.holding();
        self.lag.took(now, sent, more_wait);
        if self.lag.holding() != held {
            io.set_unsent_cap(id, self.lag.holding());
        }
        let max = limits.backlog_bytes_max;
        if self.backlog.len() <= max / 2 {
            self.lag.forgive();
        } else if sent > 0 {
            self.lag.judge(now, patience(limits.unread_max, self.round_trip));
        }
        // Who is late is read from, since little of that is answered.
        let max = max.saturating_mul(if self.lag.is_late() { 2 } else { 1 });
        if !self.paused && self.backlog.len() > max {
            self.paused = true;
            self.lag.pause(now);
            io.set_reading(id, Reading::Off);
        } else if self.paused && self.backlog.len() <= max / 2 {
            self.paused = false;
            self.lag.go_on(io.unread_bytes(id));
            io.set_reading(id, Reading::On);
        }
    }

    /// Reads no more from a peer that was late and takes nothing at all now.
    pub(crate) fn on_time<I: Io>(&mut self, io: &mut I, id: ConnId, now: Instant, limits: &Limits) {
        let patience = patience(limits.unread_max, self.round_trip);
        let idle = self.stuck_since.map(|since| now.saturating_duration_since(since));
        if self.lag.is_late() && idle.is_some_and(|idle| idle > patience) {
            self.lag.forgive();
            self.mind(io, id, now, 0, limits);
        }
    }

    /// Notes that another set reads now, which does not know of what waits.
    pub(crate) fn moved(&mut self) {
        (self.paused, self.lag) = (false, Backpressure::default());
    }

    /// Whether the peer is not read from until it has taken what waits.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the peer has taken nothing for too long.
    pub(crate) fn is_stuck(&self, now: Instant, limits: &Limits) -> bool {
        self.stuck_since
            .is_some_and(|since| now.saturating_duration_since(since) > limits.stuck_timeout)
    }

    /// Gives memory back that is not in use.
    pub(crate) fn tidy(&mut self) {
        if self.backlog.is_empty() && self.backlog.capacity() > KEPT_MAX {
            self.backlog = Vec::new();
        }
    }
}

/// How many bytes of the message in which `sent` lies follow it; a message begins at `at`, and all are whole.
fn half(bytes: &[u8], mut at: usize, sent: usize) -> usize {
    let len_at = |at: usize| {
        let [_, _, high, low] = *bytes.get(at..)?.first_chunk()?;
        Some(usize::from(u16::from_be_bytes([high, low])))
    };
    while at < sent && sent < bytes.len() {
        let Some(len) = len_at(at).filter(|&len| len > 0) else { break };
        at += len;
        // Those that follow are as long, mostly: the processor need not know each length to look at the next.
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

    /// However a stream is cut, the same messages come out.
    #[test]
    fn torn_messages_are_reassembled_wherever_they_are_cut() {
        let mut stream = Vec::new();
        for n in 0..20u8 {
            let len = 8 + n * 3;
            stream.extend([1, 2, 0, len, 0, 0, 0, n]);
            stream.extend(std::iter::repeat_n(n, usize::from(len) - 8));
        }
        for piece in 1..60 {
            let (mut wires, mut xids) = (ConnectionBuffers::default(), vec![]);
            for bytes in stream.chunks(piece) {
                let mut rest = match wires.mend(bytes).unwrap() {
                    Reassembly::Whole(buffer, rest) => {
                        xids.push(RawMessage::new(&buffer).unwrap().xid());
                        wires.give_back(buffer);
                        rest
                    }
                    Reassembly::Untorn(bytes) => bytes,
                    Reassembly::Torn => continue,
                };
                while let Some((msg, after)) = split_message(rest).unwrap() {
                    xids.push(msg.xid());
                    rest = after;
                }
                wires.torn.extend_from_slice(rest);
            }
            assert_eq!(xids, (0..20).collect::<Vec<_>>(), "pieces of {piece}");
            assert!(wires.torn.is_empty());
        }
    }

    /// A peer that takes so many bytes each time.
    struct Taker(usize, Vec<u8>);

    impl Io for Taker {
        type Conn = ();

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

    /// However little the peer takes at a time: what goes ahead overtakes whole messages, and breaks none.
    #[test]
    fn what_goes_ahead_overtakes_and_breaks_no_message() {
        let message = |n: u32, len: u8| {
            let mut bytes = vec![4, 10, 0, len];
            bytes.extend(n.to_be_bytes());
            bytes.resize(len.into(), 0);
            bytes
        };
        let (now, limits) = (sluice_io::clock::now(), Limits::default());
        // An id that is nobody's: the taker does not look at it.
        let id = ConnId::default();
        for taken in 1..40 {
            let (mut io, mut wires) = (Taker(taken, vec![]), ConnectionBuffers::default());
            wires.say_ahead(&mut io, id, now, (&mut message(100, 8), &[]), &limits);
            for n in 0..10 {
                let fresh = [message(n * 2, 20), message(n * 2 + 1, 30)].concat();
                wires.say(&mut io, id, now, &fresh, &limits);
            }
            wires.go_on(&mut io, id, now, &limits);
            wires.say_ahead(&mut io, id, now, (&mut message(101, 12), &[]), &limits);
            let before = io.1.len();
            while !wires.backlog.is_empty() {
                wires.go_on(&mut io, id, now, &limits);
            }
            let (mut rest, mut xids, mut at) = (&*io.1, vec![], 0);
            while let Some((msg, after)) = split_message(rest).unwrap() {
                if msg.xid() == 101 {
                    assert!(at < before + 30, "{taken}: {at} of {before}");
                }
                at += msg.bytes().len();
                xids.push(msg.xid());
                rest = after;
            }
            assert!(rest.is_empty());
            xids.sort_unstable();
            assert_eq!(xids, (0..20).chain([100, 101]).collect::<Vec<_>>(), "{taken} at a time");
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_found_in_a_torn_header_too() {
        let mut wires = ConnectionBuffers::default();
        wires.torn.extend([1, 0, 0]);
        assert!(wires.mend(&[4, 0, 0, 0, 0]).is_err());
    }
}
