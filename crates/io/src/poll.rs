//! Waits for a few things at once, to within microseconds.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock;

/// Waits until one of `fds` can be read from or has failed, or until `deadline`; says of each whether it is ready.
///
/// # Errors
/// What the system says.
///
/// # Kernel
/// Linux 2.6.16. How late it wakes is up to [`priority`](crate::priority).
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    deadline: Option<Instant>,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = deadline.map(|deadline| {
        let left = deadline.saturating_duration_since(clock::now());
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        }
    });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.map(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(e) => Err(e.into()),
    }
}
