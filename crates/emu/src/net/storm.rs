//! Sees that one frame is sent again and again.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

/// The time over which copies are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Bytes of a frame that are looked at, with its length: all headers, and the number of a packet of a stream.
const LOOKED_AT: usize = 128;

/// Different frames that are told apart in a window; when there are more, counting begins again.
const FRAMES_MAX: usize = 1 << 18;

/// Counts copies of each frame over all links.
#[derive(Debug)]
pub(super) struct Storm {
    copies_max: u64,
    began: Instant,
    copies: HashMap<u64, u64, BuildHasherDefault<DefaultHasher>>,
    most: u64,
}

impl Storm {
    pub(super) fn new(copies_max: u64, now: Instant) -> Self {
        Self { copies_max, began: now, copies: HashMap::default(), most: 0 }
    }

    /// Counts a frame that is sent; how many copies there are if that is too many.
    pub(super) fn sent(&mut self, now: Instant, frame: &[u8]) -> Option<u64> {
        if now >= self.began + WINDOW || self.copies.len() >= FRAMES_MAX {
            self.copies.clear();
            self.began = now;
        }
        let start = frame.get(..LOOKED_AT).unwrap_or(frame);
        let key = BuildHasherDefault::<DefaultHasher>::new().hash_one((start, frame.len()));
        let copies = self.copies.entry(key).or_default();
        *copies += 1;
        self.most = self.most.max(*copies);
        (*copies > self.copies_max).then_some(*copies)
    }

    /// The most copies of one frame within a window, ever.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}
