//! Clocks. No other code reads the time.

use std::time::{Duration, Instant, SystemTime};

/// The current time of the monotonic clock.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place where time is read")]
pub fn now() -> Instant {
    Instant::now()
}

/// Time since 1970-01-01 UTC.
#[expect(clippy::disallowed_methods, reason = "the one place where time is read")]
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Blocks the thread for at least `time`.
#[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// CPU time of the calling thread.
///
/// # Kernel
/// Linux 2.6.12.
pub fn thread_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    duration(t)
}

/// CPU time of all threads of the process.
///
/// # Kernel
/// Linux 2.6.12.
pub fn process_cpu() -> Duration {
    duration(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

fn duration(t: rustix::time::Timespec) -> Duration {
    let (s, ns) = (u64::try_from(t.tv_sec), u32::try_from(t.tv_nsec));
    Duration::new(s.unwrap_or(0), ns.unwrap_or(0))
}
