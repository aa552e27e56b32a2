//! The order in which ready connections are read: those with little to read first.
//!
//! Connections of which much is read at a time wait in a queue, of which a part is read between two waits. What arrives on
//! another connection then waits for that part at most, not for all connections that always have more to read. Sparse
//! connections cannot keep the queue from being read, since each wait is followed by a part of it. Deficit round robin with
//! a list of new flows (RFC 8290, section 4.1) schedules packets in the same way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of one read of a sparse connection, so that it cannot delay others for long.
const SPARSE_READ_BYTES_MAX: usize = 2 << 10;

/// Bytes of a small read of a bulk connection.
const SMALL_READ_BYTES_MAX: usize = 1 << 10;

/// A bulk connection is sparse again after so many small reads in a row.
const SMALL_READS: u8 = 16;

/// How long the queue is read between two waits: as long as everything since the last wait took, within these limits. It may be longer
/// after a long gap ([`GAP_SHARE`]).
const PART_TIME_MIN: Duration = Duration::from_micros(100);
const PART_TIME_MAX: Duration = Duration::from_micros(250);

/// The gap is the time from the end of a part to the end of the next wait: all that the worker did meanwhile. The next part may take
/// 1/`GAP_SHARE` of it, within the limit. What its packets cause can be sent together then, for example broadcasts to a thousand switches.
/// Beyond [`PART_TIME_MAX`], a part is longer than the one before only if the gap between them was more than `GAP_SHARE` times as long.
const GAP_SHARE: u32 = 4;
const PART_TIME_AFTER_GAP_MAX: Duration = Duration::from_millis(2);

/// How many bytes of a connection are read at a time, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadSizes {
    /// Few of a connection with little to read, which is read first, and many of one with much to read.
    #[default]
    Adaptive,
    /// As many as there are, up to the limit of all reads, and in the order in which connections become ready.
    Fixed,
}

/// How much is read from a connection at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Whatever there is, always.
    Fixed,
    /// Little.
    Sparse,
    /// Much, before the last `small_reads` reads.
    Bulk { small_reads: u8 },
}

impl Load {
    /// The load of a connection that has not been read yet.
    pub(crate) fn new(sizes: ReadSizes) -> Self {
        match sizes {
            ReadSizes::Adaptive => Self::Sparse,
            ReadSizes::Fixed => Self::Fixed,
        }
    }

    pub(crate) fn is_bulk(self) -> bool {
        matches!(self, Self::Bulk { .. })
    }

    /// Bytes of the next read if `max` is the limit of all reads.
    #[inline]
    pub(crate) fn read_max(self, max: usize) -> usize {
        match self {
            Self::Sparse => max.min(SPARSE_READ_BYTES_MAX),
            Self::Bulk { .. } | Self::Fixed => max,
        }
    }

    /// The load after a read of `bytes` if `max` is the limit of all reads.
    #[inline]
    pub(crate) fn after_read(self, bytes: usize, max: usize) -> Self {
        match self {
            Self::Sparse if bytes < self.read_max(max) => Self::Sparse,
            Self::Bulk { small_reads } if bytes < SMALL_READ_BYTES_MAX.min(max) => {
                match small_reads + 1 {
                    SMALL_READS => Self::Sparse,
                    small_reads => Self::Bulk { small_reads },
                }
            }
            Self::Fixed => Self::Fixed,
            _ => Self::Bulk { small_reads: 0 },
        }
    }
}

/// What has happened on bulk connections.
#[derive(Debug)]
pub(crate) struct BulkQueue<E> {
    events: VecDeque<E>,
    part: Part,
}

/// When the queue is read.
#[derive(Debug)]
enum Part {
    /// After everything else that was ready at the end of the last wait.
    Next {
        waited_at: Instant,
        /// Time from the end of the last part to the end of the wait; zero if the worker was idle or congested in between.
        gap: Duration,
    },
    /// Now, until this time.
    Until(Instant),
    /// Not before the next wait.
    Over {
        /// When time was over, if that ended the part: then the next wait takes no time, since there is more in the queue.
        ended_at: Option<Instant>,
    },
}

impl<E> BulkQueue<E> {
    pub(crate) fn new() -> Self {
        Self { events: VecDeque::new(), part: Part::Over { ended_at: None } }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = E>) {
        self.events.extend(events);
    }

    /// After a wait.
    pub(crate) fn begin_part(&mut self, now: Instant) {
        let gap = match self.part {
            Part::Over { ended_at: Some(ended_at) } => now.saturating_duration_since(ended_at),
            _ => Duration::ZERO,
        };
        self.part = Part::Next { waited_at: now, gap };
    }

    /// Nothing more is read before the next wait.
    pub(crate) fn end_part(&mut self) {
        self.part = Part::Over { ended_at: None };
    }

    /// Ends the part as if its time were over.
    pub(crate) fn end_part_early(&mut self) {
        if let Part::Until(end) = self.part {
            self.end_part_at(end);
        }
    }

    fn end_part_at(&mut self, now: Instant) {
        self.part = Part::Over { ended_at: (!self.events.is_empty()).then_some(now) };
    }

