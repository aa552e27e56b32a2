//! For how long a switch gets no flow entries of a kind after it failed to handle them.

use std::time::{Duration, Instant};

/// Longest of these times; a switch that has not failed for as long after one is over starts anew.
const BACKOFF_MAX: Duration = Duration::from_secs(3600);

/// A time without flow entries, which doubles with each failure.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    /// The last of these times, and when it is over.
    last: Option<(Duration, Instant)>,
}

impl Backoff {
    /// A switch that has not failed; `first` is the time after its first failure.
    pub(super) fn new(first: Duration) -> Self {
        Self { first, last: None }
    }

    /// The switch has failed. Failures within such a time count once.
    pub(super) fn on_failure(&mut self, now: Instant) {
        let time = match self.last {
            Some((_, until)) if now < until => return,
            Some((time, until)) if now < until + BACKOFF_MAX => (time * 2).min(BACKOFF_MAX),
            _ => self.first,
        };
        self.last = Some((time, now + time));
    }

    /// Whether the next failure counts as another one, and not as the first.
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.last.is_some_and(|(_, until)| now < until + BACKOFF_MAX)
    }

    /// Whether the switch gets no entries now.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.last.is_some_and(|(_, until)| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_time_up_to_an_hour() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let mut now = Instant::now();
        let mut backoff = Backoff::new(Duration::from_secs(600));
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
        now += BACKOFF_MAX;
        assert!(!backoff.is_remembered(now));
        backoff.on_failure(now);
        assert!(!backoff.is_active(now + Duration::from_secs(600)));
    }
}
