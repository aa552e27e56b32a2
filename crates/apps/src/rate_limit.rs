//! Limits of events per second, and the shortest interval between events with the same key.

use std::hash::Hash;
use std::time::{Duration, Instant};

use sluice_base::HashMap;

/// Counts events in the second that begins with the first of them.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Option<(Instant, u32)>);

impl RateLimit {
    /// Counts an event. Returns `false` if there were `max` in this second before.
    pub(crate) fn admit(&mut self, max: u32, now: Instant) -> bool {
        if self.is_over(now) {
            self.0 = None;
        }
        let (_, count) = self.0.get_or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= max
    }

    /// Whether the second is over, so that nothing is lost if the limit is forgotten.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_older_than(Duration::from_secs(1), now)
    }

    /// Whether the last second with an event began before this time, or there was none.
    pub(crate) fn is_older_than(&self, age: Duration, now: Instant) -> bool {
        self.0.is_none_or(|(since, _)| now.saturating_duration_since(since) >= age)
    }
}

/// Whether the last time of `key` is at least an interval ago, or there is none; if so, this is the next. `false` if there are
/// `max` others within an interval.
pub(crate) fn admit_after<K: Hash + Eq>(
    interval: Duration,
    max: usize,
    last: &mut HashMap<K, Instant>,
    key: K,
    now: Instant,
) -> bool {
    let is_recent = |at: &Instant| now.saturating_duration_since(*at) < interval;
    if last.len() >= max && !last.contains_key(&key) {
        last.retain(|_, at| is_recent(at));
    }
    let is_admitted = last.get(&key).map_or(last.len() < max, |at| !is_recent(at));
    if is_admitted {
        last.insert(key, now);
    }
    is_admitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_each_second_are_counted_anew() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let mut limit = RateLimit::default();
        assert!(limit.is_over(start));
        let mut admit = |ms| limit.admit(2, start + Duration::from_millis(ms));
        assert_eq!(
            [0, 500, 999, 1000, 1900, 1999, 2000].map(&mut admit),
            [true, true, false, true, true, false, true]
        );
        assert!(!limit.is_over(start + Duration::from_millis(2999)));
        assert!(limit.is_over(start + Duration::from_secs(3)));
    }
}
