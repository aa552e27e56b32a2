//! Counts refused tokens, so that a client that tries many fills neither the log nor the time of the API.

use std::time::{Duration, Instant};

use crate::peer::Source;

/// Refused tokens of one source within [`WINDOW`] that are logged and answered with the reason; further ones are answered with 429.
const FAILURES_MAX: u32 = 10;

/// After it the count starts again.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Sources that are counted; for one more, the one that was counted first is forgotten.
const SOURCES_MAX: usize = 256;

/// Refused tokens per source. Accepted tokens are never delayed: others behind the same address may have one.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<SourceFailures>);

#[derive(Debug)]
struct SourceFailures {
    source: Source,
    since: Instant,
    count: u32,
}

impl Failures {
    /// Counts a refused token. Whether there were too many.
    pub(super) fn count(&mut self, source: Source, now: Instant) -> bool {
        self.0.retain(|it| now.saturating_duration_since(it.since) < WINDOW);
        if let Some(known) = self.0.iter_mut().find(|it| it.source == source) {
            known.count = known.count.saturating_add(1);
            return known.count > FAILURES_MAX;
        }
        if self.0.len() >= SOURCES_MAX {
            self.0.remove(0);
        }
        self.0.push(SourceFailures { source, since: now, count: 1 });
        false
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn a_source_that_fails_too_often_is_refused_until_the_window_ends() {
        let (mut failures, start) = (Failures::default(), clock::now());
        let source = |n: u32| Source::User(Some(n));
        for _ in 0..FAILURES_MAX {
            assert!(!failures.count(source(1), start));
        }
        assert!(failures.count(source(1), start));
        assert!(!failures.count(source(2), start));
        assert!(failures.count(source(1), start + WINDOW / 2));
        assert!(!failures.count(source(1), start + WINDOW));
        for n in 0..1000 {
            failures.count(source(n), start + WINDOW);
        }
        assert_eq!(failures.0.len(), SOURCES_MAX);
    }
}
