//! Waits for a few file descriptors, with a precise timeout.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock;

/// Waits until one of `fds` is readable or has failed, or until `deadline`; returns for each whether it is.
///
/// # Errors
/// Errors of `ppoll`.
///
/// # Kernel
/// Linux 2.6.16. See [`priority`](crate::priority) for the precision.
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
