//! Wakes a waiting thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::Wake;

/// Interrupts [`wait`](crate::Io::wait) of another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Creates a waker.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Resets the waker after it has woken the thread.
    pub fn clear(&self) {
        self.take();
    }

    /// Resets the waker. Returns whether it was used since the last time.
    pub(crate) fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

/// Several calls before the thread wakes count once.
///
/// # Cost
/// One system call.
impl Wake for Waker {
    fn wake(&self) {
        // Fails only if the counter is full, and then the thread is being woken already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
