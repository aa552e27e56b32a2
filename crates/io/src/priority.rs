//! Threads that must not be late.

use std::io;
use std::num::NonZeroU64;

use rustix::thread::set_current_timer_slack;

/// The rank among threads of `SCHED_FIFO`: before everything that has none, behind what the system itself needs.
pub const FIFO_PRIORITY: u8 = 10;

/// Lets timers of the calling thread be as punctual as the system can, without any privilege.
///
/// # Kernel
/// Linux 2.6.28; before that, and where it fails, timers are late by some 50 µs.
pub fn minimize_timer_slack() {
    // Nothing depends on it but how late things are, and that is measured.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets the calling thread run before all that are not in `SCHED_FIFO`, whenever it has something to do.
///
/// # Errors
/// `PermissionDenied` without the right to (`CAP_SYS_NICE`, or a limit on `rtprio` of at least [`FIFO_PRIORITY`]).
#[expect(unsafe_code, reason = "a call that rustix does not have")]
pub fn use_realtime_priority() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: FIFO_PRIORITY.into() };
    // SAFETY: 0 is the calling thread, and the parameter is read during the call only.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
