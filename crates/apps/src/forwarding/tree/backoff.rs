//! For how long a switch gets no flow entries of a kind after it failed to handle them, or a link is not part of a tree after it failed.

use std::time::{Duration, Instant};

/// A time without flow entries, which doubles with each failure.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    /// Longest of these times; without a failure for as long after one is over, the next is the first again.
    max: Duration,
    /// The last of these times, and when it is over.
    last: Option<(Duration, Instant)>,
}

impl Backoff {
    /// No failure yet; `first` is the time after the first one, `max` the longest.
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, last: None }
    }

    /// Counts a failure. Failures within such a time count once.
    pub(super) fn on_failure(&mut self, now: Instant) {
        let time = match self.last {
            Some((_, until)) if now < until => return,
            Some((time, until)) if now < until + self.max => (time * 2).min(self.max),
            _ => self.first,
        };
        self.last = Some((time, now + time));
    }

    /// Whether the next failure counts as another one, and not as the first.
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.remembered_until().is_some_and(|until| now < until)
    }

    /// Until when the next failure counts as another one; `None` if there was none.
    pub(super) fn remembered_until(&self) -> Option<Instant> {
        self.last.map(|(_, until)| until + self.max)
    }

    /// Whether the time is not over.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.end(now).is_some()
    }

    /// When the time is over, if it is not.
    pub(super) fn end(&self, now: Instant) -> Option<Instant> {
        self.last.map(|(_, until)| until).filter(|&until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_time_up_to_an_hour() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let mut now = Instant::now();
        let max = Duration::from_secs(3600);
        let mut backoff = Backoff::new(Duration::from_secs(600), max);
        assert!(!backoff.is_active(now) && !backoff.is_remembered(now));
        for seconds in [600, 1200, 2400, 3600, 3600] {
            backoff.on_failure(now);
            assert!(backoff.is_remembered(now));
            let almost = now + Duration::from_secs(seconds - 1);
            backoff.on_failure(almost);
            assert!(backoff.is_active(almost), "{seconds}");
            now += Duration::from_secs(seconds);
            assert!(!backoff.is_active(now), "{seconds}");
        }
        now += max;
        assert!(!backoff.is_remembered(now));
        backoff.on_failure(now);
        assert!(!backoff.is_active(now + Duration::from_secs(600)));
    }
}
