//! Timers of applications.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

/// Timers that the applications of a worker may have set at one time. An application with more things to wait for sets a timer for
/// the first and keeps a list of its own.
pub const TIMERS_MAX: usize = 65_536;

/// Timers that expire in one event-loop iteration. The rest expires in the next ones, so that switches are served in between.
pub(crate) const EXPIRED_MAX: usize = 256;

/// Identifies a timer: unique among those of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId {
    at: Instant,
    number: u64,
}

impl TimerId {
    /// When it expires.
    pub const fn at(self) -> Instant {
        self.at
    }
}

/// The applications of this worker have [`TIMERS_MAX`] timers already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTimers;

impl fmt::Display for TooManyTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TIMERS_MAX} timers are set already")
    }
}

impl std::error::Error for TooManyTimers {}

/// The timers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By time; of the same time, in the order in which they were set.
    set: BTreeSet<TimerId>,
    last: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant) -> Result<TimerId, TooManyTimers> {
        if self.set.len() >= TIMERS_MAX {
            return Err(TooManyTimers);
        }
        self.last += 1;
        let id = TimerId { at, number: self.last };
        self.set.insert(id);
        Ok(id)
    }

    pub(crate) fn cancel(&mut self, id: TimerId) -> bool {
        self.set.remove(&id)
    }

    /// When the next one expires.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.set.first().map(|id| id.at)
    }

    /// Takes the next one that has expired.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<TimerId> {
        if self.next()? > now {
            return None;
        }
        self.set.pop_first()
    }
}
