//! A leaky bucket that measures a rate.

use std::time::{Duration, Instant};

/// A leaky bucket, kept as the time at which it will be empty (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy)]
pub(super) struct LeakyBucket {
    empty_at: Instant,
}

/// How full a bucket is after a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// At most half.
    Low,
    /// More than half.
    High,
    /// The bucket was full: the packet is over the limit.
    OverLimit,
}

/// The rate and depth of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Time between two packets at the rate.
    interval: Duration,
    /// Time in which a full bucket runs empty.
    depth: Duration,
}

impl Rate {
    /// `per_s` packets per second, and at once `burst` packets and as many as arrive within one round-trip time
    /// `rtt`; at most twice the burst, since the round trip may be long because of the very packets that are to be
    /// limited.
    pub(super) fn new(per_s: u32, burst: u32, rtt: Duration) -> Self {
        let interval = Duration::from_secs(1) / per_s.max(1);
        let depth = interval * burst.max(1);
        Self { interval, depth: depth + rtt.min(depth) }
    }
}

impl LeakyBucket {
    /// An empty bucket.
    pub(super) const fn new(now: Instant) -> Self {
        Self { empty_at: now }
    }

    /// A full bucket.
    pub(super) fn full(rate: Rate, now: Instant) -> Self {
        Self { empty_at: now + rate.depth }
    }

    /// Adds a packet, if there is room.
    #[inline]
    pub(super) fn add(&mut self, rate: Rate, now: Instant) -> Level {
        let next = self.empty_at.max(now) + rate.interval;
        let filled = next.saturating_duration_since(now);
        if filled > rate.depth {
            return Level::OverLimit;
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
        let (rate, mut bucket) = (Rate::new(100, 10, Duration::ZERO), LeakyBucket::new(start));
        let mut add = |ms| bucket.add(rate, start + Duration::from_millis(ms));
        assert_eq!([add(0), add(0), add(0), add(0), add(0)], [Level::Low; 5]);
        assert_eq!([add(0), add(0), add(0), add(0), add(0)], [Level::High; 5]);
        assert_eq!([add(0), add(9)], [Level::OverLimit; 2]);
        assert_eq!([add(10), add(10)], [Level::High, Level::OverLimit]);
        let passed = (11..1011).filter(|&ms| add(ms) != Level::OverLimit).count();
        assert_eq!(passed, 100);
        assert_eq!(add(5000), Level::Low, "unused rate is not saved up");
        for (rtt_ms, passed) in [(50, 15), (1000, 20)] {
            let far = Rate::new(100, 10, Duration::from_millis(rtt_ms));
            let mut bucket = LeakyBucket::new(start);
            let passed_at_once =
                (0..200).filter(|_| bucket.add(far, start) != Level::OverLimit).count();
            assert_eq!(passed_at_once, passed, "{rtt_ms} ms away");
        }
    }
}
