//! If a switch refuses a match, the flow entries of all switches get a simpler one, until that switch has
//! disconnected or reconnected.
//!
//! Flow entries with different matches overlap, so all switches must use the same. Simpler ones have a higher
//! priority: where both exist, the path that was installed last is used, as among entries with one match. When finer
//! matches are used again, the simpler entries are deleted, since they would hide the finer ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, ErrorType};
use sluice_sdk::view::{AppRecord, NetworkView};
use sluice_sdk::{Ctx, Network};

use super::flow_entries::EntrySelector;
use super::repair::{REPEAT_AFTER, Stale};
use super::{Config, Forwarding, Matching, debug_assert_encoded, flow_entries};

/// The simplest match that a switch has refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RefusedMatch {
    /// [`Matching::rank`] of that match.
    pub(super) rank: u8,
}

impl AppRecord for RefusedMatch {
    type Key = DatapathId;
}

/// The rank of the simplest match that a switch has refused, if it has refused any.
pub(super) fn refused_rank(view: &NetworkView, id: DatapathId) -> Option<u8> {
    view.record(id).map(|&RefusedMatch { rank }| rank)
}

/// [`refused_rank`] of all switches that have refused a match.
fn refused_ranks(view: &NetworkView) -> impl Iterator<Item = u8> {
    view.records().map(|(_, &RefusedMatch { rank })| rank)
}

impl Matching {
    /// From the finest to the simplest.
    const ALL: [Self; 3] = [Self::FiveTuple, Self::Pair, Self::Dst];

    /// The number of finer matches.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::FiveTuple => 0,
            Self::Pair => 1,
            Self::Dst => 2,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::FiveTuple => "five-tuple",
            Self::Pair => "pair",
            Self::Dst => "dst",
        }
    }

    fn of_rank(rank: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|matching| matching.rank() == rank)
    }
}

/// `cfg` with the match of this rank, if that is simpler than the configured one.
fn config_for_rank(cfg: &Config, rank: u8) -> Config {
    let Some(matching) = Matching::of_rank(rank.max(cfg.matching.rank())) else {
        return cfg.clone();
    };
    let steps = matching.rank() - cfg.matching.rank();
    Config { matching, priority: cfg.priority.saturating_add(steps.into()), ..cfg.clone() }
}

/// Switches whose refused match is recorded. Beyond, it is recorded only if it makes all entries simpler.
const REFUSED_MATCHES_MAX: usize = 4096;

/// When refused matches are forgotten, so that a finer match is tried again.
///
/// Each attempt installs all paths anew, and once more if it fails. So the switch must have disconnected or
/// reconnected for a while, and that while doubles each time that a finer match fails too soon.
#[derive(Debug, Default)]
pub(super) struct Retries {
    due: BTreeMap<DatapathId, Instant>,
    /// When finer matches came into use, until simpler ones do.
    finer_since: Option<Instant>,
    /// Consecutive attempts that failed.
    failed_attempts: u32,
    /// The rank of the simplest match used so far: switches that were disconnected may have entries with it.
    simplest_used: u8,
}

/// Shortest and longest time until the next attempt, whatever is configured.
const RETRY_LIMITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

impl Retries {
    /// Time until the next attempt; `base` if none has failed.
    fn time(&self, base: Duration) -> Duration {
        let [shortest, longest] = RETRY_LIMITS;
        let base = base.max(shortest);
        base.saturating_mul(1 << self.failed_attempts.min(16)).min(base.max(longest))
    }

    fn became_finer(&mut self, now: Instant) {
        self.finer_since = Some(now);
    }

