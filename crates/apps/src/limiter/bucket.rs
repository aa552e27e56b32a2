//! A leaky bucket that measures a rate.

use std::time::{Duration, Instant};

/// A bucket that leaks at a steady rate, as one point in time: when it will be empty. ITU-T I.371 calls it the generic
/// cell rate algorithm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    empty_at: Instant,
}

/// How full a bucket is after a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// At most half.
    Low,
    /// More than half.
    High,
    /// It was full: the packet is over the limit.
    Over,
}

/// The rate and depth of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Time between two packets at the rate.
    each: Duration,
    /// Time in which a full bucket runs empty.
    depth: Duration,
}

impl Rate {
    /// `per_s` packets per second, and at once `burst` packets and those of one round trip `trip`; at most twice the burst,
    /// since the round trip may be long because of the very packets that are to be limited.
    pub(super) fn new(per_s: u32, burst: u32, trip: Duration) -> Self {
        let each = Duration::from_secs(1) / per_s.max(1);
        let depth = each * burst.max(1);
        Self { each, depth: depth + trip.min(depth) }
    }
}

impl Bucket {
    /// An empty bucket.
    pub(super) const fn new(now: Instant) -> Self {
        Self { empty_at: now }
    }

    /// Adds a packet, if there is room.
    #[inline]
    pub(super) fn put(&mut self, rate: Rate, now: Instant) -> Level {
        let next = self.empty_at.max(now) + rate.each;
        let filled = next.saturating_duration_since(now);
        if filled > rate.depth {
            return Level::Over;
        }
        self.empty_at = next;
        if filled * 2 > rate.depth { Level::High } else { Level::Low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_packets_at_the_rate() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (rate, mut bucket) = (Rate::new(100, 10, Duration::ZERO), Bucket::new(start));
        let mut put = |ms| bucket.put(rate, start + Duration::from_millis(ms));
        assert_eq!([put(0), put(0), put(0), put(0), put(0)], [Level::Low; 5]);
        assert_eq!([put(0), put(0), put(0), put(0), put(0)], [Level::High; 5]);
        assert_eq!([put(0), put(9)], [Level::Over; 2]);
        assert_eq!([put(10), put(10)], [Level::High, Level::Over]);
        let passed = (11..1011).filter(|&ms| put(ms) != Level::Over).count();
        assert_eq!(passed, 100);
        assert_eq!(put(5000), Level::Low, "unused rate is not saved up");
        for (trip_ms, passed) in [(50, 15), (1000, 20)] {
            let far = Rate::new(100, 10, Duration::from_millis(trip_ms));
            let mut bucket = Bucket::new(start);
            let through = (0..200).filter(|_| bucket.put(far, start) != Level::Over).count();
            assert_eq!(through, passed, "{trip_ms} ms away");
        }
    }
}
