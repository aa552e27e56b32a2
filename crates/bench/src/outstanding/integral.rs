//! How many requests of a thread were outstanding on average.

use crate::timestamp::Timestamp;

/// Number of outstanding requests, and its integral over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutstandingIntegral {
    current: i64,
    since: Timestamp,
    /// In request-ticks.
    area: i64,
}

impl OutstandingIntegral {
    /// Number of outstanding requests.
    #[inline]
    pub(crate) fn current(&self) -> i64 {
        self.current
    }

    /// The integral until `now`, in request-ticks.
    pub(crate) fn area_until(&mut self, now: Timestamp) -> i64 {
        self.change(now, 0);
        self.area
    }

    /// Adds the time for which requests were outstanding before they were counted, in request-ticks.
    #[inline]
    pub(crate) fn add_area(&mut self, area: i64) {
        self.area += area;
    }

    /// The number of outstanding requests changes.
    #[inline]
    pub(crate) fn change(&mut self, now: Timestamp, by: i64) {
        self.area += self.current * i64::from(now.wrapping_sub(self.since));
        self.current += by;
        self.since = now;
    }
}
