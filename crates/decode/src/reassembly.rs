//! One direction of a TCP connection in a capture: its bytes in order.

use std::mem;

/// Bytes that may wait for those before them; then what is missing counts as lost.
const WAITING_MAX: usize = 4 << 20;

/// Segments that may wait.
const SEGMENTS_MAX: usize = 4096;

/// What arrived of one direction, put in order. RFC 9293 §3.4.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    /// The sequence number of the next byte, once one was seen.
    next: Option<u32>,
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_len: usize,
}

/// What a segment brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamData {
    /// Bytes that follow those before.
    Next(Vec<u8>),
    /// Bytes behind some that were never seen.
    AfterGap(Vec<u8>),
}

impl Reassembler {
    /// A connection opens: whatever was before is of another one.
    pub(crate) fn open(&mut self, seq: u32) {
        *self = Self { next: Some(seq.wrapping_add(1)), ..Self::default() };
    }

    /// Takes a segment; gives back what can be read now, in order.
    pub(crate) fn segment(&mut self, seq: u32, payload: &[u8]) -> Vec<StreamData> {
        if payload.is_empty() {
            return Vec::new();
        }
        let next = *self.next.get_or_insert(seq);
        self.waiting.push((seq, payload.to_vec()));
        self.waiting_len += payload.len();
        let mut ready = self.ready(next);
        if self.waiting_len > WAITING_MAX || self.waiting.len() > SEGMENTS_MAX {
            ready.extend(self.skip());
        }
        ready
    }

    /// Goes on behind what never came; `None` if nothing waits.
    pub(crate) fn skip(&mut self) -> Option<StreamData> {
        let next = self.next?;
        let nearest = self.waiting.iter().map(|(seq, _)| seq.wrapping_sub(next)).min()?;
        let seq = next.wrapping_add(nearest);
        self.next = Some(seq);
        let bytes = self.ready(seq).into_iter().flat_map(StreamData::into_bytes).collect();
        Some(StreamData::AfterGap(bytes))
    }

    /// Takes what follows `next` out of what waits.
    fn ready(&mut self, mut next: u32) -> Vec<StreamData> {
        let mut bytes = Vec::new();
        while let Some(at) = self.waiting.iter().position(|(seq, _)| is_reached(*seq, next)) {
            let (seq, payload) = self.waiting.swap_remove(at);
            self.waiting_len -= payload.len();
            let seen = usize::try_from(next.wrapping_sub(seq)).unwrap_or(usize::MAX);
            if let Some(fresh) = payload.get(seen..).filter(|fresh| !fresh.is_empty()) {
                bytes.extend_from_slice(fresh);
                next = next.wrapping_add(u32::try_from(fresh.len()).unwrap_or(0));
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

/// Whether the byte `seq` is the byte `next` or one before it, in numbers that go round.
fn is_reached(seq: u32, next: u32) -> bool {
    next.wrapping_sub(seq) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &str) -> Vec<StreamData> {
        vec![StreamData::Next(text.as_bytes().to_vec())]
    }

    #[test]
    fn segments_come_out_in_order_and_once() {
        let mut direction = Reassembler::default();
        direction.open(u32::MAX - 2);
        assert_eq!(direction.segment(u32::MAX - 1, b"ab"), next("ab"));
        assert_eq!(direction.segment(3, b"fg"), []);
        assert_eq!(direction.segment(0, b"cd"), next("cd"));
        assert_eq!(direction.segment(0, b"cd"), []);
        assert_eq!(direction.segment(1, b"def"), next("efg"));
    }

    #[test]
    fn what_never_comes_is_passed_over_at_the_end() {
        let mut direction = Reassembler::default();
        assert_eq!(direction.segment(100, b"ab"), next("ab"));
        assert_eq!(direction.segment(110, b"yz"), []);
        assert_eq!(direction.segment(105, b"x"), []);
        assert_eq!(direction.skip(), Some(StreamData::AfterGap(b"x".to_vec())));
        assert_eq!(direction.skip(), Some(StreamData::AfterGap(b"yz".to_vec())));
        assert_eq!(direction.skip(), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut direction = Reassembler::default();
        direction.segment(0, b"a");
        let far = (0..10_000).map(|n| direction.segment(1000 + 2 * n, b"b").len()).sum::<usize>();
        assert!(far > 0 && direction.waiting.len() <= SEGMENTS_MAX);
    }
}
