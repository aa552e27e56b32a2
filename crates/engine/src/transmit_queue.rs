//! What the kernel has not taken yet of what is to be sent to a peer.

use sluice_io::{ConnId, Io};
use sluice_openflow::{HEADER_LEN, MessageType};

use crate::config::Batching;

/// An empty buffer with a larger capacity is freed after a while, since most switches are idle most of the time.
const IDLE_CAPACITY_MAX: usize = 4 << 10;

/// Capacity that a buffer may have beyond twice what it contains; more is freed at once.
const SPARE_CAPACITY_MAX: usize = 16 << 10;

/// How much one write has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// All messages that wait.
    Joined,
    /// One message, or the rest of one of which a part was sent.
    Single,
}

impl Writes {
    #[inline]
    pub(crate) fn new(batching: Batching) -> Self {
        if batching.output { Self::Joined } else { Self::Single }
    }
}

/// Unsent messages in two lanes: urgent messages are sent before the others, but never between two halves of a message.
/// Within a lane the order is kept.
///
/// The owner limits the number of bytes: it stops reading from a peer with a long queue, and passes no more messages of
/// applications. See `backpressure.rs`.
#[derive(Debug, Default)]
pub(crate) struct TransmitQueue {
    urgent: Lane,
    normal: Lane,
}

impl TransmitQueue {
    /// Number of unsent bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.urgent.unsent().len() + self.normal.unsent().len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.normal.is_empty()
    }

    /// Whether no urgent message waits.
    #[inline]
    pub(crate) fn has_no_urgent(&self) -> bool {
        self.urgent.is_empty()
    }

    /// Sends `urgent` before everything that waits, and `messages` after it; keeps what the kernel does not take. Returns the
    /// bytes sent.
    #[inline]
    pub(crate) fn send<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        (urgent, messages): (&[u8], &[u8]),
        writes: Writes,
    ) -> usize {
        if !self.is_empty() || writes == Writes::Single {
            self.keep(urgent, messages);
            return self.flush(io, id, writes);
        }
        if !urgent.is_empty() {
            return self.send_both(io, id, urgent, messages);
        }
        if messages.is_empty() {
            return 0;
        }
        let sent = io.send(id, messages);
        self.normal.keep_rest(messages, sent);
        sent
    }

    /// Keeps `urgent` before everything that waits, and `messages` after it. [`flush`](Self::flush) sends them.
    pub(crate) fn keep(&mut self, urgent: &[u8], messages: &[u8]) {
        self.urgent.buffer().extend_from_slice(urgent);
        self.append(messages);
    }

    /// Sends urgent and other messages at once, since nothing waits.
    #[cold]
    fn send_both<I: Io>(
        &mut self,
        io: &mut I,
        id: ConnId,
        urgent: &[u8],
        messages: &[u8],
    ) -> usize {
        let sent = io.send(id, &[urgent, messages].concat());
        self.urgent.keep_rest(urgent, sent);
        self.normal.keep_rest(messages, sent.saturating_sub(urgent.len()));
        sent
    }

    /// Adds messages behind everything that waits. [`flush`](Self::flush) sends them.
    pub(crate) fn append(&mut self, messages: &[u8]) {
        self.buffer().extend_from_slice(messages);
    }

    /// The buffer to which messages can be encoded behind everything that waits.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.normal.buffer()
    }

    /// Sends what the kernel takes. Returns the bytes sent.
    pub(crate) fn flush<I: Io>(&mut self, io: &mut I, id: ConnId, writes: Writes) -> usize {
        let mut sent_bytes = 0;
        while !self.is_empty() {
            let (offered, sent) = if self.urgent.is_empty() {
                self.normal.flush(io, id, writes)
            } else if self.normal.half_sent_bytes > 0 {
                self.normal.flush(io, id, Writes::Single)
            } else {
                self.urgent.flush(io, id, writes)
            };
            sent_bytes += sent;
            if sent < offered {
                break;
            }
        }
        sent_bytes
    }

    /// Moves the packet-outs behind all other messages that wait, so that changes of the tables overtake them. The order is
    /// kept otherwise.
    ///
    /// # Cost
    /// A copy of what waits.
    pub(crate) fn move_packet_outs_back(&mut self) {
        let half_sent_bytes = self.normal.half_sent_bytes;
        let Some((half_sent, mut rest)) = self.normal.unsent().split_at_checked(half_sent_bytes)
        else {
            return;
        };
        let (mut others, mut packet_outs) = (half_sent.to_vec(), Vec::new());
        while let Some((message, after)) =
            message_len(rest).and_then(|len| rest.split_at_checked(len))
        {
            let is_packet_out = message.get(1) == Some(&PACKET_OUT);
            let to = if is_packet_out { &mut packet_outs } else { &mut others };
            to.extend_from_slice(message);
            rest = after;
        }
        others.append(&mut packet_outs);
        // Nothing is left, since the lane consists of complete messages from `half_sent_bytes` on.
        others.extend_from_slice(rest);
        self.normal = Lane { bytes: others, half_sent_bytes, ..Lane::default() };
    }

    /// Frees the memory of lanes to which nothing was appended since the last call.
    pub(crate) fn shrink(&mut self) {
        for lane in [&mut self.urgent, &mut self.normal] {
            let is_idle = !std::mem::take(&mut lane.is_in_use) && lane.is_empty();
            if is_idle && lane.bytes.capacity() > IDLE_CAPACITY_MAX {
                *lane = Lane::default();
            }
        }
    }
}

