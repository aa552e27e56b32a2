//! Times of requests in ticks, which take half the memory of nanoseconds.

use std::time::Duration;

/// Nanoseconds per tick of a [`Timestamp`].
pub(crate) const TICK_NS: u64 = 16;

/// The same as a rate.
pub(crate) const TICKS_PER_S: Timestamp = 62_500_000;

const _: () = assert!(TICKS_PER_S as u64 * TICK_NS == 1_000_000_000);

/// Ticks of 16 ns since the thread started; wraps after 68 s.
///
/// No request is remembered for so long: see [`AGE_MAX`](crate::overtaken::AGE_MAX).
pub(crate) type Timestamp = u32;

/// A duration in ticks, rounded down.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "2⁶⁴ ns are centuries")]
pub(crate) fn ticks(time: Duration) -> u64 {
    time.as_nanos() as u64 / TICK_NS
}