    /// The next event; `None` if there is none, or not before the next wait.
    pub(crate) fn pop(&mut self, now: impl FnOnce() -> Instant) -> Option<E> {
        if self.events.is_empty() {
            return None;
        }
        match self.part {
            Part::Next { waited_at, gap } => {
                let now = now();
                let before = now.saturating_duration_since(waited_at);
                let before = before.clamp(PART_TIME_MIN, PART_TIME_MAX);
                let after_gap = (gap / GAP_SHARE).min(PART_TIME_AFTER_GAP_MAX);
                self.part = Part::Until(now + before.max(after_gap));
            }
            Part::Until(end) => {
                let now = now();
                if now >= end {
                    self.end_part_at(now);
                    return None;
                }
            }
            Part::Over { .. } => return None,
        }
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARSE: Load = Load::Sparse;
    const BULK: Load = Load::Bulk { small_reads: 0 };

    #[test]
    fn a_connection_is_bulk_after_a_full_read_and_sparse_after_small_ones() {
        let max = 128 << 10;
        assert_eq!(SPARSE.read_max(max), SPARSE_READ_BYTES_MAX);
        assert_eq!(SPARSE.after_read(SPARSE_READ_BYTES_MAX - 1, max), SPARSE);
        assert_eq!(SPARSE.after_read(SPARSE_READ_BYTES_MAX, max), BULK);
        assert_eq!(BULK.read_max(max), max);
        let mut load = BULK;
        for _ in 1..SMALL_READS {
            load = load.after_read(SMALL_READ_BYTES_MAX - 1, max);
            assert!(load.is_bulk());
        }
        assert_eq!(load.after_read(SMALL_READ_BYTES_MAX, max), BULK);
        assert_eq!(load.after_read(SMALL_READ_BYTES_MAX - 1, max), SPARSE);
        // Whatever the limit, a read that reaches it may have left something.
        assert_eq!(SPARSE.after_read(100, 100), BULK);
        assert_eq!(BULK.after_read(100, 100), BULK);
        assert_ne!(BULK.after_read(99, 100), BULK);
    }

    #[test]
    fn a_connection_with_fixed_read_sizes_is_never_a_bulk_connection() {
        let (load, max) = (Load::new(ReadSizes::Fixed), 128 << 10);
        assert!(!load.is_bulk() && load.read_max(max) == max);
        for bytes in [1, SPARSE_READ_BYTES_MAX, max] {
            assert_eq!(load.after_read(bytes, max), load);
        }
    }

    #[test]
    fn the_queue_is_read_for_longer_if_more_time_passes_between_two_parts() {
        let start = crate::clock::now();
        let us = |us| start + Duration::from_micros(us);
        let mut queue = BulkQueue::new();
        queue.extend(1..=8);
        queue.begin_part(start);
        assert_eq!(queue.pop(|| start), Some(1));
        assert_eq!(queue.pop(|| us(300)), None);
        // What the first part caused took 4 ms.
        queue.begin_part(us(4300));
        assert_eq!(queue.pop(|| us(4300)), Some(2));
        assert_eq!(queue.pop(|| us(5299)), Some(3));
        assert_eq!(queue.pop(|| us(5300)), None);
        // It took 500 ms.
        queue.begin_part(us(505_300));
        assert_eq!(queue.pop(|| us(505_300)), Some(4));
        assert_eq!(queue.pop(|| us(507_299)), Some(5));
        assert_eq!(queue.pop(|| us(507_300)), None);
        // The worker waited for room in the queue of another one, or for events, which says nothing.
        queue.end_part();
        queue.begin_part(us(900_000));
        assert_eq!(queue.pop(|| us(900_000)), Some(6));
        assert_eq!(queue.pop(|| us(900_000) + PART_TIME_MIN), None);
        queue.begin_part(us(900_000) + PART_TIME_MIN);
        assert_eq!(queue.pop(|| us(901_000)), Some(7));
        assert_eq!(queue.pop(|| us(901_000)), Some(8));
        queue.end_part_early();
        queue.begin_part(us(990_000));
        queue.extend(9..=10);
        assert_eq!(queue.pop(|| us(990_000)), Some(9));
        assert_eq!(queue.pop(|| us(990_000) + PART_TIME_MIN), None);
    }

    #[test]
    fn the_queue_is_read_in_order_and_for_a_limited_time() {
        let start = crate::clock::now();
        let us = |us| start + Duration::from_micros(us);
        let mut queue = BulkQueue::new();
        queue.extend(1..=6);
        assert_eq!(queue.pop(|| start), None, "before a wait");
        // What was read before the queue took 200 µs, so the queue has as much.
        queue.begin_part(start);
        assert_eq!(queue.pop(|| us(200)), Some(1));
        assert_eq!(queue.pop(|| us(399)), Some(2));
        assert_eq!(queue.pop(|| us(400)), None);
        assert_eq!(queue.pop(|| us(400)), None);
        // It has its least time.
        queue.begin_part(us(410));
        assert_eq!(queue.pop(|| us(410)), Some(3));
        assert_eq!(queue.pop(|| us(410) + PART_TIME_MIN), None);
        // One is read, however late it is.
        queue.begin_part(us(520));
        assert_eq!(queue.pop(|| us(90_000)), Some(4));
        assert_eq!(queue.pop(|| us(90_000) + PART_TIME_MAX), None);
        queue.begin_part(us(100_000));
        queue.end_part();
        assert_eq!(queue.pop(|| us(100_000)), None);
        assert!(!queue.is_empty());
    }
}
