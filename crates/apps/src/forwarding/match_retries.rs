//! When matches that switches have refused are forgotten, so that a finer match is tried again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;

use super::Matching;
use super::match_fallback::REFUSED_MATCHES_MAX;

/// When refused matches are forgotten.
///
/// Each attempt installs paths anew, and once more if it fails. So the switch must have disconnected or reconnected for
/// a while, and that while doubles each time that a finer match fails, until one has been in use for an hour.
#[derive(Debug, Default)]
pub(super) struct Retries {
    due: BTreeMap<DatapathId, Instant>,
    /// For changes of all flow entries.
    pub(super) network: Attempts,
    /// For changes of the flow entries of one switch.
    own: BTreeMap<DatapathId, Attempts>,
    /// The rank of the simplest match used so far: switches that were disconnected may have entries with it.
    pub(super) simplest_used: u8,
}

/// Attempts to use finer matches.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Attempts {
    /// When finer matches came into use, until simpler ones do.
    finer_since: Option<Instant>,
    /// Attempts that failed since one succeeded.
    failed: u32,
}

/// Shortest time until the next attempt, whatever is configured.
const RETRY_TIME_MIN: Duration = Duration::from_secs(1);

/// Longest time until the next attempt, unless a longer one is configured.
const RETRY_TIME_MAX: Duration = Duration::from_secs(3600);

impl Attempts {
    /// Time until the next attempt; `base` if none has failed.
    fn time(self, base: Duration) -> Duration {
        let base = base.max(RETRY_TIME_MIN);
        base.saturating_mul(1 << self.failed.min(16)).min(base.max(RETRY_TIME_MAX))
    }

    /// Whether the last attempt has succeeded: finer matches have been in use for so long that a switch which is quiet for a
    /// while, and then refuses one again, cannot have all flow entries replaced often.
    fn has_succeeded(self, now: Instant, base: Duration) -> bool {
        let time = base.max(RETRY_TIME_MAX);
        self.finer_since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    fn changed(&mut self, [old, new]: [Matching; 2], now: Instant, base: Duration) {
        if new.rank() < old.rank() {
            self.finer_since = Some(now);
        } else if self.finer_since.is_some() {
            let failed = if self.has_succeeded(now, base) { 0 } else { self.failed };
            self.failed = failed.saturating_add(1);
            self.finer_since = None;
        }
    }
}

impl Retries {
    /// All flow entries match `new` instead of `old`.
    pub(super) fn network_changed(
        &mut self,
        [old, new]: [Matching; 2],
        now: Instant,
        base: Duration,
    ) {
        self.network.changed([old, new], now, base);
        self.simplest_used = self.simplest_used.max(new.rank());
    }

    /// The flow entries of a switch match `new` instead of `old`.
    pub(super) fn own_changed(
        &mut self,
        id: DatapathId,
        [old, new]: [Matching; 2],
        now: Instant,
        base: Duration,
    ) {
        self.simplest_used = self.simplest_used.max(new.rank());
        if new.rank() < old.rank() && !self.own.contains_key(&id) {
            self.own.retain(|_, attempts| !attempts.has_succeeded(now, base));
            if self.own.len() < REFUSED_MATCHES_MAX {
                self.own.insert(id, Attempts::default());
            }
        }
        if let Some(attempts) = self.own.get_mut(&id) {
            attempts.changed([old, new], now, base);
        }
    }

    /// A switch has disconnected or reconnected: the match that it refused is forgotten after a while.
    pub(super) fn schedule(
        &mut self,
        id: DatapathId,
        in_transit: bool,
        now: Instant,
        base: Duration,
    ) {
        let own = self.own.get(&id).copied().unwrap_or_default();
        let attempts = if in_transit { self.network } else { own };
        self.due.insert(id, now + attempts.time(base));
    }

    pub(super) fn cancel(&mut self, id: DatapathId) {
        self.due.remove(&id);
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Vec<DatapathId> {
        let due = self.due.iter().filter(|&(_, &at)| at <= now).map(|(&id, _)| id).collect();
        self.due.retain(|_, at| *at > now);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINER: [Matching; 2] = [Matching::Dst, Matching::Pair];
    const SIMPLER: [Matching; 2] = [Matching::Pair, Matching::Dst];

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn the_retry_time_doubles_with_each_failure_and_starts_over_after_a_success() {
        let (mut attempts, base) = (Attempts::default(), s(10));
        let mut now = now();
        let mut fail_after = |time| {
            attempts.changed(FINER, now, base);
            now += time;
            attempts.changed(SIMPLER, now, base);
            // A second step of the same failure.
            attempts.changed(SIMPLER, now, base);
            attempts.time(base)
        };
        assert_eq!([fail_after(s(1)), fail_after(s(19)), fail_after(s(1))], [s(20), s(40), s(80)]);
        assert_eq!([fail_after(s(3599)), fail_after(s(3600))], [s(160), s(20)]);
        assert_eq!((0..40).map(|_| fail_after(s(0))).max(), Some(s(3600)));
        let others = [Duration::ZERO, s(7200)];
        assert_eq!(others.map(|base| Attempts::default().time(base)), [s(1), s(7200)]);
    }

    #[test]
    fn failures_of_one_switch_do_not_delay_others_and_are_forgotten_after_a_success() {
        let (mut retries, base, start) = (Retries::default(), s(10), now());
        let [failing, other] = [1, 2].map(DatapathId);
        for n in 0..3 {
            retries.own_changed(failing, FINER, start + s(n), base);
            retries.own_changed(failing, SIMPLER, start + s(n), base);
        }
        let in_transit = DatapathId(3);
        let schedule = |retries: &mut Retries| {
            for id in [failing, other, in_transit] {
                retries.schedule(id, id == in_transit, start, base);
            }
        };
        schedule(&mut retries);
        assert_eq!(retries.take_due(start + s(10)), [other, in_transit]);
        retries.network_changed(FINER, start, base);
        retries.network_changed(SIMPLER, start, base);
        schedule(&mut retries);
        assert_eq!(retries.take_due(start + s(10)), [other]);
        assert_eq!(retries.take_due(start + s(20)), [in_transit]);
        assert_eq!(retries.take_due(start + s(80)), [failing]);
        retries.own_changed(failing, FINER, start, base);
        retries.own_changed(other, FINER, start + s(3600), base);
        assert_eq!(retries.own.keys().collect::<Vec<_>>(), [&other]);
    }

    #[test]
    fn the_failures_of_a_limited_number_of_switches_are_remembered() {
        let (mut retries, base, now) = (Retries::default(), s(10), now());
        for id in 0..10_000 {
            retries.own_changed(DatapathId(id), FINER, now, base);
        }
        assert_eq!(retries.own.len(), REFUSED_MATCHES_MAX);
    }
}
