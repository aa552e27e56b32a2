//! Times for which the worker answers, since the kernel was slower.

use std::time::{Duration, Instant};

/// For how long the worker answers when the kernel was slower. The time doubles each time.
pub(super) const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// When the kernel does not answer.
#[derive(Debug)]
pub(super) struct Pauses {
    /// End of the last pause, until which the worker answers.
    until: Option<Instant>,
    /// Length of the next one.
    next: Duration,
    /// Whether a pause has ended before its time.
    has_ended_early: bool,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { until: None, next: PAUSE_MIN, has_ended_early: false }
    }
}

impl Pauses {
    /// Whether the kernel may answer.
    pub(super) fn may_answer(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Begins a pause. Returns its length.
    pub(super) fn begin(&mut self, now: Instant) -> Duration {
        let pause = self.next;
        self.until = Some(now + pause);
        self.next = (pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Ends a pause before its time, unless another one has ended so and the kernel has not been quick for long since. The next pause is as long as if
    /// this one had not ended.
    pub(super) fn end_early(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_ended_early, true) {
            self.until = Some(now);
        }
    }

    /// Takes note that the kernel is quick. The next pause is as short as the first one again if that has been so for as long as the pause would take.
    pub(super) fn record_quick(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until + self.next) {
            *self = Self::default();
        }
    }
}
