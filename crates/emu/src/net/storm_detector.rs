//! Detects broadcast storms: one frame that is sent again and again.

use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use sluice_base::HashMap;

/// The time over which copies are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Bytes of a frame that are hashed, with its length: all headers, and the packet number of a stream.
const HASHED_LEN_MAX: usize = 128;

/// Most distinct frames in a window; when exceeded, counting starts again.
const DISTINCT_FRAMES_MAX: usize = 1 << 18;

/// Counts copies of each frame over all links.
#[derive(Debug)]
pub(super) struct StormDetector {
    copies_max: u64,
    window_start: Instant,
    copies: HashMap<u64, u64>,
    copies_max_seen: u64,
}

impl StormDetector {
    pub(super) fn new(copies_max: u64, now: Instant) -> Self {
        Self { copies_max, window_start: now, copies: HashMap::default(), copies_max_seen: 0 }
    }

    /// Counts a frame; returns the number of copies if it is too large.
    pub(super) fn record(&mut self, now: Instant, frame: &[u8]) -> Option<u64> {
        if now >= self.window_start + WINDOW || self.copies.len() >= DISTINCT_FRAMES_MAX {
            self.copies.clear();
            self.window_start = now;
        }
        let start = frame.get(..HASHED_LEN_MAX).unwrap_or(frame);
        let key = self.copies.hasher().hash_one((start, frame.len()));
        let copies = self.copies.entry(key).or_default();
        *copies += 1;
        self.copies_max_seen = self.copies_max_seen.max(*copies);
        (*copies > self.copies_max).then_some(*copies)
    }

    /// The most copies of one frame within any window.
    pub(super) fn copies_max_seen(&self) -> u64 {
        self.copies_max_seen
    }
}