/// `PACKET_OUT` has one number in all versions.
#[expect(clippy::cast_possible_truncation, reason = "the type of a message is a byte")]
const PACKET_OUT: u8 = MessageType::PACKET_OUT.0 as u8;

/// Bytes in order. Sent bytes stay at the front until they are half of all, so that a byte is moved at most once on average for
/// that, and once to free memory.
#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    /// Sent bytes at the start of `bytes`.
    sent: usize,
    /// Unsent bytes after them that belong to a message of which a part was sent.
    half_sent_bytes: usize,
    /// Whether something was appended since the last [`shrink`](TransmitQueue::shrink).
    is_in_use: bool,
}

impl Lane {
    #[inline]
    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    #[inline]
    fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Keeps what is left of `messages` when `sent` bytes of them have been sent, and nothing waits.
    #[inline]
    fn keep_rest(&mut self, messages: &[u8], sent: usize) {
        if let Some(rest) = messages.get(sent..).filter(|rest| !rest.is_empty()) {
            self.half_sent_bytes = next_message_start(messages, 0, sent) - sent;
            self.buffer().extend_from_slice(rest);
        }
    }

    /// Makes one write. Returns the bytes offered, and those sent.
    fn flush<I: Io>(&mut self, io: &mut I, id: ConnId, writes: Writes) -> (usize, usize) {
        let unsent = self.unsent();
        let end = match (writes, self.half_sent_bytes) {
            (Writes::Joined, _) => unsent.len(),
            (Writes::Single, 0) => next_message_start(unsent, 0, 1),
            (Writes::Single, rest) => rest,
        };
        let offered = unsent.get(..end).unwrap_or(unsent);
        let (offered, sent) = (offered.len(), io.send(id, offered));
        self.half_sent_bytes = next_message_start(unsent, self.half_sent_bytes, sent) - sent;
        self.remove_front(sent);
        (offered, sent)
    }

    fn remove_front(&mut self, n: usize) {
        self.sent += n;
        let unsent = self.unsent();
        if self.bytes.capacity() > SPARE_CAPACITY_MAX + 2 * unsent.len() {
            self.bytes = unsent.to_vec();
            self.sent = 0;
        } else if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// The buffer, to append to.
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.is_in_use = true;
        if self.sent > 0 && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.bytes
    }
}

/// The length in the header at the start of `bytes`.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let [_, _, high, low] = *bytes.first_chunk()?;
    Some(usize::from(u16::from_be_bytes([high, low]))).filter(|&len| len >= HEADER_LEN)
}

