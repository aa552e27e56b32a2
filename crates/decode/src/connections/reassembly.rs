//! TCP reassembly: the bytes of one direction of a connection, in order.

use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes that may wait for a missing segment. A sender repeats a lost segment after at most one window of further bytes, and
/// the largest window that Linux uses by default is 4 to 6 MiB; beyond that, the segment was lost in the capture.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Segments that may wait for a missing one: 4 MiB of segments of 1 KiB.
const WAITING_SEGMENTS_MAX: usize = 4096;

/// Memory that a waiting segment takes besides its payload: its entry of the map, which is partly filled, and its allocation.
const SEGMENT_OVERHEAD: usize = 80;

/// Capture time for which segments wait for a missing one: longer than the first retransmissions take.
const WAITING_TIME_MAX: Duration = Duration::from_secs(10);

/// Segments that wait for bytes that the receiver has acknowledged. Those bytes were lost in the capture, unless packets were
/// captured in another order than they were sent, which moves them by a few places.
const REORDERED_SEGMENTS_MAX: usize = 8;

/// Capture time for which segments wait for acknowledged bytes.
const REORDERED_TIME_MAX: Duration = Duration::from_millis(200);

/// A segment that starts up to this many bytes before the next expected one is a repeated one. All others are ahead: sequence
/// numbers wrap, and a connection whose start was not captured may reuse the addresses of an earlier one.
const REPEATED_BYTES_MAX: u32 = 64 << 20;

/// Puts the segments of one direction of a TCP connection in order. RFC 9293 §3.4.
///
/// A position is a sequence number that does not wrap.
#[derive(Debug, Default)]
pub(crate) struct TcpReassembler {
    /// Sequence number of the `SYN`, if it was captured.
    opened_by: Option<u32>,
    /// Position of the next byte; `None` until the first segment.
    next: Option<u64>,
    /// Segments ahead of the next byte, by position.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Bytes of their payloads.
    waiting_bytes: usize,
    /// Capture time since which segments wait.
    waiting_since: Duration,
    /// Position of the `FIN`, after the last byte.
    end: Option<u64>,
    /// Position up to which the receiver has acknowledged.
    acknowledged: u64,
}

impl TcpReassembler {
    /// Starts a new connection at its `SYN`.
    pub(crate) fn open(&mut self, seq: u32) {
        let next = Some(first_position(seq.wrapping_add(1)));
        *self = Self { opened_by: Some(seq), next, ..Self::default() };
    }

    /// Whether the connection was opened by the `SYN` with this sequence number, which may be captured repeatedly.
    pub(crate) fn is_opened_by(&self, seq: u32) -> bool {
        self.opened_by == Some(seq)
    }

