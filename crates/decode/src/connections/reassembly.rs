//! TCP reassembly: the bytes of one direction of a connection, in order.

use std::mem;

/// Bytes that may wait for a missing segment; beyond that, the segment counts as lost.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Segments that may wait for a missing one.
const WAITING_SEGMENTS_MAX: usize = 4096;

/// Puts the segments of one direction of a TCP connection in order. RFC 9293 §3.4.
#[derive(Debug, Default)]
pub(crate) struct TcpReassembler {
    /// Sequence number of the next byte; `None` until the first segment.
    next: Option<u32>,
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_len: usize,
}

/// Bytes that became readable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamData {
    /// They directly follow the bytes before.
    Next(Vec<u8>),
    /// Bytes before them are missing in the capture.
    AfterGap(Vec<u8>),
}

impl TcpReassembler {
    /// Starts a new connection at its `SYN`.
    pub(crate) fn open(&mut self, seq: u32) {
        *self = Self { next: Some(seq.wrapping_add(1)), ..Self::default() };
    }

    /// Inserts a segment; returns the bytes that became readable.
    pub(crate) fn insert(&mut self, seq: u32, payload: &[u8]) -> Vec<StreamData> {
        if payload.is_empty() {
            return Vec::new();
        }
        let next = *self.next.get_or_insert(seq);
        self.waiting.push((seq, payload.to_vec()));
        self.waiting_len += payload.len();
        let mut ready = self.take_ready(next);
        if self.waiting_len > WAITING_BYTES_MAX || self.waiting.len() > WAITING_SEGMENTS_MAX {
            ready.extend(self.skip_gap());
        }
        ready
    }

    /// Skips missing bytes; returns those after them, `None` if no segment waits.
    pub(crate) fn skip_gap(&mut self) -> Option<StreamData> {
        let next = self.next?;
        let nearest = self.waiting.iter().map(|(seq, _)| seq.wrapping_sub(next)).min()?;
        let seq = next.wrapping_add(nearest);
        self.next = Some(seq);
        let bytes = self.take_ready(seq).into_iter().flat_map(StreamData::into_bytes).collect();
        Some(StreamData::AfterGap(bytes))
    }

    /// Removes the segments from `next` on that are contiguous.
    fn take_ready(&mut self, mut next: u32) -> Vec<StreamData> {
        let mut bytes = Vec::new();
        while let Some(at) = self.waiting.iter().position(|(seq, _)| is_at_or_before(*seq, next)) {
            let (seq, payload) = self.waiting.swap_remove(at);
            self.waiting_len -= payload.len();
            let seen = usize::try_from(next.wrapping_sub(seq)).unwrap_or(usize::MAX);
            if let Some(new) = payload.get(seen..).filter(|new| !new.is_empty()) {
                bytes.extend_from_slice(new);
                next = next.wrapping_add(u32::try_from(new.len()).unwrap_or(0));
            }
        }
        self.next = Some(next);
        if bytes.is_empty() { Vec::new() } else { vec![StreamData::Next(mem::take(&mut bytes))] }
    }
}

impl StreamData {
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Next(bytes) | Self::AfterGap(bytes) => bytes,
        }
    }
}

/// Compares sequence numbers, which wrap.
fn is_at_or_before(seq: u32, next: u32) -> bool {
    next.wrapping_sub(seq) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &str) -> Vec<StreamData> {
        vec![StreamData::Next(text.as_bytes().to_vec())]
    }

    #[test]
    fn reordered_and_repeated_segments_are_returned_in_order_and_once() {
        let mut reassembler = TcpReassembler::default();
        reassembler.open(u32::MAX - 2);
        assert_eq!(reassembler.insert(u32::MAX - 1, b"ab"), next("ab"));
        assert_eq!(reassembler.insert(3, b"fg"), []);
        assert_eq!(reassembler.insert(0, b"cd"), next("cd"));
        assert_eq!(reassembler.insert(0, b"cd"), []);
        assert_eq!(reassembler.insert(1, b"def"), next("efg"));
    }

    #[test]
    fn missing_bytes_are_skipped_at_the_end() {
        let mut reassembler = TcpReassembler::default();
        assert_eq!(reassembler.insert(100, b"ab"), next("ab"));
        assert_eq!(reassembler.insert(110, b"yz"), []);
        assert_eq!(reassembler.insert(105, b"x"), []);
        assert_eq!(reassembler.skip_gap(), Some(StreamData::AfterGap(b"x".to_vec())));
        assert_eq!(reassembler.skip_gap(), Some(StreamData::AfterGap(b"yz".to_vec())));
        assert_eq!(reassembler.skip_gap(), None);
    }

    #[test]
    fn waiting_segments_are_bounded() {
        let mut reassembler = TcpReassembler::default();
        reassembler.insert(0, b"a");
        let ready =
            (0..10_000).map(|n| reassembler.insert(1000 + 2 * n, b"b").len()).sum::<usize>();
        assert!(ready > 0 && reassembler.waiting.len() <= WAITING_SEGMENTS_MAX);
    }
}