/// The start of the first message at or after `from`, where messages start at `at`, or the end of `bytes`.
fn next_message_start(bytes: &[u8], mut at: usize, from: usize) -> usize {
    let len_at = |at: usize| message_len(bytes.get(at..)?);
    while at < from && from < bytes.len() {
        let Some(len) = len_at(at) else { break };
        at += len;
        // Mostly the next messages have the same length. Adding that, and only comparing the length read, lets the processor
        // go on before the read has finished.
        while at < from && len_at(at) == Some(len) {
            at += len;
        }
    }
    at.max(from)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;
    use std::time::{Duration, Instant};

    use sluice_base::Rng;
    use sluice_io::{IoEvent, Reading, UnsentCap};
    use sluice_openflow::split_message;

    use super::*;

    /// Takes at most so many bytes until the limit is set again, and keeps them.
    #[derive(Default)]
    pub(crate) struct LimitedSender {
        pub(crate) room: usize,
        /// Bytes that were taken and count as not sent.
        pub(crate) unsent: usize,
        pub(crate) sent: Vec<u8>,
        pub(crate) sends: u32,
    }

    impl Io for LimitedSender {
        type Conn = ();
        type Listener = ();
        type Waker = sluice_io::Waker;

        fn send(&mut self, _: ConnId, bytes: &[u8]) -> usize {
            let taken = bytes.len().min(self.room);
            self.sends += 1;
            self.room -= taken;
            self.sent.extend_from_slice(&bytes[..taken]);
            taken
        }

        fn now(&self) -> Instant {
            sluice_io::clock::now()
        }

        fn since_epoch(&self) -> Duration {
            Duration::ZERO
        }

        fn waker(&self) -> sluice_io::Waker {
            sluice_io::Waker::new().unwrap()
        }

        fn listen(&mut self, (): ()) -> io::Result<ConnId> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn wait(&mut self, _: Option<Instant>) -> io::Result<Instant> {
            Ok(self.now())
        }

        fn wait_for_wake(&mut self, deadline: Instant) -> io::Result<Instant> {
            Ok(deadline)
        }

        fn next_event(&mut self) -> Option<IoEvent<'_, ()>> {
            None
        }

        fn unsent_bytes(&mut self, _: ConnId) -> usize {
            self.unsent
        }

        fn set_unsent_cap(&mut self, _: ConnId, _: UnsentCap) {}

        fn set_read_max(&mut self, _: usize) {}

        fn unread_bytes(&mut self, _: ConnId) -> usize {
            0
        }

        fn set_reading(&mut self, _: ConnId, _: Reading) {}

        fn adopt(&mut self, (): ()) -> io::Result<ConnId> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn release(&mut self, _: ConnId) -> Option<()> {
            None
        }

        fn close(&mut self, _: ConnId) {}
    }

    /// A message of type `kind` with transaction id `xid`.
    fn message(kind: u8, xid: u32, len: u8) -> Vec<u8> {
        let mut bytes = vec![4, kind, 0, len];
        bytes.extend(xid.to_be_bytes());
        bytes.resize(len.into(), 0xff);
        bytes
    }

    fn xids(bytes: &[u8]) -> Vec<u32> {
        let (mut rest, mut xids) = (bytes, vec![]);
        while let Some((msg, after)) = split_message(rest).unwrap() {
            xids.push(msg.xid());
            rest = after;
        }
        assert!(rest.is_empty(), "a message was torn apart");
        xids
    }

    const URGENT: u32 = 1_000_000;

    const FLOW_MOD: u8 = 14;

    /// Random sends in both lanes, to a kernel that takes random amounts.
    #[test]
    fn messages_stay_whole_lanes_keep_their_order_and_urgent_messages_overtake() {
        let id = ConnId::default();
        for seed in 0..300 {
            let writes = [Writes::Joined, Writes::Single][usize::from(seed % 3 == 2)];
            let (mut rng, mut io) = (Rng::new(seed), LimitedSender::default());
            let (mut queue, mut next, mut expected_bytes) = (TransmitQueue::default(), 0, 0);
            // Of each urgent message: the bytes that had been sent when it was queued, and the bytes of urgent ones before it.
            let mut urgent_at = Vec::new();
            for _ in 0..200 {
                io.room = rng.below(200) as usize;
                let [fresh, urgent] =
                    [(0, rng.below(4)), (URGENT, rng.below(8) / 6)].map(|(first, n)| {
                        let messages = (0..n).flat_map(|_| {
                            next += 1;
                            message(10, first + next, 8 + u8::try_from(rng.below(60)).unwrap())
                        });
                        messages.collect::<Vec<u8>>()
                    });
                if !urgent.is_empty() {
                    urgent_at.push((io.sent.len(), queue.urgent.unsent().len(), xids(&urgent)));
                }
                expected_bytes += fresh.len() + urgent.len();
                match rng.below(4) {
                    0 if urgent.is_empty() => queue.append(&fresh),
                    _ => _ = queue.send(&mut io, id, (&urgent, &fresh), writes),
                }
                assert_eq!(io.sent.len() + queue.len(), expected_bytes, "seed {seed}");
            }
            io.room = usize::MAX;
            queue.flush(&mut io, id, writes);
            assert!(queue.is_empty() && queue.normal.half_sent_bytes == 0);
            let sent = xids(&io.sent);
            let (urgent, normal): (Vec<_>, Vec<_>) =
                sent.iter().copied().partition(|&xid| xid > URGENT);
            assert!(urgent.is_sorted() && normal.is_sorted(), "seed {seed}");
            assert_eq!(sent.len(), usize::try_from(next).unwrap(), "seed {seed}");
            for (sent_before, urgent_before, of_one_send) in urgent_at {
                let at = io.sent.windows(8).position(|w| w[4..] == of_one_send[0].to_be_bytes());
                // Behind the rest of one message and the urgent ones before it.
                assert!(at.unwrap() <= sent_before + urgent_before + 2 * 68, "seed {seed}");
            }
        }
    }

    #[test]
    fn an_empty_queue_sends_both_lanes_at_once_and_sends_nothing_if_there_is_nothing() {
        let (mut queue, id) = (TransmitQueue::default(), ConnId::default());
        let mut io = LimitedSender { room: 1000, ..LimitedSender::default() };
        assert_eq!(queue.send(&mut io, id, (&[], &[]), Writes::Joined), 0);
        let both = (&message(2, 1, 8)[..], &message(2, 2, 8)[..]);
        assert_eq!((io.sends, queue.send(&mut io, id, both, Writes::Joined)), (0, 16));
        assert_eq!((io.sends, xids(&io.sent)), (1, vec![1, 2]));
    }

    #[test]
    fn single_writes_have_one_message_each_or_the_rest_of_one() {
        let id = ConnId::default();
        let (mut queue, mut io) = (TransmitQueue::default(), LimitedSender::default());
        let messages: Vec<u8> = (1..=5).flat_map(|xid| message(10, xid, 20)).collect();
        io.room = 50;
        let urgent = message(2, 9, 8);
        assert_eq!(queue.send(&mut io, id, (&urgent, &messages), Writes::Single), 50);
        // The urgent one, two others, and two bytes of the next.
        assert_eq!((io.sends, queue.normal.half_sent_bytes), (4, 18));
        io.room = 1000;
        queue.append(&message(10, 6, 20));
        assert_eq!(queue.flush(&mut io, id, Writes::Single), 78);
        assert_eq!((io.sends, xids(&io.sent)), (8, vec![9, 1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn changes_of_the_tables_overtake_packet_outs_but_split_no_message() {
        let (mut queue, id) = (TransmitQueue::default(), ConnId::default());
        let mut io = LimitedSender { room: 10, ..LimitedSender::default() };
        for (kind, xid) in [(PACKET_OUT, 1), (PACKET_OUT, 2), (FLOW_MOD, 3), (PACKET_OUT, 4)] {
            queue.send(&mut io, id, (&[], &message(kind, xid, 40)), Writes::Joined);
        }
        queue.append(&message(FLOW_MOD, 5, 40));
        queue.move_packet_outs_back();
        io.room = 1000;
        queue.flush(&mut io, id, Writes::Joined);
        assert_eq!(xids(&io.sent), [1, 3, 5, 2, 4], "a part of the first was sent");
    }

    #[test]
    fn a_queue_that_drains_frees_its_memory() {
        let (mut queue, id) = (TransmitQueue::default(), ConnId::default());
        let mut io = LimitedSender::default();
        queue.append(&message(10, 1, 100).repeat(10_000));
        while !queue.is_empty() {
            io.room = 1000;
            queue.flush(&mut io, id, Writes::Joined);
            let capacity = queue.normal.bytes.capacity();
            assert!(capacity <= SPARE_CAPACITY_MAX + 2 * queue.len(), "{capacity}");
        }
        assert_eq!(io.sent.len(), 1_000_000);
    }

    #[test]
    fn bytes_are_moved_at_most_once_on_average() {
        let (mut queue, id) = (TransmitQueue::default(), ConnId::default());
        let mut io = LimitedSender::default();
        let (message, mut moved) = (message(10, 1, 100), 0);
        for _ in 0..2000 {
            queue.append(&message);
        }
        for _ in 0..10_000 {
            let before = (queue.normal.sent, queue.normal.unsent().len());
            queue.append(&message);
            if queue.normal.sent < before.0 {
                moved += before.1;
            }
            io.room = 100;
            queue.flush(&mut io, id, Writes::Joined);
        }
        assert!(moved <= 10_000 * 100, "{moved} bytes");
    }
}