    /// Memory of the segments that wait for a missing one.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes + self.waiting.len() * SEGMENT_OVERHEAD
    }

    /// Inserts a segment; returns the part of it that directly follows the bytes before. [`pop_ready`](Self::pop_ready) returns
    /// what follows it.
    pub(crate) fn insert<'a>(
        &mut self,
        seq: u32,
        payload: &'a [u8],
        time: Duration,
    ) -> Option<&'a [u8]> {
        let next = *self.next.get_or_insert_with(|| first_position(seq));
        let behind = low_half(next).wrapping_sub(seq);
        if behind <= REPEATED_BYTES_MAX {
            let new = payload.get(usize::try_from(behind).ok()?..).filter(|new| !new.is_empty())?;
            let after = next + new.len() as u64;
            self.next = Some(after);
            // The next gap, if there is one, is waited for from now on.
            if self.waiting.first_key_value().is_some_and(|(&first, _)| first <= after) {
                self.waiting_since = time;
            }
            return Some(new);
        }
        let position = next + u64::from(seq.wrapping_sub(low_half(next)));
        if self.waiting.is_empty() {
            self.waiting_since = time;
        }
        let known = self.waiting.get(&position).map_or(0, Vec::len);
        if known < payload.len() {
            self.waiting_bytes += payload.len() - known;
            self.waiting.insert(position, payload.to_vec());
        }
        None
    }

    /// Starts at this sequence number, unless the stream has started.
    pub(crate) fn start(&mut self, seq: u32) {
        self.next.get_or_insert_with(|| first_position(seq));
    }

    /// Notes the sequence number of the `FIN`. While bytes before it are missing, it waits for them as a segment does.
    pub(crate) fn insert_fin(&mut self, seq: u32, time: Duration) {
        let next = *self.next.get_or_insert_with(|| first_position(seq));
        let behind = low_half(next).wrapping_sub(seq);
        if behind <= REPEATED_BYTES_MAX {
            // One further behind is repeated, or of an earlier connection.
            if behind == 0 {
                self.end = Some(next);
            }
            return;
        }
        let position = next + u64::from(seq.wrapping_sub(low_half(next)));
        self.end = Some(position);
        if self.waiting.is_empty() {
            self.waiting_since = time;
        }
        self.waiting.entry(position).or_default();
    }

    /// Whether all bytes before the `FIN` have been returned or skipped.
    pub(crate) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.next.is_some_and(|next| next >= end))
    }

    /// Removes the next bytes from the segments that waited, if nothing is missing before them.
    pub(crate) fn pop_ready(&mut self) -> Option<Vec<u8>> {
        let next = self.next?;
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= next) {
            let repeated = usize::try_from(next - first.key()).unwrap_or(usize::MAX);
            let mut payload = first.remove();
            self.waiting_bytes -= payload.len();
            if repeated < payload.len() {
                payload.drain(..repeated);
                self.next = Some(next + payload.len() as u64);
                return Some(payload);
            }
        }
        None
    }

    /// Notes that the receiver has received all bytes before `ack`.
    pub(crate) fn acknowledge(&mut self, ack: u32) {
        if let Some(next) = self.next {
            let ahead = ack.wrapping_sub(low_half(next));
            if ahead < 1 << 31 {
                self.acknowledged = next + u64::from(ahead);
            }
        }
    }

    /// Whether segments wait for bytes that the capture does not contain.
    pub(crate) fn has_lost_bytes(&self, time: Duration) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let waiting_time = time.saturating_sub(self.waiting_since);
        // An acknowledgment of a part of the missing bytes leaves the rest to be repeated.
        let is_acknowledged =
            self.waiting.first_key_value().is_some_and(|(&first, _)| self.acknowledged >= first);
        self.waiting_bytes > WAITING_BYTES_MAX
            || self.waiting.len() > WAITING_SEGMENTS_MAX
            || waiting_time >= WAITING_TIME_MAX
            || is_acknowledged
                && (self.waiting.len() >= REORDERED_SEGMENTS_MAX
                    || waiting_time >= REORDERED_TIME_MAX)
    }

    /// Skips the missing bytes before the first segment that waits; returns their number, `None` if no segment waits.
    pub(crate) fn skip_gap(&mut self, time: Duration) -> Option<u64> {
        let (&position, _) = self.waiting.first_key_value()?;
        let missing = position.checked_sub(self.next?)?;
        self.next = Some(position);
        self.waiting_since = time;
        Some(missing)
    }
}

/// The position of the first byte of a stream: large enough that positions before it exist.
fn first_position(seq: u32) -> u64 {
    (1 << 32) + u64::from(seq)
}

