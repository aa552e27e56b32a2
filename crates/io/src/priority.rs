//! Timer precision and real-time priority of threads.

use std::io;
use std::num::NonZeroU64;

use rustix::thread::set_current_timer_slack;

/// Priority in `SCHED_FIFO`, 1 to 99: above all threads of other classes, below the threads of the kernel.
pub const FIFO_PRIORITY: u8 = 10;

/// Sets the timer slack of the calling thread to the minimum. Needs no privilege.
///
/// # Kernel
/// Linux 2.6.28; otherwise timers are late by about 50 µs.
pub fn minimize_timer_slack() {
    // If it fails, only delays are longer, and they are measured.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// How much nicer threads are that answer people.
const BACKGROUND_NICE: i32 = 10;

/// Lets all threads with the usual priority go first: for threads that share the cores of workers. Needs no privilege.
pub fn use_background_priority() {
    // If it fails, this thread has the same share as others.
    let _ = rustix::process::nice(BACKGROUND_NICE);
}

/// Moves the calling thread to the scheduling class `SCHED_FIFO`.
///
/// # Errors
/// `PermissionDenied` without the capability `CAP_SYS_NICE` or a limit `rtprio` of at least [`FIFO_PRIORITY`].
#[expect(unsafe_code, reason = "rustix has no such function")]
pub fn use_realtime_priority() -> io::Result<()> {
    // The system call itself, since the function of musl always fails. Its parameter is a structure with this number only.
    let priority = libc::c_int::from(FIFO_PRIORITY);
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: 0 is the calling thread, and the parameter is only read during the call.
    match unsafe { libc::syscall(call, 0, libc::SCHED_FIFO, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