    fn became_simpler(&mut self, now: Instant, base: Duration) {
        if let Some(since) = self.finer_since.take() {
            let has_lasted = now.saturating_duration_since(since) >= self.time(base);
            self.failed_attempts =
                if has_lasted { 0 } else { self.failed_attempts.saturating_add(1) };
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<DatapathId> {
        let due = self.due.iter().filter(|&(_, &at)| at <= now).map(|(&id, _)| id).collect();
        self.due.retain(|_, at| *at > now);
        due
    }
}

impl Forwarding {
    /// Uses the configured match, or the finest that all switches support.
    pub(super) fn apply_matching(&mut self) {
        self.cfg = config_for_rank(&self.configured, self.matching_rank_min);
        self.pending.clear();
        for fast_path in self.fast_paths.iter_mut().flatten() {
            fast_path.configure(&self.cfg);
        }
    }

    /// Handles a refused flow entry. Returns `true` if the switch does not support the match and a simpler one can be
    /// used. An entry with a simpler match may already be in flight.
    pub(super) fn fall_back(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) -> bool {
        if error.reason.kind() != ErrorType::BAD_MATCH {
            return false;
        }
        let refused =
            error.cookie().and_then(|cookie| Matching::of_rank(flow_entries::rank(cookie)));
        let next = refused.and_then(|matching| Matching::of_rank(matching.rank() + 1));
        let (Some(refused), Some(next)) = (refused, next) else { return false };
        let (id, reason, view) = (ctx.datapath_id, error.reason, ctx.view());
        if refused_rank(view, id).is_some_and(|known| known >= refused.rank()) {
            return true;
        }
        let is_step = next.rank() > self.cfg.matching.rank()
            && refused_ranks(view).all(|known| known < refused.rank());
        if !is_step && refused_ranks(view).count() >= REFUSED_MATCHES_MAX {
            return true;
        }
        ctx.publish_record(id, Some(RefusedMatch { rank: refused.rank() }));
        if is_step {
            ctx.network.report(|| {
                let (refused, next) = (refused.name(), next.name());
                format!("switch does not support forwarding.match = \"{refused}\"; the flow entries of all switches match \"{next}\" instead dpid={id} reason=\"{reason}\"")
            });
        }
        true
    }

    /// A switch has disconnected or reconnected: after a while, the match that it refused is tried again.
    pub(super) fn schedule_retry(&mut self, id: DatapathId, now: Instant, view: &NetworkView) {
        if refused_rank(view, id).is_some() {
            let due = now + self.retries.time(self.cfg.refused_retry);
            self.retries.due.insert(id, due);
        }
    }

    /// Deletes simpler entries of a switch that has connected: it may have been disconnected when finer matches came
    /// into use.
    pub(super) fn delete_simpler_entries(&mut self, ctx: &mut Ctx<'_>) {
        let selector = EntrySelector::of(ctx.switch.version());
        let simpler = self.cfg.matching.rank() + 1..=self.retries.simplest_used;
        for deletion in simpler.filter_map(|rank| selector.delete_by_rank(rank)) {
            debug_assert_encoded(ctx.switch.flow_mod(&deletion));
            self.counters.stale_deletions += 1;
        }
    }

    /// Forgets matches refused by switches that disconnected or reconnected long enough ago. All workers do this,
    /// with the same result.
    pub(super) fn expire_refused_matches(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.retries.take_due(ctx.now) {
            ctx.publish_record::<RefusedMatch>(id, None);
        }
    }

    /// A switch has refused the match of rank `rank`; `None` if that is forgotten. Returns the number of deletions
    /// sent.
    pub(super) fn on_refused_match(
        &mut self,
        id: DatapathId,
        rank: Option<u8>,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        self.retries.due.remove(&id);
        self.switches.set_refused_match(id, rank.is_some());
        if network.view().switch(id).is_none() {
            self.schedule_retry(id, now, network.view());
        }
        let simplest = refused_ranks(network.view()).max();
        self.matching_rank_min = simplest.map_or(0, |rank| rank.saturating_add(1));
        let (old, new) =
            (self.cfg.matching, config_for_rank(&self.configured, self.matching_rank_min).matching);
        if new == old {
            return 0;
        }
        self.apply_matching();
        self.repair.keep_matching(new.rank());
        // All workers receive the fact; one logs it.
        let is_first = network.worker() == 0;
        if new.rank() > old.rank() {
            self.retries.became_simpler(now, self.cfg.refused_retry);
            self.retries.simplest_used = self.retries.simplest_used.max(new.rank());
            if is_first {
                self.counters.match_simplified += u64::from(new.rank() - old.rank());
            }
        } else {
            self.retries.became_finer(now);
            self.switches.query_again(now + REPEAT_AFTER);
            if is_first {
                network.report(|| restored_message(new, self.configured.matching));
            }
        }
        let others =
            Matching::ALL.into_iter().filter(|&matching| matching != new).map(Matching::rank);
        let range = old.rank().min(new.rank())..=old.rank().max(new.rank());
        let stale = others.filter(|rank| range.contains(rank)).map(Stale::Matching);
        stale.map(|stale| self.repair.delete_stale(stale, now, &mut self.switches, network)).sum()
    }
}

/// Log line when finer matches are used again.
fn restored_message(matching: Matching, configured: Matching) -> String {
    let (name, as_configured) =
        (matching.name(), if matching == configured { ", as configured" } else { "" });
    format!(
        "flow entries of all switches match \"{name}\" again{as_configured}: the switch that refused this has disconnected or reconnected"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_simpler_match_and_a_higher_priority() {
        let steps = |matching, priority| {
            let cfg = Config { matching, priority, ..Config::default() };
            [0, 1, 2, 9].map(|rank| {
                let now = config_for_rank(&cfg, rank);
                (now.matching, now.priority)
            })
        };
        let (five, pair, dst) = (Matching::FiveTuple, Matching::Pair, Matching::Dst);
        assert_eq!(steps(five, 100), [(five, 100), (pair, 101), (dst, 102), (five, 100)]);
        assert_eq!(steps(pair, 7), [(pair, 7), (pair, 7), (dst, 8), (pair, 7)]);
        assert_eq!(steps(dst, 65_535)[2], (dst, 65_535));
    }

    #[test]
    fn the_log_line_says_if_the_match_is_the_configured_one() {
        let why = "the switch that refused this has disconnected or reconnected";
        let [pair, five] =
            [Matching::Pair, Matching::FiveTuple].map(|set| restored_message(Matching::Pair, set));
        assert_eq!(
            pair,
            format!("flow entries of all switches match \"pair\" again, as configured: {why}")
        );
        assert_eq!(five, format!("flow entries of all switches match \"pair\" again: {why}"));
    }

    #[test]
    fn the_retry_time_doubles_with_each_failure_and_starts_over_after_a_success() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let (start, s) = (Instant::now(), Duration::from_secs);
        let (mut retries, base) = (Retries::default(), s(10));
        let mut now = start;
        let mut fail_after = |time| {
            retries.became_finer(now);
            now += time;
            retries.became_simpler(now, base);
            // A second step of the same failure.
            retries.became_simpler(now, base);
            retries.time(base)
        };
        assert_eq!([fail_after(s(1)), fail_after(s(19)), fail_after(s(1))], [s(20), s(40), s(80)]);
        assert_eq!([fail_after(s(80)), fail_after(s(9))], [s(10), s(20)]);
        assert_eq!((0..40).map(|_| fail_after(s(0))).max(), Some(s(3600)));
        let others = [Duration::ZERO, s(7200)];
        assert_eq!(others.map(|base| Retries::default().time(base)), [s(1), s(7200)]);
    }
}