/// The sequence number of a position.
#[expect(clippy::cast_possible_truncation, reason = "sequence numbers are the low 32 bits")]
fn low_half(position: u64) -> u32 {
    position as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_700_000_000);

    /// All bytes that are readable after the segment.
    fn insert(reassembler: &mut TcpReassembler, seq: u32, payload: &str) -> String {
        let next = reassembler.insert(seq, payload.as_bytes(), START);
        let mut bytes = next.unwrap_or_default().to_vec();
        bytes.extend(ready(reassembler));
        String::from_utf8(bytes).unwrap()
    }

    fn ready(reassembler: &mut TcpReassembler) -> Vec<u8> {
        std::iter::from_fn(|| reassembler.pop_ready()).flatten().collect()
    }

    #[test]
    fn reordered_and_repeated_segments_are_returned_in_order_and_once() {
        let mut reassembler = TcpReassembler::default();
        reassembler.open(u32::MAX - 2);
        assert_eq!(insert(&mut reassembler, u32::MAX - 1, "ab"), "ab");
        assert_eq!(insert(&mut reassembler, 3, "fg"), "");
        assert_eq!(insert(&mut reassembler, 0, "cd"), "cd");
        assert_eq!(insert(&mut reassembler, 0, "cd"), "");
        assert_eq!(insert(&mut reassembler, 1, "def"), "efg");
        assert_eq!(reassembler.waiting_bytes(), 0);
    }

    #[test]
    fn missing_bytes_are_skipped_at_the_end() {
        let mut reassembler = TcpReassembler::default();
        assert_eq!(insert(&mut reassembler, 100, "ab"), "ab");
        assert_eq!(insert(&mut reassembler, 110, "yz"), "");
        assert_eq!(insert(&mut reassembler, 105, "x"), "");
        assert_eq!(reassembler.skip_gap(START), Some(3));
        assert_eq!(ready(&mut reassembler), b"x");
        assert_eq!(reassembler.skip_gap(START), Some(4));
        assert_eq!(ready(&mut reassembler), b"yz");
        assert_eq!(reassembler.skip_gap(START), None);
    }

    #[test]
    fn acknowledged_bytes_are_lost_once_a_few_segments_or_some_time_have_passed() {
        let mut reassembler = TcpReassembler::default();
        insert(&mut reassembler, 100, "ab");
        for n in 1..REORDERED_SEGMENTS_MAX {
            insert(&mut reassembler, 100 + 10 * u32::try_from(n).unwrap(), "cd");
        }
        assert!(
            !reassembler.has_lost_bytes(START + REORDERED_TIME_MAX),
            "a sender may repeat them"
        );
        reassembler.acknowledge(105);
        assert!(
            !reassembler.has_lost_bytes(START + REORDERED_TIME_MAX),
            "the rest may be repeated"
        );
        reassembler.acknowledge(110);
        assert!(!reassembler.has_lost_bytes(START));
        assert!(reassembler.has_lost_bytes(START + REORDERED_TIME_MAX));
        insert(&mut reassembler, 200, "ef");
        assert!(reassembler.has_lost_bytes(START));
    }

    #[test]
    fn a_segment_far_before_the_expected_one_belongs_to_a_later_connection() {
        let mut reassembler = TcpReassembler::default();
        assert_eq!(insert(&mut reassembler, 3_000_000_000, "ab"), "ab");
        assert_eq!(insert(&mut reassembler, 1_000_000_000, "cd"), "");
        assert!(reassembler.skip_gap(START).is_some());
        assert_eq!(ready(&mut reassembler), b"cd");
    }

    #[test]
    fn after_a_gap_is_filled_the_next_one_is_waited_for_as_long() {
        let mut reassembler = TcpReassembler::default();
        insert(&mut reassembler, 100, "ab");
        insert(&mut reassembler, 104, "ef");
        insert(&mut reassembler, 108, "ij");
        let filled = START + WAITING_TIME_MAX / 2;
        assert!(reassembler.insert(102, b"cd", filled).is_some());
        assert_eq!(ready(&mut reassembler), b"ef");
        assert!(!reassembler.has_lost_bytes(START + WAITING_TIME_MAX));
        assert!(reassembler.has_lost_bytes(filled + WAITING_TIME_MAX));
    }

    #[test]
    fn a_fin_waits_for_the_bytes_before_it() {
        let mut reassembler = TcpReassembler::default();
        reassembler.open(99);
        reassembler.insert_fin(106, START);
        assert_eq!(insert(&mut reassembler, 100, "ab"), "ab");
        assert!(!reassembler.is_at_end());
        assert_eq!(insert(&mut reassembler, 104, "ef"), "");
        assert_eq!(insert(&mut reassembler, 102, "cd"), "cdef");
        assert!(reassembler.is_at_end());
    }

    #[test]
    fn bytes_that_are_missing_before_a_fin_are_counted() {
        let mut reassembler = TcpReassembler::default();
        assert_eq!(insert(&mut reassembler, 100, "ab"), "ab");
        assert_eq!(insert(&mut reassembler, 104, "ef"), "");
        reassembler.insert_fin(110, START);
        assert_eq!(reassembler.skip_gap(START), Some(2));
        assert_eq!(ready(&mut reassembler), b"ef");
        assert!(!reassembler.is_at_end());
        assert_eq!(reassembler.skip_gap(START), Some(4));
        assert!(reassembler.is_at_end());
        assert_eq!(ready(&mut reassembler), b"");
        assert_eq!(reassembler.skip_gap(START), None);
    }

    #[test]
    fn waiting_segments_are_bounded() {
        let mut reassembler = TcpReassembler::default();
        insert(&mut reassembler, 0, "a");
        let mut longest = 0;
        for n in 0..10_000 {
            insert(&mut reassembler, 1000 + 2 * n, "b");
            longest = longest.max(reassembler.waiting.len());
            while reassembler.has_lost_bytes(START) {
                reassembler.skip_gap(START);
                ready(&mut reassembler);
            }
        }
        assert_eq!(longest, WAITING_SEGMENTS_MAX + 1);
    }

    #[test]
    fn waiting_segments_of_one_byte_are_counted_with_their_overhead() {
        let mut reassembler = TcpReassembler::default();
        insert(&mut reassembler, 0, "a");
        for n in 0..100 {
            insert(&mut reassembler, 1000 + 2 * n, "b");
        }
        assert_eq!(reassembler.waiting_bytes(), 100 * (1 + SEGMENT_OVERHEAD));
    }
}
