//! Waking a thread that waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Ends another thread's [`wait`](crate::Io::wait).
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// One that nobody waits for yet.
    ///
    /// # Errors
    /// Too few file descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Wakes. Many times before the thread looks count once.
    ///
    /// # Cost
    /// One system call.
    pub fn wake(&self) {
        // It can only fail when the counter is full, and then the thread is as good as woken.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets that it was woken, so that waiting for it takes until the next time.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
