//! The one place where time is read.

use std::time::{Duration, Instant, SystemTime};

/// The time now, for everything but dates.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place where time is read")]
pub fn now() -> Instant {
    Instant::now()
}

/// Time since 1970, for what must order processes and for people.
#[expect(clippy::disallowed_methods, reason = "the one place where time is read")]
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Lets at least `time` pass, for tools that have nothing to wait for.
#[expect(clippy::disallowed_methods, reason = "the one place where time is spent")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Processor time that the calling thread has used.
///
/// # Kernel
/// Linux 2.6.12.
pub fn thread_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    duration(t)
}

/// Processor time that the process has used, all threads together.
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
